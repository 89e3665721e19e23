//! The `proxy`, `dlp` and `llm_storage` sections.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use mcpmon_policy::{DlpMode, ProxyMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lapse, Size, Text};

/// The MCP-over-HTTP and LLM proxies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Proxy {
    /// The mode of the LLM proxy.
    pub(crate) mode: ProxyMode,
    /// The address they listen on; one that is not loopback needs `token_file`.
    pub(crate) listen: Text<SocketAddr>,
    /// Unix socket they listen on beside it; empty for none.
    pub(crate) listen_unix: String,
    /// File with the token that clients must present; empty for none.
    pub(crate) token_file: String,
    /// URLs of LLM providers, by name.
    pub(crate) providers: BTreeMap<String, String>,
}

impl Default for Proxy {
    fn default() -> Self {
        let providers = [
            ("anthropic", "https://api.anthropic.com"),
            ("gemini", "https://generativelanguage.googleapis.com"),
            ("ollama", "http://127.0.0.1:11434"),
            ("openai", "https://api.openai.com"),
        ];
        Self {
            mode: ProxyMode::default(),
            listen: Text(SocketAddr::from((Ipv4Addr::LOCALHOST, 8484))),
            listen_unix: String::new(),
            token_file: String::new(),
            providers: providers
                .map(|(name, url)| (name.to_owned(), url.to_owned()))
                .into(),
        }
    }
}

/// Data-loss prevention on the way to an LLM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Dlp {
    /// The treatment of secrets.
    pub(crate) mode: DlpMode,
}

/// Storage of LLM traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LlmStorage {
    /// True if bodies are kept; `proxy.mode: mcp-only` implies it.
    pub(crate) store_bodies: bool,
    /// File with the key they are encrypted with; without one nothing is kept.
    pub(crate) key_file: String,
    /// Longest body that is kept whole.
    pub(crate) max_body: Text<Size>,
    /// The time for which they are kept.
    pub(crate) retention: Text<Lapse>,
}

impl Default for LlmStorage {
    fn default() -> Self {
        Self {
            store_bodies: false,
            key_file: String::new(),
            max_body: Text(Size(1 << 20)),
            retention: Text(Lapse(Duration::from_secs(7 * 86_400))),
        }
    }
}
