//! Responses.

mod decode;
mod request;
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

/// The Responses API.
#[derive(Debug)]
pub(super) struct OpenaiResponses;

impl LlmApi for OpenaiResponses {
    fn route(&self, endpoint: &PathSuffix<'_>) -> Option<RequestRoute> {
        match endpoint.lower {
            [.., "responses"] | [.., "responses", "compact"] => {
                Some(RequestRoute::model(Dialect::OpenaiResponses))
            }
            [.., "responses", "input_tokens"] => Some(RequestRoute::Count(Dialect::OpenaiResponses)),
            [.., "responses", _] | [.., "responses", _, "cancel"] => {
                Some(RequestRoute::Stored(Dialect::OpenaiResponses))
            }
            _ => None,
        }
    }

    fn shape(&self, members: &RequestMembers<'_>) -> BodyShape {
        let is_own = ["tools", "instructions", "previous_response_id"]
            .into_iter()
            .any(|name| members.has(name));
        match (members.has("input"), members.has("model"), is_own) {
            (true, _, true) => BodyShape::Sure(Dialect::OpenaiResponses),
            (true, true, false) => BodyShape::Likely(Dialect::OpenaiResponses),
            _ => BodyShape::None,
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
