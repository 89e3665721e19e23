//! Threads that hash what servers run from, away from the engine.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
};

use mcpmon_core::{
    decide::pins::{Part, ServerFiles},
    inspect::launch::Stage,
    model::{InstanceId, ProcessId},
};

use super::{engine::Message, host, inbox::Sender};
use crate::intercept::kernel::hash::{Entry, HashError, Hasher, Process};

/// A serving process to be hashed.
#[derive(Clone, Debug)]
pub(super) struct HashJob {
    pub(super) instance: InstanceId,
    pub(super) process: ProcessId,
    pub(super) attempt: u64,
    pub(super) stage: Stage,
}

/// Jobs on their way to the threads. Dropping it ends them.
#[derive(Debug)]
pub(super) struct HashQueue {
    jobs: SyncSender<HashJob>,
    engine: Sender<Message>,
    stop: Arc<AtomicBool>,
}

/// Jobs that wait at most; a server beyond it is reported as not hashed.
const WAITING: usize = 1024;
/// A large package must not hold up every other server.
const THREADS: usize = 2;

impl HashQueue {
    /// Starts the threads; results go to the engine.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn start(engine: Sender<Message>) -> io::Result<Self> {
        let (jobs, receiver) = sync_channel(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let stop = Arc::new(AtomicBool::new(false));
        for number in 0..THREADS {
            let (receiver, engine, stop) = (Arc::clone(&receiver), engine.clone(), Arc::clone(&stop));
            thread::Builder::new()
                .name(format!("hash-{number}"))
                .spawn(move || work(&receiver, &engine, &stop))?;
        }
        Ok(Self { jobs, engine, stop })
    }

    /// Queues a job; never waits.
    pub(super) fn push(&self, job: HashJob) {
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = self.jobs.try_send(job) {
            let cause = format!("more than {WAITING} servers wait to be hashed");
            let engine = self.engine.clone();
            // From a thread of its own: the engine calls this, and must not wait for itself.
            let told = thread::Builder::new().spawn(move || report(&engine, &job, unknown(&cause)));
            if let Err(error) = told {
                tracing::error!(%error, "a server was neither hashed nor reported");
            }
        }
    }
}

impl Drop for HashQueue {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn work(jobs: &Mutex<Receiver<HashJob>>, engine: &Sender<Message>, stop: &AtomicBool) {
    let mut hasher = Hasher::default();
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        let files = hash(&mut hasher, &job, &|| stop.load(Ordering::Relaxed));
        report(
            engine,
            &job,
            files.unwrap_or_else(|error| unknown(&chain(&error))),
        );
    }
}

fn hash(hasher: &mut Hasher, job: &HashJob, cancel: &dyn Fn() -> bool) -> Result<ServerFiles, HashError> {
    let process = Process::open(job.process.pid)?;
    if !host::is_alive(job.process) {
        return Err(HashError::Replaced { pid: job.process.pid });
    }
    hasher.server(&process, &entry(&job.stage), cancel)
}

fn entry(stage: &Stage) -> Entry {
    match stage {
        Stage::Script { path } => Entry::Script(PathBuf::from(path)),
        Stage::Module { name } => Entry::Module(name.clone()),
        Stage::Program | Stage::Launcher | Stage::Container { .. } | Stage::Inline => Entry::Program,
    }
}

fn report(engine: &Sender<Message>, job: &HashJob, files: ServerFiles) {
    let message = Message::Hashed {
        instance: job.instance,
        attempt: job.attempt,
        files: Box::new(files),
    };
    if engine.send(message).is_err() {
        tracing::debug!("a hash came after the engine had ended");
    }
}

/// What is known of a server that could not be hashed at all.
fn unknown(cause: &str) -> ServerFiles {
    let executable = Part::Unknown {
        path: PathBuf::from("executable"),
        cause: cause.to_owned(),
    };
    ServerFiles {
        executable,
        script: None,
        package: None,
    }
}

fn chain(error: &HashError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
