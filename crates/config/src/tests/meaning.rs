//! The meaning of configurations.

use insta::assert_debug_snapshot;
use mcpmon_policy::{Mode, NameSimilarity, NetworkRule, Policy, RuleAction, Scope, Transport};
use test_case::test_case;

use super::compile;

fn policy(text: &str) -> Policy {
    let loaded = compile(&[("mcpmon.yaml", text)]).unwrap_or_else(|invalid| panic!("{invalid}"));
    Policy::clone(&loaded.policy)
}

/// Returns the policy of an empty file.
fn defaults() -> Policy {
    let mut policy = Policy {
        name_similarity: NameSimilarity {
            built_in: true,
            ratio: None,
        },
        ..Policy::default()
    };
    policy.network.bypass = super::usual_models();
    policy
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
    assert_eq!(policy(text), defaults());
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
#[test_case("mcp: {registry: {pin_on_first_use: true, persistent: true}}\n" => vec!["mcp.registry.persistent"]; "part of a section, at its default")]
#[test_case("network: {enforce: true, proxy_bypass: alert}\n" => Vec::<String>::new(); "a whole section")]
#[test_case("llm_storage: {store_bodies: true}\ndlp: {}\nmetrics: {listen: '127.0.0.1:9'}\n" => Vec::<String>::new(); "whole sections")]
#[test_case("mcp: {rules: [], blocked_tools: [x], registry: {pin_on_first_use: false, persistent: false}}\n" => vec!["mcp.registry.persistent"]; "empty lists ask for nothing")]
#[test_case("mcp: {servers: [{id: a, url: 'https://a.example', tls_fingerprint: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}, {id: b, url: 'https://b.example', tls_fingerprint: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}]}\n" => Vec::<String>::new(); "pins of remote servers")]
#[test_case("mcp: {denied_servers: [{id: x}]}\n" => vec!["mcp.denied_servers (needs `mcp.server_policy: denylist`)"]; "list of another mode")]
#[test_case("mcp: {suppressions: [{rule: persona, reason: r, until: 2020-01-01}, {rule: persona, reason: r, until: 2200-01-01}, {rule: persona, reason: r}]}\n" => vec!["mcp.suppressions[0] (expired: `until: 2020-01-01`)"]; "a suppression that is over")]
fn keys_without_effect(text: &str) -> Vec<String> {
    not_in_force(text)
}

#[test]
fn what_is_inspected_and_how_it_is_handled() {
    use mcpmon_model::{Category, Severity, Timestamp};
    use mcpmon_policy::{FirstUse, Handling, OnDetection, OnOutput, OnTimeout};
    let policy = policy(
        "mcp:
  fail_closed: true
  version_pinning: {pin_binary: false, on_change: alert, auto_trust_first: false}
  registry: {pin_on_first_use: false}
  detection:
    builtin: {exfiltration: false}
    alert_threshold: medium
    on_detection: block
    custom_patterns:
      - {name: internal, pattern: 'internal\\.corp', category: exfiltration, severity: critical}
      - {name: plain, pattern: x}
  output_inspection: {enabled: false, on_detection: alert}
  suppressions:
    - {rule: hidden_*, server: files, until: 2027-01-31, reason: known}
    - {rule: '*', tool: t, reason: always}
  sampling: audit
  elicitation: block
  prompts: allow
  completion: block
  limits: {max_line: 1MiB, max_tools: 5, max_schema_depth: 20, max_batch: 3, max_pending: 7, request_timeout: 9s}
  approvals: {required_for: high, timeout: 1m, on_timeout: allow}
  cross_server: {shadow_tool: {similarity_check: false}}
",
    );
    assert!(policy.fail_closed && !policy.pinning.enabled && policy.definition_pinning.enabled);
    assert!(!policy.definition_pinning.auto_trust_first);
    assert_eq!(policy.first_use, FirstUse::Record);
    let inspection = &policy.inspection;
    assert!(!inspection.builtin.contains(&Category::Exfiltration));
    assert_eq!(inspection.builtin.len(), 6);
    assert_eq!(
        (inspection.alert_threshold, inspection.on_detection),
        (Severity::Medium, OnDetection::Block)
    );
    let custom: Vec<_> = inspection
        .custom
        .iter()
        .map(|pattern| (pattern.name.as_str(), pattern.category, pattern.severity))
        .collect();
    assert_eq!(
        custom,
        [
            ("internal", Category::Exfiltration, Severity::Critical),
            ("plain", Category::Custom, Severity::High)
        ]
    );
    assert_eq!(
        (policy.outputs.enabled, policy.outputs.on_detection),
        (false, OnOutput::Alert)
    );
    let suppressions: Vec<_> = policy
        .suppressions
        .iter()
        .map(|known| {
            (
                known.rule.as_str(),
                known.server.as_str(),
                known.tool.as_str(),
                known.until,
            )
        })
        .collect();
    // The last day is included: the suppression ends on 2027-02-01 00:00 UTC.
    let until = Some(Timestamp(1_801_440_000_000_000_000));
    assert_eq!(
        suppressions,
        [("hidden_*", "files", "*", until), ("*", "*", "t", None)]
    );
    let requests = policy.requests;
    assert_eq!(
        [
            requests.sampling,
            requests.elicitation,
            requests.prompts,
            requests.completion
        ],
        [Handling::Audit, Handling::Block, Handling::Allow, Handling::Block]
    );
    let limits = policy.limits;
    assert_eq!(
        [
            limits.max_line,
            limits.max_tools,
            limits.max_schema_depth,
            limits.max_batch,
            limits.max_pending
        ],
        [1 << 20, 5, 20, 3, 7]
    );
    assert_eq!(limits.request_timeout.as_secs(), 9);
    let approvals = policy.approvals;
    assert_eq!(
        (
            approvals.required_for,
            approvals.timeout.as_secs(),
            approvals.on_timeout
        ),
        (Severity::High, 60, OnTimeout::Allow)
    );
    assert!(!policy.name_similarity.is_on());
    let policy = policy_of_threshold("0.5");
    assert_eq!(
        policy.name_similarity,
        NameSimilarity {
            built_in: false,
            ratio: Some(0.5)
        }
    );
}

fn policy_of_threshold(threshold: &str) -> Policy {
    policy(&format!(
        "mcp: {{cross_server: {{shadow_tool: {{similarity_threshold: {threshold}}}}}}}\n"
    ))
}

#[test]
fn detection_that_is_off_recognises_no_launches_and_inspects_no_definitions() {
    for (text, is_on) in [("true", true), ("false", false)] {
        let policy = policy(&format!("mcp: {{detection: {{enabled: {text}}}}}\n"));
        assert_eq!(
            (policy.launch_patterns.enabled, policy.inspection.enabled),
            (is_on, is_on)
        );
        assert!(policy.outputs.enabled && policy.definition_pinning.enabled);
    }
}

#[test]
fn new_tools_and_secrets_in_results() {
    use mcpmon_policy::{OnNewTool, OnSecret};
    let read = |text: &str| {
        let policy = policy(text);
        (policy.inspection.on_new_tool, policy.outputs.secrets)
    };
    assert_eq!(read("version: 1\n"), (OnNewTool::Alert, OnSecret::Alert));
    assert_eq!(
        read("mcp: {detection: {on_new_tool: hide}, output_inspection: {secrets: redact}}\n"),
        (OnNewTool::Hide, OnSecret::Redact)
    );
    assert_eq!(
        read("mcp: {detection: {on_new_tool: allow}, output_inspection: {secrets: block}}\n"),
        (OnNewTool::Allow, OnSecret::Block)
    );
}
