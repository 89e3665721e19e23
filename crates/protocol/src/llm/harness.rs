//! The harness that runs responses through the filter and returns the outcome.

use mcpmon_model::{Denial, Dialect, Input, Intent, LlmMention, Redaction, Verdict};

use super::{ContentJudge, Framing, HoldLimits, LlmBody, LlmFault, LlmResponse};

/// The outcome of a filtered response.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct FilterOutcome {
    /// The bytes that passed.
    pub(super) out: Vec<u8>,
    /// The judged content.
    pub(super) said: Vec<String>,
    /// The fault that ended it, if one did.
    pub(super) fault: Option<LlmFault>,
}

impl std::fmt::Debug for FilterOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{:?} {:?}", self.text(), self.said, self.fault)
    }
}

impl FilterOutcome {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

/// A judge that blocks the calls of tools by their names, and keeps the judged content.
struct ByName {
    is_blocked: fn(&str) -> bool,
    said: Vec<String>,
}

impl ContentJudge for ByName {
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
        self.said.push(match said {
            LlmMention::Call(call) => format!("call {}", shown(call)),
            LlmMention::Called { server, intent } => format!("called {server:?} {}", shown(intent)),
            other @ (LlmMention::Offered(_)
            | LlmMention::Remote(_)
            | LlmMention::Hosted { .. }
            | LlmMention::Listed { .. }) => {
                format!("{other:?}")
            }
        });
        match said {
            LlmMention::Call(call) | LlmMention::Called { intent: call, .. }
                if (self.is_blocked)(&call.name.name) =>
            {
                Verdict::Block(Denial {
                    rule: "by_name".to_owned(),
                    reason: "not \"now\"".to_owned(),
                    remedy: None,
                    event: None,
                })
            }
            LlmMention::Offered(_)
            | LlmMention::Remote(_)
            | LlmMention::Hosted { .. }
            | LlmMention::Call(_)
            | LlmMention::Called { .. }
            | LlmMention::Listed { .. } => Verdict::Allow,
        }
    }

    fn redact(&mut self, _: &str) -> Vec<Redaction> {
        Vec::new()
    }
}

/// A call on one line, JSON so that it compares however it is written.
fn shown(call: &Intent<'_>) -> String {
    let input = match &call.input {
        Input::Json(json) => serde_json::from_str::<serde_json::Value>(json.as_str())
            .unwrap()
            .to_string(),
        Input::Text(text) => format!("text {text}"),
        Input::Malformed(text) => format!("malformed {text}"),
    };
    let namespace = call.name.namespace.as_ref().map(|space| format!("{space}/"));
    let id = call.id.as_deref().unwrap_or("-");
    format!("{}{} {id} {input}", namespace.unwrap_or_default(), call.name.name)
}

/// Tools whose calls are blocked.
pub(super) fn evil(name: &str) -> bool {
    name.starts_with("evil")
}

pub(super) fn none(_: &str) -> bool {
    false
}

pub(super) fn all(_: &str) -> bool {
    true
}

/// Runs a response that comes in these chunks.
pub(super) fn run<'c>(
    dialect: Dialect,
    framing: Framing,
    limits: HoldLimits,
    chunks: impl IntoIterator<Item = &'c [u8]>,
    is_blocked: fn(&str) -> bool,
) -> FilterOutcome {
    let mut judge = ByName {
        is_blocked,
        said: Vec::new(),
    };
    let mut response = LlmResponse::new(dialect, framing, limits);
    let mut out = Vec::new();
    let mut fault = None;
    for chunk in chunks {
        fault = fault.or_else(|| response.push(chunk, &mut judge, &mut out).err());
    }
    fault = fault.or_else(|| response.finish(&mut judge, &mut out).err());
    FilterOutcome {
        out,
        said: judge.said,
        fault,
    }
}

/// Runs a response at once, a byte at a time, and cut in two at every place: it comes to the same.
pub(super) fn run_anyhow(
    dialect: Dialect,
    framing: Framing,
    response: &[u8],
    is_blocked: fn(&str) -> bool,
) -> FilterOutcome {
    let run = |chunks: Vec<&[u8]>| run(dialect, framing, HoldLimits::default(), chunks, is_blocked);
    let told = run(vec![response]);
    assert_eq!(run(response.chunks(1).collect()), told, "a byte at a time");
    for at in 0..response.len() {
        let (head, tail) = response.split_at(at);
        assert_eq!(run(vec![head, tail]), told, "cut at {at}");
    }
    told
}

/// Returns the number of bytes held after all of this arrived.
pub(super) fn held(dialect: Dialect, framing: Framing, start: &[u8]) -> usize {
    let mut judge = ByName {
        is_blocked: none,
        said: Vec::new(),
    };
    let mut response = LlmResponse::new(dialect, framing, HoldLimits::default());
    response.push(start, &mut judge, &mut Vec::new()).unwrap();
    response.held()
}

/// Returns the allocated bytes that hold nothing, after all of these lines arrived.
pub(super) fn idle(mut response: LlmResponse, lines: &[u8]) -> usize {
    let mut judge = ByName {
        is_blocked: none,
        said: Vec::new(),
    };
    for chunk in lines.chunks(1 << 16) {
        response.push(chunk, &mut judge, &mut Vec::new()).unwrap();
    }
    let LlmBody::Lines(lines, _) = &response.body else {
        panic!("it comes in lines: {response:?}");
    };
    lines.kept() - lines.held()
}
