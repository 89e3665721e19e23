//! Admission to the proxy: pages in a browser are refused, and an address that other hosts reach requires the
//! token.

use std::net::IpAddr;

use hyper::{
    HeaderMap, Uri,
    header::{HOST, HeaderName, HeaderValue, ORIGIN},
};

use super::{Peer, TOKEN_HEADER, Token};

/// The header in which browsers name the origin of a request. A page cannot set it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The listener on which a request came in.
#[derive(Clone, Debug)]
pub(super) struct ListenerEntry {
    /// True if the listener can rightly be addressed by names of this host only.
    pub(super) loopback: bool,
    /// The token that a client must present.
    pub(super) token: Option<Token>,
    /// The process at the other end.
    pub(super) peer: Peer,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestRefusal {
    /// The request comes from a web page: it has a foreign `Origin`.
    #[error("requests of web pages are refused (`Origin`)")]
    Origin,
    /// The browser names no origin, as for a picture, a frame or a link, but `Sec-Fetch-Site` shows a foreign page.
    #[error("requests of web pages are refused (`Sec-Fetch-Site`)")]
    Page,
    /// `Host` is not a name of this host: an attacker's name may resolve to this address (DNS rebinding).
    #[error("this address is not called by that name (`Host`): use 127.0.0.1 or localhost")]
    Host,
    /// The request is for a forward proxy.
    #[error("this is no forward proxy: put its address into the base URL of the agent instead")]
    Forward,
    /// The request has no valid token.
    #[error(
        "a token is needed here: send it as `x-mcpmon-token`, or in the path as `/s/TOKEN/…` (the file is `proxy.token_file`)"
    )]
    Token,
}

/// Checks a request's head; `presented` is the token of its path, and `is_session` says whether a session has it.
pub(super) fn admit(
    entry: &ListenerEntry,
    uri: &Uri,
    headers: &HeaderMap,
    presented: Option<&str>,
    is_session: impl Fn(&str) -> bool,
) -> Result<(), RequestRefusal> {
    if uri.authority().is_some() {
        return Err(RequestRefusal::Forward);
    }
    refuse_pages(headers, entry.loopback)?;
    let Some(token) = &entry.token else {
        return Ok(());
    };
    let sent = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
    let is_known = |text: &str| token.is(text) || is_session(text);
    match sent.is_some_and(|text| token.is(text)) || presented.is_some_and(is_known) {
        true => Ok(()),
        false => Err(RequestRefusal::Token),
    }
}

/// Returns whether a request comes, or may come, from a web page in a browser. `is_loopback` is true if the listener
/// can rightly be addressed by names of this host only.
pub(super) fn is_of_page(headers: &HeaderMap, is_loopback: bool) -> bool {
    refuse_pages(headers, is_loopback).is_err()
}

fn refuse_pages(headers: &HeaderMap, is_loopback_only: bool) -> Result<(), RequestRefusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    let is_known = |host: &str| !is_loopback_only || is_loopback(host);
    let fits = host.is_none_or(|host| host.to_str().is_ok_and(is_known));
    if !fits || hosts.next().is_some() {
        return Err(RequestRefusal::Host);
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let is_local = |origin: &str| {
        let origin = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        origin.is_some_and(is_loopback)
    };
    if !origins.all(|origin| origin.to_str().is_ok_and(is_local)) {
        return Err(RequestRefusal::Origin);
    }
    let mut sites = headers.get_all(FETCH_SITE).iter();
    // Either the user opened the address (`none`), or the page is one of the proxy's own origin.
    let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    if !headers.contains_key(ORIGIN) && !sites.all(is_own) {
        return Err(RequestRefusal::Page);
    }
    Ok(())
}

/// Returns whether `host`, with or without a port, can only mean this host.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => address,
            Some((address, port)) if port.strip_prefix(':').is_some_and(is_port) => address,
            Some(_) | None => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return false,
            None => host,
        },
    };
    let is_address = |name: &str| {
        name.parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
    };
    let is_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "localhost" || name.ends_with(".localhost")
    };
    is_address(name) || is_name(name)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// The token of a session.
    const SESSION: &str = "of-a-session";

    fn admitted(
        entry: &ListenerEntry,
        uri: &str,
        lines: &[(&'static str, &'static str)],
        presented: Option<&str>,
    ) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        match admit(entry, &uri.parse().unwrap(), &headers, presented, |token| {
            token == SESSION
        }) {
            Ok(()) => "in".to_owned(),
            Err(refusal) => format!("{refusal:?}"),
        }
    }

    #[test_case(&[("host", "127.0.0.1:8484")] => "in"; "an address")]
    #[test_case(&[("host", "[::1]:8484")] => "in"; "another address")]
    #[test_case(&[("host", "LocalHost")] => "in"; "a name")]
    #[test_case(&[("host", "127.9.9.9")] => "in"; "any loopback address")]
    #[test_case(&[] => "in"; "no name at all")]
    #[test_case(&[("host", "attacker.example:8484")] => "Host"; "a name that was let point here")]
    #[test_case(&[("host", "localhost.attacker.example")] => "Host"; "a name that begins well")]
    #[test_case(&[("host", "localhost:8484@attacker.example")] => "Host"; "a name behind a port")]
    #[test_case(&[("host", "127.0.0.1"), ("host", "127.0.0.1")] => "Host"; "two names")]
    #[test_case(&[("host", "localhost"), ("origin", "https://attacker.example")] => "Origin"; "a page")]
    #[test_case(&[("host", "localhost"), ("origin", "null")] => "Origin"; "a page of nobody")]
    #[test_case(&[("host", "localhost"), ("origin", "http://localhost:3000")] => "in"; "a page of this host")]
    #[test_case(&[("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://a.example")] => "Origin"; "two origins")]
    #[test_case(&[("host", "localhost"), ("sec-fetch-site", "cross-site")] => "Page"; "a picture on a page")]
    #[test_case(&[("host", "localhost"), ("sec-fetch-site", "same-site")] => "Page"; "a picture on a page of another port")]
    #[test_case(&[("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")] => "Page"; "two answers to whose page it is")]
    #[test_case(&[("host", "localhost"), ("sec-fetch-site", "None")] => "Page"; "an answer that no browser gives")]
    #[test_case(&[("host", "localhost"), ("sec-fetch-site", "none")] => "in"; "a person")]
    #[test_case(&[("host", "localhost"), ("sec-fetch-site", "same-origin")] => "in"; "a page from here")]
    #[test_case(&[("host", "localhost"), ("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")] => "in"; "a page of this host that says so")]
    #[test_case(&[("host", "localhost"), ("origin", "https://attacker.example"), ("sec-fetch-site", "none")] => "Origin"; "a page and no page")]
    fn on_loopback(lines: &[(&'static str, &'static str)]) -> String {
        let entry = ListenerEntry {
            loopback: true,
            token: None,
            peer: Peer::default(),
        };
        admitted(&entry, "/v1/messages", lines, None)
    }

    #[test]
    fn it_is_no_forward_proxy() {
        let entry = ListenerEntry {
            loopback: true,
            token: None,
            peer: Peer::default(),
        };
        assert_eq!(
            admitted(
                &entry,
                "http://attacker.example/v1/messages",
                &[("host", "localhost")],
                None
            ),
            "Forward"
        );
    }

    #[test_case(&[], None => "Token"; "nothing")]
    #[test_case(&[("x-mcpmon-token", "0123456789abcdef")], None => "in"; "in a header")]
    #[test_case(&[("x-mcpmon-token", "0123456789abcdeX")], None => "Token"; "another")]
    #[test_case(&[("x-mcpmon-token", "")], None => "Token"; "an empty one")]
    #[test_case(&[], Some("0123456789abcdef") => "in"; "in the path")]
    #[test_case(&[("host", "build.example")], Some("0123456789abcdef") => "in"; "by any name")]
    fn with_a_token(lines: &[(&'static str, &'static str)], presented: Option<&str>) -> String {
        let entry = ListenerEntry {
            loopback: false,
            token: Some(Token::new("0123456789abcdef").unwrap()),
            peer: Peer::default(),
        };
        admitted(&entry, "/v1/messages", lines, presented)
    }
}
