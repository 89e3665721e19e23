//! Properties of every conversation.

use mcpmon_model::{Content, FromClient, FromServer};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Messages of a side, good and bad, with few ids so that requests and answers meet.
fn lines() -> impl Strategy<Value = (Side, Vec<u8>)> {
    let id = select(vec!["1", "2", "\"1\"", "1.5", "null"]);
    let tool = select(vec!["good", "evil", "g\\u006fod"]);
    let client = prop_oneof![
        4 => (id.clone(), tool.clone()).prop_map(|(id, tool)| call(id, tool).into_bytes()),
        1 => id.clone().prop_map(|id| request(id, "tools/list", "{}").into_bytes()),
        1 => id.clone().prop_map(|id| request(id, "initialize", "{}").into_bytes()),
        1 => id.clone().prop_map(|id| result(id, r#"{"action":"accept"}"#).into_bytes()),
        1 => (id.clone(), tool.clone()).prop_map(|(id, tool)| format!("[{},{}]", call("1", tool), call(id, "good")).into_bytes()),
        1 => tool.clone().prop_map(|tool| call("1", tool).replace("\"name\"", "\"name\":\"x\",\"name\"").into_bytes()),
        1 => tool.clone().prop_map(|tool| call("1", tool).replace(':', ":\r").into_bytes()),
        1 => tool.clone().prop_map(|tool| format!("{{\"x\":1}}\r{}", call("1", tool)).into_bytes()),
        1 => id.clone().prop_map(|id| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#).into_bytes()),
        1 => Just(b"\xff{".to_vec()),
        1 => Just(Vec::new()),
    ];
    let server = prop_oneof![
        3 => (id.clone(), tool.clone()).prop_map(|(id, text)| result(id, &format!(r#"{{"content":["{text}"],"tools":[{{"name":"{text}"}},{{"name":"b"}}]}}"#)).into_bytes()),
        1 => id.clone().prop_map(|id| request(id, "elicitation/create", r#"{"message":"evil"}"#).into_bytes()),
        1 => (id, tool).prop_map(|(id, text)| format!(r#"[{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"{text}"}}}}]"#).into_bytes()),
        1 => Just(b"evil banner".to_vec()),
        1 => Just(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"evil"}}"#.to_vec()),
    ];
    let terminated = |(mut line, end): (Vec<u8>, &str)| {
        line.extend_from_slice(end.as_bytes());
        line
    };
    let end = select(vec!["\n", "\n", "\n", "\r\n"]);
    prop_oneof![
        (client, end.clone()).prop_map(move |line| (Side::Client, terminated(line))),
        (server, end).prop_map(move |line| (Side::Server, terminated(line))),
    ]
}

/// Everything that came out and was judged.
#[derive(Debug, Default, PartialEq, Eq)]
struct Transcript {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    noise: Vec<u8>,
    incidents: Vec<Incident>,
    judged: Vec<String>,
}

/// Says these lines, each cut into pieces of these sizes.
fn transcript(
    said: &[(Side, Vec<u8>)],
    sizes: &[usize],
    judge: impl Fn(&Message<'_>) -> Verdict,
) -> Transcript {
    let mut filter = StdioFilter::new(LIMITS);
    let mut out = StdioOutput::default();
    let mut judged = Vec::new();
    let mut sizes = sizes.iter().cycle();
    for (side, line) in said {
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            let size = *sizes.next().expect("there are sizes");
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            let mut judge = |message: &Message<'_>| {
                judged.push(format!("{:?} {:?}", message.id, message.content));
                judge(message)
            };
            filter.push(Timestamp(1), *side, chunk, &mut judge, &mut out);
        }
    }
    let StdioOutput {
        to_server,
        to_client,
        noise,
        incidents,
    } = out;
    Transcript {
        to_server,
        to_client,
        noise,
        incidents,
        judged,
    }
}

fn speaks_evil(message: &Message<'_>) -> bool {
    format!("{:?}", message.content).contains("evil")
}

fn no_evil(message: &Message<'_>) -> Verdict {
    let block = || Verdict::Block(denial());
    match &message.content {
        Content::Server(FromServer::Listing(listing)) => {
            let evil = |item: &mcpmon_model::ListedItem<'_>| item.definition.as_str().contains("evil");
            let hidden = listing.items.iter().enumerate().filter(|(_, item)| evil(item));
            let hidden: Vec<usize> = hidden.map(|(position, _)| position).collect();
            // What else is in the result is not an item.
            if listing.result.as_str().matches("evil").count() > hidden.len() {
                return block();
            }
            Verdict::Hide(hidden)
        }
        Content::Client(_) | Content::Server(_) if speaks_evil(message) => block(),
        Content::Client(_) | Content::Server(_) => Verdict::Allow,
    }
}

proptest! {
    #[test]
    fn chunks_do_not_matter(said in vec(lines(), 0..12), sizes in vec(1_usize..40, 1..8)) {
        let whole = transcript(&said, &[usize::MAX], no_evil);
        prop_assert_eq!(transcript(&said, &sizes, no_evil), whole);
    }

    #[test]
    fn what_is_exact_and_allowed_is_not_touched(tools in vec("[a-z\u{e9}\u{1f600} ]{0,12}", 1..4), space in "[ \t]{0,3}") {
        let mut stream = String::new();
        for (id, tool) in tools.iter().enumerate() {
            stream.push_str(&space);
            stream.push_str(&call(&id.to_string(), tool).replace(',', &format!(",{space}")));
            stream.push('\n');
        }
        let said = [(Side::Client, stream.clone().into_bytes())];
        let transcript = transcript(&said, &[3, 50], |_| Verdict::Allow);
        prop_assert_eq!(String::from_utf8_lossy(&transcript.to_server).into_owned(), stream);
        prop_assert_eq!(transcript.judged.len(), tools.len());
    }

    #[test]
    fn what_is_blocked_reaches_nobody(said in vec(lines(), 0..12), sizes in vec(1_usize..40, 1..8)) {
        let transcript = transcript(&said, &sizes, no_evil);
        let text = String::from_utf8_lossy(&transcript.to_server).into_owned();
        prop_assert!(!text.contains("evil"), "{}", text);
        let text = String::from_utf8_lossy(&transcript.to_client).into_owned();
        // An answer repeats the name of what was stopped, and that alone.
        prop_assert!(!text.replace("'evil' blocked by policy", "").contains("evil"), "{}", text);
    }

    #[test]
    fn a_stricter_judge_lets_no_more_through(said in vec(lines(), 0..12)) {
        let calls = |transcript: &Transcript| {
            let text = String::from_utf8_lossy(&transcript.to_server).into_owned();
            (text.matches("\"good\"").count(), text.matches("evil").count())
        };
        let lenient = calls(&transcript(&said, &[64], no_evil));
        let strict = transcript(&said, &[64], |message| match message.content {
            Content::Client(FromClient::Call(_)) => Verdict::Block(denial()),
            Content::Client(_) | Content::Server(_) => no_evil(message),
        });
        let strict = calls(&strict);
        prop_assert!(strict.0 <= lenient.0 && strict.1 <= lenient.1, "{:?} {:?}", strict, lenient);
        prop_assert_eq!(strict, (0, 0));
    }

    #[test]
    fn a_batch_is_its_items(said in vec(lines(), 0..8), items in vec(lines(), 1..4)) {
        let items: Vec<Vec<u8>> = items
            .into_iter()
            .filter(|(side, line)| *side == Side::Client && line.starts_with(b"{\"jsonrpc\""))
            .filter(|(_, line)| serde_json::from_slice::<serde_json::Value>(line).is_ok())
            .map(|(_, line)| line.trim_ascii().to_vec())
            .collect();
        prop_assume!(!items.is_empty());
        let singly = said.iter().cloned().chain(items.iter().map(|item| (Side::Client, [item, &b"\n"[..]].concat())));
        let singly: Vec<(Side, Vec<u8>)> = singly.collect();
        let batch = [b"[", items.join(&b","[..]).as_slice(), b"]\n"].concat();
        let batched: Vec<(Side, Vec<u8>)> = said.iter().cloned().chain([(Side::Client, batch)]).collect();
        let (singly, batched) = (transcript(&singly, &[64], no_evil), transcript(&batched, &[64], no_evil));
        prop_assert_eq!(singly.judged, batched.judged);
        prop_assert_eq!(singly.incidents, batched.incidents);
        prop_assert_eq!(singly.to_client, batched.to_client);
        let messages = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace(['[', ']'], "").replace("},{\"jsonrpc", "}\n{\"jsonrpc");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        prop_assert_eq!(messages(&singly.to_server), messages(&batched.to_server));
    }
}
