//! Paths of requests: the declared server that a path names, and the resource of the server.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::super::target::is_plain;

/// The prefix of servers' paths, after a session's token.
const SERVERS: &str = "/mcp/";
/// The prefix of sessions' paths.
const SESSIONS: &str = "/s/";
/// The prefix of documents about a server.
const WELL_KNOWN: &str = "/.well-known/";

/// The characters that are escaped in a server's id: all that could end a part of a path, and more.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'@');

/// A path that leads to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Route<'a> {
    /// The token at the beginning of the path.
    pub(in super::super) token: Option<&'a str>,
    /// The server that the path names.
    pub(super) server: Cow<'a, str>,
    /// The path at which the client knows the server, as written in the request: `/mcp/SERVER`, with the token before
    /// it.
    pub(super) base: &'a str,
    /// The resource.
    pub(super) place: RoutePlace<'a>,
}

/// The resource of a server that a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoutePlace<'a> {
    /// The MCP endpoint.
    Endpoint,
    /// A path below the endpoint, with its slash: the URL for messages of the transport of 2024-11-05.
    Below(&'a str),
    /// A document about the server.
    Document(Document),
}

/// A document that clients look for before they authorise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    /// Metadata of the server ([RFC 9728](https://www.rfc-editor.org/rfc/rfc9728)).
    ProtectedResource,
    /// Metadata of the authorization server ([RFC 8414](https://www.rfc-editor.org/rfc/rfc8414)), if that is the server
    /// itself.
    AuthorizationServer,
    /// The same metadata at the path of OpenID Connect.
    OpenidConfiguration,
}

impl Document {
    const ALL: [Self; 3] = [
        Self::ProtectedResource,
        Self::AuthorizationServer,
        Self::OpenidConfiguration,
    ];

    /// Returns its name after `/.well-known/`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ProtectedResource => "oauth-protected-resource",
            Self::AuthorizationServer => "oauth-authorization-server",
            Self::OpenidConfiguration => "openid-configuration",
        }
    }
}

/// The reason why a path that should lead to a server leads to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum RouteError {
    /// Different readers may understand the path differently.
    Ambiguous,
    /// The path names no server, or an unknown resource of one.
    Nothing,
}

/// Reads a path. Returns `None` if the path is not for an MCP server.
pub(in super::super) fn route(path: &str) -> Option<Result<Route<'_>, RouteError>> {
    // A document about `/mcp/SERVER` is requested at `/.well-known/NAME/mcp/SERVER` too.
    let (document, inner) = match path.strip_prefix(WELL_KNOWN) {
        Some(rest) => Document::ALL.into_iter().find_map(|document| {
            let inner = rest.strip_prefix(document.name())?;
            (inner.is_empty() || inner.starts_with('/')).then_some((Some(document), inner))
        })?,
        None => (None, path),
    };
    let (token, behind) = match inner.strip_prefix(SESSIONS) {
        Some(rest) => match rest.find('/') {
            Some(end) => (Some(&rest[..end]), &rest[end..]),
            None => (None, inner),
        },
        None => (None, inner),
    };
    let Some(named) = behind.strip_prefix(SERVERS) else {
        let is_bare = behind == SERVERS.trim_end_matches('/');
        return (is_bare || document.is_some()).then_some(Err(RouteError::Nothing));
    };
    let end = named.find('/').unwrap_or(named.len());
    let (name, rest) = named.split_at(end);
    let base = &inner[..inner.len() - rest.len()];
    let route = || {
        // The name may be escaped in any way, because it is only used here. The rest may become part of a path of the
        // server.
        let server = unescape(name).ok_or(RouteError::Ambiguous)?;
        if !(rest.is_empty() || is_plain(rest)) {
            return Err(RouteError::Ambiguous);
        }
        if server.is_empty() {
            return Err(RouteError::Nothing);
        }
        let place = match (document, rest) {
            (Some(document), "" | "/") => RoutePlace::Document(document),
            (Some(_), _) => return Err(RouteError::Nothing),
            (None, "" | "/") => RoutePlace::Endpoint,
            (None, rest) => match rest.strip_prefix(WELL_KNOWN) {
                Some(name) => {
                    let document = Document::ALL.into_iter().find(|document| document.name() == name);
                    RoutePlace::Document(document.ok_or(RouteError::Nothing)?)
                }
                None => RoutePlace::Below(rest),
            },
        };
        Ok(Route {
            token,
            server,
            base,
            place,
        })
    };
    Some(route())
}

/// Removes the escapes of a part of a path. Returns `None` if they are invalid.
fn unescape(part: &str) -> Option<Cow<'_, str>> {
    let is_escape = |piece: &str| {
        let digits = piece.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_plain = part.split('%').skip(1).all(is_escape);
    is_plain.then(|| percent_decode_str(part).decode_utf8().ok())?
}

/// Returns a server's id as a part of a path.
pub(super) fn escape(id: &str) -> String {
    utf8_percent_encode(id, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/mcp/files" => "files at /mcp/files: Endpoint"; "a server")]
    #[test_case("/mcp/files/" => "files at /mcp/files: Endpoint"; "with a slash")]
    #[test_case("/s/tok/mcp/files" => "tok: files at /s/tok/mcp/files: Endpoint"; "of a session")]
    #[test_case("/mcp/%40team%2Ffiles" => "@team/files at /mcp/%40team%2Ffiles: Endpoint"; "an escaped name")]
    #[test_case("/mcp/files/messages/" => "files at /mcp/files: Below(\"/messages/\")"; "below it")]
    #[test_case("/.well-known/oauth-protected-resource/mcp/files" => "files at /mcp/files: Document(ProtectedResource)"; "a document, its path inserted")]
    #[test_case("/.well-known/oauth-protected-resource/s/tok/mcp/files" => "tok: files at /s/tok/mcp/files: Document(ProtectedResource)"; "a document, of a session")]
    #[test_case("/.well-known/oauth-authorization-server/mcp/files" => "files at /mcp/files: Document(AuthorizationServer)"; "of who gives out tokens")]
    #[test_case("/mcp/files/.well-known/openid-configuration" => "files at /mcp/files: Document(OpenidConfiguration)"; "a document, its path appended")]
    #[test_case("/mcp/files/.well-known/other" => "Nothing"; "a document that nobody looks for")]
    #[test_case("/.well-known/oauth-protected-resource" => "Nothing"; "a document of nobody")]
    #[test_case("/.well-known/oauth-protected-resource/mcp/files/more" => "Nothing"; "a document of something below")]
    #[test_case("/mcp" => "Nothing"; "no server")]
    #[test_case("/mcp/" => "Nothing"; "an empty one")]
    #[test_case("/mcp//messages" => "Nothing"; "an empty one with a path")]
    #[test_case("/s/tok/mcp" => "Nothing"; "no server of a session")]
    #[test_case("/mcp/fi%les" => "Ambiguous"; "no escape")]
    #[test_case("/mcp/fi%+1les" => "Ambiguous"; "no digits")]
    #[test_case("/mcp/fi%ffles" => "Ambiguous"; "no text")]
    #[test_case("/mcp/files/../other" => "Ambiguous"; "a way up")]
    #[test_case("/mcp/files/%2e%2e/other" => "Ambiguous"; "an escaped way up")]
    #[test_case("/mcp/files//messages" => "Ambiguous"; "an empty part")]
    #[test_case("/mcpx/files" => "-"; "another path")]
    #[test_case("/openai/mcp/files" => "-"; "of a provider")]
    #[test_case("/.well-known/other/mcp/files" => "-"; "another document")]
    #[test_case("/.well-known/oauth-protected-resourcex/mcp/files" => "-"; "a document with more to its name")]
    #[test_case("/v1/messages" => "-"; "a model")]
    #[test_case("/s/tok" => "-"; "a session alone")]
    fn paths(path: &str) -> String {
        match route(path) {
            None => "-".to_owned(),
            Some(Err(error)) => format!("{error:?}"),
            Some(Ok(route)) => {
                let token = route.token.map(|token| format!("{token}: ")).unwrap_or_default();
                format!("{token}{} at {}: {:?}", route.server, route.base, route.place)
            }
        }
    }

    #[test]
    fn an_id_is_found_again_however_it_is_written() {
        for id in ["files", "@team/files", "ünï", "a b%c?d#e"] {
            let path = format!("/mcp/{}", escape(id));
            let found = route(&path).unwrap().unwrap();
            assert_eq!((found.server.as_ref(), found.place), (id, RoutePlace::Endpoint));
        }
    }
}
