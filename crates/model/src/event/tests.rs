use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use super::*;

#[test]
fn every_type_is_documented_and_nothing_else_is() {
    let headings = include_str!("../../../../docs/events.md").lines();
    let headings = headings.filter_map(|line| line.strip_prefix("## "));
    let mut documented: Vec<&str> = headings
        .flat_map(|heading| heading.split(", "))
        .filter(|name| name.contains('_'))
        .collect();
    let mut types: Vec<&str> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
    documented.sort_unstable();
    types.sort_unstable();
    assert_eq!(documented, types);
}

#[test]
fn a_count_is_told_where_there_is_more_than_one() {
    let judged = |count| EventKind::RequestJudged {
        method: "ping".to_owned(),
        summary: String::new(),
        count,
    };
    for (count, told) in [(1, None), (2, Some(2))] {
        let json = serde_json::to_value(judged(count)).expect("a kind always serialises");
        assert_eq!(json.get("count").and_then(serde_json::Value::as_u64), told);
        let back: EventKind = serde_json::from_value(json).expect("what was serialised is read");
        assert_eq!(back, judged(count));
    }
}

#[test]
fn a_path_that_is_no_utf8_is_still_told() {
    let path = PathBuf::from(OsStr::from_bytes(b"/srv/\xff/server.js"));
    let mut event = Event::new(
        Timestamp(0),
        Layer::Kernel,
        EventKind::BinaryMismatch {
            path: path.clone(),
            expected_hash: None,
            actual_hash: None,
            part: PinPart::Script,
            changed_files: Vec::new(),
            changes: Vec::new(),
        },
    );
    event.process = Some(ProcessRef {
        pid: 7,
        exe: Some(path),
        ..ProcessRef::default()
    });
    let json = serde_json::to_value(&event).expect("an event always serialises");
    assert_eq!(json["kind"]["path"], "/srv/\u{fffd}/server.js");
    assert_eq!(json["process"]["exe"], "/srv/\u{fffd}/server.js");
}
