//! Properties of every request.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

const DIALECTS: [Dialect; 5] = [
    Dialect::Anthropic,
    Dialect::OpenaiChat,
    Dialect::OpenaiResponses,
    Dialect::Gemini,
    Dialect::Ollama,
];

/// Bodies of the names that dialects know, in every wrong place too.
fn bodies() -> impl Strategy<Value = String> {
    let names = select(vec![
        "tools",
        "functionDeclarations",
        "function",
        "name",
        "type",
        "messages",
        "content",
        "contents",
        "parts",
        "text",
        "input",
        "output",
        "system",
        "mcp_servers",
        "tool_choice",
        "request",
        "functionResponse",
        "response",
        "source",
        "thoughtSignature",
        "model",
        "stream",
        "x",
        "Tools",
    ]);
    let texts = select(vec![
        "bad",
        "a",
        "hunter2",
        "function",
        "namespace",
        "text",
        "tool_result",
        "mcp",
        "mcp_toolset",
        "message",
        "\\u0062ad",
        "tool_reference",
        "document",
        "function_call_output",
    ]);
    let leaf = prop_oneof![
        4 => texts.prop_map(|text| format!("\"{text}\"")),
        1 => select(vec!["1", "true", "null", "{}", "[]", " [ ] "]).prop_map(str::to_owned),
    ];
    let value = leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec((names.clone(), inner), 0..5).prop_map(|members| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\":{value}"))
                    .collect();
                format!("{{{}}}", members.join(", "))
            }),
        ]
    });
    vec(
        (
            select(vec![
                "tools",
                "messages",
                "contents",
                "input",
                "request",
                "tool_choice",
            ]),
            value,
        ),
        0..4,
    )
    .prop_map(|members| {
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

/// Allows all.
struct Lenient;

impl ContentJudge for Lenient {
    fn judge(&mut self, _said: &LlmMention<'_>) -> Verdict {
        Verdict::Allow
    }

    fn redact(&mut self, _text: &str) -> Vec<Redaction> {
        Vec::new()
    }
}

proptest! {
    #[test]
    fn what_is_allowed_and_exact_is_not_touched(dialect in select(DIALECTS.to_vec()), body in bodies()) {
        let exact = strict::read(body.as_bytes(), |_, form| form == TextForm::Exact).unwrap();
        if let Ok(asked) = read_request(dialect, body.as_bytes(), &mut Lenient) {
            prop_assert_eq!(asked.body.is_none(), exact);
        }
    }

    #[test]
    fn what_goes_on_is_json_and_offers_nothing_hidden(dialect in select(DIALECTS.to_vec()), body in bodies()) {
        let Ok(asked) = read_request(dialect, body.as_bytes(), &mut Rules::hiding(&["bad"])) else { return Ok(()) };
        let new = asked.body.unwrap_or_else(|| body.clone().into_bytes());
        serde_json::from_slice::<serde_json::Value>(&new).unwrap();
        let mut second = Rules::hiding(&["bad"]);
        let again = read_request(dialect, &new, &mut second).unwrap();
        prop_assert!(again.body.is_none(), "{} became {}", body, String::from_utf8_lossy(&new));
        prop_assert_eq!(again.redacted, 0);
        let mut offered = second.heard.iter().filter_map(|heard| heard.strip_prefix("offered "));
        prop_assert!(!offered.any(|names| names.split(' ').any(|name| name == "bad")));
        prop_assert!(!second.read.iter().any(|text| text.contains(SECRET)));
    }

    #[test]
    fn nothing_makes_it_panic(dialect in select(DIALECTS.to_vec()), body in vec(any::<u8>(), 0..64), path in "\\PC{0,24}") {
        drop(read_request(dialect, &body, &mut Lenient));
        drop(read_batch(dialect, &body, &mut Lenient));
        drop(route("POST", &path, &body));
    }
}
