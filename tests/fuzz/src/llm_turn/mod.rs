//! One answer of a model, as a whole and as a stream, in the form of each API: the policy leaves the same of both.

mod tell;

use mcpmon_model::Dialect;
use mcpmon_protocol::llm::{Framing, HoldLimits};
use serde_json::{Value, json};

use crate::llm_response::{Told, all, lines, none, run, some, streamed};

const DIALECTS: [Dialect; 5] = [
    Dialect::Anthropic,
    Dialect::OpenaiChat,
    Dialect::OpenaiResponses,
    Dialect::Gemini,
    Dialect::Ollama,
];

/// The largest number of items in an answer, which fits the bounds.
const MAX_PARTS: usize = 4;
const MAX_LENGTH: usize = 24;

/// An item of an answer.
#[derive(Debug)]
pub(crate) enum Item {
    Text(String),
    Call { name: String, id: String, input: Value },
}

/// Runs one answer in the form of every API. The first byte chooses the length of the pieces of a stream, the second
/// one the size of chunks. Each line is a text or, if it begins with `!`, a call.
///
/// Checks that every byte stays if everything is allowed, though a text can overtake a call in front of it; that the
/// judged calls are those of the answer, both as a whole and in a stream; and that the same calls are left of both
/// forms.
pub fn fuzz_llm_turn(data: &[u8]) {
    let [piece, size, script @ ..] = data else {
        return;
    };
    let (piece, size) = (usize::from(*piece) % MAX_LENGTH + 1, usize::from(*size) + 1);
    let items: Vec<Item> = script
        .split(|byte| *byte == b'\n')
        .take(MAX_PARTS)
        .enumerate()
        .map(|(at, line)| Item::of(at, line))
        .collect();
    for dialect in DIALECTS {
        let whole = tell::whole(dialect, &items);
        let stream = tell::stream(dialect, &items, piece);
        let framing = streamed(dialect);
        for is_blocked in [none, some, all] {
            let told = |framing, text: &str| {
                let cut = |size| {
                    run(
                        HoldLimits::default(),
                        dialect,
                        framing,
                        text.as_bytes(),
                        size,
                        is_blocked,
                    )
                };
                let told = cut(usize::MAX);
                assert_eq!(cut(size), told);
                assert_eq!(told.fault, None, "{dialect:?}: {text}");
                if told.calls.iter().all(|(_, is_blocked)| !is_blocked) {
                    let is_same = lines(dialect, &told.out) == lines(dialect, text.as_bytes());
                    assert!(is_same, "{}\nis not\n{text}", told.out.escape_ascii());
                }
                told
            };
            let (whole, stream) = (told(Framing::Whole, &whole), told(framing, &stream));
            let calls = items.iter().filter(|item| matches!(item, Item::Call { .. }));
            assert_eq!(whole.calls.len(), calls.count(), "{dialect:?}");
            assert_eq!(whole.calls, stream.calls, "{dialect:?}");
            let left = left(dialect, Framing::Whole, &whole);
            assert_eq!(left, self::left(dialect, framing, &stream), "{dialect:?}");
            let allowed = whole.calls.iter().filter(|(_, is_blocked)| !is_blocked);
            assert!(allowed.eq(&left), "{dialect:?}: {}", whole.out.escape_ascii());
        }
    }
}

/// Returns the calls that an agent finds in the output.
fn left(dialect: Dialect, framing: Framing, told: &Told) -> Vec<(String, bool)> {
    let again = run(
        HoldLimits::default(),
        dialect,
        framing,
        &told.out,
        usize::MAX,
        none,
    );
    assert_eq!(again.fault, None, "{}", told.out.escape_ascii());
    again.calls
}

impl Item {
    fn of(at: usize, line: &[u8]) -> Self {
        // Characters that end a line for some readers are left out, because they are escaped where lines count.
        let is_plain = |c: &char| !c.is_control() && !('\u{2028}'..='\u{2029}').contains(c);
        let text: String = String::from_utf8_lossy(line)
            .chars()
            .filter(is_plain)
            .take(MAX_LENGTH)
            .collect();
        match text.strip_prefix('!') {
            None => Self::Text(text),
            Some(call) => Self::Call {
                name: format!("t{}", "x".repeat(call.len() % 3)),
                id: format!("call_{at}"),
                input: match call.len() % 4 {
                    0 => json!({}),
                    1 => json!({"text": call, "n": [at, 1.5, null]}),
                    _ => json!({"text": call}),
                },
            },
        }
    }
}
