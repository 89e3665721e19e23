//! Workloads in separate processes, which talk with their test line by line.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    marker::PhantomData,
    os::{fd::AsFd as _, unix::net::UnixStream},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::{
    poll::{PollFd, PollFlags, poll},
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    netns::{Space, as_first_process, enter},
    sys::{Fork, fork},
};

/// The longest time between two lines of a workload, on a slow emulated machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A running workload that will return a `T`.
#[derive(Debug)]
pub struct Child<T> {
    pid: Pid,
    lines: BufReader<UnixStream>,
    ended: bool,
    result: PhantomData<fn() -> T>,
}

/// The test's side, as the workload sees it.
#[derive(Debug)]
pub struct Test {
    lines: UnixStream,
}

impl Test {
    /// Waits until the test calls [`Child::proceed`].
    ///
    /// # Errors
    /// Returns an error if the test has ended.
    pub fn wait(&mut self) -> Result<()> {
        self.lines.read_exact(&mut [0]).context("the test has ended")
    }

    /// Returns whether the test has called [`Child::proceed`], or ended.
    #[must_use]
    pub fn calls(&self) -> bool {
        let mut line = [PollFd::new(self.lines.as_fd(), PollFlags::POLLIN)];
        poll(&mut line, 0u8).is_ok_and(|ready| ready > 0)
    }

    /// Sends the test a message, which the test takes with [`Child::hear`].
    ///
    /// # Errors
    /// Returns an error if the test has ended.
    pub fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message).context("cannot write a message")?;
        line.push(b'\n');
        self.lines.write_all(&line).context("the test has ended")
    }

    /// Runs the workload and sends its result to the test. Returns the process's exit status.
    fn conclude<T: Serialize>(mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> i32 {
        let result = work(&mut self).map_err(|error| format!("{error:#}"));
        i32::from(self.say(&result).is_err())
    }
}

impl<T: Serialize + DeserializeOwned> Child<T> {
    /// Starts `work` in a new process, which ends when this one does.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub fn start(work: impl FnOnce(&mut Test) -> Result<T>) -> Result<Self> {
        Self::start_with(|test| test.conclude(work))
    }

    /// Starts `work` in a new process with a new space.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub fn start_in(space: Space, work: impl FnOnce(&mut Test) -> Result<T>) -> Result<Self> {
        Self::start_with(move |test| match enter(space) {
            Ok(()) if space == Space::Everything => as_first_process(|| test.conclude(work)),
            Ok(()) => test.conclude(work),
            Err(error) => test.conclude(|_| Err::<T, _>(error)),
        })
    }

    fn start_with(run: impl FnOnce(Test) -> i32) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
        ours.set_read_timeout(Some(TIMEOUT))
            .context("cannot set a time limit")?;
        let mut ours = Some(ours);
        let parents_end = &mut ours;
        let pid = fork(Fork::Plain, move || {
            // If it stayed open here, the workload would never see that its test has ended.
            drop(parents_end.take());
            if prctl::set_pdeathsig(Signal::SIGKILL).is_err() || prctl::set_child_subreaper(true).is_err() {
                return 1;
            }
            run(Test { lines: theirs })
        })
        .context("cannot fork")?;
        let lines = BufReader::new(ours.take().context("taken by the child only")?);
        Ok(Self {
            pid,
            lines,
            ended: false,
            result: PhantomData,
        })
    }

    /// Returns the process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    /// Lets the workload continue from [`Test::wait`].
    ///
    /// # Errors
    /// Returns an error if the workload has ended.
    pub fn proceed(&mut self) -> Result<()> {
        self.lines
            .get_mut()
            .write_all(b"\n")
            .context("the workload has ended")
    }

    /// Waits for the workload's next message, which it sends with [`Test::say`].
    ///
    /// # Errors
    /// Returns an error if the workload ends, fails, or sends a message of another type.
    pub fn hear<M: DeserializeOwned>(&mut self) -> Result<M> {
        let mut line = String::new();
        self.lines
            .read_line(&mut line)
            .context("the workload says nothing")?;
        ensure!(
            !line.is_empty(),
            "the workload ended without a result: {:?}",
            self.reap()?
        );
        serde_json::from_str(&line).with_context(|| format!("the workload said {line:?}"))
    }

    /// Waits for the workload's result and its end.
    ///
    /// # Errors
    /// Returns an error if the workload fails or dies.
    pub fn join(mut self) -> Result<T> {
        let result: Result<T, String> = self.hear()?;
        let status = self.reap()?;
        let result = result.map_err(|error| anyhow!("the workload failed: {error}"))?;
        ensure!(
            matches!(status, WaitStatus::Exited(_, 0)),
            "the workload ended with {status:?}"
        );
        Ok(result)
    }
}

impl<T> Child<T> {
    fn reap(&mut self) -> Result<WaitStatus> {
        self.ended = true;
        waitpid(self.pid, None).context("cannot wait for the workload")
    }
}

impl<T> Drop for Child<T> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The workload is still there because its test failed early; errors here cannot be handled any more.
        let _killed = kill(self.pid, Signal::SIGKILL);
        let _reaped = waitpid(self.pid, None);
    }
}

/// Collects the status of every child that has ended: siblings that workloads made of themselves.
pub fn reap_strays() {
    while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
        waitpid(None, Some(WaitPidFlag::WNOHANG))
    {}
}
