//! The user's own policy, and the options of the session that judges a conversation.

use std::{env, path::Path, sync::Arc};

use mcpmon_config::{LoadedConfiguration, Trust};
use mcpmon_detect::{session::session, starter::Ancestor};
use mcpmon_engine::launch_rules;
use mcpmon_model::{Conversation, Layer, ServerType};
use mcpmon_pins::Root;
use mcpmon_policy::Policy;

use super::{WrapError, WrapOptions, identity, session_name};
use crate::app::{host, linked::CommandFiles};

/// Returns the server's name before its id is known.
pub(super) fn name(options: &WrapOptions) -> String {
    match (&options.server, &options.remote) {
        (Some(server), _) => server.to_string(),
        (None, Some(remote)) => remote.at.clone(),
        (None, None) => options.program.to_string_lossy().into_owned(),
    }
}

/// Returns the user's own configuration, and the policy that holds until the daemon's is known.
pub(super) fn own_policy(options: &WrapOptions) -> (LoadedConfiguration, Arc<Policy>) {
    let trust = Trust::for_user(nix::unistd::geteuid().as_raw());
    let loaded = mcpmon_session::own_policy(&options.search, trust, options.store.as_deref());
    let of_host = || mcpmon_config::load(&options.search.of_host(), trust).ok();
    let policy = match &loaded.instead_of {
        None => Arc::clone(&loaded.policy),
        // Under a daemon, a mistake in the user's own file stops nothing.
        Some(_) => of_host().map_or_else(|| Arc::clone(&loaded.policy), |loaded| loaded.policy),
    };
    (loaded, policy)
}

/// Returns the options of the session that judges this conversation. The user's own policy determines the server's
/// identity.
pub(super) fn judged(
    options: &WrapOptions,
    ancestors: &[Ancestor],
) -> Result<mcpmon_session::Options, WrapError> {
    let (loaded, policy) = own_policy(options);
    let policy = &policy;
    let argv = identity::command(options);
    let name = session_name();
    let session = session(ancestors, name.as_deref(), &host::boot());
    let session_id = session.as_ref().map(|session| session.id.clone());
    let given = options.server.as_ref();
    Ok(mcpmon_session::Options {
        search: options.search.clone(),
        trust: Trust::for_user(nix::unistd::geteuid().as_raw()),
        socket: Some(options.socket.clone()),
        db: options.store.clone(),
        conversation: match &options.remote {
            Some(remote) => remote.conversation(policy, given, session_id)?,
            None => Conversation {
                identity: identity::of(policy, &launch_rules(policy), given, &argv, &command_files(&argv)),
                server_type: ServerType::Stdio,
                session: session_id,
                layer: Layer::Stdio,
            },
        },
        agent: session.map(|session| session.agent),
        loaded: Some(loaded),
    })
}

/// Returns what the files of a command tell, as this process would find them.
pub(super) fn command_files(argv: &[String]) -> CommandFiles {
    let directory = env::current_dir().unwrap_or_default();
    let Ok(root) = Root::at(Path::new("/")) else {
        return CommandFiles::default();
    };
    CommandFiles::of(&root, &directory, env::var_os("PATH").as_deref(), argv)
}
