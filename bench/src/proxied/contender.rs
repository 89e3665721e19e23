//! A way from a client to the far side: a program that listens.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

/// The longest time until a program listens: some load for a minute.
const START: Duration = Duration::from_secs(120);
/// The interval between checks whether it does.
const LOOK: Duration = Duration::from_millis(20);

/// A way, and where it begins. What was started for it is killed with it.
#[derive(Debug)]
pub struct Contender<W> {
    /// The way that is measured.
    pub way: W,
    /// The address at which it begins.
    pub address: SocketAddr,
    /// The path to ask.
    pub path: &'static str,
    child: Child,
}

impl<W> Contender<W> {
    /// Starts a program, and waits until it listens.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub fn start(way: W, address: SocketAddr, path: &'static str, mut command: Command) -> Result<Self> {
        command.stderr(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut contender = Self {
            way,
            address,
            path,
            child,
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = contender.child.try_wait()? {
                bail!("{command:?} ended: {status}");
            }
            ensure!(begun.elapsed() < START, "{command:?} does not listen");
            thread::sleep(LOOK);
        }
        Ok(contender)
    }
}

impl<W> Drop for Contender<W> {
    fn drop(&mut self) {
        // It was started here; where it ended by itself nothing is left to do.
        let _ended = self.child.kill().and_then(|()| self.child.wait().map(drop));
    }
}

/// An address that nobody listens on.
///
/// # Errors
/// Returns an error if there is none.
pub fn free() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}
