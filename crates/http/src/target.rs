//! Targets of requests: session and provider, from the path.

use hyper::{HeaderMap, Uri, http::uri::InvalidUri};

/// The prefix of sessions' paths.
const SESSION: &str = "s";

/// An LLM provider.
#[derive(Clone, Debug)]
pub struct Provider {
    name: String,
    /// Scheme and authority, and the path that precedes all others.
    base: String,
}

impl Provider {
    /// The provider `name` at `url`, without a slash at its end.
    ///
    /// # Errors
    /// Returns an error if `url` is not a valid URI.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Result<Self, InvalidUri> {
        let base = url.into();
        let _checked: Uri = base.parse()?;
        Ok(Self {
            name: name.into(),
            base,
        })
    }

    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the base URL.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the URI of `path` at the provider.
    pub(super) fn uri(&self, path: &str, query: Option<&str>) -> Result<Uri, InvalidUri> {
        let base = &*self.base;
        let whole = match query {
            Some(query) => [base, path, "?", query].concat(),
            None => [base, path].concat(),
        };
        Uri::from_maybe_shared(whole)
    }
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The session token in its path.
    pub(super) token: Option<&'a str>,
    /// The provider.
    pub(super) provider: &'a Provider,
    /// The path at the provider.
    pub(super) path: &'a str,
}

/// The reason why a request has no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TargetError {
    /// Different readers may understand the path differently.
    #[error(
        "the path is written in a way that mcpmon does not forward: without `//`, `.`, `..`, `\\` and escaped letters it is"
    )]
    Ambiguous,
    /// The path names no provider.
    #[error(
        "no provider is meant by the path: put a provider's name in front, one of {0}, as in `/{1}/v1/…` (`proxy.providers`)"
    )]
    Nobody(String, String),
}

/// Reads the path of a request.
pub(super) fn target<'a>(
    providers: &'a [Provider],
    path: &'a str,
    headers: &HeaderMap,
) -> Result<Target<'a>, TargetError> {
    if !is_plain(path) {
        return Err(TargetError::Ambiguous);
    }
    let (token, path) = match first(path) {
        Some((SESSION, rest)) => match first(rest) {
            Some((token, rest)) => (Some(token), rest),
            None => (None, rest),
        },
        Some(_) | None => (None, path),
    };
    let named = first(path).and_then(|(name, rest)| Some((by_name(providers, name)?, rest)));
    let bare = || usual_name(path, headers).and_then(|name| Some((by_name(providers, name)?, path)));
    match named.or_else(bare) {
        Some((provider, path)) => Ok(Target {
            token,
            provider,
            path,
        }),
        None => {
            let names: Vec<&str> = providers.iter().map(Provider::name).collect();
            let example = names.first().copied().unwrap_or("NAME").to_owned();
            Err(TargetError::Nobody(names.join(", "), example))
        }
    }
}

/// Returns the provider of a path that names none.
fn usual_name(path: &str, headers: &HeaderMap) -> Option<&'static str> {
    let is_under = |prefix: &str| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_under("/v1/messages") || is_under("/v1/complete") {
        Some("anthropic")
    } else if is_under("/v1beta") || is_under("/v1alpha") {
        Some("gemini")
    } else if is_under("/api") {
        Some("ollama")
    } else if is_under("/v1") {
        match headers.contains_key("anthropic-version") {
            true => Some("anthropic"),
            false => Some("openai"),
        }
    } else {
        None
    }
}

fn by_name<'a>(providers: &'a [Provider], name: &str) -> Option<&'a Provider> {
    providers.iter().find(|provider| provider.name == name)
}

/// Returns the first part of a path, and the path after it. Returns `None` if there is only one part.
fn first(path: &str) -> Option<(&str, &str)> {
    let inner = path.strip_prefix('/')?;
    let end = inner.find('/')?;
    Some(inner.split_at(end))
}

/// Returns whether every reader resolves the path identically. A route is chosen by its path, so proxy and provider
/// have to agree on it.
pub(super) fn is_plain(path: &str) -> bool {
    let parts = || path.split('/').skip(1);
    let last = parts().count().saturating_sub(1);
    path.starts_with('/')
        && !path.contains('\\')
        && parts().enumerate().all(|(index, part)| {
            !matches!(part, "." | "..") && (!part.is_empty() || index == last) && escapes_are_needed(part)
        })
}

/// Returns whether only characters that need an escape in a path are escaped.
fn escapes_are_needed(part: &str) -> bool {
    let mut pieces = part.split('%');
    pieces.next();
    pieces.all(|piece| {
        let digits = piece.get(..2);
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| {
            !byte.is_ascii_alphanumeric() && !b"-._~/\\:%".contains(&byte) && byte >= 0x20
        })
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use test_case::test_case;

    use super::*;

    fn providers() -> Vec<Provider> {
        let names = [
            ("anthropic", "https://api.anthropic.com"),
            ("gw", "https://gw.example.com/base"),
            ("ollama", "http://127.0.0.1:11434"),
            ("openai", "https://api.openai.com"),
        ];
        names
            .map(|(name, url)| Provider::new(name, url).unwrap())
            .to_vec()
    }

    fn told(path: &str, headers: &HeaderMap) -> String {
        let providers = providers();
        match target(&providers, path, headers) {
            Ok(target) => {
                let uri = target.provider.uri(target.path, Some("beta=true")).unwrap();
                format!("{:?} {uri}", target.token.unwrap_or_default())
            }
            Err(TargetError::Ambiguous) => "ambiguous".to_owned(),
            Err(TargetError::Nobody(..)) => "nobody".to_owned(),
        }
    }

    #[test_case("/v1/messages" => "\"\" https://api.anthropic.com/v1/messages?beta=true"; "anthropic by its route")]
    #[test_case("/v1/chat/completions" => "\"\" https://api.openai.com/v1/chat/completions?beta=true"; "openai by its route")]
    #[test_case("/v1/messagesx" => "\"\" https://api.openai.com/v1/messagesx?beta=true"; "another route")]
    #[test_case("/api/chat" => "\"\" http://127.0.0.1:11434/api/chat?beta=true"; "ollama by its route")]
    #[test_case("/v1beta/models/g:generateContent" => "nobody"; "a provider that is not there")]
    #[test_case("/gw/v1/responses" => "\"\" https://gw.example.com/base/v1/responses?beta=true"; "by name, under its base")]
    #[test_case("/s/abc/openai/v1/responses" => "\"abc\" https://api.openai.com/v1/responses?beta=true"; "a session")]
    #[test_case("/s/abc/v1/messages" => "\"abc\" https://api.anthropic.com/v1/messages?beta=true"; "a session, by its route")]
    #[test_case("/s/abc/" => "nobody"; "a session alone")]
    #[test_case("/" => "nobody"; "nothing")]
    #[test_case("/v1//messages" => "ambiguous"; "an empty part")]
    #[test_case("/openai/../v1/messages" => "ambiguous"; "a way up")]
    #[test_case("/v1/%6dessages" => "ambiguous"; "an escaped letter")]
    #[test_case("/v1/messages%2f" => "ambiguous"; "an escaped slash")]
    #[test_case("/gw/v1beta/models/g%3AgenerateContent" => "ambiguous"; "an escaped colon")]
    #[test_case("/v1/a%zz" => "ambiguous"; "no escape")]
    #[test_case("/v1/a%20b/" => "\"\" https://api.openai.com/v1/a%20b/?beta=true"; "an escape that is needed")]
    fn paths(path: &str) -> String {
        told(path, &HeaderMap::new())
    }

    #[test]
    fn a_route_of_both_is_told_by_who_asks() {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        assert_eq!(
            told("/v1/models", &headers),
            "\"\" https://api.anthropic.com/v1/models?beta=true"
        );
    }
}
