//! The shape of a body whose path is unknown.

use mcpmon_model::Dialect;

use crate::{
    decode::json::{Value, ValueKind},
    llm::{dialect::DIALECTS, strict, strict::stands_for},
};

/// The certainty that a body is a request to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::llm) enum BodyShape {
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

/// The members of a request, by any spelling that some server would take for the name.
#[derive(Clone, Copy, Debug)]
pub(in crate::llm) struct RequestMembers<'t>(Value<'t>);

impl<'t> RequestMembers<'t> {
    /// Returns the value of a member.
    pub(in crate::llm) fn find(&self, name: &str) -> Option<Value<'t>> {
        let member = self.0.members().find(|member| stands_for(member.name, name));
        member.map(|member| member.value)
    }

    /// Returns whether there is a member.
    pub(in crate::llm) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the value of a member that is a list.
    pub(in crate::llm) fn list(&self, name: &str) -> Option<Value<'t>> {
        self.find(name).filter(|value| value.kind() == ValueKind::Array)
    }
}

fn of(root: Value<'_>) -> BodyShape {
    let members = RequestMembers(root);
    let mut shapes = DIALECTS.iter().map(|(_, api)| api.shape(&members));
    shapes
        .find(|shape| *shape != BodyShape::None)
        .unwrap_or(BodyShape::None)
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
