//! The protocol between `mcpmon run` and the daemon: one JSON object a line.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use mcpmon_model::SessionId;
use mcpmon_session::protocol::StartedProcess;
use serde::{Deserialize, Serialize};

/// Longest line of either side, bytes.
pub(crate) const MAX_LINE: u64 = 64 << 10;

/// The introduction of `mcpmon run`. Its user and process are taken from the socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHello {
    /// The name of the session.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Name of the control group that it made for the agent, below its own group.
    #[serde(default)]
    pub(crate) group: Option<String>,
    /// URLs of providers in its environment, by name.
    #[serde(default)]
    pub(crate) providers: BTreeMap<String, String>,
    /// The token that an earlier daemon gave it.
    #[serde(default)]
    pub(crate) token: Option<String>,
    /// The agent, if it runs already and `mcpmon run` has its own proxy.
    #[serde(default)]
    pub(crate) agent: Option<StartedProcess>,
}

/// An answer of the daemon. The first one is the same challenge that wrappers get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "hear", content = "content", rename_all = "snake_case")]
pub(crate) enum RunHear {
    /// Asks the process that connected to repeat this nonce, before it is told anything else.
    Challenge(String),
    /// The session is behind the daemon's proxy as long as this connection exists.
    Session(Box<Reach>),
    /// The session has its own proxy, and is known as long as this connection exists.
    Known(SessionId),
    /// The daemon has no proxy for the session; the reason.
    NoProxy(String),
    /// The request was refused or failed.
    Error(String),
}

/// The way in which the daemon's proxy is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// The session.
    pub(crate) session: SessionId,
    /// The session's token.
    pub(crate) token: String,
    /// The proxy.
    pub(crate) offer: ProxyOffer,
    /// The store that the daemon records to.
    pub(crate) store: PathBuf,
}

/// The daemon's proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProxyOffer {
    /// The address of the proxy, as seen from this host.
    pub(crate) address: SocketAddr,
    /// URLs of providers, by name.
    pub(crate) providers: BTreeMap<String, String>,
}

impl ProxyOffer {
    /// Returns a description of an environment that does not fit this proxy: it names another URL for a provider, which
    /// would be ignored silently.
    pub(super) fn misfit(&self, environment: &BTreeMap<String, String>) -> Option<String> {
        let own = format!("http://{}/", self.address);
        let fits = |name: &str, url: &str| {
            url.starts_with(&own) || self.providers.get(name).is_none_or(|known| known == url)
        };
        let (name, _) = environment.iter().find(|(name, url)| !fits(name, url))?;
        Some(format!(
            "the environment names another `{name}` than it speaks to"
        ))
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("openai", "https://api.openai.com" => None; "its own")]
    #[test_case("openai", "http://127.0.0.1:8484/s/abc/openai" => None; "it is the proxy already")]
    #[test_case("openai", "https://gw.example/openai" => Some("the environment names another `openai` than it speaks to".to_owned()); "another")]
    #[test_case("ollama", "http://127.0.0.1:1" => None; "one that it does not have at all")]
    fn gateways(name: &str, url: &str) -> Option<String> {
        let offer = ProxyOffer {
            address: "127.0.0.1:8484".parse().expect("an address"),
            providers: [("openai".to_owned(), "https://api.openai.com".to_owned())].into(),
        };
        offer.misfit(&[(name.to_owned(), url.to_owned())].into())
    }
}
