//! The stdio filter: its output consists of judged messages only, for any lines of both sides and with any chunks.

use std::time::Duration;

use mcpmon_model::{
    Content, Denial, FromClient, FromServer, Incident, Message, RawJson, Side, Timestamp, Verdict,
};
use mcpmon_protocol::{
    decode::{
        DecodeLimits,
        json::{LoneSurrogate, Scanner, TextForm},
    },
    filter::stdio::{StdioFilter, StdioOutput},
};

const LIMITS: DecodeLimits = DecodeLimits {
    max_line: 1024,
    max_depth: 24,
    max_batch: 4,
    max_pending: 4,
    request_timeout: Duration::ZERO,
};

/// Runs a conversation. The first byte chooses the size of chunks. The first byte of every line chooses its sender (`<`
/// is the server, everything else the client).
///
/// Checks that the outcome does not depend on the chunks; that a side gets strict JSON lines only; that with everything
/// allowed the server gets only lines that a side wrote, perhaps rewritten; and that with everything stopped the server
/// gets nothing that a client wrote.
pub fn fuzz_stdio(data: &[u8]) {
    let Some((size, script)) = data.split_first() else {
        return;
    };
    let size = usize::from(*size) + 1;
    for judge in [allow, some, stop] {
        let whole = run(script, usize::MAX, judge);
        assert_eq!(run(script, size, judge), whole);
        strict(&whole.to_server);
        strict(&whole.to_client);
    }
    let said: Vec<&[u8]> = lines(script).map(|(_, line)| line).collect();
    for line in run(script, size, allow)
        .to_server
        .split_inclusive(|byte| *byte == b'\n')
    {
        assert!(is_ours(line) || is_said(line, &said), "{}", line.escape_ascii());
    }
    for line in run(script, size, stop)
        .to_server
        .split_inclusive(|byte| *byte == b'\n')
    {
        assert!(is_ours(line), "{}", line.escape_ascii());
    }
}

/// Returns whether the filter made this line itself.
fn is_ours(line: &[u8]) -> bool {
    let has = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
    has(b"[mcpmon]") || has(b"\"result\":{\"action\":\"decline\"}")
}

/// The output of a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
struct Transcript {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    noise: Vec<u8>,
    incidents: Vec<Incident>,
    judged: Vec<String>,
}

fn run(script: &[u8], size: usize, judge: fn(&Message<'_>) -> Verdict) -> Transcript {
    let mut filter = StdioFilter::new(LIMITS);
    let mut out = StdioOutput::default();
    let mut judged = Vec::new();
    let mut observe = |message: &Message<'_>| {
        whole_values(message);
        judged.push(format!("{message:?}"));
        judge(message)
    };
    for (side, line) in lines(script) {
        for chunk in line.chunks(size) {
            filter.push(Timestamp(1), side, chunk, &mut observe, &mut out);
        }
    }
    filter.close(Side::Client, &mut out);
    filter.close(Side::Server, &mut out);
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

fn lines(script: &[u8]) -> impl Iterator<Item = (Side, &[u8])> {
    let lines = script.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| match line.split_first() {
        Some((b'<', line)) => (Side::Server, line),
        Some((_, line)) => (Side::Client, line),
        None => (Side::Client, line),
    })
}

fn allow(_: &Message<'_>) -> Verdict {
    Verdict::Allow
}

fn stop(_: &Message<'_>) -> Verdict {
    Verdict::Block(Denial {
        rule: "all".to_owned(),
        reason: "nothing \u{2028} is \"allowed\"".to_owned(),
        remedy: None,
        event: None,
    })
}

/// Changes every message that can be changed, and stops every second one of the others.
fn some(message: &Message<'_>) -> Verdict {
    match &message.content {
        Content::Server(FromServer::Listing(listing)) => {
            Verdict::Hide((0..listing.items.len()).step_by(2).collect())
        }
        Content::Server(FromServer::Introduction(introduction)) if introduction.instructions.is_some() => {
            Verdict::StripInstructions
        }
        Content::Client(_) | Content::Server(_) if message.size.is_multiple_of(2) => stop(message),
        Content::Client(_) | Content::Server(_) => Verdict::Allow,
    }
}

/// Checks that JSON handed to the judge is JSON for serde_json too.
fn whole_values(message: &Message<'_>) {
    let check = |json: RawJson<'_>| {
        let value = serde_json::from_str::<serde_json::Value>(json.as_str());
        assert!(value.is_ok(), "{}", json.as_str());
    };
    if let Content::Server(FromServer::Listing(listing)) = &message.content {
        check(listing.result);
        listing.items.iter().for_each(|item| check(item.definition));
    }
    if let Content::Server(FromServer::Introduction(introduction)) = &message.content {
        check(introduction.result);
    }
    if let Content::Client(FromClient::Call(call)) = &message.content {
        call.arguments.into_iter().chain(call.resumes).for_each(check);
    }
}

/// Checks that a side gets whole lines, each of them JSON that every parser reads in the same way.
fn strict(stream: &[u8]) {
    assert!(stream.is_empty() || stream.ends_with(b"\n"));
    for line in stream
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut scanner = Scanner::new(LIMITS.max_depth);
        let scan = scanner
            .scan(line, LoneSurrogate::Refuse)
            .expect("only strict JSON goes on");
        // Only a name that needs an escape may stay ambiguous.
        let in_doubt = scan.form == TextForm::Ambiguous && !line.contains(&b'\\');
        assert!(!in_doubt, "{}", line.escape_ascii());
    }
}

/// Returns whether a side wrote this line, perhaps in another spelling.
fn is_said(line: &[u8], said: &[&[u8]]) -> bool {
    said.contains(&line) || {
        let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).ok();
        let this = value(line);
        said.iter().any(|line| contains(value(line), &this))
    }
}

/// Returns whether a line equals another one, or is a batch with all of its messages.
fn contains(line: Option<serde_json::Value>, part: &Option<serde_json::Value>) -> bool {
    match (line, part) {
        (Some(serde_json::Value::Array(all)), Some(serde_json::Value::Array(part))) => {
            part.iter().all(|item| all.contains(item))
        }
        (line, part) => line == *part,
    }
}
