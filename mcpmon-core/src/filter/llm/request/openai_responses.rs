//! `OpenAI` Responses.

use super::{
    openai_tools::tools,
    reading::{Owner, Reading},
};
use crate::{
    decode::json::Value,
    filter::llm::{Fault, strict},
};

/// Parts that are a text.
const TEXTS: [&str; 3] = ["input_text", "output_text", "text"];

pub(super) fn request<'t>(root: Value<'t>, reading: &mut Reading<'t, '_>) -> Result<(), Fault> {
    if let Some((list, id)) = reading.array(root, "tools")? {
        tools(list, id, None, reading)?;
    }
    reading.text_of(root, "instructions")?;
    if let Some(input) = strict::value(root, "input")? {
        reading.text(input);
        for item in input.items() {
            self::item(item, reading)?;
        }
    }
    if let Some(prompt) = strict::value(root, "prompt")?
        && let Some(variables) = strict::value(prompt, "variables")?
    {
        for variable in variables.members() {
            reading.text(variable.value);
            reading.text_of(variable.value, "text")?;
        }
    }
    Ok(())
}

/// An item of a conversation. Those that the provider wrote itself stay as they are.
fn item<'t>(item: Value<'t>, reading: &mut Reading<'t, '_>) -> Result<(), Fault> {
    let kind = strict::text(item, "type")?;
    match kind.as_deref().unwrap_or("message") {
        "message" => match strict::value(item, "content")? {
            Some(content) => reading.content(content, &TEXTS),
            None => Ok(()),
        },
        // Codex offers its tools there.
        "additional_tools" | "tool_search_output" => match strict::value(item, "tools")? {
            Some(found) => {
                let list = reading.items(found, Owner::Nobody)?;
                tools(found, list, None, reading)
            }
            None => Ok(()),
        },
        "shell_call_output" => {
            for output in strict::value(item, "output")?.into_iter().flat_map(Value::items) {
                reading.text_of(output, "stdout")?;
                reading.text_of(output, "stderr")?;
            }
            reading.text_of(item, "output")
        }
        "mcp_approval_response" => reading.text_of(item, "reason"),
        kind if kind.ends_with("_output") => match strict::value(item, "output")? {
            Some(output) => reading.content(output, &TEXTS),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}
