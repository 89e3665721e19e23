//! Lists and rules of the configuration, applied by the wrapper: a refused request never reaches the server, and gets
//! an answer.

use std::fs;

use anyhow::Result;
use mcpmon_e2e::wrapped::{Home, Wrapped};

const POLICY: &str = r#"
version: 1
mcp:
  tool_policy: denylist
  denied_tools: [{server: "*", tool: "exec_*"}]
  blocked_tools: [run_shell]
  rules:
    - {id: no-keys, match: {argument_patterns: {path: "**/.ssh/**"}}, decision: BLOCK, reason: "Keys stay."}
    - {id: mail, match: {tool_name: send_mail}, decision: AUDIT}
  blocked_resources: ["secret://*"]
  resource_rules:
    - {id: no-database, match: {scheme: postgres}, decision: BLOCK}
  value_limits:
    - {id: cap, tool_pattern: "pay_*", argument: amount, max: 10, decision: BLOCK}
"#;

/// Requests, and the rule that refuses each.
const REQUESTS: [(&str, &str, Option<&str>); 14] = [
    (
        "tools/call",
        r#"{"name":"read_file","arguments":{"path":"/tmp/a"}}"#,
        None,
    ),
    (
        "tools/call",
        r#"{"name":"read_file","arguments":{"path":"/h/%2essh/a"}}"#,
        Some("no-keys"),
    ),
    (
        "tools/call",
        r#"{"name":"read_file","arguments":{"opts":{"path":["~/.ssh/a"]}}}"#,
        Some("no-keys"),
    ),
    ("tools/call", r#"{"name":"send_mail","arguments":{}}"#, None),
    ("tools/call", r#"{"name":"Exec-Now"}"#, Some("tool_policy")),
    ("tools/call", r#"{"name":"run_ѕhell"}"#, Some("blocked_tools")),
    (
        "tools/call",
        r#"{"name":"pay_bill","arguments":{"amount":"1,000"}}"#,
        Some("cap"),
    ),
    (
        "tools/call",
        r#"{"name":"pay_bill","arguments":{"amount":10}}"#,
        None,
    ),
    ("resources/read", r#"{"uri":"file:///a"}"#, None),
    (
        "resources/read",
        r#"{"uri":"SECRET:a"}"#,
        Some("blocked_resources"),
    ),
    (
        "resources/subscribe",
        r#"{"uri":"postgres://db"}"#,
        Some("no-database"),
    ),
    (
        "subscriptions/listen",
        r#"{"notifications":{"resourceSubscriptions":["u:a","secret://a"]}}"#,
        Some("blocked_resources"),
    ),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/resource","uri":"secret://{a}"},"argument":{"name":"a","value":""}}"#,
        Some("blocked_resources"),
    ),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/resource","uri":"u:{a}"},"argument":{"name":"a","value":""}}"#,
        None,
    ),
];

/// A server that answers every request, and records every line that reaches it.
const SERVER: &str = r#"while IFS= read -r line; do
printf '%s\n' "$line" >> "$1"
id=${line#*'"id":'}
printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "${id%%,*}"
done"#;

/// Returns the bytes that reached a server under a policy, and the answers to [`REQUESTS`].
fn told(policy: &str) -> Result<(String, Vec<String>)> {
    let home = Home::new()?;
    home.configure(policy)?;
    let seen = home.path("seen").display().to_string();
    let mut wrapped =
        Wrapped::start(&mut home.wrap(&["--server", "files"], &["sh", "-c", SERVER, "sh", &seen])?)?;
    let mut answers = Vec::new();
    for (id, (method, params, _)) in REQUESTS.iter().enumerate() {
        wrapped.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ))?;
        answers.push(wrapped.line()?);
    }
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0, "{errors}");
    Ok((fs::read_to_string(seen)?, answers))
}

#[test]
fn what_the_policy_refuses_is_answered_and_goes_no_further() -> Result<()> {
    let (seen, answers) = told(POLICY)?;
    for ((method, params, rule), answer) in REQUESTS.iter().zip(&answers) {
        match rule {
            Some(rule) => {
                assert!(
                    answer.contains(&format!("(rule {rule}, event ")),
                    "{method} {params}: {answer}"
                );
                assert!(!seen.contains(params), "{method} {params}");
            }
            None => {
                assert!(answer.ends_with(r#""result":{}}"#), "{method} {params}: {answer}");
                assert!(seen.contains(params), "{method} {params}");
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_is_refused_where_the_policy_observes_or_is_off() -> Result<()> {
    let off = POLICY.replace("mcp:\n", "mcp:\n  enforce_policy: false\n");
    for policy in [format!("mode: observe{POLICY}"), off] {
        let (seen, answers) = told(&policy)?;
        assert_eq!(seen.lines().count(), REQUESTS.len());
        assert!(
            answers.iter().all(|answer| answer.ends_with(r#""result":{}}"#)),
            "{answers:?}"
        );
    }
    Ok(())
}
