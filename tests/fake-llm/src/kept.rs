//! Responses that a provider keeps: what goes on by the id of one has to answer every call in it.

use std::collections::BTreeMap;

use serde_json::Value;

/// Responses by their ids.
#[derive(Debug, Default)]
pub(crate) struct Kept(BTreeMap<String, Response>);

#[derive(Debug)]
struct Response {
    /// Ids of the calls in it.
    calls: Vec<String>,
    /// The number of turns of the conversation that called tools, this one included.
    turns: usize,
}

impl Kept {
    /// Returns the number of turns that called tools before this request.
    ///
    /// # Errors
    ///
    /// Returns an error if it continues an unknown response, or leaves a call unanswered, in the provider's
    /// words.
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

    /// Keeps a response with these calls, behind so many turns with calls.
    pub(crate) fn keep(&mut self, id: String, calls: Vec<String>, before: usize) {
        let turns = before + usize::from(!calls.is_empty());
        self.0.insert(id, Response { calls, turns });
    }
}
