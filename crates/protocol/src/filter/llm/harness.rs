//! Runs responses through the filter and tells what came of it.

use mcpmon_model::{Denial, Dialect, Input, Intent, Redaction, Spoken, Verdict};

use super::{Body, Fault, Framing, Judge, Limits, Response};

/// The outcome of a filtered response.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct FilterOutcome {
    /// The bytes that passed.
    pub(super) out: Vec<u8>,
    /// The judged content.
    pub(super) said: Vec<String>,
    /// The fault that ended it, if one did.
    pub(super) fault: Option<Fault>,
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

/// Blocks the calls of tools by their names, and keeps what was said.
struct ByName {
    is_blocked: fn(&str) -> bool,
    said: Vec<String>,
}

impl Judge for ByName {
    fn judge(&mut self, said: &Spoken<'_>) -> Verdict {
        self.said.push(match said {
            Spoken::Call(call) => format!("call {}", shown(call)),
            Spoken::Called { server, intent } => format!("called {server:?} {}", shown(intent)),
            other @ (Spoken::Offered(_)
            | Spoken::Remote(_)
            | Spoken::Hosted { .. }
            | Spoken::Listed { .. }) => {
                format!("{other:?}")
            }
        });
        match said {
            Spoken::Call(call) | Spoken::Called { intent: call, .. }
                if (self.is_blocked)(&call.name.name) =>
            {
                Verdict::Block(Denial {
                    rule: "by_name".to_owned(),
                    reason: "not \"now\"".to_owned(),
                    remedy: None,
                    event: None,
                })
            }
            Spoken::Offered(_)
            | Spoken::Remote(_)
            | Spoken::Hosted { .. }
            | Spoken::Call(_)
            | Spoken::Called { .. }
            | Spoken::Listed { .. } => Verdict::Allow,
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
    limits: Limits,
    chunks: impl IntoIterator<Item = &'c [u8]>,
    is_blocked: fn(&str) -> bool,
) -> FilterOutcome {
    let mut judge = ByName {
        is_blocked,
        said: Vec::new(),
    };
    let mut response = Response::new(dialect, framing, limits);
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
    let run = |chunks: Vec<&[u8]>| run(dialect, framing, Limits::default(), chunks, is_blocked);
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
    let mut response = Response::new(dialect, framing, Limits::default());
    response.push(start, &mut judge, &mut Vec::new()).unwrap();
    response.held()
}

/// Returns the allocated bytes that hold nothing, after all of these lines arrived.
pub(super) fn idle(mut response: Response, lines: &[u8]) -> usize {
    let mut judge = ByName {
        is_blocked: none,
        said: Vec::new(),
    };
    for chunk in lines.chunks(1 << 16) {
        response.push(chunk, &mut judge, &mut Vec::new()).unwrap();
    }
    let Body::Lines(lines, _) = &response.body else {
        panic!("it comes in lines: {response:?}");
    };
    lines.kept() - lines.held()
}
