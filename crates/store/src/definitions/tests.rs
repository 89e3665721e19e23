use mcpmon_model::DefinitionKind;

use super::*;
use crate::{Store, sample};

fn record(item: &str, text: &str) -> DefinitionRecord {
    sample::definition("files", item, text)
}

fn only(store: &Store) -> DefinitionRecord {
    let mut all = load(store.connection(), &Selection::default()).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn a_definition_survives_the_store() {
    let (_directory, store) = sample::store();
    let first = record("read_file", r#"{"name":"read_file"}"#);
    let instructions = DefinitionRecord {
        key: DefinitionKey {
            kind: DefinitionKind::Instructions,
            name: String::new(),
            ..first.key.clone()
        },
        pinned: None,
        findings: [sample::finding()].into(),
        hidden: true,
        ..first.clone()
    };
    for record in [&first, &instructions] {
        assert_eq!(put(store.connection(), record).unwrap(), Put::News);
    }
    let identity = &first.key.identity;
    assert_eq!(
        of(store.connection(), identity).unwrap(),
        [instructions.clone(), first.clone()]
    );
    assert_eq!(
        pinned_servers(store.connection(), identity.uid).unwrap(),
        std::slice::from_ref(&identity.server)
    );
    forget(store.connection(), &first.key).unwrap();
    assert_eq!(only(&store), instructions);
    assert_eq!(pinned_servers(store.connection(), identity.uid).unwrap(), []);
}

#[test]
fn a_record_that_is_put_never_replaces_a_pin() {
    let (_directory, store) = sample::store();
    let old = record("read_file", "old");
    put(store.connection(), &old).unwrap();
    let mut changed = record("read_file", "new");
    changed.hidden = true;
    assert_eq!(put(store.connection(), &changed).unwrap(), Put::News);
    assert_eq!(put(store.connection(), &changed).unwrap(), Put::Known);
    let stored = only(&store);
    assert_eq!((&stored.seen, &stored.pinned), (&changed.seen, &old.pinned));
    assert!(stored.is_changed() && stored.hidden);
}

#[test]
fn what_was_listed_last_stays_whoever_writes_it_first() {
    let (_directory, store) = sample::store();
    let old = record("read_file", "old");
    put(store.connection(), &old).unwrap();
    let mut new = record("read_file", "new");
    new.pinned.clone_from(&old.pinned);
    new.hidden = true;
    new.last_seen.0 += 1;
    put(store.connection(), &new).unwrap();
    assert_eq!(put(store.connection(), &old).unwrap(), Put::Late);
    assert_eq!(only(&store), new);
    approve(store.connection(), &new.key, None, "ann").unwrap();
    assert_eq!(only(&store).pinned, Some(new.seen.clone()));
    put(store.connection(), &old).unwrap();
    assert_eq!(only(&store).seen, new.seen);

    let before_a_clock_was_set_back = DefinitionRecord {
        last_seen: Timestamp(new.last_seen.0 - LATE),
        ..old
    };
    assert_eq!(
        put(store.connection(), &before_a_clock_was_set_back).unwrap(),
        Put::News
    );
}

#[test]
fn what_is_not_pinned_is_pinned_once_a_record_says_so() {
    let (_directory, store) = sample::store();
    let mut unpinned = record("read_file", "x");
    unpinned.pinned = None;
    put(store.connection(), &unpinned).unwrap();
    assert_eq!(only(&store).pinned, None);
    let pinned = record("read_file", "x");
    put(store.connection(), &pinned).unwrap();
    assert_eq!(only(&store).pinned, pinned.pinned);
}

#[test]
fn an_approval_holds_against_a_writer_that_has_not_heard_of_it() {
    let (_directory, store) = sample::store();
    put(store.connection(), &record("read_file", "old")).unwrap();
    let mut changed = record("read_file", "new");
    changed.pinned = record("read_file", "old").pinned;
    changed.hidden = true;
    put(store.connection(), &changed).unwrap();

    let approved = approve(store.connection(), &changed.key, None, "ann").unwrap();
    let expected = DefinitionRecord {
        pinned: Some(changed.seen.clone()),
        approved_by: Some("ann".to_owned()),
        hidden: false,
        ..changed.clone()
    };
    assert_eq!(approved, ApprovalOutcome::Accepted(Box::new(expected.clone())));
    put(store.connection(), &changed).unwrap();
    assert_eq!(only(&store), expected);
}

/// A wrapper may have a record of a definition that it has not written yet when a person resets the definition.
#[test]
fn what_was_forgotten_does_not_come_back_by_a_writer_that_has_not_heard_of_it() {
    let (_directory, store) = sample::store();
    let old = record("read_file", "old");
    let other = record("write_file", "other");
    put(store.connection(), &old).unwrap();
    let selection = Selection {
        item: Some("read_file".to_owned()),
        ..Selection::default()
    };
    let then = Timestamp(old.last_seen.0 + 1);
    assert_eq!(forget_all(store.connection(), then, &selection).unwrap(), 1);
    assert_eq!(put(store.connection(), &old).unwrap(), Put::Forgotten);
    assert_eq!(put(store.connection(), &other).unwrap(), Put::News);
    let listed_again = DefinitionRecord {
        first_seen: then,
        last_seen: then,
        ..record("read_file", "new")
    };
    assert_eq!(put(store.connection(), &listed_again).unwrap(), Put::News);
    let before_a_clock_was_set_back = DefinitionRecord {
        last_seen: Timestamp(then.0 - forgotten::REMEMBERED),
        ..listed_again
    };
    assert_eq!(
        put(store.connection(), &before_a_clock_was_set_back).unwrap(),
        Put::Known
    );
}

#[test]
fn an_approval_of_another_hash_changes_nothing() {
    let (_directory, store) = sample::store();
    let seen = record("read_file", "x");
    put(store.connection(), &seen).unwrap();
    let digits = seen.seen.hash.short(12);
    for wrong in ["0000", "", "sha256:"] {
        assert_eq!(
            approve(store.connection(), &seen.key, Some(wrong), "ann").unwrap(),
            ApprovalOutcome::Differs { seen: seen.seen.hash }
        );
    }
    assert_eq!(only(&store).approved_by, None);
    for right in [digits.clone(), digits.to_uppercase(), seen.seen.hash.to_string()] {
        assert!(matches!(
            approve(store.connection(), &seen.key, Some(&right), "ann").unwrap(),
            ApprovalOutcome::Accepted(_)
        ));
    }
    let unknown = record("write_file", "x").key;
    assert_eq!(
        approve(store.connection(), &unknown, None, "ann").unwrap(),
        ApprovalOutcome::Unknown
    );
}

#[test]
fn a_refusal_holds_until_it_is_approved_or_another() {
    let (_directory, store) = sample::store();
    let connection = store.connection();
    let mut seen = record("read_file", "x");
    seen.pinned = None;
    let identity = &seen.key.identity;
    assert!(
        !refuse(connection, &seen.key, Timestamp(0), "ann").unwrap(),
        "it was never listed"
    );
    put(connection, &seen).unwrap();
    assert!(refuse(connection, &seen.key, Timestamp(0), "ann").unwrap());
    put(connection, &seen).unwrap();
    let expected = [(seen.key.clone(), "ann at 1970-01-01T00:00:00Z".to_owned())];
    assert_eq!(refused(connection, identity).unwrap(), expected);
    approve(connection, &seen.key, None, "bob").unwrap();
    assert_eq!(refused(connection, identity).unwrap(), []);
    refuse(connection, &seen.key, Timestamp(0), "ann").unwrap();
    put(connection, &record("read_file", "y")).unwrap();
    assert_eq!(refused(connection, identity).unwrap(), []);
}

#[test]
fn one_server_has_room_for_so_many_and_what_is_there_still_changes() {
    let (_directory, mut store) = sample::store();
    store
        .write(|transaction| {
            for number in 0..MAX_DEFINITIONS {
                assert_eq!(put(transaction, &record(&number.to_string(), "x"))?, Put::News);
            }
            assert_eq!(put(transaction, &record("one more", "x"))?, Put::NoRoom);
            assert_eq!(put(transaction, &record("7", "y"))?, Put::News);
            let other = sample::definition("weather", "forecast", "x");
            assert_eq!(put(transaction, &other)?, Put::News);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_text_beyond_the_limit_is_kept_by_its_hash() {
    let (_directory, store) = sample::store();
    let long = record("read_file", &"x".repeat(MAX_TEXT + 1));
    put(store.connection(), &long).unwrap();
    let stored = only(&store);
    assert_eq!((stored.seen.hash, &*stored.seen.canonical), (long.seen.hash, ""));
    assert!(!stored.is_changed());
}

#[test]
fn what_is_selected_is_forgotten() {
    let (_directory, store) = sample::store();
    for record in [
        record("a", "x"),
        record("b", "x"),
        sample::definition("weather", "a", "x"),
    ] {
        put(store.connection(), &record).unwrap();
    }
    let selection = Selection {
        server: Some("files".to_owned()),
        item: Some("a".to_owned()),
        ..Selection::default()
    };
    assert_eq!(
        forget_all(store.connection(), Timestamp(sample::NOON), &selection).unwrap(),
        1
    );
    assert_eq!(load(store.connection(), &selection).unwrap(), []);
    assert_eq!(load(store.connection(), &Selection::default()).unwrap().len(), 2);
}
