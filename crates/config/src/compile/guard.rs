//! Compilation of `mcp.config_guard`: files that no call may write, in addition to the built-in ones.

use mcpmon_model::PathPattern;
use mcpmon_policy::ConfigGuard;

use crate::{
    load::{KeyMistake, KeyPath},
    raw,
};

/// Compiles `mcp.config_guard`.
pub(super) fn guard(raw: &raw::ConfigGuard, mistakes: &mut Vec<KeyMistake>) -> ConfigGuard {
    let list = KeyPath::root().key("mcp").key("config_guard").key("extra_paths");
    let mut extra_paths = Vec::with_capacity(raw.extra_paths.len());
    for (index, text) in raw.extra_paths.iter().enumerate() {
        match PathPattern::new(text) {
            Ok(pattern) => extra_paths.push(pattern),
            Err(error) => mistakes.push(KeyMistake::new(list.index(index), error.to_string())),
        }
    }
    ConfigGuard { extra_paths }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_told_at_its_place() {
        let raw = raw::ConfigGuard {
            extra_paths: ["~/work/**", "notes", "/a/../b", "**/*"]
                .map(str::to_owned)
                .into(),
        };
        let mut mistakes = Vec::new();
        let compiled = guard(&raw, &mut mistakes);
        let kept: Vec<_> = compiled.extra_paths.iter().map(PathPattern::as_str).collect();
        assert_eq!(kept, ["~/work/**"]);
        let told: Vec<_> = mistakes.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(
            told,
            [
                "expected a path that begins with `/`, `~/` or `**/`",
                "a pattern has no `.`, `..` or empty names",
                "the pattern names no file: it would match every path",
            ]
        );
    }
}
