//! An egress list of one server: no other program is refused, and the server reaches nothing before it is judged.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::number,
    network::{Attempt, Listener, connect},
    program,
    servers::PythonServer,
    site::Site,
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// Variable with the number of starts of each kind, for a measurement that is too long for each change.
const STARTS: &str = "MCPMON_E2E_STARTS";
/// The number without that variable.
const FEW: usize = 8;
/// A program that connects at once; its exit status is 0 if it can, and 7 if that is not permitted.
const EARLY: &str = r#"
import socket, sys
s = socket.socket()
try:
    s.connect((sys.argv[1], int(sys.argv[2])))
except PermissionError:
    sys.exit(7)
"#;

/// The same for Node.
const EARLY_NODE: &str = r#"
const socket = require("net").connect(Number(process.argv[3]), process.argv[2]);
socket.on("connect", () => process.exit(0));
socket.on("error", (error) => process.exit(error.code === "EPERM" ? 7 : 1));
"#;
/// Number of starts from which percentiles are judged.
const MANY: usize = 500;
/// Longest delay of a start by the daemon, at the 99th percentile of many starts.
const MAX_DELAY: Duration = Duration::from_millis(10);
/// Longest delay at the median of few starts, on a loaded machine.
const MAX_MEDIAN_DELAY: Duration = Duration::from_millis(500);

fn starts() -> Result<usize> {
    match std::env::var(STARTS) {
        Ok(text) => text.parse().with_context(|| format!("{STARTS} is no number")),
        Err(_) => Ok(FEW),
    }
}

/// A daemon with a declared server that connects at once to the listener, which its list does not allow.
struct Scene {
    daemon: Daemon,
    listener: Listener,
    server: PathBuf,
    /// The name of a program that makes its descendants an agent's.
    agent: PathBuf,
}

impl Scene {
    fn open(host: &Host) -> Result<Self> {
        let listener = Listener::open()?;
        let site = Site::new("version: 1\n")?;
        let own = std::process::id();
        let server = site.path(&format!("early-{own}.py"));
        fs::write(&server, EARLY)?;
        let agent = site.path(&format!("agent-{own}"));
        program::copy(fs::canonicalize("/bin/bash")?, &agent)?;
        site.write_policy(&format!(
            r#"
version: 1
network: {{agents: ["agent-{own}"]}}
mcp:
  servers:
    - id: early
      command: python3
      args: ["{}", "{}", "{}"]
      egress: {{default: deny}}
    - {{id: early-node, command: node, args: ["{}"], egress: {{default: deny}}}}
  version_pinning: {{on_change: alert}}
"#,
            server.display(),
            listener.ip(),
            listener.target().port(),
            site.path("no-such-server.js").display(),
        ))?;
        Ok(Self {
            daemon: Daemon::start_at(host, site)?,
            listener,
            server,
            agent,
        })
    }

    /// Returns the words that start the server, or another script in the same way.
    fn words(&self, script: &str) -> Vec<String> {
        self.words_of("python3", script)
    }

    fn words_of(&self, interpreter: &str, script: &str) -> Vec<String> {
        let port = self.listener.target().port().to_string();
        vec![
            interpreter.to_owned(),
            script.to_owned(),
            self.listener.ip().to_string(),
            port,
        ]
    }

    fn server(&self) -> Vec<String> {
        self.words(&self.server.display().to_string())
    }

    /// Runs a command below an agent.
    fn below_agent(&self, words: &[String]) -> Command {
        below(&self.agent, words)
    }

    /// Runs a command that connects to the listener; returns whether it was permitted. The connection is accepted, so that
    /// none waits.
    fn connects(&self, command: &mut Command) -> Result<bool> {
        let permitted = was_permitted(command)?;
        if permitted {
            self.listener.accept()?;
        }
        Ok(permitted)
    }

    fn counter(&self, name: &str) -> Result<u64> {
        Ok(number(&self.daemon.status()?["counters"], name))
    }
}

/// Runs a command below a shell, at this path.
fn below(shell: &Path, words: &[String]) -> Command {
    let mut command = Command::new(shell);
    command.args(["-c", "\"$@\"; exit $?", "agent"]).args(words);
    command
}

fn plain(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Returns whether a program that connects at once was permitted to.
fn was_permitted(command: &mut Command) -> Result<bool> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    match status.code() {
        Some(0) => Ok(true),
        Some(7) => Ok(false),
        Some(_) | None => bail!("{command:?}: {status}"),
    }
}

/// Programs that another user starts without end.
struct Flood(Child);

impl Flood {
    fn start() -> Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups", "--", "sh", "-c"]);
        command.arg("while :; do /bin/true; done").process_group(0);
        Ok(Self(command.stdin(Stdio::null()).spawn()?))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ended = killpg(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGKILL);
        let _reaped = self.0.wait();
    }
}

/// Returns the time below which so many of 100 are.
fn percentile(times: &mut [Duration], hundredths: usize) -> Duration {
    times.sort_unstable();
    times[times.len() * hundredths / 100]
}

#[test]
fn other_programs_are_not_refused() -> Result<()> {
    let Some(host) = Host::take(&["python3", "node", "bash", "setpriv"])? else {
        return Ok(());
    };
    let scene = Scene::open(&host)?;
    let other = scene.daemon.site.path("other.py");
    fs::write(&other, EARLY)?;
    let python = scene.words(&other.display().to_string());
    let other = scene.daemon.site.path("other.js");
    fs::write(&other, EARLY_NODE)?;
    let node = scene.words_of("node", &other.display().to_string());
    let bash = format!("{} || exit 7", scene.listener.bash());
    let bash: Vec<String> = ["bash", "-c", &bash].map(str::to_owned).into();
    for flooded in [false, true] {
        let flood = flooded.then(Flood::start).transpose()?;
        let mut refused = 0;
        // Below the agent, each start of a server's interpreter is stopped until it is judged; elsewhere none is.
        let (mut stopped, mut free) = (Vec::new(), Vec::new());
        for _ in 0..starts()? {
            for (words, is_interpreter) in [(&python, true), (&node, true), (&bash, false)] {
                refused += usize::from(!scene.connects(&mut plain(words))?);
                refused += usize::from(!scene.connects(&mut scene.below_agent(words))?);
                if is_interpreter {
                    let nothing = vec![words[0].clone(), "--version".to_owned()];
                    for (times, mut command) in [
                        (&mut stopped, scene.below_agent(&nothing)),
                        (&mut free, below(Path::new("/bin/bash"), &nothing)),
                    ] {
                        let begun = Instant::now();
                        ensure!(was_permitted(&mut command)?, "{command:?}");
                        times.push(begun.elapsed());
                    }
                }
            }
        }
        drop(flood);
        assert_eq!(refused, 0, "flooded: {flooded}");
        let (hundredths, most) = match starts()? < MANY {
            true => (50, MAX_MEDIAN_DELAY),
            false => (99, MAX_DELAY),
        };
        let (stopped, free) = (
            percentile(&mut stopped, hundredths),
            percentile(&mut free, hundredths),
        );
        let delay = stopped.saturating_sub(free);
        println!(
            "{} connections, flooded: {flooded}: none refused; a start takes {free:?}, and {stopped:?} with a stop (percentile {hundredths})",
            6 * starts()?
        );
        assert!(delay <= most, "{delay:?}");
    }
    assert!(scene.counter("exec_held")? >= 8 * starts()? as u64);
    assert_eq!(scene.counter("exec_expired")?, 0);
    Ok(())
}

#[test]
fn a_server_reaches_nothing_before_it_is_judged() -> Result<()> {
    let Some(host) = Host::take(&["python3", "setpriv"])? else {
        return Ok(());
    };
    let scene = Scene::open(&host)?;
    let words = scene.server();
    for flooded in [false, true] {
        let flood = flooded.then(Flood::start).transpose()?;
        let mut reached = 0;
        for _ in 0..starts()? {
            reached += usize::from(scene.connects(&mut plain(&words))?);
            reached += usize::from(scene.connects(&mut scene.below_agent(&words))?);
            let mut job = plain(&words);
            reached += usize::from(scene.connects(job.process_group(0))?);
        }
        drop(flood);
        assert_eq!(reached, 0, "flooded: {flooded}");
        println!("{} connections, flooded: {flooded}: all refused", 3 * starts()?);
    }
    Ok(())
}

/// An orderly stop ends the restriction of programs that no daemon judges; the list of a running server stays.
#[test]
fn an_orderly_stop_restricts_no_other_program() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let site = Site::new("version: 1\n")?;
    let server = PythonServer::write(&site.path("python"))?;
    site.write_policy(&format!(
        r#"
version: 1
mcp:
  servers:
    - {{id: {0}, command: python3, args: ["-m", "{0}"], egress: {{default: deny}}}}
  version_pinning: {{on_change: alert}}
"#,
        server.module,
    ))?;
    let daemon = Daemon::start_at(&host, site)?;
    let mut client = Client::start(&mut server.python())?;
    client.initialize()?;
    assert_eq!(client.connect(listener.target())?, "EPERM");
    let (site, status) = daemon.end()?;
    ensure!(status.success(), "{status}");
    // A candidate by its words, which is started when no daemon runs.
    let mut candidate = Command::new("python3");
    candidate.args(["-c", EARLY, &listener.ip().to_string()]);
    candidate.args([&listener.target().port().to_string(), &server.module]);
    assert!(was_permitted(&mut candidate)?, "a program of the host");
    assert_eq!(connect(listener.target())?, Attempt::Connected);
    assert_eq!(
        client.connect(listener.target())?,
        "EPERM",
        "the server's list stays"
    );
    drop(site);
    Ok(())
}
