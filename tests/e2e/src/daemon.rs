//! A running daemon; it is ended at the latest with its test.

use std::{
    fs,
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    host::Host,
    json::{is, text},
    program,
    site::Site,
    wait,
};

/// A daemon that enforces.
#[derive(Debug)]
pub struct Daemon {
    /// The daemon's files.
    pub site: Site,
    process: Process,
}

#[derive(Debug)]
struct Process(Child);

impl Daemon {
    /// Starts a daemon with this policy and waits until its first self-test is done.
    ///
    /// # Errors
    /// Returns an error if the daemon does not come up.
    pub fn start(host: &Host, policy: &str) -> Result<Self> {
        Self::start_at(host, Site::new(policy)?)
    }

    /// Starts a daemon with the files of another one that has ended. Takes the host as proof that it is this test's
    /// turn.
    ///
    /// # Errors
    /// Returns an error if the daemon does not come up.
    pub fn start_at(host: &Host, site: Site) -> Result<Self> {
        let mut command = Command::new(program::path()?);
        command.args(site.daemon_arguments());
        Self::spawn(host, site, command)
    }

    /// Starts a daemon by a command of the test, which runs the daemon with the files of `site`.
    ///
    /// # Errors
    /// Returns an error if the daemon does not come up.
    pub fn start_by(host: &Host, site: Site, command: Command) -> Result<Self> {
        Self::spawn(host, site, command)
    }

    /// Starts a daemon that lacks one of root's capabilities, which is named as in `setpriv`.
    ///
    /// # Errors
    /// Returns an error if the daemon does not come up.
    pub fn start_without(host: &Host, capability: &str, policy: &str) -> Result<Self> {
        let site = Site::new(policy)?;
        let mut command = Command::new("setpriv");
        command.arg("--bounding-set").arg(format!("-{capability}"));
        command
            .arg("--")
            .arg(program::path()?)
            .args(site.daemon_arguments());
        Self::spawn(host, site, command)
    }

    /// Starts a daemon on a host that has the group `mcpmon`, with this number.
    ///
    /// # Errors
    /// Returns an error if the daemon does not come up.
    pub fn start_with_group(host: &Host, policy: &str, group: u32) -> Result<Self> {
        let groups = format!("root:x:0:\nmcpmon:x:{group}:\n");
        Self::start_seeing(host, Site::new(policy)?, "/etc/group", &groups)
    }

    /// Starts a daemon on a host that has a user with this number beside root; the user's home is a directory of
    /// `site`.
    ///
    /// # Errors
    /// Returns an error if the daemon does not come up.
    pub fn start_with_user(host: &Host, site: Site, uid: u32, home: &str) -> Result<Self> {
        let home = site.path(home).display().to_string();
        let users = format!("root:x:0:0::/nowhere:/bin/sh\nuser:x:{uid}:{uid}::{home}:/bin/sh\n");
        Self::start_seeing(host, site, "/etc/passwd", &users)
    }

    /// Starts a daemon that sees `text` in the place of a system file: a file of the site, with the same name, is
    /// mounted over it.
    fn start_seeing(host: &Host, site: Site, file: &str, text: &str) -> Result<Self> {
        let seen = site.path(file.rsplit('/').next().unwrap_or(file));
        fs::write(&seen, text)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c"]);
        command.arg(format!(r#"mount --bind "$0" {file} && exec "$@""#));
        command
            .arg(seen)
            .arg(program::path()?)
            .args(site.daemon_arguments());
        Self::spawn(host, site, command)
    }

    fn spawn(_host: &Host, site: Site, mut command: Command) -> Result<Self> {
        site.mount_bpffs()?;
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(site.path("daemon.log"))?;
        let child = command
            .env_remove("RUST_LOG")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the daemon")?;
        let mut daemon = Self {
            site,
            process: Process(child),
        };
        daemon.wait_until_tested()?;
        Ok(daemon)
    }

    fn wait_until_tested(&mut self) -> Result<()> {
        wait::until("the daemon's first self-test", || {
            if let Some(status) = self.process.0.try_wait()? {
                bail!("the daemon ended with {status}:\n{}", self.log());
            }
            let tested = |status: Value| (!status["checked_at"].is_null()).then_some(());
            Ok(self.status().ok().and_then(tested))
        })
    }

    /// Returns the daemon's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Returns the daemon's output.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.site.path("daemon.log")).unwrap_or_default()
    }

    /// Returns the output of `mcpmon status`, whatever its exit status.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no answer.
    pub fn status(&self) -> Result<Value> {
        let run = self.site.ask(&["status", "--json"])?;
        let status = run.objects()?.into_iter().next();
        status.with_context(|| format!("no status: {}", run.stderr))
    }

    /// Waits for the first event that `wanted` accepts, and returns it.
    ///
    /// # Errors
    /// Returns an error if no such event comes; the error shows the events that did.
    pub fn event(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = wait::until(what, || Ok(self.site.events()?.into_iter().find(&wanted)));
        found.with_context(|| {
            let events = self.site.events().unwrap_or_default();
            let lines: Vec<String> = events.iter().map(Value::to_string).collect();
            format!("events so far:\n{}\nlog:\n{}", lines.join("\n"), self.log())
        })
    }

    /// Waits for the first event of this type about this server.
    ///
    /// # Errors
    /// Returns an error if no such event comes.
    pub fn event_of(&self, kind: &str, server: &str) -> Result<Value> {
        self.event(&format!("{kind} of {server}"), |event| is(event, kind, server))
    }

    /// Waits for the `number`th start event of this server, counted from 1.
    ///
    /// # Errors
    /// Returns an error if it does not come.
    pub fn start_of(&self, server: &str, number: usize) -> Result<Value> {
        wait::until(&format!("start {number} of {server}"), || {
            let events = self.site.events()?;
            let mut starts = events
                .into_iter()
                .filter(|event| is(event, "mcp_server_started", server));
            Ok(starts.nth(number - 1))
        })
        .with_context(|| format!("log:\n{}", self.log()))
    }

    /// Sends the daemon a signal.
    ///
    /// # Errors
    /// Returns an error if the daemon is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.pid().try_into()?), signal)?)
    }

    /// Replaces the policy and waits until the daemon says that the new one is in force.
    ///
    /// # Errors
    /// Returns an error if the new policy does not come into force.
    pub fn adopt(&self, policy: &str) -> Result<()> {
        let before = text(&self.status()?["policy"], "hash").to_owned();
        self.site.write_policy(policy)?;
        self.signal(Signal::SIGHUP)?;
        wait::until("the new policy", || {
            let status = self.status()?;
            Ok((text(&status["policy"], "hash") != before).then_some(()))
        })
    }

    /// Asks the daemon to end, and waits until it has.
    ///
    /// # Errors
    /// Returns an error if the daemon does not end.
    pub fn end(mut self) -> Result<(Site, ExitStatus)> {
        self.signal(Signal::SIGTERM)?;
        let status = self.ended()?;
        Ok((self.site, status))
    }

    /// Waits until the daemon ends.
    ///
    /// # Errors
    /// Returns an error if the daemon does not end.
    pub fn ended(&mut self) -> Result<ExitStatus> {
        wait::until("the daemon's end", || Ok(self.process.0.try_wait()?))
    }

    /// Returns the files of a daemon that has ended, for another one.
    #[must_use]
    pub fn into_site(self) -> Site {
        self.site
    }

    /// Ends the daemon, which must succeed, and starts another one with the same files.
    ///
    /// # Errors
    /// Returns an error if the daemon does not end well, or the other one does not come up.
    pub fn restart(self, host: &Host) -> Result<Self> {
        let (site, status) = self.end()?;
        ensure!(status.success(), "the daemon ended with {status}");
        Self::start_at(host, site)
    }

    /// Ends the daemon, removes what it kept in the kernel, and starts another one, to which every process is new.
    ///
    /// # Errors
    /// Returns an error if one of these fails.
    pub fn restart_anew(self, host: &Host) -> Result<Self> {
        let (site, status) = self.end()?;
        ensure!(status.success(), "the daemon ended with {status}");
        let directory = site.bpffs().display().to_string();
        let detached = program::run(["detach", "--bpffs", &directory])?;
        ensure!(detached.code == Some(0), "{detached:?}");
        Self::start_at(host, site)
    }
}

impl Drop for Process {
    /// Kills the daemon, so that nothing stays attached; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
