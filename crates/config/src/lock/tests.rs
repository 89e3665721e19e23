//! Profiles and the policies they make.

use insta::assert_snapshot;

use super::*;
use crate::{Sources, load_sources};

/// 2026-11-20 10:30:17 UTC, and seconds after it.
fn at(second: i64) -> Timestamp {
    Timestamp((1_795_170_617 + second) * 1_000_000_000)
}

fn seen(count: u64, first: i64, last: i64) -> Provenance {
    Provenance {
        count,
        first: at(first),
        last: at(last),
    }
}

fn tool(server: &str, tool: &str, calls: Option<Provenance>) -> UsedTool {
    UsedTool {
        server: server.to_owned(),
        tool: tool.to_owned(),
        hash: Some(Digest::of(tool.as_bytes())),
        calls,
        remarks: Vec::new(),
    }
}

fn server(id: &str) -> SeenServer {
    SeenServer {
        id: ServerId::new(id).expect("an id"),
        denied: None,
        start: None,
        connections: Vec::new(),
        files: Vec::new(),
    }
}

fn argument(text: &str) -> CommandArgument {
    CommandArgument {
        text: text.to_owned(),
        is_masked: text.contains("***"),
    }
}

fn connection(address: &str, name: Option<&str>, refused: bool) -> SessionConnections {
    SessionConnections {
        address: address.parse().expect("an address"),
        name: name.map(str::to_owned),
        refused,
        provenance: seen(3, 0, 2),
    }
}

fn file(path: &str, is_written: bool, calls: Option<Provenance>) -> SeenFile {
    SeenFile {
        path: path.to_owned(),
        is_written,
        is_protected: path.starts_with("~/.ssh"),
        calls,
    }
}

fn profile() -> Profile {
    Profile {
        session: "claude-3f2a".to_owned(),
        provenance: seen(1, 0, 60),
        servers: vec![
            SeenServer {
                denied: Some("server evil may not be used (`mcp.server_policy`)".to_owned()),
                ..server("evil")
            },
            SeenServer {
                start: Some(SessionStart {
                    package: None,
                    at: at(0),
                    command: "npx".to_owned(),
                    arguments: ["-y", "notes-mcp@1.2.0", "--token", "***"].map(argument).into(),
                    files: vec![
                        (
                            "executable",
                            "/usr/bin/node".to_owned(),
                            Some(Digest::of(b"node")),
                        ),
                        ("package", "/srv/notes".to_owned(), None),
                    ],
                    environment: ["HOME", "NOTES_API_KEY", "NOTES_DIR", "PATH"]
                        .map(str::to_owned)
                        .into(),
                    has_connections_recorded: true,
                }),
                connections: vec![
                    connection("192.0.2.7:443", Some("api.example.com"), false),
                    connection("[2001:db8::1]:443", None, false),
                    connection("203.0.113.9:80", None, true),
                ],
                files: vec![
                    file("/srv/notes", false, None),
                    file("~/.ssh/id_ed25519", false, Some(seen(1, 4, 4))),
                    file("/srv/a*b", false, Some(seen(1, 4, 4))),
                    file("/srv/notes/new", true, Some(seen(2, 4, 5))),
                ],
                ..server("notes")
            },
            server("web-search"),
        ],
        tools: vec![
            tool("notes", "read_note", Some(seen(2, 0, 1))),
            UsedTool {
                hash: None,
                remarks: vec![
                    "It was blocked by no-keys: tool write_note of notes matches the rule no-keys".to_owned(),
                ],
                ..tool("notes", "write_note", Some(seen(1, 0, 0)))
            },
        ],
        blocked: vec![UsedTool {
            remarks: vec![
                "It was blocked 2 times by tool_policy: tool fetch_url of web-search is denied".to_owned(),
            ],
            ..tool("web-search", "fetch_url", None)
        }],
        listed: vec![tool("notes", "delete_note", None)],
        resources: vec![("notes".to_owned(), "memo://a".to_owned(), seen(1, 5, 5))],
        sampling: Some(seen(1, 86_400, 2 * 86_400)),
    }
}

/// Returns the text about the sandbox of a server with this command and these connections.
fn sandbox(command: &str, connections: Vec<SessionConnections>, has_connections_recorded: bool) -> String {
    let start = SessionStart {
        package: None,
        at: at(0),
        command: command.to_owned(),
        arguments: Vec::new(),
        files: Vec::new(),
        environment: Vec::new(),
        has_connections_recorded,
    };
    let profile = Profile {
        servers: vec![SeenServer {
            start: Some(start),
            connections,
            ..server("notes")
        }],
        ..Profile::default()
    };
    let text = profile.policy();
    load(&text);
    text
}

#[test]
fn a_server_without_connections_has_no_network_where_they_would_be_known() {
    let is_off = |text: &str| text.contains("        network: off\n");
    assert!(is_off(&sandbox("npx", Vec::new(), true)));
    assert!(!is_off(&sandbox("npx", Vec::new(), false)));
    assert!(!is_off(&sandbox(
        "npx",
        vec![connection("192.0.2.7:443", None, false)],
        true
    )));
}

#[test]
fn what_cannot_be_in_a_sandbox_has_none() {
    for (command, remark) in [
        ("/usr/bin/bwrap", "It makes a sandbox of its own"),
        ("docker", "It is a container that a daemon starts"),
    ] {
        let text = sandbox(command, Vec::new(), true);
        assert!(!text.contains("sandbox:\n"), "{text}");
        assert!(text.contains(remark), "{text}");
    }
}

#[test]
fn a_session_as_a_policy() {
    let text = profile().policy();
    assert_snapshot!(text);
    load(&text);
}

fn load(text: &str) -> crate::LoadedConfiguration {
    load_sources(&Sources::of_texts(&[("locked.yaml", text)])).expect(text)
}

/// A suggestion is a line that is valid once its comment mark is removed.
#[test]
fn what_is_commented_can_be_uncommented() {
    let text = profile().policy();
    let words = [
        "Provenance",
        "---",
        "It ",
        "Refused",
        "Started",
        "executable",
        "package",
        "LLM",
        "Resources",
        "  notes",
        "Its ",
        "Drawn",
        "Generated",
        "What was",
        "what an",
    ];
    let uncommented: String = text
        .lines()
        .map(|line| match line.trim_start().strip_prefix("# ") {
            Some(rest) if !words.iter().any(|word| rest.starts_with(word)) => {
                format!("{}{rest}\n", &line[..line.len() - line.trim_start().len()])
            }
            Some(_) | None => format!("{line}\n"),
        })
        .collect();
    let rules = |text: &str| load(text).policy.rules.tools.clone();
    let mcpmon_policy::rules::ToolPolicy::Allowlist(allowed) = rules(&uncommented) else {
        panic!("{uncommented}");
    };
    let names: Vec<&str> = allowed.iter().map(|entry| entry.tool.as_str()).collect();
    assert_eq!(names, ["read_note", "write_note", "fetch_url", "delete_note"]);
}

#[test]
fn nothing_used_is_nothing_allowed() {
    let text = Profile::default().policy();
    assert!(
        text.contains("  allowed_servers: []\n") && text.contains("  allowed_tools: []\n"),
        "{text}"
    );
    load(&text);
}

#[test]
fn a_server_without_variables_of_its_own_gets_no_others() {
    let mut profile = profile();
    if let Some(start) = &mut profile.servers[1].start {
        start.environment = ["HOME", "PATH"].map(str::to_owned).into();
    }
    let text = profile.policy();
    assert!(text.contains("      env_allow:\n        - PATH\n"), "{text}");
    load(&text);
}

proptest::proptest! {
    /// Names, arguments, reasons and addresses are untrusted.
    #[test]
    fn any_profile_is_a_policy_that_says_what_it_says(
        name in "\\PC{0,20}|[\"':#{}\\[\\]&*!|>%@`,?\\-\\\\\n\r\t \u{85}\u{2028}]{0,12}",
        command in proptest::prelude::any::<String>(),
        reason in proptest::prelude::any::<String>(),
    ) {
        let mut profile = profile();
        profile.session.clone_from(&reason);
        profile.tools = vec![UsedTool { remarks: vec![reason.clone()], ..tool("notes", &name, Some(seen(1, 0, 0))) }];
        profile.blocked = vec![UsedTool { remarks: vec![reason.clone()], ..tool("notes", &name, None) }];
        profile.resources = vec![(name.clone(), reason, seen(1, 0, 0))];
        if let Some(start) = &mut profile.servers[1].start {
            start.command.clone_from(&command);
            start.arguments = vec![argument(&name), argument(&command)];
        }
        let text = profile.policy();
        let loaded = load(&text);
        let mcpmon_policy::rules::ToolPolicy::Allowlist(allowed) = &loaded.policy.rules.tools else {
            panic!("{text}");
        };
        let shown: Vec<&str> = allowed.iter().map(|entry| entry.tool.as_str()).collect();
        let expected = literal(&name);
        proptest::prop_assert_eq!(shown, if expected.is_empty() { vec![] } else { vec![expected.as_str()] });
    }
}
