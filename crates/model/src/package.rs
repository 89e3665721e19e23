//! The package of a server: the canonical identity of its program.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NameGlob, one_spelling};

/// The kind of thing that a server's program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageKind {
    /// A package of npm, by its name with its scope.
    Npm,
    /// A Python distribution, by its normalised name (PEP 503).
    Pypi,
    /// A container image, without tag and digest, and without `docker.io/`.
    Oci,
    /// A script of a user, by its real path.
    Script,
    /// Any other program, by the name of its file: pins compare its content, wherever it is.
    Program,
}

impl PackageKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Npm, Self::Pypi, Self::Oci, Self::Script, Self::Program];

    /// Returns the word before the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Oci => "oci",
            Self::Script => "script",
            Self::Program => "program",
        }
    }
}

/// The canonical identity of a server's program, the same for every way to start it and for every name that a client gives
/// it: `npm:@scope/name`, `pypi:name`, `oci:registry/name`, `script:/real/path`, `program:name`.
///
/// At most 512 characters. A character that could break a line or a table, or that is invisible, is written as `\u{…}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package {
    kind: PackageKind,
    /// The whole text, with the kind.
    text: Arc<str>,
}

impl Package {
    /// Longest text, in characters.
    pub const MAX: usize = 512;

    /// Builds a package from its name; `None` if that is empty, or too long.
    pub fn new(kind: PackageKind, name: &str) -> Option<Self> {
        let name = match kind {
            PackageKind::Pypi => one_spelling(name),
            PackageKind::Npm | PackageKind::Oci | PackageKind::Script | PackageKind::Program => {
                name.to_owned()
            }
        };
        let mut text = format!("{}:", kind.as_str());
        for letter in name.chars() {
            if letter.is_control() || super::ids::is_invisible(letter) || letter == '\u{2028}' {
                text.extend(letter.escape_unicode());
            } else {
                text.push(letter);
            }
        }
        let is_named = !name.is_empty() && text.chars().count() <= Self::MAX;
        is_named.then(|| Self {
            kind,
            text: text.into(),
        })
    }

    /// Reads a package from its text; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        let kind = PackageKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind)?;
        Self::new(kind, name)
    }

    /// Returns the kind.
    pub const fn kind(&self) -> PackageKind {
        self.kind
    }

    /// Returns the whole text, with the kind.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name, without the kind.
    pub fn name(&self) -> &str {
        &self.text[self.kind.as_str().len() + 1..]
    }

    /// Returns whether a pattern of a policy names this package. A pattern names packages only if it begins with a kind and
    /// a colon: `npm:@scope/*`. Python names match in any spelling.
    pub fn is_named_by(&self, pattern: &NameGlob) -> bool {
        let Some((kind, name)) = pattern.as_str().split_once(':') else {
            return false;
        };
        if kind != self.kind.as_str() {
            return false;
        }
        let spelled = match self.kind {
            PackageKind::Pypi => one_spelling(name),
            PackageKind::Npm | PackageKind::Oci | PackageKind::Script | PackageKind::Program => {
                name.to_owned()
            }
        };
        NameGlob::new(spelled).matches(self.name())
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Package {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Package {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a package is KIND:NAME"))
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("npm:@scope/name" => Some("npm:@scope/name".to_owned()); "npm")]
    #[test_case("pypi:MCP_Server.Time" => Some("pypi:mcp-server-time".to_owned()); "a distribution in another spelling")]
    #[test_case("script:/srv/my notes.py" => Some("script:/srv/my notes.py".to_owned()); "a path with a space")]
    #[test_case("script:/srv/a\nb.py" => Some("script:/srv/a\\u{a}b.py".to_owned()); "a path that would break a line")]
    #[test_case("script:/srv/a\u{202e}b.py" => Some("script:/srv/a\\u{202e}b.py".to_owned()); "a path with an invisible character")]
    #[test_case("cargo:x" => None; "no kind")]
    #[test_case("npm:" => None; "no name")]
    #[test_case("name" => None; "an id")]
    fn texts(text: &str) -> Option<String> {
        Package::parse(text).map(|package| package.to_string())
    }

    #[test]
    fn there_is_an_end_to_names() {
        assert_eq!(
            Package::new(PackageKind::Script, &format!("/{}", "a".repeat(512))),
            None
        );
    }

    #[test_case("npm:@a/x", "npm:@a/*" => true; "a scope")]
    #[test_case("npm:@a/x", "@a/x" => false; "no kind")]
    #[test_case("npm:@a/x", "*" => false; "every id")]
    #[test_case("npm:x", "pypi:x" => false; "another kind")]
    #[test_case("pypi:mcp-server-time", "pypi:mcp_server_*" => true; "another spelling")]
    #[test_case("script:/srv/a_b.py", "script:/srv/a-b.py" => false; "paths have one spelling")]
    fn patterns(package: &str, pattern: &str) -> bool {
        Package::parse(package).is_some_and(|package| package.is_named_by(&NameGlob::new(pattern)))
    }
}
