//! The purpose of a request: derived from its path and its body, never from a header.

use std::borrow::Cow;

use mcpmon_model::Dialect;

use super::{
    path::Path,
    shape::{BodyShape, shape},
};
use crate::llm::dialect::{DIALECTS, LlmApi};

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestRoute {
    /// A request for a model's answer: [`super::read_request`] reads it, and [`super::super::LlmResponse`] the
    /// response.
    Model {
        /// The API.
        dialect: Dialect,
        /// True if the path says that the response is a stream of events.
        stream: bool,
        /// The model, if the path names it.
        model: Option<String>,
    },
    /// A request that only asks for the length of such a request: texts leave the host, and no call comes back.
    Count(Dialect),
    /// A request with texts for a model whose answer can contain no call: [`super::read_texts`] reads it.
    Texts(Dialect),
    /// Many requests at once, answered later: [`super::read_batch`] reads them.
    Batch(Dialect),
    /// An answer that the provider stored: the response is as for [`Self::Model`].
    Stored(Dialect),
    /// The answers to a batch, one per line: the response is [`super::super::LlmResponse::of_batch`].
    Results(Dialect),
    /// A known request that can contain no call.
    Plain,
    /// An unknown request: the policy decides whether it passes.
    Unknown,
}

/// Returns the purpose of a request. `target` is its path with its query.
///
/// A path that some server would take for an endpoint counts as that endpoint, with any prefix and in any spelling.
pub fn route(method: &str, target: &str, body: &[u8]) -> RequestRoute {
    let known = known(&Path::read(target));
    let has_body = !body.trim_ascii().is_empty();
    match known {
        Some(RequestRoute::Model { .. } | RequestRoute::Count(_) | RequestRoute::Batch(_)) if !has_body => {
            without_body(method)
        }
        Some(RequestRoute::Stored(dialect) | RequestRoute::Results(dialect)) if is_sure(body) => {
            RequestRoute::model(dialect)
        }
        Some(RequestRoute::Texts(_)) if !has_body => RequestRoute::Plain,
        Some(route @ (RequestRoute::Plain | RequestRoute::Texts(_))) => match shape(body) {
            BodyShape::Sure(dialect) => RequestRoute::model(dialect),
            BodyShape::Likely(_) | BodyShape::None => route,
        },
        Some(route) => route,
        None => match shape(body) {
            BodyShape::Sure(dialect) | BodyShape::Likely(dialect) => RequestRoute::model(dialect),
            BodyShape::None if !has_body && is_preflight(method) => RequestRoute::Plain,
            BodyShape::None => RequestRoute::Unknown,
        },
    }
}

/// Returns the API of a path, if it is that of an API: errors are answered in the format of this API, even without a
/// body.
pub fn asked_by(target: &str) -> Option<Dialect> {
    match known(&Path::read(target))? {
        RequestRoute::Model { dialect, .. }
        | RequestRoute::Count(dialect)
        | RequestRoute::Texts(dialect)
        | RequestRoute::Batch(dialect)
        | RequestRoute::Stored(dialect)
        | RequestRoute::Results(dialect) => Some(dialect),
        RequestRoute::Plain | RequestRoute::Unknown => None,
    }
}

/// Returns the route for a path, both as written and as resolved.
fn known(path: &Path) -> Option<RequestRoute> {
    let as_is = endpoint(&path.as_is, path);
    match (as_is, &path.resolved) {
        (
            as_is @ (Some(RequestRoute::Plain | RequestRoute::Texts(_) | RequestRoute::Unknown) | None),
            Some(resolved),
        ) => endpoint(resolved, path).or(as_is),
        (as_is, _) => as_is,
    }
}

fn is_sure(body: &[u8]) -> bool {
    matches!(shape(body), BodyShape::Sure(_))
}

impl RequestRoute {
    /// Returns the route of a request for an answer whose path says nothing else.
    pub(in crate::llm) const fn model(dialect: Dialect) -> Self {
        Self::Model {
            dialect,
            stream: false,
            model: None,
        }
    }
}

fn is_preflight(method: &str) -> bool {
    method.eq_ignore_ascii_case("OPTIONS") || method.eq_ignore_ascii_case("HEAD")
}

/// Returns the route of a request without a body, to an endpoint that requires one.
fn without_body(method: &str) -> RequestRoute {
    if is_preflight(method) {
        RequestRoute::Plain
    } else {
        RequestRoute::Unknown
    }
}

fn lower_case(segment: &str) -> Cow<'_, str> {
    let is_lower = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    match segment.bytes().all(is_lower) {
        true => Cow::Borrowed(segment),
        false => Cow::Owned(segment.to_lowercase()),
    }
}

/// The end of a path, by which APIs recognise it.
#[derive(Clone, Copy, Debug)]
pub(in crate::llm) struct PathSuffix<'p> {
    /// The segments in lower case.
    pub(in crate::llm) lower: &'p [&'p str],
    /// The segments as they are spelled.
    segments: &'p [String],
    /// The whole path.
    pub(in crate::llm) path: &'p Path,
}

impl<'p> PathSuffix<'p> {
    /// Returns the model and the verb at the end of Google's endpoints: `model:verb`, in lower case.
    pub(in crate::llm) fn verb(&self) -> Option<(&'p str, &'p str)> {
        self.lower.last()?.rsplit_once(':')
    }

    /// Returns the model before the verb, as it is spelled.
    pub(in crate::llm) fn model(&self) -> Option<String> {
        let (name, _) = self.segments.last()?.rsplit_once(':')?;
        Some(name.to_owned())
    }

    /// Returns the purpose of a request to this endpoint.
    fn route(&self) -> Option<RequestRoute> {
        let own = |(_, api): &(Dialect, &dyn LlmApi)| api.route(self);
        let texts = |(dialect, api): &(Dialect, &dyn LlmApi)| {
            api.takes_texts(self).then_some(RequestRoute::Texts(*dialect))
        };
        self.unread_or_plain()
            .or_else(|| DIALECTS.iter().find_map(own))
            .or_else(|| self.unread_answer())
            .or_else(|| DIALECTS.iter().find_map(texts))
            .or_else(|| is_plain(self.lower).then_some(RequestRoute::Plain))
    }

    /// Returns the purpose if the end of the path could be taken for that of another endpoint.
    fn unread_or_plain(&self) -> Option<RequestRoute> {
        match self.verb().map(|(_, verb)| verb) {
            Some("computetokens" | "predict" | "predictlongrunning") => return Some(RequestRoute::Plain),
            Some("batchgeneratecontent" | "generateanswer" | "bidigeneratecontent") => {
                return Some(RequestRoute::Unknown);
            }
            _ => {}
        }
        let is_unread = matches!(
            self.lower,
            [.., "threads", _, "messages"] | [.., "chat", "completions", _, "messages"]
        );
        is_unread.then_some(RequestRoute::Unknown)
    }

    /// Returns the purpose if answers can contain calls in forms that are not read here.
    fn unread_answer(&self) -> Option<RequestRoute> {
        let is_unread = matches!(
            self.lower,
            [.., "converse" | "converse-stream" | "interactions"]
                | [.., "interactions", _]
                | [.., "files", _, "content"]
        );
        is_unread.then_some(RequestRoute::Unknown)
    }
}

/// Returns the route for the end of a path.
fn endpoint(segments: &[String], path: &Path) -> Option<RequestRoute> {
    let lower: Vec<Cow<'_, str>> = segments.iter().map(|segment| lower_case(segment)).collect();
    let lower: Vec<&str> = lower.iter().map(|segment| &**segment).collect();
    let endpoint = PathSuffix {
        lower: &lower,
        segments,
        path,
    };
    endpoint.route()
}

/// Returns whether an endpoint of a provider can contain no call.
fn is_plain(lower: &[&str]) -> bool {
    match lower {
        [.., "api", last] => OLLAMA.contains(last),
        [.., "api", "blobs", _] => true,
        [.., "messages", "batches", _] | [.., "messages", "batches", _, "cancel"] => true,
        [.., "images" | "audio", _] => true,
        [.., last] if COLLECTIONS.contains(last) => true,
        [.., collection, _] if COLLECTIONS.contains(collection) => true,
        [.., "batches" | "uploads", _, "cancel" | "complete" | "parts"] => true,
        _ => false,
    }
}

const OLLAMA: [&str; 9] = [
    "tags", "show", "ps", "pull", "push", "create", "copy", "delete", "version",
];

const COLLECTIONS: [&str; 8] = [
    "models",
    "embeddings",
    "moderations",
    "completions",
    "files",
    "batches",
    "uploads",
    "rerank",
];

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// A body that no API recognises.
    const BODY: &str = r#"{"x":1}"#;

    /// A body of a request for a model's answer.
    const CHAT: &str = r#"{"model":"m","messages":[]}"#;

    fn said(route: &RequestRoute) -> String {
        match route {
            RequestRoute::Model {
                dialect,
                stream,
                model,
            } => {
                let stream = if *stream { " as events" } else { "" };
                let model = model
                    .as_deref()
                    .map_or(String::new(), |model| format!(" {model}"));
                format!("{}{model}{stream}", dialect.as_str())
            }
            RequestRoute::Count(dialect) => format!("count {}", dialect.as_str()),
            RequestRoute::Texts(dialect) => format!("texts {}", dialect.as_str()),
            RequestRoute::Batch(dialect) => format!("batch {}", dialect.as_str()),
            RequestRoute::Stored(dialect) => format!("stored {}", dialect.as_str()),
            RequestRoute::Results(dialect) => format!("results {}", dialect.as_str()),
            RequestRoute::Plain => "plain".to_owned(),
            RequestRoute::Unknown => "unknown".to_owned(),
        }
    }

    #[test_case("/v1/messages" => "anthropic"; "anthropic")]
    #[test_case("/v1/messages?beta=true" => "anthropic"; "anthropic beta")]
    #[test_case("/pfx/token/v1/messages" => "anthropic"; "a prefix")]
    #[test_case("//v1//messages/" => "anthropic"; "slashes")]
    #[test_case("/V1/Messages" => "anthropic"; "upper case")]
    #[test_case("/v1/mess%61ges" => "anthropic"; "an escape")]
    #[test_case("/v1%2fmessages" => "anthropic"; "an escaped slash")]
    #[test_case("/v1/%256dessages" => "anthropic"; "an escaped escape")]
    #[test_case("/v1/models/../messages" => "anthropic"; "two dots")]
    #[test_case("/v1/models/..%2fmessages" => "anthropic"; "two dots and an escaped slash")]
    #[test_case("/v1/messages/." => "anthropic"; "a dot at the end")]
    #[test_case("/v1/messages;v=1" => "anthropic"; "a parameter")]
    #[test_case("/v1/messages%00" => "anthropic"; "a null at the end")]
    #[test_case("/v1/messages%3fx" => "anthropic"; "an escaped query")]
    #[test_case("/v1\\messages" => "anthropic"; "a backslash")]
    #[test_case("http://localhost:1/v1/messages" => "anthropic"; "the absolute form")]
    #[test_case("/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict" => "anthropic claude-x"; "anthropic on Vertex")]
    #[test_case("/v1/messages/count_tokens" => "count anthropic"; "anthropic counts")]
    #[test_case("/v1/messages/batches" => "batch anthropic"; "an anthropic batch")]
    #[test_case("/v1/messages/batches/b1/results" => "results anthropic"; "results of an anthropic batch")]
    #[test_case("/v1/messages/batches/b1/cancel" => "plain"; "the end of an anthropic batch")]
    #[test_case("/v1/chat/completions" => "openai_chat"; "chat")]
    #[test_case("/openai/deployments/d/chat/completions?api-version=1" => "openai_chat"; "chat on Azure")]
    #[test_case("/v1beta/openai/chat/completions" => "openai_chat"; "chat at Google")]
    #[test_case("/v1/chat/completions/c1" => "stored openai_chat"; "a chat that was kept")]
    #[test_case("/v1/responses" => "openai_responses"; "responses")]
    #[test_case("/v1/responses/compact" => "openai_responses"; "a conversation made shorter")]
    #[test_case("/v1/responses/input_tokens" => "count openai_responses"; "responses count")]
    #[test_case("/v1/responses/r1?stream=true" => "stored openai_responses"; "a response that was kept")]
    #[test_case("/v1/responses/r1/cancel" => "stored openai_responses"; "a response that is ended")]
    #[test_case("/v1beta/models/gemini-x:generateContent" => "gemini gemini-x"; "gemini")]
    #[test_case("/v1alpha/models/gemini-x%3AstreamGenerateContent?alt=sse" => "gemini gemini-x as events"; "gemini streams")]
    #[test_case("/v1beta/models/gemini-x:streamGenerateContent" => "gemini gemini-x"; "gemini streams an array")]
    #[test_case("/v1/projects/p/locations/l/publishers/google/models/Gemini-X:GENERATECONTENT" => "gemini Gemini-X"; "gemini on Vertex")]
    #[test_case("/v1internal:streamGenerateContent?alt=sse" => "gemini v1internal as events"; "Code Assist")]
    #[test_case("/v1beta/models/gemini-x:countTokens" => "count gemini"; "gemini counts")]
    #[test_case("/v1beta/models/gemini-x:embedContent" => "texts gemini"; "gemini embeds")]
    #[test_case("/v1beta/models/gemini-x:batchGenerateContent" => "unknown"; "a gemini batch")]
    #[test_case("/api/chat" => "ollama"; "ollama")]
    #[test_case("/ollama/api/generate/" => "ollama"; "ollama generates")]
    #[test_case("/api/tags" => "plain"; "models of ollama")]
    #[test_case("/v1/models" => "plain"; "models")]
    #[test_case("/v1/models/claude-x" => "plain"; "a model")]
    #[test_case("/v1/embeddings" => "texts openai_chat"; "embeddings")]
    #[test_case("/openai/deployments/d/embeddings?api-version=1" => "texts openai_chat"; "embeddings on Azure")]
    #[test_case("/v1/completions" => "texts openai_chat"; "a plain completion")]
    #[test_case("/v1/images/generations" => "texts openai_chat"; "a picture")]
    #[test_case("/v1/images/edits" => "plain"; "a picture that is sent")]
    #[test_case("/api/embed" => "texts ollama"; "ollama embeds")]
    #[test_case("/v1/files/f1/content" => "unknown"; "a file that can be a batch's answers")]
    #[test_case("/v1/threads/t1/messages" => "unknown"; "threads")]
    #[test_case("/v1beta/interactions" => "unknown"; "interactions")]
    #[test_case("/model/m/converse-stream" => "unknown"; "Bedrock's own")]
    #[test_case("/v1/messages/.." => "unknown"; "two dots at the end")]
    #[test_case("/anything" => "unknown"; "anything")]
    fn paths(target: &str) -> String {
        said(&route("POST", target, BODY.as_bytes()))
    }

    #[test_case("/anthropic/v1/messages" => Some(Dialect::Anthropic); "anthropic")]
    #[test_case("/s/token/gemini/v1beta/models/m:generateContent" => Some(Dialect::Gemini); "gemini of a session")]
    #[test_case("/ollama/api/chat" => Some(Dialect::Ollama); "ollama")]
    #[test_case("/v1/responses/r1?stream=true" => Some(Dialect::OpenaiResponses); "a response that was kept")]
    #[test_case("/v1/models" => None; "models")]
    #[test_case("/anything" => None; "anything")]
    fn apis(target: &str) -> Option<Dialect> {
        asked_by(target)
    }

    #[test_case("POST", "/anything", CHAT => "openai_chat"; "on a path that is not known")]
    #[test_case("PUT", "/anything", CHAT => "openai_chat"; "by another method")]
    #[test_case("GET", "/anything", CHAT => "openai_chat"; "by a method without a body")]
    #[test_case("POST", "/v1/models", CHAT => "openai_chat"; "on a path for something else")]
    #[test_case("POST", "/v1/responses/r1", CHAT => "openai_responses"; "on a path of something kept")]
    #[test_case("POST", "/v1/messages", CHAT => "anthropic"; "the path says more than the body")]
    #[test_case("POST", "/converse", CHAT => "unknown"; "on a path with answers of its own")]
    #[test_case("POST", "/v1/embeddings", r#"{"model":"m","input":"x"}"# => "texts openai_chat"; "input that is embedded")]
    #[test_case("POST", "/v1/completions", r#"{"model":"m","prompt":"x"}"# => "texts openai_chat"; "a prompt that is completed")]
    #[test_case("POST", "/v1/completions", CHAT => "openai_chat"; "a chat on the path for plain completions")]
    #[test_case("POST", "/v1/embeddings", "" => "plain"; "an upload to be embedded")]
    #[test_case("POST", "/anything", r#"{"model":"m","input":"x"}"# => "openai_responses"; "input elsewhere")]
    #[test_case("POST", "/v1beta/cachedContents", r#"{"contents":[],"tools":[]}"# => "gemini"; "contents to keep")]
    #[test_case("POST", "/model/m/invoke", r#"{"anthropic_version":"x","messages":[]}"# => "anthropic"; "Bedrock")]
    #[test_case("GET", "/v1/responses", "" => "unknown"; "no body")]
    #[test_case("HEAD", "/v1/messages", "" => "plain"; "only whether it is there")]
    #[test_case("OPTIONS", "/anything", "" => "plain"; "only what may be asked")]
    #[test_case("GET", "/anything", "" => "unknown"; "nothing that is known")]
    #[test_case("GET", "/v1/responses/r1", "" => "stored openai_responses"; "a response that was kept")]
    #[test_case("GET", "/v1/models", "" => "plain"; "models")]
    fn bodies(method: &str, target: &str, body: &str) -> String {
        said(&route(method, target, body.as_bytes()))
    }
}
