//! Retention: a store is kept within its age and size by removing the oldest events; pins and servers are kept.

use std::{sync::LazyLock, time::Duration};

use mcpmon_model::Timestamp;
use rusqlite::{Connection, params};

use super::{
    PruneCount, PruneProgress, Store, StoreError,
    bodies::table as bodies,
    clock::{self, Uptime},
    recent, schema, servers, sessions, watches,
};

/// Most events that are removed in one transaction, so that other writers do not wait long for the lock.
const CHUNK: i64 = 1000;

/// Most transactions in one run, so that the queue is served in between.
const CHUNKS: usize = 8;

/// Most servers that are remembered, and most processes that count as running; other programs choose names and process
/// ids.
const MAX_SERVERS: u32 = 10_000;

/// As long as there are at most this many notable events for each ordinary one, ordinary ones are removed first.
const SPARED: i64 = 3;

/// The limits of a store's age and size.
#[derive(Clone, Copy, Debug)]
pub struct RetentionLimits {
    /// Age at which events are removed.
    pub retention: Duration,
    /// Size in bytes at which the oldest events are removed.
    pub max_size: u64,
}

/// Removes what is older than the limits allow, then the oldest events until the size fits, and returns the space to
/// the file system.
pub(super) fn enforce(
    store: &mut Store,
    limits: RetentionLimits,
    now: Timestamp,
    uptime: &Uptime,
) -> Result<PruneCount, StoreError> {
    let belief = store.write(|transaction| clock::look(transaction, now, uptime))?;
    let age = i64::try_from(limits.retention.as_nanos()).unwrap_or(i64::MAX);
    let oldest = now.0.saturating_sub(age);
    let mut pruned = PruneCount {
        progress: PruneProgress::More,
        jump: belief.jump,
        ..PruneCount::default()
    };
    let mut removed_any = false;
    let mut spared = store.spared;
    for _ in 0..CHUNKS {
        let removed = store.write(|transaction| {
            if belief.is_believed {
                let aged = remove_older(transaction, oldest)?;
                let bodies = bodies::remove_expired(transaction, now)?;
                if aged + bodies > 0 {
                    pruned.aged += aged as u64;
                    return Ok(aged + bodies);
                }
            }
            if used_bytes(transaction)? <= limits.max_size {
                return Ok(0);
            }
            // Bodies are worth less than events.
            let bodies = bodies::remove_oldest(transaction)?;
            if bodies > 0 {
                return Ok(bodies);
            }
            let oversize = remove_oldest(transaction, &mut spared)?;
            pruned.oversize += oversize as u64;
            Ok(oversize)
        })?;
        if removed == 0 {
            pruned.progress = PruneProgress::Done;
            break;
        }
        removed_any = true;
    }
    store.spared = spared;
    store.write(|transaction| {
        servers::prune(transaction, MAX_SERVERS)?;
        watches::prune(transaction)?;
        if belief.is_believed {
            recent::prune(transaction, now)?;
        }
        sessions::prune(transaction)
    })?;
    if removed_any {
        store.write_outside(give_back)?;
    }
    Ok(pruned)
}

fn remove_older(connection: &Connection, oldest: i64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM events WHERE seq IN \
                 (SELECT seq FROM events WHERE timestamp < ?1 ORDER BY timestamp LIMIT ?2)",
        )?
        .execute(params![oldest, CHUNK])
}

/// Removes a tenth of the events, at most one chunk: ordinary ones, unless more than three quarters are notable.
/// `spared` is the position up to which only notable events are left.
fn remove_oldest(connection: &Connection, spared: &mut i64) -> rusqlite::Result<usize> {
    static NOTABLE: LazyLock<String> =
        LazyLock::new(|| format!("SELECT count(*) FROM events WHERE {}", schema::NOTABLE));
    static ORDINARY: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT max(seq), count(*) FROM \
                 (SELECT seq FROM events WHERE seq > ?1 AND NOT {} ORDER BY seq LIMIT ?2)",
            schema::NOTABLE
        )
    });
    static REMOVE: LazyLock<String> = LazyLock::new(|| {
        format!(
            "DELETE FROM events WHERE seq > ?1 AND seq <= ?2 AND NOT {}",
            schema::NOTABLE
        )
    });
    let count = |select: &str| -> rusqlite::Result<i64> {
        connection.prepare_cached(select)?.query_row([], |row| row.get(0))
    };
    let (notable, all) = (count(&NOTABLE)?, count("SELECT count(*) FROM events")?);
    let ordinary = all - notable;
    if ordinary > notable / SPARED {
        let some = (ordinary / 10).clamp(1, CHUNK);
        let (last, found): (Option<i64>, i64) = connection
            .prepare_cached(&ORDINARY)?
            .query_row(params![*spared, some], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let (Some(last), 1..) = (last, found) {
            let removed = connection
                .prepare_cached(&REMOVE)?
                .execute(params![*spared, last])?;
            *spared = last;
            return Ok(removed);
        }
    }
    *spared = 0;
    connection
        .prepare_cached("DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT ?1)")?
        .execute([(all / 10).clamp(1, CHUNK)])
}

/// Returns the bytes in use, without free pages.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0).map(u64::from));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Shortens the file by its free pages. A concurrent reader can delay that until the next time.
fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
    // Each row is one page moved.
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use mcpmon_model::{Digest, Direction, PinKey, PinPart, ServerId};

    use super::*;
    use crate::{BinaryPin, pins, sample};

    const DAY: Duration = Duration::from_hours(24);

    /// Applies the limits until they are met; returns the numbers removed for age and for size.
    fn run_to_the_end(store: &mut Store, limits: RetentionLimits, now: i64) -> (u64, u64) {
        let (mut aged, mut oversize) = (0, 0);
        loop {
            let pruned = enforce(store, limits, Timestamp(now), &clock::steady(Timestamp(now))).unwrap();
            aged += pruned.aged;
            oversize += pruned.oversize;
            if pruned.progress == PruneProgress::Done {
                return (aged, oversize);
            }
        }
    }

    fn pids(store: &Store) -> Vec<u32> {
        let mut statement = store
            .connection()
            .prepare("SELECT pid FROM events WHERE pid IS NOT NULL ORDER BY seq")
            .unwrap();
        let pids = statement.query_map([], |row| row.get(0)).unwrap();
        pids.map(Result::unwrap).collect()
    }

    fn size(path: &Path) -> u64 {
        fs::metadata(path).unwrap().len()
    }

    #[test]
    fn events_go_with_their_age_whatever_their_order() {
        let (_directory, mut store) = sample::store();
        sample::fill(
            &mut store,
            [
                sample::at(0, sample::started("a", 2)),
                sample::at(-10, sample::started("a", 3)),
                sample::at(-200_000, sample::started("a", 4)),
                sample::at(-86_400, sample::started("a", 5)),
            ],
        );
        let limits = RetentionLimits {
            retention: DAY,
            max_size: u64::MAX,
        };
        assert_eq!(run_to_the_end(&mut store, limits, sample::NOON), (1, 0));
        assert_eq!(pids(&store), [2, 3, 5]);
        assert_eq!(servers::load(store.connection()).unwrap()[0].launches, 4);
    }

    #[test]
    fn the_file_shrinks_to_its_limit_and_keeps_the_newest_and_the_pins() {
        let (directory, mut store) = sample::store();
        let path = directory.path().join("mcpmon.db");
        let pin = BinaryPin {
            key: PinKey {
                server: ServerId::new("a").unwrap(),
                name: "a".into(),
                uid: 0,
            },
            number: 1,
            part: PinPart::Executable,
            path: "/usr/bin/node".into(),
            hash: Digest::of(b"node"),
            manifest: None,
            pinned_at: Timestamp(0),
            pinned_by: "first_use".into(),
        };
        pins::put(store.connection(), &pin).unwrap();
        let connection = |pid| sample::connection("a", pid, "192.0.2.1:443", Direction::ServerEgress);
        sample::fill(&mut store, (2..4002).map(connection));
        store.write_outside(give_back).unwrap();
        let before = size(&path);
        let limits = RetentionLimits {
            retention: DAY,
            max_size: 512 << 10,
        };
        assert!(before > 2 * limits.max_size, "{before}");

        let (aged, oversize) = run_to_the_end(&mut store, limits, sample::NOON);

        assert_eq!((aged, oversize), (0, 4000 - pids(&store).len() as u64));
        assert!(size(&path) <= limits.max_size, "{} bytes", size(&path));
        assert_eq!(size(&directory.path().join("mcpmon.db-wal")), 0);
        let left = pids(&store);
        assert_eq!(left.last(), Some(&4001));
        assert!(
            left.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "the oldest went"
        );
        assert_eq!(pins::load(store.connection()).unwrap(), [pin]);
    }

    #[test]
    fn detections_and_what_was_stopped_outlive_ordinary_events_and_have_a_limit() {
        let (_directory, mut store) = sample::store();
        let notable = (2..102).map(|pid| {
            let mut event = sample::blocked_connection();
            if let Some(process) = &mut event.process {
                process.pid = pid;
            }
            event
        });
        sample::fill(&mut store, notable);
        sample::fill(&mut store, [sample::detected("helper")]);
        let connection = |pid| sample::connection("a", pid, "192.0.2.1:443", Direction::ServerEgress);
        sample::fill(&mut store, (1000..9000).map(connection));
        let limits = RetentionLimits {
            retention: DAY,
            max_size: 512 << 10,
        };
        run_to_the_end(&mut store, limits, sample::NOON);
        let left = pids(&store);
        assert!((2..102).all(|pid| left.contains(&pid)), "{left:?}");
        assert!(left.contains(&8999) && !left.contains(&1000), "{left:?}");

        // A flood of notable events does not keep ordinary ones out for ever.
        let flood = (20_000..30_000).map(|pid| {
            let mut event = connection(pid);
            event.severity = mcpmon_model::Severity::High;
            event
        });
        sample::fill(&mut store, flood);
        sample::fill(&mut store, (30_000..30_100).map(connection));
        run_to_the_end(&mut store, limits, sample::NOON);
        let left = pids(&store);
        assert!(!left.contains(&2) && !left.contains(&20_000), "the oldest went");
        assert!(left.contains(&29_999) && left.contains(&30_099), "{left:?}");
    }

    #[test]
    fn a_clock_that_jumps_removes_nothing_for_its_age() {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, (2..50).map(|pid| sample::started("a", pid)));
        let limits = RetentionLimits {
            retention: 30 * DAY,
            max_size: u64::MAX,
        };
        let uptime = clock::steady(Timestamp(sample::NOON));
        let mut at = |days: i64| {
            let now = Timestamp(sample::NOON + days * 24 * 3600 * sample::SECOND);
            enforce(&mut store, limits, now, &uptime).unwrap()
        };
        assert_eq!(at(0).aged, 0);
        let jumped = at(40);
        assert_eq!((jumped.aged, jumped.jump), (0, Some(40 * DAY)));
        assert_eq!((at(40).aged, at(0).aged), (0, 0), "nor when it is put right");
        assert_eq!(pids(&store).len(), 48);
    }

    #[test]
    fn a_limit_nothing_fits_into_ends_with_no_events() {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, (2..50).map(|pid| sample::started("a", pid)));
        let limits = RetentionLimits {
            retention: DAY,
            max_size: 0,
        };
        run_to_the_end(&mut store, limits, sample::NOON);
        assert_eq!(pids(&store), [0; 0]);
    }

    #[test]
    fn positions_rise_even_after_everything_was_removed() {
        let (_directory, mut store) = sample::store();
        sample::fill(&mut store, (2..5).map(|pid| sample::started("a", pid)));
        let limits = RetentionLimits {
            retention: Duration::ZERO,
            max_size: 0,
        };
        run_to_the_end(&mut store, limits, sample::NOON + 1);
        sample::fill(&mut store, [sample::started("a", 9)]);
        let seq: i64 = store
            .connection()
            .query_row("SELECT seq FROM events", [], |row| row.get(0))
            .unwrap();
        assert_eq!(seq, 4);
    }
}
