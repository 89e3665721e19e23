//! Addresses of remote servers, as `host:port`.

use std::net::IpAddr;

use mcpmon_model::PinKey;
use mcpmon_policy::HostName;

use super::Traffic;

impl Traffic {
    /// Returns the address of a remote server: the declared one, else that in the URL of its identity.
    pub(crate) fn address_of(&self, identity: &PinKey) -> Option<String> {
        let declared = self.registry.address_of(&identity.server);
        declared.map(str::to_owned).or_else(|| {
            let (host, port) = place(&identity.name)?;
            Some(address(&host, port))
        })
    }
}

/// Returns `host:port`, with brackets around an IPv6 address.
pub(super) fn address(host: &str, port: u16) -> String {
    match host.parse() {
        Ok(IpAddr::V6(host)) => format!("[{host}]:{port}"),
        Ok(IpAddr::V4(_)) | Err(_) => format!("{host}:{port}"),
    }
}

/// Returns host and port of a URL, if all readers agree about them.
pub(super) fn place(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme.to_ascii_lowercase().as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        Some(_) | None => (authority, default),
    };
    if let Some(address) = host.strip_prefix('[') {
        let address: IpAddr = address.strip_suffix(']')?.parse().ok()?;
        return Some((address.to_string(), port));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.is_ipv4().then(|| (address.to_string(), port));
    }
    let name: HostName = host.parse().ok()?;
    // Readers take names that end in a number for addresses, but differ in which.
    let last = name.as_str().rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with(|c: char| c.is_ascii_digit());
    (!is_number).then(|| (name.as_str().to_owned(), port))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("https://mcp.example.com/mcp" => Some(("mcp.example.com".to_owned(), 443)); "plain")]
    #[test_case("HTTP://MCP.Example.com.:8080?x" => Some(("mcp.example.com".to_owned(), 8080)); "cases and a port")]
    #[test_case("https://192.0.2.1/" => Some(("192.0.2.1".to_owned(), 443)); "an address")]
    #[test_case("https://[2001:db8::1]:444/" => Some(("2001:db8::1".to_owned(), 444)); "a longer address")]
    #[test_case("https://[2001:db8::1]/" => Some(("2001:db8::1".to_owned(), 443)); "a longer address without a port")]
    #[test_case("https://good.example@evil.example/" => None; "a user")]
    #[test_case("https://evil.example\\@good.example/" => None; "a backslash")]
    #[test_case("https://evil%2eexample/" => None; "escapes")]
    #[test_case("https://127.1/" => None; "half an address")]
    #[test_case("https://0x7f000001/" => None; "a number")]
    #[test_case("https://b\u{fc}cher.example/" => None; "no ASCII")]
    #[test_case("https:///mcp" => None; "no host")]
    #[test_case("ftp://mcp.example.com/" => None; "another scheme")]
    #[test_case("mcp.example.com" => None; "no scheme")]
    fn addresses(url: &str) -> Option<(String, u16)> {
        place(url)
    }
}
