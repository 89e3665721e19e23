//! Hashing of the files that servers run from, on threads of its own, so that the engine does not wait.

mod fair;
mod watching;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_engine::{
    FileWatch,
    pins::{LauncherFiles, Part, PinnedFile, ServerFiles, Writers},
};
use mcpmon_model::{FileId, InstanceId, ProcessId, Timestamp};
use mcpmon_pins::{EntryPoint, HashError, Hasher, HeldProgram, Launcher, Process, Touched, Watch};
use mcpmon_policy::variable_names;

use self::{
    fair::Fair,
    watching::{CountedWatch, Watches},
};
use super::{engine::EngineMessage, host, inbox::Sender, wrappers::ClaimedStart};

/// A serving process to be hashed.
#[derive(Clone, Debug)]
pub(super) struct HashJob {
    pub(super) instance: InstanceId,
    pub(super) process: ProcessId,
    pub(super) uid: u32,
    pub(super) attempt: u64,
    pub(super) stage: Stage,
    /// The program, if a dynamic loader was told to run it.
    pub(super) loaded: Option<String>,
    /// Files that were executed on the way to the process, by process; `None` if they were forgotten.
    pub(super) launcher: Option<Vec<Vec<String>>>,
    /// Its files as they are known without it, for a process that ends before it is examined.
    pub(super) handed: Option<HandedFiles>,
    /// The time at which the process began to run its program.
    pub(super) since: Timestamp,
    /// The changes of its files that are to be noticed.
    pub(super) watch: FileWatch,
}

/// The files of a started process, as far as they are known without it.
#[derive(Clone, Debug)]
pub(super) struct HandedFiles {
    pub(super) since: Instant,
    pub(super) program: HandedProgram,
    /// The file that the kernel saw executed: no other file is accepted.
    pub(super) file: FileId,
    /// The first argument of the process.
    pub(super) name: String,
}

/// The way to the program of a started process.
#[derive(Clone, Debug)]
pub(super) enum HandedProgram {
    /// Its wrapper held it open.
    Held(Arc<ClaimedStart>),
    /// It was executed by this absolute path, and the kernel, which found its digest accepted, did not stop it.
    At(PathBuf),
}

/// The queue of jobs for the hashing threads. Dropping it ends the threads.
#[derive(Debug)]
pub(super) struct HashQueue {
    shared: Arc<HashingState>,
    engine: Sender<EngineMessage>,
}

#[derive(Debug, Default)]
struct HashingState {
    jobs: Mutex<Fair<HashJob>>,
    changed: Condvar,
    stop: AtomicBool,
    watches: Arc<Watches>,
}

/// Number of hashing threads: a large package must not delay every other server.
const THREADS: usize = 3;
/// Most threads that work for one user at a time, so that one user's packages do not delay those of others.
const SHARE: usize = THREADS - 1;
/// Attempts to hash files that change meanwhile.
const ATTEMPTS: usize = 3;

impl HashQueue {
    /// Starts the threads; they send results to the engine.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
    pub(super) fn start(engine: Sender<EngineMessage>) -> io::Result<Self> {
        let shared = Arc::new(HashingState::default());
        for number in 0..THREADS {
            let (shared, engine) = (Arc::clone(&shared), engine.clone());
            thread::Builder::new()
                .name(format!("hash-{number}"))
                .spawn(move || work(&shared, &engine))?;
        }
        Ok(Self { shared, engine })
    }

    /// Queues a job, in place of a waiting one for the same server; never waits for the engine.
    pub(super) fn push(&self, job: HashJob) {
        let instance = job.instance;
        let pushed = self
            .shared
            .lock()
            .push(job.uid, job, |before| before.instance == instance);
        let Err(job) = pushed else {
            self.shared.changed.notify_one();
            return;
        };
        let cause = format!(
            "more than {} servers wait to be hashed, or {} of user {}",
            fair::WAITING,
            fair::WAITING_OF_USER,
            job.uid
        );
        let engine = self.engine.clone();
        // Sent from another thread: the engine calls this function, and must not wait for itself.
        let told =
            thread::Builder::new().spawn(move || report(&engine, &job, ExaminedProcess::unknown(&cause)));
        if let Err(error) = told {
            tracing::error!(%error, "a server was neither hashed nor reported");
        }
    }
}

impl Drop for HashQueue {
    fn drop(&mut self) {
        // Set under the lock, so that a thread that is about to wait does not miss it.
        let jobs = self.shared.lock();
        self.shared.stop.store(true, Ordering::Relaxed);
        drop(jobs);
        self.shared.changed.notify_all();
    }
}

impl HashingState {
    fn lock(&self) -> MutexGuard<'_, Fair<HashJob>> {
        // No operation leaves the queue half changed.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for a job; returns `None` when the queue is dropped.
    fn next(&self) -> Option<(u32, HashJob)> {
        let mut jobs = self.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(next) = jobs.take(SHARE) {
                return Some(next);
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, user: u32) {
        self.lock().done(user);
        // Threads may wait for a part of this user's share.
        self.changed.notify_all();
    }
}

fn work(shared: &Arc<HashingState>, engine: &Sender<EngineMessage>) {
    let mut hasher = Hasher::default();
    while let Some((user, job)) = shared.next() {
        let watch = match job.watch {
            FileWatch::WhileRead | FileWatch::UntilStarted => {
                look_watching(shared, &mut hasher, &job, engine)
            }
            FileWatch::None => {
                let looked = look(&mut hasher, &job, None, &|| shared.is_stopped());
                report(engine, &job, looked.unwrap_or_else(ExaminedProcess::of_error));
                None
            }
        };
        shared.done(user);
        if let Some(watch) = watch.filter(|_| job.watch == FileWatch::UntilStarted) {
            tell_touched(shared, engine, &job, watch);
        }
    }
}

/// Hashes files that do not change meanwhile, and reports them. Returns the watch, which continues.
fn look_watching(
    shared: &HashingState,
    hasher: &mut Hasher,
    job: &HashJob,
    engine: &Sender<EngineMessage>,
) -> Option<CountedWatch> {
    let is_stopped = || shared.is_stopped();
    for attempt in 1..=ATTEMPTS {
        let watch = shared.watches.begin(job.instance, job.uid, job.since, job.watch);
        let began = watch.as_ref().ok().map(|watch| &watch.watch);
        let looked = look(hasher, job, began, &is_stopped);
        let touched = began.and_then(|watch| watch.touched());
        if touched.is_some() && attempt < ATTEMPTS && !shared.is_stopped() {
            continue;
        }
        let is_examined = looked.is_ok();
        let mut looked = looked.unwrap_or_else(ExaminedProcess::of_error);
        let gap = match &touched {
            Some(Touched::Code(path)) => {
                looked.lose_sight(
                    path.clone(),
                    format!("it was replaced or written while it was compared, {ATTEMPTS} times"),
                );
                None
            }
            Some(Touched::Perhaps) | None => began.and_then(|watch| watch_gap(watch)),
        };
        // A process that could not be looked at says nothing about the watches of its files; a gap says more.
        let is_told = is_examined && gap.is_none() && job.watch == FileWatch::UntilStarted;
        if let Some(cause) = watch.as_ref().err().cloned().or(gap) {
            told(engine, EngineMessage::Unwatched { cause });
        }
        if let Some(watch) = began.filter(|_| is_told) {
            let crowded = EngineMessage::Crowded {
                instance: job.instance,
                uid: job.uid,
                is_crowded: watch.is_crowded(),
            };
            told(engine, crowded);
        }
        if let Some(path) = began.and_then(|watch| watch.late()) {
            looked.lose_sight(
                path,
                "it was replaced or written since the server was started".to_owned(),
            );
        }
        report(engine, job, looked);
        if touched == Some(Touched::Perhaps) {
            let (instance, attempt) = (job.instance, job.attempt);
            let path = None;
            told(
                engine,
                EngineMessage::Touched {
                    instance,
                    attempt,
                    path,
                },
            );
        }
        return watch.ok();
    }
    None
}

/// Returns why changes of a server's files may be missed, if that is so.
fn watch_gap(watch: &Watch) -> Option<String> {
    watch.gap().map(|errno| {
        format!(
            "not every file can be watched: {}; raise fs.inotify.max_user_watches where it is below 262144",
            errno.desc()
        )
    })
}

/// Reports the first change of code after the hashes, and possible changes, to the engine.
fn tell_touched(
    shared: &Arc<HashingState>,
    engine: &Sender<EngineMessage>,
    job: &HashJob,
    watch: CountedWatch,
) {
    let (shared, sender) = (Arc::clone(shared), engine.clone());
    let (instance, attempt) = (job.instance, job.attempt);
    let tell = move |path| {
        let message = EngineMessage::Touched {
            instance,
            attempt,
            path,
        };
        told(&sender, message);
    };
    if let Err(error) = watch.tell(move || shared.is_stopped(), tell) {
        let cause = format!("no thread can be had to watch files: {error}");
        told(engine, EngineMessage::Unwatched { cause });
    }
}

/// The result of examining a serving process.
struct ExaminedProcess {
    files: ServerFiles,
    environment: Vec<String>,
}

impl ExaminedProcess {
    fn of_error(error: HashError) -> Self {
        Self::unknown(&chain(&error))
    }

    fn unknown(cause: &str) -> Self {
        Self {
            files: unknown(Path::new(""), cause),
            environment: Vec::new(),
        }
    }

    /// Marks the code as unknown, whatever was read of it.
    fn lose_sight(&mut self, path: PathBuf, cause: String) {
        self.files.script = Some(Part::Unknown { path, cause });
    }
}

fn look(
    hasher: &mut Hasher,
    job: &HashJob,
    watch: Option<&Arc<Watch>>,
    cancel: &dyn Fn() -> bool,
) -> Result<ExaminedProcess, HashError> {
    let looked = look_at_process(hasher, job, watch, cancel);
    match (looked, &job.handed) {
        (Err(HashError::Cancelled), _) => Err(HashError::Cancelled),
        // The reason why the process itself could not be read is the more helpful one.
        (Err(error), Some(handed)) => look_without_process(hasher, job, handed, cancel)
            .ok()
            .ok_or(error),
        (looked, _) => looked,
    }
}

fn look_without_process(
    hasher: &mut Hasher,
    job: &HashJob,
    handed: &HandedFiles,
    cancel: &dyn Fn() -> bool,
) -> Result<ExaminedProcess, HashError> {
    let mut hash = |program: &HeldProgram, entry: &EntryPoint| {
        hasher.held(program, &handed.file, (&handed.name).into(), entry, cancel)
    };
    Ok(match &handed.program {
        HandedProgram::Held(start) => ExaminedProcess {
            files: hash(&start.program, &job.entry())?,
            environment: variable_names(start.names.iter().map(String::as_str)),
        },
        // A script or package would be looked for from another directory than the process's.
        HandedProgram::At(_) if !job.is_program_alone() => return Err(HashError::NotHeld),
        HandedProgram::At(path) => ExaminedProcess {
            files: hash(&HeldProgram::at(path)?, &EntryPoint::Program)?,
            environment: Vec::new(),
        },
    })
}

fn look_at_process(
    hasher: &mut Hasher,
    job: &HashJob,
    watch: Option<&Arc<Watch>>,
    cancel: &dyn Fn() -> bool,
) -> Result<ExaminedProcess, HashError> {
    let process = Process::open(job.process.pid)?;
    if !host::is_alive(job.process) {
        return Err(HashError::Replaced { pid: job.process.pid });
    }
    // Variables are recorded, not compared: those that cannot be read are left out.
    let variables = process.variables().unwrap_or_default();
    let mut files = hasher.server(&process, &job.entry(), watch, cancel)?;
    files.launcher = match &job.launcher {
        Some(way) if way.is_empty() => files.launcher,
        Some(way) => launcher(hasher, &Launcher::of_process(&process, way)?, cancel)?,
        None => Some(LauncherFiles {
            file: Part::Unknown {
                path: PathBuf::new(),
                cause: "more processes were started than are remembered, and what started it is forgotten"
                    .to_owned(),
            },
            writers: Writers::Others,
            is_known: false,
        }),
    };
    Ok(ExaminedProcess {
        files,
        environment: variable_names(variables.iter().map(String::as_str)),
    })
}

/// Hashes the launcher of a server as it is now. Returns `None` if the server has no launcher.
pub(super) fn launcher(
    hasher: &mut Hasher,
    launcher: &Launcher,
    cancel: &dyn Fn() -> bool,
) -> Result<Option<LauncherFiles>, HashError> {
    let hashed = hasher.launcher(launcher, cancel)?;
    Ok(hashed.map(|(file, writers)| {
        let (Part::Hashed(PinnedFile { path, .. }) | Part::Unknown { path, .. }) = &file;
        let name = path.file_name().and_then(|name| name.to_str());
        LauncherFiles {
            is_known: name.is_some_and(LaunchRules::is_launcher),
            file,
            writers,
        }
    }))
}

impl HashJob {
    fn entry(&self) -> EntryPoint {
        entry(&self.stage, self.loaded.as_deref())
    }

    /// Returns whether the process runs a program that was started directly, and no code beside it.
    fn is_program_alone(&self) -> bool {
        let is_direct = self.launcher.as_ref().is_some_and(Vec::is_empty);
        is_direct && self.loaded.is_none() && self.stage == Stage::Program
    }
}

/// Returns where the code of a process at this stage is; `loaded` is the program that a dynamic loader was told to run.
pub(super) fn entry(stage: &Stage, loaded: Option<&str>) -> EntryPoint {
    let entry = match stage {
        Stage::Script { path } | Stage::Shell { script: Some(path) } => {
            EntryPoint::Script(PathBuf::from(path))
        }
        Stage::Module { name } => EntryPoint::Module(name.clone()),
        Stage::Container { image } => EntryPoint::Image(image.clone()),
        Stage::Program | Stage::Launcher | Stage::Shell { script: None } | Stage::Inline => {
            EntryPoint::Program
        }
    };
    match loaded {
        Some(program) => EntryPoint::Loaded(PathBuf::from(program), Box::new(entry)),
        None => entry,
    }
}

fn report(engine: &Sender<EngineMessage>, job: &HashJob, looked: ExaminedProcess) {
    let message = EngineMessage::Hashed {
        instance: job.instance,
        attempt: job.attempt,
        files: Box::new(looked.files),
        environment: looked.environment,
    };
    told(engine, message);
}

fn told(engine: &Sender<EngineMessage>, message: EngineMessage) {
    if engine.send_blocking(message).is_err() {
        tracing::debug!("a hash came after the engine had ended");
    }
}

/// Returns the files of a server that could not be hashed at all; `path` is empty if its program is unknown too.
pub(super) fn unknown(path: &Path, cause: &str) -> ServerFiles {
    let executable = Part::Unknown {
        path: path.to_owned(),
        cause: cause.to_owned(),
    };
    ServerFiles {
        executable,
        executable_writers: Writers::Others,
        script: None,
        package: None,
        launcher: None,
        generated_script: None,
    }
}

/// Formats an error with its causes.
pub(super) fn chain(error: &HashError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn job(stage: Stage, launcher: Option<&[&str]>, loaded: Option<&str>) -> HashJob {
        HashJob {
            instance: InstanceId(1),
            process: ProcessId { pid: 1, start: 0 },
            uid: 7,
            attempt: 1,
            stage,
            loaded: loaded.map(str::to_owned),
            launcher: launcher.map(|way| way.iter().map(|file| vec![(*file).to_owned()]).collect()),
            handed: None,
            since: Timestamp(0),
            watch: FileWatch::None,
        }
    }

    #[test_case(job(Stage::Program, Some(&[]), None) => true; "a program")]
    #[test_case(job(Stage::Script { path: "/s".to_owned() }, Some(&[]), None) => false; "a script")]
    #[test_case(job(Stage::Module { name: "m".to_owned() }, Some(&[]), None) => false; "a module")]
    #[test_case(job(Stage::Program, Some(&["/l"]), None) => false; "by a launcher")]
    #[test_case(job(Stage::Program, None, None) => false; "its way is forgotten")]
    #[test_case(job(Stage::Program, Some(&[]), Some("/p")) => false; "by a loader")]
    fn only_a_program_alone_is_looked_for_at_its_path(job: HashJob) -> bool {
        job.is_program_alone()
    }

    #[test]
    fn another_file_at_the_path_is_not_that_of_a_process_that_is_gone() {
        let handed = HandedFiles {
            since: Instant::now(),
            program: HandedProgram::At(PathBuf::from("/bin/true")),
            file: FileId::default(),
            name: "true".to_owned(),
        };
        let job = HashJob {
            handed: Some(handed),
            ..job(Stage::Program, Some(&[]), None)
        };
        let looked = look(&mut Hasher::default(), &job, None, &|| false).map(|looked| looked.files);
        assert!(
            matches!(looked, Err(HashError::Replaced { pid: 1 })),
            "{looked:?}"
        );
    }
}
