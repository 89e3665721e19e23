//! The protocol between `mcpmon run` and the daemon: one JSON object a line.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use mcpmon_model::SessionId;
use mcpmon_session::protocol::StartedProcess;
use serde::{Deserialize, Serialize};

/// Longest line of either side, bytes.
pub(crate) const MAX_LINE: u64 = 64 << 10;

/// The introduction of `mcpmon run`. Its user and process come from the socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHello {
    /// The name of the session.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Name of the control group that it made for the agent, below its own.
    #[serde(default)]
    pub(crate) group: Option<String>,
    /// URLs of providers that its environment names, by name.
    #[serde(default)]
    pub(crate) providers: BTreeMap<String, String>,
    /// The token that it had from a daemon before this one.
    #[serde(default)]
    pub(crate) token: Option<String>,
    /// The agent, where it runs already and the proxy is that of `mcpmon run`.
    #[serde(default)]
    pub(crate) agent: Option<StartedProcess>,
}

/// An answer of the daemon. The first is the question that wrappers get, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "hear", content = "content", rename_all = "snake_case")]
pub(crate) enum RunHear {
    /// Asks the process that connected to repeat this, before it is told anything.
    Challenge(String),
    /// The session is behind the daemon's proxy for as long as this connection lasts.
    Session(Box<Reach>),
    /// The session, whose proxy is that of `mcpmon run`, is known for as long as this connection lasts.
    Known(SessionId),
    /// There is no proxy of the daemon, and why.
    NoProxy(String),
    /// The request was refused or failed.
    Error(String),
}

/// The way in which the daemon's proxy is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reach {
    /// The session.
    pub(crate) session: SessionId,
    /// Its token.
    pub(crate) token: String,
    /// The proxy.
    pub(crate) offer: ProxyOffer,
    /// The store it records to.
    pub(crate) store: PathBuf,
}

/// The daemon's proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProxyOffer {
    /// The address it listens on, as reached from this host.
    pub(crate) address: SocketAddr,
    /// URLs of providers, by name.
    pub(crate) providers: BTreeMap<String, String>,
}

impl ProxyOffer {
    /// Describes the settings that do not fit an environment: a provider other than its own would otherwise
    /// be left out silently.
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
