//! Anthropic Messages.

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

/// Prefixes of the types of tools that Anthropic defines and the agent runs.
const RUN_BY_AGENT: [&str; 4] = ["bash_", "text_editor_", "computer_", "memory_"];

pub(in crate::llm) fn request(reading: &mut RequestReader<'_, '_>) -> Result<(), LlmFault> {
    let mut toolsets = Vec::new();
    if let Some((tools, list)) = reading.array("tools")? {
        for (item, tool) in tools.items().enumerate() {
            offered(tool, list, item, &mut toolsets, reading)?;
        }
    }
    servers(toolsets, reading)?;
    if let Some(system) = reading.value("system")? {
        reading.content(system, &["text"])?;
    }
    let messages = reading.value("messages")?;
    for message in messages.into_iter().flat_map(Value::items) {
        if let Some(content) = strict::value(message, "content")? {
            blocks(content, reading)?;
        }
    }
    Ok(())
}

/// The tools of a server that the provider may use.
struct Toolset<'t> {
    server: Cow<'t, str>,
    tools: Option<Vec<Cow<'t, str>>>,
}

fn offered<'t>(
    tool: Value<'t>,
    list: ListId,
    item: usize,
    toolsets: &mut Vec<Toolset<'t>>,
    reading: &mut RequestReader<'t, '_>,
) -> Result<(), LlmFault> {
    let [kind, name] = strict::find(tool, ["type", "name"]);
    let kind = kind.text()?.unwrap_or(Cow::Borrowed("custom"));
    if kind == "mcp_toolset" {
        toolsets.push(toolset(tool)?);
        return Ok(());
    }
    let is_run_by_agent = RUN_BY_AGENT.iter().any(|start| kind.starts_with(start));
    if kind != "custom" && !is_run_by_agent {
        return reading.hosted(kind);
    }
    let name = name.text()?.unwrap_or_default();
    reading.offer(named(name), tool, list, item)
}

fn toolset(tool: Value<'_>) -> Result<Toolset<'_>, LlmFault> {
    let server = strict::text(tool, "mcp_server_name")?.unwrap_or_default();
    let is_off = |config: Value<'_>| -> Result<bool, LlmFault> {
        Ok(strict::value(config, "enabled")?.is_some_and(|enabled| enabled.text() == "false"))
    };
    let off_by_default = match strict::value(tool, "default_config")? {
        Some(config) => is_off(config)?,
        None => false,
    };
    let mut tools = off_by_default.then(Vec::new);
    if let (Some(tools), Some(configs)) = (&mut tools, strict::value(tool, "configs")?) {
        for config in configs.members() {
            if strict::value(config.value, "enabled")?.is_some_and(Value::is_true) {
                // The name of a tool is the name of the member: it can have escapes in it.
                tools.push(config.decoded_name());
            }
        }
    }
    Ok(Toolset { server, tools })
}

/// Reads the servers of a request, each with those of its tools that may be used.
fn servers<'t>(mut toolsets: Vec<Toolset<'t>>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    let servers = reading.value("mcp_servers")?;
    for server in servers.into_iter().flat_map(Value::items) {
        let label = strict::text(server, "name")?.unwrap_or_default();
        let position = toolsets.iter().position(|toolset| toolset.server == label);
        let tools = match (position, strict::value(server, "tool_configuration")?) {
            (Some(position), _) => toolsets.remove(position).tools,
            (None, Some(configuration)) => strict::value(configuration, "allowed_tools")?.map(strings),
            (None, None) => None,
        };
        let url = strict::text(server, "url")?;
        reading.remote(ProviderServer { label, url, tools })?;
    }
    for Toolset { server, tools } in toolsets {
        let (label, url) = (server, None);
        reading.remote(ProviderServer { label, url, tools })?;
    }
    Ok(())
}

/// Returns the strings of an array.
pub(in crate::llm) fn strings(array: Value<'_>) -> Vec<Cow<'_, str>> {
    array.items().filter_map(Value::string).collect()
}

/// Reads the content of a message or of a tool's result.
fn blocks<'t>(content: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    reading.text(content);
    for block in content.items() {
        let [kind, text, content] = strict::find(block, ["type", "text", "content"]);
        match kind.text()?.as_deref() {
            Some("text") => reading.found(text)?,
            Some("tool_result") => {
                if let Some(content) = content.value()? {
                    references(content, reading)?;
                    results(content, reading)?;
                }
            }
            Some("tool_use") => reading.arguments_of(block, "input")?,
            Some("document") => document(block, reading)?,
            Some("search_result") => search_result(block, reading)?,
            // Written by the provider, or no text at all.
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Reads the answer of a tool.
fn results<'t>(content: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    reading.text(content);
    for block in content.items() {
        let [kind, text] = strict::find(block, ["type", "text"]);
        match kind.text()?.as_deref() {
            Some("text") => reading.found(text)?,
            Some("document") => document(block, reading)?,
            Some("search_result") => search_result(block, reading)?,
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Reads a document that is a text; other sources are blobs, or are elsewhere.
fn document<'t>(block: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    reading.text_of(block, "title")?;
    reading.text_of(block, "context")?;
    let Some(source) = strict::value(block, "source")? else {
        return Ok(());
    };
    match strict::text(source, "type")?.as_deref() {
        Some("text") => reading.text_of(source, "data"),
        Some("content") => match strict::value(source, "content")? {
            Some(content) => reading.content(content, &["text"]),
            None => Ok(()),
        },
        Some(_) | None => Ok(()),
    }
}

fn search_result<'t>(block: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    reading.text_of(block, "title")?;
    match strict::value(block, "content")? {
        Some(content) => reading.content(content, &["text"]),
        None => Ok(()),
    }
}

/// Tools that a search found and that the model may use from here on.
fn references<'t>(content: Value<'t>, reading: &mut RequestReader<'t, '_>) -> Result<(), LlmFault> {
    let mut list = None;
    for (item, block) in content.items().enumerate() {
        if strict::text(block, "type")?.as_deref() == Some("tool_reference") {
            let id = match list {
                Some(id) => id,
                None => reading.items(content, EmptyListTreatment::Content(content.range()))?,
            };
            list = Some(id);
            let name = strict::text(block, "tool_name")?.unwrap_or_default();
            reading.refer(name, block, id, item);
        }
    }
    Ok(())
}
