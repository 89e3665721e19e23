//! Lists that come again as they came.

use mcpmon_model::{Content, Digest, FromServer, Listing};
use proptest::prelude::*;

use super::*;

const LISTS: [&str; 4] = [
    r#"{"tools":[{"name":"read","description":"Reads"},{"name":"write","d":"#,
    r#"{"tools":[{"name":"read","description":"Reads"},{"name":"wr\u0069te","d":"#,
    r#"{"tools":[{"name":"read","name":"write"},{"name":"write","d":"#,
    r#"{"tools":[{"description":"no name"},{"name":"write","d":"#,
];

/// A result that is long enough to be recognised.
fn result(list: usize) -> String {
    format!("{}\"{}\"}}]}}", LISTS[list], "x".repeat(1500))
}

/// Members in the order that servers write them.
fn answer(id: &str, result: &str, is_id_last: bool) -> String {
    match is_id_last {
        true => format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#),
        false => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
    }
}

fn question(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#)
}

fn listing<'m>(message: &'m Message<'_>) -> Option<&'m Listing<'m>> {
    match &message.content {
        Content::Server(FromServer::Listing(listing)) => Some(listing),
        Content::Server(_) | Content::Client(_) => None,
    }
}

/// The digests by which a list was recognised, one for each time it was judged.
fn recognised(lines: &[(&str, String)]) -> Vec<Option<Digest>> {
    let mut seen = Vec::new();
    let mut conversation = Conversation::new(|message: &Message<'_>| {
        seen.extend(listing(message).map(|listing| listing.again));
        Verdict::Allow
    });
    for (id, line) in lines {
        conversation.client(&question(id));
        assert_eq!(conversation.server(line).to_client, format!("{line}\n"));
    }
    seen
}

#[test]
fn the_same_but_for_its_id_is_recognised() {
    for is_id_last in [false, true] {
        let list = result(0);
        let digest = Some(Digest::of(list.as_bytes()));
        let lines = ["1", "20", "\"a-3\"", "0"].map(|id| (id, answer(id, &list, is_id_last)));
        assert_eq!(recognised(&lines), [None, digest, digest, digest]);
    }
}

#[test]
fn another_one_is_not() {
    let (one, other) = (result(0), result(0).replace("Reads", "Roads"));
    let spaced = answer("3", &one, false).replace(r#""id":3"#, r#""id": 3"#);
    let lines = [
        ("1", answer("1", &one, false)),
        ("2", answer("2", &other, false)),
        ("3", spaced),
        ("4", answer("4", &one, true)),
    ];
    assert_eq!(recognised(&lines), [None; 4]);
}

#[test]
fn an_id_that_can_be_written_in_other_ways_is_read() {
    let list = result(0);
    let lines = ["1", r#""\u0031""#, "-2"].map(|id| (id, answer(id, &list, false)));
    assert_eq!(recognised(&lines), [None; 3]);
}

#[test]
fn what_was_not_asked_for_is_no_list() {
    let list = result(0);
    let mut conversation = allowed();
    conversation.client(&question("1"));
    conversation.server(&answer("1", &list, false));
    let written = conversation.server(&answer("1", &list, false));
    assert_eq!(written.to_client, "");
    assert!(
        matches!(written.incidents[..], [Incident::Unasked { .. }]),
        "{written:?}"
    );
    conversation.client(r#"{"jsonrpc":"2.0","id":2,"method":"prompts/list"}"#);
    let written = conversation.server(&answer("2", &list, false));
    assert!(written.to_client.contains("error"), "no prompts: {written:?}");
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    list: usize,
    id: &'static str,
    is_id_last: bool,
    verdict: u8,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let ids = prop::sample::select(vec!["1", "17", "\"x\"", "\"\"", r#""\u0031""#, "-4", "01"]);
    let turn =
        (0..LISTS.len(), ids, any::<bool>(), 0_u8..4).prop_map(|(list, id, is_id_last, verdict)| Turn {
            list,
            id,
            is_id_last,
            verdict,
        });
    prop::collection::vec(turn, 1..12)
}

fn verdict(number: u8) -> Verdict {
    match number {
        0 | 1 => Verdict::Allow,
        2 => Verdict::Hide([1].into()),
        _ => Verdict::Block(Denial {
            rule: "test".to_owned(),
            reason: "it is to be".to_owned(),
            remedy: None,
            event: None,
        }),
    }
}

/// Returns the judged form of a list, and the output.
fn heard(conversation: &mut StdioFilter, turn: Turn) -> (Vec<String>, Written) {
    let (mut judged, mut out) = (Vec::new(), StdioOutput::default());
    let mut judge = |message: &Message<'_>| {
        let Some(listing) = listing(message) else {
            return Verdict::Allow;
        };
        let listing = Listing {
            again: None,
            ..listing.clone()
        };
        judged.push(format!("{listing:?} {:?} {}", message.id, message.size));
        verdict(turn.verdict)
    };
    let lines = [
        (Side::Client, question(turn.id)),
        (Side::Server, answer(turn.id, &result(turn.list), turn.is_id_last)),
    ];
    for (side, line) in lines {
        let line = format!("{line}\n");
        conversation.push(Timestamp(7), side, line.as_bytes(), &mut judge, &mut out);
    }
    (judged, written(out))
}

proptest! {
    #[test]
    fn whoever_recognises_a_list_does_what_one_does_who_reads_it(turns in turns()) {
        let mut conversation = StdioFilter::new(LIMITS);
        for turn in turns {
            let expected = heard(&mut StdioFilter::new(LIMITS), turn);
            prop_assert_eq!(heard(&mut conversation, turn), expected);
        }
    }
}
