//! Providers in an agent's own configuration. Such an agent ignores the variables that direct others to the proxy. So
//! the proxy connects to the configured provider, and the agent is redirected by its own kind of setting.

mod codex;
mod opencode;

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use super::address;

/// Longest configuration of an agent that is read, bytes.
const MAX_FILE: u64 = 4 << 20;
/// The prefix of these providers' names at the proxy, which names in a policy usually do not have.
const PREFIX: &str = "agent-";
/// Longest name of a provider at the proxy.
const MAX_NAME: usize = 32;

/// A provider that an agent's configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::app) struct Gateway {
    /// The name at the session's own proxy.
    pub(super) name: String,
    /// Its URL, to which the agent appends paths.
    pub(super) url: String,
    told: AddressChannel,
}

/// The setting by which an agent is told a provider's address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AddressChannel {
    /// A setting of Codex, given as an argument.
    CodexSetting(String),
    /// An environment variable.
    Variable(&'static str),
    /// A provider of opencode, given in its configuration.
    Opencode(String),
}

/// The reason why an agent's configuration cannot be followed: its requests would not go through the proxy.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A file cannot be read.
    #[error("cannot read {}, which says where {agent} finds its models: {cause}", path.display())]
    Unreadable {
        /// The agent.
        agent: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// The proxy cannot connect to a URL.
    #[error(
        "{agent} finds its models at {url:?} (`{setting}`), {cause}: its requests would pass mcpmon by. Name a plain URL there"
    )]
    Url {
        /// The agent.
        agent: &'static str,
        /// The setting.
        setting: String,
        /// The given URL, without a password.
        url: String,
        /// The defect.
        cause: String,
    },
    /// The provider cannot be redirected by a URL.
    #[error(
        "{agent} asks {provider:?} (`{setting}`), which has no URL that could be another: its requests would pass mcpmon by. Choose a provider with a URL"
    )]
    NoUrl {
        /// The agent.
        agent: &'static str,
        /// The setting.
        setting: String,
        /// The provider.
        provider: String,
    },
}

/// The program, arguments and environment of an agent's start.
#[derive(Clone, Copy, Debug)]
pub(in crate::app) struct AgentCircumstances<'a, V> {
    /// The program.
    pub(in crate::app) program: &'a OsStr,
    /// The arguments.
    pub(in crate::app) arguments: &'a [OsString],
    /// Looks up an environment variable.
    pub(in crate::app) variable: V,
    /// The working directory.
    pub(in crate::app) directory: &'a Path,
}

impl<'a> AgentCircumstances<'a, fn(&str) -> Option<OsString>> {
    /// Uses the environment of this process.
    pub(in crate::app) fn here(program: &'a OsStr, arguments: &'a [OsString], directory: &'a Path) -> Self {
        Self {
            program,
            arguments,
            variable: |name| env::var_os(name),
            directory,
        }
    }
}

impl<V: Fn(&str) -> Option<OsString>> AgentCircumstances<'_, V> {
    /// Returns the providers in the agent's configuration.
    ///
    /// # Errors
    /// Returns an error if the proxy cannot connect to one of them.
    pub(in crate::app) fn gateways(&self) -> Result<Vec<Gateway>, GatewayError> {
        if let Some(gateway) = codex::gateway(self)? {
            return Ok(vec![gateway]);
        }
        opencode::gateways(self)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name)
            .filter(|value| !value.is_empty())
            .map(Into::into)
    }

    fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }
}

impl Gateway {
    fn new(
        agent: &'static str,
        setting: String,
        id: &str,
        url: &str,
        told: AddressChannel,
    ) -> Result<Self, GatewayError> {
        match address::url("openai", &url.into()) {
            Ok(url) => Ok(Self {
                name: name(id),
                url,
                told,
            }),
            Err(unusable) => Err(GatewayError::Url {
                agent,
                setting,
                url: address::shown(OsStr::new(url)),
                cause: unusable.to_string(),
            }),
        }
    }
}

/// Returns the name of a provider at the proxy; it becomes a part of paths.
fn name(id: &str) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '-' | '_' | '.') => c,
        _ => '-',
    };
    let id: String = id.chars().map(plain).take(MAX_NAME - PREFIX.len()).collect();
    format!("{PREFIX}{id}")
}

/// The settings that redirect an agent's providers: variables, and arguments for Codex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tellings {
    /// Variables to set.
    pub(super) variables: BTreeMap<&'static str, OsString>,
    /// Settings of Codex.
    pub(super) codex: Vec<String>,
}

/// Builds the settings that redirect each provider to its `url`.
pub(super) fn tell(
    gateways: &[Gateway],
    url: impl Fn(&Gateway) -> Option<String>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Tellings {
    let mut tellings = Tellings::default();
    let mut opencode = Vec::new();
    for gateway in gateways {
        let Some(url) = url(gateway) else { continue };
        match &gateway.told {
            AddressChannel::CodexSetting(setting) => tellings.codex.push(format!("{setting}=\"{url}\"")),
            AddressChannel::Variable(name) => {
                tellings.variables.insert(name, url.into());
            }
            AddressChannel::Opencode(provider) => opencode.push((provider.as_str(), url)),
        }
    }
    if !opencode.is_empty() {
        let content = opencode::content(variable(opencode::CONTENT), &opencode);
        tellings.variables.insert(opencode::CONTENT, content.into());
    }
    tellings
}

/// Reads a text file. Returns `None` if it does not exist.
fn read(agent: &'static str, path: &Path) -> Result<Option<String>, GatewayError> {
    let unreadable = |cause: String| GatewayError::Unreadable {
        agent,
        path: path.to_owned(),
        cause,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
    read.map_err(|error| unreadable(error.to_string()))?;
    match text.len() as u64 > MAX_FILE {
        true => Err(unreadable(format!("it has more than {} MiB", MAX_FILE >> 20))),
        false => Ok(Some(text)),
    }
}

#[cfg(test)]
mod tests;
