//! Tools as both of `OpenAI`'s APIs write them.

use std::borrow::Cow;

use mcpmon_model::{ProviderServer, ToolName};

use crate::{
    decode::json::{Value, ValueKind},
    llm::{
        LlmFault,
        anthropic::request::strings,
        request::reading::{EmptyListTreatment, ListId, RequestReader},
        strict,
    },
};

/// Tools that `OpenAI` defines and the agent runs.
const RUN_BY_AGENT: [&str; 5] = [
    "local_shell",
    "shell",
    "apply_patch",
    "computer",
    "computer_use_preview",
];

/// Reads the tools that a list offers. A namespace can hold more of them, but no other namespace.
pub(in crate::llm) fn tools<'t>(
    tools: Value<'t>,
    list: ListId,
    namespace: Option<&Cow<'t, str>>,
    reading: &mut RequestReader<'t, '_>,
) -> Result<(), LlmFault> {
    for (item, tool) in tools.items().enumerate() {
        let kind = strict::text(tool, "type")?.unwrap_or(Cow::Borrowed("function"));
        let name = match &*kind {
            "function" | "custom" => {
                // Chat Completions nests the definition in a member.
                let inner = if kind == "custom" { "custom" } else { "function" };
                let inner = strict::value(tool, inner)?.unwrap_or(tool);
                strict::text(inner, "name")?.unwrap_or_default()
            }
            "namespace" if namespace.is_none() => {
                let name = strict::text(tool, "name")?.unwrap_or_default();
                if let Some(inner) = strict::value(tool, "tools")? {
                    let inner_list = reading.items(inner, EmptyListTreatment::Item(list, item))?;
                    self::tools(inner, inner_list, Some(&name), reading)?;
                }
                continue;
            }
            "mcp" => {
                reading.remote(remote(tool)?)?;
                continue;
            }
            _ if is_run_by_agent(&kind, tool)? => kind,
            _ => {
                reading.hosted(kind)?;
                continue;
            }
        };
        let namespace = namespace.cloned();
        reading.offer(ToolName { namespace, name }, tool, list, item)?;
    }
    Ok(())
}

fn is_run_by_agent(kind: &str, tool: Value<'_>) -> Result<bool, LlmFault> {
    Ok(match kind {
        "shell" => match strict::value(tool, "environment")? {
            Some(environment) => strict::text(environment, "type")?.is_some_and(|kind| kind == "local"),
            None => false,
        },
        "tool_search" => strict::text(tool, "execution")?.is_some_and(|execution| execution == "client"),
        _ => RUN_BY_AGENT.contains(&kind),
    })
}

fn remote(tool: Value<'_>) -> Result<ProviderServer<'_>, LlmFault> {
    let allowed = strict::value(tool, "allowed_tools")?;
    let tools = match allowed {
        Some(list) if list.kind() == ValueKind::Array => Some(strings(list)),
        Some(filter) => strict::value(filter, "tool_names")?.map(strings),
        None => None,
    };
    Ok(ProviderServer {
        label: strict::text(tool, "server_label")?.unwrap_or_default(),
        url: strict::text(tool, "server_url")?,
        tools,
    })
}
