//! `OpenAI` Chat Completions.

use std::borrow::Cow;

use super::{
    openai_tools::tools,
    reading::{Reading, named},
};
use crate::{
    decode::json::Value,
    filter::llm::{Fault, strict},
};

pub(super) fn request<'t>(root: Value<'t>, reading: &mut Reading<'t, '_>) -> Result<(), Fault> {
    if let Some((list, id)) = reading.array(root, "tools")? {
        tools(list, id, None, reading)?;
    }
    if let Some((functions, id)) = reading.array(root, "functions")? {
        for (item, function) in functions.items().enumerate() {
            let name = strict::text(function, "name")?.unwrap_or_default();
            reading.offer(named(name), function, id, item)?;
        }
    }
    if strict::value(root, "web_search_options")?.is_some() {
        reading.hosted(Cow::Borrowed("web_search_options"))?;
    }
    let messages = strict::value(root, "messages")?;
    for message in messages.into_iter().flat_map(Value::items) {
        if let Some(content) = strict::value(message, "content")? {
            reading.content(content, &["text"])?;
        }
    }
    if let Some(prediction) = strict::value(root, "prediction")?
        && let Some(content) = strict::value(prediction, "content")?
    {
        reading.content(content, &["text"])?;
    }
    Ok(())
}
