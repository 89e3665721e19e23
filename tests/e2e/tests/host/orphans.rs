//! Orphans: servers that outlive the client that started them, reported and stopped.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{number, text},
    servers, wait,
    wrapped::is_gone,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The code of a server that ignores both the end of its input and a request to end.
const SERVER: &str = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n";
/// The code of a client that starts a server, prints the server's process number, and ends when its own input does.
const CLIENT: &str = "import subprocess, sys\nserver = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\n\
                      print(server.pid, flush=True)\nsys.stdin.read()\n";

fn policy(orphans: &str) -> String {
    let own = std::process::id();
    format!(
        "version: 1\nexec: {{orphans: {orphans}}}\nmcp:\n  version_pinning: {{on_change: alert}}\n  detection: \
         {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n"
    )
}

/// A client and the server that it started. Both are killed at the end.
struct Started {
    client: Child,
    server: u32,
    name: String,
}

impl Started {
    fn new(daemon: &Daemon) -> Result<Self> {
        let name = servers::name();
        let path = daemon.site.path(&format!("{name}.py"));
        fs::write(&path, SERVER)?;
        let mut client = Command::new("python3")
            .args(["-c", CLIENT, "python3"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(client.stdout.take().context("a pipe")?).read_line(&mut line)?;
        let started = Self {
            client,
            server: line.trim().parse()?,
            name,
        };
        daemon.event_of("mcp_server_started", &started.name)?;
        Ok(started)
    }

    /// Ends the client, and returns the event about its server.
    fn leave(&mut self, daemon: &Daemon) -> Result<serde_json::Value> {
        drop(self.client.stdin.take());
        self.client.wait()?;
        ensure!(!is_gone(self.server), "the server hears nothing of it");
        let told = daemon.event_of("mcp_server_orphaned", &self.name)?;
        assert_eq!(text(&told, "cause"), "client_ended", "{told}");
        assert_eq!(text(&told, "client"), "python3", "{told}");
        assert_eq!(number(&told, "client_pid"), u64::from(self.client.id()), "{told}");
        assert_eq!(number(&told, "pid"), u64::from(self.server), "{told}");
        Ok(told)
    }
}

impl Drop for Started {
    /// Kills both; it is no failure if they have ended already.
    fn drop(&mut self) {
        drop(self.client.kill());
        drop(self.client.wait());
        let _killed = kill(Pid::from_raw(self.server.cast_signed()), Signal::SIGKILL);
    }
}

#[test]
fn an_orphan_is_reported_and_listed() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("report"))?;
    let mut started = Started::new(&daemon)?;
    let told = started.leave(&daemon)?;
    assert_eq!(text(&told, "action"), "audit", "{told}");
    assert_eq!(text(&told, "rule"), "exec.orphans", "{told}");
    let servers = daemon.site.list(&["servers"])?;
    let server = servers
        .iter()
        .find(|server| text(server, "server_id") == started.name);
    let server = server.context("the server")?;
    assert!(server["orphaned_since"].is_string(), "{server}");
    assert!(number(server, "memory") > 1 << 20, "{server}");
    assert!(!is_gone(started.server), "it is not stopped");
    Ok(())
}

#[test]
fn an_orphan_is_stopped_where_the_policy_says_so() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy("stop"))?;
    let mut started = Started::new(&daemon)?;
    let told = started.leave(&daemon)?;
    assert_eq!(text(&told, "action"), "block", "{told}");
    wait::until("the orphan to be killed", || {
        Ok(is_gone(started.server).then_some(()))
    })?;
    let exited = daemon.event_of("mcp_server_exited", &started.name)?;
    assert_eq!(number(&exited, "signal"), 9, "{exited}");
    Ok(())
}
