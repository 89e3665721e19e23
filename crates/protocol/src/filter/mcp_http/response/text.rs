//! Responses that are no messages: the page of a gateway, the text of an error. SDKs pass such a text on as the error's
//! message, so it is judged as one.

use mcpmon_model::{
    Answer, AnswerOutcome, AnsweredRequest, ClientRequestKind, Content, Era, FromServer, Message, RawJson,
    RequestId, Timestamp, Trace, Verdict,
};

use super::super::{super::message::Arbiter, post::ProxyResponse};
use crate::{
    decode::{json::quote_into, sse::SseField},
    rewrite::{RefusalReason, refusal},
};

/// JSON-RPC's code for an internal error of a server.
const INTERNAL: i64 = -32_603;

/// A byte order mark, and one that was decoded as Latin-1: some readers strip either.
const MARKS: [&str; 2] = ["\u{feff}", "\u{ef}\u{bb}\u{bf}"];

/// Longest text that is judged, bytes; no client shows more of an error.
pub(super) const MAX_BYTES: usize = 256 << 10;

/// Returns whether some reader could take a text for JSON, whatever its content type.
pub(super) fn may_be_json(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Returns whether some reader could take a text for a stream of events.
pub(super) fn may_be_events(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.split(ends_line).any(|mut line| {
        while let Some(rest) = MARKS.iter().find_map(|mark| line.strip_prefix(mark)) {
            line = rest;
        }
        SseField::of(line.as_bytes()) == Some(SseField::Data)
    })
}

/// Returns whether Python takes the character for the end of a line.
fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\u{b}'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Builds the error with which a text answers a request.
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

/// Judges a text that answers no request: the response to a notification, or to the opening of a stream. Returns the
/// replacement if the text may not be forwarded.
pub(super) fn judge(now: Timestamp, text: &[u8], arbiter: &mut dyn Arbiter) -> Option<ProxyResponse> {
    let error = error(text);
    let message = String::from_utf8_lossy(text);
    let answer = Answer {
        to: AnsweredRequest {
            what: ClientRequestKind::Other {
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
    match arbiter.decide(&message) {
        Verdict::Block(denial) => Some(ProxyResponse {
            status: 502,
            body: refusal(None, RefusalReason::Answer, &denial.reason).into_bytes(),
        }),
        // A text that is no JSON is not rewritten.
        Verdict::Redact(_) => Some(ProxyResponse {
            status: 502,
            body: refusal(
                None,
                RefusalReason::Answer,
                "the answer of the server holds a secret",
            )
            .into_bytes(),
        }),
        Verdict::Allow | Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Ask(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("data: {}" => true; "an event")]
    #[test_case("x\ndata" => true; "a field without a colon")]
    #[test_case("x\r\ndata:{}\r\n" => true; "behind another line")]
    #[test_case("x\rdata:{}" => true; "behind a carriage return")]
    #[test_case("x\u{b}data:{}" => true; "behind a tab")]
    #[test_case("x\u{c}data:{}" => true; "behind a form feed")]
    #[test_case("x\u{1d}data:{}" => true; "behind a separator")]
    #[test_case("x\u{85}data:{}" => true; "behind a next line")]
    #[test_case("x\u{2028}data:{}" => true; "behind a line separator")]
    #[test_case("\u{feff}data: {}" => true; "behind a byte order mark")]
    #[test_case("\u{ef}\u{bb}\u{bf}data: {}" => true; "behind one that was read as Latin-1")]
    #[test_case("\u{feff}\u{ef}\u{bb}\u{bf}\u{feff}data: {}" => true; "behind several")]
    #[test_case("metadata: none" => false; "the end of a word")]
    #[test_case("database is down" => false; "the begin of a word")]
    #[test_case("no data: x" => false; "in a line")]
    #[test_case("{\n\"data\": 1\n}" => false; "a member")]
    #[test_case("" => false; "nothing")]
    fn events(text: &str) -> bool {
        may_be_events(text.as_bytes())
    }
}
