//! Tests of the texts for a person and for a script.

use insta::assert_snapshot;
use mcpmon_clients::{PlanOutcome, PlannedServer};
use serde_json::Value;

use super::*;

/// Returns the output on each stream for a home with these files.
fn printed(
    files: &[(&str, &str)],
    direction: SetupDirection,
    effect: SetupEffect,
    form: Form,
) -> (String, String) {
    let home = tempfile::tempdir().expect("directory");
    for (name, text) in files {
        let path = home.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let options = mcpmon_clients::Options {
        roots: Roots {
            home: home.path().to_owned(),
            variables: BTreeMap::new(),
            host: home.path().join("host"),
        },
        state: home.path().join("state"),
        clients: CLIENTS.iter().collect(),
        projects: Vec::new(),
        user: nix::unistd::geteuid().as_raw(),
        direction,
        effect,
        confirmed: None,
    };
    let done = SetupReport {
        effect,
        files: mcpmon_clients::run(&options).expect("remembered"),
        settings: Vec::new(),
        policy: None,
    };
    let (mut data, mut said) = (Vec::new(), Vec::new());
    let mut output = Output::plain(&mut data, &mut said, form);
    done.tell(&mut output).expect("written");
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("text");
        text.replace(&home.path().display().to_string(), "HOME")
    };
    (text(data), text(said))
}

pub(super) const FILES: &[(&str, &str)] = &[
    (".claude.json", "{\n\"mcpServers\": {}, }"),
    (
        ".cursor/mcp.json",
        r#"{
  "mcpServers": {
    "memory": { "command": "npx", "args": ["-y", "server-memory", "--token", "hunter2hunter2"] },
    "notes": { "command": "C:\\notes.exe" },
    "docs": { "url": "https://docs.example.com/mcp" },
    "mine": { "command": "mcpmon", "args": ["wrap", "--", "cat"] },
    "odd": {}
  }
}"#,
    ),
];

fn wrap() -> SetupDirection {
    SetupDirection::Wrap("/usr/local/bin/mcpmon".into())
}

#[test]
fn a_preview_shows_what_changes_and_no_secret() {
    let (data, notes) = printed(FILES, wrap(), SetupEffect::Preview, Form::Table);
    assert_snapshot!(data, @r#"
        --- HOME/.cursor/mcp.json
        +++ HOME/.cursor/mcp.json
        @@ line 3: mcpServers.memory @@
        -"command": "npx"
        -"args": ["-y", "server-memory", "--token", "***"]
        +"command": "/usr/local/bin/mcpmon"
        +"args": ["wrap", "--server", "memory", "--", "npx", "-y", "server-memory", "--token", "***"]
        @@ line 4: mcpServers.notes @@
        -"command": "C:\\notes.exe"
        +"command": "/usr/local/bin/mcpmon"
        +"args": ["wrap", "--server", "notes", "--", "C:\\notes.exe"]
        "#);
    assert_snapshot!(notes, @r"
        HOME/.claude.json:2:19: unexpected `}`; it is left as it is
        Cursor: HOME/.cursor/mcp.json: 2 to be wrapped, 1 wrapped by hand, 1 remote, 1 unclear
          mcpServers.docs: not wrapped: it is remote; `mcpmon setup --remote` lets mcpmon speak to it
          mcpServers.mine: wrapped by hand, and left alone
          mcpServers.odd: it has neither a command nor a URL
        ");
}

#[test]
fn a_url_becomes_a_command_without_its_headers() {
    let file = r#"{"mcpServers": {"docs": {"url": "https://docs.example.com/mcp", "headers": {"Authorization": "Bearer hunter2hunter2"}}}}"#;
    let direction = SetupDirection::WrapAll("/usr/local/bin/mcpmon".into());
    let (data, notes) = printed(
        &[(".cursor/mcp.json", file)],
        direction,
        SetupEffect::Preview,
        Form::Table,
    );
    assert_snapshot!(data, @r#"
        --- HOME/.cursor/mcp.json
        +++ HOME/.cursor/mcp.json
        @@ line 1: mcpServers.docs @@
        -"url": "https://docs.example.com/mcp"
        +"command": "/usr/local/bin/mcpmon"
        +"args": ["wrap", "--server", "docs", "--url", "https://docs.example.com/mcp", "--header-env", "Authorization=***"]
        "#);
    assert_snapshot!(notes, @"Cursor: HOME/.cursor/mcp.json: 1 to be wrapped");
}

#[test]
fn a_file_that_is_left_has_no_difference_and_no_question() {
    let home = tempfile::tempdir().expect("directory");
    let path = home.path().join("mcp.json");
    let planned = PlannedServer {
        path: vec!["mcpServers".to_owned(), "a".to_owned()],
        line: 1,
        outcome: PlanOutcome::Wrap,
        url: None,
        before: vec!["x".to_owned()],
        after: vec!["mcpmon".to_owned()],
    };
    let mut report = FileReport {
        client: &CLIENTS[0],
        path: path.clone(),
        written: None,
        digest: Some("0".to_owned()),
        servers: vec![planned],
        is_hosts: false,
        trouble: None,
        backup: None,
        restored: false,
    };
    assert!(servers::difference(&report).contains("+\"command\": \"mcpmon\""));
    report.trouble = Some(FileTrouble::File(FileError::ReadOnly { path }));
    assert_eq!(servers::difference(&report), "");
    let mut done = SetupReport {
        effect: SetupEffect::Preview,
        files: vec![report],
        settings: Vec::new(),
        policy: None,
    };
    assert!(!done.has_changes());
    done.files[0].trouble = None;
    assert_eq!(done.question(), "Change 1 file of a client?");
    assert_eq!(done.digests().len(), 1);
}

#[test]
fn what_was_written_says_where_the_copy_is() {
    let (_, notes) = printed(&FILES[1..], wrap(), SetupEffect::Write, Form::Table);
    assert!(
        notes.starts_with("Cursor: HOME/.cursor/mcp.json: 2 wrapped, 1 wrapped by hand"),
        "{notes}"
    );
    assert!(
        notes.contains("\n  a copy from before is HOME/state/setup-"),
        "{notes}"
    );
    assert!(notes.ends_with("\n  restart Cursor to make it hold\n"), "{notes}");
}

#[test]
fn each_server_and_each_trouble_is_an_object() {
    let (data, _) = printed(FILES, wrap(), SetupEffect::Preview, Form::Json);
    let objects: Vec<Value> = data
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(objects.len(), 6);
    assert_eq!(objects[0]["line"], 2);
    assert_eq!(objects[0]["column"], 19);
    assert_eq!(objects[1]["action"], "wrap");
    assert_eq!(objects[1]["done"], false);
    assert_eq!(objects[1]["before"][4], "***");
    assert_eq!(objects[3]["action"], "none");
    assert!(
        objects
            .iter()
            .all(|object| object["file"].as_str().expect("a file").starts_with("HOME"))
    );
}
