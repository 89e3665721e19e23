//! The wrapper's end of its connection to the daemon. It lasts as long as the wrapper: its end is the leave.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use super::protocol::{Hear, Hello, MAX_HEARD, Say, Started, State};

/// Longest wait for an answer. The daemon writes to its store meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connection, shared by the judge and the recorder's writer.
#[derive(Clone, Debug)]
pub(super) struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    hello: Mutex<Hello>,
    stream: Mutex<Option<BufReader<UnixStream>>>,
    is_up: AtomicBool,
    /// The same connection, for a look at it while somebody waits for an answer.
    probe: Mutex<Option<UnixStream>>,
    turns: Turns,
}

/// Whose turn it is. A call waits for what the judge asks: records let it go first, so that it waits for no more than
/// the one exchange that is under way.
#[derive(Debug, Default)]
struct Turns {
    waiting: Mutex<usize>,
    served: Condvar,
}

/// Why there is no connection, or none any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// Nobody listens.
    #[error("no daemon is listening on {}", .0.display())]
    NotRunning(PathBuf),
    /// The daemon refuses this process.
    #[error("the daemon refuses this wrapper: {0}")]
    Refused(String),
    /// The conversation broke off.
    #[error("the connection to the daemon on {path} broke off", path = path.display())]
    Io {
        /// Its socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The first line: a request among those of the control socket.
#[derive(Serialize)]
#[serde(tag = "request", rename = "wrap")]
struct Introduction<'a> {
    hello: &'a Hello,
}

impl Link {
    /// Connects to the daemon at `path`.
    ///
    /// # Errors
    /// Where there is none, or it refuses this process.
    pub(super) fn open(path: &Path, hello: Hello) -> Result<(Self, State), LinkError> {
        let link = Self(Arc::new(Shared {
            path: path.to_owned(),
            hello: Mutex::new(hello),
            stream: Mutex::new(None),
            is_up: AtomicBool::new(false),
            probe: Mutex::new(None),
            turns: Turns::default(),
        }));
        let state = link.connect(&mut link.lock())?;
        Ok((link, state))
    }

    /// Whether the daemon was there when it was last heard, and has not closed the connection since.
    pub(super) fn is_up(&self) -> bool {
        if !self.0.is_up.load(Ordering::Relaxed) {
            return false;
        }
        let probe = self.0.probe.lock().unwrap_or_else(PoisonError::into_inner);
        probe.as_ref().is_some_and(is_open)
    }

    /// Says something and waits for the answer; connects again where the connection is gone.
    ///
    /// # Errors
    /// Where the daemon is not there, does not answer in time, or refuses.
    pub(super) fn say(&self, say: &Say) -> Result<Hear, LinkError> {
        self.0.turns.wait();
        let stream = self.lock();
        self.0.turns.serve();
        self.say_on(stream, say)
    }

    /// The same for what nobody waits for: after whatever somebody does.
    ///
    /// # Errors
    /// Where the daemon is not there, does not answer in time, or refuses.
    pub(super) fn say_later(&self, say: &Say) -> Result<Hear, LinkError> {
        self.0.turns.pass();
        self.say_on(self.lock(), say)
    }

    fn say_on(
        &self,
        mut stream: MutexGuard<'_, Option<BufReader<UnixStream>>>,
        say: &Say,
    ) -> Result<Hear, LinkError> {
        if stream.is_none() {
            self.connect(&mut stream)?;
        }
        self.exchange(&mut stream, say)
    }

    /// Says which process was started to serve, now and whenever the daemon is connected again.
    ///
    /// # Errors
    /// Where the daemon is not there, does not answer in time, or refuses.
    pub(super) fn serves(&self, process: Started) -> Result<(), LinkError> {
        self.0.hello.lock().unwrap_or_else(PoisonError::into_inner).child = Some(process);
        self.say(&Say::Serves { process }).map(drop)
    }

    /// Where the daemon listens.
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    fn connect(&self, stream: &mut Option<BufReader<UnixStream>>) -> Result<State, LinkError> {
        let path = &self.0.path;
        let connected = UnixStream::connect(path).map_err(|source| {
            let is_nobody = matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            );
            match is_nobody {
                true => LinkError::NotRunning(path.clone()),
                false => self.broken(source),
            }
        })?;
        connected
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| connected.set_write_timeout(Some(PATIENCE)))
            .map_err(|source| self.broken(source))?;
        let probe = connected.try_clone().map_err(|source| self.broken(source))?;
        *self.0.probe.lock().unwrap_or_else(PoisonError::into_inner) = Some(probe);
        *stream = Some(BufReader::new(connected));
        let hello = self
            .0
            .hello
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut heard = self.exchange(stream, &Introduction { hello: &hello })?;
        if let Hear::Challenge(nonce) = heard {
            heard = self.exchange(stream, &Say::Repeat { nonce })?;
        }
        match heard {
            Hear::State(state) => {
                self.0.is_up.store(true, Ordering::Relaxed);
                Ok(*state)
            }
            Hear::Done | Hear::Unkept(_) | Hear::Checked(_) | Hear::Challenge(_) | Hear::Error(_) => {
                self.close(stream);
                Err(self.broken(io::ErrorKind::InvalidData.into()))
            }
        }
    }

    /// A connection on which anything went wrong is closed: what comes next on it could be taken for another answer.
    fn exchange(
        &self,
        stream: &mut Option<BufReader<UnixStream>>,
        say: &impl Serialize,
    ) -> Result<Hear, LinkError> {
        let outcome = match stream {
            Some(stream) => converse(stream, say),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        match outcome {
            Ok(Hear::Error(cause)) => {
                self.close(stream);
                Err(LinkError::Refused(cause))
            }
            Ok(heard) => Ok(heard),
            Err(source) => {
                self.close(stream);
                Err(self.broken(source))
            }
        }
    }

    fn close(&self, stream: &mut Option<BufReader<UnixStream>>) {
        *stream = None;
        *self.0.probe.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.0.is_up.store(false, Ordering::Relaxed);
    }

    fn broken(&self, source: io::Error) -> LinkError {
        LinkError::Io {
            path: self.0.path.clone(),
            source,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<BufReader<UnixStream>>> {
        // A stream that a panic left in the middle of an answer is found out by what comes next on it.
        self.0.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody waits for the connection.
    fn wait(&self) {
        *self.lock() += 1;
    }

    /// And has it.
    fn serve(&self) {
        *self.lock() -= 1;
        self.served.notify_all();
    }

    /// Lets those pass who wait; no longer than an exchange may take.
    fn pass(&self) {
        let waited = self
            .served
            .wait_timeout_while(self.lock(), PATIENCE, |waiting| *waiting > 0);
        drop(waited);
    }
}

fn converse(stream: &mut BufReader<UnixStream>, say: &impl Serialize) -> io::Result<Hear> {
    let mut line = serde_json::to_vec(say)?;
    line.push(b'\n');
    stream.get_mut().write_all(&line)?;
    let mut answer = Vec::new();
    stream
        .by_ref()
        .take(MAX_HEARD as u64)
        .read_until(b'\n', &mut answer)?;
    if answer.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// Whether the other end is there, whatever there is to be read.
fn is_open(stream: &UnixStream) -> bool {
    let mut looked_at = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let is_gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    let looked = poll(&mut looked_at, PollTimeout::ZERO).is_ok();
    looked
        && !looked_at[0]
            .revents()
            .is_some_and(|seen| seen.intersects(is_gone))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, sync::atomic::AtomicUsize, thread};

    use mcpmon_core::model::{Digest, PinKey, ServerId};

    use super::*;

    fn hello() -> Hello {
        Hello {
            identity: PinKey {
                server: ServerId::new("files").expect("an id"),
                name: "files".to_owned(),
                uid: 0,
            },
            session: None,
            agent: None,
            child: None,
        }
    }

    fn state() -> Say {
        Say::State {
            policy: Digest::of(b""),
        }
    }

    /// A daemon that takes its time with every record: it counts them.
    fn answer(listener: &UnixListener, records: &AtomicUsize) {
        let (stream, _) = listener.accept().expect("a wrapper");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
            let heard = match line.contains("keep") {
                true => {
                    thread::sleep(Duration::from_millis(5));
                    records.fetch_add(1, Ordering::SeqCst);
                    Hear::Done
                }
                false => Hear::Checked(Box::default()),
            };
            let mut answer = serde_json::to_vec(&heard).expect("JSON");
            answer.push(b'\n');
            stream.get_mut().write_all(&answer).expect("the wrapper listens");
            line.clear();
        }
    }

    #[test]
    fn who_is_waited_for_waits_for_one_exchange() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let records = AtomicUsize::new(0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| answer(&listener, &records));
            let stream = UnixStream::connect(&path).expect("the daemon");
            let link = Link(Arc::new(Shared {
                path: path.clone(),
                hello: Mutex::new(hello()),
                stream: Mutex::new(Some(BufReader::new(stream))),
                is_up: AtomicBool::new(true),
                probe: Mutex::new(None),
                turns: Turns::default(),
            }));
            let (writer, is_over) = (link.clone(), &is_over);
            let writes = scope.spawn(move || {
                let keep = || Say::Keep {
                    events: Vec::new(),
                    rescued: Vec::new(),
                    definitions: Vec::new(),
                    forget: Vec::new(),
                    recent: Vec::new(),
                };
                while !is_over.load(Ordering::SeqCst) {
                    writer.say_later(&keep()).expect("an answer");
                }
            });
            for _ in 0..20 {
                let before = records.load(Ordering::SeqCst);
                link.say(&state()).expect("an answer");
                let between = records.load(Ordering::SeqCst) - before;
                assert!(between <= 2, "{between} records went first");
                thread::sleep(Duration::from_millis(3));
            }
            is_over.store(true, Ordering::SeqCst);
            writes.join().expect("it ends");
            drop(link);
        });
    }
}
