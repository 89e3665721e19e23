//! Names chosen by servers, in texts that people and models read and in commands that people copy.

use std::{borrow::Cow, collections::BTreeSet};

use mcpmon_detect::mask::without_secrets;
use mcpmon_policy::Suppression;

/// Longest shown part of a name, characters.
const MAX_SHOWN: usize = 100;
/// Longest part of a name in a command, characters.
const MAX_TYPED: usize = 4 * MAX_SHOWN;
/// The remedy if no command accepts the finding.
const BY_HAND: &str = "in `mcp.suppressions` the name of this tool, or of its server, would be a pattern that others match \
                       too, so no command accepts it: whoever does writes the entry by hand";
/// Most rules that one command names.
const MAX_ACCEPTED: usize = 16;
/// Longest part of a name that is searched for secrets, bytes: a secret that begins in the shown part ends in it.
const MAX_READ: usize = 16 << 10;

/// Returns a name for use in a text: short, without invisible characters, and without secrets.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    match without_secrets(&name[..name.floor_char_boundary(MAX_READ)]) {
        Cow::Borrowed(name) => seen(name),
        Cow::Owned(name) => Cow::Owned(seen(&name).into_owned()),
    }
}

fn seen(name: &str) -> Cow<'_, str> {
    let is_plain =
        name.len() <= MAX_SHOWN && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain {
        return Cow::Borrowed(name);
    }
    let mut text: String = name
        .chars()
        .take(MAX_SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if name.chars().nth(MAX_SHOWN).is_some() {
        text.push('…');
    }
    Cow::Owned(format!("\"{text}\""))
}

/// Returns a command of mcpmon that a shell parses as intended, whatever names it contains.
pub(super) fn command(words: &[&str]) -> String {
    const PROGRAM: &str = "mcpmon";
    let length = |word: &&str| 1 + word.len();
    let mut command = String::with_capacity(PROGRAM.len() + words.iter().map(length).sum::<usize>());
    command.push_str(PROGRAM);
    for word in words {
        command.push(' ');
        command.push_str(&quoted(word));
    }
    command
}

/// Returns the command that shows a rule: its effect, and the key and file that configure it.
pub(super) fn explaining(rule: &str) -> String {
    command(&["policy", "explain", rule])
}

/// Returns the remedy for a finding that is harmless: the command that accepts findings of these `rules` in the `tool` of
/// a server. An empty `tool` stands for everything of the server that is no tool. If the rules are none or too many, the
/// command names `all` instead, the rule of the engine that acts on every such finding.
///
/// Names in a suppression are patterns, and a server chooses the names of its tools: the entry of a tool called `*` would
/// cover every tool. `policy accept` refuses such a name, so the remedy is then to write the entry by hand; the same holds
/// for a name that is too long to type, or that cannot be shown.
pub(super) fn acceptance_remedy<'r>(
    rules: impl IntoIterator<Item = &'r str>,
    all: &'r str,
    server: &str,
    tool: &str,
) -> String {
    let is_exact = |name: &str| {
        name.chars().nth(MAX_TYPED).is_none() && !Suppression::is_pattern(&quoted(&without_secrets(name)))
    };
    if !is_exact(server) || !is_exact(tool) {
        return BY_HAND.to_owned();
    }
    let mut named: BTreeSet<&str> = rules.into_iter().collect();
    if named.is_empty() || named.len() > MAX_ACCEPTED {
        named = BTreeSet::from([all]);
    }
    let mut words = vec!["policy", "accept"];
    words.extend(named);
    words.extend(["--server", server, "--tool", tool]);
    command(&words)
}

fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@=+,%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return Cow::Borrowed(word);
    }
    // A name that cannot be shown cannot be typed either; `*` replaces the characters that are left out.
    let typed: String = word
        .chars()
        .take(MAX_TYPED)
        .map(|c| {
            if c.is_control() || !(c.is_ascii() || c.is_alphanumeric()) {
                '*'
            } else {
                c
            }
        })
        .collect();
    Cow::Owned(format!("'{}'", typed.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(1, "read", "mcpmon policy accept r0 --server files --tool read"; "one rule")]
    #[test_case(2, "", "mcpmon policy accept r0 r1 --server files --tool ''"; "no tool")]
    #[test_case(0, "read", "mcpmon policy accept output_poisoning --server files --tool read"; "recorded without rules")]
    #[test_case(17, "read", "mcpmon policy accept output_poisoning --server files --tool read"; "too many rules")]
    #[test_case(1, "a b'c[d]", r"mcpmon policy accept r0 --server files --tool 'a b'\''c[d]'"; "signs that are no pattern")]
    fn what_is_found_is_accepted_by_a_command(rules: usize, tool: &str, expected: &str) {
        let rules: Vec<String> = (0..rules).map(|number| format!("r{number}")).collect();
        let named = rules.iter().map(String::as_str);
        assert_eq!(
            acceptance_remedy(named, "output_poisoning", "files", tool),
            expected
        );
    }

    #[test_case("files", "*"; "every tool")]
    #[test_case("files", "?*"; "every tool with a name")]
    #[test_case("files", "read?"; "a tool with one letter more")]
    #[test_case("files", "\n"; "what cannot be typed")]
    #[test_case("files", "read\u{202e}"; "what cannot be seen")]
    #[test_case("files", concat!("gl", "pat-k9Xw2Lm4Qz7PbV3nR8tY"); "a secret")]
    #[test_case("files", "db://app:h7Gq2pqW4x@db/x"; "a secret in a name")]
    #[test_case("files", &"a".repeat(MAX_TYPED + 1); "what is too long")]
    #[test_case("*", "read"; "every server")]
    fn a_name_that_would_be_a_pattern_is_in_no_command(server: &str, tool: &str) {
        let remedy = acceptance_remedy(["r0"], "output_poisoning", server, tool);
        assert!(
            !remedy.contains("mcpmon") && remedy.contains("by hand"),
            "{remedy}"
        );
        assert!(!remedy.contains(tool), "{remedy}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let token = concat!("gl", "pat-k9Xw2Lm4Qz7PbV3nR8tY");
        assert_eq!(shown(&format!("/srv/{token}/a")), "/srv/***/a");
        let cut = format!("{}/{token}", "a".repeat(90));
        assert_eq!(shown(&cut), format!("{}/***", "a".repeat(90)));
        assert_eq!(shown("postgres://app:h7Gq2pqW@db/x"), "postgres://app:***@db/x");
    }

    #[test_case("read_file" => "read_file")]
    #[test_case("" => "\"\""; "empty")]
    #[test_case("a b" => "\"a b\""; "space")]
    #[test_case("a\n\u{202e}b" => "\"a\\n\\u{202e}b\""; "not to be seen")]
    fn names_are_shown(name: &str) -> String {
        shown(name).into_owned()
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(shown(&"é".repeat(101)).chars().count(), 103);
    }

    #[test_case(&["approve", "fs:read_file"] => "mcpmon approve fs:read_file")]
    #[test_case(&["approve", "fs:a b"] => "mcpmon approve 'fs:a b'"; "space")]
    #[test_case(&["approve", "fs:$(rm -rf ~)'"] => r"mcpmon approve 'fs:$(rm -rf ~)'\'''"; "shell")]
    #[test_case(&["approve", "fs:a\nb"] => "mcpmon approve 'fs:a*b'"; "line break")]
    fn commands_are_quoted(words: &[&str]) -> String {
        command(words)
    }
}
