//! The recent calls of every session, held for its wrappers: each call is checked and counted in one step.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use mcpmon_core::{
    decide::cross_server::Window,
    model::{Checked, Recent, SessionId, SharedCall, Timestamp},
    policy::Policy,
};

use super::lock;
use crate::{
    config::{Sources, load_sources},
    record::Member,
};

/// Sessions whose calls are held.
const MAX_SESSIONS: usize = 1024;

/// Recent calls by user and session, and the policy they are checked by.
#[derive(Debug)]
pub(super) struct Sessions {
    policy: Mutex<Arc<Policy>>,
    windows: Mutex<BTreeMap<(u32, SessionId), Window>>,
}

impl Sessions {
    /// Without any session.
    pub(super) fn new(policy: &Sources) -> Self {
        let sessions = Self {
            policy: Mutex::default(),
            windows: Mutex::default(),
        };
        sessions.adopt(policy);
        sessions
    }

    /// Calls are checked by another policy from now on.
    pub(super) fn adopt(&self, policy: &Sources) {
        match load_sources(policy) {
            Ok(loaded) => *lock(&self.policy) = loaded.policy,
            // It was compiled before it came here.
            Err(error) => {
                tracing::error!(%error, "calls to several servers are checked by the policy before")
            }
        }
    }

    /// Checks a call of `member`, and counts it.
    pub(super) fn check(&self, member: &Member, call: &SharedCall) -> Checked {
        let policy = Arc::clone(&lock(&self.policy));
        self.with(member, call.at, |window| window.admit(&policy, call).0)
    }

    /// Takes in what happened to `member`.
    pub(super) fn take(&self, member: &Member, recent: Vec<Recent>) {
        let Some(latest) = recent.iter().map(Recent::at).max() else {
            return;
        };
        self.with(member, latest, |window| {
            recent.into_iter().for_each(|recent| window.take(recent))
        });
    }

    fn with<T>(&self, member: &Member, now: Timestamp, work: impl FnOnce(&mut Window) -> T) -> T {
        let mut windows = lock(&self.windows);
        let key = (member.identity.uid, member.session.clone());
        if !windows.contains_key(&key) && windows.len() >= MAX_SESSIONS {
            let policy = Arc::clone(&lock(&self.policy));
            windows.retain(|_, window| !window.is_over(now, &policy));
            if windows.len() >= MAX_SESSIONS {
                windows.pop_first();
            }
        }
        work(windows.entry(key).or_default())
    }
}
