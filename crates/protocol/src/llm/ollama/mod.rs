//! Ollama: `/api/chat` and `/api/generate`.

mod request;
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

/// The API of Ollama.
#[derive(Debug)]
pub(super) struct Ollama;

impl LlmApi for Ollama {
    fn route(&self, endpoint: &PathSuffix<'_>) -> Option<RequestRoute> {
        match endpoint.lower {
            [.., "api", "chat" | "generate"] => Some(RequestRoute::model(Dialect::Ollama)),
            [.., "api", "embed" | "embeddings"] => Some(RequestRoute::Texts(Dialect::Ollama)),
            _ => None,
        }
    }

    fn shape(&self, members: &RequestMembers<'_>) -> BodyShape {
        let is_own = members.has("options") || members.has("keep_alive");
        match members.list("messages") {
            Some(_) if is_own => BodyShape::Sure(Dialect::Ollama),
            _ => BodyShape::None,
        }
    }

    fn asks_for_stream(&self, stream: Option<Value<'_>>) -> bool {
        stream.is_none_or(Value::is_true)
    }

    fn streams_lines(&self) -> bool {
        true
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

    fn error(&self, _status: u16, quoted: &str) -> String {
        format!(r#"{{"error":{quoted}}}"#)
    }
}
