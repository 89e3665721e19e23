//! The files that a patch changes.

use crate::tables::{self, WordList};

/// Lines that name a file, in unified diffs, in those of git, and in the form that language models write.
static HEADERS: WordList = tables::PROTECTED_PATHS.list("patch", "headers");

/// The files that a patch names, with and without the directory that git puts before them.
pub(super) fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        let line = line.trim_end();
        let named = HEADERS.iter().find_map(|header| line.strip_prefix(header));
        let both = line
            .strip_prefix("diff --git ")
            .map(|names| names.split_whitespace());
        let name = named.map(|name| name.split('\t').next().unwrap_or(name).trim());
        let names = name.into_iter().chain(both.into_iter().flatten());
        names.flat_map(|name| {
            let below = ["a/", "b/"].iter().find_map(|prefix| name.strip_prefix(prefix));
            [Some(name), below].into_iter().flatten()
        })
    })
}

/// Returns whether a text is a patch.
pub(super) fn is_patch(text: &str) -> bool {
    let begins = |line: &str| {
        line.starts_with("*** Begin Patch") || line.starts_with("diff --git ") || line.starts_with("+++ ")
    };
    text.lines().take(MAX_PREAMBLE).any(begins)
}

/// Lines before the first file of a patch that are read.
const MAX_PREAMBLE: usize = 64;

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("--- a/x\n+++ b/.npmrc\t2020\n@@\n+++x", &["a/x", "x", "b/.npmrc", ".npmrc"]; "unified")]
    #[test_case("diff --git a/x b/y\nrename to z", &["a/x", "x", "b/y", "y", "z"]; "git")]
    #[test_case("*** Begin Patch\n*** Add File: x\n+y", &["Begin Patch", "x"]; "of models")]
    #[test_case("+ --- a/x", &[]; "within a line")]
    fn files_of_a_patch(text: &str, expected: &[&str]) {
        assert_eq!(targets(text).collect::<Vec<_>>(), expected);
    }
}
