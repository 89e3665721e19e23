//! Remote servers that a user names, and the settings with which they are asked.

use std::env;

use mcpmon_model::{Digest, ServerId, ServerType};
use mcpmon_policy::{Policy, Server, Transport};

use mcpmon_http::client::{Address, AddressError, ServerEndpoint};
pub use mcpmon_http::client::{Header, HeaderError, ServerTransport};

/// A remote server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteDestination {
    /// The id, from the declaration or from the URL.
    pub id: ServerId,
    /// The name of the owner of its pins: its URL as it is declared, without a query.
    pub name: String,
    /// The address.
    pub address: Address,
    /// The transport.
    pub way: ServerTransport,
    /// The digest of its certificate, if the certificate is pinned.
    pub pin: Option<Digest>,
}

/// The reason why a text names no usable remote server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// Its URL cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The server runs on this host.
    #[error("`{0}` is declared with a command and no URL")]
    Local(ServerId),
    /// A certificate is pinned for a URL without TLS.
    #[error(
        "a certificate is pinned, and {0} is spoken to without TLS: give its `https://` URL, or leave out `--tls-fingerprint`"
    )]
    InClear(String),
    /// The text is neither a URL nor the id of a declared server.
    #[error("`{0}` is neither a URL nor the id of a server that the policy declares (`mcp.servers`)")]
    Unknown(String),
}

/// Returns the server that `text` names: a URL, or the id of a declared server.
///
/// # Errors
/// Returns an error if it names no server that can be asked.
pub fn destination(policy: &Policy, text: &str) -> Result<RemoteDestination, DestinationError> {
    if text.contains("://") {
        let address = Address::new(text)?;
        let declared = policy.servers.iter().filter_map(declared);
        let same = declared
            .filter_map(Result::ok)
            .find(|known| known.address == address);
        return Ok(same.unwrap_or_else(|| RemoteDestination {
            id: id_of(&address),
            name: address.shown(),
            address,
            way: ServerTransport::Http,
            pin: None,
        }));
    }
    let id = ServerId::new(text).ok();
    let servers = policy.servers.iter();
    let Some(server) = id.and_then(|id| servers.clone().find(|server| server.id == id)) else {
        return Err(DestinationError::Unknown(text.chars().take(200).collect()));
    };
    declared(server).unwrap_or_else(|| Err(DestinationError::Local(server.id.clone())))
}

/// Returns the destination of a declared server. Returns `None` if the server runs on this host.
pub fn declared(server: &Server) -> Option<Result<RemoteDestination, DestinationError>> {
    let Transport::Remote {
        server_type,
        url,
        tls_fingerprint,
        ..
    } = &server.transport
    else {
        return None;
    };
    Some(
        Address::new(url)
            .map_err(Into::into)
            .map(|address| RemoteDestination {
                id: server.id.clone(),
                name: url.split(['?', '#']).next().unwrap_or(url).to_owned(),
                address,
                way: match server_type {
                    ServerType::Sse => ServerTransport::Sse,
                    ServerType::Http | ServerType::Stdio => ServerTransport::Http,
                },
                pin: *tls_fingerprint,
            }),
    )
}

/// Derives the id of a server that is not declared.
fn id_of(address: &Address) -> ServerId {
    // The brackets of an IPv6 address would be part of a pattern in a policy.
    let authority = address.authority().replace(['[', ']'], "");
    ServerId::new(authority).unwrap_or_else(|_| ServerId::new("server").expect("a plain word is an id"))
}

impl RemoteDestination {
    /// Pins another certificate, if `pin` is given.
    ///
    /// # Errors
    /// Returns an error if a certificate is pinned for a URL without TLS.
    pub fn pinning(self, pin: Option<Digest>) -> Result<Self, DestinationError> {
        let pin = pin.or(self.pin);
        match pin.is_some() && self.address.as_str().starts_with("http://") {
            true => Err(DestinationError::InClear(self.address.shown())),
            false => Ok(Self { pin, ..self }),
        }
    }

    /// Returns the endpoint with which the server is asked.
    pub fn asking(&self, headers: Vec<Header>, max_message: usize) -> ServerEndpoint {
        ServerEndpoint {
            address: self.address.clone(),
            headers,
            pin: self.pin,
            max_message,
        }
    }
}

/// A header whose value is in an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderVariable {
    name: String,
    variable: String,
}

/// The reason why a header cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderVariableError {
    /// The text is not `NAME=VARIABLE`.
    #[error("expected the name of a header and of a variable, such as `Authorization=MY_TOKEN`")]
    Form,
    /// The variable is not set.
    #[error("the variable {0} is not set, which `--header-env` names")]
    Unset(String),
    /// The header cannot be sent.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

impl HeaderVariable {
    /// Parses `NAME=VARIABLE`.
    ///
    /// # Errors
    /// Returns an error if the text has another form.
    pub fn parse(text: &str) -> Result<Self, HeaderVariableError> {
        let (name, variable) = text.split_once('=').ok_or(HeaderVariableError::Form)?;
        let is_variable = !variable.is_empty()
            && variable
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_variable {
            return Err(HeaderVariableError::Form);
        }
        Header::new(name, "")?;
        Ok(Self {
            name: name.to_owned(),
            variable: variable.to_owned(),
        })
    }

    /// Returns the header with the value that its variable has now.
    ///
    /// # Errors
    /// Returns an error if the variable is not set, or its value is not valid in a header.
    pub fn header(&self) -> Result<Header, HeaderVariableError> {
        let value =
            env::var(&self.variable).map_err(|_unset| HeaderVariableError::Unset(self.variable.clone()))?;
        Ok(Header::new(&self.name, &value)?)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::RemoteHost;
    use test_case::test_case;

    use super::*;

    fn policy() -> Policy {
        let server = |id: &str, transport| Server {
            id: ServerId::new(id).expect("an id"),
            transport,
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: None,
            sandbox: Default::default(),
            egress: None,
            on_change: None,
        };
        let remote = |server_type, url: &str| Transport::Remote {
            server_type,
            url: url.to_owned(),
            host: RemoteHost::Address([127, 0, 0, 1].into()),
            port: 443,
            tls_fingerprint: None,
        };
        let local = Transport::Stdio {
            command: "/opt/tool".to_owned(),
            args: Vec::new(),
        };
        Policy {
            servers: vec![
                server("weather", remote(ServerType::Http, "https://mcp.example.com/mcp")),
                server("old", remote(ServerType::Sse, "http://127.0.0.1:3001/sse")),
                server("local", local),
            ],
            ..Policy::default()
        }
    }

    #[test]
    fn a_certificate_is_pinned_where_one_is_shown() {
        let pin = Digest::of(b"a certificate");
        let of = |text| destination(&policy(), text).expect("a destination");
        let pinned = of("weather").pinning(Some(pin)).expect("it speaks TLS");
        assert_eq!(pinned.pin, Some(pin));
        assert_eq!(of("old").pinning(None), Ok(of("old")));
        let error = of("old").pinning(Some(pin)).unwrap_err().to_string();
        assert!(
            error.contains("http://127.0.0.1:3001/sse is spoken to without TLS"),
            "{error}"
        );
    }

    #[test_case("weather" => "weather https://mcp.example.com/mcp Http"; "by id")]
    #[test_case("old" => "old http://127.0.0.1:3001/sse Sse"; "by id, the earlier transport")]
    #[test_case("HTTPS://MCP.example.com:443/mcp" => "weather https://mcp.example.com/mcp Http"; "by another spelling of its URL")]
    #[test_case("https://mcp.example.com/other?key=hush" => "mcp.example.com https://mcp.example.com/other Http"; "not declared")]
    #[test_case("http://[::1]:8080/mcp" => "::1-8080 http://[::1]:8080/mcp Http"; "an address")]
    #[test_case("local" => "`local` is declared with a command and no URL"; "on this host")]
    #[test_case("nobody" => "`nobody` is neither a URL nor the id of a server that the policy declares (`mcp.servers`)"; "unknown")]
    fn destinations(text: &str) -> String {
        match destination(&policy(), text) {
            Ok(found) => format!("{} {} {:?}", found.id, found.address, found.way),
            Err(error) => error.to_string(),
        }
    }

    #[test_case("Authorization=MY_TOKEN" => true; "a variable")]
    #[test_case("Authorization" => false; "none named")]
    #[test_case("Authorization=" => false; "an empty one")]
    #[test_case("Authorization=Bearer x" => false; "a value")]
    #[test_case("a b=C" => false; "no header")]
    fn variables(text: &str) -> bool {
        HeaderVariable::parse(text).is_ok()
    }
}
