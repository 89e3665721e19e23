//! The wrapper's end of its connections to the daemon. One is for requests, and lasts as long as the wrapper: when it
//! closes, the wrapper has left. Another one is for records, and is made together with the first, so that no call waits
//! for a disk. A question whose answer may take long has its own connection.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcpmon_model::Denial;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use super::protocol::{Hear, Hello, MAX_HEARD, Say, SharedSessionState, StartedProcess};

/// Longest wait for an answer; the daemon may write to its store meanwhile.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// The connections, shared by the session and the writer of its recorder.
#[derive(Clone, Debug)]
pub(super) struct Link(Arc<SharedLink>);

#[derive(Debug)]
struct SharedLink {
    path: PathBuf,
    hello: Mutex<Hello>,
    stream: Mutex<Option<Stream>>,
    is_up: AtomicBool,
    /// The number of times the session was joined.
    joins: AtomicU64,
    /// A duplicate of the connection, to check it while another thread waits for an answer.
    probe: Mutex<Option<UnixStream>>,
    /// The connection for records.
    records: Mutex<Option<Stream>>,
}

type Stream = BufReader<UnixStream>;

/// A message in the form in which it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkMessage(Vec<u8>);

impl LinkMessage {
    /// # Errors
    /// Returns an error if the message has no JSON form.
    pub(super) fn of(say: &impl Serialize) -> serde_json::Result<Self> {
        let mut line = serde_json::to_vec(say)?;
        line.push(b'\n');
        Ok(Self(line))
    }

    /// Returns the length in bytes.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// No process listens on the socket.
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
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl LinkError {
    /// Returns whether the daemon may be running, and took too long.
    pub(super) fn is_late(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), TimedOut | WouldBlock))
    }
}

/// The first line on a connection: one of the requests of the control socket.
#[derive(Serialize)]
#[serde(tag = "request", rename_all = "snake_case")]
enum Introduction<'a> {
    /// The wrapper joins.
    Wrap { hello: &'a Hello },
    /// A second connection of a wrapper that has joined, for records.
    Records { hello: &'a Hello },
    /// A wrapper that has joined asks whether this process, which it started, has to be ended, and why.
    Fate {
        hello: &'a Hello,
        process: StartedProcess,
    },
}

impl Link {
    /// Connects to the daemon at `path`.
    ///
    /// # Errors
    /// Returns an error if there is none, or it refuses this process.
    pub(super) fn open(path: &Path, hello: Hello) -> Result<(Self, SharedSessionState), LinkError> {
        let link = Self(Arc::new(SharedLink {
            path: path.to_owned(),
            hello: Mutex::new(hello),
            stream: Mutex::default(),
            is_up: AtomicBool::new(false),
            joins: AtomicU64::new(0),
            probe: Mutex::default(),
            records: Mutex::default(),
        }));
        let state = link.join(&mut lock(&link.0.stream))?;
        Ok((link, state))
    }

    /// Returns whether the daemon was running when it last answered, and has not closed the connection since.
    pub(super) fn is_up(&self) -> bool {
        if !self.0.is_up.load(Ordering::Relaxed) {
            return false;
        }
        let probe = lock(&self.0.probe);
        probe.as_ref().is_some_and(is_open)
    }

    /// Returns how often the session was joined. After each time, another daemon may answer.
    pub(super) fn joins(&self) -> u64 {
        self.0.joins.load(Ordering::Acquire)
    }

    /// Sends a request and waits for the answer. Connects again if the connection is gone.
    ///
    /// # Errors
    /// Returns an error if the daemon is not running, does not answer in time, or refuses.
    pub(super) fn say(&self, say: &Say) -> Result<Hear, LinkError> {
        let mut stream = lock(&self.0.stream);
        if stream.is_none() {
            self.join(&mut stream)?;
        }
        self.exchange(&mut stream, say)
    }

    /// Sends records and waits for the answer; requests do not wait for it.
    ///
    /// # Errors
    /// Returns an error if the daemon is not running, does not answer in time, or refuses.
    pub(super) fn keep(&self, line: &LinkMessage) -> Result<Hear, LinkError> {
        let mut stream = lock(&self.0.records);
        if stream.is_some()
            && let Ok(heard) = self.on(&mut stream, line)
        {
            return Ok(heard);
        }
        // A broken connection does not mean that the daemon is gone: try a new one.
        let connected = self.connect_records().inspect_err(|_| {
            // A daemon that does not accept records counts as gone for requests too.
            *lock(&self.0.stream) = None;
            self.note_down();
        })?;
        *stream = Some(connected);
        self.on(&mut stream, line)
    }

    /// Returns the denial of a server's process, if the daemon has killed it or will. If the process's files are to be
    /// compared with its pins, the answer comes after that; no other request waits for it.
    ///
    /// # Errors
    /// Returns an error if the daemon is not running, refuses, or does not answer within `patience`.
    pub(super) fn fate(
        &self,
        process: StartedProcess,
        patience: Duration,
    ) -> Result<Option<Denial>, LinkError> {
        let (heard, _) = self.introduced(patience, |hello| Introduction::Fate { hello, process })?;
        let Hear::Fate(fate) = heard else {
            return Err(self.broken(io::ErrorKind::InvalidData.into()));
        };
        Ok(fate)
    }

    /// Reports the serving process, now and each time the daemon is connected again.
    ///
    /// # Errors
    /// Returns an error if the daemon is not running, does not answer in time, or refuses.
    pub(super) fn serves(&self, process: StartedProcess) -> Result<(), LinkError> {
        lock(&self.0.hello).child = Some(process);
        self.say(&Say::Serves { process }).map(drop)
    }

    /// Returns the socket of the daemon.
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Connects, and joins the session.
    fn join(&self, stream: &mut Option<Stream>) -> Result<SharedSessionState, LinkError> {
        let connected = self.connect(TIMEOUT)?;
        let probe = connected
            .get_ref()
            .try_clone()
            .map_err(|source| self.broken(source))?;
        *lock(&self.0.probe) = Some(probe);
        *stream = Some(connected);
        let hello = lock(&self.0.hello).clone();
        let mut heard = self.exchange(stream, &Introduction::Wrap { hello: &hello })?;
        if let Hear::Challenge(nonce) = heard {
            heard = self.exchange(stream, &Say::Repeat { nonce })?;
        }
        match heard {
            Hear::State(state) => {
                self.0.joins.fetch_add(1, Ordering::Release);
                self.0.is_up.store(true, Ordering::Relaxed);
                Ok(*state)
            }
            Hear::Done
            | Hear::Unkept(_)
            | Hear::Checked(_)
            | Hear::Fate(_)
            | Hear::Challenge(_)
            | Hear::Error(_) => {
                *stream = None;
                self.note_down();
                Err(self.broken(io::ErrorKind::InvalidData.into()))
            }
        }
    }

    /// Opens the connection for records.
    fn connect_records(&self) -> Result<Stream, LinkError> {
        match self.introduced(TIMEOUT, |hello| Introduction::Records { hello })? {
            (Hear::Done, Some(stream)) => Ok(stream),
            _ => Err(self.broken(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Opens another connection of a wrapper that has joined; joins again first if the daemon was gone. Returns the
    /// daemon's answer to the introduction, for which it waits for `patience`.
    fn introduced(
        &self,
        patience: Duration,
        introduction: impl FnOnce(&Hello) -> Introduction<'_>,
    ) -> Result<(Hear, Option<Stream>), LinkError> {
        if !self.is_up() {
            let mut stream = lock(&self.0.stream);
            if !self.is_up() {
                self.join(&mut stream)?;
            }
        }
        let mut stream = Some(self.connect(patience)?);
        let hello = lock(&self.0.hello).clone();
        let introduction = self.line_of(&introduction(&hello))?;
        let mut heard = self.on(&mut stream, &introduction)?;
        if let Hear::Challenge(nonce) = heard {
            heard = self.on(&mut stream, &self.line_of(&Say::Repeat { nonce })?)?;
        }
        Ok((heard, stream))
    }

    fn connect(&self, patience: Duration) -> Result<Stream, LinkError> {
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
            .set_read_timeout(Some(patience))
            .and_then(|()| connected.set_write_timeout(Some(TIMEOUT)))
            .map_err(|source| self.broken(source))?;
        Ok(BufReader::new(connected))
    }

    /// Sends a request on the main connection, and notes if the daemon does not answer.
    fn exchange(&self, stream: &mut Option<Stream>, say: &impl Serialize) -> Result<Hear, LinkError> {
        let outcome = self.line_of(say).and_then(|line| self.on(stream, &line));
        if outcome.is_err() {
            self.note_down();
        }
        outcome
    }

    /// Sends a line and reads the answer. After any error the connection is closed, because a late answer could be
    /// taken for the next one.
    fn on(&self, stream: &mut Option<Stream>, line: &LinkMessage) -> Result<Hear, LinkError> {
        let outcome = match stream {
            Some(stream) => converse(stream, line),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        let error = match outcome {
            Ok(Hear::Error(cause)) => LinkError::Refused(cause),
            Ok(heard) => return Ok(heard),
            Err(source) => self.broken(source),
        };
        *stream = None;
        Err(error)
    }

    fn line_of(&self, say: &impl Serialize) -> Result<LinkMessage, LinkError> {
        LinkMessage::of(say).map_err(|error| self.broken(error.into()))
    }

    fn note_down(&self) {
        *lock(&self.0.probe) = None;
        self.0.is_up.store(false, Ordering::Relaxed);
    }

    fn broken(&self, source: io::Error) -> LinkError {
        LinkError::Io {
            path: self.0.path.clone(),
            source,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // If a panic left a stream in the middle of an answer, the next answer on it is invalid, and the stream is closed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn converse(stream: &mut Stream, line: &LinkMessage) -> io::Result<Hear> {
    // A daemon that refuses the connection closes it at once; the reason can still be read.
    let sent = stream.get_mut().write_all(&line.0);
    let mut answer = Vec::new();
    let read = stream
        .by_ref()
        .take(MAX_HEARD as u64)
        .read_until(b'\n', &mut answer);
    if answer.is_empty() {
        sent?;
    }
    read?;
    if answer.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// Returns whether the other end has not closed the connection, whether or not there is something to read.
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
pub(super) mod tests {
    use std::{os::unix::net::UnixListener, sync::mpsc, thread};

    use mcpmon_model::{Digest, PinKey, ServerId};

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
            starts_server: true,
            child: None,
        }
    }

    fn answer(stream: &mut Stream, heard: &Hear) {
        let mut answer = serde_json::to_vec(heard).expect("JSON");
        answer.push(b'\n');
        stream.get_mut().write_all(&answer).expect("the wrapper listens");
    }

    pub(crate) fn said(stream: &mut Stream) -> Option<String> {
        let mut line = String::new();
        stream.read_line(&mut line).expect("the wrapper speaks");
        (!line.is_empty()).then_some(line)
    }

    /// A connection for records, accepted.
    fn accepted(listener: &UnixListener) -> Stream {
        let (stream, _) = listener.accept().expect("a wrapper");
        let mut stream = BufReader::new(stream);
        let introduction = said(&mut stream).expect("who it is");
        assert!(
            introduction.starts_with("{\"request\":\"records\""),
            "{introduction}"
        );
        answer(&mut stream, &Hear::Done);
        stream
    }

    /// A wrapper that has joined at `path`, and the other end of its connection.
    pub(crate) fn joined(path: &Path) -> (Link, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let link = Link(Arc::new(SharedLink {
            path: path.to_owned(),
            hello: Mutex::new(hello()),
            probe: Mutex::new(Some(ours.try_clone().expect("a copy"))),
            stream: Mutex::new(Some(BufReader::new(ours))),
            is_up: AtomicBool::new(true),
            joins: AtomicU64::new(1),
            records: Mutex::default(),
        }));
        (link, theirs)
    }

    fn nothing_to_keep() -> LinkMessage {
        let keep = Say::Keep {
            events: Vec::new(),
            rescued: Vec::new(),
            definitions: Vec::new(),
            forget: Vec::new(),
            held: Vec::new(),
            released: Vec::new(),
            recent: Vec::new(),
        };
        LinkMessage::of(&keep).expect("plain")
    }

    /// A daemon that answers to records only when told to.
    fn records(listener: &UnixListener, disk: mpsc::Receiver<()>, kept: mpsc::Sender<()>) {
        let mut stream = accepted(listener);
        while said(&mut stream).is_some() {
            kept.send(()).expect("the test goes on");
            disk.recv().expect("the test goes on");
            answer(&mut stream, &Hear::Done);
        }
    }

    #[test]
    fn who_is_waited_for_waits_for_no_record() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (turns, disk) = mpsc::channel();
        let (kept, begun) = mpsc::channel();
        let (link, theirs) = joined(&path);
        thread::scope(|scope| {
            scope.spawn(move || records(&listener, disk, kept));
            scope.spawn(|| {
                let mut stream = BufReader::new(theirs);
                while said(&mut stream).is_some() {
                    answer(&mut stream, &Hear::Checked(Box::default()));
                }
            });
            let writer = link.clone();
            let writes = scope.spawn(move || writer.keep(&nothing_to_keep()).expect("it is kept"));
            begun.recv().expect("a record is on its way");
            let state = Say::State {
                policy: Digest::of(b""),
            };
            link.say(&state).expect("an answer, while the record is not kept");
            assert!(!writes.is_finished());
            turns.send(()).expect("the disk goes on");
            assert_eq!(writes.join().expect("it ends"), Hear::Done);
            drop(link);
        });
    }

    /// Accepts one question about a process, and answers it when told to.
    fn fate(listener: &UnixListener, asked: mpsc::Sender<String>, compared: mpsc::Receiver<Option<Denial>>) {
        let (stream, _) = listener.accept().expect("a wrapper");
        let mut stream = BufReader::new(stream);
        let question = said(&mut stream).expect("a question");
        asked.send(question).expect("the test goes on");
        if let Ok(fate) = compared.recv() {
            answer(&mut stream, &Hear::Fate(fate));
        }
    }

    const SERVER: StartedProcess = StartedProcess { pid: 77, start: 5 };

    #[test]
    fn who_is_waited_for_waits_for_no_comparison() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (tell, compared) = mpsc::channel();
        let (asked, question) = mpsc::channel();
        let (link, theirs) = joined(&path);
        thread::scope(|scope| {
            scope.spawn(move || fate(&listener, asked, compared));
            scope.spawn(|| {
                let mut stream = BufReader::new(theirs);
                while said(&mut stream).is_some() {
                    answer(&mut stream, &Hear::Checked(Box::default()));
                }
            });
            let relay = link.clone();
            let asks = scope.spawn(move || link.fate(SERVER, Duration::from_secs(60)).expect("an answer"));
            let question = question.recv().expect("it is asked");
            assert!(
                question.starts_with("{\"request\":\"fate\",\"hello\":"),
                "{question}"
            );
            let state = Say::State {
                policy: Digest::of(b""),
            };
            relay.say(&state).expect("an answer, while nothing is compared");
            assert!(!asks.is_finished());
            tell.send(None).expect("it waits");
            assert_eq!(asks.join().expect("it ends"), None);
            drop(relay);
        });
    }

    #[test]
    fn a_comparison_that_takes_too_long_says_nothing_of_the_daemon() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (tell, compared) = mpsc::channel();
        let (asked, _question) = mpsc::channel();
        let (link, _theirs) = joined(&path);
        thread::scope(|scope| {
            scope.spawn(move || fate(&listener, asked, compared));
            let error = link
                .fate(SERVER, Duration::from_millis(50))
                .expect_err("nothing is compared");
            assert!(error.is_late(), "{error}");
            assert!(link.is_up());
            drop(tell);
        });
    }

    #[test]
    fn a_record_whose_connection_breaks_is_said_again_on_another() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (link, _theirs) = joined(&path);
        thread::scope(|scope| {
            let daemon = scope.spawn(|| {
                let mut first = accepted(&listener);
                said(&mut first).expect("a record");
                answer(&mut first, &Hear::Done);
                let unanswered = said(&mut first).expect("another one");
                drop(first);
                let mut second = accepted(&listener);
                let again = said(&mut second).expect("the same");
                answer(&mut second, &Hear::Done);
                (unanswered, again)
            });
            for _ in 0..2 {
                assert_eq!(link.keep(&nothing_to_keep()).expect("it is kept"), Hear::Done);
            }
            let (unanswered, again) = daemon.join().expect("it ends");
            assert_eq!(unanswered, again);
            assert!(link.is_up(), "whoever asks has lost nothing");
        });
    }

    #[test]
    fn a_record_that_nobody_takes_says_that_the_daemon_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (link, _theirs) = joined(&path);
        thread::scope(|scope| {
            let daemon = scope.spawn(move || said(&mut accepted(&listener)).expect("a record"));
            let error = link.keep(&nothing_to_keep()).expect_err("unanswered");
            assert!(matches!(error, LinkError::Io { .. }), "{error}");
            daemon.join().expect("it ends");
        });
        let error = link.keep(&nothing_to_keep()).expect_err("nobody listens");
        assert!(matches!(error, LinkError::NotRunning(_)), "{error}");
        assert!(!link.is_up());
    }
}
