//! Headers that a user configures for requests to a server, most of them secrets.

use std::{fmt, str::FromStr};

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};

/// The headers of the connection, the message or the protocol, which this program sets.
const OURS: [&str; 14] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A header that is sent with every request.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

/// The reason why a text is not a valid header. The value is never part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The text has no colon.
    #[error("expected a name and a value, such as `X-Team: blue`")]
    Colon,
    /// The name is not a valid name of a header.
    #[error("`{0}` is no name of a header")]
    Name(String),
    /// The value has characters that are not allowed in a header.
    #[error("the value of `{0}` has characters that cannot stand in a header")]
    Value(String),
    /// mcpmon sets it itself.
    #[error("`{0}` is set by mcpmon itself")]
    Ours(String),
}

impl Header {
    /// Checks a name and a value.
    ///
    /// # Errors
    /// Returns an error if the name or the value is invalid, or mcpmon sets the header itself.
    pub fn new(name: &str, value: &str) -> Result<Self, HeaderError> {
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_invalid| HeaderError::Name(name.trim().chars().take(80).collect()))?;
        if OURS.contains(&name.as_str()) {
            return Err(HeaderError::Ours(name.to_string()));
        }
        let mut value =
            HeaderValue::from_str(value.trim()).map_err(|_invalid| HeaderError::Value(name.to_string()))?;
        value.set_sensitive(true);
        Ok(Self { name, value })
    }

    /// Returns the name, in lower case.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the value.
    pub fn value(&self) -> &str {
        // `new` accepts text only.
        str::from_utf8(self.value.as_bytes()).unwrap_or_default()
    }

    pub(super) fn put(&self, headers: &mut HeaderMap) {
        headers.insert(self.name.clone(), self.value.clone());
    }
}

impl FromStr for Header {
    type Err = HeaderError;

    fn from_str(text: &str) -> Result<Self, HeaderError> {
        let (name, value) = text.split_once(':').ok_or(HeaderError::Colon)?;
        Self::new(name, value)
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: …", self.name)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("X-Team:  blue " => "x-team=blue"; "a header")]
    #[test_case("Authorization: Bearer a:b" => "authorization=Bearer a:b"; "a colon in the value")]
    #[test_case("hush" => "expected a name and a value, such as `X-Team: blue`"; "no colon")]
    #[test_case("a b: hush" => "`a b` is no name of a header"; "no name")]
    #[test_case("X: hu\nsh" => "the value of `x` has characters that cannot stand in a header"; "a line")]
    #[test_case("Host: hush" => "`host` is set by mcpmon itself"; "ours")]
    fn headers(text: &str) -> String {
        match text.parse::<Header>() {
            Ok(header) => {
                assert!(!format!("{header:?}").contains(header.value()));
                format!("{}={}", header.name(), header.value())
            }
            Err(error) => error.to_string(),
        }
    }
}
