//! Gemini: `generateContent` and its streams.

pub(super) mod request;
mod stream;

use mcpmon_model::Dialect;

use crate::{
    decode::json::Value,
    llm::{
        ContentJudge, HoldLimits, LlmFault, Stream,
        dialect::LlmApi,
        request::{BodyShape, PathSuffix, RequestMembers, RequestReader, RequestRoute},
    },
};

/// The `generateContent` API.
#[derive(Debug)]
pub(super) struct Gemini;

impl LlmApi for Gemini {
    fn route(&self, endpoint: &PathSuffix<'_>) -> Option<RequestRoute> {
        let (_, verb) = endpoint.verb()?;
        Some(match verb {
            "generatecontent" | "streamgeneratecontent" => RequestRoute::Model {
                dialect: Dialect::Gemini,
                stream: verb == "streamgeneratecontent" && endpoint.path.asks("alt", "sse"),
                model: endpoint.model(),
            },
            "counttokens" => RequestRoute::Count(Dialect::Gemini),
            "embedcontent" | "batchembedcontents" => RequestRoute::Texts(Dialect::Gemini),
            _ => return None,
        })
    }

    fn shape(&self, members: &RequestMembers<'_>) -> BodyShape {
        match members.has("contents") && !members.has("messages") {
            true => BodyShape::Sure(Dialect::Gemini),
            false => BodyShape::None,
        }
    }

    fn asks_for_stream(&self, _stream: Option<Value<'_>>) -> bool {
        false
    }

    fn request<'t>(&self, root: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
        request::request(root, reading)
    }

    fn stream(&self, limits: HoldLimits) -> Box<dyn Stream> {
        Box::new(stream::StreamReader::new(limits))
    }

    fn whole(&self, body: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<Vec<u8>>, LlmFault> {
        stream::whole(body, judge)
    }

    fn error(&self, status: u16, quoted: &str) -> String {
        let kind = error_kind(status);
        format!(r#"{{"error":{{"code":{status},"message":{quoted},"status":"{kind}"}}}}"#)
    }
}

/// Returns the name of Google's canonical code for a status.
const fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}
