//! Identifiers that have been checked once and are safe to print, store and match from then on.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Package, PackageKind};

/// Identity of an event: the 16 bytes of a UUIDv7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub [u8; 16]);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&position) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Name of an MCP server, as configured or derived from its launch.
///
/// 1 to 128 characters, without white space and control characters, so that an id can neither break a table nor forge a
/// log line. Every event has one: copies share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(Arc<str>);

/// The reason why a text is not a valid server id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerIdError {
    /// Nothing there.
    #[error("a server id cannot be empty")]
    Empty,
    /// Over 128 characters.
    #[error("a server id has at most {max} characters, this one has {length}", max = ServerId::MAX)]
    TooLong {
        /// Its length in characters.
        length: usize,
    },
    /// White space, control, or invisible formatting character.
    #[error("a server id cannot contain {character:?}")]
    BadCharacter {
        /// The first such character.
        character: char,
    },
}

impl ServerId {
    /// Longest id, in characters.
    pub const MAX: usize = 128;

    /// Checks `text`.
    ///
    /// # Errors
    /// Returns an error if it is empty, too long, or contains a character an id cannot have.
    pub fn new(text: impl Into<String>) -> Result<Self, ServerIdError> {
        let text = text.into();
        let length = text.chars().count();
        if length == 0 {
            return Err(ServerIdError::Empty);
        }
        if length > Self::MAX {
            return Err(ServerIdError::TooLong { length });
        }
        match text
            .chars()
            .find(|&c| c.is_whitespace() || c.is_control() || is_invisible(c))
        {
            Some(character) => Err(ServerIdError::BadCharacter { character }),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether both are spellings of one name, see [`one_spelling`].
    pub fn is_spelling_of(&self, other: &Self) -> bool {
        one_spelling(&self.0) == one_spelling(&other.0)
    }
}

/// The id that follows from a server's program, its address or its declaration, whatever its client calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedId {
    /// The id.
    pub id: ServerId,
    /// True if the server's command or address is that of the declaration of this id.
    pub is_declared: bool,
}

/// Returns the one spelling of all names for one package, as in PEP 503: in lower case, with each run of `-`, `_` and
/// `.` as a single `-`. The module `mcp_server_time` and the command `mcp-server-time` are one server.
pub fn one_spelling(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if spelled.ends_with('-') => {}
            '-' | '_' | '.' => spelled.push('-'),
            _ => spelled.push(c.to_ascii_lowercase()),
        }
    }
    spelled
}

/// Returns whether a character is a zero-width, bidirectional or tag character: an id with one looks like another id.
pub(super) const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ServerId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for ServerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ServerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The owner of pins: a server, its package and the user. Two packages can share a server id, and two users
/// can have different versions of one package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PinKey {
    /// The server.
    pub server: ServerId,
    /// The text of its [`Package`], or the address of a remote server.
    pub name: String,
    /// Real user id of the process that serves.
    pub uid: u32,
}

impl PinKey {
    /// Returns the package of the server, if its name is that of one.
    pub fn package(&self) -> Option<Package> {
        Package::parse(&self.name)
    }

    /// Returns the name without the kind of its package.
    pub fn bare_name(&self) -> &str {
        let is_kind = |text: &str| PackageKind::ALL.iter().any(|kind| kind.as_str() == text);
        match self.name.split_once(':') {
            Some((kind, name)) if is_kind(kind) => name,
            Some(_) | None => &self.name,
        }
    }
}

/// Digits that identify the root of a session, at the end of its id.
pub const SESSION_ROOT: usize = 12;

/// Name of an agent session. Copies share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// Wraps a session name made by mcpmon itself.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether both are one session: a name before the digits of its root only makes the id readable.
    pub fn is_of_same_root(&self, other: &Self) -> bool {
        self == other || self.root().is_some_and(|root| other.root() == Some(root))
    }

    /// Returns the key under which data of a session is kept: all names of one session have the same key, so that a
    /// process cannot leave its data behind by choosing another name.
    pub fn key(&self) -> Self {
        self.root().map_or_else(|| self.clone(), Self::new)
    }

    /// Returns whether this is the name before the digits of its root.
    pub fn is_called(&self, name: &str) -> bool {
        let in_front = self
            .root()
            .and_then(|root| self.0.strip_suffix(root)?.strip_suffix('-'));
        in_front == Some(name)
    }

    /// Returns the part that identifies the process at the session's root: the digits at the end.
    fn root(&self) -> Option<&str> {
        let (_, digits) = self.0.rsplit_once('-')?;
        let is_root = digits.len() == SESSION_ROOT && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_root.then_some(digits)
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("" => Err(ServerIdError::Empty); "empty")]
    #[test_case("a b" => Err(ServerIdError::BadCharacter { character: ' ' }); "space")]
    #[test_case("a\u{200b}b" => Err(ServerIdError::BadCharacter { character: '\u{200b}' }); "zero width")]
    #[test_case("a\u{1b}[31m" => Err(ServerIdError::BadCharacter { character: '\u{1b}' }); "escape")]
    #[test_case("@scope/name" => Ok(()); "npm name")]
    fn ids_are_checked(text: &str) -> Result<(), ServerIdError> {
        ServerId::new(text).map(drop)
    }

    #[test_case("mcp_server_time" => "mcp-server-time"; "module")]
    #[test_case("awslabs.cdk_mcp_server" => "awslabs-cdk-mcp-server"; "dotted module")]
    #[test_case("Notes.Mcp" => "notes-mcp"; "upper case")]
    #[test_case("a._-b" => "a-b"; "run")]
    #[test_case("ab" => "ab"; "nothing to change")]
    fn names_have_one_spelling(name: &str) -> String {
        one_spelling(name)
    }

    #[test]
    fn a_session_has_one_key_for_all_its_names() {
        let [session, renamed, other] =
            ["a-0123456789ab", "b-c-0123456789ab", "a-0123456789ac"].map(SessionId::new);
        assert!(session.is_of_same_root(&renamed) && session.key() == renamed.key());
        assert!(!session.is_of_same_root(&other) && session.key() != other.key());
        assert!(session.is_called("a") && renamed.is_called("b-c"));
        assert!(!session.is_called("b") && !session.is_called("a-0123456789ab"));
        let plain = SessionId::new("s1");
        assert_eq!(plain.key(), plain);
    }

    #[test]
    fn length_is_counted_in_characters() {
        assert!(ServerId::new("é".repeat(128)).is_ok_and(|id| id.as_str().len() == 256));
        assert_eq!(
            ServerId::new("é".repeat(129)),
            Err(ServerIdError::TooLong { length: 129 })
        );
    }
}
