//! The filter of MCP over HTTP: its output consists of judged messages only, with any chunks and any response head.

use std::time::Duration;

use mcpmon_model::{Content, Denial, FromServer, Incident, Message, Timestamp, Verdict};
use mcpmon_protocol::{
    decode::{
        DecodeLimits,
        json::{Doubt, LoneSurrogate, Scanner},
        sse::{Events, SseFraming, has_hidden_line},
    },
    filter::mcp_http::{
        AnnouncedEndpoint, Head, HttpOutput, HttpResponse, HttpSession, PendingRequests, PostDecision,
        ReadState, ServerKnowledge,
    },
};

const LIMITS: DecodeLimits = DecodeLimits {
    max_line: 1024,
    max_depth: 24,
    max_batch: 4,
    max_pending: 4,
    request_timeout: Duration::ZERO,
};

const STATUSES: [u16; 4] = [200, 202, 400, 500];
const TYPES: [Option<&str>; 4] = [
    Some("text/event-stream"),
    Some("application/json"),
    Some("text/plain; charset=utf-8"),
    None,
];
const NOW: Timestamp = Timestamp(1);

/// Posts and reads one response. The first byte chooses the size of chunks, the second one the head of the response,
/// and the third one headers of the request. The rest is the body and, after a zero byte, the response.
///
/// Checks that the outcome does not depend on the chunks; that the server gets only strict JSON, and nothing that was
/// stopped; and that a client gets events whose data is strict JSON, or a body of strict JSON.
pub fn fuzz_mcp_http(data: &[u8]) {
    let [size, response, request, rest @ ..] = data else {
        return;
    };
    let (body, answer) = match rest.iter().position(|byte| *byte == 0) {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, &[][..]),
    };
    let exchange = Exchange {
        body,
        answer,
        response: *response,
        request: *request,
    };
    let size = usize::from(*size) + 1;
    for judge in [allow, some, stop] {
        let whole = exchange.run(usize::MAX, judge);
        assert_eq!(exchange.run(size, judge), whole);
        whole.holds(&exchange);
    }
    let stopped = exchange.run(size, stop);
    assert_eq!(stopped.forwarded, None);
}

/// A post and its answer.
struct Exchange<'d> {
    body: &'d [u8],
    answer: &'d [u8],
    response: u8,
    request: u8,
}

/// The outcome of an exchange.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// The body that was forwarded.
    forwarded: Option<Vec<u8>>,
    /// The filter's own answer, if the body was not forwarded.
    answered: Option<(u16, Vec<u8>)>,
    to_client: Vec<u8>,
    to_server: Vec<String>,
    incidents: Vec<Incident>,
    judged: Vec<String>,
    ended: (u16, bool),
}

impl Exchange<'_> {
    fn status(&self) -> u16 {
        STATUSES[usize::from(self.response) % STATUSES.len()]
    }

    fn content_type(&self) -> Option<&'static str> {
        TYPES[usize::from(self.response >> 2) % TYPES.len()]
    }

    fn run(&self, size: usize, judge: fn(&Message<'_>) -> Verdict) -> Told {
        let mut session = HttpSession::new(LIMITS, ServerKnowledge::default());
        let mut out = HttpOutput::default();
        let mut judged = Vec::new();
        let mut observe = |message: &Message<'_>| {
            judged.push(format!("{message:?}"));
            judge(message)
        };
        let version = if self.request & 1 == 0 {
            "2025-03-26"
        } else {
            "2026-07-28"
        };
        let mut fields: Vec<(&str, &[u8])> = Vec::new();
        if self.request & 2 != 0 {
            fields.push(("mcp-protocol-version", version.as_bytes()));
        }
        if self.request & 4 != 0 {
            fields.push(("Mcp-Method", b"tools/call"));
            fields.push(("Mcp-Name", b"a"));
        }
        let head = Head::of(fields);
        let posted = session.post(NOW, &head, self.body, &mut observe, &mut out);
        let (forwarded, answered, waiting) = match posted {
            PostDecision::Forward(forward) => (
                Some(forward.body.unwrap_or_else(|| self.body.to_vec())),
                None,
                forward.waiting,
            ),
            PostDecision::Held(held_call) => panic!("nothing asks a person here: {held_call}"),
            PostDecision::Answer(answer) => (
                None,
                Some((answer.status, answer.body)),
                PendingRequests::default(),
            ),
        };
        let mut response = match self.request >> 3 & 3 {
            0 => HttpResponse::to_get(LIMITS, self.status(), self.content_type()),
            1 => {
                let told = AnnouncedEndpoint {
                    server: "https://a.example/sse".to_owned(),
                    announced: "/mcp/a/1".to_owned(),
                };
                HttpResponse::legacy(LIMITS, self.status(), self.content_type(), told)
            }
            _ => HttpResponse::to_post(LIMITS, self.status(), self.content_type(), waiting),
        };
        for chunk in self.answer.chunks(size) {
            if response.push(NOW, &mut session, chunk, &mut observe, &mut out) == ReadState::Finished {
                break;
            }
            assert!(response.held() <= LIMITS.max_line);
        }
        let ended = response.end(NOW, &mut session, &mut observe, &mut out);
        Told {
            forwarded,
            answered,
            to_client: out.to_client,
            to_server: out.to_server,
            incidents: out.incidents,
            judged,
            ended: (ended.status, ended.is_ours),
        }
    }

    fn is_stream(&self) -> bool {
        self.status() < 300 && self.content_type() == TYPES[0]
    }
}

impl Told {
    fn holds(&self, exchange: &Exchange<'_>) {
        if let Some(body) = &self.forwarded {
            strict(body, LoneSurrogate::Refuse, Doubt::LineEnd);
        }
        if let Some((_, body)) = &self.answered
            && !body.is_empty()
        {
            strict(body, LoneSurrogate::Refuse, Doubt::None);
        }
        for message in &self.to_server {
            strict(message.as_bytes(), LoneSurrogate::Refuse, Doubt::None);
        }
        if exchange.is_stream() {
            events(&self.to_client);
        } else if self.ended.1 && !self.to_client.is_empty() {
            strict(&self.to_client, LoneSurrogate::Refuse, Doubt::LineEnd);
        }
    }
}

/// Checks that every event that a client gets is an event to every reader, and that its data is strict JSON or an
/// address of the proxy.
fn events(stream: &[u8]) {
    // The filter's own messages can be longer than the messages that they replace.
    let mut events = Events::new(1 << 20);
    let mut rest = stream;
    while let Some(cut) = events.next(&mut rest) {
        let SseFraming::Event(event) = cut else {
            panic!("too long: {}", stream.escape_ascii());
        };
        assert!(!has_hidden_line(event.raw), "{}", stream.escape_ascii());
        match event.data.as_deref() {
            Some(data) if event.name == Some(b"endpoint") && data == b"/mcp/a/1" => {}
            Some(data) if !data.trim_ascii().is_empty() => strict(data, LoneSurrogate::Refuse, Doubt::Space),
            Some(_) | None => {}
        }
    }
}

fn strict(text: &[u8], lone: LoneSurrogate, borne: Doubt) {
    let mut scanner = Scanner::new(LIMITS.max_depth);
    let Ok(scan) = scanner.scan(text, lone) else {
        panic!("only strict JSON goes on: {}", text.escape_ascii());
    };
    // Only a name that needs an escape may stay ambiguous.
    let in_doubt = scan.doubt > borne && !text.contains(&b'\\');
    assert!(!in_doubt, "{}", text.escape_ascii());
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
        Content::Client(_) | Content::Server(_) if message.size.is_multiple_of(2) => stop(message),
        Content::Client(_) | Content::Server(_) => Verdict::Allow,
    }
}
