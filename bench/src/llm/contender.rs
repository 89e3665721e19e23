//! What is measured: ways from a client to the provider.

use std::{
    env, fs,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;

use crate::{Options, question::Question, round};

/// The default policy with rates that no run reaches: calls are counted, and none is refused.
const MCPMON_POLICY: &str = "mcp: {rate_limits: {default_rpm: 1000000000, default_burst: 1000000000}}\n";
/// How long a program may take to listen: some load for a minute.
const START: Duration = Duration::from_secs(120);
/// How often is looked whether it does.
const LOOK: Duration = Duration::from_millis(20);

/// A way from a client to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// Nothing between them.
    Direct,
    /// A reverse proxy that looks at nothing.
    Bare,
    /// mcpmon, with its default policy and its store.
    Mcpmon,
    /// mitmproxy.
    Mitmproxy,
    /// LiteLLM.
    Litellm,
}

/// A way, and where it begins. What was started for it is killed with it.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) way: Way,
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    child: Child,
}

impl Drop for Contender {
    fn drop(&mut self) {
        // It was started here; where it ended by itself nothing is left to do.
        let _ended = self.child.kill().and_then(|()| self.child.wait().map(drop));
    }
}

/// Directory with everything the programs write and read.
#[derive(Debug)]
pub(crate) struct Site(PathBuf);

impl Site {
    pub(crate) fn new() -> Result<Self> {
        let path = env::temp_dir().join(format!("mcpmon-bench-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::File::create(&path)?.write_all(text.as_bytes())?;
        Ok(path)
    }

    /// A command that keeps to this directory.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        for (name, directory) in [
            ("HOME", "."),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
        ] {
            command.env(name, self.0.join(directory));
        }
        command.env_remove("MCPMON_CONFIG").env_remove("RUST_LOG");
        command
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What is left in a temporary directory is not worth a failure.
        let _left = fs::remove_dir_all(&self.0);
    }
}

impl Contender {
    /// All that can be had, the floors first.
    pub(crate) fn all(options: &Options, site: &Site) -> Result<Vec<Self>> {
        let bench = env::current_exe()?;
        let mut command = site.command(&bench);
        let provider = free()?;
        command.args(["upstream", &provider.to_string()]);
        let direct = Self::start(Way::Direct, provider, "/v1/messages", command)?;
        let mut all = vec![direct];
        let mut add = |way, address, path, command| {
            let contender = Self::start(way, address, path, command)?;
            contender.check()?;
            all.push(contender);
            anyhow::Ok(())
        };

        let address = free()?;
        let mut command = site.command(&bench);
        command.args(["bare", &address.to_string(), &provider.to_string()]);
        add(Way::Bare, address, "/v1/messages", command)?;

        let policy = format!(
            "version: 1\n{MCPMON_POLICY}proxy: {{providers: {{anthropic: \"http://{provider}\"}}}}\n"
        );
        let address = free()?;
        let mut command = site.command(&absolute(&options.mcpmon)?);
        command.args(["proxy", "--listen", &address.to_string(), "--socket", "no-daemon"]);
        command.arg("--config").arg(site.file("mcpmon.yaml", &policy)?);
        command.args(["--db", "store.db"]);
        add(Way::Mcpmon, address, "/v1/messages", command)?;

        let peers = [
            (Way::Mitmproxy, Self::mitmproxy(options, site, provider)),
            (Way::Litellm, Self::litellm(options, site, provider)),
        ];
        for (way, peer) in peers {
            match peer {
                Ok(peer) => all.extend(peer),
                Err(error) => eprintln!("{way:?} is not measured: {error:#}"),
            }
        }
        Ok(all)
    }

    fn mitmproxy(options: &Options, site: &Site, provider: SocketAddr) -> Result<Option<Self>> {
        let Some(mitmdump) = &options.mitmproxy else {
            return Ok(None);
        };
        let address = free()?;
        let mut command = site.command(&absolute(mitmdump)?);
        command.args(["--quiet", "--listen-host", "127.0.0.1"]);
        command.args(["--listen-port", &address.port().to_string()]);
        command.args(["--mode", &format!("reverse:http://{provider}")]);
        let peer = Self::start(Way::Mitmproxy, address, "/v1/messages", command)?;
        peer.check()?;
        Ok(Some(peer))
    }

    fn litellm(options: &Options, site: &Site, provider: SocketAddr) -> Result<Option<Self>> {
        let Some(litellm) = &options.litellm else {
            return Ok(None);
        };
        let address = free()?;
        let mut command = site.command(&absolute(litellm)?);
        command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command
            .arg("--config")
            .arg(site.file("litellm.yaml", "model_list: []\n")?);
        command.env("ANTHROPIC_API_BASE", format!("http://{provider}"));
        command.env("ANTHROPIC_API_KEY", "of-a-benchmark");
        let peer = Self::start(Way::Litellm, address, "/anthropic/v1/messages", command)?;
        peer.check()?;
        Ok(Some(peer))
    }

    /// Starts a program, and waits until it listens.
    fn start(way: Way, address: SocketAddr, path: &'static str, mut command: Command) -> Result<Self> {
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

    /// Whether whole answers come through as they are: a measurement of refusals is none.
    fn check(&self) -> Result<()> {
        for question in [Question::Text, Question::Call] {
            let body = round::ask(self, question)?;
            ensure!(
                body == question.answer().as_bytes(),
                "{:?} changes an answer: {}",
                self.way,
                String::from_utf8_lossy(&body)
            );
        }
        Ok(())
    }
}

/// An address that nobody listens on.
fn free() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}

/// Programs are started from a directory of their own.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}
