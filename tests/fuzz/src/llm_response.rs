//! The filter of model responses: what it lets go on holds no call that was not judged, however it is cut.

use mcpmon_core::{
    filter::llm::{Fault, Framing, Judge, Limits, Response},
    model::{Denial, Dialect, Input, Intent, Redaction, Spoken, Verdict},
};

const LIMITS: Limits = Limits {
    max_body: 4096,
    max_event: 1024,
    max_held: 1024,
};

const DIALECTS: [Dialect; 5] = [
    Dialect::Anthropic,
    Dialect::OpenaiChat,
    Dialect::OpenaiResponses,
    Dialect::Gemini,
    Dialect::Ollama,
];

const FRAMINGS: [Framing; 3] = [Framing::Whole, Framing::Events, Framing::Lines];

/// Runs a response. The first three bytes choose the dialect, the framing, and the size of chunks.
///
/// Chunks do not matter; what is handed out as JSON is JSON; no more is held than allowed; where every call is blocked,
/// no call is found in what went on, and where some are, only those that were allowed.
pub fn fuzz_llm_response(data: &[u8]) {
    let [dialect, framing, size, response @ ..] = data else {
        return;
    };
    let dialect = DIALECTS[usize::from(*dialect) % DIALECTS.len()];
    let framing = FRAMINGS[usize::from(*framing) % FRAMINGS.len()];
    let size = usize::from(*size) + 1;
    for is_blocked in [none, some, all] {
        let told = run(dialect, framing, response, usize::MAX, is_blocked);
        assert_eq!(run(dialect, framing, response, size, is_blocked), told);
        // What is ours is longer than what it stands for.
        if told.out.len() > LIMITS.max_event {
            continue;
        }
        let again = run(dialect, framing, &told.out, usize::MAX, none);
        for call in again.calls {
            let judged = told.calls.contains(&call);
            assert!(judged && !call.1, "{call:?}: {}", told.out.escape_ascii());
        }
    }
}

/// What came of a response.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    out: Vec<u8>,
    /// The calls that were judged, and whether they were blocked.
    calls: Vec<(String, bool)>,
    fault: Option<Fault>,
}

struct Script {
    is_blocked: fn(&str) -> bool,
    calls: Vec<(String, bool)>,
}

impl Judge for Script {
    fn judge(&mut self, said: &Spoken<'_>) -> Verdict {
        let call = match said {
            Spoken::Call(call) => call,
            Spoken::Called { intent, .. } => {
                check(intent);
                return Verdict::Allow;
            }
            Spoken::Offered(_) | Spoken::Remote(_) | Spoken::Hosted { .. } | Spoken::Listed { .. } => {
                return Verdict::Allow;
            }
        };
        check(call);
        let is_blocked = (self.is_blocked)(&call.name.name);
        self.calls.push((format!("{:?}", call.name), is_blocked));
        if is_blocked {
            return Verdict::Block(Denial {
                rule: "all".to_owned(),
                reason: "nothing \u{2028} is \"allowed\"".to_owned(),
                remedy: None,
            });
        }
        Verdict::Allow
    }

    fn redact(&mut self, _: &str) -> Vec<Redaction> {
        Vec::new()
    }
}

/// What is handed out as JSON is JSON, to serde_json too.
fn check(call: &Intent<'_>) {
    if let Input::Json(json) = &call.input {
        let value = serde_json::from_str::<serde_json::Value>(json.as_str());
        assert!(value.is_ok(), "{}", json.as_str());
    }
}

fn run(dialect: Dialect, framing: Framing, bytes: &[u8], size: usize, is_blocked: fn(&str) -> bool) -> Told {
    let mut judge = Script {
        is_blocked,
        calls: Vec::new(),
    };
    let mut response = Response::new(dialect, framing, LIMITS);
    let mut out = Vec::new();
    let mut fault = None;
    for chunk in bytes.chunks(size) {
        fault = fault.or_else(|| response.push(chunk, &mut judge, &mut out).err());
        assert!(response.held() <= LIMITS.max_body.max(LIMITS.max_event + LIMITS.max_held));
    }
    fault = fault.or_else(|| response.finish(&mut judge, &mut out).err());
    Told {
        out,
        calls: judge.calls,
        fault,
    }
}

fn none(_: &str) -> bool {
    false
}

fn some(name: &str) -> bool {
    name.len().is_multiple_of(2)
}

fn all(_: &str) -> bool {
    true
}
