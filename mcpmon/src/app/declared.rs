//! Puts the servers that the policy declares into the store, so that listings show servers that were never used.

use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::mask::{mask_arguments, mask_text};
use mcpmon_model::ServerType;
use mcpmon_policy::Transport;
use mcpmon_store::{DeclaredServer, Recorder, StoreEntry, Urgency, command_line};

/// Records the declared servers in the store. The queue is empty when this is called; a failure shows in the store's
/// status.
pub(super) fn declare(recorder: &Recorder, loaded: &LoadedConfiguration) {
    if recorder
        .put(StoreEntry::Declare(declared(loaded)), Urgency::InOrder)
        .is_err()
    {
        tracing::warn!("the store does not know the declared servers");
    }
}

fn declared(loaded: &LoadedConfiguration) -> Vec<DeclaredServer> {
    let servers = loaded.policy.servers.iter().map(|server| {
        let (server_type, command) = match &server.transport {
            Transport::Stdio { command, args } => {
                (ServerType::Stdio, command_line(command, &mask_arguments(args)))
            }
            Transport::Remote { server_type, url, .. } => (*server_type, mask_text(url)),
        };
        DeclaredServer {
            server_id: server.id.clone(),
            server_type,
            command,
        }
    });
    servers.collect()
}
