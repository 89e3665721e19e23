//! Requests: the tools that they offer, the servers and tools that the provider is to use itself, and the texts for the
//! model.
//!
//! Only what a verdict changes is rewritten. What a provider wrote and wants back unchanged stays byte for byte:
//! reasoning and its signatures, signed and encrypted parts, ids; so do images and other blobs.

mod path;
pub(super) mod reading;
mod route;
mod shape;
#[cfg(test)]
mod tests;
mod texts;

use mcpmon_model::Dialect;

pub use self::route::{RequestRoute, asked_by, route};
pub(super) use self::{
    reading::RequestReader,
    route::PathSuffix,
    shape::{BodyShape, RequestMembers},
};
use super::{ContentJudge, LlmFault, dialect::api, strict};
use crate::decode::json::{TextForm, Value};

/// Most requests in one batch.
const MAX_BATCH: usize = 100_000;

/// The result of reading a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// The body for the provider; `None` if it is unchanged.
    pub body: Option<Vec<u8>>,
    /// True if the response is to be a stream. Gemini has this in the path: [`RequestRoute::Model`].
    pub stream: bool,
    /// The model. Gemini has it in the path.
    pub model: Option<String>,
    /// The number of redacted places.
    pub redacted: usize,
}

/// Reads and judges a request.
///
/// # Errors
/// Returns an error if the request may not be forwarded.
pub fn read_request(
    dialect: Dialect,
    body: &[u8],
    judge: &mut dyn ContentJudge,
) -> Result<ReadRequest, LlmFault> {
    read(body, judge, |root, reading, asked| {
        request(dialect, root, reading, asked)
    })
}

/// Reads a request whose answer can contain no call: its texts are redacted.
///
/// # Errors
/// Returns an error if the request may not be forwarded.
pub fn read_texts(body: &[u8], judge: &mut dyn ContentJudge) -> Result<ReadRequest, LlmFault> {
    read(body, judge, |root, reading, _| texts::request(root, reading))
}

/// Reads and judges a batch of requests, each on its own.
///
/// # Errors
/// Returns an error if one of them may not be forwarded.
pub fn read_batch(
    dialect: Dialect,
    body: &[u8],
    judge: &mut dyn ContentJudge,
) -> Result<ReadRequest, LlmFault> {
    read(body, judge, |root, reading, _| {
        let requests = strict::value(root, "requests")?
            .into_iter()
            .flat_map(Value::items);
        for (position, item) in requests.enumerate() {
            if position == MAX_BATCH {
                let cause = format!("more than {MAX_BATCH} requests in one batch");
                return Err(LlmFault::Malformed { cause });
            }
            if let Some(params) = strict::value(item, "params")? {
                request(dialect, params, reading, &mut ReadRequest::default())?;
            }
        }
        Ok(())
    })
}

fn read(
    body: &[u8],
    judge: &mut dyn ContentJudge,
    look: impl for<'t> FnOnce(Value<'t>, &mut RequestReader<'t, '_>, &mut ReadRequest) -> Result<(), LlmFault>,
) -> Result<ReadRequest, LlmFault> {
    strict::read(body, |document, form| {
        let root = document.root();
        if !root.is_object() {
            let cause = "a request is a JSON object".to_owned();
            return Err(LlmFault::Malformed { cause });
        }
        let mut reading = RequestReader::new(judge);
        let mut asked = ReadRequest::default();
        look(root, &mut reading, &mut asked)?;
        let (splices, redacted) = reading.finish();
        asked.redacted = redacted;
        if form == TextForm::Ambiguous || !splices.is_empty() {
            asked.body = Some(splices.apply(document.text()).into_bytes());
        }
        Ok(asked)
    })?
}

/// Reads one request.
fn request<'t>(
    dialect: Dialect,
    root: Value<'t>,
    reading: &mut RequestReader<'t, '_>,
    asked: &mut ReadRequest,
) -> Result<(), LlmFault> {
    let api = api(dialect);
    reading.open(root);
    asked.model = reading.value("model")?.and_then(Value::string).map(Into::into);
    let stream = reading.value("stream")?;
    asked.stream = api.asks_for_stream(stream);
    api.request(root, reading)?;
    reading.close(root)
}
