//! The shape of a body whose path is unknown.

use mcpmon_model::Dialect;

use crate::{
    decode::json::{Value, ValueKind},
    filter::llm::strict::{self, stands_for},
};

/// Most messages, blocks and tools that are looked at to tell two dialects apart.
const LOOKED_AT: usize = 64;

/// The certainty that a body is a request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyShape {
    /// The body is a request of this dialect.
    Sure(Dialect),
    /// The body is a request of this dialect, or a request to embed or to moderate.
    Likely(Dialect),
    /// The body is not a request to a model.
    None,
}

/// Returns the shape of a body.
pub(super) fn shape(body: &[u8]) -> BodyShape {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return BodyShape::None;
    }
    strict::read(body, |document, _| of(document.root())).unwrap_or(BodyShape::None)
}

fn of(root: Value<'_>) -> BodyShape {
    let find = |name: &str| {
        let member = root.members().find(|member| stands_for(member.name, name));
        member.map(|member| member.value)
    };
    let has = |name: &str| find(name).is_some();
    let is_list = |value: &Value<'_>| value.kind() == ValueKind::Array;
    if find("contents").is_some() && !has("messages") {
        return BodyShape::Sure(Dialect::Gemini);
    }
    if let Some(messages) = find("messages").filter(is_list) {
        let is_anthropic = [
            "system",
            "anthropic_version",
            "stop_sequences",
            "thinking",
            "mcp_servers",
        ]
        .into_iter()
        .any(has)
            || find("tools").is_some_and(has_input_schema)
            || has_blocks(messages);
        return match is_anthropic {
            true => BodyShape::Sure(Dialect::Anthropic),
            false if has("options") || has("keep_alive") => BodyShape::Sure(Dialect::Ollama),
            false => BodyShape::Sure(Dialect::OpenaiChat),
        };
    }
    match (
        has("input"),
        has("model"),
        has("tools") || has("instructions") || has("previous_response_id"),
    ) {
        (true, _, true) => BodyShape::Sure(Dialect::OpenaiResponses),
        (true, true, false) => BodyShape::Likely(Dialect::OpenaiResponses),
        _ => BodyShape::None,
    }
}

fn has_input_schema(tools: Value<'_>) -> bool {
    let mut members = tools.items().take(LOOKED_AT).flat_map(Value::members);
    members.any(|member| stands_for(member.name, "input_schema"))
}

/// Returns whether a message has a block in it that only Anthropic knows.
fn has_blocks(messages: Value<'_>) -> bool {
    let contents = messages
        .items()
        .take(LOOKED_AT)
        .filter_map(|message| message.member("content"));
    let mut types = contents
        .flat_map(|content| content.items().take(LOOKED_AT))
        .filter_map(|block| block.member("type")?.string());
    types.any(|kind| {
        matches!(
            &*kind,
            "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document"
        )
    })
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(r#"{"model":"m","messages":[]}"# => BodyShape::Sure(Dialect::OpenaiChat); "messages")]
    #[test_case(r#"{"Messages":[{"role":"user"}]}"# => BodyShape::Sure(Dialect::OpenaiChat); "messages in another spelling")]
    #[test_case(r#"{"model":"m","messages":[],"system":"s"}"# => BodyShape::Sure(Dialect::Anthropic); "messages and a system prompt")]
    #[test_case(r#"{"messages":[],"tools":[{"name":"a","input_schema":{}}]}"# => BodyShape::Sure(Dialect::Anthropic); "tools of Anthropic")]
    #[test_case(r#"{"messages":[{"content":[{"type":"tool_result"}]}]}"# => BodyShape::Sure(Dialect::Anthropic); "blocks of Anthropic")]
    #[test_case(r#"{"messages":[{"content":"x"}],"options":{}}"# => BodyShape::Sure(Dialect::Ollama); "options of Ollama")]
    #[test_case(r#"{"contents":[{"parts":[]}]}"# => BodyShape::Sure(Dialect::Gemini); "contents")]
    #[test_case(r#" {"model":"m","input":[],"tools":[]}"# => BodyShape::Sure(Dialect::OpenaiResponses); "input and tools")]
    #[test_case(r#"{"model":"m","input":"x"}"# => BodyShape::Likely(Dialect::OpenaiResponses); "input")]
    #[test_case(r#"{"input":"x"}"# => BodyShape::None; "input alone")]
    #[test_case(r#"{"messages":1}"# => BodyShape::None; "messages that are none")]
    #[test_case("{\"messages\":[]" => BodyShape::None; "no JSON")]
    #[test_case("[]" => BodyShape::None; "a list")]
    #[test_case("" => BodyShape::None; "nothing")]
    fn shapes(body: &str) -> BodyShape {
        shape(body.as_bytes())
    }
}
