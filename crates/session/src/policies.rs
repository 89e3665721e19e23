//! Policies of users, in a process that judges for many users: the host's policy, tightened by each user's own file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::Duration,
};

use mcpmon_config::{LoadedConfiguration, SourceError, Sources};
use mcpmon_model::Timestamp;
use mcpmon_store::Recorder;

use super::own::{Own, mistakes, told};

/// Most users whose files are followed at a time; beyond it, the least recently used one is forgotten.
const MAX_USERS: usize = 256;
/// The time for which an unused user is remembered.
const IDLE: Duration = Duration::from_secs(1800);
/// The interval at which files are checked.
const INTERVAL: Duration = Duration::from_secs(2);

/// The policies in force. Clones share them.
#[derive(Clone, Debug)]
pub struct Policies(Arc<PoliciesState>);

#[derive(Debug)]
struct PoliciesState {
    /// The policies of users. Locked only to read or replace an entry.
    held: RwLock<HeldPolicy>,
    /// The users' own files, for the users in `held`. Locked while a file is compiled, which may take a while.
    owns: Mutex<BTreeMap<u32, Own>>,
    files: Option<UserFiles>,
}

/// The source of users' own files, and the recorder for the outcome.
struct UserFiles {
    read: Box<Read>,
    turns: Turns,
    recorder: Recorder,
    now: fn() -> Timestamp,
}

/// A function that reads a user's own file.
type Read = dyn Fn(u32) -> Result<Option<Sources>, SourceError> + Send + Sync;

/// Users whose file is being read. Other threads that need the same file wait for the result.
#[derive(Default)]
struct Turns {
    taken: Mutex<BTreeSet<u32>>,
    given_back: Condvar,
}

/// The right to read a user's file, until this is dropped.
struct ReaderTurn<'a> {
    turns: &'a Turns,
    uid: u32,
}

#[derive(Debug)]
struct HeldPolicy {
    host: Arc<LoadedConfiguration>,
    users: BTreeMap<u32, User>,
}

#[derive(Debug)]
struct User {
    loaded: Arc<LoadedConfiguration>,
    /// The time of its last use.
    used: AtomicI64,
}

impl Policies {
    /// One policy for all users.
    pub fn of_one(loaded: LoadedConfiguration) -> Self {
        Self::new(loaded, None)
    }

    /// The policies of a host. The users' own files are followed as long as this value exists; `now` is its clock.
    pub fn of_host(host: LoadedConfiguration, recorder: Recorder, now: fn() -> Timestamp) -> Self {
        let policies = Self::reading(host, recorder, now, Sources::of_home);
        policies.follow_files();
        policies
    }

    fn reading(
        host: LoadedConfiguration,
        recorder: Recorder,
        now: fn() -> Timestamp,
        read: impl Fn(u32) -> Result<Option<Sources>, SourceError> + Send + Sync + 'static,
    ) -> Self {
        let read = Box::new(read);
        let turns = Turns::default();
        Self::new(
            host,
            Some(UserFiles {
                read,
                turns,
                recorder,
                now,
            }),
        )
    }

    fn new(host: LoadedConfiguration, files: Option<UserFiles>) -> Self {
        let held = HeldPolicy {
            host: Arc::new(host),
            users: BTreeMap::new(),
        };
        Self(Arc::new(PoliciesState {
            held: RwLock::new(held),
            owns: Mutex::default(),
            files,
        }))
    }

    /// Returns the host's policy.
    pub fn host(&self) -> Arc<LoadedConfiguration> {
        Arc::clone(&self.held().host)
    }

    /// Returns the policy of a user; the same value as long as it is unchanged. This takes a moment for a user without
    /// recent requests, whose own file is read.
    pub fn of(&self, now: Timestamp, uid: Option<u32>) -> Arc<LoadedConfiguration> {
        let (Some(files), Some(uid)) = (&self.0.files, uid) else {
            return self.host();
        };
        if let Some(loaded) = self.known(now, uid) {
            return loaded;
        }
        let _turn = files.turns.take(uid);
        // Another thread may have read the file meanwhile.
        if let Some(loaded) = self.known(now, uid) {
            return loaded;
        }
        let found = (files.read)(uid);
        let mut owns = self.owns();
        let host = self.host();
        let (loaded, own) = Own::over((*host).clone(), found);
        // Share the host's value if the user has no file, so that nothing has to be applied anew.
        let loaded = if loaded.sources == host.sources {
            host
        } else {
            Arc::new(loaded)
        };
        let user = User {
            loaded: Arc::clone(&loaded),
            used: AtomicI64::new(now.0),
        };
        let gone = self.held_to_change().insert(uid, user);
        owns.retain(|uid, _| !gone.contains(uid));
        owns.insert(uid, own);
        loaded
    }

    /// Returns the policy of a user if it is known without reading a file.
    pub fn at_once(&self, now: Timestamp, uid: Option<u32>) -> Option<Arc<LoadedConfiguration>> {
        match (&self.0.files, uid) {
            (Some(_), Some(uid)) => self.known(now, uid),
            (None, _) | (_, None) => Some(self.host()),
        }
    }

    fn known(&self, now: Timestamp, uid: u32) -> Option<Arc<LoadedConfiguration>> {
        let held = self.held();
        let user = held.users.get(&uid)?;
        user.used.store(now.0, Ordering::Relaxed);
        Some(Arc::clone(&user.loaded))
    }

    /// Returns whether the policy of a user is known without reading a file.
    pub fn knows(&self, uid: Option<u32>) -> bool {
        match (&self.0.files, uid) {
            (Some(_), Some(uid)) => self.held().users.contains_key(&uid),
            (None, _) | (_, None) => true,
        }
    }

    /// Replaces the host's policy, and tightens it by the last content of each user's file.
    pub fn adopt(&self, host: &LoadedConfiguration) {
        let mut owns = self.owns();
        self.held_to_change().host = Arc::new(host.clone());
        for (uid, own) in owns.iter_mut() {
            let loaded = Arc::new(own.adopt(host.clone()));
            self.put(*uid, loaded);
        }
    }

    /// Checks the files of recent users, and records changes.
    fn poll(&self) {
        let Some(files) = &self.0.files else { return };
        let now = (files.now)();
        let is_used = |user: &mut User| now.since(Timestamp(user.used.load(Ordering::Relaxed))) < IDLE;
        let mut owns = self.owns();
        let mut held = self.held_to_change();
        held.users.retain(|_, user| is_used(user));
        owns.retain(|uid, _| held.users.contains_key(uid));
        drop(held);
        let uids: Vec<u32> = owns.keys().copied().collect();
        drop(owns);
        for uid in uids {
            let turn = files.turns.take(uid);
            let found = (files.read)(uid);
            drop(turn);
            let mut owns = self.owns();
            let Some(news) = owns.get_mut(&uid).and_then(|own| own.news(found)) else {
                continue;
            };
            let stays = self.held().users.get(&uid).map(|user| Arc::clone(&user.loaded));
            let path = stays
                .as_deref()
                .map(LoadedConfiguration::path)
                .unwrap_or_default();
            let event = told(now, Some(uid), path, &news);
            match news {
                Ok(loaded) => self.put(uid, Arc::new(loaded)),
                Err(error) => {
                    let mistakes = mistakes(&error).join("; ");
                    tracing::warn!(uid, "the own policy file of a user is not taken over: {mistakes}");
                }
            }
            drop(owns);
            files.recorder.push(event);
        }
    }

    /// Replaces the policy of a user.
    fn put(&self, uid: u32, loaded: Arc<LoadedConfiguration>) {
        if let Some(user) = self.held_to_change().users.get_mut(&uid) {
            user.loaded = loaded;
        }
    }

    fn follow_files(&self) {
        let shared = Arc::downgrade(&self.0);
        let started = thread::Builder::new()
            .name("mcpmon-policies".to_owned())
            .spawn(move || {
                loop {
                    thread::sleep(INTERVAL);
                    let Some(shared) = Weak::upgrade(&shared) else {
                        return;
                    };
                    Self(shared).poll();
                }
            });
        if let Err(error) = started {
            tracing::error!(%error, "changes of users' own policy files are not heard of");
        }
    }

    fn owns(&self) -> MutexGuard<'_, BTreeMap<u32, Own>> {
        self.0.owns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> RwLockReadGuard<'_, HeldPolicy> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.0.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_to_change(&self) -> RwLockWriteGuard<'_, HeldPolicy> {
        self.0.held.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldPolicy {
    /// Inserts a user. Returns the users that were removed to make room.
    fn insert(&mut self, uid: u32, user: User) -> Vec<u32> {
        let mut gone = Vec::new();
        while self.users.len() >= MAX_USERS {
            let used = |(_, user): &(&u32, &User)| user.used.load(Ordering::Relaxed);
            let Some(oldest) = self.users.iter().min_by_key(used).map(|(uid, _)| *uid) else {
                break;
            };
            self.users.remove(&oldest);
            gone.push(oldest);
        }
        self.users.insert(uid, user);
        gone
    }
}

impl Turns {
    fn take(&self, uid: u32) -> ReaderTurn<'_> {
        let taken = self.taken();
        let is_taken = |taken: &mut BTreeSet<u32>| taken.contains(&uid);
        let mut taken = self
            .given_back
            .wait_while(taken, is_taken)
            .unwrap_or_else(PoisonError::into_inner);
        taken.insert(uid);
        ReaderTurn { turns: self, uid }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        // A poisoned lock is used anyway: no code that holds it can leave the value half changed.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaderTurn<'_> {
    fn drop(&mut self) {
        self.turns.taken().remove(&self.uid);
        self.turns.given_back.notify_all();
    }
}

impl fmt::Debug for UserFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Mutex};

    use mcpmon_config::{Source, load_sources};
    use mcpmon_model::{Action, Severity};
    use mcpmon_store::{Filter, RecorderSettings, StoreReader, sample};

    use super::*;

    const NOW: Timestamp = Timestamp(sample::NOON);
    const TIMEOUT: Duration = Duration::from_secs(10);
    const MOMENT: Duration = Duration::from_millis(200);
    const HOST: &str = "version: 1\nmcp: {blocked_tools: [format_disk]}\n";

    /// The content of users' files.
    type Texts = Arc<Mutex<BTreeMap<u32, String>>>;

    struct HostPolicy {
        directory: tempfile::TempDir,
        texts: Texts,
        policies: Policies,
    }

    fn sources(name: &str, text: &str) -> Sources {
        let part = (Source::File(PathBuf::from(name)), text.to_owned());
        Sources::of_parts(vec![part]).expect("a part")
    }

    fn of_host(text: &str) -> LoadedConfiguration {
        load_sources(&sources("/etc/mcpmon/mcpmon.yaml", text)).expect("a policy")
    }

    impl HostPolicy {
        fn new(text: &str) -> Self {
            let texts = Texts::default();
            let files = Arc::clone(&texts);
            let read = move |uid: u32| {
                let texts = files.lock().expect("no panic");
                let text = texts.get(&uid);
                Ok(text.map(|text| sources(&format!("/home/{uid}/mcpmon.yaml"), text)))
            };
            Self {
                texts,
                ..Self::with(text, read)
            }
        }

        fn with(
            text: &str,
            read: impl Fn(u32) -> Result<Option<Sources>, SourceError> + Send + Sync + 'static,
        ) -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let recorder = Recorder::start(RecorderSettings::new(directory.path().join("mcpmon.db")))
                .expect("a recorder");
            Self {
                directory,
                texts: Texts::default(),
                policies: Policies::reading(of_host(text), recorder, || NOW, read),
            }
        }

        fn write(&self, uid: u32, text: &str) {
            self.texts.lock().expect("no panic").insert(uid, text.to_owned());
        }

        /// Names of the tools that are blocked for a user.
        fn blocked(&self, uid: Option<u32>) -> Vec<String> {
            let loaded = self.policies.of(NOW, uid);
            let layers = loaded.policy.rules.layers();
            let names =
                layers.flat_map(|rules| rules.blocked_tools.iter().map(|glob| glob.as_str().to_owned()));
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        }

        fn events(&self) -> Vec<(String, Severity)> {
            let files = self.policies.0.files.as_ref().expect("they are read");
            files.recorder.flush(TIMEOUT).expect("written");
            let reader = StoreReader::open(&self.directory.path().join("mcpmon.db")).expect("a store");
            let events = reader.events(&Filter::default(), 100).expect("events");
            assert!(events.iter().all(|event| event.action == Action::Allow));
            events
                .into_iter()
                .map(|event| (event.kind.clone(), event.severity))
                .collect()
        }
    }

    #[test]
    fn a_users_file_tightens_for_that_user_alone() {
        let host = HostPolicy::new(HOST);
        host.write(
            1000,
            "version: 1\nmcp: {fail_closed: true, blocked_tools: ['send_*']}\n",
        );
        assert_eq!(host.blocked(Some(1000)), ["format_disk", "send_*"]);
        assert!(host.policies.of(NOW, Some(1000)).policy.fail_closed);
        for other in [Some(1001), Some(0), None] {
            assert_eq!(host.blocked(other), ["format_disk"], "{other:?}");
        }
        assert!(Arc::ptr_eq(
            &host.policies.of(NOW, Some(1001)),
            &host.policies.host()
        ));
    }

    /// Two reads of one file at a time would count as a hanging file ([`Sources::of_home`]).
    #[test]
    fn many_who_ask_for_one_user_at_a_time_read_one_file() {
        let (begin, begun) = std::sync::mpsc::channel();
        let begun = Mutex::new(begun);
        let readers = AtomicI64::new(0);
        let read = move |_: u32| {
            let before = readers.fetch_add(1, Ordering::Relaxed);
            let found = match before {
                // Gives the other thread time to arrive as well.
                0 => {
                    let begun = begun.lock().expect("no panic");
                    let _asked = begun.recv_timeout(MOMENT);
                    let _read = begun.recv_timeout(MOMENT);
                    Ok(None)
                }
                _ => Err(SourceError::Read {
                    path: PathBuf::from("the policy file of user 1000"),
                    source: std::io::ErrorKind::TimedOut.into(),
                }),
            };
            readers.fetch_sub(1, Ordering::Relaxed);
            found
        };
        let host = HostPolicy::with(HOST, read);
        thread::scope(|threads| {
            let asks = || host.policies.of(NOW, Some(1000));
            threads.spawn(asks);
            threads.spawn(|| {
                begin.send(()).expect("it is waited for");
                host.policies.of(NOW, Some(1000))
            });
        });
        host.policies.poll();
        assert_eq!(
            host.events(),
            [],
            "no file is there, and nothing is wrong with it"
        );
    }

    #[test]
    fn a_users_file_takes_nothing_away() {
        let host = HostPolicy::new("version: 1\nmcp: {fail_closed: true, blocked_tools: [format_disk]}\n");
        host.write(
            1000,
            "version: 1\nmode: observe\nmcp: {fail_closed: false, blocked_tools: []}\n",
        );
        host.write(1001, "version: 1\nmcp: {fail_closed: false, blocked_tools: [], suppressions: [{rule: '*', reason: mine}]}\n");
        for uid in [1000, 1001] {
            assert_eq!(host.blocked(Some(uid)), ["format_disk"]);
            let policy = Arc::clone(&host.policies.of(NOW, Some(uid)).policy);
            assert!(policy.fail_closed && policy.suppressions.is_empty());
        }
    }

    #[test]
    fn a_changed_file_is_taken_over_and_a_broken_one_leaves_what_was() {
        let host = HostPolicy::new(HOST);
        assert_eq!(host.blocked(Some(1000)), ["format_disk"]);
        host.write(1000, "version: 1\nmcp: {blocked_tools: [a]}\n");
        assert_eq!(host.blocked(Some(1000)), ["format_disk"], "not looked at yet");
        host.policies.poll();
        assert_eq!(host.blocked(Some(1000)), ["a", "format_disk"]);
        host.write(1000, "version: 1\nmcp: {blocked_tolls: [b]}\n");
        host.policies.poll();
        host.policies.poll();
        assert_eq!(host.blocked(Some(1000)), ["a", "format_disk"]);
        host.texts.lock().expect("no panic").clear();
        host.policies.poll();
        assert_eq!(
            host.blocked(Some(1000)),
            ["a", "format_disk"],
            "one that is gone holds on"
        );
        let kinds = ["policy_loaded", "policy_rejected", "policy_rejected"];
        let mut events = host.events();
        events.sort();
        assert_eq!(
            events.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(),
            kinds
        );
        assert!(
            events[1..]
                .iter()
                .all(|(_, severity)| *severity == Severity::High)
        );
    }

    #[test]
    fn a_file_that_is_broken_from_the_start_is_told_and_the_host_rules() {
        let host = HostPolicy::new(HOST);
        host.write(1000, "version: 1\nmcp: {blocked_tools: 7}\n");
        assert_eq!(host.blocked(Some(1000)), ["format_disk"]);
        host.policies.poll();
        assert_eq!(host.events(), [("policy_rejected".to_owned(), Severity::High)]);
    }

    #[test]
    fn another_policy_of_the_host_holds_below_what_users_said() {
        let host = HostPolicy::new(HOST);
        host.write(1000, "version: 1\nmcp: {blocked_tools: [a]}\n");
        assert_eq!(host.blocked(Some(1000)), ["a", "format_disk"]);
        host.policies
            .adopt(&of_host("version: 1\nmcp: {blocked_tools: [other]}\n"));
        assert_eq!(host.blocked(Some(1000)), ["a", "other"]);
        assert_eq!(host.blocked(Some(1001)), ["other"]);
    }

    #[test]
    fn no_more_users_are_known_than_there_is_room_for() {
        let host = HostPolicy::new(HOST);
        let most = u32::try_from(MAX_USERS).expect("a small number");
        for uid in 0..most + 10 {
            let _loaded = host.policies.of(Timestamp(NOW.0 + i64::from(uid)), Some(uid));
        }
        let held = host.policies.held();
        assert_eq!(held.users.len(), MAX_USERS);
        assert!(!held.users.contains_key(&0) && held.users.contains_key(&(most + 9)));
    }
}
