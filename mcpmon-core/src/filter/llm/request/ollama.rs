//! Ollama: `/api/chat` and `/api/generate`.

use super::{openai_tools::tools, reading::Reading};
use crate::{
    decode::json::Value,
    filter::llm::{Fault, strict},
};

pub(super) fn request<'t>(root: Value<'t>, reading: &mut Reading<'t, '_>) -> Result<(), Fault> {
    if let Some((list, id)) = reading.array(root, "tools")? {
        tools(list, id, None, reading)?;
    }
    for name in ["prompt", "system", "suffix"] {
        reading.text_of(root, name)?;
    }
    let messages = strict::value(root, "messages")?;
    for message in messages.into_iter().flat_map(Value::items) {
        reading.text_of(message, "content")?;
    }
    Ok(())
}
