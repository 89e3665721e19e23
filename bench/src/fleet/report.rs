//! The figures of a fleet, and their table.

use std::fmt;

use mcpmon_bench::report::{self, Rows};
use serde::Serialize;

/// The figures of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Taken {
    pub(crate) hosts: u32,
    /// The number of hosts with events in the table.
    pub(crate) hosts_seen: u64,
    pub(crate) recorded: u64,
    /// The number of events that a queue or a store of an agent did not take.
    pub(crate) lost: u64,
    /// The number of events in the table.
    pub(crate) arrived: u64,
    /// The time for which the agents recorded.
    pub(crate) seconds: f64,
    /// The time from the last event until all had arrived, or no more came.
    pub(crate) seconds_behind: f64,
    /// Peak memory.
    pub(crate) collector_mib: f64,
    pub(crate) engine_mib: f64,
    /// Peak memory of all agents together.
    pub(crate) agents_mib: f64,
    /// The size of all stores of the agents together.
    pub(crate) store_bytes: u64,
    /// The size of the table after it was merged.
    pub(crate) table_bytes: u64,
}

/// The figures, and their limits.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    taken: Taken,
    rows: Rows,
}

/// The longest time that the last event may take, in seconds.
const MAX_SECONDS_BEHIND: f64 = 15.0;

impl Report {
    pub(crate) fn new(taken: Taken) -> Self {
        let mut rows = Rows::default();
        let missing = taken.recorded.abs_diff(taken.arrived) + taken.lost;
        rows.push("events lost or doubled", &[missing as f64], 0.0);
        let unseen = u64::from(taken.hosts).abs_diff(taken.hosts_seen);
        rows.push("hosts that the table does not have", &[unseen as f64], 0.0);
        rows.push(
            "seconds from the last event to its row",
            &[taken.seconds_behind],
            MAX_SECONDS_BEHIND,
        );
        Self { taken, rows }
    }
}

impl report::Report for Report {
    fn is_missed(&self) -> bool {
        self.rows.is_missed()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = &self.taken;
        writeln!(
            f,
            "a fleet: {} hosts, {} events in {:.0} s ({:.0}/s), {} in the table, {} lost by agents",
            taken.hosts,
            taken.recorded,
            taken.seconds,
            taken.recorded as f64 / taken.seconds,
            taken.arrived,
            taken.lost
        )?;
        writeln!(
            f,
            "memory at most: collector {:.0} MiB, database {:.0} MiB, all agents {:.0} MiB",
            taken.collector_mib, taken.engine_mib, taken.agents_mib
        )?;
        writeln!(
            f,
            "an event: {:.0} bytes in a host's store, {:.0} in the table",
            taken.store_bytes as f64 / taken.recorded as f64,
            taken.table_bytes as f64 / taken.arrived as f64
        )?;
        self.rows.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_bench::report::Report as _;

    use super::*;

    const GOOD: Taken = Taken {
        hosts: 200,
        hosts_seen: 200,
        recorded: 30_000,
        lost: 0,
        arrived: 30_000,
        seconds: 30.0,
        seconds_behind: 2.0,
        collector_mib: 50.0,
        engine_mib: 500.0,
        agents_mib: 300.0,
        store_bytes: 30_000_000,
        table_bytes: 3_000_000,
    };

    #[test]
    fn what_is_missing_or_late_misses() {
        assert!(!Report::new(GOOD).is_missed());
        for bad in [
            Taken {
                arrived: 29_999,
                ..GOOD
            },
            Taken {
                arrived: 30_001,
                ..GOOD
            },
            Taken { lost: 1, ..GOOD },
            Taken {
                hosts_seen: 199,
                ..GOOD
            },
            Taken {
                seconds_behind: 60.0,
                ..GOOD
            },
        ] {
            assert!(Report::new(bad).is_missed());
        }
    }
}
