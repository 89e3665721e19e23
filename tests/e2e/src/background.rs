//! A program that listens; it is ended at the latest with its test.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::wait;

/// A running program that listens.
#[derive(Debug)]
pub struct Background {
    /// The address at which it listens.
    pub address: SocketAddr,
    log: PathBuf,
    process: Child,
}

impl Background {
    /// Starts a program, and waits until it listens at `address`. Its output goes to the file `log`.
    ///
    /// # Errors
    /// Returns an error if the program does not come up.
    pub fn start(command: &mut Command, address: SocketAddr, log: PathBuf) -> Result<Self> {
        let file = fs::File::create(&log)?;
        let process = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut started = Self {
            address,
            log,
            process,
        };
        started.wait_until_it_listens()?;
        Ok(started)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        wait::until("a program to listen", || {
            if let Some(status) = self.process.try_wait()? {
                bail!("it ended with {status}:\n{}", self.log());
            }
            Ok(TcpStream::connect(self.address).ok().map(drop))
        })
    }

    /// Returns the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the program's output.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Background {
    /// Kills the program; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Returns an address that no process listens on: its port was free a moment ago.
///
/// # Errors
/// Returns an error if no port is free.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
