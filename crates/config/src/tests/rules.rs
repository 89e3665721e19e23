//! Lists and rules over calls and resources: what they mean, and every mistake in them as the user reads it.

use mcpmon_policy::{
    Decision, Handling, Policy, ServerPolicy,
    rules::{Rules, ToolPolicy},
};
use test_case::test_case;

use super::compile;

fn policy(text: &str) -> Policy {
    let loaded = compile(&[("mcpmon.yaml", text)]).unwrap_or_else(|invalid| panic!("{invalid}"));
    Policy::clone(&loaded.policy)
}

/// Returns the mistakes in `text`, without file and snippet.
fn mistakes(text: &str) -> Vec<String> {
    let invalid = compile(&[("mcpmon.yaml", text)])
        .expect_err("a mistake")
        .to_string();
    let lines = invalid
        .lines()
        .filter_map(|line| line.strip_prefix("mcpmon.yaml:"));
    lines.map(str::to_owned).collect()
}

const EVERYTHING: &str = r#"
mcp:
  server_policy: denylist
  denied_servers: [{id: "untrusted_*"}]
  tool_policy: allowlist
  allowed_tools:
    - server: database
      tool: "query_*"
      content_hash: "sha256:00000000000000000000000000000000000000000000000000000000000000ff"
    - tool: read_file
  denied_tools: [{tool: "exec_*"}]
  defaults: {decision: BLOCK}
  blocked_tools: [execute_command, "run_*"]
  rules:
    - id: block-ssh
      match:
        tool_name: "*_file"
        tool_name_any: [read_file, write_file]
        tool_name_regex: "^(read|write)_"
        server: "fs*"
        argument_patterns: {path: "**/.ssh/**", "opts.mode": "r?"}
      decision: BLOCK
      reason: |
        Keys are
        nobody's business.
    - {id: notes, match: {server: notes}, decision: ALLOW}
  blocked_resources: ["secret://*"]
  resource_rules:
    - {id: database, match: {scheme: Postgres, uri_pattern: "*/users", uri_regex: corp}, decision: AUDIT, reason: no}
  value_limits:
    - {id: large, tool_name_regex: "send_.*|transfer_.*", argument: amount, max: 9007199254740993, decision: BLOCK}
    - {id: paid, tool_pattern: "pay_*", argument: "items[].price", min: 0.1, max: 1e3, decision: AUDIT, reason: "Too much."}
  sampling: block
"#;

#[test]
fn everything_is_compiled() {
    let rules = policy(EVERYTHING).rules;
    let ToolPolicy::Allowlist(allowed) = &rules.tools else {
        panic!("an allowlist: {:?}", rules.tools);
    };
    let entry = |entry: &mcpmon_policy::rules::ToolEntry| {
        let hash = entry.content_hash.map(|hash| hash.short(4));
        format!("{} {} {hash:?}", entry.server.as_str(), entry.tool.as_str())
    };
    let allowed: Vec<_> = allowed.iter().map(entry).collect();
    assert_eq!(allowed, ["database query_* Some(\"0000\")", "* read_file None"]);
    assert_eq!(rules.default, Decision::Block);
    let blocked: Vec<_> = rules.blocked_tools.iter().map(|glob| glob.as_str()).collect();
    assert_eq!(blocked, ["execute_command", "run_*"]);
    let [ssh, notes] = &*rules.calls else {
        panic!("two rules: {:?}", rules.calls);
    };
    assert_eq!((ssh.id.as_str(), ssh.decision), ("block-ssh", Decision::Block));
    assert_eq!(ssh.reason, "Keys are nobody's business");
    assert_eq!(ssh.server.as_ref().map(|glob| glob.as_str()), Some("fs*"));
    assert_eq!(
        ssh.tool.regex.as_ref().map(|regex| regex.as_str()),
        Some("^(read|write)_")
    );
    let arguments: Vec<_> = ssh
        .arguments
        .iter()
        .map(|(path, glob)| (path.as_str(), glob.as_str()))
        .collect();
    assert_eq!(arguments, [("opts.mode", "r?"), ("path", "**/.ssh/**")]);
    assert!(notes.tool.is_empty() && notes.decision == Decision::Allow);
    let [database] = &*rules.resources else {
        panic!("one rule: {:?}", rules.resources);
    };
    assert_eq!(database.scheme.as_deref(), Some("postgres"));
    let limits: Vec<_> = rules
        .limits
        .iter()
        .map(|limit| {
            let bound = |bound: &Option<mcpmon_model::Decimal>| bound.as_ref().map(ToString::to_string);
            (
                limit.id.as_str(),
                bound(&limit.min),
                bound(&limit.max),
                limit.reason.as_str(),
            )
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        limits,
        [
            ("large", None, text("9007199254740993"), ""),
            ("paid", text("0.1"), text("1000"), "Too much")
        ]
    );
}

#[test]
fn compiling_twice_is_compiling_once() {
    assert_eq!(policy(EVERYTHING), policy(EVERYTHING));
}

#[test]
fn nothing_of_it_holds_where_policy_is_not_enforced() {
    let policy =
        policy(&EVERYTHING.replace("mcp:\n", "mcp:\n  enforce_policy: false\n  fail_closed: true\n"));
    let nothing = Rules {
        default: Decision::Allow,
        ..Rules::default()
    };
    assert_eq!(policy.rules, nothing);
    assert_eq!(policy.server_policy, ServerPolicy::None);
    assert!(!policy.fail_closed);
    let requests = policy.requests;
    let handled = [
        requests.sampling,
        requests.elicitation,
        requests.prompts,
        requests.completion,
    ];
    assert_eq!(handled, [Handling::Allow; 4]);
    assert!(policy.pinning.enabled && policy.definition_pinning.enabled && policy.inspection.enabled);
}

#[test_case("{tool_policy: allowlist, allowed_tools: [{}], denied_tools: [{}]}" => vec!["mcp.denied_tools (needs `mcp.tool_policy: denylist`)"]; "list of another mode")]
#[test_case("{allowed_tools: [{}]}" => vec!["mcp.allowed_tools (needs `mcp.tool_policy: allowlist`)"]; "list of no mode")]
#[test_case("{blocked_tools: [x], defaults: {decision: BLOCK}, value_limits: []}" => Vec::<String>::new(); "in force")]
#[test_case("{enforce_policy: false, rules: [], blocked_tools: [x], sampling: block, version_pinning: {}}" => vec!["mcp.blocked_tools (needs `mcp.enforce_policy: true`)", "mcp.sampling (needs `mcp.enforce_policy: true`)"]; "policy is off")]
fn keys_without_effect(mcp: &str) -> Vec<String> {
    let text = format!("mcp: {mcp}\n");
    let loaded = compile(&[("mcpmon.yaml", &text)]).unwrap_or_else(|invalid| panic!("{invalid}"));
    loaded.not_in_force.iter().map(ToString::to_string).collect()
}

#[test_case("{blocked_tools: ['']}", "1:23: mcp.blocked_tools[0]: an empty name matches nothing: expected a name or a glob, `*` for all"; "empty name")]
#[test_case("{allowed_tools: [{tool: ' '}]}", "1:30: mcp.allowed_tools[0].tool: an empty name matches nothing: expected a name or a glob, `*` for all"; "blank name of another mode")]
#[test_case("{denied_tools: [{content_hash: abc}]}", "1:37: mcp.denied_tools[0].content_hash: not a SHA-256 digest: expected `sha256:` and 64 hexadecimal digits"; "no digest")]
#[test_case("{blocked_resources: ['']}", "1:27: mcp.blocked_resources[0]: an empty name matches nothing: expected a name or a glob, `*` for all"; "empty uri")]
#[test_case("{rules: [{id: a, match: {}, decision: BLOCK}]}", "1:30: mcp.rules[0].match: no condition is given, and every call would match: use `mcp.defaults`, or `tool_name: \"*\"`"; "no condition")]
#[test_case("{rules: [{id: a, match: {tool_name_any: []}, decision: BLOCK}]}", "1:30: mcp.rules[0].match: no condition is given, and every call would match: use `mcp.defaults`, or `tool_name: \"*\"`"; "an empty condition")]
#[test_case("{rules: [{id: '', match: {server: x}, decision: BLOCK}]}", "1:20: mcp.rules[0].id: a name cannot be empty"; "empty id")]
#[test_case("{rules: [{id: a, match: {server: x}}]}", "1:15: mcp.rules[0]: `decision` is missing"; "no decision")]
#[test_case("{rules: [{id: a, match: {tool: x}, decision: BLOCK}]}", "1:31: mcp.rules[0].match.tool: unknown key: expected `tool_name`, `tool_name_regex`, `tool_name_any`, `server` or `argument_patterns`"; "another key")]
#[test_case("{rules: [{id: a, match: {tool_name_regex: '('}, decision: BLOCK}]}", "1:48: mcp.rules[0].match.tool_name_regex: no valid regular expression: unclosed group (at character 1)"; "group")]
#[test_case("{rules: [{id: a, match: {tool_name_regex: 'ab[z-a]'}, decision: BLOCK}]}", "1:48: mcp.rules[0].match.tool_name_regex: no valid regular expression: invalid character class range, the start must be <= the end (at character 4)"; "class")]
#[test_case("{rules: [{id: a, match: {tool_name_regex: ''}, decision: BLOCK}]}", "1:48: mcp.rules[0].match.tool_name_regex: an empty pattern would match everything"; "empty regex")]
#[test_case("{rules: [{id: a, match: {tool_name_regex: '\\w{1000}{100}'}, decision: BLOCK}]}", "1:48: mcp.rules[0].match.tool_name_regex: the pattern is too large: at most 4096 characters, and 1024 KiB when compiled"; "large regex")]
#[test_case("{rules: [{id: a, match: {argument_patterns: {'a[0]': x}}, decision: BLOCK}]}", "1:59: mcp.rules[0].match.argument_patterns.a[0]: items of a list cannot be picked: `items[].price` is the price of every item"; "an item")]
#[test_case("{rules: [{id: a, match: {argument_patterns: {a..b: x}}, decision: BLOCK}]}", "1:57: mcp.rules[0].match.argument_patterns.a..b: a name is missing: expected for example `amount`, `order.amount` or `items[].price`"; "a missing name")]
#[test_case("{rules: [{id: a, match: {argument_patterns: {'path*': x}}, decision: BLOCK}]}", "1:60: mcp.rules[0].match.argument_patterns.path*: `*` stands for a whole name, as in `*.amount`"; "part of a name")]
#[test_case("{rules: [{id: a, match: {argument_patterns: {path: ''}}, decision: BLOCK}]}", "1:57: mcp.rules[0].match.argument_patterns.path: an empty pattern would match everything"; "an empty glob")]
#[test_case("{resource_rules: [{id: a, match: {}, decision: BLOCK}]}", "1:39: mcp.resource_rules[0].match: no condition is given, and every resource would match: use `mcp.defaults`, or `uri_pattern: \"*\"`"; "no condition on a resource")]
#[test_case("{resource_rules: [{id: a, match: {scheme: 'postgres://'}, decision: BLOCK}]}", "1:48: mcp.resource_rules[0].match.scheme: `postgres://` is no scheme: expected for example `postgres`, without `:` and slashes"; "no scheme")]
#[test_case("{resource_rules: [{id: a, match: {uri_regex: '*'}, decision: BLOCK}]}", "1:51: mcp.resource_rules[0].match.uri_regex: no valid regular expression: repetition operator missing expression (at character 1)"; "regex of a resource")]
#[test_case("{value_limits: [{id: a, argument: x, decision: BLOCK}]}", "1:22: mcp.value_limits[0]: no bound is given: expected `min`, `max`, or both"; "no bound")]
#[test_case("{value_limits: [{id: a, argument: x, min: 10, max: 5, decision: BLOCK}]}", "1:48: mcp.value_limits[0].min: 10 is more than `max`, 5: no value would be within"; "bounds the wrong way")]
#[test_case("{value_limits: [{id: a, argument: x, max: .nan, decision: BLOCK}]}", "1:48: value `.nan` is not a finite number"; "nan")]
#[test_case("{value_limits: [{id: a, argument: x, min: -.inf, decision: BLOCK}]}", "1:48: value `-.inf` is not a finite number"; "infinity")]
#[test_case("{value_limits: [{id: a, argument: x, max: ten, decision: BLOCK}]}", "1:48: mcp.value_limits[0].max: expected a number, found the text `ten`"; "no number")]
#[test_case("{value_limits: [{id: a, argument: x, max: 1, decision: ALLOW}]}", "1:61: mcp.value_limits[0].decision: `ALLOW` would permit values outside the limit: expected `AUDIT`, `ASK` or `BLOCK`"; "a limit that allows")]
#[test_case("{resource_rules: [{id: a, match: {scheme: x}, decision: ASK}]}", "1:62: mcp.resource_rules[0].decision: a person is asked about tool calls only: expected `ALLOW`, `AUDIT` or `BLOCK`"; "a question about a read")]
#[test_case("{value_limits: [{id: a, argument: '', max: 1, decision: AUDIT}]}", "1:40: mcp.value_limits[0].argument: a name is missing: expected for example `amount`, `order.amount` or `items[].price`"; "no argument")]
fn a_mistake(mcp: &str, expected: &str) {
    assert_eq!(mistakes(&format!("mcp: {mcp}\n")), [expected]);
}

#[test]
fn an_id_names_one_rule() {
    let text = "mcp:
  rules:
    - {id: a, match: {server: x}, decision: BLOCK}
  resource_rules:
    - {id: a, match: {scheme: x}, decision: BLOCK}
  value_limits:
    - {id: a, argument: x, max: 1, decision: BLOCK}
";
    assert_eq!(
        mistakes(text),
        [
            "5:12: mcp.resource_rules[0].id: the rule id `a` is used twice (first at mcpmon.yaml:3:12)",
            "7:12: mcp.value_limits[0].id: the rule id `a` is used twice (first at mcpmon.yaml:3:12)",
        ]
    );
}

#[test]
fn mistakes_are_told_where_policy_is_not_enforced_too() {
    let text = "mcp: {enforce_policy: false, blocked_tools: ['']}\n";
    assert_eq!(mistakes(text).len(), 1);
}
