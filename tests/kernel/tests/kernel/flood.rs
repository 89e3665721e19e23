//! More refusals than the ring holds: every attempt is refused and counted, and lost records are counted too.

use std::{
    net::{SocketAddr, UdpSocket},
    thread,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::event::{Action, Counter};
use mcpmon_kernel_tests::{
    child::Child,
    lab::{Lab, deny},
    netns::{DENIED4, Space},
};
use nix::{
    libc,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

const PORT: u16 = 26_000;
const THREADS: u64 = 2;
const CONNECTS: u64 = 50_000;
/// Counters of records that did not fit into their ring.
const LOST: [Counter; 4] = [
    Counter::ExecLost,
    Counter::ProcessLost,
    Counter::ConnectLost,
    Counter::DeniedLost,
];

pub(crate) fn denials_exact_losses_counted(lab: &mut Lab) -> Result<()> {
    lab.install_rules(vec![deny(&["127.0.9.9"], &[PORT])?])?;
    // Records that were lost earlier are accounted for by these.
    once_on_every_processor()?;
    lab.connections()?;
    let (denied, denied_lost) = (lab.count(Counter::Denied)?, lab.count(Counter::DeniedLost)?);
    let (lost, missing) = (all_lost(lab)?, lab.sensor.rings.missing());

    let refused = Child::start_in(Space::Network, |_| flood())?.join()?;
    // Counted before the ring is read, because reading causes a refusal itself.
    let denied = lab.count(Counter::Denied)? - denied;
    let denied_lost = lab.count(Counter::DeniedLost)? - denied_lost;
    let read = denials(lab)?;
    ensure!(refused == THREADS * CONNECTS, "only {refused} were refused");
    ensure!(denied == THREADS * CONNECTS, "{denied} were counted");
    ensure!(denied_lost > 0, "the ring held everything: this is no flood");
    ensure!(
        denied_lost == THREADS * CONNECTS - read,
        "{denied_lost} lost, and yet {read} read"
    );

    // A gap is noticed only with a later record, so there is one on each processor.
    let later = once_on_every_processor()?;
    ensure!(denials(lab)? == later, "the ring takes no records after a flood");
    let missing = lab.sensor.rings.missing() - missing;
    let lost = all_lost(lab)? - lost;
    ensure!(
        missing == lost,
        "{missing} sequence numbers are missing, {lost} records were lost"
    );
    lab.note(format!(
        "{denied} refused, {read} records read, {denied_lost} lost and known to be"
    ));
    Ok(())
}

/// Connects from several threads at once, and returns the number of refusals.
fn flood() -> Result<u64> {
    let threads: Vec<_> = (0..THREADS)
        .map(|_| thread::spawn(|| refusals(CONNECTS)))
        .collect();
    threads
        .into_iter()
        .map(|thread| {
            thread
                .join()
                .map_err(|_panic| anyhow::anyhow!("a thread panicked"))?
        })
        .sum()
}

fn refusals(count: u64) -> Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0").context("cannot open a socket")?;
    let target = SocketAddr::from((DENIED4, PORT));
    let refused = (0..count).filter(|_| {
        socket
            .connect(target)
            .is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
    });
    Ok(u64::try_from(refused.count())?)
}

/// Makes one refused connection on each processor, and returns the number of them.
fn once_on_every_processor() -> Result<u64> {
    Child::start_in(Space::Network, |_| {
        let allowed = sched_getaffinity(Pid::this()).context("cannot ask for processors")?;
        let processors = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        processors
            .map(|cpu| {
                let mut only = CpuSet::new();
                only.set(cpu).context("no such processor")?;
                sched_setaffinity(Pid::this(), &only).context("cannot move to a processor")?;
                refusals(1)
            })
            .sum()
    })?
    .join()
}

/// Returns the records of this test's refusals.
fn denials(lab: &mut Lab) -> Result<u64> {
    let mut records = lab.connections()?;
    records.retain(|record| record.record.port == PORT && record.action == Action::Deny);
    Ok(u64::try_from(records.len())?)
}

fn all_lost(lab: &Lab) -> Result<u64> {
    LOST.into_iter().map(|counter| lab.count(counter)).sum()
}
