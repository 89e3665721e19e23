//! Dialects: the behaviour in which the APIs to models differ, and the table of all of them.

use mcpmon_model::Dialect;

use super::{
    ContentJudge, HoldLimits, LlmFault, Stream, anthropic, gemini, ollama, openai_chat, openai_responses,
    request::{BodyShape, PathSuffix, RequestMembers, RequestReader, RequestRoute},
};
use crate::decode::json::Value;

/// An API to models. A new one is a folder with this in it, and its line in the table.
pub(super) trait LlmApi: Sync {
    /// Returns the purpose of a request to this endpoint, if it is one of this API's.
    fn route(&self, endpoint: &PathSuffix<'_>) -> Option<RequestRoute>;

    /// Returns whether the endpoint is one whose request has texts and whose answer can contain no call. It is called
    /// if no API has a route.
    fn takes_texts(&self, _endpoint: &PathSuffix<'_>) -> bool {
        false
    }

    /// Returns how certain it is that a body with an unknown path is a request of this API. It is called in the order
    /// of the table.
    fn shape(&self, members: &RequestMembers<'_>) -> BodyShape;

    /// Returns whether the response is to be a stream, by the member `stream` of the request.
    fn asks_for_stream(&self, stream: Option<Value<'_>>) -> bool {
        stream.is_some_and(Value::is_true)
    }

    /// Returns whether a stream is a JSON text a line, rather than server-sent events.
    fn streams_lines(&self) -> bool {
        false
    }

    /// Reads and judges one request.
    fn request<'t>(&self, root: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault>;

    /// Begins to read a stream.
    fn stream(&self, limits: HoldLimits) -> Box<dyn Stream>;

    /// Filters a whole body. Returns `None` if it is unchanged.
    fn whole(&self, body: &[u8], judge: &mut dyn ContentJudge) -> Result<Option<Vec<u8>>, LlmFault>;

    /// Writes the body of an error answer with this status, around a message that is quoted already.
    fn error(&self, status: u16, quoted: &str) -> String;
}

/// Makes the table: the order is the one in which APIs are asked for a route and for the shape of a body.
macro_rules! dialects {
    ($($dialect:ident => $api:expr,)*) => {
        /// Every API, in the order in which they are asked.
        pub(super) const DIALECTS: [(Dialect, &dyn LlmApi); [$(Dialect::$dialect),*].len()] =
            [$((Dialect::$dialect, &$api)),*];

        /// Returns the API of a dialect.
        pub(super) fn api(dialect: Dialect) -> &'static dyn LlmApi {
            match dialect {
                $(Dialect::$dialect => &$api,)*
            }
        }
    };
}

dialects! {
    Gemini => gemini::Gemini,
    Anthropic => anthropic::Anthropic,
    Ollama => ollama::Ollama,
    OpenaiChat => openai_chat::OpenaiChat,
    OpenaiResponses => openai_responses::OpenaiResponses,
}
