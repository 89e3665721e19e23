//! A client without a server: each request is answered with the reason, until the client leaves.

use std::{
    fs::OpenOptions,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::Instant,
};

use mcpmon_model::{Denial, Message, Side, Timestamp, Verdict};
use mcpmon_protocol::filter::stdio::{StdioFilter, StdioOutput};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::Signal,
    unistd::{dup2_stdin, dup2_stdout, read},
};

use super::{
    check::{FileCheck, Verification},
    event::RelayError,
    relay::{ABANDONED, BUFFER, ReadOutcome, WAITING, read_once},
    sink::Sink,
    watcher::RelayProcess,
};

/// Signals that request the end of this process.
const ENDS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// The client's side of a conversation without a server.
#[derive(Debug)]
pub struct ClientSide {
    process: Box<RelayProcess>,
    input: Option<OwnedFd>,
    output: Option<Sink>,
    out: StdioOutput,
    buffer: Box<[u8]>,
}

/// Takes over the client's ends of standard input and output, and begins the check.
pub(super) fn take_client<T: Send + 'static>(
    verification: Option<Verification<T>>,
) -> Result<(OwnedFd, Sink, FileCheck<T>), RelayError> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = Sink::inherited(io::stdout().as_fd().try_clone_to_owned()?)?;
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let check = FileCheck::new(verification)?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    Ok((input, output, check))
}

/// The events to handle.
struct ClientEvents {
    told: bool,
    signals: bool,
    input: bool,
    output: PollFlags,
}

impl ClientSide {
    /// The client at this process's standard input and output. Every descendant of this process is killed.
    ///
    /// # Errors
    /// Returns an error if a descriptor cannot be duplicated, or signals cannot be received.
    pub fn of_process(process: Box<RelayProcess>) -> Result<Self, RelayError> {
        process.family.kill_all()?;
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = Sink::inherited(io::stdout().as_fd().try_clone_to_owned()?)?;
        Ok(Self::left(process, Some(input), Some(output)))
    }

    /// The rest of a conversation whose server is gone.
    pub(super) fn left(process: Box<RelayProcess>, input: Option<OwnedFd>, output: Option<Sink>) -> Self {
        Self {
            process,
            input,
            output,
            out: StdioOutput::default(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
        }
    }

    /// Answers everything with `denial`, until the client has closed its end, has left, or this process is asked to
    /// end. `filter` knows the requests that wait for an answer.
    ///
    /// # Errors
    /// Returns an error if a descriptor cannot be polled or read.
    pub fn turn_away(
        mut self,
        mut filter: StdioFilter,
        clock: fn() -> Timestamp,
        denial: &Denial,
    ) -> Result<(), RelayError> {
        filter.turn_away(clock(), denial, &mut self.out);
        self.answer();
        let mut silent = None;
        loop {
            let waiting = self.output.as_ref().map(Sink::waiting);
            if self.input.is_none() {
                let since = silent.get_or_insert_with(Instant::now);
                if waiting.is_none_or(|bytes| bytes == 0) || since.elapsed() >= ABANDONED {
                    return Ok(());
                }
            }
            let Some(waiting) = waiting else {
                return Ok(()); // no reader for answers
            };
            let ready = self.wait(waiting)?;
            if ready.signals && self.is_asked_to_end()? || ready.told && self.is_told_to_end()? {
                return Ok(());
            }
            self.hear(ready.output);
            if ready.input {
                self.listen(&mut filter, clock(), denial)?;
            }
        }
    }

    /// Waits until there is something to do. While the client does not read the answers, it is not read either.
    fn wait(&self, waiting: usize) -> Result<ClientEvents, RelayError> {
        let signals = self.process.family.as_fd();
        // The signal descriptor takes the place of an absent one: without requested events, it reports nothing.
        let input = match &self.input {
            Some(input) if waiting < WAITING => PollFd::new(input.as_fd(), PollFlags::POLLIN),
            Some(_) | None => PollFd::new(signals, PollFlags::empty()),
        };
        let output = match &self.output {
            Some(sink) if waiting > 0 => PollFd::new(sink.as_fd(), PollFlags::POLLOUT),
            Some(sink) => PollFd::new(sink.as_fd(), PollFlags::empty()),
            None => PollFd::new(signals, PollFlags::empty()),
        };
        let mut ports = [
            PollFd::new(self.process.control(), PollFlags::POLLIN),
            PollFd::new(signals, PollFlags::POLLIN),
            input,
            output,
        ];
        let timeout = match self.input {
            Some(_) => PollTimeout::NONE,
            None => PollTimeout::try_from(ABANDONED).unwrap_or(PollTimeout::MAX),
        };
        match poll(&mut ports, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [told, signals, input, output] = ports.map(|port| port.revents().unwrap_or(PollFlags::empty()));
        Ok(ClientEvents {
            told: !told.is_empty(),
            signals: !signals.is_empty(),
            input: !input.is_empty(),
            output,
        })
    }

    /// Reads the signals for this process. Returns whether one requests the end.
    fn is_asked_to_end(&self) -> Result<bool, RelayError> {
        let mut ends = false;
        while let Some(signal) = self.process.family.next_signal()? {
            ends |= ENDS.contains(&signal);
        }
        Ok(ends)
    }

    /// Reads the watcher's messages. Returns whether the watcher passed on a signal that requests the end, or has
    /// ended.
    fn is_told_to_end(&self) -> Result<bool, RelayError> {
        let mut numbers = [0; 64];
        match read(self.process.control(), &mut numbers) {
            Ok(0) => Ok(true),
            Ok(count) => Ok(ENDS.iter().any(|end| {
                let mut told = numbers[..count].iter();
                told.any(|number| i32::from(*number) == *end as i32)
            })),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn hear(&mut self, output: PollFlags) {
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        let heard = match &mut self.output {
            Some(_) if output.intersects(gone) => false,
            Some(sink) if output.contains(PollFlags::POLLOUT) => sink.flush().is_ok(),
            Some(_) | None => true,
        };
        if !heard {
            self.output = None;
        }
    }

    fn listen(
        &mut self,
        filter: &mut StdioFilter,
        now: Timestamp,
        denial: &Denial,
    ) -> Result<(), RelayError> {
        let Some(input) = &self.input else {
            return Ok(());
        };
        match read_once(input, &mut self.buffer)? {
            ReadOutcome::Later => return Ok(()),
            ReadOutcome::Bytes(count) => filter.push(
                now,
                Side::Client,
                &self.buffer[..count],
                &mut |_: &Message<'_>| Verdict::Block(denial.clone()),
                &mut self.out,
            ),
            ReadOutcome::End => {
                self.input = None;
                filter.close(Side::Client, &mut self.out);
            }
        }
        self.answer();
        Ok(())
    }

    /// Writes the answers; other output has no recipient.
    fn answer(&mut self) {
        let sent = match &mut self.output {
            Some(sink) if !self.out.to_client.is_empty() => sink.send(&mut self.out.to_client),
            Some(_) | None => Ok(()),
        };
        self.out.to_client.clear();
        self.out.to_server.clear();
        self.out.noise.clear();
        self.out.incidents.clear();
        if sent.is_err() {
            self.output = None;
        }
    }
}
