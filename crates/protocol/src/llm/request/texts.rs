//! Requests whose answers can carry no call: plain completions, embeddings, moderation, ranking, pictures, speech.

use super::reading::RequestReader;
use crate::{
    decode::json::Value,
    llm::{LlmFault, gemini::request::content, strict},
};

/// Members that are texts, or lists of texts and of parts with texts.
const TEXTS: [&str; 8] = [
    "prompt",
    "suffix",
    "input",
    "query",
    "documents",
    "texts",
    "instructions",
    "title",
];
/// Parts that are a text.
const PARTS: [&str; 2] = ["text", "input_text"];

pub(super) fn request<'t>(root: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    reading.open(root);
    one(root, reading)?;
    // Gemini takes several at once.
    for item in strict::value(root, "requests")?
        .into_iter()
        .flat_map(Value::items)
    {
        one(item, reading)?;
    }
    reading.close(root)
}

fn one<'t>(request: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    for name in TEXTS {
        if let Some(value) = strict::value(request, name)? {
            reading.content(value, &PARTS)?;
        }
    }
    if let Some(value) = strict::value(request, "content")? {
        content(value, reading)?;
    }
    Ok(())
}
