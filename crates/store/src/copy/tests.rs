use mcpmon_model::{Digest, Kill, PinPart, PinState, ProcessId, SessionId, Timestamp};

use super::*;
use crate::{BinaryPin, Filter, LaunchEnding, SessionMember, StoredEvent, UnpostedEvents, json, sample};

fn kill() -> Kill {
    Kill {
        by: "root".to_owned(),
        at: Timestamp(7),
    }
}

fn pin(server: &str, hash: u8) -> BinaryPin {
    BinaryPin {
        key: sample::identity(server),
        number: 0,
        part: PinPart::Executable,
        path: "/bin/a".into(),
        hash: Digest::from_bytes([hash; 32]),
        manifest: None,
        pinned_at: Timestamp(1),
        pinned_by: "first_use".to_owned(),
    }
}

fn session(name: &str) -> SessionId {
    SessionId::new(name)
}

fn stopped(store: &mut Store) -> Vec<String> {
    let kills = store.read(StoreReader::kills).unwrap();
    kills
        .sessions
        .keys()
        .map(|name| name.as_str().to_owned())
        .collect()
}

#[test]
fn what_is_decided_by_goes_over_and_events_come_back_once() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut other) = sample::store();
    sample::fill(&mut store, [sample::started("a", 2)]);
    assert!(store.kill(Some(&session("s1")), &kill()).unwrap());
    other.adopt_decisions(store.path()).unwrap();
    assert_eq!(
        other.read(StoreReader::kills).unwrap(),
        store.read(StoreReader::kills).unwrap()
    );
    other
        .record(vec![sample::started("a", 3), sample::started("a", 4)])
        .unwrap();
    assert_eq!(store.adopt_all(other.path()).unwrap(), 2);
    assert_eq!(store.adopt_all(other.path()).unwrap(), 0, "they are there");
    let reader = StoreReader::open(store.path()).unwrap();
    let events = reader.events(&Filter::default(), 10).unwrap();
    let pids = events
        .iter()
        .filter_map(|event| Some(event.process.as_ref()?.pid));
    assert_eq!(pids.collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn what_was_undone_meanwhile_stays_undone_and_what_nobody_touched_stays() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut standby) = sample::store();
    for name in ["lifted", "kept"] {
        assert!(store.kill(Some(&session(name)), &kill()).unwrap());
    }
    store
        .keep(&["reset", "held"].map(|server| StoreEntry::PutPin(pin(server, 1))))
        .unwrap();
    standby.adopt_decisions(store.path()).unwrap();
    assert!(standby.lift_kill(Some(&session("lifted"))).unwrap());
    assert!(standby.kill(Some(&session("new")), &kill()).unwrap());
    assert!(standby.forget_pins(&sample::identity("reset").server).unwrap());
    // A restart of the daemon, while the store cannot be written, undoes none of that.
    standby.adopt_decisions(store.path()).unwrap();
    assert_eq!(stopped(&mut standby), ["kept", "new"]);
    store.adopt_all(standby.path()).unwrap();
    assert_eq!(stopped(&mut store), ["kept", "new"]);
    let pinned = StoreReader::open(store.path()).unwrap().pins().unwrap();
    assert_eq!(pinned, [pin("held", 1)]);
}

#[test]
fn what_is_recorded_while_it_is_copied_comes_once_with_what_runs() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut standby) = sample::store();
    sample::fill(&mut store, [sample::started("before", 2)]);
    let body = |request: &str| StoreEntry::Body(Box::new(sample::body(request)));
    standby.keep(&[body("r1")]).unwrap();
    standby
        .record(vec![sample::started("a", 3), sample::started("b", 4)])
        .unwrap();
    let mut adoption = Adoption::new(standby.path());
    adoption.copy_records(&mut store).unwrap();
    standby.keep(&[body("r2")]).unwrap();
    standby
        .record(vec![sample::exited("a", 3, 0), sample::started("c", 5)])
        .unwrap();
    assert!(standby.kill(Some(&session("s1")), &kill()).unwrap());
    adoption.finish(&mut store).unwrap();
    assert_eq!(adoption.events, 4);
    assert_eq!(stopped(&mut store), ["s1"]);
    let reader = StoreReader::open(store.path()).unwrap();
    let events = reader.events(&Filter::default(), 10).unwrap();
    let pids = events
        .iter()
        .filter_map(|event| Some(event.process.as_ref()?.pid));
    assert_eq!(pids.collect::<Vec<_>>(), [2, 3, 4, 3, 5]);
    let bodies = reader.bodies(Timestamp(0), 10).unwrap();
    assert_eq!(bodies.len(), 2);
    let launches = reader.launches(&Filter::default(), 10).unwrap();
    let running = launches
        .iter()
        .filter(|launch| launch.ending == LaunchEnding::Running)
        .filter_map(|launch| launch.started.server_id.as_deref());
    assert_eq!(running.collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn one_that_began_without_decisions_replaces_none() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut standby) = sample::store();
    store.keep(&[StoreEntry::PutPin(pin("a", 1))]).unwrap();
    standby.keep(&[StoreEntry::PutPin(pin("a", 2))]).unwrap();
    store.adopt_all(standby.path()).unwrap();
    let pinned = StoreReader::open(store.path()).unwrap().pins().unwrap();
    assert_eq!(pinned, [pin("a", 1)]);
}

#[test]
fn all_that_was_adopted_goes_into_a_store_that_begins_anew() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut standby) = sample::store();
    sample::fill(&mut store, [sample::started("a", 2)]);
    assert!(store.kill(Some(&session("s1")), &kill()).unwrap());
    store.keep(&[StoreEntry::PutPin(pin("a", 1))]).unwrap();
    standby.adopt_decisions(store.path()).unwrap();

    let (_directory, mut anew) = sample::store();
    let mut adoption = Adoption::new(standby.path());
    assert!(adoption.knows_decisions(&mut anew).unwrap());
    // It has as many events as the previous one.
    anew.record(vec![sample::started("b", 2)]).unwrap();
    adoption.copy_records(&mut anew).unwrap();
    adoption.finish(&mut anew).unwrap();
    assert_eq!(stopped(&mut anew), ["s1"]);
    let pinned = StoreReader::open(anew.path()).unwrap().pins().unwrap();
    assert_eq!(pinned, [pin("a", 1)]);
}

#[test]
fn decisions_are_known_while_they_are_as_adopted() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut standby) = sample::store();
    sample::fill(&mut store, [sample::started("a", 2)]);
    assert!(store.kill(Some(&session("s1")), &kill()).unwrap());
    standby.adopt_decisions(store.path()).unwrap();
    assert!(standby.kill(Some(&session("s2")), &kill()).unwrap());
    let adoption = Adoption::new(standby.path());
    assert!(adoption.knows_decisions(&mut store).unwrap());
    assert!(store.kill(Some(&session("s3")), &kill()).unwrap());
    assert!(!adoption.knows_decisions(&mut store).unwrap());
    for name in ["s1", "s3"] {
        assert!(store.lift_kill(Some(&session(name))).unwrap());
    }
    assert!(
        !adoption.knows_decisions(&mut store).unwrap(),
        "a person undid them there"
    );
    store.adopt_all(standby.path()).unwrap();
    assert_eq!(stopped(&mut store), ["s2"], "what was undone stays undone");
}

#[test]
fn a_store_whose_decisions_nobody_adopted_is_known_while_it_has_none() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, standby) = sample::store();
    let adoption = Adoption::new(standby.path());
    assert!(adoption.knows_decisions(&mut store).unwrap());
    assert!(store.kill(None, &kill()).unwrap());
    assert!(!adoption.knows_decisions(&mut store).unwrap());
}

fn member(process: u32) -> SessionMember {
    SessionMember {
        session: session("s1"),
        agent: None,
        identity: sample::identity("a"),
        process: ProcessId {
            pid: process,
            start: 1,
        },
    }
}

#[test]
fn who_came_and_left_meanwhile_did_so_in_the_store_too() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut standby) = sample::store();
    store.join(Timestamp(1), &member(2)).unwrap();
    standby.join(Timestamp(3), &member(2)).unwrap();
    standby
        .keep(&[StoreEntry::Leave(Timestamp(4), member(2))])
        .unwrap();
    store.adopt_all(standby.path()).unwrap();
    let sessions = StoreReader::open(store.path()).unwrap().sessions(10).unwrap();
    let times = sessions.iter().map(|session| (session.started, session.ended));
    assert_eq!(times.collect::<Vec<_>>(), [(Timestamp(1), Some(Timestamp(4)))]);
    assert!(store.join(Timestamp(5), &member(3)).unwrap().is_empty());
}

#[test]
fn launches_of_a_server_that_the_store_knows_are_counted_once() {
    let (_directory, mut store) = sample::store();
    let (_elsewhere, mut standby) = sample::store();
    sample::fill(&mut store, [sample::at(1, sample::started("a", 2))]);
    let later = [
        sample::at(2, sample::started("a", 3)),
        sample::at(3, sample::started("a", 4)),
        sample::at(4, sample::mismatch("a", 4)),
    ];
    standby.record(later.into()).unwrap();
    for _ in 0..2 {
        store.adopt_all(standby.path()).unwrap();
        let servers = StoreReader::open(store.path()).unwrap().servers().unwrap();
        let [server] = &servers[..] else {
            panic!("{servers:?}");
        };
        assert_eq!((server.launches, server.last_pid), (3, Some(4)));
        assert_eq!(server.pin, Some(PinState::Mismatch));
        let seen = [server.first_seen, server.last_seen];
        let seconds = [1, 4].map(|second| Some(Timestamp(sample::NOON + second * sample::SECOND)));
        assert_eq!(seen, seconds);
    }
}

#[test]
fn alarms_and_journals_come_back_and_an_older_store_is_read() {
    let (_directory, mut store) = sample::store();
    let (elsewhere, mut standby) = sample::store();
    assert!(store.kill(Some(&session("s1")), &kill()).unwrap());
    store
        .write_outside(|connection| connection.execute_batch("DROP TABLE unposted; PRAGMA user_version = 3"))
        .unwrap();
    standby.adopt_decisions(store.path()).unwrap();
    assert_eq!(stopped(&mut standby), ["s1"]);

    let (_directory, mut store) = sample::store();
    let event = StoredEvent::identified("laptop", sample::denied("a"));
    let sinks = ["webhook", "other"];
    standby.keep(&[StoreEntry::Event(event.clone())]).unwrap();
    let waiting = sinks.map(|sink| {
        StoreEntry::Unposted(UnpostedEvents {
            sink,
            waiting: vec![(event.id, event.timestamp)],
            claimed_until: Timestamp(0),
            settled: Vec::new(),
        })
    });
    standby.keep(&waiting).unwrap();
    let rescued = StoredEvent::identified("laptop", sample::denied("b"));
    let line = serde_json::to_string(&json::to_json(&rescued)).unwrap();
    let name = format!("{}.1-x.blocks", standby.path().file_name().unwrap().display());
    std::fs::write(elsewhere.path().join(name), line + "\n").unwrap();
    assert_eq!(store.adopt_all(standby.path()).unwrap(), 1);
    let ids = |events: &[StoredEvent]| events.iter().map(|event| event.id).collect::<Vec<_>>();
    for sink in sinks {
        let claimed = store.claim_unposted(sink, Timestamp(1), 10).unwrap();
        assert_eq!(ids(&claimed.events), [event.id], "{sink}");
    }
    let reader = StoreReader::open(store.path()).unwrap();
    let events = reader.events(&Filter::default(), 10).unwrap();
    assert_eq!(ids(&events), [event.id, rescued.id]);
}
