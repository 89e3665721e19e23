//! Candidates: programs that may be servers with an egress list are stopped and restricted until they are judged, and no
//! other programs.

use std::{collections::BTreeSet, net::SocketAddr, os::unix::process::CommandExt as _, process::Command};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::{
    event::{Counter, ExecRecord},
    gate::{ANY_USER, GateKind, Hold},
    process::ProcessEntry,
};
use mcpmon_kernel::gate::GatedName;
use mcpmon_kernel_tests::{
    child::{Child, Test},
    lab::{Lab, agent_entry},
    netns::{DENIED4, Space},
    probe::{self, REACHED, REFUSED},
};

use crate::{
    egress::{PORT, install_all_but_9},
    gate::{OPEN, Started, start},
};

const NAMES: [(GateKind, &str); 3] = [
    (GateKind::Program, "cat"),
    (GateKind::Interpreter, "echo"),
    (GateKind::Argument, "server.js"),
];

fn names(of: &[(GateKind, &str)]) -> BTreeSet<GatedName> {
    let name = |(kind, name): &(GateKind, &str)| GatedName {
        uid: ANY_USER,
        kind: *kind,
        name: (*name).to_owned(),
    };
    of.iter().map(name).collect()
}

/// Installs an egress list and names of candidates while `run` runs.
fn with_candidates<T>(lab: &mut Lab, run: impl FnOnce(&mut Lab) -> Result<T>) -> Result<T> {
    install_all_but_9(lab)?;
    lab.sensor.gate.replace(&names(&NAMES))?;
    lab.sensor.gate.open_for(OPEN, true)?;
    let outcome = run(lab);
    lab.sensor.gate.close()?;
    lab.sensor.gate.replace(&BTreeSet::new())?;
    let left: Vec<u32> = lab.sensor.gate.holds().map(|(pid, _)| pid).collect();
    left.into_iter().for_each(|pid| lab.sensor.gate.release(pid));
    outcome
}

/// The way in which a workload starts the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Host,
    Agent,
    /// In a process group of its own, as a job of a shell.
    JobOfAgent,
}

/// Starts a program, and returns whether it was stopped, and whether it was restricted.
fn one(lab: &mut Lab, argv: &[&str], place: Place) -> Result<(bool, bool)> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let mut workload = Child::start(move |test: &mut Test| {
        test.wait()?;
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]);
        if place == Place::JobOfAgent {
            command.process_group(0);
        }
        let (mut child, started) = start(&mut command)?;
        child.kill().context("cannot kill")?;
        child.wait().context("cannot wait")?;
        Ok(started)
    })?;
    if place != Place::Host {
        lab.sensor.processes.set(workload.pid(), agent_entry())?;
    }
    workload.proceed()?;
    let (pid, is_stopped): Started = workload.join()?;
    let held = lab.sensor.gate.holds().find(|(held, _)| *held == pid);
    lab.sensor.gate.release(pid);
    let execs = lab.execs(pid)?;
    let record = execs.first().context("no record")?.record;
    let is_restricted = record.entry.has(ProcessEntry::FLAG_PENDING);
    let has = |flag| record.flags & flag != 0;
    ensure!(has(ExecRecord::FLAG_HELD) == is_stopped, "{:x}", record.flags);
    ensure!(
        has(ExecRecord::FLAG_CANDIDATE) == is_restricted,
        "{:x}",
        record.flags
    );
    let is_noted = held.is_some_and(|(_, hold)| hold.flags == Hold::FLAG_CANDIDATE);
    ensure!(is_noted == is_stopped, "{held:?}");
    Ok((is_stopped, is_restricted))
}

/// Only starts with the names of a candidate are stopped and restricted.
pub(crate) fn by_name(lab: &mut Lab) -> Result<()> {
    with_candidates(lab, |lab| {
        for (argv, place, expected) in [
            (["cat", "/x"].as_slice(), Place::Host, true),
            (&["echo", "a"], Place::Agent, true),
            (&["echo", "a"], Place::Host, false),
            (&["echo", "-x", "/a/server.js"], Place::Host, true),
            (&["echo", "/a/xserver.js"], Place::Host, false),
            (&["ls", "server.js"], Place::Host, false),
            (&["ls", "server.js"], Place::Agent, false),
        ] {
            let found = one(lab, argv, place)?;
            ensure!(found == (expected, expected), "{argv:?}: {found:?}");
        }
        Ok(())
    })
}

/// Candidates that a shell would see stopped, or while nothing may be stopped, continue restricted and are counted.
pub(crate) fn restricted_only(lab: &mut Lab) -> Result<()> {
    with_candidates(lab, |lab| {
        let before = lab.count(Counter::ExecRestricted)?;
        let job = one(lab, &["echo", "a"], Place::JobOfAgent)?;
        lab.sensor.gate.open_for(OPEN, false)?;
        let observed = one(lab, &["cat", "/x"], Place::Host)?;
        lab.sensor.gate.close()?;
        let closed = one(lab, &["cat", "/x"], Place::Host)?;
        let counted = lab.count(Counter::ExecRestricted)? - before;
        let found = [job, observed, closed];
        ensure!(found == [(false, true); 3] && counted == 3, "{found:?} {counted}");
        Ok(())
    })
}

/// Without an egress list, no start is a candidate.
pub(crate) fn without_lists(lab: &mut Lab) -> Result<()> {
    with_candidates(lab, |lab| {
        lab.install_rules(Vec::new())?;
        let found = one(lab, &["cat", "/x"], Place::Host)?;
        ensure!(found == (false, false), "{found:?}");
        Ok(())
    })
}

/// A candidate that is not stopped cannot use the time until it is judged; another program connects at once. The
/// restriction of both ends when it is lifted, and that of a server does not.
pub(crate) fn refused_until_judged(lab: &mut Lab) -> Result<()> {
    with_candidates(lab, |lab| {
        let target: SocketAddr = (DENIED4, PORT).into();
        let start = |lab: &mut Lab| {
            let list = names(&[(GateKind::Program, "exe")]);
            lab.sensor.gate.replace(&list)?;
            lab.sensor.gate.close()?;
            Child::start_in(Space::Network, move |test| {
                for _ in 0..3 {
                    test.wait()?;
                    test.say(&probe::run("/proc/self/exe".as_ref(), target)?)?;
                }
                Ok(())
            })
        };
        let mut workload = start(lab)?;
        let mut next = |expected: u8| -> Result<()> {
            workload.proceed()?;
            let found: u8 = workload.hear()?;
            ensure!(found == expected, "{found}, not {expected}");
            Ok(())
        };
        next(REFUSED)?;
        lab.sensor.gate.replace(&BTreeSet::new())?;
        next(REACHED)?;
        lab.sensor.gate.replace(&names(&[(GateKind::Program, "exe")]))?;
        lab.sensor.addresses.lift_pending()?;
        next(REACHED)?;
        workload.join()
    })
}
