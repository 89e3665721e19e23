//! The ways from a client to the far side, each of which begins at a listening program.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

/// The longest time until a program listens; some load modules for a minute.
const START: Duration = Duration::from_secs(120);
/// The interval between checks whether a program listens.
const LOOK: Duration = Duration::from_millis(20);

/// A way, and the address at which it begins. Its program is killed with this value.
#[derive(Debug)]
pub struct Contender<W> {
    /// The measured way.
    pub way: W,
    /// The address at which the way begins.
    pub address: SocketAddr,
    /// The path of requests.
    pub path: &'static str,
    child: Child,
}

impl<W> Contender<W> {
    /// Starts a program, and waits until it listens.
    ///
    /// # Errors
    /// Returns an error if it does not listen in time.
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
        // The program may have ended by itself, which is no error.
        let _ended = self.child.kill().and_then(|()| self.child.wait().map(drop));
    }
}

/// Returns an address on which nothing listens.
///
/// # Errors
/// Returns an error if no port is free.
pub fn free() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}
