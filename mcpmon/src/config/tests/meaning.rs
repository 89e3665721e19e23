//! What configurations mean.

use insta::assert_debug_snapshot;
use mcpmon_core::policy::{Mode, NetworkRule, Policy, RuleAction, Scope, Transport};
use test_case::test_case;

use super::compile;

fn policy(text: &str) -> Policy {
    let loaded = compile(&[("mcpmon.yaml", text)]).unwrap_or_else(|invalid| panic!("{invalid}"));
    Policy::clone(&loaded.policy)
}

fn not_in_force(text: &str) -> Vec<String> {
    let loaded = compile(&[("mcpmon.yaml", text)]).unwrap_or_else(|invalid| panic!("{invalid}"));
    loaded.not_in_force.iter().map(ToString::to_string).collect()
}

fn rule(rule: &NetworkRule) -> String {
    let action = match rule.action {
        RuleAction::Watch => "watch",
        RuleAction::Deny => "deny",
    };
    let scope = match rule.scope {
        Scope::Host => "host",
        Scope::Agents => "agents",
    };
    let hosts = rule.hosts.iter().map(ToString::to_string);
    let targets: Vec<_> = hosts.chain(rule.cidrs.iter().map(ToString::to_string)).collect();
    format!(
        "{} {action} {scope} {} {:?}",
        rule.name,
        targets.join(","),
        rule.ports
    )
}

#[test_case(""; "empty file")]
#[test_case("# only a comment\n"; "comment")]
#[test_case("version: 1\n"; "version")]
#[test_case("mcp:\nnetwork:\n  deny:\n"; "sections without content")]
fn nothing_means_the_defaults(text: &str) {
    assert_eq!(policy(text), Policy::default());
}

#[test]
fn servers_take_the_type_their_keys_imply() {
    let policy = policy(
        "mcp:
  servers:
    - {id: a, command: npx, args: [-y, pkg]}
    - {id: b, url: 'https://b.example/mcp'}
    - {id: c, type: sse, url: 'http://127.0.0.1:8080/sse'}
    - {id: d, command: x, egress: {}}
    - {id: e, command: x, egress: {default: deny, allow: ['api.example.com:443', 10.0.0.0/8]}}
",
    );
    let servers: Vec<_> = policy
        .servers
        .iter()
        .map(|server| {
            let transport = match &server.transport {
                Transport::Stdio { command, args } => format!("stdio {command} {args:?}"),
                Transport::Remote {
                    server_type,
                    host,
                    port,
                    ..
                } => format!("{server_type:?} {host:?} {port}"),
            };
            let egress = server.egress.as_ref().map(|egress| {
                let allowed: Vec<_> = egress.allow.iter().map(ToString::to_string).collect();
                format!("{:?} {allowed:?}", egress.default)
            });
            format!("{} {transport} {egress:?}", server.id)
        })
        .collect();
    assert_debug_snapshot!(servers, @r#"
    [
        "a stdio npx [\"-y\", \"pkg\"] None",
        "b Http Name(HostName(\"b.example\")) 443 None",
        "c Sse Address(127.0.0.1) 8080 None",
        "d stdio x [] None",
        "e stdio x [] Some(\"Deny [\\\"api.example.com:443\\\", \\\"10.0.0.0/8\\\"]\")",
    ]
    "#);
}

#[test]
fn network_rules_keep_their_order() {
    let policy = policy(
        "network:
  deny:
    - {name: d, cidrs: [203.0.113.0/24], ports: [25], scope: agents}
    - {name: h, hosts: [Bad.Example.]}
  watch:
    - {name: w, hosts: [api.example.com], ports: [443]}
",
    );
    let rules: Vec<_> = policy.network.rules.iter().map(rule).collect();
    assert_debug_snapshot!(rules, @r#"
    [
        "w watch host api.example.com [443]",
        "d deny agents 203.0.113.0/24 [25]",
        "h deny host bad.example []",
    ]
    "#);
}

const THREE_SERVERS: &str = "
  servers:
    - {id: local, command: x}
    - {id: internal-a, url: 'https://a.example/mcp'}
    - {id: other, url: 'https://[2001:db8::1]:8443/mcp'}
  allowed_servers: [{id: 'internal-*'}]
  denied_servers: [{id: 'internal-*'}]
";

#[test_case("none" => Vec::<String>::new())]
#[test_case("allowlist" => vec!["local".to_owned(), "other".to_owned()])]
#[test_case("denylist" => vec!["internal-a".to_owned()])]
fn servers_are_refused_by_the_list_of_the_mode(mode: &str) -> Vec<String> {
    let policy = policy(&format!("mcp:\n  server_policy: {mode}{THREE_SERVERS}"));
    let refused = policy
        .servers
        .iter()
        .filter(|server| policy.server_policy.denies(&server.id));
    refused.map(|server| server.id.to_string()).collect()
}

#[test_case("{}" => true)]
#[test_case("{pin_binary: false}" => false)]
#[test_case("{enabled: false}" => false)]
fn files_are_pinned_where_both_keys_say_so(keys: &str) -> bool {
    policy(&format!("mcp: {{version_pinning: {keys}}}"))
        .pinning
        .enabled
}

#[test]
fn later_files_stand_on_top() {
    let loaded = compile(&[
        (
            "mcpmon.yaml",
            "mode: enforce\nnetwork: {resolve_interval: 10s, deny: [{name: a, cidrs: [10.0.0.0/8]}]}\n",
        ),
        (
            "10.yaml",
            "mode: observe\nnetwork: {deny: [{name: b, cidrs: [172.16.0.0/12]}]}\n",
        ),
        ("20.yaml", "network:\n"),
    ])
    .unwrap_or_else(|invalid| panic!("{invalid}"));
    let names: Vec<_> = loaded
        .policy
        .network
        .rules
        .iter()
        .map(|rule| rule.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(loaded.policy.mode, Mode::Observe);
    assert_eq!(loaded.policy.network.resolve_interval.as_secs(), 10);
}

#[test]
fn aliases_and_merge_keys_are_filled_in() {
    let policy = policy(
        "network:
  deny:
    - &base {name: a, cidrs: [10.0.0.0/8], scope: agents}
    - {<<: *base, name: b}
",
    );
    let rules: Vec<_> = policy.network.rules.iter().map(rule).collect();
    assert_eq!(
        rules,
        ["a deny agents 10.0.0.0/8 []", "b deny agents 10.0.0.0/8 []"]
    );
}

#[test_case("mode: observe\nexec: {gate: off}\nrecord: {path: /x/y.db}\n" => Vec::<String>::new(); "all in force")]
#[test_case("exec: {gate: auto, unwrapped: alert}\n" => vec!["exec.unwrapped"]; "part of a section, at its default")]
#[test_case("proxy: {mode: disabled}\ndlp: {}\nmetrics:\n" => vec!["proxy"]; "whole sections")]
#[test_case("mcp: {rules: [], blocked_tools: [x], detection: {enabled: true, builtin: {exfiltration: false}}}\n" => vec!["mcp.blocked_tools", "mcp.detection.builtin"]; "empty lists ask for nothing")]
#[test_case("mcp: {servers: [{id: a, command: x, env_deny: [A]}, {id: b, command: x, env_deny: [B]}]}\n" => vec!["mcp.servers[].env_deny"]; "once for a list")]
#[test_case("mcp: {denied_servers: [{id: x}]}\n" => vec!["mcp.denied_servers (needs `mcp.server_policy: denylist`)"]; "list of another mode")]
fn keys_without_effect(text: &str) -> Vec<String> {
    not_in_force(text)
}
