//! HTTP+SSE of 2024-11-05: a stream whose first event says where messages are posted.

use super::Fault;

/// How the stream of a server of this transport is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL at which the stream was opened, as the server knows it.
    pub server: String,
    /// Where clients of the proxy post messages: what they are told in place of what the server says.
    pub announced: String,
}

/// Where a server at `server` wants messages posted that tells `reference`, as an URL.
///
/// # Errors
///
/// Where that is not at the server itself, or readers could differ on where it is.
pub fn endpoint(server: &str, reference: &str) -> Result<String, Fault> {
    let fault = |cause| Fault::Endpoint { cause };
    let base = Url::read(server).ok_or_else(|| fault("the server's own URL is none"))?;
    let reference = reference.trim_matches(' ');
    if !reference
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#'))
    {
        return Err(fault("it is written in a way that readers take differently"));
    }
    let rest = match (reference.split_once("://"), reference.strip_prefix("//")) {
        (_, Some(_)) => at_origin(base, &format!("{}:{reference}", base.scheme)),
        (Some((scheme, _)), None) if is_scheme(scheme) => at_origin(base, reference),
        _ => Some(under(base, reference)),
    };
    let rest = rest.ok_or_else(|| fault("it is at another origin"))?;
    let (path, query) = split_query(&rest);
    Ok(format!(
        "{}://{}{}{query}",
        base.scheme,
        base.authority,
        without_dots(path)
    ))
}

/// Scheme, authority, and what follows.
#[derive(Clone, Copy)]
struct Url<'u> {
    scheme: &'u str,
    authority: &'u str,
    rest: &'u str,
}

impl<'u> Url<'u> {
    fn read(url: &'u str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let is_plain = !authority.is_empty() && !authority.contains('@');
        (is_scheme(scheme) && is_plain).then_some(Self {
            scheme,
            authority,
            rest,
        })
    }

    /// Who is meant: the scheme, host and port.
    fn origin(self) -> (String, String, u16) {
        let scheme = self.scheme.to_ascii_lowercase();
        let usual = if scheme == "https" { 443 } else { 80 };
        let colon = self
            .authority
            .rfind(':')
            .filter(|at| !self.authority[*at..].contains(']'));
        let (host, port) = colon.map_or((self.authority, ""), |at| {
            (&self.authority[..at], &self.authority[at + 1..])
        });
        let port = match port {
            "" => usual,
            // No port is one that no server has.
            port => port.parse().unwrap_or(0),
        };
        (scheme, host.to_ascii_lowercase(), port)
    }
}

fn is_scheme(text: &str) -> bool {
    text.eq_ignore_ascii_case("http") || text.eq_ignore_ascii_case("https")
}

/// What follows the authority of an URL with the origin of `base`.
fn at_origin(base: Url<'_>, url: &str) -> Option<String> {
    let url = Url::read(url)?;
    let is_same = url.origin() == base.origin() && url.origin().2 != 0;
    is_same.then(|| url.rest.to_owned())
}

/// A reference without scheme and authority, put under the path of `base` (RFC 3986, 5.2.2).
fn under(base: Url<'_>, reference: &str) -> String {
    let (path, _) = split_query(base.rest);
    match reference.as_bytes().first() {
        None => base.rest.to_owned(),
        Some(b'/') => reference.to_owned(),
        Some(b'?') => format!("{path}{reference}"),
        Some(_) => {
            let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
            format!("{folder}{reference}")
        }
    }
}

/// A path, and its query with the question mark.
fn split_query(text: &str) -> (&str, &str) {
    let at = text.find('?').unwrap_or(text.len());
    text.split_at(at)
}

/// A path without the segments that mean itself or what is above (RFC 3986, 5.2.4), however they are written.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_open = false;
    for segment in path.split('/').skip(1) {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        ends_open = matches!(&*plain, "." | "..");
        match &*plain {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    if ends_open {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/messages/?session_id=ab" => "https://a.example/messages/?session_id=ab"; "a path")]
    #[test_case("messages?s=1" => "https://a.example/api/messages?s=1"; "beside the stream")]
    #[test_case("?s=1" => "https://a.example/api/sse?s=1"; "a query")]
    #[test_case("" => "https://a.example/api/sse?x=1"; "nothing")]
    #[test_case("https://a.example/m" => "https://a.example/m"; "absolute")]
    #[test_case("HTTPS://A.Example:443/m" => "https://a.example/m"; "the same in other words")]
    #[test_case("https://a.example" => "https://a.example/"; "no path")]
    #[test_case("//a.example/m" => "https://a.example/m"; "no scheme")]
    #[test_case("/a/../b/./c" => "https://a.example/b/c"; "dots")]
    #[test_case("../../../x" => "https://a.example/x"; "above the top")]
    #[test_case("/a/%2E%2e/b/." => "https://a.example/b/"; "dots that are escaped")]
    #[test_case("/m?u=http://b.example/" => "https://a.example/m?u=http://b.example/"; "an URL in the query")]
    #[test_case("x:y/m" => "https://a.example/api/x:y/m"; "a colon in a name")]
    #[test_case("http://a.example/m" => "elsewhere"; "another scheme")]
    #[test_case("https://b.example/m" => "elsewhere"; "another host")]
    #[test_case("//b.example/m" => "elsewhere"; "another host without a scheme")]
    #[test_case("https://a.example:8443/m" => "elsewhere"; "another port")]
    #[test_case("https://a.example:x/m" => "elsewhere"; "no port")]
    #[test_case("https://a.example.b.example/m" => "elsewhere"; "a longer host")]
    #[test_case("https://a.example@b.example/m" => "elsewhere"; "a host that is a name")]
    #[test_case("https://u@a.example/m" => "elsewhere"; "a user")]
    #[test_case("/\\b.example/m" => "unclear"; "a backslash")]
    #[test_case("/\t/b.example/m" => "unclear"; "a tab that some leave out")]
    #[test_case("/m#x" => "unclear"; "a fragment")]
    #[test_case("/m\u{e9}" => "unclear"; "beyond ASCII")]
    fn endpoints(reference: &str) -> String {
        match endpoint("https://a.example/api/sse?x=1", reference) {
            Ok(url) => url,
            Err(Fault::Endpoint { cause }) if cause.contains("origin") => "elsewhere".to_owned(),
            Err(_) => "unclear".to_owned(),
        }
    }

    #[test_case("http://[::1]:8080/sse", "http://[::1]:8080/m" => true; "six")]
    #[test_case("http://[::1]:8080/sse", "http://[::1]/m" => false; "six, without the port")]
    #[test_case("http://[::1]/sse", "http://[::1]:80/m" => true; "six, with the usual port")]
    #[test_case("ftp://a.example/sse", "/m" => false; "no web")]
    fn hosts(server: &str, reference: &str) -> bool {
        endpoint(server, reference).is_ok()
    }
}
