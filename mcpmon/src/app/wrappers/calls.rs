//! Recent calls of every session, kept for its wrappers: each call is checked and counted in one step.
//!
//! The windows are in memory, and the recorder writes what is counted into the store, where the next run of the daemon
//! finds it. A check in a transaction of the store would wait for the records of all users.
//!
//! A wrapper's records are accepted for its own session only. Its times are not accepted: with a false time, calls
//! would expire that others have to be checked against.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use mcpmon_config::{Sources, load_sources};
use mcpmon_engine::cross_server::CallWindow;
use mcpmon_model::{Recent, SessionId, SharedCall, SharedCallAnswer, Timestamp};
use mcpmon_policy::Policy;
use mcpmon_store::{Recorder, SessionMember, StoreEntry, Urgency};

use super::lock;

/// Most sessions whose calls are kept, of all users and of one.
const MAX_SESSIONS: usize = 1024;
const MAX_OF_USER: usize = 128;
/// Most records that may wait while calls are written for the next run: no user displaces records of others with calls.
const MAX_QUEUED: usize = 4096;

/// Recent calls by user and session key, and the policy that calls are checked by.
#[derive(Debug)]
pub(super) struct SessionCalls {
    policy: Mutex<Arc<Policy>>,
    windows: Mutex<Windows>,
    recorder: Recorder,
}

type SessionKey = (u32, SessionId);
type Windows = BTreeMap<SessionKey, HeldCalls>;

/// The recent calls of one session.
#[derive(Debug, Default)]
struct HeldCalls {
    window: CallWindow,
    used: Timestamp,
}

impl SessionCalls {
    /// Makes the state of sessions with these earlier calls. `recorder` gets the later ones.
    pub(super) fn new(
        policy: &Sources,
        recorder: Recorder,
        now: Timestamp,
        earlier: Vec<(u32, SessionId, Recent)>,
    ) -> Self {
        let sessions = Self {
            policy: Mutex::default(),
            windows: Mutex::default(),
            recorder,
        };
        sessions.adopt(policy);
        for (uid, session, recent) in earlier {
            let recent = recent.not_after(now);
            sessions.with(recent.at(), (uid, session), |window| window.take(recent));
        }
        sessions
    }

    /// Replaces the policy that calls are checked by.
    pub(super) fn adopt(&self, policy: &Sources) {
        match load_sources(policy) {
            Ok(loaded) => *lock(&self.policy) = loaded.policy,
            // The policy was compiled before, so this does not happen.
            Err(error) => {
                tracing::error!(%error, "calls to several servers are checked by the policy before")
            }
        }
    }

    /// Checks a call that `member` makes now, and counts it.
    pub(super) fn check(&self, now: Timestamp, member: &SessionMember, call: SharedCall) -> SharedCallAnswer {
        let policy = Arc::clone(&lock(&self.policy));
        let call = SharedCall { at: now, ..call };
        let (checked, recent) = self.with(now, key(member), |window| window.admit(&policy, &call));
        self.store(member, recent);
        checked
    }

    /// Adds recent calls and events of `member`.
    pub(super) fn take(&self, now: Timestamp, member: &SessionMember, recent: Vec<Recent>) {
        if recent.is_empty() {
            return;
        }
        let recent: Vec<Recent> = recent.into_iter().map(|recent| recent.not_after(now)).collect();
        self.with(now, key(member), |window| {
            recent.iter().cloned().for_each(|recent| window.take(recent));
        });
        self.store(member, recent);
    }

    /// Writes what was counted, for the next run of the daemon.
    fn store(&self, member: &SessionMember, recent: impl IntoIterator<Item = Recent>) {
        for recent in recent {
            let uid = Some(member.identity.uid);
            let entry = StoreEntry::Recent(member.session.clone(), Box::new(recent), uid);
            let is_full = self.recorder.status().queued > MAX_QUEUED;
            if is_full || self.recorder.put(entry, Urgency::Soon).is_err() {
                tracing::debug!("a restarted daemon will not know a call");
            }
        }
    }

    /// Returns the sessions whose models had code run recently, each with its user.
    pub(super) fn with_code(&self, now: Timestamp) -> Vec<(u32, SessionId)> {
        let mut windows = lock(&self.windows);
        let with_code = windows
            .iter_mut()
            .filter_map(|(key, held)| held.window.runs_code(now).then(|| key.clone()));
        with_code.collect()
    }

    fn with<T>(&self, now: Timestamp, key: SessionKey, work: impl FnOnce(&mut CallWindow) -> T) -> T {
        let mut windows = lock(&self.windows);
        if !windows.contains_key(&key) {
            let policy = Arc::clone(&lock(&self.policy));
            make_room(&mut windows, key.0, now, &policy);
        }
        let held = windows.entry(key).or_default();
        held.used = now;
        work(&mut held.window)
    }
}

fn key(member: &SessionMember) -> SessionKey {
    (member.identity.uid, member.session.key())
}

/// Removes sessions if there are too many for one more of this user: first those that are over; then the oldest of this
/// user if the user has too many, or else the oldest of the user with the most sessions. So no user can push out
/// another one's sessions by opening many.
fn make_room(windows: &mut Windows, user: u32, now: Timestamp, policy: &Policy) {
    let is_full = |windows: &Windows| {
        let of_user = windows.keys().filter(|(uid, _)| *uid == user).count();
        (windows.len() >= MAX_SESSIONS, of_user >= MAX_OF_USER)
    };
    if is_full(windows) == (false, false) {
        return;
    }
    windows.retain(|_, held| !held.window.is_over(now, policy));
    let from = match is_full(windows) {
        (_, true) => Some(user),
        (true, false) => heaviest(windows),
        (false, false) => None,
    };
    let oldest = windows
        .iter()
        .filter(|((uid, _), _)| Some(*uid) == from)
        .min_by_key(|(_, held)| held.used)
        .map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        windows.remove(&oldest);
    }
}

/// Returns the user with the most sessions.
fn heaviest(windows: &Windows) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for (uid, _) in windows.keys() {
        *counts.entry(*uid).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(uid, _)| uid)
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Action, RecentCall, ServerId, ToolCategory};
    use mcpmon_store::{RecorderSettings, sample};

    use super::*;

    const NOW: Timestamp = Timestamp(sample::NOON);
    const SECOND: i64 = sample::SECOND;

    fn sessions() -> SessionCalls {
        sessions_after(Vec::new())
    }

    fn sessions_after(earlier: Vec<(u32, SessionId, Recent)>) -> SessionCalls {
        let policy = "version: 1\nmcp: {cross_server: {decision: block, burst: {enabled: false}}}\n";
        let parts = vec![(mcpmon_config::Source::EmbeddedDefault, policy.to_owned())];
        let policy = Sources::of_parts(parts).expect("a part");
        // Its writer is never started.
        let recorder = Recorder::new(RecorderSettings::new("/dev/null/mcpmon.db"));
        SessionCalls::new(&policy, recorder, NOW, earlier)
    }

    fn member(uid: u32, session: &str, server: &str) -> SessionMember {
        let mut member = sample::member(session, server, 100);
        member.identity.uid = uid;
        member
    }

    fn call(at: Timestamp, server: &str, category: ToolCategory) -> SharedCall {
        SharedCall {
            at,
            server: ServerId::new(server).expect("an id"),
            tool: "x".to_owned(),
            category,
            request: None,
            tool_call: None,
            turn: None,
            labels: Vec::new(),
            arguments: Default::default(),
            resumes: false,
            several: true,
        }
    }

    fn read(sessions: &SessionCalls, uid: u32, session: &str) {
        let files = member(uid, session, "files");
        let checked = sessions.check(NOW, &files, call(NOW, "files", ToolCategory::Read));
        assert!(!checked.blocks());
    }

    fn is_remembered(sessions: &SessionCalls, uid: u32, session: &str) -> bool {
        let now = Timestamp(NOW.0 + SECOND);
        let mail = member(uid, session, "mail");
        let checked = sessions.check(now, &mail, call(now, "mail", ToolCategory::Send));
        checked.blocks()
    }

    #[test]
    fn a_call_of_the_future_makes_nobody_forget() {
        for at in [i64::MAX, i64::MIN, NOW.0 + 3600 * SECOND] {
            let sessions = sessions();
            read(&sessions, 1000, "s1");
            let forged = call(Timestamp(at), "evil", ToolCategory::Unknown);
            sessions.check(NOW, &member(1000, "s1", "evil"), forged);
            assert!(is_remembered(&sessions, 1000, "s1"), "{at}");
        }
    }

    fn call_of_future() -> Recent {
        Recent::Call(RecentCall {
            origin: None,
            at: Timestamp(i64::MAX),
            server: ServerId::new("files").expect("an id"),
            tool: "x".to_owned(),
            category: ToolCategory::Read,
            request: None,
            turn: None,
            action: Action::Allow,
            labels: Vec::new(),
            left: None,
        })
    }

    #[test]
    fn what_happened_later_than_now_happened_now() {
        let sessions = sessions();
        sessions.take(NOW, &member(1000, "s1", "files"), vec![call_of_future()]);
        let far = Timestamp(NOW.0 + 3600 * SECOND);
        let mail = member(1000, "s1", "mail");
        let checked = sessions.check(far, &mail, call(far, "mail", ToolCategory::Send));
        assert!(!checked.blocks(), "it ends as everything does");
    }

    #[test]
    fn calls_before_a_restart_count_for_their_own_user_and_session() {
        let earlier = |uid, session| (uid, SessionId::new(session), call_of_future());
        let sessions = sessions_after(vec![earlier(1000, "s1"), earlier(2000, "s2")]);
        for (uid, session, expected) in [(1000, "s1", true), (2000, "s2", true), (1000, "s2", false)] {
            assert_eq!(
                is_remembered(&sessions, uid, session),
                expected,
                "{uid} {session}"
            );
        }
    }

    #[test]
    fn who_opens_sessions_pushes_out_nobody_elses() {
        let sessions = sessions();
        read(&sessions, 1000, "s1");
        for number in 0..2 * MAX_SESSIONS {
            read(&sessions, 2000, &format!("s-{number}"));
        }
        assert!(is_remembered(&sessions, 1000, "s1"));
        assert!(is_remembered(
            &sessions,
            2000,
            &format!("s-{}", 2 * MAX_SESSIONS - 1)
        ));
        assert!(lock(&sessions.windows).len() <= MAX_OF_USER + 1);
    }

    #[test]
    fn many_users_share_what_room_there_is() {
        let sessions = sessions();
        read(&sessions, 1, "s1");
        for number in 0..2 * MAX_SESSIONS {
            let user = 2000 + u32::try_from(number % 16).expect("small");
            read(&sessions, user, &format!("s-{number}"));
        }
        assert!(is_remembered(&sessions, 1, "s1"));
        assert!(lock(&sessions.windows).len() <= MAX_SESSIONS);
    }
}
