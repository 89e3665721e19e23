//! Questions to the server, and the server's answers, in an MCP session over Streamable HTTP.

use mcpmon_bench::proxied::{Asked, Reply, Said, Script, stamp};
use serde_json::{Value, json};

/// The approximate length of bodies.
const BODY: usize = 2048;
/// The only tool.
const TOOL: &str = "lookup_weather";
/// The header that names the session, and its value.
const SESSION: (&str, &str) = ("mcp-session-id", "of-a-benchmark");
/// Words that no pattern for secrets or attacks matches.
const WORDS: &str = "the harbour is calm this morning and the boats wait for the tide to turn before noon; ";

/// A question to the server. One argument of a call selects the form of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The handshake.
    Initialize,
    /// The end of the handshake.
    Initialized,
    /// The list of tools.
    List,
    /// A call that is answered with JSON.
    Call,
    /// A call that is answered event by event.
    Stream,
    /// A call that is answered with many events at once, and with the end of the stream later.
    Burst,
}

impl Question {
    /// The questions before the first call.
    pub(crate) const OPENING: [Self; 3] = [Self::Initialize, Self::Initialized, Self::List];
    const CALLS: [Self; 3] = [Self::Call, Self::Stream, Self::Burst];

    const fn place(self) -> &'static str {
        match self {
            Self::Stream => "Hamnviken",
            Self::Burst => "Sandhamn",
            Self::Call | Self::Initialize | Self::Initialized | Self::List => "Visby",
        }
    }

    /// Reads the question from a request.
    fn of(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        let has = |method: &str| text.contains(&format!("\"method\":\"{method}\""));
        if has("tools/call") {
            return Self::CALLS.into_iter().find(|call| text.contains(call.place()));
        }
        let methods = ["initialize", "notifications/initialized", "tools/list"];
        let known = methods.into_iter().zip(Self::OPENING);
        known
            .into_iter()
            .find(|(method, _)| has(method))
            .map(|(_, question)| question)
    }

    /// Returns the body of a request.
    pub(crate) fn body(self) -> String {
        let (id, method, params) = match self {
            Self::Initialize => (
                Some(0),
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
            ),
            Self::Initialized => (None, "notifications/initialized", json!({})),
            Self::List => (Some(1), "tools/list", json!({})),
            Self::Call | Self::Stream | Self::Burst => (
                Some(2),
                "tools/call",
                json!({
                    "name": TOOL,
                    "arguments": {"place": self.place(), "about": prose(BODY - 200)},
                    "_meta": {"progressToken": "p"},
                }),
            ),
        };
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            message["id"] = json!(id);
        }
        message.to_string()
    }

    /// Returns a whole request, as it is sent to `host`.
    pub(crate) fn request(self, host: &str, path: &str) -> Vec<u8> {
        let body = self.body();
        let session = match self {
            Self::Initialize => String::new(),
            Self::Initialized | Self::List | Self::Call | Self::Stream | Self::Burst => format!(
                "{}: {}\r\nmcp-protocol-version: 2025-11-25\r\n",
                SESSION.0, SESSION.1
            ),
        };
        format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{session}user-agent: bench\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// Returns a whole answer.
    pub(crate) fn answer(self) -> String {
        match self {
            Self::Initialize => result(
                0,
                &json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "bench", "version": "1"},
                }),
            ),
            Self::Initialized => String::new(),
            Self::List => result(
                1,
                &json!({"tools": [{
                    "name": TOOL,
                    "description": "Tells what the weather is like at a place.",
                    "inputSchema": {
                        "type": "object",
                        "properties": {"place": {"type": "string"}, "about": {"type": "string"}},
                    },
                }]}),
            ),
            Self::Call | Self::Stream | Self::Burst => result(
                2,
                &json!({"content": [{"type": "text", "text": prose(BODY - 100)}]}),
            ),
        }
    }
}

/// Builds the server's reply.
pub(crate) fn reply(asked: &Asked<'_>) -> Reply {
    let script = Script {
        beginning: String::new,
        event: progress,
        end: || event(&Question::Stream.answer()),
    };
    match Question::of(asked.body) {
        Some(question @ (Question::List | Question::Call)) => Reply::of(Said::Whole(question.answer())),
        Some(Question::Initialize) => Reply {
            header: Some(SESSION),
            ..Reply::of(Said::Whole(Question::Initialize.answer()))
        },
        Some(Question::Initialized) => Reply {
            status: 202,
            ..Reply::of(Said::Whole(String::new()))
        },
        Some(Question::Stream) => Reply::of(Said::Events(script)),
        Some(Question::Burst) => Reply::of(Said::Burst(script)),
        None => Reply {
            status: 400,
            ..Reply::of(Said::Whole(String::new()))
        },
    }
}

/// Returns the length of an event of a stream.
pub(crate) fn event_length() -> usize {
    progress(0).len()
}

/// Returns an event that left at `moment`.
fn progress(moment: u64) -> String {
    let params = json!({
        "progressToken": "p",
        "progress": moment,
        "message": format!("{}, in fair weather", stamp(moment)),
    });
    event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string())
}

fn event(data: &str) -> String {
    format!("event: message\ndata: {data}\n\n")
}

fn result(id: u32, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn prose(bytes: usize) -> String {
    WORDS.chars().cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_say_what_they_ask() {
        for question in Question::OPENING.into_iter().chain(Question::CALLS) {
            assert_eq!(Question::of(question.body().as_bytes()), Some(question));
        }
    }

    #[test]
    fn calls_and_answers_are_about_two_kilobytes() {
        for length in [Question::Call.body().len(), Question::Call.answer().len()] {
            assert!(length.abs_diff(BODY) < BODY / 4, "{length}");
        }
    }
}
