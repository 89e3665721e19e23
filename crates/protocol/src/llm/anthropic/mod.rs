//! Anthropic Messages.

mod decode;
pub(super) mod request;
mod rewrite;
mod stream;

use mcpmon_model::Dialect;

use crate::{
    decode::json::Value,
    llm::{
        ContentJudge, HoldLimits, LlmFault, Stream,
        dialect::LlmApi,
        request::{BodyShape, PathSuffix, RequestMembers, RequestReader, RequestRoute},
        strict::stands_for,
    },
};

/// Members that only this API has.
const OWN_MEMBERS: [&str; 5] = [
    "system",
    "anthropic_version",
    "stop_sequences",
    "thinking",
    "mcp_servers",
];

/// Most messages, blocks and tools that are read to recognise the API.
const LOOKED_AT: usize = 64;

/// The Messages API.
#[derive(Debug)]
pub(super) struct Anthropic;

impl LlmApi for Anthropic {
    fn route(&self, endpoint: &PathSuffix<'_>) -> Option<RequestRoute> {
        let lower = endpoint.lower;
        if let Some((name, verb)) = endpoint.verb() {
            // Google's cloud serves it below the names of models.
            let is_anthropic = lower.contains(&"anthropic") || name.starts_with("claude");
            return match verb {
                "rawpredict" if name == "count-tokens" => Some(RequestRoute::Count(Dialect::Anthropic)),
                "rawpredict" | "streamrawpredict" if is_anthropic => Some(RequestRoute::Model {
                    dialect: Dialect::Anthropic,
                    stream: false,
                    model: endpoint.model(),
                }),
                _ => None,
            };
        }
        Some(match lower {
            [.., "messages"] => RequestRoute::model(Dialect::Anthropic),
            [.., "messages", "count_tokens"] => RequestRoute::Count(Dialect::Anthropic),
            [.., "messages", "batches"] => RequestRoute::Batch(Dialect::Anthropic),
            [.., "messages", "batches", _, "results"] => RequestRoute::Results(Dialect::Anthropic),
            _ => return None,
        })
    }

    fn shape(&self, members: &RequestMembers<'_>) -> BodyShape {
        let Some(messages) = members.list("messages") else {
            return BodyShape::None;
        };
        let is_sure = OWN_MEMBERS.into_iter().any(|name| members.has(name))
            || members.find("tools").is_some_and(has_input_schema)
            || has_blocks(messages);
        match is_sure {
            true => BodyShape::Sure(Dialect::Anthropic),
            false => BodyShape::None,
        }
    }

    fn request<'t>(&self, _root: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
        request::request(reading)
    }

    fn stream(&self, limits: HoldLimits) -> Box<dyn Stream> {
        Box::new(stream::StreamReader::new(limits))
    }

    fn whole(&self, body: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<Vec<u8>>, LlmFault> {
        stream::whole(body, judge)
    }

    fn error(&self, status: u16, quoted: &str) -> String {
        let kind = error_kind(status);
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":{quoted}}}}}"#)
    }
}

const fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
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
