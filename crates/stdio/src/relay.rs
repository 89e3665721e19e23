//! One thread between a client and a server: polls the pipes of both, passes what they say through a filter,
//! and carries signals and ends from one to the other.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use mcpmon_model::{Denial, Incident, ListKind, Message, Side, Timestamp, Verdict};
use mcpmon_protocol::filter::stdio::{Filter, Judge, Knows, Output};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::{Pid, dup2_stdin, dup2_stdout, read, write},
};

use super::{
    check::{Check, Verification},
    client::Client,
    end::End,
    family::Family,
    guard::{GuardMessage, Guarded},
    polling::{Ports, RareEvents, Ready, WriteState},
    server::Server,
    sink::{Closed, Sink},
    sys,
};

/// Bytes read at a time: what a pipe holds.
pub(super) const BUFFER: usize = 64 * 1024;
/// Bytes that wait for a side before the other one is read no further.
pub(super) const WAITING: usize = 256 * 1024;
/// Bytes of answers that wait for the side that provoked them, before it is read no further.
const ANSWERS: usize = 4 << 20;
/// The longest time for a server that has neither a client to read nor one to write to.
pub(super) const ABANDONED: Duration = Duration::from_secs(5);
/// The time a server whose pipes are closed may take to end before its client sees them closed. A killed
/// process closes them first; the reason for its death is known only once it has ended, and its client waits
/// for that.
const HANG_UP_GRACE: Duration = Duration::from_secs(1);
/// The time for which the check of an ended server may continue: without its digests, a first start is not
/// pinned.
const MAX_LATE_CHECK: Duration = Duration::from_secs(5);
/// The interval at which time-outs are checked.
const TICK: Duration = Duration::from_secs(1);
/// The time without messages after which memory that only messages need is given back.
const QUIET: Duration = Duration::from_secs(10);
/// Bytes of noise that standard error takes without waiting.
const NOISE: usize = 4096;

/// An input of judgement; `T` is the result of the check of the server's files.
#[derive(Debug)]
pub enum JudgementInput<'a, T> {
    /// A message of either side.
    Message(&'a Message<'a>),
    /// Something on the wire that is no message; its verdict does not matter.
    Incident(&'a Incident),
    /// The result of the check of the server's files.
    Checked(T),
    /// The server was killed by `SIGKILL`; a block says that its client is to be told why.
    Killed,
    /// A tool that is called; put in is whether it was on a list of the server. The verdict does not matter.
    Tool(&'a str, &'a mut bool),
    /// Time passed; lists that show something else by now are put in. The verdict does not matter.
    Tick(&'a mut BTreeSet<ListKind>),
}

/// The end of a conversation.
#[derive(Debug)]
pub enum RelayOutcome {
    /// The server ended.
    Ended(End),
    /// The server must not run, and was killed; its client waits for answers.
    Refused(Denial, Box<Client>),
    /// The client is gone, and the server went on; it was ended.
    Abandoned,
    /// The guard was killed, and the server with it.
    Unguarded,
}

/// The reason why a conversation could not continue; the server was killed.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A descriptor cannot be polled, read or duplicated.
    #[error("cannot relay between client and server")]
    Io(#[from] io::Error),
}

impl From<Errno> for RelayError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// A conversation of the client that started this process with a server.
pub struct Relay<'a, T> {
    guarded: Box<Guarded>,
    client_in: Option<OwnedFd>,
    client_out: Option<Sink>,
    server: Pid,
    server_in: Option<Sink>,
    server_out: Option<OwnedFd>,
    ended: Option<End>,
    /// The time the server closed the first of its pipes.
    hung_up: Option<Instant>,
    check: Check<T>,
    abandoned: Option<Instant>,
    ticked: Instant,
    /// Time at the latest look, so that the clock is read once for each.
    looked: Instant,
    seldom: RareEvents,
    /// True if no time has passed yet.
    is_new: bool,
    /// The time of the last message, unless memory was given back since.
    heard: Option<Instant>,
    filter: Filter,
    out: Output,
    buffer: Box<[u8]>,
    started: Instant,
    clock: fn() -> Timestamp,
    judge: &'a mut dyn FnMut(Timestamp, JudgementInput<'_, T>) -> Verdict,
}

impl<T> std::fmt::Debug for Relay<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("server", &self.server)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Send + 'static> Relay<'a, T> {
    /// Takes this process's standard input and output, which lead nowhere from then on.
    ///
    /// # Errors
    /// Returns an error if a descriptor cannot be duplicated.
    pub fn new(
        guarded: Box<Guarded>,
        server: Server,
        verification: Option<Verification<T>>,
        filter: Filter,
        clock: fn() -> Timestamp,
        judge: &'a mut dyn FnMut(Timestamp, JudgementInput<'_, T>) -> Verdict,
    ) -> Result<Self, RelayError> {
        let client_in = io::stdin().as_fd().try_clone_to_owned()?;
        let client_out = io::stdout().as_fd().try_clone_to_owned()?;
        let nothing = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        dup2_stdin(&nothing)?;
        dup2_stdout(&nothing)?;
        Ok(Self {
            guarded,
            client_in: Some(client_in),
            client_out: Some(Sink::inherited(client_out)?),
            server: server.pid,
            server_in: Some(server.stdin),
            server_out: Some(server.stdout),
            ended: None,
            hung_up: None,
            check: Check::new(verification)?,
            abandoned: None,
            ticked: Instant::now(),
            looked: Instant::now(),
            seldom: RareEvents::default(),
            is_new: true,
            heard: None,
            filter,
            out: Output::default(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            started: Instant::now(),
            clock,
            judge,
        })
    }

    /// Relays until one side ends, and leaves no process behind.
    ///
    /// # Errors
    /// Returns an error if a system call fails; the server is killed.
    pub fn run(mut self) -> Result<RelayOutcome, RelayError> {
        let parting = self.relay();
        if let Ok(Parting::Ended(_)) = &parting {
            self.conclude_check()?;
        }
        match &parting {
            Ok(Parting::Ended(_) | Parting::Abandoned) => self.guarded.family.end_all()?,
            Ok(Parting::Unguarded | Parting::Refused(_)) | Err(_) => self.guarded.family.kill_all()?,
        }
        Ok(match parting? {
            Parting::Ended(end) => RelayOutcome::Ended(end),
            Parting::Abandoned => RelayOutcome::Abandoned,
            Parting::Unguarded => RelayOutcome::Unguarded,
            Parting::Refused(denial) => {
                let client = Client::left(self.guarded, self.client_in, self.client_out, self.filter);
                RelayOutcome::Refused(denial, Box::new(client))
            }
        })
    }

    fn relay(&mut self) -> Result<Parting, RelayError> {
        loop {
            let ready = self.wait()?;
            if ready.control && self.heed_guard()? == GuardMessage::Gone {
                return Ok(Parting::Unguarded);
            }
            if ready.signals
                && let Some(denial) = self.heed_signals()?
            {
                return Ok(Parting::Refused(denial));
            }
            if ready.checked
                && let Some(denial) = self.settle()
            {
                return Ok(Parting::Refused(denial));
            }
            self.hear(Side::Client, ready.to_client);
            self.hear(Side::Server, ready.to_server);
            if ready.server {
                self.server_speaks()?;
            }
            if ready.client {
                self.client_speaks()?;
            }
            self.tick();
            if self.ended.is_some() {
                self.take_last_words()?;
            }
            if let Some(closing) = self.closing()? {
                return Ok(closing);
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) -> Result<Ready, RelayError> {
        let waiting = |sink: &Option<Sink>| sink.as_ref().map_or(0, Sink::waiting);
        let (to_client, to_server) = (waiting(&self.client_out), waiting(&self.server_in));
        // A side is read while the other one keeps up, and while it takes the answers that it provokes itself.
        // What nobody would hear stays in the pipe: it is answered where the server was refused.
        let client = self.server_in.is_some()
            && to_server < WAITING
            && to_client < WAITING + ANSWERS
            && !self.filter.is_asking();
        let server = to_client < WAITING && to_server < WAITING + ANSWERS;
        let (held, timeout) = (self.check.holds_back(), self.timeout());
        let ports = Ports {
            control: self.guarded.control(),
            signals: self.guarded.family.as_fd(),
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
        // Rounded up: a wait that ends too early only begins again.
        PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    }

    fn tick(&mut self) {
        self.looked = Instant::now();
        if self.looked - self.ticked < TICK {
            return;
        }
        self.ticked = self.looked;
        let is_quiet = self.heard.is_some_and(|heard| self.looked - heard >= QUIET);
        if std::mem::take(&mut self.is_new) || is_quiet {
            self.heard = None;
            self.filter.shrink();
            sys::forget_pages();
        }
        let now = (self.clock)();
        self.filter.expire(now, &mut self.out);
        self.judged(now, Filter::go_on);
        self.carry_out(now);
        let mut changed = BTreeSet::new();
        (self.judge)(now, JudgementInput::Tick(&mut changed));
        for kind in changed {
            self.filter.list_changed(kind, &mut self.out);
        }
        self.carry_out(now);
    }

    /// Passes on the signals that came to the guard alone.
    fn heed_guard(&mut self) -> Result<GuardMessage, RelayError> {
        let told = self.guarded.listen(self.started.elapsed())?;
        if let (GuardMessage::Signals(signals), None) = (&told, self.ended) {
            for signal in signals {
                // Its number is its own until its end is taken note of.
                let _gone = kill(self.server, *signal);
            }
        }
        Ok(told)
    }

    /// Takes signals and ends; why the server was killed, where its client is to be told.
    fn heed_signals(&mut self) -> Result<Option<Denial>, RelayError> {
        self.guarded.take_signals(self.started.elapsed())?;
        let reaped = Family::reap();
        let own = reaped.ended.into_iter().find(|(pid, _)| *pid == self.server);
        let Some((_, end)) = own else {
            return Ok(None);
        };
        self.ended = Some(end);
        if end != End::Killed(Signal::SIGKILL) {
            return Ok(None);
        }
        Ok(match (self.judge)((self.clock)(), JudgementInput::Killed) {
            Verdict::Block(denial) => Some(denial),
            Verdict::Allow | Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) => None,
        })
    }

    /// Writes what waits for a side, or takes note that it hears nothing any more: the other side is to see that
    /// as if it wrote to it itself.
    fn hear(&mut self, side: Side, hearing: WriteState) {
        let sink = match side {
            Side::Client => &mut self.client_out,
            Side::Server => &mut self.server_in,
        };
        let heard = match (sink, hearing) {
            (None, _) | (_, WriteState::Still) => Ok(()),
            (Some(sink), WriteState::Ready) => sink.flush(),
            (Some(_), WriteState::Gone) => Err(Closed),
        };
        if heard == Err(Closed) {
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

    /// Returns whether it is known how a server with closed pipes ended, or that it goes on without them.
    fn has_settled(&self) -> bool {
        let is_over = |since: Instant| since.elapsed() >= HANG_UP_GRACE;
        self.ended.is_some() || self.hung_up.is_none_or(is_over)
    }

    fn client_speaks(&mut self) -> Result<(), RelayError> {
        let Some(descriptor) = &self.client_in else {
            return Ok(());
        };
        match read_once(descriptor, &mut self.buffer)? {
            Chunk::Later => {}
            Chunk::Bytes(count) => self.pass(Side::Client, count),
            Chunk::End => {
                self.client_in = None;
                self.close(Side::Client);
            }
        }
        Ok(())
    }

    /// Reads what the server says. The first time, the look at its files begins, and that may have to wait.
    fn server_speaks(&mut self) -> Result<(), RelayError> {
        self.begin_check()?;
        if self.check.holds_back() {
            return Ok(());
        }
        let Some(descriptor) = &self.server_out else {
            return Ok(());
        };
        match read_once(descriptor, &mut self.buffer)? {
            Chunk::Later => {}
            Chunk::Bytes(count) => self.pass(Side::Server, count),
            Chunk::End => {
                self.server_out = None;
                self.hung_up.get_or_insert_with(Instant::now);
                self.close(Side::Server);
            }
        }
        Ok(())
    }

    /// One that ends without a word has nothing to be held back, and its files may be out of reach.
    fn begin_check(&mut self) -> io::Result<()> {
        match self.check.is_due() && self.server_out.as_ref().is_some_and(has_data) {
            true => self.check.begin(),
            false => Ok(()),
        }
    }

    /// Judges what the server runs from; why it may not go on, where it may not.
    fn settle(&mut self) -> Option<Denial> {
        let found = self.check.finish()?;
        match (self.judge)((self.clock)(), JudgementInput::Checked(found)) {
            Verdict::Block(denial) => Some(denial),
            Verdict::Allow | Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) => None,
        }
    }

    /// Waits for the look at the files of a server that has ended, unless the guard has something to tell.
    fn conclude_check(&mut self) -> Result<(), RelayError> {
        let Some(done) = self.check.done() else {
            return Ok(());
        };
        let mut ports = [
            PollFd::new(done, PollFlags::POLLIN),
            PollFd::new(self.guarded.control(), PollFlags::POLLIN),
        ];
        let patience = PollTimeout::try_from(MAX_LATE_CHECK).unwrap_or(PollTimeout::MAX);
        match poll(&mut ports, patience) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if ports[0].revents().is_some_and(|events| !events.is_empty()) {
            // Its last word is said: a refusal would be of no use, and is recorded.
            let _refusal = self.settle();
        }
        Ok(())
    }

    /// Lets the first `count` bytes of the buffer through the filter.
    fn pass(&mut self, side: Side, count: usize) {
        self.heard = Some(self.looked);
        let now = (self.clock)();
        let buffer = std::mem::take(&mut self.buffer);
        self.judged(now, |filter, now, judge, knows, out| {
            filter.push_knowing(now, side, &buffer[..count], judge, knows, out);
        });
        self.buffer = buffer;
        self.carry_out(now);
    }

    /// Has the filter do something, with whoever judges.
    fn judged(
        &mut self,
        now: Timestamp,
        act: impl FnOnce(&mut Filter, Timestamp, &mut Judge<'_>, &mut Knows<'_>, &mut Output),
    ) {
        let judge = RefCell::new(&mut *self.judge);
        let mut message = |message: &Message<'_>| (judge.borrow_mut())(now, JudgementInput::Message(message));
        let mut knows = |tool: &str| {
            let mut is_known = false;
            (judge.borrow_mut())(now, JudgementInput::Tool(tool, &mut is_known));
            is_known
        };
        act(&mut self.filter, now, &mut message, &mut knows, &mut self.out);
    }

    /// Nothing more comes from a side: what the filter still held goes on, then the other side is told.
    fn close(&mut self, side: Side) {
        let now = (self.clock)();
        self.filter.close(side, &mut self.out);
        self.judged(now, Filter::go_on);
        self.carry_out(now);
    }

    fn carry_out(&mut self, now: Timestamp) {
        for incident in self.out.incidents.drain(..) {
            (self.judge)(now, JudgementInput::Incident(&incident));
        }
        if !self.out.noise.is_empty() {
            divert(&self.out.noise);
            self.out.noise.clear();
        }
        for side in [Side::Server, Side::Client] {
            let (sink, bytes) = match side {
                Side::Server => (&mut self.server_in, &mut self.out.to_server),
                Side::Client => (&mut self.client_out, &mut self.out.to_client),
            };
            let sent = match sink {
                Some(sink) if !bytes.is_empty() => sink.send(bytes),
                Some(_) | None => Ok(()),
            };
            bytes.clear();
            if sent == Err(Closed) {
                self.deaf(side);
            }
        }
    }

    /// The server has ended: what is in its pipe was said before.
    fn take_last_words(&mut self) -> Result<(), RelayError> {
        self.begin_check()?;
        while let Some(descriptor) = &self.server_out {
            if self.check.holds_back() {
                return Ok(());
            }
            match read_once(descriptor, &mut self.buffer)? {
                Chunk::Bytes(count) => self.pass(Side::Server, count),
                Chunk::Later | Chunk::End => {
                    self.server_out = None;
                    self.close(Side::Server);
                }
            }
        }
        Ok(())
    }

    /// Tells a side that has heard everything that nothing more comes, and the conversation's end from a pause.
    fn closing(&mut self) -> Result<Option<Parting>, RelayError> {
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
            return Ok(Some(Parting::Ended(end)));
        }
        if self.client_in.is_some() || self.client_out.is_some() {
            self.abandoned = None;
            return Ok(None);
        }
        let since = *self.abandoned.get_or_insert_with(Instant::now);
        match since.elapsed() >= ABANDONED {
            true => Ok(Some(Parting::Abandoned)),
            false => Ok(None),
        }
    }
}

/// As [`RelayOutcome`], before anything is done about it.
enum Parting {
    Ended(End),
    Refused(Denial),
    Abandoned,
    Unguarded,
}

/// The result of a read.
pub(super) enum Chunk {
    Bytes(usize),
    Later,
    End,
}

/// Returns whether there is something to read, not only an end.
fn has_data(descriptor: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    let polled = poll(&mut ready, PollTimeout::ZERO);
    polled.is_ok()
        && ready[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLIN))
}

pub(super) fn read_once(descriptor: &OwnedFd, buffer: &mut [u8]) -> Result<Chunk, RelayError> {
    match read(descriptor, buffer) {
        Ok(0) => Ok(Chunk::End),
        Ok(count) => Ok(Chunk::Bytes(count)),
        Err(Errno::EINTR | Errno::EAGAIN) => Ok(Chunk::Later),
        // How a socket or terminal tells that the other end is gone.
        Err(Errno::ECONNRESET | Errno::EIO) => Ok(Chunk::End),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes what is no message to standard error, as far as that takes it without waiting.
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
