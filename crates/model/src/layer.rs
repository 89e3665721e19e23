//! The places at which mcpmon senses.

use serde::{Deserialize, Serialize};

/// The layer that observed an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// eBPF programs.
    Kernel,
    /// A wrapped server's pipes.
    Stdio,
    /// The tap: the pipes of a server that no wrapper carries, where nothing can be stopped.
    Tap,
    /// The MCP-over-HTTP proxy.
    McpHttp,
    /// The LLM reverse proxy.
    Llm,
    /// The hooks of clients, which clients may skip.
    Hook,
    /// mcpmon itself.
    Agent,
}

impl Layer {
    /// Returns the name used in events and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Stdio => "stdio",
            Self::Tap => "tap",
            Self::McpHttp => "mcp_http",
            Self::Llm => "llm",
            Self::Hook => "hook",
            Self::Agent => "agent",
        }
    }
}
