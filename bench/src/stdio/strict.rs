//! The shipped strict policy, on a host on which the far side is known and approved.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_bench::site::Site;

use crate::{
    contender::{NO_DAEMON, Wrapper},
    conversation::Conversation,
};

const STRICT: &str = include_str!("../../../policies/strict.yaml");

/// The settings that every user has to fill in, and a rate that no run reaches.
const FILLED_IN: [(&str, &str); 4] = [
    ("allowed_servers: []", "allowed_servers: [{id: bench}]"),
    (
        "allowed_tools: []",
        "allowed_tools: [{server: bench, tool: report}]",
    ),
    ("default_rpm: 100\n", "default_rpm: 1000000000\n"),
    ("default_burst: 10\n", "default_burst: 1000000000\n"),
];
/// The store with the approvals.
const STORE: &str = "strict.db";
/// The longest time for pinning, and the interval between checks.
const PINNED: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// The line below which the server is declared.
const SERVERS: &str = "\nmcp:\n";
/// The setting that requires approval before use, and its opposite.
const APPROVAL: (&str, &str) = ("auto_trust_first: false", "auto_trust_first: true");

/// Returns the command of a wrapper with this policy, up to the server's command. The server's files and tools are
/// pinned.
pub(crate) fn wrapper(mcpmon: &str, site: &Site, server: &[String]) -> Result<Vec<String>> {
    let (program, arguments) = server.split_first().context("a server")?;
    let declared =
        format!("{SERVERS}  servers: [{{id: bench, command: {program:?}, args: {arguments:?}}}]\n");
    let policy = FILLED_IN
        .into_iter()
        .chain([(SERVERS, declared.as_str())])
        .try_fold(STRICT.to_owned(), |policy, change| with(&policy, change))?;
    let first = site.file("strict-first.yaml", &with(&policy, APPROVAL)?)?;
    let policy = site.file("strict.yaml", &policy)?;
    let before = |policy: &Path| {
        let wrapper = Wrapper {
            mcpmon,
            policy,
            store: STORE,
        };
        wrapper.before("bench", NO_DAEMON)
    };
    approve(&[before(&first), server.to_vec()].concat(), site)?;
    Ok(before(&policy))
}

/// Runs a conversation in which everything is seen for the first time and therefore pinned. It lasts until the server's
/// file is pinned, which is hashed meanwhile.
fn approve(command: &[String], site: &Site) -> Result<()> {
    let (program, arguments) = command.split_first().context("a command")?;
    let program = PathBuf::from(program);
    let (conversation, _) = Conversation::start(site.command(&program).args(arguments))?;
    let deadline = Instant::now() + PINNED;
    while !is_pinned(&program, site)? {
        ensure!(
            Instant::now() < deadline,
            "the server is not pinned after {PINNED:?}"
        );
        thread::sleep(PAUSE);
    }
    conversation.end()
}

/// Returns whether the server's file has a pin.
fn is_pinned(mcpmon: &Path, site: &Site) -> Result<bool> {
    let pins = site
        .command(mcpmon)
        .args(["pins", "list", "--json", "--db", STORE])
        .stdout(Stdio::piped())
        .output()?;
    Ok(String::from_utf8_lossy(&pins.stdout).contains(r#""part":"executable""#))
}

fn with(policy: &str, (old, new): (&str, &str)) -> Result<String> {
    ensure!(
        policy.matches(old).count() == 1,
        "policies/strict.yaml has {old:?} once"
    );
    Ok(policy.replacen(old, new, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_in_the_policy_that_is_shipped() {
        for change in FILLED_IN.into_iter().chain([APPROVAL, (SERVERS, "servers: []")]) {
            let changed = with(STRICT, change).expect("once");
            assert!(changed.contains(change.1), "{change:?}");
        }
    }
}
