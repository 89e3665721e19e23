//! Resolution of the paths in a call, which the engine cannot do, because it has no access to files.

use std::{
    collections::{BTreeSet, VecDeque},
    env, fs, io,
    path::{Component, Path, PathBuf},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::Duration,
};

use mcpmon_config::Search;
use mcpmon_detect::protected_paths::{Lookup, Places, RealPath};
use mcpmon_engine::Monitor;

use super::Options;

/// The time for which a call waits for a file system. While a look-up is late, no other one is started.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Most links that are followed, as in the kernel.
const MAX_LINKS: usize = 40;
/// Most names of a path that are looked at.
const MAX_NAMES: usize = 512;

/// Variables with paths of files, and the path below the home directory that each replaces. The variables of clients
/// are in the table of clients.
const VARIABLES: [(&str, &str); 13] = [
    ("HOME", ""),
    ("ZDOTDIR", ""),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_CACHE_HOME", ".cache"),
    ("GNUPGHOME", ".gnupg"),
    ("CARGO_HOME", ".cargo"),
    ("DOCKER_CONFIG", ".docker"),
    ("KUBECONFIG", ".kube/config"),
    ("GIT_CONFIG_GLOBAL", ".gitconfig"),
    ("NPM_CONFIG_USERCONFIG", ".npmrc"),
    ("PIP_CONFIG_FILE", ".config/pip/pip.conf"),
];

/// Returns the places of this user's files and of mcpmon's own files.
pub fn places(options: &Options) -> Places {
    places_of(&options.search, options.db.as_deref(), options.socket.as_deref())
}

/// Returns the places of this user's files and of mcpmon's own: the configuration, the store and the socket.
pub fn places_of(search: &Search, db: Option<&Path>, socket: Option<&Path>) -> Places {
    let mut places = Places::default();
    let variables: BTreeSet<_> = VARIABLES
        .into_iter()
        .chain(mcpmon_clients::path_variables())
        .collect();
    for (name, meaning) in variables {
        let meaning: Vec<_> = meaning.split('/').filter(|name| !name.is_empty()).collect();
        let paths = env::var_os(name).map(|value| env::split_paths(&value).collect::<Vec<_>>());
        for path in paths.into_iter().flatten().flat_map(names) {
            places = places.with_alias(&path, &meaning);
        }
    }
    let configuration = [&search.explicit, &search.variable, &search.local, &search.user];
    let own = configuration
        .into_iter()
        .flatten()
        .chain([&search.system])
        .cloned();
    let own = own
        .chain(db.into_iter().flat_map(database))
        .chain(socket.map(Path::to_owned));
    let own = own.chain(env::current_exe().ok());
    own.flat_map(names)
        .fold(places, |places, path| places.with_own(&path))
}

/// Returns the paths of the files of an SQLite database.
fn database(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        name.into()
    })
}

/// Returns a path as it is given, and with its links followed.
fn names(path: impl Into<PathBuf>) -> Vec<String> {
    let Ok(path) = std::path::absolute(path.into()) else {
        return Vec::new();
    };
    let mut names = vec![path.to_string_lossy().into_owned()];
    names.extend(real(&path).filter(|real| *real != path).map(text));
    names
}

/// Resolves paths in a thread of its own, because a network file system may hang.
#[derive(Debug, Default)]
pub struct Lookups {
    worker: Option<PathWorker>,
    /// The options from which the places of files are found; `None` once they are known.
    unplaced: Option<Box<Options>>,
}

#[derive(Debug)]
struct PathWorker {
    asked: SyncSender<Vec<Lookup>>,
    answers: Receiver<Vec<RealPath>>,
    /// True if an answer that came too late is still to be read.
    is_late: bool,
}

impl Lookups {
    /// Resolves the paths; those that take too long are left out.
    pub fn real(&mut self, lookups: Vec<Lookup>) -> Vec<RealPath> {
        if lookups.is_empty() {
            return Vec::new();
        }
        let found = self.worker().and_then(|worker| worker.ask(lookups));
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "the paths of a call are judged by their names alone");
            Vec::new()
        })
    }

    fn worker(&mut self) -> io::Result<&mut PathWorker> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => PathWorker::start(LookupPlace::of_process())?,
        };
        Ok(self.worker.insert(worker))
    }

    /// Creates look-ups that find the places of this user's files and of mcpmon's own later.
    pub(crate) fn of(options: &mut Options) -> Self {
        let policy = options.loaded.take();
        let unplaced = Some(Box::new(options.clone()));
        options.loaded = policy;
        Self {
            worker: None,
            unplaced,
        }
    }

    /// Reports these places to `monitor`, once.
    pub(crate) fn place(&mut self, monitor: &mut Monitor) {
        if let Some(options) = self.unplaced.take() {
            monitor.know_places(places(&options));
        }
    }
}

impl PathWorker {
    fn start(place: LookupPlace) -> io::Result<Self> {
        let (asked, questions) = mpsc::sync_channel::<Vec<Lookup>>(1);
        let (answer, answers) = mpsc::sync_channel(1);
        let run = move || {
            for lookups in questions {
                let real = lookups.iter().flat_map(|lookup| place.real(lookup)).collect();
                if answer.send(real).is_err() {
                    return;
                }
            }
        };
        // The thread ends with the channel, or with the process.
        thread::Builder::new().name("lookups".to_owned()).spawn(run)?;
        Ok(Self {
            asked,
            answers,
            is_late: false,
        })
    }

    fn ask(&mut self, lookups: Vec<Lookup>) -> io::Result<Vec<RealPath>> {
        if self.is_late && self.answers.try_recv().is_err() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.is_late = false;
        self.asked
            .try_send(lookups)
            .map_err(|_full| io::Error::from(io::ErrorKind::TimedOut))?;
        match self.answers.recv_timeout(TIMEOUT) {
            Ok(real) => Ok(real),
            Err(RecvTimeoutError::Timeout) => {
                self.is_late = true;
                Err(io::ErrorKind::TimedOut.into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// The directories from which paths are resolved; they are the same for a wrapper and its server.
struct LookupPlace {
    home: Option<PathBuf>,
    directory: Option<PathBuf>,
}

impl LookupPlace {
    fn of_process() -> Self {
        Self {
            home: env::var_os("HOME")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute()),
            directory: env::current_dir().ok(),
        }
    }

    /// Resolves a path in two ways: as the kernel walks it, and as programs do that remove `..` first.
    fn real(&self, lookup: &Lookup) -> Vec<RealPath> {
        let Some(path) = self.placed(&lookup.address) else {
            return Vec::new();
        };
        let mut found: Vec<String> = real(&path).map(text).into_iter().collect();
        if lookup.address.contains("..") {
            let other = real(&without_steps_up(&path)).map(text);
            found.extend(other.filter(|other| !found.contains(other)));
        }
        let of = |real| RealPath {
            given: lookup.given.clone(),
            real,
        };
        found.into_iter().map(of).collect()
    }

    fn placed(&self, address: &str) -> Option<PathBuf> {
        match address.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => {
                Some(self.home.as_ref()?.join(rest.trim_start_matches('/')))
            }
            // The home directory of another user.
            Some(_) => None,
            None if address.starts_with('/') => Some(PathBuf::from(address)),
            None => Some(self.directory.as_ref()?.join(address)),
        }
    }
}

/// Follows the links of an absolute path, also if the target does not exist yet: a write creates it.
fn real(path: &Path) -> Option<PathBuf> {
    let mut rest: VecDeque<PathBuf> = steps(path).collect();
    let mut real = PathBuf::from("/");
    let (mut links, mut seen) = (0, 0);
    while let Some(step) = rest.pop_front() {
        seen += 1;
        if seen > MAX_NAMES {
            return None;
        }
        if step.as_os_str() == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&step);
        let Ok(target) = fs::read_link(&next) else {
            real = next; // no link, or nothing
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        let before: Vec<PathBuf> = steps(&target).collect();
        before.into_iter().rev().for_each(|step| rest.push_front(step));
    }
    Some(real)
}

/// Returns the names in a path, and the steps up.
fn steps(path: &Path) -> impl Iterator<Item = PathBuf> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn without_steps_up(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for step in steps(path) {
        match step.as_os_str() == ".." {
            true => drop(plain.pop()),
            false => plain.push(step),
        }
    }
    plain
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn lookup(address: &str) -> Lookup {
        Lookup {
            given: address.to_owned(),
            address: address.to_owned(),
        }
    }

    #[test]
    fn links_are_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("its path");
        let at = |name: &str| root.join(name);
        fs::create_dir(at("home")).expect("a directory");
        fs::create_dir(at("work")).expect("a directory");
        symlink("../home/.bashrc", at("work/dangling")).expect("a link");
        symlink(at("home"), at("work/directory")).expect("a link");
        symlink("circle", at("work/circle")).expect("a link");
        let place = LookupPlace {
            home: Some(at("home")),
            directory: Some(at("work")),
        };
        let told = |address: &str| {
            let real = place.real(&lookup(address));
            let below = |real: RealPath| real.real.replace(&*root.to_string_lossy(), "");
            real.into_iter().map(below).collect::<Vec<_>>()
        };
        assert_eq!(told("dangling"), ["/home/.bashrc"]);
        assert_eq!(told("directory/x"), ["/home/x"]);
        assert_eq!(told("directory/../x"), ["/x", "/work/x"]);
        assert_eq!(told("plain"), ["/work/plain"]);
        assert_eq!(told("~/x"), ["/home/x"]);
        assert_eq!(told("~other/x"), [""; 0]);
        assert_eq!(told("circle"), [""; 0]);
    }

    #[test]
    fn a_thread_answers_again_and_again() {
        let mut lookups = Lookups::default();
        assert_eq!(lookups.real(Vec::new()), []);
        assert!(lookups.worker.is_none(), "no thread for nothing");
        for _ in 0..3 {
            let real = lookups.real(vec![lookup("/")]);
            assert_eq!(real.first().map(|real| real.real.as_str()), Some("/"));
        }
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for_twice() {
        let (asked, _questions) = mpsc::sync_channel(1);
        let (answer, answers) = mpsc::sync_channel(1);
        let mut worker = PathWorker {
            asked,
            answers,
            is_late: false,
        };
        worker.ask(vec![lookup("/")]).expect_err("nobody answers");
        assert!(worker.is_late);
        let begun = std::time::Instant::now();
        worker.ask(vec![lookup("/")]).expect_err("still nobody answers");
        assert!(begun.elapsed() < TIMEOUT);
        answer.send(Vec::new()).expect("room");
        worker
            .ask(vec![lookup("/")])
            .expect_err("the question before is still there");
        assert!(!worker.is_late);
    }
}
