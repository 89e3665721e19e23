//! Chat Completions, by which many providers are spoken to.

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
        openai,
        request::{BodyShape, PathSuffix, RequestMembers, RequestReader, RequestRoute},
    },
};

/// The Chat Completions API.
#[derive(Debug)]
pub(super) struct OpenaiChat;

impl LlmApi for OpenaiChat {
    fn route(&self, endpoint: &PathSuffix<'_>) -> Option<RequestRoute> {
        match endpoint.lower {
            [.., "chat", "completions"] => Some(RequestRoute::model(Dialect::OpenaiChat)),
            [.., "chat", "completions", _] => Some(RequestRoute::Stored(Dialect::OpenaiChat)),
            _ => None,
        }
    }

    fn takes_texts(&self, endpoint: &PathSuffix<'_>) -> bool {
        matches!(
            endpoint.lower,
            [.., "completions" | "embeddings" | "moderations" | "rerank"]
                | [.., "images", "generations"]
                | [.., "audio", "speech"]
        )
    }

    fn shape(&self, members: &RequestMembers<'_>) -> BodyShape {
        match members.list("messages") {
            Some(_) => BodyShape::Sure(Dialect::OpenaiChat),
            None => BodyShape::None,
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
        openai::error(status, quoted)
    }
}
