//! Authorisation metadata of a server, rewritten for a client that reaches the server under another URL (RFC
//! 9728): the resource is the URL the client used, and its metadata are requested from this proxy.
//!
//! The client passes the resource on to the authorisation server (RFC 8707), which the MCP server chooses. So if the
//! client's URL contains a secret, the resource is named without it.

use std::ops::Range;

use super::splice::Splices;
use crate::decode::{
    json::{LoneSurrogate, MAX_DEPTH, Scanner, Value, canonical},
    url::Url,
};

/// The path of a resource's metadata, which precedes the resource's path.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The parameter of a challenge that gives the URL of the metadata.
const PARAMETER: &str = "resource_metadata";

/// A server, with its own URL and the one that a client uses.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'u> {
    /// The URL of the server.
    pub server: &'u str,
    /// The URL at which the client reaches it.
    pub client: &'u str,
    /// True if the path of `client` contains a secret, which the client must not be led to disclose.
    pub has_secret: bool,
}

/// A challenge to be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The value of the header.
    pub value: String,
    /// The URL of the server's metadata, which mcpmon requests when a client asks for them; `None` if the server gives
    /// no URL of its own origin.
    pub metadata: Option<String>,
}

impl Resource<'_> {
    /// Returns the URL at which a client requests the metadata, derived from the path of the resource (RFC 9728, 3.1).
    /// Returns `None` if the client's URL is not valid.
    pub fn metadata(&self) -> Option<String> {
        let client = Url::read(self.client)?;
        let path = client.path().trim_end_matches('/');
        Some(format!("{}{WELL_KNOWN}{path}", client.base()))
    }

    /// Returns the name of the resource. Clients accept a shorter path that covers their own; the shortest contains no
    /// secret.
    fn named(&self) -> Option<String> {
        match self.has_secret {
            true => Some(format!("{}/", Url::read(self.client)?.base())),
            false => Some(self.client.to_owned()),
        }
    }

    /// Returns metadata of the server with the client's URL as the resource; `None` if there is nothing to replace,
    /// because they are of another resource, which clients are to see, or are no metadata.
    pub fn rewritten(&self, metadata: &[u8]) -> Option<String> {
        let mut scanner = Scanner::new(MAX_DEPTH);
        let scan = scanner.scan(metadata, LoneSurrogate::Replace).ok()?;
        // Readers use either of two members of the same name.
        let text = if names(scan.document.root()) == 1 {
            scan.document.text().to_owned()
        } else {
            canonical(scan.document)
        };
        let mut scanner = Scanner::new(MAX_DEPTH);
        let scan = scanner.scan(text.as_bytes(), LoneSurrogate::Replace).ok()?;
        let resource = scan.document.root().member("resource")?;
        if !self.covers(&resource.string()?) {
            return None;
        }
        let mut splices = Splices::default();
        splices.put(resource.range(), quoted(&self.named()?));
        Some(splices.apply(&text))
    }

    /// Returns the value of a `WWW-Authenticate` header with the URL of this proxy's metadata in place of the server's;
    /// `None` if it names none of the server's and stays unchanged. If there is a secret, URLs of others are replaced
    /// too: the metadata there may name no resource that covers the client's, and some clients then disclose their own
    /// URL.
    pub fn challenge(&self, value: &str) -> Option<Challenge> {
        let ours = self.metadata()?;
        let rewritten = self.spliced(value, &ours);
        if !self.has_secret {
            return rewritten.map(|(challenge, _)| challenge);
        }
        match rewritten {
            Some((challenge, count)) if mentions(&challenge.value) == count => Some(challenge),
            None if mentions(value) == 0 => None,
            // Clients search for the word anywhere in the header.
            Some(_) | None => Some(Challenge {
                value: format!("Bearer {PARAMETER}={}", quoted(&ours)),
                metadata: None,
            }),
        }
    }

    /// Returns the value with `ours` in place of each URL that must not be named, and the number of replacements.
    fn spliced(&self, value: &str, ours: &str) -> Option<(Challenge, usize)> {
        let server = Url::read(self.server)?;
        let mut splices = Splices::default();
        let mut metadata = None;
        let mut count = 0;
        for parameter in parameters(value)? {
            if !parameter.name.eq_ignore_ascii_case(PARAMETER) {
                continue;
            }
            let url = Url::read(&parameter.value).filter(|url| url.has_same_origin(server));
            if let Some(url) = url {
                metadata.get_or_insert_with(|| format!("{}{}", server.base(), url.path_and_query()));
            } else if !self.has_secret {
                continue;
            }
            splices.put(parameter.place, quoted(ours));
            count += 1;
        }
        let value = (count > 0).then(|| splices.apply(value))?;
        Some((Challenge { value, metadata }, count))
    }

    /// Returns whether a resource is the server, or contains it.
    fn covers(&self, resource: &str) -> bool {
        let (Some(server), Some(resource)) = (Url::read(self.server), Url::read(resource)) else {
            return false;
        };
        let path = resource.path().trim_end_matches('/');
        let rest = server.path().strip_prefix(path);
        server.has_same_origin(resource) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Returns how often a text contains the parameter's name.
fn mentions(value: &str) -> usize {
    value.to_ascii_lowercase().matches(PARAMETER).count()
}

/// Returns how often an object names its resource; a name with an escape counts twice, because it may be that name.
fn names(object: Value<'_>) -> usize {
    let all = object.members();
    let is_it = |name: &str| name == "resource";
    let escaped = object.members().filter(|member| member.name.contains('\\'));
    all.filter(|member| is_it(member.name)).count() + 2 * escaped.count()
}

/// Returns a quoted text, as JSON and HTTP both write it; only characters that both escape alike may need an escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A parameter of a challenge.
struct Parameter<'v> {
    name: &'v str,
    /// The range of its value, with its quotes.
    place: Range<usize>,
    value: String,
}

/// Returns the parameters of all challenges of a header (RFC 9110, 11.3); `None` if a quote is not closed.
fn parameters(value: &str) -> Option<Vec<Parameter<'_>>> {
    let mut parameters = Vec::new();
    let mut at = 0;
    while at < value.len() {
        let length = token(&value[at..]);
        let name = &value[at..at + length];
        let after = at + length + spaces(&value[at + length..]);
        if name.is_empty() {
            at = match value.as_bytes().get(at) {
                Some(b'"') => quoted_string(value, at)?.1,
                _ => at + value[at..].chars().next().map_or(1, char::len_utf8),
            };
            continue;
        }
        if !value[after..].starts_with('=') {
            // The name is a scheme.
            at = after;
            continue;
        }
        let start = after + 1 + spaces(&value[after + 1..]);
        let (text, end) = if value[start..].starts_with('"') {
            quoted_string(value, start)?
        } else {
            let rest = &value[start..];
            let length = rest.find([',', ' ', '\t']).unwrap_or(rest.len());
            (rest[..length].to_owned(), start + length)
        };
        parameters.push(Parameter {
            name,
            place: start..end,
            value: text,
        });
        at = end;
    }
    Some(parameters)
}

/// Returns the decoded string of a quoted string that starts at `start`, and the position of its end.
fn quoted_string(value: &str, start: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut characters = value[start + 1..].char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, start + 1 + at + 1)),
            '\\' => text.push(characters.next()?.1),
            other => text.push(other),
        }
    }
    None
}

fn token(text: &str) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    text.bytes().take_while(is_part).count()
}

fn spaces(text: &str) -> usize {
    text.bytes()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;
    use test_case::test_case;

    use super::*;

    const RESOURCE: Resource<'_> = Resource {
        server: "https://a.example/v1/mcp",
        client: "http://127.0.0.1:7000/mcp/a",
        has_secret: false,
    };

    const SECRET: Resource<'_> = Resource {
        client: "http://127.0.0.1:7000/s/t0ken/mcp/a",
        has_secret: true,
        ..RESOURCE
    };

    /// The URL for clients that know the secret, because they use it to connect.
    const OURS_SECRET: &str = "http://127.0.0.1:7000/.well-known/oauth-protected-resource/s/t0ken/mcp/a";

    const OURS: &str = "http://127.0.0.1:7000/.well-known/oauth-protected-resource/mcp/a";

    #[test_case("http://127.0.0.1:7000/mcp/a", OURS; "a path")]
    #[test_case("http://127.0.0.1:7000/mcp/a/?x=1", OURS; "a slash and a query")]
    #[test_case("http://127.0.0.1:7000", "http://127.0.0.1:7000/.well-known/oauth-protected-resource"; "no path")]
    fn where_metadata_are(client: &str, url: &str) {
        let resource = Resource { client, ..RESOURCE };
        assert_eq!(resource.metadata().as_deref(), Some(url));
    }

    #[test_case(r#"{"resource":"https://a.example/v1/mcp","authorization_servers":["https://as.example"]}"# => Some(r#"{"resource":"http://127.0.0.1:7000/mcp/a","authorization_servers":["https://as.example"]}"#.to_owned()); "the server")]
    #[test_case("{ \"x\" : 1.0 ,\n \"resource\" : \"https://a.example\" }\n" => Some("{ \"x\" : 1.0 ,\n \"resource\" : \"http://127.0.0.1:7000/mcp/a\" }\n".to_owned()); "its origin, and every other byte stays")]
    #[test_case(r#"{"resource":"https:\/\/a.example\/v1\/"}"# => Some(r#"{"resource":"http://127.0.0.1:7000/mcp/a"}"#.to_owned()); "a folder, with escapes")]
    #[test_case(r#"{"resource":"x","resource":"https://a.example"}"# => Some(r#"{"resource":"http://127.0.0.1:7000/mcp/a"}"#.to_owned()); "named twice")]
    #[test_case(r#"{"resource":"x","re\u0073ource":"https://a.example"}"# => Some(r#"{"resource":"http://127.0.0.1:7000/mcp/a"}"#.to_owned()); "named twice, once with an escape")]
    #[test_case(r#"{"a":{"resource":"https://a.example"}}"# => None; "inside something else")]
    #[test_case(r#"{"resource":"https://b.example/v1/mcp"}"# => None; "another server")]
    #[test_case(r#"{"resource":"https://a.example/v1/m"}"# => None; "a part of a name")]
    #[test_case(r#"{"resource":"https://a.example/v1/mcp/more"}"# => None; "a part of the server")]
    #[test_case(r#"{"resource":1}"# => None; "no URL")]
    #[test_case("{" => None; "no JSON")]
    #[test_case("[]" => None; "no object")]
    fn metadata(body: &str) -> Option<String> {
        RESOURCE.rewritten(body.as_bytes())
    }

    #[test_case(r#"Bearer resource_metadata="https://a.example/.well-known/x?y=1""#, &format!(r#"Bearer resource_metadata="{OURS}""#), "https://a.example/.well-known/x?y=1"; "quoted")]
    #[test_case("Bearer Resource_Metadata = https://a.example:443/x, scope=a", &format!(r#"Bearer Resource_Metadata = "{OURS}", scope=a"#), "https://a.example/x"; "a token, and the usual port")]
    #[test_case(r#"Basic abc==, DPoP realm="a \"resource_metadata=x\", b", Bearer error="e",resource_metadata="https://a.example/x""#, &format!(r#"Basic abc==, DPoP realm="a \"resource_metadata=x\", b", Bearer error="e",resource_metadata="{OURS}""#), "https://a.example/x"; "the last of several")]
    #[test_case(r#"A resource_metadata="https://a.example/1", B resource_metadata="https://a.example/2""#, &format!(r#"A resource_metadata="{OURS}", B resource_metadata="{OURS}""#), "https://a.example/1"; "two")]
    #[test_case(r#"Bearer resource_metadata="https:\/\/a.example\/x""#, &format!(r#"Bearer resource_metadata="{OURS}""#), "https://a.example/x"; "escapes")]
    #[test_case(r#"Bearer error="é", resource_metadata="https://a.example/x""#, &format!(r#"Bearer error="é", resource_metadata="{OURS}""#), "https://a.example/x"; "beyond ASCII")]
    fn challenges(value: &str, expected: &str, metadata: &str) {
        let challenge = RESOURCE.challenge(value).unwrap();
        assert_eq!(
            (&*challenge.value, challenge.metadata.as_deref()),
            (expected, Some(metadata))
        );
        let again = RESOURCE.challenge(&challenge.value);
        assert_eq!(again, None, "what is ours is not the server's");
    }

    #[test_case("Bearer"; "a scheme alone")]
    #[test_case(r#"Bearer realm="resource_metadata=https://a.example/x""#; "inside another one")]
    #[test_case(r#"Bearer resource_metadata="https://b.example/x""#; "another server")]
    #[test_case(r#"Bearer x_resource_metadata="https://a.example/x""#; "a longer name")]
    #[test_case(r#"Bearer resource_metadata="https://a.example/x"#; "a quote that is open")]
    #[test_case(r#"Bearer resource_metadata="/x""#; "no URL")]
    #[test_case(""; "nothing")]
    fn what_stays(value: &str) {
        assert_eq!(RESOURCE.challenge(value), None);
    }

    #[test_case(r#"{"resource":"https://a.example/v1/mcp","x":1}"# => Some(r#"{"resource":"http://127.0.0.1:7000/","x":1}"#.to_owned()); "the server")]
    #[test_case(r#"{"resource":"https://b.example/"}"# => None; "another server")]
    fn metadata_without_the_secret(body: &str) -> Option<String> {
        SECRET.rewritten(body.as_bytes())
    }

    #[test_case(r#"Bearer resource_metadata="https://a.example/x", scope="a""#, r#"Bearer resource_metadata="OURS", scope="a""#, Some("https://a.example/x"); "the server's")]
    #[test_case(r#"Bearer resource_metadata="https://b.example/x", scope="a""#, r#"Bearer resource_metadata="OURS", scope="a""#, None; "another server's")]
    #[test_case(r#"Bearer resource_metadata=/x"#, r#"Bearer resource_metadata="OURS""#, None; "no URL")]
    #[test_case(r#"Bearer realm="a, resource_metadata="https://b.example/x""#, r#"Bearer resource_metadata="OURS""#, None; "a quote that is open")]
    #[test_case(r#"Bearer realm="Resource_metadata=https://b.example/x""#, r#"Bearer resource_metadata="OURS""#, None; "inside another one")]
    #[test_case(r#"Bearer x_resource_metadata=https://b.example/x, resource_metadata="https://a.example/x""#, r#"Bearer resource_metadata="OURS""#, None; "a longer name before it")]
    fn challenges_with_a_secret(value: &str, expected: &str, metadata: Option<&str>) {
        let challenge = SECRET.challenge(value).unwrap();
        assert_eq!(challenge.value, expected.replace("OURS", OURS_SECRET));
        assert_eq!(challenge.metadata.as_deref(), metadata);
    }

    #[test]
    fn a_challenge_that_names_no_place_stays_where_there_is_a_secret() {
        assert_eq!(SECRET.challenge(r#"Bearer realm="a", scope="b""#), None);
    }

    proptest! {
        #[test]
        fn nobody_elses_place_is_named_where_there_is_a_secret(
            value in "(Bearer|resource_metadata|=|\"|\\\\|,| |é|https://[ab]\\.example/x){0,12}"
        ) {
            let told = SECRET.challenge(&value).map_or(value, |challenge| challenge.value);
            // As the official SDKs find it.
            let places = Regex::new(r#"(?i)resource_metadata\s*=\s*(?:"([^"]+)"|([^\s,]+))"#).unwrap();
            for place in places.captures_iter(&told) {
                let place = place.get(1).or_else(|| place.get(2)).unwrap().as_str();
                prop_assert_eq!(place, OURS_SECRET, "{}", told);
            }
        }

        #[test]
        fn any_value_is_read(value in "(Bearer|resource_metadata|=|\"|\\\\|,| |é|https://a\\.example/x){0,12}") {
            if let Some(challenge) = RESOURCE.challenge(&value) {
                prop_assert!(challenge.value.contains(OURS));
                let metadata = challenge.metadata.unwrap_or_default();
                prop_assert!(metadata.starts_with("https://a.example/"));
            }
        }

        #[test]
        fn any_body_is_read(body in "[\\[{\"resource:https/a.xmpl,}\\]\\\\ ]{0,40}") {
            if let Some(anew) = RESOURCE.rewritten(body.as_bytes()) {
                prop_assert!(anew.contains(RESOURCE.client));
            }
        }
    }
}
