//! URLs of servers: their parts, their origin, and references resolved against them.

/// An `http` or `https` URL, split into its parts and not validated further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'u> {
    scheme: &'u str,
    authority: &'u str,
    rest: &'u str,
}

impl<'u> Url<'u> {
    /// Splits a URL. Returns `None` if it is no `http` or `https` URL, or if parsers disagree about which part is the
    /// host.
    pub fn read(url: &'u str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let is_plain = !authority.is_empty() && !authority.contains(['@', '\\', '#']);
        (is_scheme(scheme) && is_plain).then_some(Self {
            scheme,
            authority,
            rest,
        })
    }

    /// Returns whether both have the same origin: scheme, host and port.
    pub fn has_same_origin(self, other: Self) -> bool {
        matches!((self.origin(), other.origin()), (Some(this), Some(other)) if this == other)
    }

    /// Returns scheme, host and port as written.
    pub fn base(self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Returns the path, which can be empty.
    pub fn path(self) -> &'u str {
        split_query(self.rest).0
    }

    /// Returns the part after the authority.
    pub const fn path_and_query(self) -> &'u str {
        self.rest
    }

    /// Resolves a reference against this URL and removes dot segments (RFC 3986, section 5.2). Returns `None` if the
    /// result has another origin.
    pub fn join(self, reference: &str) -> Option<String> {
        let scheme = self.scheme;
        let rest = match (reference.split_once("://"), reference.strip_prefix("//")) {
            (_, Some(_)) => self.rest_of(&format!("{scheme}:{reference}"))?,
            (Some((scheme, _)), None) if is_scheme(scheme) => self.rest_of(reference)?,
            (Some(_) | None, None) => self.under(reference),
        };
        let (path, query) = split_query(&rest);
        Some(format!("{}{}{query}", self.base(), without_dots(path)))
    }

    fn origin(self) -> Option<(String, String, u16)> {
        let scheme = self.scheme.to_ascii_lowercase();
        let usual = if scheme == "https" { 443 } else { 80 };
        let colon = self
            .authority
            .rfind(':')
            .filter(|at| !self.authority[*at..].contains(']'));
        let (host, port) = match colon {
            Some(at) => (&self.authority[..at], &self.authority[at + 1..]),
            None => (self.authority, ""),
        };
        let port = match port {
            "" => usual,
            port => port.parse().ok()?,
        };
        Some((scheme, host.to_ascii_lowercase(), port))
    }

    /// Returns the part after the authority of a URL of the same origin.
    fn rest_of(self, url: &str) -> Option<String> {
        let url = Url::read(url)?;
        self.has_same_origin(url).then(|| url.rest.to_owned())
    }

    /// Resolves a reference that has neither scheme nor authority.
    fn under(self, reference: &str) -> String {
        let path = self.path();
        match reference.as_bytes().first() {
            None => self.rest.to_owned(),
            Some(b'/') => reference.to_owned(),
            Some(b'?') => format!("{path}{reference}"),
            Some(_) => {
                let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
                format!("{folder}{reference}")
            }
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.eq_ignore_ascii_case("http") || text.eq_ignore_ascii_case("https")
}

/// Splits a text into the path, and the query with its question mark.
fn split_query(text: &str) -> (&str, &str) {
    let at = text.find('?').unwrap_or(text.len());
    text.split_at(at)
}

/// Removes `.` and `..` segments, percent-encoded ones too.
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

    #[test_case("/messages/?session_id=ab" => Some("https://a.example/messages/?session_id=ab".to_owned()); "a path")]
    #[test_case("messages?s=1" => Some("https://a.example/api/messages?s=1".to_owned()); "beside")]
    #[test_case("?s=1" => Some("https://a.example/api/sse?s=1".to_owned()); "a query")]
    #[test_case("" => Some("https://a.example/api/sse?x=1".to_owned()); "nothing")]
    #[test_case("https://a.example/m" => Some("https://a.example/m".to_owned()); "absolute")]
    #[test_case("HTTPS://A.Example:443/m" => Some("https://a.example/m".to_owned()); "the same in other words")]
    #[test_case("https://a.example" => Some("https://a.example/".to_owned()); "no path")]
    #[test_case("//a.example/m" => Some("https://a.example/m".to_owned()); "no scheme")]
    #[test_case("/a/../b/./c" => Some("https://a.example/b/c".to_owned()); "dots")]
    #[test_case("../../../x" => Some("https://a.example/x".to_owned()); "above the top")]
    #[test_case("/a/%2E%2e/b/." => Some("https://a.example/b/".to_owned()); "dots that are escaped")]
    #[test_case("/m?u=http://b.example/" => Some("https://a.example/m?u=http://b.example/".to_owned()); "an URL in the query")]
    #[test_case("x:y/m" => Some("https://a.example/api/x:y/m".to_owned()); "a colon in a name")]
    #[test_case("http://a.example/m" => None; "another scheme")]
    #[test_case("https://b.example/m" => None; "another host")]
    #[test_case("//b.example/m" => None; "another host without a scheme")]
    #[test_case("https://a.example:8443/m" => None; "another port")]
    #[test_case("https://a.example:x/m" => None; "no port")]
    #[test_case("https://a.example.b.example/m" => None; "a longer host")]
    #[test_case("https://a.example@b.example/m" => None; "a host that is a name")]
    #[test_case("https://u@a.example/m" => None; "a user")]
    #[test_case("https://a.example\\@b.example/m" => None; "a backslash, which ends a host for some")]
    #[test_case("https://a.example#@b.example/m" => None; "a fragment")]
    fn references(reference: &str) -> Option<String> {
        Url::read("https://a.example/api/sse?x=1")
            .unwrap()
            .join(reference)
    }

    #[test_case("http://[::1]:8080/sse", "http://[::1]:8080/m" => true; "six")]
    #[test_case("http://[::1]:8080/sse", "http://[::1]/m" => false; "six, without the port")]
    #[test_case("http://[::1]/sse", "http://[::1]:80/m" => true; "six, with the usual port")]
    #[test_case("https://a.example", "https://A.example:443?x" => true; "no paths")]
    #[test_case("https://a.example:1", "https://a.example:2" => false; "two ports")]
    #[test_case("https://a.example:x", "https://a.example:x" => false; "no port at all")]
    fn origins(one: &str, other: &str) -> bool {
        Url::read(one).unwrap().has_same_origin(Url::read(other).unwrap())
    }

    #[test_case("ftp://a.example/"; "no web")]
    #[test_case("https:a.example"; "no authority")]
    #[test_case("https:///x"; "an empty one")]
    #[test_case("/x"; "a path")]
    fn no_urls(text: &str) {
        assert_eq!(Url::read(text), None);
    }
}
