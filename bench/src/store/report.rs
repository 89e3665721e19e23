//! The report: figures computed from rounds, and their table.

use std::fmt;

use mcpmon_bench::{
    median,
    report::{self, Rows},
};
use serde::Serialize;

use crate::{ListingMemory, Taken};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rounds: usize,
    /// Medians over the rounds.
    plain_ns_per_event: f64,
    alike_ns_per_event: f64,
    store_ns_per_event: f64,
    plain_mb_per_second: f64,
    rows: Rows,
}

/// A target: its name, its limit, and the function that reads its figure from one round.
type Promise = (&'static str, f64, fn(&Taken) -> f64);

const PROMISES: [Promise; 6] = [
    (
        "an event in a batch of 100, to plain SQLite, same indexes",
        1.2,
        |taken| taken.recorded / taken.alike,
    ),
    (
        "an event in a batch of 100, to plain SQLite, two indexes",
        1.25,
        |taken| taken.recorded / taken.plain,
    ),
    ("100 MB that are not known, to plain SHA-256", 1.1, |taken| {
        taken.cold / taken.digest
    }),
    ("a file that is known, µs", 10.0, |taken| taken.warm),
    ("`events` by any filter, of a million, s", 0.2, |taken| {
        taken.listed_events
    }),
    ("`calls` by any filter, of a million, s", 0.2, |taken| {
        taken.listed_calls
    }),
];

/// The largest number of megabytes for a listing of a million events.
const MAX_LISTING_MEGABYTES: f64 = 64.0;

impl Report {
    pub(crate) fn new(rounds: &[Taken], memory: ListingMemory) -> Self {
        let figures = |figure: fn(&Taken) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
        let mut rows = Rows::default();
        for (what, target, figure) in PROMISES {
            rows.push(what, &figures(figure), target);
        }
        rows.push(
            "`events --json` of a million, MB",
            &[memory.events],
            MAX_LISTING_MEGABYTES,
        );
        rows.push(
            "`calls --json` of a million, MB",
            &[memory.calls],
            MAX_LISTING_MEGABYTES,
        );
        Self {
            rounds: rounds.len(),
            plain_ns_per_event: median(&figures(|taken| taken.plain)),
            alike_ns_per_event: median(&figures(|taken| taken.alike)),
            store_ns_per_event: median(&figures(|taken| taken.recorded)),
            plain_mb_per_second: median(&figures(|taken| 104.857_6 / taken.digest)),
            rows,
        }
    }
}

impl report::Report for Report {
    fn is_missed(&self) -> bool {
        self.rows.is_missed()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "recording, listing and hashing: {} rounds, medians\n\nan event, plain SQLite with two indexes \
             {:.0} ns, with the store's {:.0} ns, the store {:.0} ns; SHA-256 {:.0} MB/s",
            self.rounds,
            self.plain_ns_per_event,
            self.alike_ns_per_event,
            self.store_ns_per_event,
            self.plain_mb_per_second
        )?;
        self.rows.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_bench::report::Report as _;

    use super::*;

    const GOOD: Taken = Taken {
        plain: 5_000.0,
        alike: 5_500.0,
        recorded: 6_000.0,
        digest: 0.1,
        cold: 0.1,
        warm: 5.0,
        listed_events: 0.1,
        listed_calls: 0.1,
    };
    const SMALL: ListingMemory = ListingMemory {
        events: 40.0,
        calls: 50.0,
    };

    #[test]
    fn each_promise_is_kept_or_missed_by_itself() {
        assert!(!Report::new(&[GOOD; 9], SMALL).is_missed());
        for bad in [
            Taken {
                recorded: 7_000.0,
                ..GOOD
            },
            Taken {
                alike: 4_000.0,
                ..GOOD
            },
            Taken { cold: 0.2, ..GOOD },
            Taken { warm: 20.0, ..GOOD },
            Taken {
                listed_events: 0.3,
                ..GOOD
            },
            Taken {
                listed_calls: 0.3,
                ..GOOD
            },
        ] {
            assert!(Report::new(&[bad; 9], SMALL).is_missed(), "{bad:?}");
        }
        for large in [
            ListingMemory {
                events: 80.0,
                ..SMALL
            },
            ListingMemory { calls: 80.0, ..SMALL },
        ] {
            assert!(Report::new(&[GOOD; 9], large).is_missed(), "{large:?}");
        }
    }
}
