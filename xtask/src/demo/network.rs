//! A network namespace with one server, which the host reaches by two addresses: one watched, one denied.

use std::{net::Ipv4Addr, process::Command};

use anyhow::Result;

use super::{
    runtime,
    undo::{Action, Undo},
};
use crate::shell;

const NAMESPACE: &str = "mcpmon-demo";
const HOST_END: &str = "mcpmon-demo0";
const INNER_END: &str = "mcpmon-demo1";

// Addresses of the range for benchmarks between networks (RFC 2544), which are assigned to no real host.
const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 1);
pub(super) const WATCHED: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 2);
pub(super) const DENIED: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 3);

/// Makes the namespace, after removing what a killed run left.
pub(super) fn make(undo: &Undo) -> Result<()> {
    let remove = Action::RemoveNamespace(NAMESPACE);
    remove.perform();
    undo.later(remove);
    ip(&["netns", "add", NAMESPACE])?;
    ip(&[
        "link", "add", HOST_END, "type", "veth", "peer", "name", INNER_END, "netns", NAMESPACE,
    ])?;
    ip(&["address", "add", &format!("{HOST}/29"), "dev", HOST_END])?;
    ip(&["link", "set", HOST_END, "up"])?;
    for address in [WATCHED, DENIED] {
        ip(&[
            "-n",
            NAMESPACE,
            "address",
            "add",
            &format!("{address}/29"),
            "dev",
            INNER_END,
        ])?;
    }
    ip(&["-n", NAMESPACE, "link", "set", INNER_END, "up"])?;
    ip(&["-n", NAMESPACE, "link", "set", "lo", "up"])
}

/// Returns the command that runs `command` in the namespace.
pub(super) fn inside(command: &Command) -> Command {
    let mut inside = Command::new("ip");
    inside
        .args(["netns", "exec", NAMESPACE])
        .args(runtime::words(command));
    inside.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    inside
}

/// Returns whether a socket listens on this port in the namespace. An attempt to connect from outside would be
/// recorded.
pub(super) fn has_listener(port: u16) -> bool {
    let filter = format!("sport = :{port}");
    let listeners = [
        "netns",
        "exec",
        NAMESPACE,
        "ss",
        "--no-header",
        "--listening",
        "--tcp",
        "--numeric",
        &filter,
    ];
    shell::ask("ip", &listeners).is_some_and(|found| !found.trim().is_empty())
}

fn ip(arguments: &[&str]) -> Result<()> {
    shell::run(Command::new("ip").args(arguments))
}
