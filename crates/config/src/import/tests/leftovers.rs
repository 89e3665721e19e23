//! Parts that cannot be converted, and the notes about them.

use insta::assert_snapshot;
use test_case::test_case;

use super::{
    super::ImportedTool::{Agentsh, Agentshield},
    import, imported, told,
};

#[test]
fn what_is_not_about_mcp_is_named() {
    let text = "file_rules: []\nsandbox:\n  seccomp: {}\n  mcp:\n    enforce_policy: true\n    magic: 1\nproxy: {port: 9000}\n";
    let (imported, _) = imported(Agentsh, text);
    assert_snapshot!(imported.text, @r#"
    # Converted by `mcpmon policy import --from agentsh` from policy.yaml. Comments of the original are not carried over.
    #
    # Not carried over:
    #   file_rules (line 1): mcpmon has nothing like it
    #   sandbox.seccomp (line 3): mcpmon has nothing like it
    #   sandbox.mcp.magic (line 6): mcpmon has nothing like it
    version: 1

    mcp:
      enforce_policy: true

    proxy:
      listen: "127.0.0.1:9000"
    "#);
}

#[test]
fn a_rule_goes_with_its_condition_and_stays_without_decoration() {
    let text = "rules:\n  - {id: a, severity: 3, match: {tool_name: x}, decision: block}\n  - id: b\n    match: {tool_name: x, caller: root}\n    decision: allow\n  - {id: c, match: {}}\n  - {id: d, match: {tool_name: y}, decision: Audit}\n";
    let (imported, _) = imported(Agentshield, text);
    assert_snapshot!(told(&imported.notes), @r"
    2 rules[0].severity left out: unknown key: expected `id`, `match`, `decision` or `reason`
    4 rules[1].match.caller left out: unknown key: expected `tool_name`, `tool_name_regex`, `tool_name_any`, `server` or `argument_patterns`; the whole rule is left out, because without this condition it would match more than intended
    6 rules[2] left out: `decision` is missing
    ");
    let ids: Vec<_> = imported
        .text
        .lines()
        .filter(|line| line.contains("- id:"))
        .collect();
    assert_eq!(ids, ["    - id: a", "    - id: d"]);
    assert!(imported.text.contains("decision: BLOCK") && imported.text.contains("decision: AUDIT"));
}

#[test]
fn a_pattern_that_looks_ahead_is_left_out() {
    let text = "mcp:\n  inspection:\n    detection:\n      custom_patterns:\n        - {name: a, pattern: \"(?i)IMPORTANT:\\\\s*(?!read)\"}\n        - {name: b, pattern: fine}\n";
    let (imported, loaded) = imported(Agentsh, text);
    assert_eq!(loaded.policy.inspection.custom.len(), 1);
    assert_eq!(
        imported.notes[0].path,
        "mcp.inspection.detection.custom_patterns[0].pattern"
    );
    assert_eq!(imported.notes[0].line, Some(5));
}

#[test_case("{}"; "an empty mapping")]
#[test_case(""; "an empty file")]
#[test_case("sandbox:\n"; "a key without a value")]
#[test_case("[1, 2]"; "a list")]
#[test_case("sandbox: 7"; "a number")]
fn what_has_nothing_becomes_an_empty_policy(text: &str) {
    let (imported, _) = imported(Agentsh, text);
    assert!(imported.text.ends_with("version: 1\n"), "{}", imported.text);
}

#[test]
fn what_is_no_yaml_is_a_mistake_with_its_place() {
    let twice = import(
        Agentsh,
        "a.yaml",
        "proxy: {mode: embedded}\ndlp: {mode: redact}\nproxy: {mode: mcp-only}\n",
    );
    assert_eq!(
        twice.unwrap_err().problems()[0].headline(),
        "a.yaml:3:1: the key `proxy` is given twice"
    );
}

#[test]
fn a_file_of_nothing_but_mistakes_is_given_up() {
    let (imported, _) = imported(Agentshield, &format!("blocked_tools: [{}]", "{}, ".repeat(2000)));
    let last = imported.notes.iter().find(|note| note.path == "the whole file");
    assert!(last.is_some(), "{}", told(&imported.notes[..3]));
    assert!(!imported.text.contains("blocked_tools:"));
}

#[test]
fn two_sections_are_one_policy() {
    let text = "sandbox: {mcp: {enforce_policy: true, allowed_tools: [{tool: a}]}}\nmcp_rules: {enforce_policy: false, tool_policy: allowlist, allowed_tools: [{tool: b}]}\n";
    let (imported, _) = imported(Agentsh, text);
    assert!(imported.text.contains("enforce_policy: false"), "the later holds");
    assert!(
        imported.text.contains("- tool: a\n    - tool: b"),
        "{}",
        imported.text
    );
}

#[test]
fn odd_text_stays_what_it_is() {
    let text = "blocked_tools: [\"no\", \"1\", \"a: b\", \"#c\", \"\\u2028\\x7f\\n\\\"\\\\\", \"é\", \"-\", \"NaN\"]\n";
    let (imported, _) = imported(Agentshield, text);
    let read = crate::load::any(crate::mistake::Origin {
        name: String::new(),
        text: imported.text.clone(),
    });
    let path = crate::load::KeyPath::root().key("mcp").key("blocked_tools");
    let tree = read.expect("YAML");
    let list = format!("{:?}", tree.find(&path).expect("a list").value);
    for item in ["no", "1", "a: b", "#c", "\u{2028}\u{7f}\n\"\\", "é", "-", "NaN"] {
        assert!(list.contains(&format!("Text({item:?})")), "{item:?} in {list}");
    }
}
