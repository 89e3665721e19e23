//! Normal forms of a URI: case of scheme and host, characters that parsers drop, escapes, dot segments.

use super::{add, escapes::decodings, path::resolved};

/// Returns every URI that `text` can mean; the first is `text` itself.
pub fn uris(text: &str) -> Vec<String> {
    let mut uris = vec![text.to_owned()];
    // Browsers drop white space around a URL, and tabs and line breaks within it.
    let clean: String = text
        .trim_matches(|c: char| c <= ' ' || c.is_whitespace())
        .chars()
        .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
        .collect();
    for decoded in decodings(&clean) {
        match split_scheme(&decoded) {
            Some((scheme, rest)) => with_scheme(&scheme.to_ascii_lowercase(), rest, &mut uris),
            None => add(&mut uris, decoded.into_owned()),
        }
    }
    uris
}

/// Returns whether `text` begins like a URI of another scheme than `file`.
pub(super) fn has_other_scheme(text: &str) -> bool {
    split_scheme(text)
        .is_some_and(|(scheme, rest)| rest.starts_with("//") && !scheme.eq_ignore_ascii_case("file"))
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some((scheme, rest))
}

fn with_scheme(scheme: &str, rest: &str, uris: &mut Vec<String>) {
    let (place, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let place = place.replace('\\', "/");
    let Some(authority) = place.strip_prefix("//") else {
        // Some parsers read `secret:a` and `file:/a` as if they had an authority.
        let path = resolved(&place);
        add(uris, format!("{scheme}:{place}{query}"));
        let path = if scheme == "file" && !path.starts_with('/') {
            format!("/{path}")
        } else {
            path
        };
        return add(uris, format!("{scheme}://{path}{query}"));
    };
    let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    let host = authority.to_lowercase();
    let path = steps(path);
    add(uris, format!("{scheme}://{host}{path}{query}"));
    if let Some((_, host)) = host.rsplit_once('@') {
        add(uris, format!("{scheme}://{host}{path}{query}"));
    }
    if scheme == "file" && !host.is_empty() {
        add(uris, format!("{scheme}://{path}{query}"));
    }
}

/// Removes dot segments and empty ones. A `/` at the end is significant in a URI, and stays.
fn steps(path: &str) -> String {
    let mut steps = if path.is_empty() {
        String::new()
    } else {
        resolved(path)
    };
    if path.ends_with('/') && !steps.ends_with('/') {
        steps.push('/');
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("secret://a/b", &["secret://a/b"]; "plain")]
    #[test_case("SECRET://A/b", &["SECRET://A/b", "secret://a/b"]; "case")]
    #[test_case(" sec\tret://a\n", &[" sec\tret://a\n", "secret://a"]; "what readers drop")]
    #[test_case("secret:a", &["secret:a", "secret://a"]; "no authority")]
    #[test_case("file:/etc/x", &["file:/etc/x", "file:///etc/x"]; "one slash")]
    #[test_case("file://localhost/etc/../x", &["file://localhost/etc/../x", "file://localhost/x", "file:///x"]; "host and steps")]
    #[test_case("secret%3A%2F%2Fa", &["secret%3A%2F%2Fa", "secret://a"]; "escaped")]
    #[test_case("https://u:p@h.example/a/./b/?q=/../", &["https://u:p@h.example/a/./b/?q=/../", "https://u:p@h.example/a/b/?q=/../", "https://h.example/a/b/?q=/../"]; "user and query")]
    #[test_case("http:\\\\h\\a", &["http:\\\\h\\a", "http://h/a"]; "backslashes")]
    #[test_case("no uri", &["no uri"]; "no uri")]
    fn names(text: &str, expected: &[&str]) {
        assert_eq!(uris(text), expected);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            prop_assert_eq!(&uris(&text)[0], &text);
        }
    }
}
