//! Gemini `generateContent`.

use std::borrow::Cow;

use mcpmon_model::ProviderServer;

use crate::{
    decode::json::Value,
    llm::{
        LlmFault,
        request::reading::{EmptyListTreatment, ListId, RequestReader, named},
        strict,
    },
};

/// Members that a request lies in: of Google's Code Assist, and of a request to count.
const WRAPPINGS: [&str; 2] = ["request", "generateContentRequest"];

pub(in crate::llm) fn request<'t>(
    root: Value<'t>,
    reading: &mut RequestReader<'t, '_>,
) -> Result<(), LlmFault> {
    contents(reading)?;
    for wrapping in WRAPPINGS {
        if let Some(inner) = strict::value(root, wrapping)?.filter(|inner| inner.is_object()) {
            reading.close(root)?;
            reading.open(inner);
            contents(reading)?;
            reading.close(inner)?;
            reading.open(root);
        }
    }
    Ok(())
}

fn contents(reading: &mut RequestReader<'_, '_>) -> Result<(), LlmFault> {
    if let Some((tools, list)) = reading.array("tools")? {
        for (item, tool) in tools.items().enumerate() {
            let members = reading.members(tool, EmptyListTreatment::Item(list, item));
            self::tool(tool, members, reading)?;
        }
    }
    for name in ["systemInstruction", "contents"] {
        if let Some(value) = reading.value(name)? {
            content(value, reading)?;
            for item in value.items() {
                content(item, reading)?;
            }
        }
    }
    Ok(())
}

/// Reads a tool, which has members for several: functions of the agent, and tools of the provider.
fn tool<'t>(tool: Value<'t>, list: ListId, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    for (position, member) in tool.members().enumerate() {
        if strict::stands_for(member.name, "functionDeclarations") {
            let functions = reading.items(member.value, EmptyListTreatment::Item(list, position))?;
            for (item, function) in member.value.items().enumerate() {
                let name = strict::text(function, "name")?.unwrap_or_default();
                reading.offer(named(name), function, functions, item)?;
            }
        } else if strict::stands_for(member.name, "mcpServers") {
            for server in member.value.items() {
                reading.remote(remote(server)?)?;
            }
        } else if !member.value.is_null() {
            reading.hosted(Cow::Borrowed(member.name))?;
        }
    }
    Ok(())
}

fn remote(server: Value<'_>) -> Result<ProviderServer<'_>, LlmFault> {
    let url = match strict::value(server, "streamableHttpTransport")? {
        Some(transport) => strict::text(transport, "url")?,
        None => None,
    };
    Ok(ProviderServer {
        label: strict::text(server, "name")?.unwrap_or_default(),
        url,
        tools: None,
    })
}

pub(in crate::llm) fn content<'t>(
    content: Value<'t>,
    reading: &mut RequestReader<'t, '_>,
) -> Result<(), LlmFault> {
    reading.text(content);
    let parts = strict::value(content, "parts")?;
    for part in parts.into_iter().flat_map(Value::items) {
        self::part(part, reading)?;
    }
    Ok(())
}

fn part<'t>(part: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    if let Some(response) = strict::value(part, "functionResponse")?
        && let Some(response) = strict::value(response, "response")?
    {
        reading.texts(response);
    }
    // Signed parts and thoughts are sent back unchanged.
    let is_signed = strict::value(part, "thoughtSignature")?.is_some();
    if is_signed || strict::value(part, "thought")?.is_some_and(Value::is_true) {
        return Ok(());
    }
    if let Some(call) = strict::value(part, "functionCall")? {
        reading.arguments_of(call, "args")?;
    }
    reading.text(part);
    reading.text_of(part, "text")
}
