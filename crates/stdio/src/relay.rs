//! The relay: one thread between a client and a server that polls the pipes of both, and passes signals and ends of
//! file on. It reports the bytes of each side as events, and its driver returns the bytes to write.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use mcpmon_model::Side;
use mcpmon_protocol::filter::stdio::StdioOutput;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::{Pid, read, write},
};

use super::{
    check::{FileCheck, Verification},
    client::{ClientSide, take_client},
    end::ProcessEnd,
    event::{RelayError, RelayEvent, RelayOutcome},
    family::Family,
    polling::{Ports, RareEvents, ReadyPorts, WriteState},
    server::RunningChild,
    sink::{ReaderGone, Sink},
    sys,
    watcher::{RelayProcess, WatcherMessage},
};

/// Most bytes that are read at a time: the capacity of a pipe.
pub(super) const BUFFER: usize = 64 * 1024;
/// Most bytes that wait to be written to a side; above that, the other side is not read.
pub(super) const WAITING: usize = 256 * 1024;
/// Most bytes of answers that wait for the side that caused them; above that, this side is not read.
const ANSWERS: usize = 4 << 20;
/// The longest time for a server that has lost both directions to its client.
pub(super) const ABANDONED: Duration = Duration::from_secs(5);
/// The time that a server has to end after its client has closed its end of the pipe and expects no answer. Clients of
/// the official SDKs wait for two seconds before they ask it to end themselves.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// The time that a server whose pipes are closed has to end before its client sees them closed. A killed process closes
/// its pipes first, and the reason for its death is known only once it has ended; its client is to get that reason.
const HANG_UP_GRACE: Duration = Duration::from_secs(1);
/// The time for which the check of an ended server may continue: without its digests, a first start is not
/// pinned.
const MAX_LATE_CHECK: Duration = Duration::from_secs(5);
/// The interval at which time-outs are checked.
const TICK: Duration = Duration::from_secs(1);
/// The time without messages after which memory that is only needed for messages is given back.
const QUIET: Duration = Duration::from_secs(10);
/// Most bytes of output that is no message that are written to standard error at a time, so that the write does not
/// block.
const NOISE: usize = 4096;

/// A conversation between the client that started this process and a server.
pub struct Relay<T> {
    process: Box<RelayProcess>,
    client_in: Option<OwnedFd>,
    client_out: Option<Sink>,
    server: Pid,
    server_in: Option<Sink>,
    server_out: Option<OwnedFd>,
    ended: Option<ProcessEnd>,
    /// The time the server closed the first of its pipes.
    hung_up: Option<Instant>,
    check: FileCheck<T>,
    abandoned: Option<Instant>,
    /// The time at which the client closed its end of the pipe, or was last known to expect an answer after that.
    dismissed: Option<Instant>,
    ticked: Instant,
    /// The time of the latest check of the clock, so that the clock is read once per wait.
    looked: Instant,
    seldom: RareEvents,
    /// True until the first wait.
    is_new: bool,
    /// The time of the last message, or `None` after memory was given back.
    heard: Option<Instant>,
    /// True while the driver wants nothing to be read from the client.
    holds_client: bool,
    buffer: Box<[u8]>,
    started: Instant,
    /// The results of the latest wait.
    ready: ReadyPorts,
    /// The stage that handles the next part of them.
    next: RelayStage,
    /// True if the next stage gives memory back.
    is_quiet: bool,
}

/// The stages of a relay between two waits, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelayStage {
    Wait,
    Signals,
    Check,
    Server,
    Client,
    Tick,
    LastWords,
    Closing,
    LateCheck(ProcessEnd),
    Over(RelayOutcome),
}

/// A [`RelayEvent`] with the number of its bytes instead of the bytes.
enum PendingEvent<T> {
    Received(Side, usize),
    Closed(Side),
    Checked(T),
    CheckedLate(T),
    Killed,
    Tick { is_quiet: bool },
    Finished(RelayOutcome),
}

impl<T> std::fmt::Debug for Relay<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("server", &self.server)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Relay<T> {
    /// Takes over this process's standard input and output, which are replaced by `/dev/null`.
    ///
    /// # Errors
    /// Returns an error if a descriptor cannot be made, and the process, whose standard input and output are left then.
    pub fn new(
        process: Box<RelayProcess>,
        server: RunningChild,
        verification: Option<Verification<T>>,
    ) -> Result<Self, (RelayError, Box<RelayProcess>)> {
        let (client_in, client_out, check) = match take_client(verification) {
            Ok(taken) => taken,
            Err(error) => return Err((error, process)),
        };
        Ok(Self {
            process,
            client_in: Some(client_in),
            client_out: Some(client_out),
            server: server.pid,
            server_in: Some(server.stdin),
            server_out: Some(server.stdout),
            ended: None,
            hung_up: None,
            check,
            abandoned: None,
            dismissed: None,
            ticked: Instant::now(),
            looked: Instant::now(),
            seldom: RareEvents::default(),
            is_new: true,
            heard: None,
            holds_client: false,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            started: Instant::now(),
            ready: ReadyPorts::default(),
            next: RelayStage::Wait,
            is_quiet: false,
        })
    }

    /// Waits for the next event. [`RelayEvent::Finished`] is the last one.
    ///
    /// # Errors
    /// Returns an error if a system call fails; the server is killed.
    pub fn next_event(&mut self) -> Result<RelayEvent<'_, T>, RelayError> {
        let event = match self.proceed() {
            Ok(event) => event,
            Err(error) => {
                self.process.family.kill_all()?;
                return Err(error);
            }
        };
        Ok(match event {
            PendingEvent::Received(side, count) => RelayEvent::Received(side, &self.buffer[..count]),
            PendingEvent::Closed(side) => RelayEvent::Closed(side),
            PendingEvent::Checked(found) => RelayEvent::Checked(found),
            PendingEvent::CheckedLate(found) => RelayEvent::CheckedLate(found),
            PendingEvent::Killed => RelayEvent::Killed,
            PendingEvent::Tick { is_quiet } => RelayEvent::Tick { is_quiet },
            PendingEvent::Finished(closing) => RelayEvent::Finished(closing),
        })
    }

    /// Writes to both sides; output of the server that is no message goes to standard error.
    pub fn send(&mut self, out: &mut StdioOutput) {
        if !out.noise.is_empty() {
            divert(&out.noise);
            out.noise.clear();
        }
        for side in [Side::Server, Side::Client] {
            let (sink, bytes) = match side {
                Side::Server => (&mut self.server_in, &mut out.to_server),
                Side::Client => (&mut self.client_out, &mut out.to_client),
            };
            let sent = match sink {
                Some(sink) if !bytes.is_empty() => sink.send(bytes),
                Some(_) | None => Ok(()),
            };
            bytes.clear();
            if sent == Err(ReaderGone) {
                self.deaf(side);
            }
        }
    }

    /// Sets whether the relay stops reading from the client.
    pub const fn hold_client(&mut self, holds: bool) {
        self.holds_client = holds;
    }

    /// Records whether the client expects an answer: a server whose input is closed may keep running while it does.
    pub fn expect_answers(&mut self, are_awaited: bool) {
        if are_awaited && self.dismissed.is_some() {
            self.dismissed = Some(Instant::now());
        }
    }

    /// Kills the server, and returns its client, whose requests are to be answered.
    ///
    /// # Errors
    /// Returns an error if the processes of the server cannot be found.
    pub fn refuse(self) -> Result<ClientSide, RelayError> {
        self.process.family.kill_all()?;
        Ok(ClientSide::left(self.process, self.client_in, self.client_out))
    }

    fn proceed(&mut self) -> Result<PendingEvent<T>, RelayError> {
        loop {
            if let Some(event) = self.take_stage()? {
                return Ok(event);
            }
        }
    }

    /// Runs the next stage. A stage that may have more events remains the next one.
    fn take_stage(&mut self) -> Result<Option<PendingEvent<T>>, RelayError> {
        match self.next {
            RelayStage::Wait => {
                self.ready = self.wait()?;
                self.next = RelayStage::Signals;
                if self.ready.control && self.heed_watcher()? == WatcherMessage::Gone {
                    self.next = RelayStage::Over(RelayOutcome::Unwatched);
                }
                Ok(None)
            }
            RelayStage::Signals => {
                self.next = RelayStage::Check;
                let was_killed = self.ready.signals && self.heed_signals()?;
                Ok(was_killed.then_some(PendingEvent::Killed))
            }
            RelayStage::Check => {
                self.next = RelayStage::Server;
                let found = self.ready.checked.then(|| self.check.finish()).flatten();
                Ok(found.map(PendingEvent::Checked))
            }
            RelayStage::Server => {
                self.next = RelayStage::Client;
                self.hear(Side::Client, self.ready.to_client);
                self.hear(Side::Server, self.ready.to_server);
                match self.ready.server {
                    true => self.server_speaks(),
                    false => Ok(None),
                }
            }
            RelayStage::Client => {
                self.next = RelayStage::Tick;
                match self.ready.client {
                    true => self.client_speaks(),
                    false => Ok(None),
                }
            }
            RelayStage::Tick => {
                self.next = RelayStage::LastWords;
                Ok(self.tick())
            }
            RelayStage::LastWords => {
                if std::mem::take(&mut self.is_quiet) {
                    sys::forget_pages();
                }
                let said = match self.ended {
                    Some(_) => self.last_words()?,
                    None => None,
                };
                if said.is_none() {
                    self.next = RelayStage::Closing;
                }
                Ok(said)
            }
            RelayStage::Closing => {
                self.next = match self.closing() {
                    Some(RelayOutcome::Ended(end)) => RelayStage::LateCheck(end),
                    Some(closing @ (RelayOutcome::Abandoned | RelayOutcome::Unwatched)) => {
                        RelayStage::Over(closing)
                    }
                    None => RelayStage::Wait,
                };
                Ok(None)
            }
            RelayStage::LateCheck(end) => {
                self.next = RelayStage::Over(RelayOutcome::Ended(end));
                let found = self.conclude_check()?;
                Ok(found.map(PendingEvent::CheckedLate))
            }
            RelayStage::Over(closing) => {
                match closing {
                    RelayOutcome::Ended(_) | RelayOutcome::Abandoned => self.process.family.end_all()?,
                    RelayOutcome::Unwatched => self.process.family.kill_all()?,
                }
                Ok(Some(PendingEvent::Finished(closing)))
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) -> Result<ReadyPorts, RelayError> {
        let waiting = |sink: &Option<Sink>| sink.as_ref().map_or(0, Sink::waiting);
        let (to_client, to_server) = (waiting(&self.client_out), waiting(&self.server_in));
        // A side is read while the other side keeps up, and while it reads the answers that it causes itself. If the
        // server cannot read, messages of the client stay in the pipe; if the server was refused, they are answered
        // there.
        let client = self.server_in.is_some()
            && to_server < WAITING
            && to_client < WAITING + ANSWERS
            && !self.holds_client;
        let server = to_client < WAITING && to_server < WAITING + ANSWERS;
        let (held, timeout) = (self.check.holds_back(), self.timeout());
        let ports = Ports {
            control: self.process.control(),
            signals: self.process.family.as_fd(),
            client: self.client_in.as_ref().filter(|_| client).map(OwnedFd::as_fd),
            server: self
                .server_out
                .as_ref()
                .filter(|_| server && !held)
                .map(OwnedFd::as_fd),
            checked: self.check.done(),
            to_client: self.client_out.as_ref(),
            to_server: self.server_in.as_ref(),
        };
        Ok(ports.poll(&mut self.seldom, timeout)?)
    }

    fn timeout(&self) -> PollTimeout {
        let tick = TICK.saturating_sub(self.looked - self.ticked);
        let left = match self.hung_up {
            Some(since) if !self.has_settled() => tick.min(HANG_UP_GRACE.saturating_sub(since.elapsed())),
            Some(_) | None => tick,
        };
        // Rounded up, because a wait that ends too early only begins again.
        PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    }

    fn tick(&mut self) -> Option<PendingEvent<T>> {
        self.looked = Instant::now();
        if self.looked - self.ticked < TICK {
            return None;
        }
        self.ticked = self.looked;
        let is_quiet = self.heard.is_some_and(|heard| self.looked - heard >= QUIET);
        let is_quiet = std::mem::take(&mut self.is_new) || is_quiet;
        if is_quiet {
            self.heard = None;
            self.is_quiet = true;
        }
        Some(PendingEvent::Tick { is_quiet })
    }

    /// Passes on the signals that only the watcher received.
    fn heed_watcher(&mut self) -> Result<WatcherMessage, RelayError> {
        let told = self.process.listen(self.started.elapsed())?;
        if let (WatcherMessage::Signals(signals), None) = (&told, self.ended) {
            for signal in signals {
                // The process number cannot be reused before the process was reaped.
                let _gone = kill(self.server, *signal);
            }
        }
        Ok(told)
    }

    /// Reads signals and reaps children, and returns whether the server was killed.
    fn heed_signals(&mut self) -> Result<bool, RelayError> {
        self.process.take_signals(self.started.elapsed())?;
        let reaped = Family::reap();
        let own = reaped.ended.into_iter().find(|(pid, _)| *pid == self.server);
        let Some((_, end)) = own else {
            return Ok(false);
        };
        self.ended = Some(end);
        Ok(end == ProcessEnd::Killed(Signal::SIGKILL))
    }

    /// Writes waiting bytes to a side. If its reader is gone, the other side's pipe is closed, as if it wrote to the
    /// reader itself.
    fn hear(&mut self, side: Side, hearing: WriteState) {
        let sink = match side {
            Side::Client => &mut self.client_out,
            Side::Server => &mut self.server_in,
        };
        let heard = match (sink, hearing) {
            (None, _) | (_, WriteState::Still) => Ok(()),
            (Some(sink), WriteState::Ready) => sink.flush(),
            (Some(_), WriteState::Gone) => Err(ReaderGone),
        };
        if heard == Err(ReaderGone) {
            self.deaf(side);
        }
    }

    fn deaf(&mut self, side: Side) {
        match side {
            Side::Client => {
                self.client_out = None;
                self.server_out = None;
            }
            Side::Server => {
                self.server_in = None;
                self.hung_up.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Returns whether the end of a server with closed pipes is known, or its time to end is over.
    fn has_settled(&self) -> bool {
        let is_over = |since: Instant| since.elapsed() >= HANG_UP_GRACE;
        self.ended.is_some() || self.hung_up.is_none_or(is_over)
    }

    fn client_speaks(&mut self) -> Result<Option<PendingEvent<T>>, RelayError> {
        let Some(descriptor) = &self.client_in else {
            return Ok(None);
        };
        Ok(match read_once(descriptor, &mut self.buffer)? {
            ReadOutcome::Later => None,
            ReadOutcome::Bytes(count) => Some(self.received(Side::Client, count)),
            ReadOutcome::End => {
                self.client_in = None;
                self.dismissed = Some(Instant::now());
                Some(PendingEvent::Closed(Side::Client))
            }
        })
    }

    /// Reads the server's output. The first time, the check of its files begins, and reading may have to wait for it.
    fn server_speaks(&mut self) -> Result<Option<PendingEvent<T>>, RelayError> {
        self.begin_check()?;
        if self.check.holds_back() {
            return Ok(None);
        }
        let Some(descriptor) = &self.server_out else {
            return Ok(None);
        };
        Ok(match read_once(descriptor, &mut self.buffer)? {
            ReadOutcome::Later => None,
            ReadOutcome::Bytes(count) => Some(self.received(Side::Server, count)),
            ReadOutcome::End => {
                self.server_out = None;
                self.hung_up.get_or_insert_with(Instant::now);
                Some(PendingEvent::Closed(Side::Server))
            }
        })
    }

    fn received(&mut self, side: Side, count: usize) -> PendingEvent<T> {
        self.heard = Some(self.looked);
        PendingEvent::Received(side, count)
    }

    /// Begins the check if the server has written something. A server that ends without output needs no check, and its
    /// files may be unreachable.
    fn begin_check(&mut self) -> io::Result<()> {
        match self.check.is_due() && self.server_out.as_ref().is_some_and(has_data) {
            true => self.check.begin(),
            false => Ok(()),
        }
    }

    /// Waits for the check of a server that has ended, unless a message of the watcher comes.
    fn conclude_check(&mut self) -> Result<Option<T>, RelayError> {
        let Some(done) = self.check.done() else {
            return Ok(None);
        };
        let mut ports = [
            PollFd::new(done, PollFlags::POLLIN),
            PollFd::new(self.process.control(), PollFlags::POLLIN),
        ];
        let patience = PollTimeout::try_from(MAX_LATE_CHECK).unwrap_or(PollTimeout::MAX);
        match poll(&mut ports, patience) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_done = ports[0].revents().is_some_and(|events| !events.is_empty());
        Ok(is_done.then(|| self.check.finish()).flatten())
    }

    /// Reads what the server wrote before it ended.
    fn last_words(&mut self) -> Result<Option<PendingEvent<T>>, RelayError> {
        self.begin_check()?;
        let Some(descriptor) = &self.server_out else {
            return Ok(None);
        };
        if self.check.holds_back() {
            return Ok(None);
        }
        Ok(Some(match read_once(descriptor, &mut self.buffer)? {
            ReadOutcome::Bytes(count) => self.received(Side::Server, count),
            ReadOutcome::Later | ReadOutcome::End => {
                self.server_out = None;
                PendingEvent::Closed(Side::Server)
            }
        }))
    }

    /// Closes the pipes on which nothing more comes. Returns the outcome if the conversation is over.
    fn closing(&mut self) -> Option<RelayOutcome> {
        if self.client_in.is_none() && self.server_in.as_ref().is_some_and(|sink| sink.waiting() == 0) {
            self.server_in = None;
        }
        let has_settled = self.has_settled();
        if has_settled && self.server_in.is_none() {
            self.client_in = None;
        }
        if has_settled
            && self.server_out.is_none()
            && self.client_out.as_ref().is_some_and(|sink| sink.waiting() == 0)
        {
            self.client_out = None;
        }
        if let (Some(end), None, None) = (self.ended, &self.server_out, &self.client_out) {
            return Some(RelayOutcome::Ended(end));
        }
        if self.ended.is_none()
            && self
                .dismissed
                .is_some_and(|since| since.elapsed() >= SHUTDOWN_GRACE)
        {
            if self.client_out.as_ref().is_none_or(|sink| sink.waiting() == 0) {
                return Some(RelayOutcome::Abandoned);
            }
            // The client is slow to read the server's output, and the server may have more.
            self.dismissed = Some(Instant::now());
        }
        if self.client_in.is_some() || self.client_out.is_some() {
            self.abandoned = None;
            return None;
        }
        let since = *self.abandoned.get_or_insert_with(Instant::now);
        (since.elapsed() >= ABANDONED).then_some(RelayOutcome::Abandoned)
    }
}

/// The result of a read.
pub(super) enum ReadOutcome {
    Bytes(usize),
    Later,
    End,
}

/// Returns whether there is something to read, and not only the end.
fn has_data(descriptor: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    let polled = poll(&mut ready, PollTimeout::ZERO);
    polled.is_ok()
        && ready[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLIN))
}

pub(super) fn read_once(descriptor: &OwnedFd, buffer: &mut [u8]) -> Result<ReadOutcome, RelayError> {
    match read(descriptor, buffer) {
        Ok(0) => Ok(ReadOutcome::End),
        Ok(count) => Ok(ReadOutcome::Bytes(count)),
        Err(Errno::EINTR | Errno::EAGAIN) => Ok(ReadOutcome::Later),
        // The errors of a socket or terminal whose other end is gone.
        Err(Errno::ECONNRESET | Errno::EIO) => Ok(ReadOutcome::End),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes output that is no message to standard error, as far as that does not block.
fn divert(noise: &[u8]) {
    let stderr = io::stderr();
    for piece in noise.chunks(NOISE) {
        let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        let takes = poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0);
        if !takes || write(&stderr, piece).is_err() {
            return;
        }
    }
}
