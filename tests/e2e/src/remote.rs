//! A real server that is reached over HTTP; it is ended at the latest with its test.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    program,
    real::{Real, Scene},
    wait,
};

/// The transport by which a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, of 2024-11-05.
    Sse,
}

/// The reference server of the protocol.
#[derive(Debug)]
pub struct Remote {
    /// The server's URL.
    pub url: String,
    log: PathBuf,
    process: Child,
}

impl Remote {
    /// Starts a server that listens on a free port; its log is in `scene`.
    ///
    /// # Errors
    /// Returns an error if the server does not come up.
    pub fn start(real: &Real, scene: &Scene, transport: Transport) -> Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (argument, path) = match transport {
            Transport::Http => ("streamableHttp", "mcp"),
            Transport::Sse => ("sse", "sse"),
        };
        let log = scene.file("server.log");
        let output = File::create(&log)?;
        let mut command = Command::new("node");
        command
            .arg(real.npm("mcp-server-everything"))
            .arg(argument)
            .env("PORT", address.port().to_string());
        let process = scene
            .prepare(&mut command)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start the server")?;
        let mut server = Self {
            url: format!("http://{address}/{path}"),
            log,
            process,
        };
        server.wait_until_it_listens(address)?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self, address: SocketAddr) -> Result<()> {
        wait::until("the server to listen", || {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server ended with {status}:\n{}", self.log());
            }
            Ok(TcpStream::connect(address).ok().map(drop))
        })
    }

    /// Returns the server's output.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the server, whatever it is doing.
    ///
    /// # Errors
    /// Returns an error if the server cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Returns the command for a client that starts programs: the wrapper for this server, with these further options.
    ///
    /// # Errors
    /// Returns an error if the program was not built.
    pub fn wrapped(&self, scene: &Scene, options: &[&str]) -> Result<Vec<String>> {
        let mut wrapped = vec![program::path()?.display().to_string(), "wrap".to_owned()];
        wrapped.extend(["--url", &self.url, "--server", "remote"].map(str::to_owned));
        wrapped.extend(["--socket", "/nonexistent/mcpmon.sock", "--db"].map(str::to_owned));
        wrapped.push(scene.store().display().to_string());
        wrapped.extend(options.iter().map(|&option| option.to_owned()));
        Ok(wrapped)
    }
}

impl Drop for Remote {
    /// Kills the server; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.kill());
    }
}
