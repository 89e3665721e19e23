//! `OpenAI` Chat Completions.

use std::borrow::Cow;

use crate::{
    decode::json::Value,
    llm::{
        LlmFault,
        openai::tools::tools,
        request::reading::{RequestReader, named},
        strict,
    },
};

pub(in crate::llm) fn request(reading: &mut RequestReader<'_, '_>) -> Result<(), LlmFault> {
    if let Some((list, id)) = reading.array("tools")? {
        tools(list, id, None, reading)?;
    }
    if let Some((functions, id)) = reading.array("functions")? {
        for (item, function) in functions.items().enumerate() {
            let name = strict::text(function, "name")?.unwrap_or_default();
            reading.offer(named(name), function, id, item)?;
        }
    }
    if reading.value("web_search_options")?.is_some() {
        reading.hosted(Cow::Borrowed("web_search_options"))?;
    }
    let messages = reading.value("messages")?;
    for message in messages.into_iter().flat_map(Value::items) {
        if let Some(content) = strict::value(message, "content")? {
            reading.content(content, &["text"])?;
        }
        called(message, reading)?;
    }
    if let Some(prediction) = reading.value("prediction")?
        && let Some(content) = strict::value(prediction, "content")?
    {
        reading.content(content, &["text"])?;
    }
    Ok(())
}

/// Reads the calls of a message.
fn called<'t>(message: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    if let Some(call) = strict::value(message, "function_call")? {
        reading.arguments_of(call, "arguments")?;
    }
    tool_calls(message, reading)
}

/// Reads the calls of a message, in the form that Ollama shares.
pub(in crate::llm) fn tool_calls<'t>(
    message: Value<'t>,
    reading: &mut RequestReader<'t, '_>,
) -> Result<(), LlmFault> {
    for call in strict::value(message, "tool_calls")?
        .into_iter()
        .flat_map(Value::items)
    {
        for (kind, given) in [("function", "arguments"), ("custom", "input")] {
            if let Some(called) = strict::value(call, kind)? {
                reading.arguments_of(called, given)?;
            }
        }
    }
    Ok(())
}
