//! Addresses of servers: the URL for requests, and its form for people.

use std::fmt;

use hyper::Uri;
use url::Url;

/// The URL of a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    url: Url,
    uri: Uri,
}

/// The reason why a text is not the address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not a URL.
    #[error("`{0}` is no URL of an MCP server: expected one such as https://mcp.example.com/mcp")]
    Syntax(String),
    /// The scheme is neither `http` nor `https`.
    #[error("`{0}` is no scheme of an MCP server: expected `http` or `https`")]
    Scheme(String),
    /// The URL has credentials, which any user who lists processes could see.
    #[error(
        "a URL cannot contain a user name or a password: put them into a variable and name it with `--header-env \
         Authorization=VARIABLE`"
    )]
    Credentials,
    /// Nothing can be connected to port 0.
    #[error("port 0 cannot be connected to")]
    Port,
    /// The endpoint the server names for messages is at another origin.
    #[error("it names {0} as the place for messages, which is another server")]
    Elsewhere(String),
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// Returns an error if the URL cannot be used for requests.
    pub fn new(text: &str) -> Result<Self, AddressError> {
        let url = Url::parse(text).map_err(|_invalid| AddressError::Syntax(without_secrets(text)))?;
        Self::of(url, text)
    }

    fn of(mut url: Url, text: &str) -> Result<Self, AddressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        if url.port() == Some(0) {
            return Err(AddressError::Port);
        }
        url.set_fragment(None);
        let uri = url
            .as_str()
            .parse()
            .map_err(|_invalid| AddressError::Syntax(without_secrets(text)))?;
        Ok(Self { url, uri })
    }

    /// Returns the URI for requests.
    pub(super) const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the URL unchanged, including any secrets.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the URL without its query, which may contain keys.
    pub fn shown(&self) -> String {
        let mut shown = self.url.clone();
        shown.set_query(None);
        shown.into()
    }

    /// Returns host and, if it is given, port: the name of a server without another one.
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}-{port}"),
            None => host.to_owned(),
        }
    }

    /// Returns the address of `path` below this one, on the same server.
    pub(super) fn below(&self, path: &str) -> Result<Self, AddressError> {
        self.endpoint(&format!("{}/{path}", self.url.path().trim_end_matches('/')))
    }

    /// Resolves `reference` relative to this address. Credentials are sent there too, so it must not lead to another
    /// server.
    pub(super) fn endpoint(&self, reference: &str) -> Result<Self, AddressError> {
        let joined = self.url.join(reference);
        let url = joined.map_err(|_invalid| AddressError::Syntax(without_secrets(reference)))?;
        match url.origin() == self.url.origin() {
            true => Self::of(url, reference),
            false => Err(AddressError::Elsewhere(without_secrets(url.as_str()))),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.shown()).finish()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// Returns a text that may be a URL without the parts that may be secret.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("https://mcp.example.com/mcp?key=1#x" => "https://mcp.example.com/mcp mcp.example.com"; "no query is shown")]
    #[test_case("http://127.0.0.1:8080/sse" => "http://127.0.0.1:8080/sse 127.0.0.1-8080"; "a port")]
    #[test_case("mcp.example.com/mcp" => "`mcp.example.com/mcp` is no URL of an MCP server: expected one such as https://mcp.example.com/mcp"; "no scheme")]
    #[test_case("me:pw@/x" => "`me` is no scheme of an MCP server: expected `http` or `https`"; "another scheme")]
    #[test_case("https://example.com:0/" => "port 0 cannot be connected to"; "no port")]
    fn addresses(text: &str) -> String {
        match Address::new(text) {
            Ok(address) => format!("{address} {}", address.authority()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        let error = Address::new("https://me:hush@example.com/").unwrap_err();
        assert_eq!(error, AddressError::Credentials);
        assert!(!error.to_string().contains("hush"));
        let error = Address::new("me:hush@exa mple/?k=hush").unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }

    #[test_case("/message?sessionId=1" => Ok("https://mcp.example.com/message?sessionId=1".to_owned()); "a path")]
    #[test_case("https://mcp.example.com/m" => Ok("https://mcp.example.com/m".to_owned()); "the same server")]
    #[test_case("//other.example.com/m" => Err("it names https://other.example.com/m as the place for messages, which is another server".to_owned()); "another server")]
    #[test_case("http://mcp.example.com/m" => Err("it names http://mcp.example.com/m as the place for messages, which is another server".to_owned()); "another scheme")]
    fn endpoints(reference: &str) -> Result<String, String> {
        let address = Address::new("https://mcp.example.com/sse?key=1").unwrap();
        let endpoint = address.endpoint(reference).map_err(|error| error.to_string());
        endpoint.map(|endpoint| endpoint.as_str().to_owned())
    }
}
