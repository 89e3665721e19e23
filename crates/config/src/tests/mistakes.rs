//! The full text of every kind of mistake.

use insta::assert_snapshot;

use super::compile;

/// Returns the user's view of the mistakes in `text`.
fn mistakes(text: &str) -> String {
    compile(&[("mcpmon.yaml", text)])
        .expect_err("a mistake")
        .to_string()
}

#[test]
fn unknown_keys() {
    assert_snapshot!(mistakes("versoin: 1\n"), @r"
    mcpmon.yaml:1:1: versoin: unknown key: did you mean `version`?
       |
     1 | versoin: 1
       | ^^^^^^^
    ");
    assert_snapshot!(mistakes("mcp:\n  servrs: []\n"), @r"
    mcpmon.yaml:2:3: mcp.servrs: unknown key: did you mean `servers`?
       |
     2 |   servrs: []
       |   ^^^^^^
    ");
    assert_snapshot!(mistakes("mcp:\n  servers:\n    - id: a\n      command: a\n      egress: {defualt: deny}\n"), @r"
    mcpmon.yaml:5:16: mcp.servers[0].egress.defualt: unknown key: did you mean `default`?
       |
     5 |       egress: {defualt: deny}
       |                ^^^^^^^
    ");
    assert_snapshot!(mistakes("exec: {grate: auto, zzz: 1}\n"), @r"
    mcpmon.yaml:1:8: exec.grate: unknown key: did you mean `gate`?
       |
     1 | exec: {grate: auto, zzz: 1}
       |        ^^^^^

    mcpmon.yaml:1:21: exec.zzz: unknown key: expected `gate`, `unwrapped` or `orphans`
       |
     1 | exec: {grate: auto, zzz: 1}
       |                     ^^^
    ");
}

#[test]
fn wrong_types() {
    assert_snapshot!(mistakes("network: [1]\n"), @r"
    mcpmon.yaml:1:10: network: expected a mapping, found a list
       |
     1 | network: [1]
       |          ^
    ");
    assert_snapshot!(mistakes("network: {deny: {name: x}}\n"), @r"
    mcpmon.yaml:1:17: network.deny: expected a list, found a mapping
       |
     1 | network: {deny: {name: x}}
       |                 ^
    ");
    assert_snapshot!(mistakes("network: {enforce: yes}\n"), @r"
    mcpmon.yaml:1:20: network.enforce: expected `true` or `false`, found the text `yes`
       |
     1 | network: {enforce: yes}
       |                    ^^^
    ");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, command: a, args: [-p, 8080]}]}\n"), @r"
    mcpmon.yaml:1:48: mcp.servers[0].args[1]: expected text (put it in quotes), found the number 8080
       |
     1 | mcp: {servers: [{id: a, command: a, args: [-p, 8080]}]}
       |                                                ^^^^
    ");
    assert_snapshot!(mistakes("mcp: {limits: {max_tools: -1}}\n"), @r"
    mcpmon.yaml:1:27: mcp.limits.max_tools: expected a whole number from 0 to 4294967295, found the number -1
       |
     1 | mcp: {limits: {max_tools: -1}}
       |                           ^^
    ");
    assert_snapshot!(mistakes("mcp: {limits: {max_tools: 5000000000}}\n"), @r"
    mcpmon.yaml:1:27: mcp.limits.max_tools: expected a whole number from 0 to 4294967295, found the number 5000000000
       |
     1 | mcp: {limits: {max_tools: 5000000000}}
       |                           ^^^^^^^^^^
    ");
    assert_snapshot!(mistakes("network: {resolve_interval: 30}\n"), @r"
    mcpmon.yaml:1:29: network.resolve_interval: expected a duration such as `30s`, found the number 30
       |
     1 | network: {resolve_interval: 30}
       |                             ^^
    ");
    assert_snapshot!(mistakes("just text\n"), @r"
    mcpmon.yaml:1:1: expected a mapping, found the text `just text`
       |
     1 | just text
       | ^^^^^^^^^
    ");
    assert_snapshot!(mistakes("- 1\n"), @r"
    mcpmon.yaml:1:1: expected a mapping, found a list
       |
     1 | - 1
       | ^
    ");
}

#[test]
fn values_that_are_none_of_the_choices() {
    assert_snapshot!(mistakes("mode: enfroce\n"), @r"
    mcpmon.yaml:1:7: mode: unknown value `enfroce`: expected `enforce` or `observe`; did you mean `enforce`?
       |
     1 | mode: enfroce
       |       ^^^^^^^
    ");
    assert_snapshot!(mistakes("mcp: {defaults: {decision: block}}\n"), @r"
    mcpmon.yaml:1:28: mcp.defaults.decision: unknown value `block`: expected `ALLOW`, `AUDIT`, `ASK` or `BLOCK`; did you mean `BLOCK`?
       |
     1 | mcp: {defaults: {decision: block}}
       |                            ^^^^^
    ");
    assert_snapshot!(mistakes("exec: {gate: true}\n"), @r"
    mcpmon.yaml:1:14: exec.gate: expected `auto` or `off`, found `true`
       |
     1 | exec: {gate: true}
       |              ^^^^
    ");
}

#[test]
fn durations_and_sizes() {
    assert_snapshot!(mistakes("network: {resolve_interval: 30sec}\n"), @r"
    mcpmon.yaml:1:29: network.resolve_interval: `sec` is no unit of a duration: expected one of ms, s, m, h, d
       |
     1 | network: {resolve_interval: 30sec}
       |                             ^^^^^
    ");
    assert_snapshot!(mistakes("network: {resolve_interval: 10ms}\n"), @r"
    mcpmon.yaml:1:29: network.resolve_interval: too short: resolvers would refuse to answer; expected at least `1s`
       |
     1 | network: {resolve_interval: 10ms}
       |                             ^^^^
    ");
    assert_snapshot!(mistakes("record: {max_size: 16MB, retention: 0s}\n"), @r"
    mcpmon.yaml:1:20: record.max_size: `MB` is no unit of a size: expected one of B, KiB, MiB, GiB, TiB
       |
     1 | record: {max_size: 16MB, retention: 0s}
       |                    ^^^^

    mcpmon.yaml:1:37: record.retention: no event would be kept: expected a duration over 0, for example `30d`
       |
     1 | record: {max_size: 16MB, retention: 0s}
       |                                     ^^
    ");
    assert_snapshot!(mistakes("mcp: {discovery: {interval: 1s}}\n"), @r"
    mcpmon.yaml:1:29: mcp.discovery.interval: servers would be asked without a pause: expected at least `10s`; `enabled: false` asks none
       |
     1 | mcp: {discovery: {interval: 1s}}
       |                             ^^
    ");
    assert_snapshot!(mistakes("mcp: {suppressions: [{rule: persona, reason: b, until: 2027-02-30}]}\n"), @r"
    mcpmon.yaml:1:56: mcp.suppressions[0].until: `2027-02-30` is no date such as `2027-01-01`: parsed date is not valid: parameter 'day' for `2027-02` is invalid, must be in range `1..=28`
       |
     1 | mcp: {suppressions: [{rule: persona, reason: b, until: 2027-02-30}]}
       |                                                        ^^^^^^^^^^
    ");
}

#[test]
fn addresses_hosts_and_ports() {
    assert_snapshot!(mistakes("network:\n  deny:\n    - name: bad\n      cidrs: [203.0.113.0/33, nowhere]\n"), @r"
    mcpmon.yaml:4:15: network.deny[0].cidrs[0]: `/33` is no prefix length for 203.0.113.0: it goes from 0 to 32
       |
     4 |       cidrs: [203.0.113.0/33, nowhere]
       |               ^^^^^^^^^^^^^^

    mcpmon.yaml:4:31: network.deny[0].cidrs[1]: `nowhere` is no IP address or range (expected for example `203.0.113.0/24`, `2001:db8::/32` or `192.0.2.1`)
       |
     4 |       cidrs: [203.0.113.0/33, nowhere]
       |                               ^^^^^^^
    ");
    assert_snapshot!(mistakes("network:\n  deny:\n    - name: bits\n      cidrs: [\"10.0.0.1/8\"]\n"), @r#"
    mcpmon.yaml:4:15: network.deny[0].cidrs[0]: 10.0.0.1/8 has bits set behind its prefix: did you mean 10.0.0.0/8?
       |
     4 |       cidrs: ["10.0.0.1/8"]
       |               ^^^^^^^^^^^^
    "#);
    assert_snapshot!(mistakes("network:\n  watch:\n    - name: wild\n      hosts: [\"*.example.com\"]\n"), @r#"
    mcpmon.yaml:4:15: network.watch[0].hosts[0]: `*.example.com` is no host name: it contains '*' (a wildcard cannot be resolved: list the names, or use `cidrs`)
       |
     4 |       hosts: ["*.example.com"]
       |               ^^^^^^^^^^^^^^^
    "#);
    assert_snapshot!(mistakes("network:\n  watch:\n    - name: port\n      hosts: [a.example]\n      ports: [443, 0, 70000]\n"), @r"
    mcpmon.yaml:5:20: network.watch[0].ports[1]: expected a port from 1 to 65535, found the number 0
       |
     5 |       ports: [443, 0, 70000]
       |                    ^

    mcpmon.yaml:5:23: network.watch[0].ports[2]: expected a port from 1 to 65535, found the number 70000
       |
     5 |       ports: [443, 0, 70000]
       |                       ^^^^^
    ");
    assert_snapshot!(mistakes("network: {deny: [{name: nothing, ports: [25]}]}\n"), @r"
    mcpmon.yaml:1:18: network.deny[0]: no address is given: list `hosts` or `cidrs` (`0.0.0.0/0` and `::/0` for every address)
       |
     1 | network: {deny: [{name: nothing, ports: [25]}]}
       |                  ^
    ");
    assert_snapshot!(mistakes("network: {deny: [{cidrs: [10.0.0.0/8]}]}\n"), @r"
    mcpmon.yaml:1:18: network.deny[0]: `name` is missing
       |
     1 | network: {deny: [{cidrs: [10.0.0.0/8]}]}
       |                  ^
    ");
    assert_snapshot!(mistakes("network: {deny: [{name: \"a\\eb\", cidrs: [10.0.0.0/8]}]}\n"), @r#"
    mcpmon.yaml:1:25: network.deny[0].name: a name cannot contain '\u{1b}'
       |
     1 | network: {deny: [{name: "a\eb", cidrs: [10.0.0.0/8]}]}
       |                         ^^^^^^
    "#);
    assert_snapshot!(mistakes("metrics: {listen: localhost}\n"), @r"
    mcpmon.yaml:1:19: metrics.listen: `localhost` is no address such as `127.0.0.1:9484`: invalid socket address syntax
       |
     1 | metrics: {listen: localhost}
       |                   ^^^^^^^^^
    ");
}

#[test]
fn servers() {
    assert_snapshot!(mistakes("mcp:\n  servers:\n    - {id: a, command: x}\n    - {id: b, command: x}\n    - {id: a, command: y}\n"), @r"
    mcpmon.yaml:5:12: mcp.servers[2].id: the server id `a` is used twice (first at mcpmon.yaml:3:12)
       |
     5 |     - {id: a, command: y}
       |            ^
    ");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, url: mcp.example.com}]}\n"), @r"
    mcpmon.yaml:1:30: mcp.servers[0].url: `mcp.example.com` is no URL: did you mean `https://mcp.example.com`?
       |
     1 | mcp: {servers: [{id: a, url: mcp.example.com}]}
       |                              ^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, url: \"ws://mcp.example.com\"}]}\n"), @r#"
    mcpmon.yaml:1:30: mcp.servers[0].url: `ws` is no scheme of an HTTP server: expected `http` or `https`
       |
     1 | mcp: {servers: [{id: a, url: "ws://mcp.example.com"}]}
       |                              ^^^^^^^^^^^^^^^^^^^^^^
    "#);
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, type: http}, {id: b, type: stdio}, {id: c}]}\n"), @r"
    mcpmon.yaml:1:17: mcp.servers[0].url: a server of type http or sse needs its `url`
       |
     1 | mcp: {servers: [{id: a, type: http}, {id: b, type: stdio}, {id: c}]}
       |                 ^

    mcpmon.yaml:1:38: mcp.servers[1].command: a server of type stdio needs the `command` that starts it
       |
     1 | mcp: {servers: [{id: a, type: http}, {id: b, type: stdio}, {id: c}]}
       |                                      ^

    mcpmon.yaml:1:60: mcp.servers[2]: a server needs a `command` (stdio) or a `url` (http, sse)
       |
     1 | mcp: {servers: [{id: a, type: http}, {id: b, type: stdio}, {id: c}]}
       |                                                            ^
    ");
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, command: x, url: \"https://a.example\"}]}\n"), @r#"
    mcpmon.yaml:1:17: mcp.servers[0]: a server has either a `command` (stdio) or a `url` (http, sse), not both
       |
     1 | mcp: {servers: [{id: a, command: x, url: "https://a.example"}]}
       |                 ^
    "#);
    assert_snapshot!(mistakes("mcp:\n  servers:\n    - id: a\n      type: sse\n      url: https://a.example\n      egress: {default: deny}\n"), @r"
    mcpmon.yaml:6:15: mcp.servers[0].egress: `egress` belongs to a server of type stdio: no process of an http or sse server runs on this host
       |
     6 |       egress: {default: deny}
       |               ^
    ");
    assert_snapshot!(mistakes("mcp: {servers: [{id: \"a b\", command: x}]}\n"), @r#"
    mcpmon.yaml:1:22: mcp.servers[0].id: a server id cannot contain ' '
       |
     1 | mcp: {servers: [{id: "a b", command: x}]}
       |                      ^^^^^
    "#);
    assert_snapshot!(mistakes("mcp: {servers: [{id: a, url: \"https://a.example\", tls_fingerprint: abc}]}\n"), @r#"
    mcpmon.yaml:1:68: mcp.servers[0].tls_fingerprint: not a SHA-256 digest: expected `sha256:` and 64 hexadecimal digits
       |
     1 | mcp: {servers: [{id: a, url: "https://a.example", tls_fingerprint: abc}]}
       |                                                                    ^^^
    "#);
    let digest = "0".repeat(64);
    let text = format!(
        "mcp:\n  servers:\n    - id: a\n      url: http://a.example\n      tls_fingerprint: sha256:{digest}\n"
    );
    assert_snapshot!(mistakes(&text), @r"
    mcpmon.yaml:5:24: mcp.servers[0].tls_fingerprint: a certificate is shown over TLS alone: the `url` has to begin with `https:`
       |
     5 |       tls_fingerprint: sha256:0000000000000000000000000000000000000000000000000000000000000000
       |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(mistakes("record: {path: mcpmon.db}\n"), @r"
    mcpmon.yaml:1:16: record.path: expected an absolute path: a daemon has no working directory to speak of
       |
     1 | record: {path: mcpmon.db}
       |                ^^^^^^^^^
    ");
}

#[test]
fn versions() {
    assert_snapshot!(mistakes("version: 2\nservers: []\n"), @r"
    mcpmon.yaml:1:10: version: version 2 of the format is unknown: this mcpmon reads version 1
       |
     1 | version: 2
       |          ^
    ");
    assert_snapshot!(mistakes("version: one\n"), @r"
    mcpmon.yaml:1:10: version: expected a whole number from 0 to 4294967295, found the text `one`
       |
     1 | version: one
       |          ^^^
    ");
}

#[test]
fn syntax() {
    assert_snapshot!(mistakes("mcp:\n\tservers: []\n"), @r"
    mcpmon.yaml:2:2: tabs disallowed within this context (block indentation)
       |
     2 | →servers: []
       |  ^
    ");
    assert_snapshot!(mistakes("mcp: {servers: [\n"), @r"
    mcpmon.yaml:1:16: unclosed bracket '['
       |
     1 | mcp: {servers: [
       |                ^
    ");
    assert_snapshot!(mistakes("mode: enforce\nmode: observe\n"), @r"
    mcpmon.yaml:2:1: the key `mode` is given twice
       |
     2 | mode: observe
       | ^^^^
    ");
    assert_snapshot!(mistakes("mode: enforce\n---\nmode: observe\n"), @r"
    mcpmon.yaml:3:1: a second document starts here: one file holds one document
       |
     3 | mode: observe
       | ^
    ");
    assert_snapshot!(mistakes("mode: *missing\n"), @r"
    mcpmon.yaml:1:7: no anchor of this name is defined above
       |
     1 | mode: *missing
       |       ^
    ");
}

#[test]
fn alias_bombs() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert_snapshot!(mistakes(&bomb), @r"
    mcpmon.yaml:5:15: too much for a configuration: at most 200000 values are read, 20000 of them repeated by 1000 aliases, 32 levels deep
       |
     5 | a4: &a4 [*a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3]
       |               ^^^
    ");
    let deep = format!("mcp: {}{}\n", "[".repeat(100), "]".repeat(100));
    assert_snapshot!(mistakes(&deep), @r"
    mcpmon.yaml:1:37: too much for a configuration: at most 200000 values are read, 20000 of them repeated by 1000 aliases, 32 levels deep
       |
     1 | mcp: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
       |                                     ^
    ");
}

#[test]
fn patterns() {
    assert_snapshot!(mistakes("mcp:\n  detection:\n    custom_patterns:\n      - {name: open, pattern: \"key(\", category: exfiltration, severity: high}\n      - {name: huge, pattern: \"(a{1000}){1000}\", category: exfiltration, severity: high}\n      - {name: all, pattern: \"\", category: exfiltration, severity: high}\n      - {name: open, pattern: b, category: exfiltration, severity: high}\n"), @r#"
    mcpmon.yaml:4:31: mcp.detection.custom_patterns[0].pattern: no valid regular expression: unclosed group
       |
     4 |       - {name: open, pattern: "key(", category: exfiltration, severity: high}
       |                               ^^^^^^

    mcpmon.yaml:5:31: mcp.detection.custom_patterns[1].pattern: no valid regular expression: Compiled regex exceeds size limit of 1048576 bytes.
       |
     5 |       - {name: huge, pattern: "(a{1000}){1000}", category: exfiltration, severity: high}
       |                               ^^^^^^^^^^^^^^^^^

    mcpmon.yaml:6:30: mcp.detection.custom_patterns[2].pattern: an empty pattern would match everything
       |
     6 |       - {name: all, pattern: "", category: exfiltration, severity: high}
       |                              ^^

    mcpmon.yaml:7:16: mcp.detection.custom_patterns[3].name: the pattern name `open` is used twice
       |
     7 |       - {name: open, pattern: b, category: exfiltration, severity: high}
       |                ^^^^
    "#);
}

#[test]
fn limits_out_of_range() {
    assert_snapshot!(mistakes("mcp: {limits: {max_line: 1KiB, max_tools: 0, max_batch: 0, max_pending: 0, max_schema_depth: 513}}\n"), @r"
    mcpmon.yaml:1:26: mcp.limits.max_line: expected from `64KiB` (the `initialize` response must fit) to `1GiB` (it is held in memory)
       |
     1 | mcp: {limits: {max_line: 1KiB, max_tools: 0, max_batch: 0, max_pending: 0, max_schema_depth: 513
       |                          ^^^^

    mcpmon.yaml:1:43: mcp.limits.max_tools: no tool could be listed: expected at least 1
       |
     1 | mcp: {limits: {max_line: 1KiB, max_tools: 0, max_batch: 0, max_pending: 0, max_schema_depth: 513
       |                                           ^

    mcpmon.yaml:1:57: mcp.limits.max_batch: no batch could pass: expected at least 1
       |
     1 | mcp: {limits: {max_line: 1KiB, max_tools: 0, max_batch: 0, max_pending: 0, max_schema_depth: 513
       |                                                         ^

    mcpmon.yaml:1:73: mcp.limits.max_pending: no request could wait: expected at least 1
       |
     1 | mcp: {limits: {max_line: 1KiB, max_tools: 0, max_batch: 0, max_pending: 0, max_schema_depth: 513
       |                                                                         ^

    mcpmon.yaml:1:94: mcp.limits.max_schema_depth: expected 8 (tool schemas are at least this deep) to 512
       |
     1 | mcp: {limits: {max_line: 1KiB, max_tools: 0, max_batch: 0, max_pending: 0, max_schema_depth: 513
       |                                                                                              ^^^
    ");
    assert_snapshot!(mistakes("mcp: {limits: {max_line: 2GiB, max_schema_depth: 7, request_timeout: 5}}\n"), @r"
    mcpmon.yaml:1:26: mcp.limits.max_line: expected from `64KiB` (the `initialize` response must fit) to `1GiB` (it is held in memory)
       |
     1 | mcp: {limits: {max_line: 2GiB, max_schema_depth: 7, request_timeout: 5}}
       |                          ^^^^

    mcpmon.yaml:1:50: mcp.limits.max_schema_depth: expected 8 (tool schemas are at least this deep) to 512
       |
     1 | mcp: {limits: {max_line: 2GiB, max_schema_depth: 7, request_timeout: 5}}
       |                                                  ^

    mcpmon.yaml:1:70: mcp.limits.request_timeout: expected a duration such as `30s`, found the number 5
       |
     1 | mcp: {limits: {max_line: 2GiB, max_schema_depth: 7, request_timeout: 5}}
       |                                                                      ^
    ");
    assert_snapshot!(mistakes("mcp: {approvals: {timeout: 500ms}, cross_server: {shadow_tool: {similarity_threshold: 1.5}}}\n"), @r"
    mcpmon.yaml:1:28: mcp.approvals.timeout: nobody can answer in that time: expected at least `1s`
       |
     1 | mcp: {approvals: {timeout: 500ms}, cross_server: {shadow_tool: {similarity_threshold: 1.5}}}
       |                            ^^^^^

    mcpmon.yaml:1:87: mcp.cross_server.shadow_tool.similarity_threshold: expected a number from 0 (every name) to 1 (the same name)
       |
     1 | mcp: {approvals: {timeout: 500ms}, cross_server: {shadow_tool: {similarity_threshold: 1.5}}}
       |                                                                                       ^^^
    ");
}

#[test]
fn days_that_are_none() {
    assert_snapshot!(mistakes("mcp:\n  suppressions:\n    - {rule: persona, reason: b, until: soon}\n    - {rule: persona, reason: b, until: 9999-12-31}\n    - {rule: \"\", reason: \" \", until: 2027-01-01}\n"), @r#"
    mcpmon.yaml:3:41: mcp.suppressions[0].until: `soon` is no date such as `2027-01-01`: failed to parse four digit integer as year: invalid digit, expected 0-9 but got s
       |
     3 |     - {rule: persona, reason: b, until: soon}
       |                                         ^^^^

    mcpmon.yaml:4:41: mcp.suppressions[1].until: this date is out of range
       |
     4 |     - {rule: persona, reason: b, until: 9999-12-31}
       |                                         ^^^^^^^^^^

    mcpmon.yaml:5:14: mcp.suppressions[2].rule: expected the rule or pattern that is accepted, `*` for all
       |
     5 |     - {rule: "", reason: " ", until: 2027-01-01}
       |              ^^

    mcpmon.yaml:5:26: mcp.suppressions[2].reason: expected the reason why it is accepted
       |
     5 |     - {rule: "", reason: " ", until: 2027-01-01}
       |                          ^^^
    "#);
    assert_snapshot!(mistakes("mcp: {suppressions: [{rule: persona, reason: b, until: 20270101}]}\n"), @r"
    mcpmon.yaml:1:56: mcp.suppressions[0].until: expected a date such as `2027-01-01`, found the number 20270101
       |
     1 | mcp: {suppressions: [{rule: persona, reason: b, until: 20270101}]}
       |                                                        ^^^^^^^^
    ");
}

#[test]
fn rules_that_are_none() {
    assert_snapshot!(mistakes("mcp:\n  suppressions:\n    - {rule: instruction-overide-3, reason: b}\n    - {rule: \"inst*\", reason: b}\n    - {rule: nothing_like_it, reason: b}\n"), @r"
    mcpmon.yaml:3:14: mcp.suppressions[0].rule: `instruction-overide-3` is neither the id of a rule nor the name of a finding; did you mean `instruction-override-3`?
       |
     3 |     - {rule: instruction-overide-3, reason: b}
       |              ^^^^^^^^^^^^^^^^^^^^^

    mcpmon.yaml:5:14: mcp.suppressions[2].rule: `nothing_like_it` is neither the id of a rule nor the name of a finding: `mcpmon detections --json` has the ids of rules that found something
       |
     5 |     - {rule: nothing_like_it, reason: b}
       |              ^^^^^^^^^^^^^^^
    ");
    let own = "mcp: {detection: {custom_patterns: [{name: mine, pattern: x}]}, suppressions: [{rule: mine, reason: b}]}\n";
    compile(&[("mcpmon.yaml", own)]).expect("a pattern of the configuration's own");
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
"), @r"
    mcpmon.yaml:1:1: mod: unknown key: did you mean `mode`?
       |
     1 | mod: enforce
       | ^^^

    mcpmon.yaml:6:12: mcp.servers[0].url: `ftp` is no scheme of an HTTP server: expected `http` or `https`
       |
     6 |       url: ftp://mcp.example.com
       |            ^^^^^^^^^^^^^^^^^^^^^

    mcpmon.yaml:8:7: mcp.servers[1].comand: unknown key: did you mean `command`?
       |
     8 |       comand: npx
       |       ^^^^^^

    mcpmon.yaml:9:11: mcp.servers[2].id: the server id `weather` is used twice (first at mcpmon.yaml:4:11)
       |
     9 |     - id: weather
       |           ^^^^^^^

    mcpmon.yaml:12:17: mcp.servers[2].egress.allow[0]: `0` is no port: expected a number from 1 to 65535
        |
     12 |         allow: [api.example.com:0, 10.0.0.0/8]
        |                 ^^^^^^^^^^^^^^^^^

    mcpmon.yaml:16:15: network.deny[0].cidrs[0]: 10.0.0.1/8 has bits set behind its prefix: did you mean 10.0.0.0/8?
        |
     16 |       cidrs: [10.0.0.1/8]
        |               ^^^^^^^^^^

    mcpmon.yaml:17:14: network.deny[0].scope: unknown value `hots`: expected `host` or `agents`; did you mean `host`?
        |
     17 |       scope: hots
        |              ^^^^

    mcpmon.yaml:18:7: network.deny[1]: `name` is missing
        |
     18 |     - {}
        |       ^

    mcpmon.yaml:19:21: network.resolve_interval: too short: resolvers would refuse to answer; expected at least `1s`
        |
     19 |   resolve_interval: 0s
        |                     ^^
    ");
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
    assert_snapshot!(invalid.expect_err("mistakes"), @r"
    mcpmon.yaml:4:7: mode: unknown value `loud`: expected `enforce` or `observe`
       |
     4 | mode: loud
       |       ^^^^

    conf.d/10-more.yaml:3:12: mcp.servers[0].id: the server id `a` is used twice (first at mcpmon.yaml:3:12)
       |
     3 |     - {id: a, command: x}
       |            ^

    conf.d/20-bad.yaml:1:7: mode: expected `enforce` or `observe`, found a mapping
       |
     1 | mode: {}
       |       ^
    ");
}

#[test]
fn terminals_are_safe_from_keys() {
    assert_snapshot!(mistakes("\"\\e[2Jx\": 1\n"), @r#"
    mcpmon.yaml:1:1: �[2Jx: unknown key: expected `version`, `mode`, `mcp`, `network`, `exec`, `proxy`, `dlp`, `llm_storage`, `record`, `metrics` or `policy`
       |
     1 | "\e[2Jx": 1
       | ^^^^^^^^
    "#);
}

#[test]
fn a_pattern_is_told_where_its_whole_entry_is_cut_out() {
    let told = mistakes(
        "mcp:
  rules:
    - {id: a, decision: BLOCKX, match: {tool_name_regex: '('}}
    - {match: {tool_name_regex: '(d'}, decision: BLOCK}
    - {id: b, match: {tool_name_regex: '['}, decision: BLOCK}
  detection: {custom_patterns: [{pattern: '(e'}]}
",
    );
    let patterns = told.matches("no valid regular expression").count();
    assert_eq!(patterns, 4, "{told}");
    assert!(
        told.contains("unknown value `BLOCKX`") && told.contains("`id` is missing"),
        "{told}"
    );
}
