//! Responses that a provider keeps: a request that continues one of them by its id has to answer every call in it.

use std::collections::BTreeMap;

use serde_json::Value;

/// Responses by their ids.
#[derive(Debug, Default)]
pub(crate) struct Kept(BTreeMap<String, Response>);

#[derive(Debug)]
struct Response {
    /// Ids of the calls in the response.
    calls: Vec<String>,
    /// The number of turns of the conversation that called tools, including this one.
    turns: usize,
}

impl Kept {
    /// Returns the number of turns that called tools before this request.
    ///
    /// # Errors
    ///
    /// Returns an error in the provider's words if the request continues an unknown response, or leaves a call
    /// unanswered.
    pub(crate) fn before(&self, body: &Value) -> Result<usize, String> {
        let Some(id) = body["previous_response_id"].as_str() else {
            return Ok(0);
        };
        let Some(response) = self.0.get(id) else {
            return Err(format!("Previous response with id '{id}' not found."));
        };
        let is_answer = |item: &Value, call: &str| {
            item["type"] == "function_call_output" && item["call_id"].as_str() == Some(call)
        };
        let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
        let is_open = |call: &&String| !items.iter().any(|item| is_answer(item, call));
        match response.calls.iter().find(is_open) {
            Some(call) => Err(format!("No tool output found for function call {call}.")),
            None => Ok(response.turns),
        }
    }

    /// Keeps a response with these calls; `before` is the number of earlier turns that called tools.
    pub(crate) fn keep(&mut self, id: String, calls: Vec<String>, before: usize) {
        let turns = before + usize::from(!calls.is_empty());
        self.0.insert(id, Response { calls, turns });
    }
}
