//! Paths of requests, in every way in which servers could understand them.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The number of times a path is decoded: each proxy and server on the way may decode it once.
const ROUNDS: usize = 3;

/// A path, cut into segments in every way in which some server could.
#[derive(Debug)]
pub(in crate::llm) struct Path {
    /// The segments as written.
    pub(in crate::llm) as_is: Vec<String>,
    /// The segments with `..` resolved, if there is one.
    pub(in crate::llm) resolved: Option<Vec<String>>,
    query: String,
}

impl Path {
    /// Reads the target of a request.
    pub(in crate::llm) fn read(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.split('#').next().unwrap_or_default();
        let mut path = Cow::Borrowed(without_authority(path));
        for _ in 0..ROUNDS {
            let decoded = decoded(&path);
            if *decoded == *path {
                break;
            }
            path = Cow::Owned(decoded.into_owned());
        }
        let segments = path.split(['/', '\\']).map(segment);
        let segments: Vec<String> = segments
            .filter(|segment| !matches!(&**segment, "" | "."))
            .collect();
        Self {
            resolved: segments
                .iter()
                .any(|segment| segment == "..")
                .then(|| resolved(&segments)),
            as_is: segments,
            query: decoded(query).into_owned(),
        }
    }

    /// Returns whether the query has this parameter with this value.
    pub(in crate::llm) fn asks(&self, name: &str, value: &str) -> bool {
        self.query.split('&').any(|parameter| {
            let (key, given) = parameter.split_once('=').unwrap_or((parameter, ""));
            key.trim_start_matches('$').eq_ignore_ascii_case(name) && given.eq_ignore_ascii_case(value)
        })
    }
}

fn resolved(segments: &[String]) -> Vec<String> {
    let mut resolved: Vec<String> = Vec::new();
    for segment in segments {
        if segment == ".." {
            resolved.pop();
        } else {
            resolved.push(segment.clone());
        }
    }
    resolved
}

fn without_authority(target: &str) -> &str {
    let Some((scheme, rest)) = target.split_once("://") else {
        return target;
    };
    if scheme.contains('/') {
        return target;
    }
    rest.find('/').map_or("", |path| &rest[path..])
}

/// Returns a segment without what servers ignore: parameters, white space, control characters.
fn segment(text: &str) -> String {
    let text = text.split(['?', '#', ';']).next().unwrap_or_default();
    let counts = |character: &char| !character.is_control() && !character.is_whitespace();
    text.chars().filter(counts).collect()
}

/// Returns a text with its percent escapes decoded; an invalid escape stays.
fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/v1/messages?beta=true" => "v1 messages"; "a query")]
    #[test_case("//v1///messages//" => "v1 messages"; "slashes")]
    #[test_case("/v1/./messages/." => "v1 messages"; "dots")]
    #[test_case("/v1/models/../messages" => "v1 messages"; "two dots")]
    #[test_case("/../../v1/messages" => "v1 messages"; "above the root")]
    #[test_case("/v1%2Fmess%61ges" => "v1 messages"; "escapes")]
    #[test_case("/v1/mess%2561ges" => "v1 messages"; "escapes twice")]
    #[test_case("/v1/%zz/%4" => "v1 %zz %4"; "what is no escape")]
    #[test_case("/v1\\messages" => "v1 messages"; "a backslash")]
    #[test_case("/v1/messages;a=b/x%3by" => "v1 messages x"; "parameters")]
    #[test_case("/v1/messages%20%0d%00" => "v1 messages"; "white space and control characters")]
    #[test_case("/v1/messages%3Fbeta" => "v1 messages"; "an escaped query")]
    #[test_case("https://api.example.com/v1/messages#x" => "v1 messages"; "the absolute form")]
    #[test_case("/v1/messages%ff" => "v1 messages\u{fffd}"; "no UTF-8")]
    #[test_case("" => ""; "nothing")]
    fn segments(target: &str) -> String {
        let path = Path::read(target);
        path.resolved.unwrap_or(path.as_is).join(" ")
    }

    #[test]
    fn dots_are_also_left_as_they_are() {
        let path = Path::read("/v1/messages/..");
        assert_eq!(path.as_is, ["v1", "messages", ".."]);
        assert_eq!(path.resolved.unwrap(), ["v1"]);
    }

    #[test_case("/x?alt=sse" => true; "alone")]
    #[test_case("/x?key=1&$ALT=SSE" => true; "another spelling")]
    #[test_case("/x?alt=%73se" => true; "an escape")]
    #[test_case("/x?alt=json" => false; "another value")]
    #[test_case("/x" => false; "no query")]
    fn parameters(target: &str) -> bool {
        Path::read(target).asks("alt", "sse")
    }
}
