//! Questions to the provider, and the provider's answers.

use mcpmon_bench::proxied::{Asked, EVENTS, Reply, Said, Script, stamp};
use serde_json::{Value, json};

/// The approximate length of bodies.
const BODY: usize = 2048;
/// The number of messages of a long conversation.
const MESSAGES: usize = 200;
/// The number of lines of each of them.
const LINES: usize = 10;
/// The only tool that is offered.
const TOOL: &str = "lookup_weather";
/// Words that no pattern for secrets or attacks matches.
const WORDS: &str = "the harbour is calm this morning and the boats wait for the tide to turn before noon; ";

/// The kind of answer that is requested. The name of the model selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// A whole text.
    Text,
    /// A whole tool call.
    Call,
    /// A text, event by event.
    Stream,
    /// A text, at the end of a long conversation about code.
    History,
}

impl Question {
    const ALL: [Self; 4] = [Self::Text, Self::Call, Self::Stream, Self::History];

    const fn model(self) -> &'static str {
        match self {
            Self::Text => "bench-text",
            Self::Call => "bench-call",
            Self::Stream => "bench-stream",
            Self::History => "bench-history",
        }
    }

    /// Reads the question from a request.
    pub(crate) fn of(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        Self::ALL.into_iter().find(|kind| text.contains(kind.model()))
    }

    /// Returns the body of a request.
    pub(crate) fn body(self) -> String {
        let body = json!({
            "model": self.model(),
            "max_tokens": 1024,
            "stream": self == Self::Stream,
            "system": "You are of help to those who go to sea.",
            "tools": [{
                "name": TOOL,
                "description": "Tells what the weather is like at a place.",
                "input_schema": {"type": "object", "properties": {"place": {"type": "string"}, "about": {"type": "string"}}},
            }],
            "messages": match self {
                Self::Text | Self::Call | Self::Stream => json!([
                    {"role": "user", "content": prose(BODY / 2)},
                    {"role": "assistant", "content": [{"type": "text", "text": prose(BODY / 8)}]},
                    {"role": "user", "content": [{"type": "text", "text": prose(BODY / 8)}]},
                ]),
                Self::History => (0..MESSAGES).map(message_of_history).collect(),
            },
        });
        body.to_string()
    }

    /// Returns a whole request, as it is sent to `host`.
    pub(crate) fn request(self, host: &str, path: &str) -> Vec<u8> {
        let body = self.body();
        format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\naccept: application/json\r\n\
             anthropic-version: 2023-06-01\r\nx-api-key: of-a-benchmark\r\nuser-agent: bench\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// Returns a whole answer.
    pub(crate) fn answer(self) -> String {
        let content = match self {
            Self::Text | Self::Stream | Self::History => json!([{"type": "text", "text": prose(BODY - 300)}]),
            Self::Call => json!([
                {"type": "text", "text": prose(BODY / 2)},
                {
                    "type": "tool_use",
                    "id": "toolu_bench",
                    "name": TOOL,
                    "input": {"place": "Visby", "about": prose(BODY / 2 - 400)},
                },
            ]),
        };
        let reason = if self == Self::Call {
            "tool_use"
        } else {
            "end_turn"
        };
        message(self.model(), &content, Some(reason)).to_string()
    }
}

/// Builds the provider's reply.
pub(crate) fn reply(asked: &Asked<'_>) -> Reply {
    match Question::of(asked.body) {
        Some(Question::Stream) => Reply::of(Said::Events(Script {
            beginning,
            event: text,
            end,
        })),
        Some(question @ (Question::Text | Question::Call | Question::History)) => {
            Reply::of(Said::Whole(question.answer()))
        }
        None => Reply {
            status: 400,
            ..Reply::of(Said::Whole(String::new()))
        },
    }
}

/// Returns the first events of a stream.
fn beginning() -> String {
    let start = message(Question::Stream.model(), &json!([]), None);
    let block = json!({"type": "text", "text": ""});
    event(&json!({"type": "message_start", "message": start}))
        + &event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
}

/// Returns an event with text that left at `moment`.
fn text(moment: u64) -> String {
    let text = format!("{}, in fair weather", stamp(moment));
    let delta = json!({"type": "text_delta", "text": text});
    event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

/// Returns the last events of a stream.
fn end() -> String {
    let delta = json!({"stop_reason": "end_turn", "stop_sequence": null});
    event(&json!({"type": "content_block_stop", "index": 0}))
        + &event(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": EVENTS}}))
        + &event(&json!({"type": "message_stop"}))
}

fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

fn message(model: &str, content: &Value, reason: Option<&str>) -> Value {
    json!({
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": null,
        "usage": {"input_tokens": 400, "output_tokens": 400},
    })
}

/// Returns one message of a conversation: a question, or a file that was read.
fn message_of_history(number: usize) -> Value {
    let role = if number.is_multiple_of(2) {
        "user"
    } else {
        "assistant"
    };
    let lines = (0..LINES).map(|line| {
        format!("    let token_{line} = parser.next_token({number}, &keys[{line}])?; // {WORDS}\n")
    });
    let text: String = lines.collect();
    json!({"role": role, "content": [{"type": "text", "text": text}]})
}

fn prose(bytes: usize) -> String {
    WORDS.chars().cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_about_two_kilobytes_and_say_what_they_ask() {
        for kind in Question::ALL {
            let body = kind.body();
            let is_long = kind == Question::History;
            assert!(
                is_long && body.len() > MESSAGES * 1024 || body.len().abs_diff(BODY) < BODY / 4,
                "{kind:?}: {}",
                body.len()
            );
            assert_eq!(Question::of(body.as_bytes()), Some(kind));
            let answer = kind.answer();
            assert!(
                answer.len().abs_diff(BODY) < BODY / 4,
                "{kind:?}: {}",
                answer.len()
            );
        }
    }
}
