//! Ollama: `/api/chat` and `/api/generate`.

use super::{openai_chat::tool_calls, openai_tools::tools, reading::RequestReader};
use crate::{decode::json::Value, filter::llm::LlmFault};

pub(super) fn request(reading: &mut RequestReader<'_, '_>) -> Result<(), LlmFault> {
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
