//! Responses of `OpenAI`'s APIs through the front door: bytes in, bytes and judged calls out.

use mcpmon_model::{Denial, Dialect, Input, LlmMention, Redaction, Verdict};

use crate::llm::{ContentJudge, Framing, HoldLimits, LlmFault, LlmResponse};

pub(in crate::llm) const LIMITS: HoldLimits = HoldLimits {
    max_body: 1 << 16,
    max_event: 1 << 13,
    max_held: 1 << 13,
};

/// Blocks calls whose name or arguments have one of these words in them.
#[derive(Debug, Default)]
pub(in crate::llm) struct Words {
    blocked: Vec<&'static str>,
    /// The judged content: `id name input`, or `> server name input` for a call that was made already.
    pub(in crate::llm) judged: Vec<String>,
}

impl ContentJudge for Words {
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
        let told = match said {
            LlmMention::Call(intent) => {
                let id = intent.id.as_deref().unwrap_or("-");
                format!("{id} {}", shown(intent))
            }
            LlmMention::Called { server, intent } => {
                format!("> {} {}", server.as_deref().unwrap_or("-"), shown(intent))
            }
            LlmMention::Listed { server, tools } => {
                let names: Vec<&str> = tools.iter().map(|tool| &*tool.name.name).collect();
                format!("< {server} {}", names.join(","))
            }
            other @ (LlmMention::Offered(_) | LlmMention::Remote(_) | LlmMention::Hosted { .. }) => {
                format!("{other:?}")
            }
        };
        let hit = self.blocked.iter().any(|word| told.contains(word));
        self.judged.push(told);
        if hit {
            Verdict::Block(denial())
        } else {
            Verdict::Allow
        }
    }

    fn redact(&mut self, _text: &str) -> Vec<Redaction> {
        Vec::new()
    }
}

fn shown(intent: &mcpmon_model::Intent<'_>) -> String {
    let space = intent.name.namespace.as_deref().map(|space| format!("{space}/"));
    let name = format!("{}{}", space.unwrap_or_default(), intent.name.name);
    match &intent.input {
        Input::Json(json) => format!("{name} {}", json.as_str()),
        Input::Text(text) => format!("{name} text {text}"),
        Input::Malformed(text) => format!("{name} malformed {text}"),
    }
}

pub(in crate::llm) fn denial() -> Denial {
    Denial {
        rule: "r".to_owned(),
        reason: "no \"x\"".to_owned(),
        remedy: None,
        event: None,
    }
}

/// The outcome of a filtered response.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::llm) struct OpenaiOutcome {
    pub(in crate::llm) out: String,
    pub(in crate::llm) judged: Vec<String>,
    pub(in crate::llm) fault: Option<LlmFault>,
}

impl OpenaiOutcome {
    /// The JSON of its events.
    pub(in crate::llm) fn events(&self) -> Vec<serde_json::Value> {
        let data = |line: &str| {
            line.strip_prefix("data: ")
                .filter(|data| *data != "[DONE]")
                .map(str::to_owned)
        };
        let lines = self.out.lines().filter_map(data);
        lines.map(|data| serde_json::from_str(&data).unwrap()).collect()
    }
}

/// A response that comes in these chunks.
pub(in crate::llm) fn told<'c>(
    dialect: Dialect,
    framing: Framing,
    blocked: &[&'static str],
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> OpenaiOutcome {
    let mut judge = Words {
        blocked: blocked.to_vec(),
        judged: Vec::new(),
    };
    let mut response = LlmResponse::new(dialect, framing, LIMITS);
    let mut out = Vec::new();
    let mut read = Ok(());
    for chunk in chunks {
        read = read.and_then(|()| response.push(chunk, &mut judge, &mut out));
    }
    read = read.and_then(|()| response.finish(&mut judge, &mut out));
    OpenaiOutcome {
        out: String::from_utf8(out).unwrap(),
        judged: judge.judged,
        fault: read.err(),
    }
}

/// Positions at which a stream is cut: a short stream anywhere, a long one around the ends of its lines and
/// at a few others.
pub(in crate::llm) fn cuts(stream: &str) -> Vec<usize> {
    let bytes = stream.as_bytes();
    let ends_near = |at: usize| bytes[at.saturating_sub(2)..(at + 2).min(bytes.len())].contains(&b'\n');
    let is_cut = |at: &usize| bytes.len() < 1000 || at.is_multiple_of(29) || ends_near(*at);
    (0..bytes.len()).filter(is_cut).collect()
}

/// A stream that comes at once, cut in two, and a byte at a time: all give the same.
pub(in crate::llm) fn streamed(dialect: Dialect, blocked: &[&'static str], stream: &str) -> OpenaiOutcome {
    cut_at(cuts(stream), dialect, blocked, stream)
}

/// The same, cut anywhere.
pub(in crate::llm) fn cut_anywhere(
    dialect: Dialect,
    blocked: &[&'static str],
    stream: &str,
) -> OpenaiOutcome {
    cut_at((0..stream.len()).collect(), dialect, blocked, stream)
}

fn cut_at(cuts: Vec<usize>, dialect: Dialect, blocked: &[&'static str], stream: &str) -> OpenaiOutcome {
    let bytes = stream.as_bytes();
    let whole = told(dialect, Framing::Events, blocked, [bytes]);
    for at in cuts {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(
            whole,
            told(dialect, Framing::Events, blocked, [head, tail]),
            "cut at {at}"
        );
    }
    assert_eq!(
        whole,
        told(dialect, Framing::Events, blocked, bytes.chunks(1)),
        "a byte at a time"
    );
    whole
}

/// A body that comes whole.
pub(in crate::llm) fn whole(dialect: Dialect, blocked: &[&'static str], body: &str) -> OpenaiOutcome {
    told(dialect, Framing::Whole, blocked, [body.as_bytes()])
}
