//! Remote servers for clients that start programs: the wrapper starts this same program as a bridge to the server.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use mcpmon_model::{Conversation, Digest, Layer, PinKey, ServerId, ServerType, SessionId};
use mcpmon_policy::Policy;
use mcpmon_stdio::OpenProgram;

use super::{
    WrapError, WrapOptions,
    certificates::{Certificates, number},
};
use crate::app::{
    bridge::{SETTINGS, VERB, settings},
    remote::{DestinationError, Header, RemoteDestination, ServerTransport, destination},
};

/// This program, even if its file was replaced or removed.
const OWN: &str = "/proc/self/exe";
/// The name of this client.
const NAME: &str = "mcpmon";

/// A remote server, as the user names it.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// Its URL, or the id of a declared server.
    pub at: String,
    /// The headers of every request.
    pub headers: Vec<Header>,
    /// The pinned certificate, in place of the policy's.
    pub pin: Option<Digest>,
    /// The transport, in place of the policy's.
    pub way: Option<ServerTransport>,
}

impl RemoteServer {
    /// Returns the server's destination under this policy.
    pub(super) fn destination(&self, policy: &Policy) -> Result<RemoteDestination, DestinationError> {
        let found = destination(policy, &self.at)?;
        let way = self.way.unwrap_or(found.way);
        RemoteDestination { way, ..found }.pinning(self.pin)
    }

    /// Returns the conversation for the session. The pins of its definitions are shared with other clients that reach
    /// the server over HTTP.
    pub(super) fn conversation(
        &self,
        policy: &Policy,
        given: Option<&ServerId>,
        session: Option<SessionId>,
    ) -> Result<Conversation, DestinationError> {
        let found = self.destination(policy)?;
        Ok(Conversation {
            identity: PinKey {
                server: given.cloned().unwrap_or(found.id),
                name: found.name,
                uid: nix::unistd::getuid().as_raw(),
            },
            server_type: match found.way {
                ServerTransport::Http => ServerType::Http,
                ServerTransport::Sse => ServerType::Sse,
            },
            session,
            layer: Layer::McpHttp,
        })
    }
}

/// The bridge that is started in place of a remote server.
pub(super) struct Stand {
    pub(super) program: OpenProgram,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// The reports about certificates, if one is pinned.
    pub(super) certificates: Option<Certificates>,
    /// The bridge's descriptor for those reports, until the bridge is started.
    pub(super) told: Option<OwnedFd>,
}

impl Stand {
    /// Prepares the bridge for this destination. It gets this process's whole environment: it is the same program, and
    /// needs the variables for proxies and certificates.
    pub(super) fn of(
        remote: &RemoteServer,
        found: &RemoteDestination,
        max_message: usize,
    ) -> io::Result<Self> {
        let mut environment: Vec<_> = env::vars_os().filter(|(name, _)| name != SETTINGS).collect();
        let (certificates, told) = found
            .pin
            .map(|pinned| Certificates::of(found.address.shown(), pinned))
            .transpose()?
            .unzip();
        let settings = settings(found, &remote.headers, max_message, told.as_ref().map(number));
        environment.push((SETTINGS.into(), settings));
        let path = env::current_exe().unwrap_or_else(|_| PathBuf::from(OWN));
        Ok(Self {
            program: OpenProgram {
                file: File::open(OWN)?,
                arguments: [NAME.to_owned(), VERB.to_owned(), found.address.shown()]
                    .map(OsString::from)
                    .to_vec(),
                path,
                scripts: Vec::new(),
            },
            environment,
            certificates,
            told,
        })
    }
}

/// Executes what is wrapped in place of this process: used by a wrapper that steps aside.
pub(super) fn become_wrapped(options: WrapOptions, policy: &Policy) -> WrapError {
    let (program, mut command) = match &options.remote {
        None => {
            let mut command = Command::new(&options.program);
            command.args(&options.arguments);
            (options.program.clone(), command)
        }
        Some(remote) => match remote.destination(policy) {
            Err(error) => return error.into(),
            Ok(found) => {
                let mut command = Command::new(OWN);
                let max_message = policy.limits.max_line;
                command
                    .arg0(NAME)
                    .args([VERB, &found.address.shown()])
                    .env(SETTINGS, settings(&found, &remote.headers, max_message, None));
                (Path::new(OWN).into(), command)
            }
        },
    };
    let source = command.exec();
    WrapError::Execute { program, source }
}
