//! The framing of a response: the way it is cut into pieces.

use mcpmon_model::Dialect;

use super::{LlmFault, dialect::api};

/// The way a response is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The body is not read: the response is not a success, and no SDK looks for a call in it.
    Unread,
    /// Not at all: one JSON text.
    Whole,
    /// Server-sent events.
    Events,
    /// A JSON text a line.
    Lines,
}

impl Framing {
    /// Returns the framing of a response with this status and content type, for an SDK that asked for a
    /// stream or for a whole response. A Gemini stream that was not requested as events is one JSON text, and
    /// so not a stream here.
    ///
    /// Some SDKs read what they requested, whatever the content type; others follow the content type. So both have to
    /// agree, or the text is read in a way in which neither finds a call that the other does not: a strict JSON text
    /// contains no event.
    ///
    /// # Errors
    ///
    /// Returns an error if they do not agree, and each could find a call that the other does not.
    pub fn of(
        dialect: Dialect,
        asked_stream: bool,
        status: u16,
        content_type: Option<&str>,
    ) -> Result<Self, LlmFault> {
        if !(200..300).contains(&status) {
            return Ok(Self::Unread);
        }
        let told = content_type.map(ContentType::of);
        match (asked_stream, api(dialect).streams_lines(), told) {
            (false, _, Some(ContentType::Events)) => Err(disagreement("a JSON text", content_type)),
            (false, _, _) => Ok(Self::Whole),
            (true, true, Some(ContentType::Events)) => Err(disagreement("a JSON text a line", content_type)),
            (true, true, _) => Ok(Self::Lines),
            (true, false, Some(ContentType::Json)) => Ok(Self::Whole),
            (true, false, Some(ContentType::Events) | None) => Ok(Self::Events),
            (true, false, Some(ContentType::Other)) => Err(disagreement("a stream of events", content_type)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentType {
    Json,
    Events,
    Other,
}

impl ContentType {
    fn of(value: &str) -> Self {
        let essence = value.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("text/event-stream") {
            Self::Events
        } else if essence.eq_ignore_ascii_case("application/json") {
            Self::Json
        } else {
            Self::Other
        }
    }
}

fn disagreement(asked: &str, content_type: Option<&str>) -> LlmFault {
    let told = content_type.unwrap_or_default();
    LlmFault::malformed(format_args!(
        "{asked} was asked for, and the provider answered with '{told}'"
    ))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::{
        super::{
            HoldLimits,
            harness::{all, held, run},
        },
        *,
    };

    #[test]
    fn what_is_no_success_passes_at_once() {
        let page: &[u8] = b"<html>{\"content\":[{\"type\":\"tool_use\"";
        let told = run(
            Dialect::Anthropic,
            Framing::Unread,
            HoldLimits::default(),
            page.chunks(3),
            all,
        );
        assert_eq!(
            (told.out.as_slice(), told.said.len(), told.fault),
            (page, 0, None)
        );
        assert_eq!(held(Dialect::Anthropic, Framing::Unread, page), 0);
    }

    #[test_case(Dialect::Anthropic, false, 200, Some("application/json") => "Whole"; "json")]
    #[test_case(Dialect::Anthropic, false, 201, None => "Whole"; "no type")]
    #[test_case(Dialect::Anthropic, false, 200, Some("text/plain") => "Whole"; "json that is called text")]
    #[test_case(Dialect::OpenaiChat, false, 200, Some("text/event-stream") => "a JSON text was asked for, and the provider answered with 'text/event-stream'"; "a stream that nobody asked for")]
    #[test_case(Dialect::OpenaiChat, true, 200, Some("Text/Event-Stream; charset=utf-8") => "Events"; "events")]
    #[test_case(Dialect::OpenaiResponses, true, 200, None => "Events"; "events without a type")]
    #[test_case(Dialect::Gemini, true, 200, Some("application/json; charset=UTF-8") => "Whole"; "json in place of a stream")]
    #[test_case(Dialect::Anthropic, true, 200, Some("application/vnd.amazon.eventstream") => "a stream of events was asked for, and the provider answered with 'application/vnd.amazon.eventstream'"; "another stream")]
    #[test_case(Dialect::Anthropic, true, 200, Some("application/x-ndjson") => "a stream of events was asked for, and the provider answered with 'application/x-ndjson'"; "lines in place of events")]
    #[test_case(Dialect::Ollama, true, 200, Some("application/x-ndjson") => "Lines"; "lines")]
    #[test_case(Dialect::Ollama, true, 200, Some("application/json") => "Lines"; "a line")]
    #[test_case(Dialect::Ollama, true, 200, Some("text/event-stream") => "a JSON text a line was asked for, and the provider answered with 'text/event-stream'"; "events in place of lines")]
    #[test_case(Dialect::Anthropic, true, 529, Some("application/json") => "Unread"; "an error")]
    #[test_case(Dialect::Anthropic, false, 302, Some("text/event-stream") => "Unread"; "a redirection")]
    fn framings(dialect: Dialect, asked_stream: bool, status: u16, content_type: Option<&str>) -> String {
        match Framing::of(dialect, asked_stream, status, content_type) {
            Ok(framing) => format!("{framing:?}"),
            Err(LlmFault::Malformed { cause }) => cause,
            Err(fault) => fault.to_string(),
        }
    }
}
