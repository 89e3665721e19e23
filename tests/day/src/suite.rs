//! Runs actions in configurations.

use std::{
    collections::VecDeque,
    num::NonZero,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use mcpmon_e2e::{daemon::Daemon, host::Host, site::Site};

use crate::{
    action::{Action, Config, Outcome},
    cache::Cache,
    day::Day,
};

/// Commands that the actions need.
const COMMANDS: [&str; 4] = ["git", "node", "npm", "python3"];

/// One configuration at a time, because a daemon judges the servers of the whole host.
static TURN: Mutex<()> = Mutex::new(());

/// The result of an action in a configuration.
#[derive(Clone, Debug)]
pub struct Row {
    /// The action.
    pub action: Action,
    /// The configuration.
    pub config: Config,
    /// The result.
    pub outcome: Outcome,
    /// The duration.
    pub took: Duration,
}

impl Row {
    /// Returns whether the result is the expected one.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        self.action.expected(self.config).matches(&self.outcome)
    }

    /// Returns whether mcpmon stopped honest work.
    #[must_use]
    pub fn is_false_stop(&self) -> bool {
        let stopped = matches!(self.outcome, Outcome::Refused(_) | Outcome::Broken(_));
        stopped && self.action.expected(self.config).serves()
    }
}

/// Performs actions in a configuration. Returns nothing, and says so on standard error, if the machine lacks something.
///
/// # Errors
/// Returns an error if the daemon does not come up, or if `CI=true` says that nothing may be missing.
pub fn run(config: Config, actions: &[Action], cache: &Cache) -> Result<Vec<Row>> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !config.has_daemon {
        return Ok(perform(config, actions, cache, None));
    }
    let Some(host) = Host::take(&COMMANDS)? else {
        return Ok(Vec::new());
    };
    let daemon = Daemon::start(&host, &config.policy())?;
    Ok(perform(config, actions, cache, Some(&daemon.site)))
}

fn perform(config: Config, actions: &[Action], cache: &Cache, site: Option<&Site>) -> Vec<Row> {
    let queue: Mutex<VecDeque<(usize, Action)>> = Mutex::new(actions.iter().copied().enumerate().collect());
    let rows = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    // Clients and servers mostly wait for each other.
    let workers = thread::available_parallelism().map_or(1, NonZero::get) + 1;
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((number, action)) = next() {
                    let start = Instant::now();
                    let outcome = Day::new(config, site, cache).map(|day| day.perform(&action));
                    let row = Row {
                        action,
                        config,
                        outcome: outcome.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}"))),
                        took: start.elapsed(),
                    };
                    rows.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((number, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}
