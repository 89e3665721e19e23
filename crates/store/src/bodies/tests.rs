//! Sealing, reading, and removal.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use mcpmon_model::{SessionId, Timestamp};
use test_case::test_case;

use super::*;
use crate::{
    PruneProgress, Recorder, RecorderSettings, RetentionLimits, Store, StoreEntry, StoreReader, sample,
    writer::now,
};

const SECRET: &str = "a sentence that nobody else may read";

fn key() -> BodyKey {
    BodyKey::new(&[7; 32])
}

fn label() -> BodyLabel {
    BodyLabel {
        request: "req-1".to_owned(),
        side: BodySide::Request,
        session: Some(SessionId::new("run-1")),
        dialect: "anthropic".to_owned(),
        at: Timestamp(sample::NOON),
        length: SECRET.len() as u64,
        kept: SECRET.len() as u64,
    }
}

fn sealed() -> SealedBody {
    let expires = Timestamp(sample::NOON + 1_000_000_000);
    SealedBody::seal(&key(), label(), expires, SECRET.into()).unwrap()
}

fn settings(max_body: usize) -> BodySettings {
    BodySettings {
        key_file: None,
        max_body,
        retention: Duration::from_hours(1),
    }
}

#[test]
fn what_is_sealed_is_read_with_the_same_key_only() {
    let body = sealed();
    assert_eq!(body.open(&key()).unwrap(), SECRET.as_bytes());
    let other = BodyKey::new(&[8; 32]);
    let error = body.open(&other).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "it was sealed with the key {}, and the one given is {}",
            key().name(),
            other.name()
        )
    );
    // A key with the right name only cannot open a body.
    let renamed = SealedBody {
        key: other.name().to_owned(),
        ..body
    };
    assert_eq!(renamed.open(&other), Err(UnsealError::Broken));
}

#[test]
fn no_two_seals_are_alike() {
    let (one, other) = (sealed(), sealed());
    assert_ne!(one.nonce, other.nonce);
    assert_ne!(one.sealed, other.sealed);
}

#[test_case(|body| body.sealed[3] ^= 1; "what is in it")]
#[test_case(|body| body.nonce[0] ^= 1; "its nonce")]
#[test_case(|body| body.sealed.truncate(9); "its end")]
#[test_case(|body| body.sealed.clear(); "all of it")]
#[test_case(|body| body.label.request = "req-2".to_owned(); "its request")]
#[test_case(|body| body.label.side = BodySide::Response; "its side")]
#[test_case(|body| body.label.session = None; "its session")]
#[test_case(|body| body.label.dialect = "openai".to_owned(); "its API")]
#[test_case(|body| body.label.at.0 += 1; "its time")]
#[test_case(|body| body.label.length += 1; "that it was cut")]
fn what_was_changed_is_not_read(change: fn(&mut SealedBody)) {
    let mut body = sealed();
    change(&mut body);
    assert_eq!(body.open(&key()), Err(UnsealError::Broken));
}

fn key_file(directory: &Path, bytes: &[u8], mode: u32) -> std::path::PathBuf {
    let path = directory.join("bodies.key");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_key_is_read_however_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let base64 = format!("{}c=\n", "BwcH".repeat(10) + "Bw");
    let digits = "07".repeat(32);
    let forms: [&[u8]; 3] = [&[7; 32], digits.as_bytes(), base64.as_bytes()];
    for form in forms {
        let path = key_file(directory.path(), form, 0o600);
        assert_eq!(BodyKey::at(&path).unwrap().name(), key().name(), "{form:?}");
    }
}

#[test]
fn a_key_of_another_user_is_refused_and_one_of_root_is_not() {
    let fault = |owner, user| key::fault(Path::new("/etc/bodies.key"), 0o600, owner, user);
    assert!(fault(1000, 1000).is_none() && fault(0, 1000).is_none());
    for user in [0, 1000] {
        let error = fault(1001, user).unwrap().to_string();
        assert!(
            error.contains("belongs to user 1001") && error.contains(&format!("chown {user} ")),
            "{error}"
        );
    }
}

#[test]
fn what_is_no_key_or_no_secret_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let others = "zz".repeat(32);
    for form in [
        &b""[..],
        &[7; 31],
        &[7; 33],
        b"secret\n",
        others.as_bytes(),
        &[7; 4096],
    ] {
        let path = key_file(directory.path(), form, 0o600);
        assert!(matches!(BodyKey::at(&path), Err(KeyError::Form(_))), "{form:?}");
    }
    for mode in [0o640, 0o604] {
        let path = key_file(directory.path(), &[7; 32], mode);
        let error = BodyKey::at(&path).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("`chmod 600 {}`", path.display())),
            "{error}"
        );
    }
    let missing = BodyKey::at(&directory.path().join("missing"));
    assert!(matches!(missing, Err(KeyError::Io { .. })));
}

/// Returns the stored pieces of `bodies`, 5 bytes each, and the store's bytes.
fn kept(max_body: usize, room: usize, bodies: &[&str]) -> (Vec<SealedBody>, Vec<u8>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mcpmon.db");
    let recorder = Recorder::start(RecorderSettings::new(&path)).unwrap();
    let keeper = Keeper::with(key(), &settings(max_body), recorder.clone(), room).unwrap();
    for body in bodies {
        let mut gathered = keeper.gather(BodyLabel {
            at: now(),
            length: 0,
            kept: 0,
            ..label()
        });
        body.as_bytes().chunks(5).for_each(|piece| gathered.push(piece));
    }
    keeper.finish();
    recorder.close();
    let reader = StoreReader::open(&path).unwrap();
    let found = reader.bodies_of(now(), "req-1").unwrap();
    let events = reader.events(&crate::Filter::default(), 10).unwrap();
    let events = events
        .iter()
        .map(|event| format!("{} {}", event.kind, serde_json::Value::from(event.data.clone())));
    let events = events.collect();
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(fs::read(directory.path().join("mcpmon.db-wal")).unwrap_or_default());
    (found, bytes, events)
}

#[test]
fn a_body_is_kept_and_nothing_of_it_in_clear() {
    let (bodies, bytes, events) = kept(1000, 1000, &[SECRET]);
    assert_eq!(bodies.len(), 1);
    assert_eq!(bodies[0].open(&key()).unwrap(), SECRET.as_bytes());
    assert!(!bodies[0].label.is_cut());
    let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(contains("req-1"), "the store was read");
    assert!(!contains("sentence") && !contains(&SECRET[..8]));
    assert_eq!(events, [""; 0]);
}

#[test_case(7 => (7, true); "within a piece")]
#[test_case(10 => (10, true); "between two")]
#[test_case(36 => (36, false); "just as long")]
fn what_is_too_long_is_cut_and_marked(max_body: usize) -> (u64, bool) {
    let (bodies, _, _) = kept(max_body, 1000, &[SECRET]);
    let label = &bodies[0].label;
    assert_eq!(label.length, SECRET.len() as u64);
    let opened = bodies[0].open(&key()).unwrap();
    assert_eq!(opened, SECRET.as_bytes()[..opened.len()]);
    assert_eq!(opened.len() as u64, label.kept);
    (label.kept, label.is_cut())
}

#[test]
fn what_finds_no_room_is_counted() {
    let (bodies, _, events) = kept(1000, 20, &[SECRET, "short", SECRET]);
    assert_eq!(bodies.len(), 1);
    assert_eq!(bodies[0].open(&key()).unwrap(), b"short");
    let lost: u64 = events
        .iter()
        .inspect(|event| assert!(event.starts_with("mcp_events_lost ") && event.contains("LLM body storage")))
        .map(|event| if event.contains("\"count\":2") { 2 } else { 1 })
        .sum();
    assert_eq!(lost, 2, "{events:?}");
}

fn counts(store: &Store) -> (u32, u32) {
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        store.connection().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    (count("bodies"), count("events"))
}

fn enforce(store: &mut Store, max_size: u64, now: i64) {
    let limits = RetentionLimits {
        retention: Duration::from_hours(24),
        max_size,
    };
    let enforce = |store: &mut Store| {
        let uptime = crate::clock::steady(Timestamp(now));
        crate::retention::enforce(store, limits, Timestamp(now), &uptime).unwrap()
    };
    while enforce(store).progress == PruneProgress::More {}
}

#[test]
fn bodies_go_with_their_age_and_are_not_read_before_that() {
    let (directory, mut store) = sample::store();
    let entries: Vec<StoreEntry> = (0..100).map(|_| StoreEntry::Body(Box::new(sealed()))).collect();
    store.carry_out(&entries).unwrap();
    let end = sealed().expires;
    enforce(&mut store, u64::MAX, end.0 - 1);
    assert_eq!(counts(&store).0, 100);
    let reader = StoreReader::open(&directory.path().join("mcpmon.db")).unwrap();
    assert_eq!(reader.bodies(Timestamp(end.0 - 1), 9).unwrap().len(), 9);
    assert!(reader.bodies(end, 9).unwrap().is_empty());
    assert!(reader.bodies_of(end, "req-1").unwrap().is_empty());
    // A shorter retention applies to existing bodies too.
    store
        .carry_out(&[StoreEntry::ShortenBodies(Duration::from_hours(9))])
        .unwrap();
    enforce(&mut store, u64::MAX, end.0 - 1);
    assert_eq!(counts(&store).0, 100);
    store
        .carry_out(&[StoreEntry::ShortenBodies(Duration::from_millis(1))])
        .unwrap();
    enforce(&mut store, u64::MAX, sample::NOON + 1_000_000);
    assert_eq!(counts(&store).0, 0);
}

#[test]
fn where_there_is_no_room_bodies_go_before_events() {
    let (_directory, mut store) = sample::store();
    sample::fill(&mut store, (2..50).map(|pid| sample::started("a", pid)));
    let large = |_| {
        let body = vec![7; 64 << 10];
        StoreEntry::Body(Box::new(
            SealedBody::seal(&key(), label(), Timestamp(i64::MAX), body).unwrap(),
        ))
    };
    store.carry_out(&(0..40).map(large).collect::<Vec<_>>()).unwrap();
    enforce(&mut store, 1 << 20, sample::NOON);
    let (bodies, events) = counts(&store);
    assert!((1..16).contains(&bodies), "{bodies}");
    assert_eq!(events, 48);
}
