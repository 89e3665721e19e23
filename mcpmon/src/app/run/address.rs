//! URLs of providers in environment variables.

use std::{
    ffi::{OsStr, OsString},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use url::{Host, Url};

/// The port that Ollama listens on.
const OLLAMA_PORT: u16 = 11434;

/// The reason why a value cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error("which is no URL such as http://127.0.0.1:8080/v1")]
    NoUrl,
    #[error("which has a user name or password in it")]
    Credentials,
    #[error("which has a query or a fragment behind its path")]
    Query,
}

/// Parses `given` as clients of `provider` do, and returns the URL without a slash at its end.
pub(super) fn url(provider: &str, given: &OsString) -> Result<String, Unusable> {
    let given = given.to_str().ok_or(Unusable::NoUrl)?.trim();
    let text = match provider {
        "ollama" => ollama(given),
        _ => given.to_owned(),
    };
    let mut url = Url::parse(&text).map_err(|_invalid| Unusable::NoUrl)?;
    if !matches!(url.scheme(), "http" | "https") || !text.contains("://") || url.port() == Some(0) {
        return Err(Unusable::NoUrl);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Unusable::Credentials);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Unusable::Query);
    }
    // A server can listen on the unspecified address, but a client cannot connect to it.
    let near = match url.host() {
        Some(Host::Ipv4(address)) if address.is_unspecified() => Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
        Some(Host::Ipv6(address)) if address.is_unspecified() => Some(IpAddr::from(Ipv6Addr::LOCALHOST)),
        _ => None,
    };
    let text = match near {
        Some(near) => {
            url.set_ip_host(near).map_err(|()| Unusable::NoUrl)?;
            url.to_string()
        }
        // Kept as it was written, because it is compared with the configuration.
        None => text,
    };
    Ok(text.trim_end_matches('/').to_owned())
}

/// Completes a value for Ollama, whose clients accept `host`, `host:port` and `:port` as well.
fn ollama(given: &str) -> String {
    if given.contains("://") {
        return given.to_owned();
    }
    let (host, path) = given.split_at(given.find('/').unwrap_or(given.len()));
    let host = match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) if host.is_empty() || host.starts_with(':') => format!("{}{host}", Ipv4Addr::LOCALHOST),
        Err(_) => host.to_owned(),
    };
    let has_port = host
        .rsplit_once(']')
        .map_or(&*host, |(_, behind)| behind)
        .contains(':');
    match has_port {
        true => format!("http://{host}{path}"),
        false => format!("http://{host}:{OLLAMA_PORT}{path}"),
    }
}

/// Returns `given` without user name, password and query, to be shown.
pub(super) fn shown(given: &OsStr) -> String {
    let given = given.to_string_lossy();
    let path = given.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match path.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), path),
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}***@{host}"),
        None => format!("{scheme}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("127.0.0.1:18100" => Ok("http://127.0.0.1:18100".to_owned()); "host and port")]
    #[test_case("models.example" => Ok("http://models.example:11434".to_owned()); "a host")]
    #[test_case("0.0.0.0" => Ok("http://127.0.0.1:11434".to_owned()); "everywhere")]
    #[test_case("0.0.0.0:18100" => Ok("http://127.0.0.1:18100".to_owned()); "everywhere, and a port")]
    #[test_case("http://0.0.0.0:18100/" => Ok("http://127.0.0.1:18100".to_owned()); "everywhere, as a URL")]
    #[test_case(":18100" => Ok("http://127.0.0.1:18100".to_owned()); "a port")]
    #[test_case("::1" => Ok("http://[::1]:11434".to_owned()); "an IPv6 address")]
    #[test_case("[::]:18100" => Ok("http://[::1]:18100".to_owned()); "everywhere in IPv6")]
    #[test_case("models.example/ollama/" => Ok("http://models.example:11434/ollama".to_owned()); "a path")]
    #[test_case("http://models.example" => Ok("http://models.example".to_owned()); "a URL has the port of its scheme")]
    #[test_case("models.example:none" => Err(Unusable::NoUrl); "no port")]
    #[test_case("ftp://models.example" => Err(Unusable::NoUrl); "another scheme")]
    #[test_case("me:none@models.example:1" => Err(Unusable::Credentials); "a password")]
    fn of_ollama(given: &str) -> Result<String, Unusable> {
        url("ollama", &given.into())
    }

    #[test_case("https://gw.example/v1/" => Ok("https://gw.example/v1".to_owned()); "a URL")]
    #[test_case("gw.example" => Err(Unusable::NoUrl); "no scheme")]
    #[test_case("http:gw.example" => Err(Unusable::NoUrl); "no slashes")]
    #[test_case("http://gw.example:0" => Err(Unusable::NoUrl); "no port that can be connected to")]
    #[test_case("https://gw.example/?key=none" => Err(Unusable::Query); "a query")]
    fn of_others(given: &str) -> Result<String, Unusable> {
        url("openai", &given.into())
    }

    #[test_case("https://a:b@gw.example/x?key=c" => "https://***@gw.example/x")]
    #[test_case("a:b@gw.example:1" => "***@gw.example:1")]
    #[test_case("anything" => "anything")]
    fn no_secret_is_told(given: &str) -> String {
        shown(OsStr::new(given))
    }
}
