//! Sockets of protocols that no hook judges: they are refused while rules refuse addresses to their process.

use std::os::fd::OwnedFd;

use anyhow::{Result, ensure};
use mcpmon_common::{
    event::{Action, Hook},
    process::ProcessEntry,
    watch::{Control, RULE_PROTOCOL},
};
use mcpmon_kernel::{addresses::Enforcement, records::Connect};
use mcpmon_kernel_tests::{
    child::Child,
    kernel::Protocol,
    lab::{Lab, agent_entry, deny, rule},
    netns::Space,
    sys::socket,
};
use mcpmon_policy::{Egress, RuleAction, Scope};
use nix::{errno::Errno, libc};

use super::egress;

const DENIED: &str = "127.0.9.9";

/// Protocols that no hook judges: the protocol, its type of socket and its number.
const UNJUDGED: [(Protocol, i32, i32); 3] = [
    (Protocol::Sctp, libc::SOCK_STREAM, 132),
    (Protocol::Sctp, libc::SOCK_SEQPACKET, 132),
    (Protocol::L2tp, libc::SOCK_DGRAM, 115),
];
/// The types of sockets that every process gets, whatever the rules.
const JUDGED: [(i32, i32, i32); 16] = [
    (libc::AF_INET, libc::SOCK_STREAM, 0),
    (libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_TCP),
    (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
    (libc::AF_INET, libc::SOCK_DGRAM, 0),
    (libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE),
    (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
    (libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_ICMPV6),
    (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
    (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW),
    (libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_UDP),
    (libc::AF_UNIX, libc::SOCK_STREAM, 0),
    (libc::AF_UNIX, libc::SOCK_SEQPACKET, 0),
    (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
    (libc::AF_PACKET, libc::SOCK_RAW, 0),
    (libc::AF_VSOCK, libc::SOCK_STREAM, 0),
];

/// Sockets of such protocols are refused to a process only while a rule or list refuses addresses to it.
pub(crate) fn unjudged(lab: &mut Lab) -> Result<()> {
    let protocols: Vec<_> = UNJUDGED
        .into_iter()
        .filter(|(protocol, ..)| lab.kernel.has(*protocol))
        .map(|(_, kind, number)| (kind, number))
        .collect();
    if protocols.is_empty() {
        lab.lacks("the kernel has neither SCTP nor L2TP/IP");
        return Ok(());
    }
    let nobody = ProcessEntry::default();
    expect(lab, &protocols, nobody, None)?;
    lab.install_rules(vec![rule(RuleAction::Watch, Scope::Host, &[DENIED], &[])?])?;
    expect(lab, &protocols, agent_entry(), None)?;

    let host = vec![deny(&[DENIED], &[443])?];
    let tables = lab.install_rules(host)?;
    expect(lab, &protocols, nobody, Some(Action::Deny))?;
    lab.sensor.addresses.install(&tables, Enforcement::Observe)?;
    expect(lab, &protocols, nobody, Some(Action::WouldDeny))?;

    lab.install_rules(vec![rule(RuleAction::Deny, Scope::Agents, &[DENIED], &[])?])?;
    expect(lab, &protocols, agent_entry(), Some(Action::Deny))?;
    expect(lab, &protocols, nobody, None)?;

    let list = egress::install_one(
        lab,
        Egress {
            deny: vec!["127.0.9.0/24".parse()?],
            ..Egress::default()
        },
    )?;
    expect(lab, &protocols, egress::entry(list), Some(Action::Deny))?;
    let second = ProcessEntry {
        egress: [0, list],
        ..egress::entry(0)
    };
    expect(lab, &protocols, second, Some(Action::Deny))?;
    expect(lab, &protocols, agent_entry(), None)?;
    expect(lab, &protocols, nobody, None)
}

/// Other sockets open as usual while rules refuse addresses.
pub(crate) fn judged(lab: &mut Lab) -> Result<()> {
    let before = opened(lab, ProcessEntry::default())?;
    lab.install_rules(vec![
        deny(&[DENIED], &[])?,
        rule(RuleAction::Deny, Scope::Agents, &["127.0.9.8"], &[])?,
    ])?;
    ensure!(
        lab.sensor.addresses.word() & Control::DENY == Control::DENY_HOST | Control::DENY_AGENTS,
        "the rules are not in force"
    );
    let during = opened(lab, agent_entry())?;
    ensure!(
        before == during,
        "without rules {before:?}, with rules {during:?}"
    );
    let usual = during.iter().take(2).all(|error| *error == 0);
    ensure!(usual, "not even TCP can be opened: {during:?}");
    Ok(())
}

fn opened(lab: &mut Lab, entry: ProcessEntry) -> Result<Vec<i32>> {
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        Ok(JUDGED
            .map(|(family, kind, protocol)| error(socket(family, kind, protocol)))
            .to_vec())
    })?;
    lab.sensor.processes.set(workload.pid(), entry)?;
    workload.proceed()?;
    workload.join()
}

/// Lets a process with `entry` open sockets of both families, and checks the outcomes and records.
fn expect(
    lab: &mut Lab,
    protocols: &[(i32, i32)],
    entry: ProcessEntry,
    action: Option<Action>,
) -> Result<()> {
    lab.connections()?;
    let mut workload = Child::start_in(Space::Network, |test| {
        test.wait()?;
        Ok(protocols
            .iter()
            .map(|(kind, protocol)| error(socket(libc::AF_INET, *kind, *protocol)))
            .collect::<Vec<_>>())
    })?;
    let pid = workload.pid();
    lab.sensor.processes.set(pid, entry)?;
    workload.proceed()?;
    let found = workload.join()?;
    let refused = action == Some(Action::Deny);
    let wanted = if refused { Errno::EPERM as i32 } else { 0 };
    ensure!(
        found.iter().all(|error| *error == wanted),
        "{protocols:?} with {entry:?}: {found:?}, not {wanted}"
    );
    let said: Vec<_> = lab
        .connections()?
        .into_iter()
        .filter(|record| record.record.process.pid == pid)
        .map(
            |Connect {
                 record, action, hook, ..
             }| (action, hook, record.rule, i32::from(record.protocol)),
        )
        .collect();
    let expected: Vec<_> = protocols
        .iter()
        .filter_map(|(_, protocol)| Some((action?, Hook::Socket, RULE_PROTOCOL, *protocol)))
        .collect();
    ensure!(said == expected, "{said:?}, not {expected:?}");
    Ok(())
}

/// Returns the error number of opening a socket; 0 if it opens.
fn error(opened: Result<OwnedFd, Errno>) -> i32 {
    opened.map_or_else(|error| error as i32, |_| 0)
}
