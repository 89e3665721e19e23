//! Lists of sessions: they apply in addition to those of servers, and while a process waits for its judgement.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use mcpmon_common::{event::Action, process::ProcessEntry, state::Heartbeat};
use mcpmon_kernel_tests::{
    lab::Lab,
    netns::{ALLOWED4, DENIED4, DENIED6},
    probe,
};
use mcpmon_model::ServerId;
use mcpmon_policy::{
    Egress, ModelHost, OnBypass, Policy, SandboxPolicy, Server, Transport, network::table::LIST_PROXIED,
};

const PORT: u16 = 25_100;
const OTHER_PORT: u16 = 25_101;

fn policy(action: OnBypass) -> Policy {
    let mut policy = Policy::default();
    policy.network.bypass.action = action;
    policy.network.bypass.models = vec![ModelHost {
        hosts: Vec::new(),
        addresses: vec![DENIED4.into(), DENIED6.into()],
        ports: vec![PORT],
    }];
    policy
}

fn proxied() -> ProcessEntry {
    ProcessEntry {
        flags: ProcessEntry::FLAG_AGENT,
        session: LIST_PROXIED,
        ..ProcessEntry::default()
    }
}

/// Models are refused to all processes of the session, and to no others.
pub(crate) fn refused(lab: &mut Lab) -> Result<()> {
    lab.install(&policy(OnBypass::Deny))?;
    let models = [(DENIED4, PORT).into(), (DENIED6, PORT).into()];
    let others = [(DENIED4, OTHER_PORT).into(), (ALLOWED4, PORT).into()];
    lab.hold(proxied(), &models, &others)?;
    lab.hold(ProcessEntry::default(), &[], &models)
}

/// The proxy ends with the daemon: after some time without a daemon, models are not refused to the session any more.
pub(crate) fn in_silence(lab: &mut Lab) -> Result<()> {
    lab.install(&policy(OnBypass::Deny))?;
    let models = [(DENIED4, PORT).into(), (DENIED6, PORT).into()];
    let stale = Duration::from_nanos(Heartbeat::STALE_AFTER);
    lab.silent(stale / 2, |lab| lab.hold(proxied(), &models, &[]))?;
    lab.silent(stale, |lab| lab.hold(proxied(), &[], &models))
}

/// If connections are only reported, they succeed, and only those of the session are reported.
pub(crate) fn reported(lab: &mut Lab) -> Result<()> {
    let tables = lab.install(&policy(OnBypass::Alert))?;
    let (model, other): (SocketAddr, SocketAddr) = ((DENIED4, PORT).into(), (ALLOWED4, PORT).into());
    lab.hold(ProcessEntry::default(), &[], &[model])?;
    let records = lab.connections()?;
    ensure!(
        records.iter().all(|record| record.record.port != PORT),
        "{records:#?}"
    );
    lab.hold(proxied(), &[], &[model, other])?;
    let mut records = lab.connections()?;
    records.retain(|record| record.record.port == PORT);
    ensure!(
        records.len() == probe::RELATIVES.len(),
        "{} records",
        records.len()
    );
    let rule = tables.lookup(LIST_PROXIED, model.ip(), PORT).watch;
    for record in records {
        let entry = record.record.entry;
        let said = (record.action, record.record.rule, entry.session);
        ensure!(said == (Action::Allow, rule, LIST_PROXIED), "{record:#?}");
    }
    Ok(())
}

/// A process that waits for its judgement, because a server has a list, is bound by its session's list too.
pub(crate) fn pending(lab: &mut Lab) -> Result<()> {
    let mut policy = policy(OnBypass::Deny);
    policy.servers = vec![Server {
        on_change: None,
        id: ServerId::new("other")?,
        transport: Transport::Stdio {
            command: "other".to_owned(),
            args: Vec::new(),
        },
        env_allow: Vec::new(),
        env_deny: Vec::new(),
        processes: None,
        egress: Some(Egress {
            deny: vec!["127.0.9.200".parse()?],
            ..Egress::default()
        }),
        sandbox: SandboxPolicy::default(),
    }];
    lab.install(&policy)?;
    let pending = ProcessEntry {
        flags: ProcessEntry::FLAG_AGENT | ProcessEntry::FLAG_PENDING,
        ..proxied()
    };
    lab.hold(pending, &[(DENIED4, PORT).into()], &[(ALLOWED4, PORT).into()])
}
