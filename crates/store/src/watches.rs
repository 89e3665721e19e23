//! Times in which a daemon watched the host. At other times, only wrappers and proxies recorded what passed through
//! them.

use std::time::Duration;

use mcpmon_model::Timestamp;
use rusqlite::{Connection, params};

/// The interval at which a daemon records that it watches.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(15);
/// Two periods of watching with at most this time in between count as one without a gap.
const TOLERANCE: i64 = 20 * 1_000_000_000;
/// Most periods of watching that are remembered: there is one for each start of a daemon.
const MAX_WATCHES: u32 = 1000;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub since: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

/// Records that the daemon that has been watching since the start of the span was still watching at its end.
pub(super) fn put(connection: &Connection, watch: Span) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO watches (since, until) VALUES (?1, ?2) \
             ON CONFLICT (since) DO UPDATE SET until = max(until, excluded.until)",
        )?
        .execute(params![watch.since.0, watch.until.0])
        .map(drop)
}

/// Removes the oldest periods beyond the limit.
pub(super) fn prune(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM watches WHERE since IN (SELECT since FROM watches ORDER BY since DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([MAX_WATCHES])
        .map(drop)
}

/// Returns the parts of `span` in which no daemon watched.
pub(super) fn unwatched(connection: &Connection, span: Span) -> rusqlite::Result<Vec<Span>> {
    let mut select = connection.prepare_cached(
        "SELECT since, until FROM watches WHERE since <= ?1 AND until >= ?2 ORDER BY since",
    )?;
    let bounds = params![span.until.0, span.since.0.saturating_sub(TOLERANCE)];
    let mut rows = select.query(bounds)?;
    // The end of the watched time so far; `None` before the first period.
    let (mut seen, mut gaps): (Option<i64>, Vec<Span>) = (None, Vec::new());
    while let Some(row) = rows.next()? {
        let (since, until): (i64, i64) = (row.get(0)?, row.get(1)?);
        let before = seen.unwrap_or(span.since.0);
        if since > before.saturating_add(TOLERANCE) {
            gaps.push(Span {
                since: Timestamp(before),
                until: Timestamp(since),
            });
        }
        seen = Some(before.max(until));
    }
    let is_seen = seen.is_some_and(|seen| span.until.0.saturating_sub(seen) <= TOLERANCE);
    if !is_seen {
        gaps.push(Span {
            since: Timestamp(seen.unwrap_or(span.since.0)),
            until: span.until,
        });
    }
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::sample;

    fn span(since: i64, until: i64) -> Span {
        let at = |second: i64| Timestamp(sample::NOON + second * sample::SECOND);
        Span {
            since: at(since),
            until: at(until),
        }
    }

    #[test_case(&[], (0, 100) => vec![(0, 100)]; "nobody")]
    #[test_case(&[], (0, 0) => vec![(0, 0)]; "nobody in a moment")]
    #[test_case(&[(-50, 200)], (0, 100) => vec![]; "all of it")]
    #[test_case(&[(-50, 200)], (0, 0) => vec![]; "a moment")]
    #[test_case(&[(-50, 90)], (0, 100) => vec![]; "one that says so again soon")]
    #[test_case(&[(-50, -10)], (0, 5) => vec![]; "one that said so a moment ago")]
    #[test_case(&[(-50, -10)], (0, 50) => vec![(0, 50)]; "one that said so and then no more")]
    #[test_case(&[(-50, 50)], (0, 100) => vec![(50, 100)]; "one that ended")]
    #[test_case(&[(50, 200)], (0, 100) => vec![(0, 50)]; "one that began late")]
    #[test_case(&[(-50, 30), (70, 200)], (0, 100) => vec![(30, 70)]; "one that was started again late")]
    #[test_case(&[(-50, 30), (35, 200)], (0, 100) => vec![]; "one that was started again at once")]
    #[test_case(&[(-500, -400), (300, 400)], (0, 100) => vec![(0, 100)]; "before and after")]
    fn what_nobody_saw(watches: &[(i64, i64)], of: (i64, i64)) -> Vec<(i64, i64)> {
        let (_directory, store) = sample::store();
        for &(since, until) in watches {
            put(store.connection(), span(since, until)).unwrap();
        }
        let seconds = |at: Timestamp| (at.0 - sample::NOON) / sample::SECOND;
        let gaps = unwatched(store.connection(), span(of.0, of.1)).unwrap();
        gaps.iter()
            .map(|gap| (seconds(gap.since), seconds(gap.until)))
            .collect()
    }

    #[test]
    fn a_watch_grows_and_old_ones_are_forgotten() {
        let (_directory, store) = sample::store();
        for until in [10, 30, 20] {
            put(store.connection(), span(0, until)).unwrap();
        }
        assert_eq!(unwatched(store.connection(), span(0, 30)).unwrap(), []);
        for since in 1..1100 {
            put(store.connection(), span(since, since)).unwrap();
        }
        prune(store.connection()).unwrap();
        let left: u32 = store
            .connection()
            .query_row("SELECT count(*) FROM watches", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, MAX_WATCHES);
    }
}
