//! Actions, their steps, and their expected and actual results.

use std::fmt;

use anyhow::Result;

use crate::day::Day;

/// An action of a day, with the result that its user gets.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// The name, for `--only`.
    pub name: &'static str,
    /// The action, in words.
    pub does: &'static str,
    /// The steps. All starts but the last must serve; the last step has the result.
    pub(crate) steps: &'static [Step],
    /// The result where the policy is enforced without a daemon.
    pub expect: Expect,
    /// The result where the policy is enforced with a daemon, if it differs.
    pub with_daemon: Option<Expect>,
    /// Whether CI runs the action.
    pub is_in_slice: bool,
    /// The reason for which the action has another result today.
    pub known: Option<&'static str>,
}

impl Action {
    /// Makes an action that is no part of the slice.
    pub(crate) const fn new(
        name: &'static str,
        does: &'static str,
        steps: &'static [Step],
        expect: Expect,
    ) -> Self {
        Self {
            name,
            does,
            steps,
            expect,
            with_daemon: None,
            is_in_slice: false,
            known: None,
        }
    }

    /// Lets CI run the action.
    pub(crate) const fn in_slice(mut self) -> Self {
        self.is_in_slice = true;
        self
    }

    /// Sets the result where a daemon enforces the policy.
    pub(crate) const fn with_daemon(mut self, expect: Expect) -> Self {
        self.with_daemon = Some(expect);
        self
    }

    /// Returns the expected result. Observing refuses nothing.
    #[must_use]
    pub fn expected(&self, config: Config) -> Expect {
        let enforced = self
            .with_daemon
            .filter(|_| config.has_daemon)
            .unwrap_or(self.expect);
        if matches!(enforced, Expect::Refused(_)) && !config.enforces {
            return Expect::Serves;
        }
        enforced
    }
}

/// A step of an action. Commands are lines of a shell, with `NAME` and `MODULE` of the server's package.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The user runs commands. Exit status 77 skips the action; the last line of their output is the reason.
    Run(&'static str),
    /// A client starts the server by this command, uses it, and ends it.
    Start(&'static str),
    /// As `Start`, whether or not the server serves.
    Try(&'static str),
    /// As `Start`, and the client calls this tool as well.
    Call(&'static str, &'static str),
    /// A client starts the server, and uses it again after these steps. `CLIENT` is the process of the client, and
    /// `WRAPPER` that of mcpmon.
    During(&'static str, &'static [Self]),
    /// Another way to use a server.
    Use(fn(&Day<'_>) -> Result<Got>),
}

/// An expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The server serves, and no changed file is reported.
    Passes,
    /// The server serves, and the changed files are reported.
    Alerts,
    /// The policy refuses it: the client's answers contain these words.
    Refused(&'static [&'static str]),
    /// The server serves, whether or not changed files are reported.
    Serves,
    /// The server cannot serve in any mode: the client's answers contain these words.
    Answered(&'static [&'static str]),
}

impl Expect {
    /// Returns whether a result is the expected one.
    #[must_use]
    pub fn is_met_by(self, got: &Got) -> bool {
        match (self, got) {
            (_, Got::Skipped(_))
            | (Self::Passes | Self::Serves, Got::Passes)
            | (Self::Alerts | Self::Serves, Got::Alerts(_)) => true,
            (Self::Refused(words) | Self::Answered(words), Got::Refused(text)) => {
                words.iter().all(|word| text.contains(word))
            }
            (
                Self::Passes | Self::Alerts | Self::Refused(_) | Self::Serves | Self::Answered(_),
                Got::Passes | Got::Alerts(_) | Got::Refused(_) | Got::Broken(_),
            ) => false,
        }
    }

    /// Returns whether the server has to serve.
    #[must_use]
    pub const fn serves(self) -> bool {
        matches!(self, Self::Passes | Self::Alerts | Self::Serves)
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passes => "passes",
            Self::Alerts => "alert",
            Self::Refused(_) => "refused",
            Self::Serves => "serves",
            Self::Answered(_) => "answered",
        })
    }
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The server serves.
    Passes,
    /// The server serves, and an event reports changed files.
    Alerts(String),
    /// The client's answers contain this refusal.
    Refused(String),
    /// There was no answer, or the action failed before its last start.
    Broken(String),
    /// The machine lacks something.
    Skipped(String),
}

impl Got {
    /// Returns the text that belongs to the result.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Passes => "",
            Self::Alerts(text) | Self::Refused(text) | Self::Broken(text) | Self::Skipped(text) => text,
        }
    }
}

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passes => "passes",
            Self::Alerts(_) => "alert",
            Self::Refused(_) => "refused",
            Self::Broken(_) => "broken",
            Self::Skipped(_) => "skipped",
        })
    }
}

/// A configuration of mcpmon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether a daemon runs.
    pub has_daemon: bool,
    /// Whether the policy is enforced.
    pub enforces: bool,
}

impl Config {
    /// All configurations.
    pub const ALL: [Self; 4] = [
        Self::new(false, true),
        Self::new(false, false),
        Self::new(true, true),
        Self::new(true, false),
    ];

    const fn new(has_daemon: bool, enforces: bool) -> Self {
        Self { has_daemon, enforces }
    }

    /// Returns the name, for `--config`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.has_daemon, self.enforces) {
            (false, true) => "enforce",
            (false, false) => "observe",
            (true, true) => "daemon-enforce",
            (true, false) => "daemon-observe",
        }
    }

    /// Returns the policy of the host or, without a daemon, of the user.
    #[must_use]
    pub fn policy(self) -> String {
        let mode = if self.enforces { "enforce" } else { "observe" };
        let run = std::process::id();
        // Only servers of this run are recognised, because others on this machine must not be stopped.
        format!(
            r#"version: 1
mode: {mode}
mcp:
  blocked_tools: [forbidden]
  server_policy: denylist
  denied_servers: [{{id: "*-denied"}}]
  detection: {{server_patterns: ["mcp-server-e2e{run}x*", "mcp_server_e2e{run}x*"]}}
"#
        )
    }
}
