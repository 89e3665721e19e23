//! Symbolic links in commands: the commands of installed packages are links, and their targets name the package.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use mcpmon_detect::launch::{CodePlace, LaunchRules};
use mcpmon_model::Package;
use mcpmon_pins::{EntryKind, Process, Root};
use mcpmon_policy::makes_sandbox;
use nix::unistd::gettid;

use super::package::package_of;

/// Words of a command that are looked at. Enough for a program with its options, a script, and a wrapper with options
/// in front of it.
const MAX_WORDS: usize = 16;
/// Links followed one after another.
const MAX_LINKS: usize = 4;
/// A part of the path of every file in an installed package.
const MODULES: &str = "/node_modules/";
/// Time limit for following the links of a command: its file system may hang, and other commands wait meanwhile.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Further waits of this length for a thread that is ready to run: a busy host starves it, and its file system is not at
/// fault.
const MAX_STARVED: u32 = 10;
/// The time after which a file system that has not answered counts as hanging.
const HANGS: Duration = Duration::from_secs(1);
/// Most threads that may wait for file systems that hang. Beyond that no links are followed.
const MAX_STUCK: usize = 16;

/// Returns `argv` with links into installed packages replaced by their targets; empty if there are none. Paths are
/// those of a process with this root and this working directory. A bare program name is looked up on `search_path`.
pub(super) fn linked(
    root: &Root,
    directory: &Path,
    search_path: Option<&OsStr>,
    argv: &[String],
) -> Vec<String> {
    let mut followed = Vec::new();
    for (position, word) in argv.iter().enumerate().take(MAX_WORDS) {
        // A program that makes a sandbox is recognised by its name. The target of its link, a script in its package,
        // would not be recognised.
        if makes_sandbox(word) {
            continue;
        }
        let path = match (word.contains('/'), position, search_path) {
            (true, ..) => Some(directory.join(word)),
            (false, 0, Some(search_path)) => found(root, directory, search_path, word),
            (false, ..) => None,
        };
        if let Some(target) = path.and_then(|path| target(root, path)) {
            if followed.is_empty() {
                followed = argv.to_vec();
            }
            followed[position] = target;
        }
    }
    followed
}

pub(super) fn found(root: &Root, directory: &Path, search_path: &OsStr, name: &str) -> Option<PathBuf> {
    let candidates = std::env::split_paths(search_path).map(|place| directory.join(place).join(name));
    candidates.into_iter().find(|path| root.is(path, EntryKind::File))
}

/// Returns the file in a package that the link at `path` leads to.
fn target(root: &Root, mut path: PathBuf) -> Option<String> {
    for _ in 0..MAX_LINKS {
        let link = root.find_link(&path).ok()?;
        if link.kind() != EntryKind::Link {
            return None;
        }
        // The directory may itself be reached over links, and `..` means the parent of the real directory.
        let directory = root.canonical(path.parent()?).ok()?;
        path = normal(&directory.join(link.target().ok()?));
        let text = path.to_str()?;
        if text.contains(MODULES) && !text.contains("/node_modules/.bin/") {
            return Some(text.to_owned());
        }
    }
    None
}

/// Removes `.` and `..` from a path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}

/// The facts that the files of a command tell about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandFiles {
    /// The arguments with links into installed packages followed; empty if there are none.
    pub(super) linked: Vec<String>,
    /// The package of what it runs.
    pub(super) package: Option<Package>,
    /// True if the program is a dynamic loader by its content; false if it was not looked at.
    pub(super) loader: bool,
}

/// Returns whether a command runs a script or a module itself.
fn runs_code(argv: &[String]) -> bool {
    matches!(
        LaunchRules::code_place(argv),
        Some(CodePlace::Script(_) | CodePlace::Module(_))
    )
}

impl CommandFiles {
    /// Follows the links in a command, and looks for the package of what it runs.
    pub(super) fn of(root: &Root, directory: &Path, search_path: Option<&OsStr>, argv: &[String]) -> Self {
        let linked = linked(root, directory, search_path, argv);
        let package = package_of(root, directory, search_path, argv, &linked);
        Self {
            linked,
            package,
            loader: false,
        }
    }

    /// Does the same for another process, which finds its files in its own root.
    fn of_process(pid: u32, argv: &[String]) -> Self {
        let Ok(process) = Process::open(pid) else {
            return Self::default();
        };
        // A process that has ended, or whose working directory was removed, has no links to follow.
        match (process.root(), process.working_directory()) {
            (Ok(root), Ok(directory)) => {
                // An interpreter without a path was looked up; links are followed only from a path.
                let path = process.variable("PATH").ok().flatten();
                let linked = linked(&root, &directory, None, argv);
                let package = package_of(&root, &directory, path.as_deref(), argv, &linked);
                Self {
                    linked,
                    package,
                    loader: false,
                }
            }
            (Err(_), _) | (_, Err(_)) => Self::default(),
        }
    }
}

/// Looks at the files of other processes' commands, on a separate thread: any user can mount a file system that never
/// answers.
#[derive(Debug, Default)]
pub(super) struct LinkFollower {
    worker: Option<LinkWorker>,
    stuck: Arc<AtomicUsize>,
    late: Vec<LateLook>,
}

/// A look that took too long, in a thread of its own by now.
#[derive(Debug)]
struct LateLook {
    pid: u32,
    since: Instant,
    /// Gone when the thread has ended.
    thread: Weak<AtomicBool>,
}

/// The state of the looks that took too long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LateLooks {
    /// Processes whose file systems have answered meanwhile, and whose commands can be looked at again.
    pub(super) answered: Vec<u32>,
    /// A process whose file system hangs.
    pub(super) hanging: Option<LinksUnread>,
}

/// The files of a command were not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the file system of process {pid} does not answer: links in its command are not followed, and a loader is not known by its content"
)]
pub(super) struct LinksUnread {
    pid: u32,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
struct LinkWorker {
    jobs: mpsc::Sender<Job>,
    is_abandoned: Arc<AtomicBool>,
    /// 0 until the thread has run.
    thread_id: Arc<AtomicI32>,
}

impl LinkWorker {
    /// Returns whether the thread waits for a processor, and not for a file system.
    fn is_starved(&self) -> bool {
        let id = self.thread_id.load(Ordering::Relaxed);
        id == 0
            || std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).is_ok_and(|stat| {
                stat.rsplit_once(") ")
                    .is_some_and(|(_, state)| state.starts_with('R'))
            })
    }
}

impl LinkFollower {
    /// Does the same as [`linked`], for the process `pid`, and looks whether its program is a loader if it `may_load` another.
    ///
    /// # Errors
    /// Returns an error if the process's file system takes too long.
    pub(super) fn look(
        &mut self,
        pid: u32,
        argv: &[String],
        may_load: bool,
    ) -> Result<CommandFiles, LinksUnread> {
        let may_load = may_load && argv.len() > 1;
        let has_path = argv.iter().take(MAX_WORDS).any(|word| word.contains('/'));
        if !may_load && !has_path && !runs_code(argv) {
            return Ok(CommandFiles::default());
        }
        let words: Vec<String> = argv.iter().take(MAX_WORDS).cloned().collect();
        let look = move || CommandFiles {
            loader: may_load && Process::open(pid).is_ok_and(|process| process.executes_loader()),
            ..CommandFiles::of_process(pid, &words)
        };
        let mut files = self.answer(pid, TIMEOUT, look).ok_or(LinksUnread { pid })?;
        if !files.linked.is_empty() {
            files.linked.extend(argv.iter().skip(MAX_WORDS).cloned());
        }
        Ok(files)
    }

    /// Returns the looks that took too long and have ended since the last call, and one that hangs.
    pub(super) fn review(&mut self, now: Instant) -> LateLooks {
        let mut found = LateLooks::default();
        self.late.retain(|late| {
            let has_ended = late.thread.strong_count() == 0;
            if has_ended {
                found.answered.push(late.pid);
            } else if now.duration_since(late.since) >= HANGS {
                found.hanging.get_or_insert(LinksUnread { pid: late.pid });
            }
            !has_ended
        });
        found
    }

    /// Returns the result of `work`, or `None` if it is blocked for longer than `timeout`; the thread is abandoned then,
    /// and replaced at the next call.
    fn answer<T: Send + 'static>(
        &mut self,
        pid: u32,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = mpsc::channel();
        let job = Box::new(move || drop(reply.send(work())));
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.start()?,
        };
        worker.jobs.send(job).ok()?;
        for _ in 0..=MAX_STARVED {
            match answer.recv_timeout(timeout) {
                Ok(answer) => {
                    self.worker = Some(worker);
                    return Some(answer);
                }
                Err(_) if worker.is_starved() => {}
                Err(_) => break,
            }
        }
        self.stuck.fetch_add(1, Ordering::Relaxed);
        worker.is_abandoned.store(true, Ordering::Release);
        self.late.push(LateLook {
            pid,
            since: Instant::now(),
            thread: Arc::downgrade(&worker.is_abandoned),
        });
        None
    }

    fn start(&self) -> Option<LinkWorker> {
        if self.stuck.load(Ordering::Relaxed) >= MAX_STUCK {
            return None;
        }
        let (jobs, received) = mpsc::channel::<Job>();
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let (abandoned, stuck) = (Arc::clone(&is_abandoned), Arc::clone(&self.stuck));
        let thread_id = Arc::new(AtomicI32::new(0));
        let id = Arc::clone(&thread_id);
        let started = thread::Builder::new().name("links".to_owned()).spawn(move || {
            id.store(gettid().as_raw(), Ordering::Relaxed);
            received.into_iter().for_each(|job| job());
            if abandoned.load(Ordering::Acquire) {
                stuck.fetch_sub(1, Ordering::Relaxed);
            }
        });
        started.ok().map(|_| LinkWorker {
            jobs,
            is_abandoned,
            thread_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use test_case::test_case;

    use super::*;

    #[test_case("node /p/node_modules/.bin/memory --x" => "node /p/node_modules/@a/memory/index.js --x"; "a command")]
    #[test_case("/usr/bin/env node bin/memory" => "/usr/bin/env node /p/node_modules/@a/memory/index.js"; "a link to a command, in the working directory")]
    #[test_case("memory /data" => "/p/node_modules/@a/memory/index.js /data"; "by its name")]
    #[test_case("node /p/commands/memory" => "node /p/node_modules/@a/memory/index.js"; "by way of a link that starts at the root")]
    #[test_case("node /p/node_modules/@a/memory/index.js" => ""; "no link")]
    #[test_case("node /p/other" => ""; "a link elsewhere")]
    #[test_case("node /p/circle" => ""; "a circle")]
    #[test_case("node_modules/.bin/srt -- node_modules/.bin/memory" => "node_modules/.bin/srt -- /p/node_modules/@a/memory/index.js"; "behind a sandbox")]
    fn links(line: &str) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |path: &str| directory.path().join(path);
        fs::create_dir_all(at("p/node_modules/.bin")).expect("a directory");
        fs::create_dir_all(at("p/node_modules/@a/memory")).expect("a directory");
        fs::create_dir_all(at("p/bin")).expect("a directory");
        fs::write(at("p/node_modules/@a/memory/index.js"), "").expect("a file");
        symlink("../@a/memory/index.js", at("p/node_modules/.bin/memory")).expect("a link");
        symlink("../@a/memory/index.js", at("p/node_modules/.bin/srt")).expect("a link");
        symlink("../node_modules/.bin/memory", at("p/bin/memory")).expect("a link");
        symlink("/p/node_modules/.bin", at("p/commands")).expect("a link");
        symlink("/p/bin", at("p/other")).expect("a link");
        symlink("circle", at("p/circle")).expect("a link");
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let root = Root::at(directory.path()).expect("a root");
        let search_path = OsStr::new("/nowhere:/p/node_modules/@a/memory:/p/node_modules/.bin");
        linked(&root, Path::new("/p"), Some(search_path), &argv).join(" ")
    }

    #[test]
    fn a_file_system_that_hangs_holds_nobody_up() {
        let mut follower = LinkFollower::default();
        let (resume, waiting) = mpsc::channel::<()>();
        let hung = follower.answer(9, Duration::from_millis(1), move || waiting.recv().is_ok());
        assert_eq!(hung, None);
        assert_eq!(follower.answer(9, Duration::from_mins(1), || 7), Some(7));
        assert_eq!(follower.stuck.load(Ordering::Relaxed), 1);
        drop(resume);
        while follower.stuck.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_is_not_taken_for_a_file_system_that_hangs() {
        let mut follower = LinkFollower::default();
        let busy = || {
            let end = Instant::now() + Duration::from_millis(50);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            7
        };
        assert_eq!(follower.answer(9, Duration::from_millis(20), busy), Some(7));
        assert_eq!(follower.review(Instant::now()), LateLooks::default());
    }

    #[test]
    fn only_a_file_system_that_still_hangs_after_a_while_is_reported() {
        let mut follower = LinkFollower::default();
        let (resume, waiting) = mpsc::channel::<()>();
        let hung = follower.answer(9, Duration::from_millis(1), move || waiting.recv().is_ok());
        assert_eq!(hung, None);
        let now = Instant::now();
        assert_eq!(follower.review(now), LateLooks::default());
        let hanging = Some(LinksUnread { pid: 9 });
        assert_eq!(follower.review(now + HANGS).hanging, hanging);
        drop(resume);
        while follower.stuck.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        let answered = std::iter::repeat_with(|| follower.review(now + HANGS).answered);
        assert_eq!(
            answered.flatten().next(),
            Some(9),
            "its command is looked at again"
        );
    }

    #[test]
    fn there_is_an_end_to_the_threads_that_wait() {
        let mut follower = LinkFollower::default();
        let held: Vec<_> = (0..MAX_STUCK)
            .map(|_| {
                let (resume, waiting) = mpsc::channel::<()>();
                let hung = follower.answer(9, Duration::from_millis(1), move || waiting.recv().is_ok());
                assert_eq!(hung, None);
                resume
            })
            .collect();
        assert_eq!(follower.answer(9, Duration::from_mins(1), || 7), None);
        drop(held);
        while follower.stuck.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        assert_eq!(follower.answer(9, Duration::from_mins(1), || 7), Some(7));
    }
}
