use std::thread;

use super::*;
use crate::sample;

const LONG: Duration = Duration::from_secs(60);

fn sizes(queue: &Queue) -> Vec<usize> {
    queue.close();
    std::iter::from_fn(|| queue.take())
        .map(|batch| batch.messages.len())
        .collect()
}

#[test]
fn a_full_batch_is_due_at_once_and_the_rest_at_the_end() {
    let queue = Queue::new(100, 2, LONG);
    for pid in 2..7 {
        queue.push_event(sample::started("a", pid));
    }
    assert_eq!(queue.take().unwrap().messages.len(), 2);
    assert_eq!(sizes(&queue), [2, 1]);
}

#[test]
fn an_urgent_event_is_due_at_once_with_what_came_before() {
    let queue = Queue::new(100, 100, LONG);
    queue.push_event(sample::started("a", 2));
    queue.push_event(sample::blocked_connection());
    assert_eq!(queue.take().unwrap().messages.len(), 2);
}

#[test]
fn what_is_to_be_written_soon_waits_for_a_look_that_comes_soon_and_for_no_other() {
    let queue = Queue::new(100, 100, LONG);
    assert_eq!(queue.put(StoreEntry::ForgetRunning, Urgency::Soon), Ok(()));
    assert_eq!(queue.take().unwrap().messages.len(), 1);
    assert_eq!(queue.put(StoreEntry::ForgetRunning, Urgency::Soon), Ok(()));
    assert!(!queue.lock().is_due(), "the writer looks again soon");
    assert_eq!(queue.take().unwrap().messages.len(), 1);
    assert!(queue.take().unwrap().messages.is_empty());
    assert_eq!(queue.put(StoreEntry::ForgetRunning, Urgency::Soon), Ok(()));
    assert!(!queue.lock().is_due(), "it can wait a little");
    assert_eq!(
        queue.take().unwrap().messages.len(),
        1,
        "the next look would be far away"
    );
}

#[test]
fn a_writer_that_sleeps_for_long_is_told_of_what_is_to_be_written_soon() {
    let queue = Queue::new(100, 100, LONG);
    thread::scope(|scope| {
        let writer = scope.spawn(|| queue.take().unwrap().messages.len());
        while !queue.lock().writer_sleeps {
            thread::yield_now();
        }
        let begun = Instant::now();
        assert_eq!(queue.put(StoreEntry::ForgetRunning, Urgency::Soon), Ok(()));
        assert_eq!(writer.join().unwrap(), 1);
        assert!(begun.elapsed() >= SOON, "nobody is in a hurry");
    });
}

#[test]
fn without_an_urgent_event_the_interval_passes() {
    let queue = Queue::new(100, 100, Duration::from_millis(1));
    queue.push_event(sample::started("a", 2));
    assert_eq!(queue.take().unwrap().messages.len(), 1);
    assert!(queue.take().unwrap().messages.is_empty());
}

#[test]
fn a_look_at_nothing_leaves_the_room_for_what_comes_next() {
    let queue = Queue::new(100, 100, Duration::from_millis(1));
    for pid in 2..9 {
        queue.push_event(sample::started("a", pid));
    }
    assert_eq!(queue.take().unwrap().messages.len(), 7);
    assert!(queue.take().unwrap().messages.is_empty());
    assert!(queue.lock().filling.capacity() >= 7);
}

#[test]
fn the_room_of_a_batch_is_filled_again_until_the_writer_rests() {
    let queue = Queue::new(1000, 100, Duration::from_millis(1));
    let fill = |queue: &Queue| {
        (0..50).for_each(|_| queue.push_event(sample::exited("a", 2, 0)));
        queue.take().unwrap().messages
    };
    let rooms: Vec<_> = (0..4)
        .map(|_| {
            let mut room = fill(&queue);
            room.clear();
            let address = room.as_ptr();
            queue.give_back(room);
            address
        })
        .collect();
    assert_eq!((rooms[0], rooms[1]), (rooms[2], rooms[3]), "two take turns");
    queue.rest();
    assert!(queue.lock().spare.is_none());
    assert!((1..=SMALL).contains(&queue.lock().filling.capacity()));
}

#[test]
fn what_does_not_fit_is_counted_by_kind_and_told_once() {
    let queue = Queue::new(2, 2, LONG);
    for pid in 2..7 {
        queue.push_event(sample::started("a", pid));
    }
    queue.push_event(sample::exited("a", 2, 0));
    assert_eq!((queue.status().queued, queue.status().lost), (2, 4));
    let batch = queue.take().unwrap();
    assert_eq!(
        batch.overflow,
        BTreeMap::from([("mcp_server_started", 3), ("mcp_server_exited", 1)])
    );
    queue.push_event(sample::blocked_connection());
    assert!(queue.take().unwrap().overflow.is_empty());
}

#[test]
fn a_flood_of_connections_leaves_room_for_the_rest() {
    let queue = Queue::new(16, 100, LONG);
    for _ in 0..100 {
        queue.push_event(sample::blocked_connection());
    }
    assert_eq!(queue.status().queued, 14);
    queue.push_event(sample::denied("a"));
    assert_eq!(queue.put(StoreEntry::ForgetRunning, Urgency::InOrder), Ok(()));
    assert_eq!(
        queue.put(StoreEntry::ForgetRunning, Urgency::InOrder),
        Err(QueueRefusal)
    );
    let overflow = queue.take().unwrap().overflow;
    assert_eq!(overflow, BTreeMap::from([("mcp_network_connection", 86)]));
}

#[test]
fn what_is_critical_finds_room_behind_any_flood() {
    let queue = Queue::new(16, 100, LONG);
    for pid in 2..100 {
        queue.push_event(sample::blocked_connection());
        queue.push_event(sample::started("a", pid));
    }
    assert_eq!(queue.status().queued, 15);
    let lost = queue.status().lost;
    queue.push_event(sample::denied("a"));
    assert_eq!((queue.status().queued, queue.status().lost), (16, lost));
    queue.push_event(sample::mismatch("a", 2));
    assert_eq!(queue.status().lost, lost + 1);
}

#[test]
fn a_message_that_does_not_fit_is_refused() {
    let queue = Queue::new(1, 10, LONG);
    assert_eq!(queue.put(StoreEntry::ForgetRunning, Urgency::InOrder), Ok(()));
    assert_eq!(
        queue.put(StoreEntry::ForgetRunning, Urgency::InOrder),
        Err(QueueRefusal)
    );
}

#[test]
fn a_closed_queue_takes_nothing_and_ends() {
    let queue = Queue::new(10, 10, LONG);
    queue.close();
    assert_eq!(
        queue.put(StoreEntry::ForgetRunning, Urgency::InOrder),
        Err(QueueRefusal)
    );
    assert!(queue.take().is_none());
}

#[test]
fn a_flush_without_a_writer_says_what_is_left() {
    let queue = Queue::new(10, 10, LONG);
    assert_eq!(queue.flush(Duration::ZERO), Ok(()));
    queue.push_event(sample::started("a", 2));
    assert_eq!(queue.flush(Duration::ZERO), Err(1));
}

fn names(batch: &Batch) -> Vec<&'static str> {
    let name = |message: &QueueMessage| match message {
        QueueMessage::Entry(_) => "entry",
        QueueMessage::Event(_) | QueueMessage::Kept(_) => "event",
    };
    batch.messages.iter().map(name).collect()
}

#[test]
fn what_goes_ahead_is_due_at_once_and_leaves_the_rest_its_time() {
    let queue = Queue::new(100, 100, LONG);
    queue.push_event(sample::started("a", 2));
    queue.put(StoreEntry::ForgetRunning, Urgency::Ahead).unwrap();
    assert!(queue.lock().is_due());
    let batch = queue.take().unwrap();
    assert_eq!((names(&batch), batch.count, batch.ahead), (vec!["entry"], 0, 1));
    assert!(!queue.lock().is_due(), "the event waits");
    assert_eq!((queue.status().queued, queue.ahead()), (1, 0));
    assert_eq!(sizes(&queue), [1]);
}

#[test]
fn what_goes_ahead_again_and_again_does_not_hold_up_the_rest() {
    let queue = Queue::new(1000, 100, Duration::from_millis(2));
    queue.push_event(sample::started("a", 2));
    let deadline = Instant::now() + LONG;
    loop {
        queue.put(StoreEntry::ForgetRunning, Urgency::Ahead).unwrap();
        let batch = queue.take().unwrap();
        if batch.count > 0 {
            assert_eq!((names(&batch), batch.ahead), (vec!["entry", "event"], 1));
            return;
        }
        assert!(Instant::now() < deadline, "the event is never written");
    }
}

#[test]
fn a_flush_waits_for_what_goes_ahead_and_for_what_was_there_before() {
    let queue = Queue::new(100, 100, LONG);
    queue.push_event(sample::started("a", 2));
    queue.put(StoreEntry::ForgetRunning, Urgency::Ahead).unwrap();
    assert_eq!(queue.flush(Duration::ZERO), Err(2));
    queue.lock().urgent = false;
    let first = queue.take().unwrap();
    queue.settle(first.count, first.ahead, BatchOutcome::Written { events: 0 });
    assert_eq!(queue.flush(Duration::ZERO), Err(1), "the event is not there yet");
    let second = queue.take().unwrap();
    // A flush does not wait for entries that come after it began.
    queue.put(StoreEntry::ForgetRunning, Urgency::Ahead).unwrap();
    queue.settle(second.count, second.ahead, BatchOutcome::Written { events: 1 });
    assert_eq!(queue.flush(Duration::ZERO), Err(1));
    let third = queue.take().unwrap();
    queue.settle(third.count, third.ahead, BatchOutcome::Written { events: 0 });
    assert_eq!(queue.flush(Duration::ZERO), Ok(()));
}

#[test]
fn of_what_goes_ahead_a_batch_is_taken_at_a_time() {
    let queue = Queue::new(100, 2, LONG);
    queue.push_event(sample::started("a", 2));
    for _ in 0..5 {
        queue.put(StoreEntry::ForgetRunning, Urgency::Ahead).unwrap();
    }
    let taken: Vec<_> = (0..3)
        .map(|_| queue.take().unwrap())
        .map(|batch| (batch.messages.len(), batch.ahead))
        .collect();
    assert_eq!(taken, [(2, 2), (2, 2), (1, 1)]);
    assert_eq!((queue.status().queued, queue.ahead()), (1, 0));
    assert_eq!(sizes(&queue), [1]);
}

#[test]
fn who_waits_for_a_batch_is_not_told_of_what_went_ahead() {
    let queue = Queue::new(100, 100, LONG);
    let dropped = || BatchOutcome::Dropped {
        events: 0,
        error: "the disk is full".to_owned(),
    };
    queue.put(StoreEntry::ForgetRunning, Urgency::Ahead).unwrap();
    let ahead = queue.take().unwrap();
    queue.put(StoreEntry::ForgetRunning, Urgency::InOrder).unwrap();
    queue.settle(ahead.count, ahead.ahead, dropped());
    assert_eq!(queue.given_up_since(0), None);
    let batch = queue.take().unwrap();
    queue.settle(batch.count, batch.ahead, dropped());
    assert_eq!(queue.given_up_since(0).as_deref(), Some("the disk is full"));
    assert_eq!(queue.given_up_since(queue.accepted()), None);
}
