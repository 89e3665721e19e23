//! `OpenAI` Responses.

use crate::{
    decode::json::{Member, Value, ValueKind},
    llm::{
        LlmFault,
        openai::tools::tools,
        openai_responses::rewrite::answer,
        request::reading::{EmptyListTreatment, RequestReader},
        strict,
    },
};

/// Types of parts that are texts.
const TEXTS: [&str; 3] = ["input_text", "output_text", "text"];

pub(in crate::llm) fn request(reading: &mut RequestReader<'_, '_>) -> Result<(), LlmFault> {
    if let Some((list, id)) = reading.array("tools")? {
        tools(list, id, None, reading)?;
    }
    reading.text_of_request("instructions")?;
    answer_left_out(reading)?;
    if let Some(input) = reading.value("input")? {
        reading.text(input);
        for item in input.items() {
            self::item(item, reading)?;
        }
    }
    if let Some(prompt) = reading.value("prompt")?
        && let Some(variables) = strict::value(prompt, "variables")?
    {
        for variable in variables.members() {
            reading.text(variable.value);
            reading.text_of(variable.value, "text")?;
        }
    }
    Ok(())
}

/// Answers those calls of the previous response that the agent never saw, because the provider requires an answer.
fn answer_left_out(reading: &mut RequestReader<'_, '_>) -> Result<(), LlmFault> {
    let before = reading.value("previous_response_id")?.and_then(Value::string);
    let (Some(before), Some(last)) = (before, reading.root().last().copied()) else {
        return Ok(());
    };
    let mut unanswered = reading.unanswered(&before);
    for item in reading.value("input")?.into_iter().flat_map(Value::items) {
        let call_id = strict::text(item, "call_id")?;
        unanswered.retain(|call| call_id.as_deref() != Some(&*call.call_id));
    }
    if unanswered.is_empty() {
        return Ok(());
    }
    let answers: Vec<String> = unanswered.iter().map(answer).collect();
    let answers = answers.join(",");
    let is_input = |member: &&Member<'_>| strict::stands_for(member.name, "input");
    let Some(input) = reading.root().iter().find(is_input).copied() else {
        // The text goes after the last member: text before the first one would be removed together with it.
        let end = last.value.range().end;
        reading.put(end..end, format!(",\"input\":[{answers}]"));
        return Ok(());
    };
    let place = input.value.range();
    match input.value.kind() {
        ValueKind::Array => {
            let comma = if input.value.items().next().is_some() {
                ","
            } else {
                ""
            };
            reading.put(place.start..place.start + 1, format!("[{answers}{comma}"));
        }
        ValueKind::String => {
            // A plain text is a message of the user.
            let message = "{\"type\":\"message\",\"role\":\"user\",\"content\":";
            reading.put(
                input.start..place.start,
                format!("\"input\":[{answers},{message}"),
            );
            reading.put(place.end..place.end, "}]");
        }
        ValueKind::Null => reading.put(place, format!("[{answers}]")),
        // The provider refuses such an input.
        ValueKind::Object | ValueKind::Boolean | ValueKind::Number => {}
    }
    Ok(())
}

/// Reads an item of a conversation. Items that the provider wrote itself stay unchanged.
fn item<'t>(item: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    let kind = strict::text(item, "type")?;
    match kind.as_deref().unwrap_or("message") {
        "message" => match strict::value(item, "content")? {
            Some(content) => reading.content(content, &TEXTS),
            None => Ok(()),
        },
        // Codex offers its tools in such an item.
        "additional_tools" | "tool_search_output" => match strict::value(item, "tools")? {
            Some(found) => {
                let list = reading.items(found, EmptyListTreatment::Nobody)?;
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
        "function_call" => reading.arguments_of(item, "arguments"),
        "custom_tool_call" => reading.arguments_of(item, "input"),
        // The commands of a shell, and a patch.
        "local_shell_call" | "shell_call" => reading.arguments_of(item, "action"),
        "apply_patch_call" => reading.arguments_of(item, "operation"),
        "mcp_approval_response" => reading.text_of(item, "reason"),
        kind if kind.ends_with("_output") => match strict::value(item, "output")? {
            Some(output) => reading.content(output, &TEXTS),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}
