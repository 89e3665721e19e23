//! Sandboxes of servers: the files and the network that a declaration allows a server.

use std::{fmt, str::FromStr};

use mcpmon_model::MAX_PATH;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `sandbox` of a declared server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// The files it may use without a grant.
    pub mode: SandboxMode,
    /// Further files and directories that it may read.
    pub read: Vec<SandboxPath>,
    /// Further files and directories that it may read and write.
    pub write: Vec<SandboxPath>,
    /// The network it may use.
    pub network: SandboxNetwork,
}

/// The files that a server may use without a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// All that its user may.
    #[default]
    Off,
    /// Everything may be read but secrets, keys and configuration; the caches of its package manager and temporary
    /// directories may be written.
    HomeReadonly,
    /// The system, its own package and its own temporary directory.
    Strict,
}

impl SandboxMode {
    /// Returns its name in configurations and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::HomeReadonly => "home-readonly",
            Self::Strict => "strict",
        }
    }
}

/// The error that a text is no mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `off`, `home-readonly` or `strict`")]
pub struct SandboxModeError;

impl FromStr for SandboxMode {
    type Err = SandboxModeError;

    fn from_str(text: &str) -> Result<Self, SandboxModeError> {
        let mut modes = [Self::Off, Self::HomeReadonly, Self::Strict].into_iter();
        modes.find(|mode| mode.as_str() == text).ok_or(SandboxModeError)
    }
}

/// The network that a server may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    /// As `egress` has it.
    #[default]
    Egress,
    /// None: no TCP, and no UDP where the kernel can refuse it.
    Off,
}

impl SandboxPolicy {
    /// Returns whether the sandbox restricts nothing.
    pub fn is_open(&self) -> bool {
        self.mode == SandboxMode::Off && self.network == SandboxNetwork::Egress
    }

    /// Combines two sandboxes: both must grant a file.
    pub fn tightened_by(&self, other: &Self) -> Self {
        let network = match (self.network, other.network) {
            (SandboxNetwork::Egress, SandboxNetwork::Egress) => SandboxNetwork::Egress,
            (SandboxNetwork::Off, _) | (_, SandboxNetwork::Off) => SandboxNetwork::Off,
        };
        let files = match (self.mode, other.mode) {
            (_, SandboxMode::Off) => self.clone(),
            (SandboxMode::Off, _) => other.clone(),
            (own, others) => Self {
                mode: own.max(others),
                read: common(&self.read, &other.read),
                write: common(&self.write, &other.write),
                network,
            },
        };
        Self { network, ..files }
    }
}

fn common(own: &[SandboxPath], others: &[SandboxPath]) -> Vec<SandboxPath> {
    own.iter().filter(|path| others.contains(path)).cloned().collect()
}

/// A path that a sandbox grants, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPath {
    /// The directory that the path starts in.
    pub start: SandboxPathStart,
    /// The names below that directory.
    pub names: Vec<String>,
}

/// The start of a granted path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxPathStart {
    /// The root directory.
    Root,
    /// The home directory of the server's user.
    Home,
    /// The directory that the client starts the server in.
    Workspace,
}

/// The name of the directory that the client starts the server in, in configurations.
const WORKSPACE: &str = "${workspace}";

/// The reason why a text is no granted path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxPathError {
    /// The path has no known start.
    #[error("expected a path that begins with `/`, `~/` or `${{workspace}}`")]
    Relative,
    /// The path has an unknown variable.
    #[error("no variable but `${{workspace}}`, at the beginning, has a value in a path")]
    Variable,
    /// The path is a pattern.
    #[error("a grant is one path with all that lies below it: `*` and `?` are not expanded")]
    Pattern,
    /// The path contains `..`.
    #[error("a granted path has no `..`")]
    Upwards,
    /// The path is longer than a path can be.
    #[error("a path has at most {MAX_PATH} bytes")]
    TooLong,
}

impl FromStr for SandboxPath {
    type Err = SandboxPathError;

    fn from_str(text: &str) -> Result<Self, SandboxPathError> {
        if text.len() > MAX_PATH {
            return Err(SandboxPathError::TooLong);
        }
        let below = |start: &str| {
            let rest = text.strip_prefix(start)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let (start, rest) = match (below(WORKSPACE), below("~"), text.strip_prefix('/')) {
            (Some(rest), _, _) => (SandboxPathStart::Workspace, rest),
            (None, Some(rest), _) => (SandboxPathStart::Home, rest),
            (None, None, Some(rest)) => (SandboxPathStart::Root, rest),
            (None, None, None) if text.contains('$') => return Err(SandboxPathError::Variable),
            (None, None, None) => return Err(SandboxPathError::Relative),
        };
        let names: Vec<String> = rest
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .map(str::to_owned)
            .collect();
        if names.iter().any(|name| name == "..") {
            return Err(SandboxPathError::Upwards);
        }
        if rest.contains(['*', '?']) {
            return Err(SandboxPathError::Pattern);
        }
        if rest.contains('$') {
            return Err(SandboxPathError::Variable);
        }
        Ok(Self { start, names })
    }
}

impl fmt::Display for SandboxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = match self.start {
            SandboxPathStart::Root if self.names.is_empty() => "/",
            SandboxPathStart::Root => "",
            SandboxPathStart::Home => "~",
            SandboxPathStart::Workspace => WORKSPACE,
        };
        f.write_str(start)?;
        self.names.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/srv//data/./" => Ok("/srv/data".to_owned()); "absolute")]
    #[test_case("/" => Ok("/".to_owned()); "root")]
    #[test_case("~" => Ok("~".to_owned()); "home")]
    #[test_case("~/a b" => Ok("~/a b".to_owned()); "below home")]
    #[test_case("${workspace}" => Ok("${workspace}".to_owned()); "workspace")]
    #[test_case("${workspace}/src/" => Ok("${workspace}/src".to_owned()); "below the workspace")]
    #[test_case("data" => Err(SandboxPathError::Relative); "relative")]
    #[test_case("~me/x" => Err(SandboxPathError::Relative); "home of another user")]
    #[test_case("" => Err(SandboxPathError::Relative); "nothing")]
    #[test_case("$HOME/x" => Err(SandboxPathError::Variable); "unknown variable")]
    #[test_case("${workspaces}/x" => Err(SandboxPathError::Variable); "variable with a longer name")]
    #[test_case("/srv/${workspace}" => Err(SandboxPathError::Variable); "variable on the way")]
    #[test_case("~/a/../.ssh" => Err(SandboxPathError::Upwards); "upwards")]
    #[test_case("/srv/*.txt" => Err(SandboxPathError::Pattern); "pattern")]
    fn paths(text: &str) -> Result<String, SandboxPathError> {
        text.parse::<SandboxPath>().map(|path| path.to_string())
    }

    fn sandbox(mode: SandboxMode, read: &[&str]) -> SandboxPolicy {
        SandboxPolicy {
            mode,
            read: read.iter().map(|path| path.parse().expect("a path")).collect(),
            ..SandboxPolicy::default()
        }
    }

    #[test]
    fn of_two_sandboxes_both_must_grant() {
        let own = sandbox(SandboxMode::HomeReadonly, &["/a", "/b"]);
        let other = sandbox(SandboxMode::Strict, &["/b", "/c"]);
        let expected = sandbox(SandboxMode::Strict, &["/b"]);
        assert_eq!(own.tightened_by(&other), expected);
        assert_eq!(other.tightened_by(&own), expected);
        let open = SandboxPolicy::default();
        assert_eq!(open.tightened_by(&own), own);
        assert_eq!(own.tightened_by(&open), own);
    }

    #[test]
    fn a_network_that_is_off_stays_off() {
        let off = SandboxPolicy {
            network: SandboxNetwork::Off,
            ..SandboxPolicy::default()
        };
        assert_eq!(off.tightened_by(&SandboxPolicy::default()), off);
        assert_eq!(SandboxPolicy::default().tightened_by(&off), off);
    }
}
