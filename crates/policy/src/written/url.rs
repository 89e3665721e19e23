//! URLs of HTTP servers.

use std::{fmt, net::IpAddr, str::FromStr};

use crate::RemoteHost;

/// An `http` or `https` URL with a host, as WHATWG parsers (and so MCP clients) read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    text: String,
    host: RemoteHost,
    port: u16,
}

/// The reason why a text is not a valid URL of an HTTP server.
#[expect(missing_docs, reason = "the fields are the parts of the message")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpUrlError {
    /// No scheme in front.
    #[error("`{text}` is no URL: did you mean `https://{text}`?")]
    NoScheme { text: String },
    /// Not a URL at all.
    #[error("`{text}` is no URL such as `https://mcp.example.com/mcp`: {reason}")]
    Syntax { text: String, reason: url::ParseError },
    /// Neither `http` nor `https`.
    #[error("`{scheme}` is no scheme of an HTTP server: expected `http` or `https`")]
    Scheme { scheme: String },
    /// The host is no name that can be resolved.
    #[error("the URL's host cannot be resolved: {0}")]
    Host(#[from] crate::network::HostNameError),
    /// Nothing can be connected to port 0.
    #[error("port 0 cannot be connected to: expected a port from 1 to 65535")]
    Port,
    /// A password in a policy file is a password in every log of it.
    #[error("a URL in a policy cannot contain a user name or password")]
    Credentials,
}

impl HttpUrl {
    /// Returns the URL as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host.
    pub const fn host(&self) -> &RemoteHost {
        &self.host
    }

    /// Returns the port; the scheme's default, if the URL has none.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for HttpUrl {
    type Err = HttpUrlError;

    fn from_str(text: &str) -> Result<Self, HttpUrlError> {
        let parsed = url::Url::parse(text).map_err(|reason| {
            let text = text.to_owned();
            if reason == url::ParseError::RelativeUrlWithoutBase {
                HttpUrlError::NoScheme { text }
            } else {
                HttpUrlError::Syntax { text, reason }
            }
        })?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(HttpUrlError::Scheme {
                scheme: parsed.scheme().to_owned(),
            });
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(HttpUrlError::Credentials);
        }
        let host = match parsed.host().expect("http URLs have a host") {
            url::Host::Domain(name) => RemoteHost::Name(name.parse()?),
            url::Host::Ipv4(address) => RemoteHost::Address(address.into()),
            url::Host::Ipv6(address) => RemoteHost::Address(IpAddr::from(address).to_canonical()),
        };
        let port = parsed
            .port_or_known_default()
            .filter(|port| *port != 0)
            .ok_or(HttpUrlError::Port)?;
        Ok(Self {
            text: text.to_owned(),
            host,
            port,
        })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("https://mcp.example.com/mcp" => "mcp.example.com 443")]
    #[test_case("http://MCP.example.com" => "mcp.example.com 80"; "name in lower case")]
    #[test_case("http://localhost:8080/sse" => "localhost 8080")]
    #[test_case("https://[2001:db8::1]:8443/" => "2001:db8::1 8443")]
    #[test_case("https://[::ffff:192.0.2.1]/" => "192.0.2.1 443"; "mapped address is v4")]
    #[test_case("http://0x7f.1/" => "127.0.0.1 80"; "address in another form")]
    #[test_case("https://münchen.example/" => "xn--mnchen-3ya.example 443"; "international name")]
    #[test_case("mcp.example.com/mcp" => "`mcp.example.com/mcp` is no URL: did you mean `https://mcp.example.com/mcp`?")]
    #[test_case("https://" => "`https://` is no URL such as `https://mcp.example.com/mcp`: empty host")]
    #[test_case("ftp://example.com/" => "`ftp` is no scheme of an HTTP server: expected `http` or `https`")]
    #[test_case("localhost:8080" => "`localhost` is no scheme of an HTTP server: expected `http` or `https`")]
    #[test_case("https://example.com:0/" => "port 0 cannot be connected to: expected a port from 1 to 65535")]
    #[test_case("https://me:secret@example.com/" => "a URL in a policy cannot contain a user name or password")]
    #[test_case("https://*.example.com/" => "the URL's host cannot be resolved: `*.example.com` is no host name: it contains '*' (a wildcard cannot be resolved: list the names, or use `cidrs`)")]
    fn urls(text: &str) -> String {
        match text.parse::<HttpUrl>() {
            Ok(url) => match url.host() {
                RemoteHost::Name(name) => format!("{name} {}", url.port()),
                RemoteHost::Address(address) => format!("{address} {}", url.port()),
            },
            Err(error) => error.to_string(),
        }
    }
}
