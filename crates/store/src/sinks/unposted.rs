//! Backlogs: events that the receiver of a sink has not acknowledged. They are in the store, separately for each
//! sink, and are posted by the process that claims them. A claim expires after its process has died.
//!
//! The backlog of the webhook has a table of its own, because wrappers of a version without other sinks write to it.

use mcpmon_model::Timestamp;
use rusqlite::{Connection, params};

use super::super::{ClaimedPosts, UnpostedEvents, row};

/// Most unclaimed events of a sink; the newest are kept.
const MAX_UNCLAIMED: u32 = 10_000;
/// Nanoseconds until a claim expires.
const CLAIM: i64 = 180 * 1_000_000_000;
/// The rows of the sink `?1` that are unclaimed at the time `?2`. A claim that ends later than a new one would was
/// made by a wrong clock, and does not count.
const UNCLAIMED: &str = "outlet = ?1 AND (claimed_until <= ?2 OR claimed_until > ?2 + ?3)";

/// Returns the table with the backlog of a sink.
fn table(sink: &str) -> &'static str {
    match sink {
        super::webhook::NAME => "unposted",
        _ => "unposted_elsewhere",
    }
}

/// Returns the expiry of a claim that is made now.
pub(crate) const fn claim_end(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_add(CLAIM))
}

/// Stores which events are still to be posted, and removes those that are settled.
pub(crate) fn keep(connection: &Connection, unposted: &UnpostedEvents) -> rusqlite::Result<()> {
    let mut upsert = connection.prepare_cached(&format!(
        "INSERT INTO {} (outlet, event_id, timestamp, claimed_until) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT DO UPDATE SET claimed_until = excluded.claimed_until",
        table(unposted.sink)
    ))?;
    for (id, at) in &unposted.waiting {
        let (id, until) = (id.to_string(), unposted.claimed_until.0);
        upsert.execute(params![unposted.sink, id, at.0, until])?;
    }
    for id in &unposted.settled {
        forget(connection, unposted.sink, &id.to_string())?;
    }
    Ok(())
}

fn forget(connection: &Connection, sink: &str, id: &str) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(&format!(
            "DELETE FROM {} WHERE outlet = ?1 AND event_id = ?2",
            table(sink)
        ))?
        .execute([sink, id])
}

/// Claims the oldest unclaimed events of a sink, at most `max`. An event that retention removed is not posted.
pub(crate) fn claim(
    connection: &Connection,
    sink: &str,
    now: Timestamp,
    max: usize,
) -> rusqlite::Result<ClaimedPosts> {
    let table = table(sink);
    let removed = connection
        .prepare_cached(&format!(
            "DELETE FROM {table} WHERE outlet = ?1 AND event_id IN (SELECT event_id FROM {table} WHERE {UNCLAIMED} \
                 ORDER BY timestamp DESC, event_id DESC LIMIT -1 OFFSET ?4)"
        ))?
        .execute(params![sink, now.0, CLAIM, MAX_UNCLAIMED])?;
    let mut claimed = ClaimedPosts {
        lost: removed as u64,
        ..ClaimedPosts::default()
    };
    let waiting: Vec<(String, i64)> = connection
        .prepare_cached(&format!(
            "SELECT event_id, timestamp FROM {table} WHERE {UNCLAIMED} ORDER BY timestamp, event_id LIMIT ?4"
        ))?
        .query_map(
            params![sink, now.0, CLAIM, i64::try_from(max).unwrap_or(i64::MAX)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .collect::<rusqlite::Result<_>>()?;
    let select = format!(
        "SELECT {} FROM events WHERE timestamp = ?1 AND id = ?2",
        row::COLUMNS
    );
    for (id, at) in waiting {
        let mut select = connection.prepare_cached(&select)?;
        let event = select.query_map(params![at, id], row::read)?.next().transpose()?;
        if let Some(event) = event {
            connection
                .prepare_cached(&format!(
                    "UPDATE {table} SET claimed_until = ?3 WHERE outlet = ?1 AND event_id = ?2"
                ))?
                .execute(params![sink, id, claim_end(now).0])?;
            claimed.events.push(event);
        } else {
            forget(connection, sink, &id)?;
            claimed.lost += 1;
        }
    }
    Ok(claimed)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{Destination as _, Store, StoreEntry, StoredEvent, sample};

    const NOW: Timestamp = Timestamp(1_000_000_000_000);

    fn waiting(ids: impl IntoIterator<Item = u128>, claimed_until: Timestamp) -> StoreEntry {
        waiting_for("webhook", ids, claimed_until)
    }

    fn waiting_for(
        sink: &'static str,
        ids: impl IntoIterator<Item = u128>,
        claimed_until: Timestamp,
    ) -> StoreEntry {
        let at = sample::denied("files").timestamp;
        StoreEntry::Unposted(UnpostedEvents {
            sink,
            waiting: ids.into_iter().map(|id| (Uuid::from_u128(id), at)).collect(),
            claimed_until,
            settled: Vec::new(),
        })
    }

    fn event(id: u128) -> StoreEntry {
        StoreEntry::Event(StoredEvent::new(
            Uuid::from_u128(id),
            "laptop",
            sample::denied("files"),
        ))
    }

    fn claimed(store: &mut Store, now: Timestamp) -> (Vec<u128>, u64) {
        let claimed = store.claim_unposted("webhook", now, 100_000).unwrap();
        let ids = claimed.events.iter().map(|event| event.id.as_u128());
        (ids.collect(), claimed.lost)
    }

    #[test]
    fn what_a_process_claims_is_anothers_when_it_died_and_nobodys_when_it_is_settled() {
        let (_directory, mut store) = sample::store();
        let entries = [event(1), event(2), waiting([1, 2], claim_end(NOW))];
        store.keep(&entries).unwrap();
        assert_eq!(claimed(&mut store, NOW), (vec![], 0), "its process posts it");
        assert_eq!(claimed(&mut store, claim_end(NOW)), (vec![1, 2], 0), "it died");
        assert_eq!(claimed(&mut store, claim_end(NOW)), (vec![], 0), "claimed again");
        let settled = StoreEntry::Unposted(UnpostedEvents {
            sink: "webhook",
            waiting: Vec::new(),
            claimed_until: NOW,
            settled: vec![Uuid::from_u128(1)],
        });
        store.keep(&[settled]).unwrap();
        // After the clock was set back, no claim lasts for ever.
        assert_eq!(claimed(&mut store, Timestamp(0)), (vec![2], 0));
    }

    #[test]
    fn what_waits_for_a_sink_is_no_others() {
        let (_directory, mut store) = sample::store();
        let sinks = ["webhook", "first", "second"];
        store.keep(&[event(1), event(2)]).unwrap();
        for sink in sinks {
            for until in [NOW, Timestamp(0)] {
                store.keep(&[waiting_for(sink, [1, 2], until)]).unwrap();
            }
        }
        for sink in sinks {
            let claimed = store.claim_unposted(sink, NOW, 1).unwrap();
            let ids: Vec<u128> = claimed.events.iter().map(|event| event.id.as_u128()).collect();
            assert_eq!((ids, claimed.lost), (vec![1], 0), "{sink}");
            let settled = StoreEntry::Unposted(UnpostedEvents {
                sink,
                waiting: Vec::new(),
                claimed_until: NOW,
                settled: vec![Uuid::from_u128(1)],
            });
            store.keep(&[settled]).unwrap();
        }
        for sink in sinks {
            let claimed = store.claim_unposted(sink, NOW, 10).unwrap();
            let ids: Vec<u128> = claimed.events.iter().map(|event| event.id.as_u128()).collect();
            assert_eq!((ids, claimed.lost), (vec![2], 0), "{sink}");
        }
    }

    #[test]
    fn what_is_gone_and_what_is_too_much_is_counted() {
        let (_directory, mut store) = sample::store();
        store.keep(&[event(1), waiting([1, 2], Timestamp(0))]).unwrap();
        assert_eq!(claimed(&mut store, NOW), (vec![1], 1));
        let too_many = u128::from(MAX_UNCLAIMED) + 5;
        store.keep(&[waiting(10..10 + too_many, Timestamp(0))]).unwrap();
        let (events, lost) = claimed(&mut store, NOW);
        assert_eq!(
            (events.len(), u128::from(lost)),
            (0, too_many),
            "none of them has an event"
        );
    }
}
