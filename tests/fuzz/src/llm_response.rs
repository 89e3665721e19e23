//! The filter of model responses: its output has no call that was not judged, with any chunks.

use mcpmon_model::{Denial, Dialect, Input, Intent, LlmMention, Redaction, Verdict};
use mcpmon_protocol::llm::{ContentJudge, Framing, HoldLimits, LlmFault, LlmResponse};

const LIMITS: HoldLimits = HoldLimits {
    max_body: 4096,
    max_event: 1024,
    max_held: 1024,
};

/// Runs a response of Anthropic Messages.
pub fn fuzz_llm_anthropic(data: &[u8]) {
    holds(Dialect::Anthropic, data);
}

/// Runs a response of Chat Completions.
pub fn fuzz_llm_openai_chat(data: &[u8]) {
    holds(Dialect::OpenaiChat, data);
}

/// Runs a response of Responses.
pub fn fuzz_llm_openai_responses(data: &[u8]) {
    holds(Dialect::OpenaiResponses, data);
}

/// Runs a response of Gemini.
pub fn fuzz_llm_gemini(data: &[u8]) {
    holds(Dialect::Gemini, data);
}

/// Runs a response of Ollama.
pub fn fuzz_llm_ollama(data: &[u8]) {
    holds(Dialect::Ollama, data);
}

/// Runs a response. The first two bytes choose the framing and the size of chunks.
///
/// Checks that the outcome does not depend on the chunks; that arguments which are handed out as JSON are JSON; that no
/// more is held than allowed; that the output has no call if every call is blocked, and only the allowed ones if some
/// are; and that the output passes the filter again unchanged.
fn holds(dialect: Dialect, data: &[u8]) {
    let [framing, size, response @ ..] = data else {
        return;
    };
    let framing = match framing % 2 {
        0 => Framing::Whole,
        _ => streamed(dialect),
    };
    let size = usize::from(*size) + 1;
    for is_blocked in [none, some, all] {
        let told = run(LIMITS, dialect, framing, response, usize::MAX, is_blocked);
        assert_eq!(run(LIMITS, dialect, framing, response, size, is_blocked), told);
        // The filter's own messages can be longer than the blocked calls that they replace.
        if told.out.len() > LIMITS.max_event {
            continue;
        }
        let again = run(LIMITS, dialect, framing, &told.out, usize::MAX, none);
        if told.fault.is_none() {
            assert_eq!(again.fault, None, "{}", told.out.escape_ascii());
            let (twice, once) = (again.out.escape_ascii(), told.out.escape_ascii());
            let is_same = lines(dialect, &again.out) == lines(dialect, &told.out);
            assert!(is_same, "{twice}\nis not\n{once}");
        }
        for call in again.calls {
            let judged = told.calls.contains(&call);
            assert!(judged && !call.1, "{call:?}: {}", told.out.escape_ascii());
        }
    }
}

/// Returns the framing of a dialect's stream; no other framing is tested.
pub(crate) const fn streamed(dialect: Dialect) -> Framing {
    match dialect {
        Dialect::Ollama => Framing::Lines,
        Dialect::Anthropic | Dialect::OpenaiChat | Dialect::OpenaiResponses | Dialect::Gemini => {
            Framing::Events
        }
    }
}

/// Returns the output line by line, sorted if a text may overtake a held call.
pub(crate) fn lines(dialect: Dialect, out: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = out.split_inclusive(|byte| *byte == b'\n').collect();
    if matches!(dialect, Dialect::Anthropic | Dialect::OpenaiChat) {
        lines.sort_unstable();
    }
    lines
}

/// The outcome of a filtered response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) out: Vec<u8>,
    /// The judged calls, each with whether it was blocked.
    pub(crate) calls: Vec<(String, bool)>,
    pub(crate) fault: Option<LlmFault>,
}

struct Script {
    is_blocked: fn(&str) -> bool,
    calls: Vec<(String, bool)>,
}

impl ContentJudge for Script {
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
        let call = match said {
            LlmMention::Call(call) => call,
            LlmMention::Called { intent, .. } => {
                check(intent);
                return Verdict::Allow;
            }
            LlmMention::Offered(_)
            | LlmMention::Remote(_)
            | LlmMention::Hosted { .. }
            | LlmMention::Listed { .. } => {
                return Verdict::Allow;
            }
        };
        let input = check(call);
        let is_blocked = (self.is_blocked)(&call.name.name);
        let told = format!("{:?} {:?} {input}", call.name, call.id);
        self.calls.push((told, is_blocked));
        if is_blocked {
            return Verdict::Block(Denial {
                rule: "all".to_owned(),
                reason: "nothing \u{2028} is \"allowed\"".to_owned(),
                remedy: None,
                event: None,
            });
        }
        Verdict::Allow
    }

    fn redact(&mut self, _: &str) -> Vec<Redaction> {
        Vec::new()
    }
}

/// Checks that JSON handed to the judge is JSON for serde_json too, and returns the arguments in one spelling.
fn check(call: &Intent<'_>) -> String {
    match &call.input {
        Input::Json(json) => match serde_json::from_str::<serde_json::Value>(json.as_str()) {
            Ok(value) => value.to_string(),
            Err(error) => panic!("{error}: {}", json.as_str()),
        },
        Input::Text(text) | Input::Malformed(text) => format!("{text:?}"),
    }
}

pub(crate) fn run(
    limits: HoldLimits,
    dialect: Dialect,
    framing: Framing,
    bytes: &[u8],
    size: usize,
    is_blocked: fn(&str) -> bool,
) -> Told {
    let mut judge = Script {
        is_blocked,
        calls: Vec::new(),
    };
    let mut response = LlmResponse::new(dialect, framing, limits);
    let mut out = Vec::new();
    let mut fault = None;
    for chunk in bytes.chunks(size) {
        fault = fault.or_else(|| response.push(chunk, &mut judge, &mut out).err());
        assert!(response.held() <= limits.max_body.max(limits.max_event + limits.max_held));
    }
    fault = fault.or_else(|| response.finish(&mut judge, &mut out).err());
    Told {
        out,
        calls: judge.calls,
        fault,
    }
}

pub(crate) fn none(_: &str) -> bool {
    false
}

pub(crate) fn some(name: &str) -> bool {
    name.len().is_multiple_of(2)
}

pub(crate) fn all(_: &str) -> bool {
    true
}
