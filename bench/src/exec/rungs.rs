//! The time for which a changed server runs on each rung of enforcement, and the delay until an unchanged one acts.

use std::time::Duration;

use anyhow::{Result, ensure};
use mcpmon_e2e::{daemon::Daemon, host::Host, site::Site};
use serde::Serialize;

use crate::{
    site,
    witness::{Server, Start, Witness},
};

/// The number of starts of each kind in a round.
const STARTS: u32 = 12;
/// The time for which a changed server would run.
const TIME: Duration = Duration::from_millis(50);

/// A way in which a changed server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rung {
    /// No mcpmon.
    Without,
    /// With `on_change: alert`, which only reports the change.
    Observe,
    /// The daemon stops it after the record of its exec.
    Daemon,
    /// The kernel stops it at its exec.
    Kernel,
}

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A static program.
    Native,
    /// A Python script.
    Script,
}

/// The starts of one kind of server on one rung in one round.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) rung: Rung,
    pub(crate) kind: Kind,
    pub(crate) unchanged: Vec<Start>,
    /// The starts of a changed server; empty without a daemon.
    pub(crate) changed: Vec<Start>,
}

struct Bench {
    witness: Witness,
    servers: [(Kind, Server); 2],
}

/// Measures in this many rounds.
pub(crate) fn measure(host: &Host, rounds: u32) -> Result<Vec<Vec<Round>>> {
    let site = Site::new(&site::policy("block"))?;
    let directory = site.path("");
    let bench = Bench {
        witness: Witness::new()?,
        servers: [
            (Kind::Native, Server::native(&directory)?),
            (Kind::Script, Server::script(&directory)?),
        ],
    };
    let daemon = Daemon::start_at(host, site)?;
    for (_, server) in &bench.servers {
        server.pin(&daemon, &bench.witness)?;
    }
    let mut site = site::end(daemon)?;
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let round;
        (round, site) = bench.round(host, site)?;
        measured.push(round);
    }
    Ok(measured)
}

impl Bench {
    fn round(&self, host: &Host, site: Site) -> Result<(Vec<Round>, Site)> {
        let mut rounds = self.on(Rung::Without, None)?;
        site.write_policy(&site::policy("block"))?;
        let daemon = Daemon::start_at(host, site)?;
        rounds.extend(self.on(Rung::Kernel, Some(&daemon))?);
        site::forget_names(&daemon.site)?;
        rounds.extend(self.on(Rung::Daemon, Some(&daemon))?);
        let site = site::end(daemon)?;
        site.write_policy(&site::policy("alert"))?;
        let daemon = Daemon::start_at(host, site)?;
        rounds.extend(self.on(Rung::Observe, Some(&daemon))?);
        Ok((rounds, site::end(daemon)?))
    }

    fn on(&self, rung: Rung, daemon: Option<&Daemon>) -> Result<Vec<Round>> {
        let servers = self.servers.iter();
        servers
            .map(|(kind, server)| self.starts(rung, *kind, server, daemon))
            .collect()
    }

    fn starts(&self, rung: Rung, kind: Kind, server: &Server, daemon: Option<&Daemon>) -> Result<Round> {
        let held = || daemon.map_or(Ok(0), |daemon| site::counter(daemon, "exec_held"));
        let before = held()?;
        let start = |time| self.witness.watch(server.command(), time);
        let unchanged = (0..STARTS)
            .map(|_| start(Duration::ZERO))
            .collect::<Result<Vec<_>>>()?;
        ensure!(
            unchanged.iter().all(|start| start.act.is_some()),
            "an unchanged server did not act: {rung:?}, {kind:?}"
        );
        // Each start has another change, so that the kernel refuses none because of an earlier comparison.
        let changed = (0..daemon.map_or(0, |_| STARTS))
            .map(|_| server.change().and_then(|()| start(TIME)))
            .collect::<Result<Vec<_>>>()?;
        server.restore()?;
        let stopped = held()? - before;
        let expected = match rung {
            Rung::Kernel => u64::from(2 * STARTS),
            Rung::Without | Rung::Observe | Rung::Daemon => 0,
        };
        ensure!(
            stopped == expected,
            "the kernel stopped {stopped} starts, not {expected}: what was measured is not {rung:?}, {kind:?}"
        );
        Ok(Round {
            rung,
            kind,
            unchanged,
            changed,
        })
    }
}
