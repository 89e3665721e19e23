//! The servers that the policy declares, for the store: listings show those too that nobody used yet.

use mcpmon_config::LoadedConfiguration;
use mcpmon_detect::mask::{mask_arguments, mask_text};
use mcpmon_model::ServerType;
use mcpmon_policy::Transport;
use mcpmon_store::{DeclaredServer, Recorder, command_line};

/// Tells the store which servers there are. The queue is empty at these times; a refusal shows in its status.
pub(super) fn declare(recorder: &Recorder, loaded: &LoadedConfiguration) {
    if recorder.declare(declared(loaded)).is_err() {
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
