//! Ollama: `/api/chat` and `/api/generate`.

use crate::{
    decode::json::Value,
    llm::{
        LlmFault, openai::tools::tools, openai_chat::request::tool_calls, request::reading::RequestReader,
    },
};

pub(in crate::llm) fn request(reading: &mut RequestReader<'_, '_>) -> Result<(), LlmFault> {
    if let Some((list, id)) = reading.array("tools")? {
        tools(list, id, None, reading)?;
    }
    for name in ["prompt", "system", "suffix"] {
        reading.text_of_request(name)?;
    }
    let messages = reading.value("messages")?;
    for message in messages.into_iter().flat_map(Value::items) {
        reading.text_of(message, "content")?;
        tool_calls(message, reading)?;
    }
    Ok(())
}
