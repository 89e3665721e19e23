//! The full text of every kind of mistake.

use insta::assert_snapshot;

use super::compile;

/// What a user reads about `text`.
fn mistakes(text: &str) -> String {
    compile(&[("mcpmon.yaml", text)])
        .expect_err("a mistake")
        .to_string()
}

#[test]
fn unknown_keys() {
    assert_snapshot!(mistakes("versoin: 1\n"), @"");
    assert_snapshot!(mistakes("mcp:\n  servrs: []\n"), @"");
    assert_snapshot!(mistakes("mcp:\n  servers:\n    - id: a\n      command: a\n      egress: {defualt: deny}\n"), @"");
    assert_snapshot!(mistakes("exec: {grate: auto, zzz: 1}\n"), @"");
}

#[test]
fn wrong_types() {
    assert_snapshot!(mistakes("network: [1]\n"), @"");
    assert_snapshot!(mistakes("network: {deny: {name: x}}\n"), @"");
    assert_snapshot!(mistakes("network: {enforce: yes}\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, command: a, args: [-p, 8080]}]}\n"), @"");
    assert_snapshot!(mistakes("mcp: {limits: {max_tools: -1}}\n"), @"");
    assert_snapshot!(mistakes("mcp: {limits: {max_tools: 5000000000}}\n"), @"");
    assert_snapshot!(mistakes("network: {resolve_interval: 30}\n"), @"");
    assert_snapshot!(mistakes("just text\n"), @"");
    assert_snapshot!(mistakes("- 1\n"), @"");
}

#[test]
fn values_that_are_none_of_the_choices() {
    assert_snapshot!(mistakes("mode: enfroce\n"), @"");
    assert_snapshot!(mistakes("mcp: {defaults: {decision: block}}\n"), @"");
    assert_snapshot!(mistakes("exec: {gate: true}\n"), @"");
}

#[test]
fn durations_and_sizes() {
    assert_snapshot!(mistakes("network: {resolve_interval: 30sec}\n"), @"");
    assert_snapshot!(mistakes("network: {resolve_interval: 10ms}\n"), @"");
    assert_snapshot!(mistakes("record: {max_size: 16MB, retention: 0s}\n"), @"");
    assert_snapshot!(mistakes("mcp: {suppressions: [{rule: a, reason: b, until: 2027-02-30}]}\n"), @"");
}

#[test]
fn addresses_hosts_and_ports() {
    assert_snapshot!(mistakes("network:\n  deny:\n    - name: bad\n      cidrs: [203.0.113.0/33, nowhere]\n"), @"");
    assert_snapshot!(mistakes("network:\n  deny:\n    - name: bits\n      cidrs: [\"10.0.0.1/8\"]\n"), @"");
    assert_snapshot!(mistakes("network:\n  watch:\n    - name: wild\n      hosts: [\"*.example.com\"]\n"), @"");
    assert_snapshot!(mistakes("network:\n  watch:\n    - name: port\n      hosts: [a.example]\n      ports: [443, 0, 70000]\n"), @"");
    assert_snapshot!(mistakes("network: {deny: [{name: nothing, ports: [25]}]}\n"), @"");
    assert_snapshot!(mistakes("network: {deny: [{cidrs: [10.0.0.0/8]}]}\n"), @"");
    assert_snapshot!(mistakes("network: {deny: [{name: \"a\\eb\", cidrs: [10.0.0.0/8]}]}\n"), @"");
    assert_snapshot!(mistakes("metrics: {listen: localhost}\n"), @"");
}

#[test]
fn servers() {
    assert_snapshot!(mistakes("mcp:\n  servers:\n    - {id: a, command: x}\n    - {id: b, command: x}\n    - {id: a, command: y}\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, url: mcp.example.com}]}\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, url: \"ws://mcp.example.com\"}]}\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, type: http}, {id: b, type: stdio}, {id: c}]}\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, command: x, url: \"https://a.example\"}]}\n"), @"");
    assert_snapshot!(mistakes("mcp:\n  servers:\n    - id: a\n      type: sse\n      url: https://a.example\n      egress: {default: deny}\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [{id: \"a b\", command: x}]}\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, url: \"https://a.example\", tls_fingerprint: abc}]}\n"), @"");
    assert_snapshot!(mistakes("record: {path: mcpmon.db}\n"), @"");
}

#[test]
fn versions() {
    assert_snapshot!(mistakes("version: 2\nservers: []\n"), @"");
    assert_snapshot!(mistakes("version: one\n"), @"");
}

#[test]
fn syntax() {
    assert_snapshot!(mistakes("mcp:\n\tservers: []\n"), @"");
    assert_snapshot!(mistakes("mcp: {servers: [\n"), @"");
    assert_snapshot!(mistakes("mode: enforce\nmode: observe\n"), @"");
    assert_snapshot!(mistakes("mode: enforce\n---\nmode: observe\n"), @"");
    assert_snapshot!(mistakes("mode: *missing\n"), @"");
}

#[test]
fn alias_bombs() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert_snapshot!(mistakes(&bomb), @"");
    let deep = format!("mcp: {}{}\n", "[".repeat(100), "]".repeat(100));
    assert_snapshot!(mistakes(&deep), @"");
}

#[test]
fn several_at_once() {
    assert_snapshot!(mistakes("\
mod: enforce
mcp:
  servers:
    - id: weather
      type: http
      url: ftp://mcp.example.com
    - id: files
      comand: npx
    - id: weather
      command: uvx
      egress:
        allow: [api.example.com:0, 10.0.0.0/8]
network:
  deny:
    - name: range
      cidrs: [10.0.0.1/8]
      scope: hots
    - {}
  resolve_interval: 0s
"), @"");
}

#[test]
fn no_more_than_fifty() {
    let text = format!("network:\n  agents:\n{}", "    - ''\n".repeat(60));
    let text = mistakes(&text);
    assert_eq!(text.matches("a name cannot be empty").count(), 50);
    assert!(text.ends_with("only the first 50 mistakes are shown"), "{text}");
}

#[test]
fn mistakes_name_their_own_file() {
    let invalid = compile(&[
        (
            "mcpmon.yaml",
            "mcp:\n  servers:\n    - {id: a, command: x}\nmode: loud\n",
        ),
        (
            "conf.d/10-more.yaml",
            "mcp:\n  servers:\n    - {id: a, command: x}\n",
        ),
        ("conf.d/20-bad.yaml", "mode: {}\n"),
    ]);
    assert_snapshot!(invalid.expect_err("mistakes"), @"");
}

#[test]
fn terminals_are_safe_from_keys() {
    assert_snapshot!(mistakes("\"\\e[2Jx\": 1\n"), @"");
}
