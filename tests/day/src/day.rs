//! The place of one action: the user's home with a server's package, and what mcpmon records.

use std::{
    fmt, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail, ensure};
use mcpmon_e2e::{json::text, program, servers, site::Site};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    action::{Action, Config, Expectation, Outcome, Step},
    cache::{Cache, fixture},
    client::{self, Client},
};

/// The exit status of commands that cannot run on this machine.
const SKIPPED: i32 = 77;
/// The longest wait for an event that is expected.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Commands of mcpmon that take the socket of a daemon and a store. The actions leave both out, as a user does.
const SHARED: [&str; 3] = ["mcpmon wrap", "mcpmon run", "mcpmon shim install"];
/// The store of a user, below the home.
const STORE: &str = ".local/state/mcpmon/mcpmon.db";
/// A command of mcpmon that also reads the host's policy, which is not in its usual place.
const HOOK: &str = "mcpmon hook claude-code";
/// Commands of mcpmon that ask a daemon if they get its socket, and use the store otherwise.
const PINS: [&str; 2] = ["mcpmon pins trust", "mcpmon pins reset"];

/// The machine lacks something that an action needs.
#[derive(Debug)]
struct Skipped(String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// The home of one action.
#[derive(Debug)]
pub(crate) struct Day<'d> {
    pub(crate) config: Config,
    site: Option<&'d Site>,
    cache: &'d Cache,
    directory: TempDir,
    /// The name of the server and of its package.
    pub(crate) name: String,
}

impl<'d> Day<'d> {
    /// Makes a home, and publishes the first version of a server.
    pub(crate) fn new(config: Config, site: Option<&'d Site>, cache: &'d Cache) -> Result<Self> {
        let name = servers::name();
        let directory = tempfile::Builder::new()
            .prefix("mcpmon-day-")
            .tempdir_in("/var/tmp")?;
        let day = Self {
            config,
            site,
            cache,
            directory,
            name,
        };
        cache.publish(&day.name, "1.0.0")?;
        let [wheels, own] = cache.wheels();
        for (file, text) in [
            (".config/mcpmon/mcpmon.yaml", config.policy()),
            (".npmrc", format!("registry={}\naudit=false\nfund=false\nupdate-notifier=false\n", cache.registry())),
            (
                ".config/pip/pip.conf",
                format!("[global]\nno-index = true\ndisable-pip-version-check = true\nroot-user-action = ignore\nfind-links =\n    {wheels}\n    {own}\n"),
            ),
            (
                ".config/uv/uv.toml",
                format!("no-index = true\nfind-links = [\"{wheels}\", \"{own}\"]\n"),
            ),
            (
                ".gitconfig",
                "[user]\nname = me\nemail = me@example.com\n[init]\ndefaultBranch = main\n[advice]\ndetachedHead = false\n".to_owned(),
            ),
        ] {
            // With a daemon the host's policy applies, and the user has none.
            if config.has_daemon && file.ends_with("mcpmon.yaml") {
                continue;
            }
            let path = day.path(file);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(path, text)?;
        }
        fs::create_dir(day.path("bin"))?;
        symlink(program::path()?, day.path("bin/mcpmon"))?;
        Ok(day)
    }

    /// Returns the user's home, which is below a directory with the name of the server.
    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Returns the path of a file in the home.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.home().join(file)
    }

    /// Publishes another version of the server.
    pub(crate) fn publish(&self, version: &str) -> Result<()> {
        self.cache.publish(&self.name, version)
    }

    fn socket(&self) -> PathBuf {
        self.site.map_or_else(|| self.path("no-daemon"), Site::socket)
    }

    /// Returns the store of wrappers without a daemon.
    fn own_store(&self) -> PathBuf {
        self.path(STORE)
    }

    /// Completes a line that a user would type: the daemon is that of this run, or none. The store is in the home,
    /// because root's is that of the host.
    fn complete(&self, line: &str) -> String {
        let socket = format!("--socket {}", self.socket().display());
        let store = format!("--db $HOME/{STORE}");
        let pins = if self.site.is_some() { &socket } else { &store };
        let both = format!("{socket} {store}");
        let shared = SHARED.iter().map(|command| (*command, &both));
        let pins = PINS.iter().map(|command| (*command, pins));
        let hook = match self.site {
            Some(site) => format!("{both} --config {}", site.policy().display()),
            None => both.clone(),
        };
        let all = shared
            .chain(pins)
            .chain([("mcpmon setup", &store), (HOOK, &hook)]);
        all.fold(line.to_owned(), |line, (command, options)| {
            line.replace(command, &format!("{command} {options}"))
        })
    }

    /// Returns a command in the home, with the variables that clients hand on and those of the actions.
    pub(crate) fn command(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        variables: &[(&str, String)],
    ) -> Command {
        let paths = [self.path("bin"), self.cache.tools()].map(|path| path.display().to_string());
        let inherited = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .env_clear()
            .current_dir(self.home())
            .env("HOME", self.home())
            .env("PATH", format!("{}:/usr/bin:/bin:{inherited}", paths.join(":")))
            .env("SHELL", "/bin/sh")
            .env("LANG", "C.UTF-8")
            .env("NAME", &self.name)
            .env("MODULE", self.name.replace('-', "_"))
            .env("SERVER_PY", fixture("server.py"))
            .env("SERVER_JS", fixture("server.js"))
            .envs(variables.iter().map(|(name, value)| (*name, value)));
        command
    }

    /// Runs commands of the user.
    pub(crate) fn run(&self, script: &str, variables: &[(&str, String)]) -> Result<String> {
        let mut sh = self.command("sh", variables);
        sh.args(["-euc", &self.complete(script)]).stdin(Stdio::null());
        let output = sh.output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.code() == Some(SKIPPED) {
            bail!(Skipped(said.lines().last().unwrap_or_default().to_owned()));
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{script}` failed: {said}\n{errors}");
        Ok(said)
    }

    /// Starts a client with a server.
    pub(crate) fn start(&self, line: &str, variables: &[(&str, String)]) -> Result<(Client, Outcome)> {
        let mut client = self.command(program::beside("mcpmon-day"), variables);
        client.args([client::SUBCOMMAND, "sh"]);
        client.stderr(Stdio::inherit());
        Client::start(&mut client, &self.complete(line))
    }

    /// Performs an action, and returns its result.
    pub(crate) fn perform(&self, action: &Action) -> Outcome {
        let (before, last) = action.steps.split_at(action.steps.len().saturating_sub(1));
        let perform = || {
            let mut since = milliseconds()?;
            let outcome = self.steps(before, &[])?;
            if outcome != Outcome::Passes {
                return Ok(not_the_last(&outcome));
            }
            // A start that is only tried may be reported.
            if before.iter().any(|step| matches!(step, Step::Try(_))) {
                since = milliseconds()?;
            }
            let outcome = self.steps(last, &[])?;
            if outcome != Outcome::Passes {
                return Ok(outcome);
            }
            self.reported(since, action.expected(self.config) == Expectation::Alerts)
        };
        perform().unwrap_or_else(|error| match error.downcast_ref::<Skipped>() {
            Some(Skipped(reason)) => Outcome::Skipped(reason.clone()),
            None => Outcome::Failed(format!("{error:#}")),
        })
    }

    /// Skips an action that needs root.
    pub(crate) fn needs_root(&self) -> Result<()> {
        ensure!(
            nix::unistd::geteuid().is_root(),
            Skipped("it needs root".to_owned())
        );
        Ok(())
    }

    /// Performs steps, all of which but the last must pass.
    pub(crate) fn steps(&self, steps: &[Step], variables: &[(&str, String)]) -> Result<Outcome> {
        let mut last = Outcome::Passes;
        for step in steps {
            if last != Outcome::Passes {
                return Ok(not_the_last(&last));
            }
            match *step {
                Step::Run(script) => drop(self.run(script, variables)?),
                Step::Try(line) => drop(self.used(line, variables, |_| Ok(Outcome::Passes))?),
                Step::Start(line) => last = self.used(line, variables, |_| Ok(Outcome::Passes))?,
                Step::Call(line, tool) => last = self.used(line, variables, |client| client.call(tool))?,
                Step::During(line, steps) => {
                    last = self.used(line, variables, |client| {
                        let mut variables = variables.to_vec();
                        variables.push(("CLIENT", client.pid().to_string()));
                        variables.push(("WRAPPER", client.wrapper.to_string()));
                        let outcome = self.steps(steps, &variables)?;
                        if outcome != Outcome::Passes {
                            return Ok(outcome);
                        }
                        client.call("forecast")
                    })?;
                }
                Step::Use(code) => last = code(self)?,
            }
        }
        Ok(last)
    }

    /// Starts a server, uses it again in another way, and ends it. With a daemon the session lasts until the daemon has
    /// compared the files, as nearly every session does.
    fn used(
        &self,
        line: &str,
        variables: &[(&str, String)],
        again: impl FnOnce(&mut Client) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let since = milliseconds()?;
        let (mut client, mut outcome) = self.start(line, variables)?;
        if outcome == Outcome::Passes {
            outcome = again(&mut client)?;
        }
        if outcome == Outcome::Passes
            && self.site.is_some()
            && self.event("mcp_server_started", since, true)?.is_some()
        {
            outcome = client.call("forecast")?;
        }
        let errors = client.close();
        if let Outcome::Broken(text) = &outcome {
            let errors = errors.unwrap_or_default();
            return Ok(Outcome::Broken(format!("{text}: {}", errors.trim())));
        }
        Ok(outcome)
    }

    /// Returns whether changed files of this action's server are recorded since a time.
    fn reported(&self, since: u128, is_expected: bool) -> Result<Outcome> {
        let event = self.event("mcp_server_binary_mismatch", since, is_expected)?;
        Ok(event.map_or(Outcome::Passes, |event| {
            Outcome::Alerts(text(&event, "reason").to_owned())
        }))
    }

    /// Returns an event of this action's server since a time. Waits for an event that is expected.
    fn event(&self, kind: &str, since: u128, is_expected: bool) -> Result<Option<Value>> {
        let store = self.site.map_or_else(|| self.own_store(), Site::store);
        let deadline = Instant::now() + EVENT_TIMEOUT;
        loop {
            let event = self.recorded(&store, kind, since)?;
            if event.is_some() || !is_expected || Instant::now() > deadline {
                return Ok(event);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn recorded(&self, store: &Path, kind: &str, since: u128) -> Result<Option<Value>> {
        if !store.exists() {
            return Ok(None);
        }
        let store = store.display().to_string();
        let events = [
            "events", "--json", "--limit", "10000", "--type", kind, "--db", &store,
        ];
        let events = program::run(events)?.objects()?;
        // The id of an event begins with its time.
        let time =
            |event: &Value| u128::from_str_radix(text(event, "id").replace('-', "").get(..12)?, 16).ok();
        let is_own = |event: &Value| {
            time(event).is_some_and(|time| time >= since) && event.to_string().contains(&self.name)
        };
        Ok(events.into_iter().find(is_own))
    }
}

/// Returns the time, in milliseconds since 1970.
fn milliseconds() -> Result<u128> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())
}

/// Returns the outcome of an action in which a start before the last did not pass.
fn not_the_last(outcome: &Outcome) -> Outcome {
    Outcome::Broken(format!(
        "an earlier start did not pass: {outcome}: {}",
        outcome.text()
    ))
}
