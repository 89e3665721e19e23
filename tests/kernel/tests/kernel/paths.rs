//! Every path to an address, with every form of rule.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::{
    address::Form,
    event::{Action, Hook},
};
use mcpmon_kernel::records::Connect;
use mcpmon_kernel_tests::{
    attempt::{Coverage, Outcome, PATHS, Path, Peer, Target, Written},
    child::Child,
    lab::{Lab, deny, number, rule},
    netns::{ALLOWED4, ALLOWED6, DENIED4, DENIED6, Space},
};
use mcpmon_policy::{NetworkRule, RuleAction, Scope};
use serde::{Deserialize, Serialize};

/// The first port. Each path has a separate port, by which its records are recognised.
const FIRST_PORT: u16 = 20_000;

const ADDRESSES: [&str; 2] = ["127.0.9.9", "fd00:99::9"];
const RANGES: [&str; 2] = ["127.0.9.0/24", "fd00:99::/64"];

/// The outcome of one path.
#[derive(Debug, Serialize, Deserialize)]
struct Trial {
    /// The outcome for the address that the rules are about.
    listed: Outcome,
    /// The outcome for an address without a rule, which shows that the path works.
    unlisted: Outcome,
}

pub(crate) fn unlisted(lab: &mut Lab) -> Result<()> {
    for (path, trial) in trials(Space::Network)? {
        let works = supported(lab, path, &trial)?;
        let reached = (trial.listed, trial.unlisted) == (Outcome::Reached, Outcome::Reached);
        ensure!(reached || !works, "{path:?}: {trial:?}");
    }
    let records = ours(lab)?;
    ensure!(
        records.is_empty(),
        "nothing is listed, and yet reported: {records:#?}"
    );
    Ok(())
}

pub(crate) fn refused_by_address_and_port(lab: &mut Lab) -> Result<()> {
    refused(lab, Space::Network, deny(&ADDRESSES, &ports())?)
}

pub(crate) fn refused_by_range_and_port(lab: &mut Lab) -> Result<()> {
    refused(lab, Space::Network, deny(&RANGES, &ports())?)
}

pub(crate) fn refused_by_address(lab: &mut Lab) -> Result<()> {
    refused(lab, Space::Network, deny(&ADDRESSES, &[])?)
}

pub(crate) fn refused_by_range(lab: &mut Lab) -> Result<()> {
    refused(lab, Space::Network, deny(&RANGES, &[])?)
}

pub(crate) fn refused_in_namespaces(lab: &mut Lab) -> Result<()> {
    refused(lab, Space::Everything, deny(&RANGES, &ports())?)
}

pub(crate) fn watched(lab: &mut Lab) -> Result<()> {
    let watch = rule(RuleAction::Watch, Scope::Host, &ADDRESSES, &ports())?;
    let name = watch.name.clone();
    let tables = lab.install_rules(vec![watch])?;
    let rule = number(&tables, &name)?;
    let trials = trials(Space::Network)?;
    let records = ours(lab)?;
    for (path, trial) in trials {
        if !supported(lab, path, &trial)? {
            continue;
        }
        ensure!(
            (trial.listed, trial.unlisted) == (Outcome::Reached, Outcome::Reached),
            "{path:?}: {trial:?}"
        );
        // Packets are reported only if they are dropped.
        let by_call = path.means.hook() != Hook::Packet;
        if by_call && !matches!(path.coverage(&lab.kernel), Coverage::Open(_)) {
            reported(path, &records, Action::Allow, rule)?;
        }
    }
    Ok(())
}

/// Tries every path while `rule` refuses the listed addresses.
fn refused(lab: &mut Lab, space: Space, rule: NetworkRule) -> Result<()> {
    let name = rule.name.clone();
    let for_ports = !rule.ports.is_empty();
    let tables = lab.install_rules(vec![rule])?;
    let rule = number(&tables, &name)?;
    let trials = trials(space)?;
    let records = ours(lab)?;
    for (path, trial) in trials {
        if !supported(lab, path, &trial)? {
            continue;
        }
        ensure!(
            trial.unlisted == Outcome::Reached,
            "{path:?} does not work here at all: {trial:?}"
        );
        match path.coverage(&lab.kernel) {
            Coverage::Closed | Coverage::Dropped if for_ports && !path.means.has_port() => {
                ensure!(
                    trial.listed == Outcome::Reached,
                    "{path:?} has no port, and is refused: {trial:?}"
                );
            }
            Coverage::Closed => {
                ensure!(
                    trial.listed == Outcome::Refused,
                    "{path:?} got through: {trial:?}"
                );
                reported(path, &records, Action::Deny, rule)?;
            }
            Coverage::Dropped => {
                ensure!(trial.listed == Outcome::Lost, "{path:?} got through: {trial:?}");
                reported(path, &records, Action::Deny, rule)?;
            }
            Coverage::Open(gap) => {
                lab.lacks(format!("{:?}: {gap}", path.means));
                ensure!(
                    trial.listed == Outcome::Reached,
                    "{path:?} is a gap no longer: {trial:?}"
                );
            }
            Coverage::Absent(_) => {}
        }
    }
    let strangers: Vec<_> = records
        .iter()
        .filter(|record| !is_listed(record.address))
        .collect();
    ensure!(
        strangers.is_empty(),
        "unlisted addresses are reported: {strangers:#?}"
    );
    Ok(())
}

/// Returns whether the kernel supports the path. If it does not, the workload must have found the same.
fn supported(lab: &mut Lab, path: Path, trial: &Trial) -> Result<bool> {
    match path.coverage(&lab.kernel) {
        Coverage::Closed | Coverage::Dropped | Coverage::Open(_) => Ok(true),
        Coverage::Absent(why) => {
            lab.lacks(format!("{:?}: {why}", path.means));
            let absent = |outcome| matches!(outcome, Outcome::Unsupported(_));
            ensure!(
                absent(trial.listed) && absent(trial.unlisted),
                "{path:?} is there: {trial:?}"
            );
            Ok(false)
        }
    }
}

/// Tries every path to a listed and to an unlisted address.
fn trials(space: Space) -> Result<Vec<(Path, Trial)>> {
    let trials = Child::start_in(space, |_| {
        PATHS
            .iter()
            .zip(FIRST_PORT..)
            .map(|(path, port)| {
                let peer = Peer::listen(port)?;
                let outcome = |address| {
                    let aside = match address {
                        IpAddr::V4(_) => IpAddr::from(ALLOWED4),
                        IpAddr::V6(_) => ALLOWED6.into(),
                    };
                    path.attempt(Target {
                        address: SocketAddr::new(address, port),
                        aside: SocketAddr::new(aside, port),
                        peer: &peer,
                        source: None,
                        device: None,
                    })
                };
                let listed = outcome(path.written.write(DENIED4, DENIED6));
                Ok(Trial {
                    listed,
                    unlisted: outcome(path.written.write(ALLOWED4, ALLOWED6)),
                })
            })
            .collect::<Result<Vec<Trial>>>()
    })?
    .join()?;
    ensure!(
        trials.len() == PATHS.len(),
        "{} of {} paths were tried",
        trials.len(),
        PATHS.len()
    );
    Ok(PATHS.into_iter().zip(trials).collect())
}

/// Checks that there is a record of `path`, and that all its records describe the attempt.
fn reported(path: Path, records: &[Connect], action: Action, rule: u32) -> Result<()> {
    let Some(index) = PATHS.iter().position(|known| *known == path) else {
        return Ok(());
    };
    let port = FIRST_PORT + u16::try_from(index)?;
    let is_of_path = |record: &&Connect| match path.means.has_port() {
        true => record.record.port == port,
        false => record.record.port == 0 && record.address == path.written.judged(DENIED4, DENIED6),
    };
    let found: Vec<_> = records.iter().filter(is_of_path).collect();
    for record in &found {
        let said = (record.action, record.record.rule, record.address);
        let expected = (action, rule, path.written.judged(DENIED4, DENIED6));
        ensure!(said == expected, "{path:?} is reported as {record:#?}");
    }
    // The first record, because a watched mapped UDP socket passes a second hook, as IPv4, when it sends.
    let first = found
        .first()
        .with_context(|| format!("{path:?} left no record"))?;
    let (form, given) = seen(path);
    ensure!(
        (first.form, first.given, first.hook) == (form, given, path.means.hook()),
        "{path:?} is reported as {first:#?}"
    );
    Ok(())
}

/// Returns the form and the address in which the kernel shows the destination to the hook.
fn seen(path: Path) -> (Form, IpAddr) {
    let given = path.written.write(DENIED4, DENIED6);
    if path.means.hook() == Hook::Send && path.written == Written::Mapped {
        // `udpv6_sendmsg` passes a mapped destination to `udp_sendmsg` before any hook sees it.
        return (Form::Plain, given.to_canonical());
    }
    (path.written.form(), given)
}

/// Returns the records of this test's ports, without those of other processes on the machine.
fn ours(lab: &mut Lab) -> Result<Vec<Connect>> {
    let ports = ports();
    let mut records = lab.connections()?;
    records.retain(|record| {
        // io_uring delays the end of a connection that an earlier test made without rules.
        let is_late = record.hook == Hook::Packet && record.record.protocol == 6;
        !is_late
            && (ports.contains(&record.record.port) || record.record.port == 0 && is_listed(record.address))
    });
    Ok(records)
}

fn is_listed(address: IpAddr) -> bool {
    address == IpAddr::from(DENIED4) || address == IpAddr::from(DENIED6)
}

fn ports() -> Vec<u16> {
    (FIRST_PORT..).take(PATHS.len()).collect()
}
