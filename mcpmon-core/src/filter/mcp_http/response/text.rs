//! A response that is no message: the page of a gateway, the text of an error. SDKs hand such a text on as the error's
//! message, and so it is judged as one.

use super::super::{super::message::Judge, post::Answer};
use crate::{
    decode::json::quote_into,
    model::{
        Answer as Said, AnswerOutcome, Asked, Content, Era, FromServer, Message, Question, RawJson,
        RequestId, Timestamp, Trace, Verdict,
    },
    rewrite::{Fault, refusal},
};

/// JSON-RPC's code for what went wrong at a server.
const INTERNAL: i64 = -32_603;

/// The longest text that is judged; nobody shows more of an error.
pub(super) const LONGEST: usize = 256 << 10;

/// Whether some reader could take a text for JSON, whatever it is called.
pub(super) fn may_be_json(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Whether some reader could take a text for a stream of events.
pub(super) fn may_be_events(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.any(|line| line.starts_with(b"data:"))
}

/// The answer to a request that a text takes the place of.
pub(super) fn as_message(id: &RequestId, text: &[u8]) -> String {
    let mut message = "{\"jsonrpc\":\"2.0\",\"id\":".to_owned();
    match id {
        RequestId::Number(digits) => message.push_str(digits),
        RequestId::Text(text) => quote_into(text, &mut message),
    }
    message.push_str(",\"error\":");
    message.push_str(&error(text));
    message.push('}');
    message
}

fn error(text: &[u8]) -> String {
    let mut error = format!("{{\"code\":{INTERNAL},\"message\":");
    quote_into(&String::from_utf8_lossy(text), &mut error);
    error.push('}');
    error
}

/// Judges a text that takes the place of nobody's answer: that to a notification, to the opening of a stream. What is
/// said instead, if it may not go on.
pub(super) fn judge(now: Timestamp, text: &[u8], judge: &mut Judge<'_>) -> Option<Answer> {
    let error = error(text);
    let message = String::from_utf8_lossy(text);
    let answer = Said {
        to: Asked {
            what: Question::Other {
                method: Box::default(),
            },
            at: now,
        },
        outcome: AnswerOutcome::Error {
            code: INTERNAL,
            message,
            error: RawJson::trusted(&error),
        },
    };
    let message = Message {
        era: Era::Handshake,
        id: None,
        trace: Trace::default(),
        size: text.len(),
        content: Content::Server(FromServer::Answer(answer)),
    };
    match judge(&message) {
        Verdict::Block(denial) => Some(Answer {
            status: 502,
            body: refusal(None, Fault::Answer, &denial.reason).into_bytes(),
        }),
        Verdict::Allow | Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) => None,
    }
}
