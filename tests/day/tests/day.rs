//! Performs the actions of the slice, where they are enforced: without a daemon, and with one.

#![expect(clippy::disallowed_methods, reason = "tests of the system")]
#![cfg(test)]

use std::io::{self, Write as _};

use anyhow::Result;
use mcpmon_day::{Action, Cache, Config, Outcome, all, groups, page, run, summary, table};

/// Performs the slice in a configuration. Every result must be the expected one.
fn perform(config: Config) -> Result<()> {
    let Some(cache) = Cache::open()? else {
        return Ok(());
    };
    let actions: Vec<Action> = all().filter(|action| action.is_in_slice).collect();
    assert!(actions.len() >= 25, "the slice has shrunk to {}", actions.len());
    let rows = run(config, &actions, &cache)?;
    writeln!(io::stderr().lock(), "{}", summary(&rows))?;
    for row in &rows {
        if let Outcome::Skipped(missing) = &row.outcome {
            mcpmon_e2e::skip::for_lack(&format!("{}: {missing}", row.action.name))?;
        }
    }
    let mut against = rows;
    against.retain(|row| !row.is_as_expected() && row.action.known.is_none());
    assert!(against.is_empty(), "{}\n{}", table(&against), summary(&against));
    Ok(())
}

#[test]
fn honest_actions_pass_where_a_wrapper_enforces() -> Result<()> {
    perform(Config::ALL[0])
}

#[test]
fn honest_actions_pass_where_a_daemon_enforces() -> Result<()> {
    perform(Config::ALL[2])
}

#[test]
fn the_suite_has_at_least_sixty_actions() {
    let mut names: Vec<&str> = all().map(|action| action.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "two actions have one name");
    assert!(count >= 60, "{count}");
}

#[test]
fn the_page_has_every_action() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/working-day.md");
    let text = std::fs::read_to_string(path)?;
    let page = page(&groups());
    assert!(
        text.ends_with(&page),
        "replace the tables of docs/working-day.md by the output of `cargo xtask day --page`:\n{page}"
    );
    Ok(())
}
