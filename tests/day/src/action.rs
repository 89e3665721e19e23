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
    pub description: &'static str,
    /// The steps. All starts but the last must serve; the last step has the result.
    pub(crate) steps: &'static [Step],
    /// The result where the policy is enforced without a daemon.
    pub expect: Expectation,
    /// The result where the policy is enforced with a daemon, if it differs.
    pub with_daemon: Option<Expectation>,
    /// True for an action that CI runs.
    pub is_in_slice: bool,
    /// The reason for which the action has another result today. It counts as a known false stop.
    pub known: Option<&'static str>,
}

impl Action {
    /// Makes an action that is no part of the slice.
    pub(crate) const fn new(
        name: &'static str,
        description: &'static str,
        steps: &'static [Step],
        expect: Expectation,
    ) -> Self {
        Self {
            name,
            description,
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
    pub(crate) const fn with_daemon(mut self, expect: Expectation) -> Self {
        self.with_daemon = Some(expect);
        self
    }

    /// Returns the expected result. Observing refuses nothing.
    #[must_use]
    pub fn expected(&self, config: Config) -> Expectation {
        let enforced = self
            .with_daemon
            .filter(|_| config.has_daemon)
            .unwrap_or(self.expect);
        if matches!(enforced, Expectation::Refused(_)) && !config.enforces {
            return Expectation::Serves;
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
    Use(fn(&Day<'_>) -> Result<Outcome>),
}

/// An expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
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

impl Expectation {
    /// Returns whether a result is the expected one.
    #[must_use]
    pub fn matches(self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (_, Outcome::Skipped(_))
            | (Self::Passes | Self::Serves, Outcome::Passes)
            | (Self::Alerts | Self::Serves, Outcome::Alerts(_)) => true,
            (Self::Refused(words) | Self::Answered(words), Outcome::Refused(text)) => {
                words.iter().all(|word| text.contains(word))
            }
            (
                Self::Passes | Self::Alerts | Self::Refused(_) | Self::Serves | Self::Answered(_),
                Outcome::Passes
                | Outcome::Alerts(_)
                | Outcome::Refused(_)
                | Outcome::Broken(_)
                | Outcome::Failed(_),
            ) => false,
        }
    }

    /// Returns whether the server has to serve.
    #[must_use]
    pub const fn serves(self) -> bool {
        matches!(self, Self::Passes | Self::Alerts | Self::Serves)
    }
}

impl fmt::Display for Expectation {
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
pub enum Outcome {
    /// The server serves.
    Passes,
    /// The server serves, and an event reports changed files.
    Alerts(String),
    /// The client's answers contain this refusal.
    Refused(String),
    /// There was no answer, or a start before the last did not serve.
    Broken(String),
    /// A command of the action failed.
    Failed(String),
    /// The machine lacks something.
    Skipped(String),
}

impl Outcome {
    /// Returns the text that belongs to the result.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Passes => "",
            Self::Alerts(text)
            | Self::Refused(text)
            | Self::Broken(text)
            | Self::Failed(text)
            | Self::Skipped(text) => text,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passes => "passes",
            Self::Alerts(_) => "alert",
            Self::Refused(_) => "refused",
            Self::Broken(_) => "broken",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        })
    }
}

/// A configuration of mcpmon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// True if a daemon runs.
    pub has_daemon: bool,
    /// True if the policy is enforced.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_must_name_its_cause() {
        let refused = Expectation::Refused(&["weather.py", "mcpmon explain"]);
        let text = |text: &str| Outcome::Refused(text.to_owned());
        assert!(refused.matches(&text("weather.py changed: mcpmon explain 1")));
        assert!(!refused.matches(&text("weather.py changed")));
        assert!(!refused.matches(&Outcome::Broken("weather.py: mcpmon explain 1".to_owned())));
        assert!(!refused.matches(&Outcome::Passes));
    }

    #[test]
    fn unexpected_alert_and_missing_alert_differ() {
        let alerts = Outcome::Alerts(String::new());
        assert!(!Expectation::Passes.matches(&alerts));
        assert!(!Expectation::Alerts.matches(&Outcome::Passes));
        assert!(Expectation::Serves.matches(&alerts) && Expectation::Serves.matches(&Outcome::Passes));
    }

    #[test]
    fn observing_refuses_nothing() {
        let action = Action::new("a", "A", &[], Expectation::Refused(&[])).with_daemon(Expectation::Passes);
        let expected = Config::ALL.map(|config| action.expected(config));
        let passes = Expectation::Passes;
        assert_eq!(
            expected,
            [Expectation::Refused(&[]), Expectation::Serves, passes, passes]
        );
    }
}
