//! The holder of a session's calls: the daemon, in its memory, or the store.

use std::{path::Path, sync::Arc};

use mcpmon_engine::SharedOutcome;
use mcpmon_model::{PinKey, Recent, ServerId, SessionId, SharedCall};
use mcpmon_policy::Policy;
use mcpmon_store::SessionMember;

use crate::{calls::StoredCalls, hosted::DaemonServices, process};

/// The name of the LLM proxy among the members of a session.
const NAME: &str = "mcpmon-llm";

/// Holds the calls of one session.
#[derive(Debug)]
pub(super) enum CallHolder {
    /// The daemon, in this process; the member stands for the session in requests.
    Daemon(Arc<dyn DaemonServices>, Box<SessionMember>),
    /// The store.
    Store(Box<StoredCalls>),
}

impl CallHolder {
    /// The holder for `session` of the user `uid`: `host` if there is one, else the store at `path`.
    pub(super) fn of(
        session: &SessionId,
        uid: u32,
        host: Option<&Arc<dyn DaemonServices>>,
        path: &Path,
    ) -> Option<Self> {
        let Some(host) = host else {
            let calls = StoredCalls::new(path.to_owned(), session.clone());
            return Some(Self::Store(Box::new(calls)));
        };
        let member = SessionMember {
            session: session.clone(),
            agent: None,
            identity: PinKey {
                server: ServerId::new(NAME).ok()?,
                name: NAME.to_owned(),
                uid,
            },
            process: process::identify(std::process::id())?,
        };
        Some(Self::Daemon(Arc::clone(host), Box::new(member)))
    }

    /// Checks a call together with those of all processes of the session, and counts it. The daemon applies its own
    /// policy.
    pub(super) fn check(&mut self, policy: &Policy, call: &SharedCall) -> SharedOutcome {
        match self {
            Self::Daemon(host, member) => SharedOutcome::Checked(host.check(member, call.clone())),
            Self::Store(calls) => match calls.check(policy, call) {
                Ok(checked) => SharedOutcome::Checked(checked),
                Err(error) => {
                    tracing::warn!(%error, "a call is checked beside those alone that models want");
                    SharedOutcome::Unreachable
                }
            },
        }
    }

    /// Makes a recent call known to all processes of the session.
    pub(super) fn take(&mut self, recent: Recent) {
        match self {
            Self::Daemon(host, member) => host.take(member, recent),
            Self::Store(calls) => {
                if let Err(error) = calls.take(recent) {
                    tracing::warn!(%error, "wrappers do not hear what models want");
                }
            }
        }
    }
}
