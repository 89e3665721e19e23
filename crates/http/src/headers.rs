//! Headers on their way through the proxy.

use hyper::{
    HeaderMap,
    header::{
        ACCEPT_ENCODING, ACCEPT_RANGES, ALT_SVC, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, EXPECT,
        HOST, HeaderName, HeaderValue, LAST_MODIFIED, PROXY_AUTHORIZATION, REFERER, TE, TRAILER,
        TRANSFER_ENCODING, UPGRADE,
    },
};

use super::{TOKEN_HEADER, coding::ContentCoding};

/// Headers for one connection only ([RFC 9110, 7.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1)), besides
/// those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Headers that are valid only for the unchanged bytes of a body.
const OF_THE_BYTES: [HeaderName; 8] = [
    CONTENT_LENGTH,
    ETAG,
    LAST_MODIFIED,
    ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Removes headers that concern only the connection to the agent, and those that could disclose a token in the path.
pub(super) fn to_provider(headers: &mut HeaderMap) {
    strip_hop_by_hop(headers);
    for name in [HOST, EXPECT, REFERER, HeaderName::from_static(TOKEN_HEADER)] {
        headers.remove(name);
    }
}

/// Removes headers that concern only the connection to the provider, and those that would lead the agent past the
/// proxy.
pub(super) fn to_agent(headers: &mut HeaderMap) {
    strip_hop_by_hop(headers);
    headers.remove(ALT_SVC);
}

/// Removes headers that are valid only for the unchanged bytes: the forwarded bytes may differ.
pub(super) fn forget_bytes(headers: &mut HeaderMap) {
    headers.remove(CONTENT_ENCODING);
    remove(headers, &OF_THE_BYTES);
}

/// Removes the accepted codings that cannot be decoded here.
pub(super) fn narrow_codings(headers: &mut HeaderMap) {
    let mut accepted: Vec<&str> = Vec::new();
    for value in headers.get_all(ACCEPT_ENCODING) {
        for member in value.to_str().unwrap_or_default().split(',') {
            let (name, parameters) = member.split_once(';').unwrap_or((member, ""));
            let Some(coding) = ContentCoding::named(name.trim()) else {
                continue;
            };
            if !is_refused(parameters) && !accepted.contains(&coding.as_str()) {
                accepted.push(coding.as_str());
            }
        }
    }
    let value = match accepted.is_empty() {
        true => HeaderValue::from_static("identity"),
        false => HeaderValue::from_str(&accepted.join(", ")).expect("names of codings are plain"),
    };
    headers.insert(ACCEPT_ENCODING, value);
}

/// Returns whether the parameters of a coding refuse it: a weight of 0.
fn is_refused(parameters: &str) -> bool {
    let weight = parameters.trim().strip_prefix("q=");
    weight.is_some_and(|weight| weight.trim().parse().is_ok_and(|weight: f32| weight <= 0.0))
}

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    remove(headers, &named);
    remove(headers, &HOP_BY_HOP);
}

/// Removes these headers. Most requests have none of them: one pass over the existing headers is cheaper than a look-up
/// of each name.
fn remove(headers: &mut HeaderMap, names: &[HeaderName]) {
    if headers.keys().any(|name| names.contains(name)) {
        for name in names {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (HeaderName::from_static(name), value)
        });
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, value);
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn headers_of_the_connection_stay_on_it() {
        let mut sent = headers(&[
            ("host", "localhost"),
            ("connection", "keep-alive, X-Private"),
            ("connection", "x-second"),
            ("x-private", "1"),
            ("x-second", "2"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("transfer-encoding", "chunked"),
            ("proxy-authorization", "Basic x"),
            (TOKEN_HEADER, "secret"),
            ("expect", "100-continue"),
            ("authorization", "Bearer x"),
            ("anthropic-beta", "a"),
            ("anthropic-beta", "b"),
        ]);
        to_provider(&mut sent);
        assert_eq!(names(&sent), ["anthropic-beta", "authorization"]);
        assert_eq!(sent.get_all("anthropic-beta").iter().count(), 2);

        let mut received = headers(&[
            ("alt-svc", "h3=\":443\""),
            ("keep-alive", "timeout=5"),
            ("request-id", "r1"),
        ]);
        to_agent(&mut received);
        assert_eq!(names(&received), ["request-id"]);
    }

    #[test]
    fn what_is_true_of_other_bytes_is_taken_out() {
        let mut received = headers(&[
            ("content-encoding", "gzip"),
            ("content-length", "5"),
            ("etag", "\"x\""),
            ("content-digest", "sha-256=:x:"),
            ("content-type", "application/json"),
        ]);
        forget_bytes(&mut received);
        assert_eq!(names(&received), ["content-type"]);
    }

    #[test_case(&[] => "identity"; "nothing said")]
    #[test_case(&["gzip, deflate, br, zstd"] => "gzip, deflate, br, zstd"; "all")]
    #[test_case(&["compress;q=0.5, GZIP;q=0.8", "dcb, br"] => "gzip, br"; "some of them, spread")]
    #[test_case(&["gzip;q=0, *"] => "identity"; "refused")]
    #[test_case(&["identity"] => "identity"; "none")]
    fn codings(accepted: &[&'static str]) -> String {
        let lines: Vec<_> = accepted.iter().map(|value| ("accept-encoding", *value)).collect();
        let mut headers = headers(&lines);
        narrow_codings(&mut headers);
        headers[ACCEPT_ENCODING].to_str().unwrap().to_owned()
    }
}
