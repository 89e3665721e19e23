//! Properties of every conversation.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Server messages, good and bad.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    let id = select(vec!["1", "2", "\"1\"", "1.5", "null"]);
    let word = select(vec!["good", "evil"]);
    let end = select(vec!["\n\n", "\r\n\r\n", "\r\r", "\n"]);
    let data = prop_oneof![
        3 => (id.clone(), word.clone()).prop_map(|(id, word)| result(id, &format!(r#"{{"content":["{word}"]}}"#))),
        1 => (id.clone(), word.clone()).prop_map(|(id, word)| request(id, "elicitation/create", &format!(r#"{{"message":"{word}"}}"#))),
        1 => (id, word.clone()).prop_map(|(id, word)| format!("[{},{}]", result(id, r#"{"a":1}"#), result("2", &format!(r#"{{"a":"{word}"}}"#)))),
        1 => word.clone().prop_map(|word| format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{word}"}}}}"#)),
        1 => word.prop_map(|word| format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"a\":\"\u{2028}{word}\"}}}}")),
        1 => Just("evil banner".to_owned()),
        1 => Just(String::new()),
    ];
    let lines = vec(
        select(vec![
            "",
            "id: 1\n",
            "event: message\n",
            ": evil\u{2028}\n",
            "retry: 1\r\n",
        ]),
        0..3,
    );
    let piece =
        (lines, data, end).prop_map(|(lines, data, end)| format!("{}data: {data}{end}", lines.concat()));
    vec(
        prop_oneof![9 => piece, 1 => Just(": evil ping\n\n".to_owned())],
        0..6,
    )
}

fn came(stream: &[u8], sizes: &[usize], judge: fn(&Message<'_>) -> Verdict) -> Came {
    let mut scene = Scene::new(judge);
    let waiting = scene.asks(format!("[{},{}]", call("1", "good"), call("2", "good")));
    let mut sizes = sizes.iter().cycle();
    let (mut rest, mut chunks) = (stream, Vec::new());
    while !rest.is_empty() {
        let size = *sizes.next().expect("there are sizes");
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    scene.comes(HttpResponse::to_post(LIMITS, 200, EVENTS, waiting), chunks)
}

proptest! {
    #[test]
    fn however_it_is_cut_the_same_comes(pieces in pieces(), sizes in vec(1..40_usize, 1..4)) {
        let stream = pieces.concat();
        let whole = came(stream.as_bytes(), &[usize::MAX], guard);
        prop_assert_eq!(came(stream.as_bytes(), &sizes, guard), whole);
    }

    #[test]
    fn what_is_blocked_does_not_come(pieces in pieces(), sizes in vec(1..40_usize, 1..4)) {
        let stream = pieces.concat();
        let text = came(stream.as_bytes(), &sizes, guard).to_client;
        for event in text.split(['\n', '\r']).filter(|line| line.starts_with("data:")) {
            prop_assert!(!event.contains("evil") || event.contains("no-evil"), "{}", text);
        }
    }

    #[test]
    fn what_comes_can_be_read_again(pieces in pieces()) {
        let first = came(pieces.concat().as_bytes(), &[usize::MAX], guard);
        let again = came(first.to_client.as_bytes(), &[usize::MAX], |_| Verdict::Allow);
        prop_assert_eq!(again.to_client, first.to_client);
        prop_assert_eq!(again.incidents, []);
    }

    #[test]
    fn any_bytes_are_answered(body in vec(any::<u8>(), 0..60), status in 100..600_u16, kind in select(vec![JSON, EVENTS, None, Some("text/html")])) {
        let mut scene = allowed();
        let (posted, _) = scene.post(&[], &body);
        let is_refused = matches!(&posted, PostDecision::Answer(answer) if answer.status == 400);
        prop_assert!(is_refused, "{}", told(&posted));
        let waiting = scene.asks(call("1", "good"));
        let came = scene.comes(HttpResponse::to_post(LIMITS, status, kind, waiting), [&body]);
        prop_assert!(came.ended.is_some());
    }
}
