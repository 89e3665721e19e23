//! Globs over names: `*` is any run of characters, `?` any one; nothing else is special.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pattern over server names, tool names, command words and URIs, where `*` crosses everything.
///
/// Every text is a valid pattern. Matching is linear in the product of the lengths and never recurses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NameGlob(String);

impl NameGlob {
    /// Builds a glob from `pattern`, which is used as it is.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Returns the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        let mut pattern = self.0.chars();
        let mut rest = name.chars();
        // Where to resume when a later part fails: the pattern after the last `*`, and the name one further.
        let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            match (pattern.next(), rest.clone().next()) {
                (Some('*'), _) => retry = Some((pattern.clone(), rest.clone())),
                (Some('?'), Some(_)) => drop(rest.next()),
                (Some(wanted), Some(found)) if wanted == found => drop(rest.next()),
                (None, None) => return true,
                (Some(_) | None, _) => {
                    let Some((resume, from)) = &mut retry else {
                        return false;
                    };
                    if from.next().is_none() {
                        return false;
                    }
                    pattern = resume.clone();
                    rest = from.clone();
                }
            }
        }
    }
}

impl fmt::Display for NameGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("", "" => true)]
    #[test_case("", "a" => false)]
    #[test_case("*", "" => true)]
    #[test_case("*", "a/b c" => true; "star crosses slashes")]
    #[test_case("mcp-*", "mcp-server" => true)]
    #[test_case("mcp-*", "xmcp-server" => false)]
    #[test_case("*-mcp", "a-mcp-mcp" => true; "star retries")]
    #[test_case("a*b*c", "a-b-b-d" => false; "star fails at the end")]
    #[test_case("a?c", "abc" => true)]
    #[test_case("a?c", "ac" => false)]
    #[test_case("é?", "éx" => true; "characters not bytes")]
    fn globs(pattern: &str, name: &str) -> bool {
        NameGlob::new(pattern).matches(name)
    }
}
