//! Texts after a change, and after it is undone.

use std::sync::LazyLock;

use insta::assert_snapshot;
use test_case::test_case;

use crate::{
    edit::WrappedText,
    plan::{FileForm, FilePlan, PlanOutcome, Wish, plan},
    table::{ConfigFile, Format, Scope, client},
};

pub(super) const PROGRAM: &str = "/usr/local/bin/mcpmon";

/// JSON with comments, and every path to servers that a client of the table has in JSON.
static FILE: LazyLock<ConfigFile> = LazyLock::new(|| ConfigFile {
    scope: Scope::User,
    paths: Vec::new(),
    format: Format::Jsonc,
    servers: [
        &["mcpServers"][..],
        &["projects", "*", "mcpServers"],
        &["servers"],
        &["mcp", "servers"],
    ]
    .map(|way| way.iter().map(|step| (*step).to_owned()).collect())
    .to_vec(),
});

pub(super) fn form() -> FileForm {
    FileForm {
        client: client("cursor").expect("a client"),
        file: &FILE,
    }
}

pub(super) fn wrapped(text: &str) -> FilePlan {
    plan(text.as_bytes(), form(), &[], Wish::Wrap(PROGRAM.into()))
        .unwrap_or_else(|mistake| panic!("{mistake:?}: {text}"))
}

pub(super) fn unwrapped(bytes: &[u8], kept: &[WrappedText]) -> String {
    let plan = plan(bytes, form(), kept, Wish::Unwrap).expect("still readable");
    String::from_utf8(plan.text).expect("text")
}

pub(super) fn text(plan: &FilePlan) -> &str {
    str::from_utf8(&plan.text).expect("text")
}

const CURSOR: &str = r#"{
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@example/github"],
      "env": { "TOKEN": "${env:TOKEN}" }
    },
    "bare": { "command": "server" },
    "docs": { "url": "https://docs.example.com/mcp" }
  }
}
"#;

#[test]
fn a_file_with_one_line_lists() {
    assert_snapshot!(text(&wrapped(CURSOR)), @r#"
    {
      "mcpServers": {
        "github": {
          "command": "/usr/local/bin/mcpmon",
          "args": ["wrap", "--server", "github", "--", "npx", "-y", "@example/github"],
          "env": { "TOKEN": "${env:TOKEN}" }
        },
        "bare": { "command": "/usr/local/bin/mcpmon", "args": ["wrap", "--server", "bare", "--", "server"] },
        "docs": { "url": "https://docs.example.com/mcp" }
      }
    }
    "#);
}

const VSCODE: &str = r#"// Servers of the team
{
	"inputs": [{ "id": "key", "type": "promptString", "password": true, },],
	"servers": {
		/* local */
		"notes (old)": {
			"args": [
				// where the notes are
				"--root",
				"${workspaceFolder}/notes", // not "~"
			],
			"command": "/opt/notes", // kept for now
			"env": { "KEY": "${input:key}" },
		},
		"quiet": {
			"type": "stdio",
			"command": "quiet" /* no args */,
		},
		"empty": { "command": "e", "args": [ /* none */ ], "disabled": true },
	},
}
"#;

#[test]
fn a_file_with_comments() {
    assert_snapshot!(text(&wrapped(VSCODE)).replace('\t', "  "), @r#"
    // Servers of the team
    {
      "inputs": [{ "id": "key", "type": "promptString", "password": true, },],
      "servers": {
        /* local */
        "notes (old)": {
          "args": [
            // where the notes are
            "wrap",
            "--server",
            "notes-(old)",
            "--",
            "/opt/notes",
            "--root",
            "${workspaceFolder}/notes", // not "~"
          ],
          "command": "/usr/local/bin/mcpmon", // kept for now
          "env": { "KEY": "${input:key}" },
        },
        "quiet": {
          "type": "stdio",
          "command": "/usr/local/bin/mcpmon",
          "args": ["wrap", "--server", "quiet", "--", "quiet"] /* no args */,
        },
        "empty": { "command": "/usr/local/bin/mcpmon", "args": ["wrap", "--server", "empty", "--", "e" /* none */ ], "disabled": true },
      },
    }
    "#);
}

#[test_case(CURSOR; "one line lists")]
#[test_case(VSCODE; "comments, tabs and trailing commas")]
#[test_case(r#"{"mcpServers":{"a":{"command":"x","args":["y"],"env":{}},"b":{"command":"z"}}}"#; "no white space")]
#[test_case(r#"{"mcpServers":{"a":{"args":[],"command":"x"},"b":{"command":"z","args":null}}}"#; "empty and null arguments")]
#[test_case("{\"projects\": {\"/home/a\": {\"mcpServers\": {\"s\": {\"type\": \"stdio\", \"command\": \"x\",\n\"args\"\n:\n[\n]}}}}}"; "projects, odd line ends")]
#[test_case("{\"servers\": {\"a b\u{e9}\\u0022\": {\"command\": \"\\u0078 y\", \"args\": [\"\\ud83d\\ude00\", \"\u{1f600}\"]}}}"; "escapes")]
#[test_case("{\"servers\": {\"\": {\"command\": \"x\"}, \"--\": {\"command\": \"x\"}}}"; "names that are no ids")]
#[test_case("{\"mcp\": {\"servers\": {\"a\": {\"command\": \"x\", \"args\": [\n\n\n   \"1\",\n \"2\"]}}}, \"editor.fontSize\": 12}"; "settings, blank lines")]
#[test_case("{\"servers\": {}}"; "no servers")]
#[test_case("{}"; "nothing")]
#[test_case(""; "an empty file")]
#[test_case("// nothing yet\n"; "only a comment")]
fn what_is_wrapped_comes_back(original: &str) {
    for variant in variants(original) {
        let once = wrapped(&variant);
        let twice = plan(&once.text, form(), &once.kept, Wish::Wrap(PROGRAM.into())).expect("readable");
        assert_eq!(twice.text, once.text, "wrapped once is wrapped");
        assert_eq!(twice.kept, once.kept);
        assert_eq!(unwrapped(&once.text, &once.kept), variant);
        let forgotten = plan(&once.text, form(), &[], Wish::Wrap(PROGRAM.into())).expect("readable");
        assert_eq!(forgotten.text, once.text, "the form alone is recognised");
    }
}

/// Returns the text as it is, with the line breaks of other systems, and with a byte order mark.
fn variants(original: &str) -> [String; 3] {
    [
        original.to_owned(),
        original.replace('\n', "\r\n"),
        format!("\u{feff}{original}"),
    ]
}

#[test]
fn a_client_may_write_the_file_anew() {
    let original = r#"{"mcpServers":{"a":{"command":"x","args":["y"]},"b":{"command":"z"},"c":{"command":"v","args":[]}}}"#;
    let once = wrapped(original);
    let value: serde_json::Value = serde_json::from_slice(&once.text).expect("strict JSON");
    let pretty = serde_json::to_vec_pretty(&value).expect("serialises");
    let again = plan(&pretty, form(), &once.kept, Wish::Wrap(PROGRAM.into())).expect("readable");
    assert_eq!(again.text, pretty, "still wrapped");
    let back: serde_json::Value =
        serde_json::from_str(&unwrapped(&pretty, &again.kept)).expect("strict JSON");
    assert_eq!(back, serde_json::from_str::<serde_json::Value>(original).unwrap());
    let known_no_more = serde_json::from_str::<serde_json::Value>(&unwrapped(&pretty, &[])).unwrap();
    assert_eq!(
        known_no_more["mcpServers"]["b"],
        serde_json::json!({"command": "z", "args": []})
    );
}

#[test]
fn later_edits_are_kept() {
    let once = wrapped(CURSOR);
    let edited = text(&once)
        .replace(r#""@example/github"]"#, r#""@example/github", "--read-only"]"#)
        .replace(r#""docs": {"#, r#""new": { "command": "n" }, "docs": {"#);
    let expected = CURSOR
        .replace(r#""@example/github"]"#, r#""@example/github", "--read-only"]"#)
        .replace(r#""docs": {"#, r#""new": { "command": "n" }, "docs": {"#);
    assert_eq!(unwrapped(edited.as_bytes(), &once.kept), expected);
}

#[test]
fn another_mcpmon_takes_the_place_of_the_first() {
    let once = wrapped(CURSOR);
    let moved = plan(&once.text, form(), &once.kept, Wish::Wrap("/opt/mcpmon-2".into())).expect("readable");
    assert_eq!(text(&moved), text(&once).replace(PROGRAM, "/opt/mcpmon-2"));
    let outcomes: Vec<_> = moved.servers.iter().map(|server| server.outcome).collect();
    assert_eq!(
        outcomes,
        [PlanOutcome::Update, PlanOutcome::Update, PlanOutcome::Remote]
    );
    assert_eq!(
        unwrapped(&moved.text, &moved.kept),
        CURSOR,
        "a name of its own is recognised as well"
    );
}

#[test]
fn what_was_wrapped_by_hand_is_left() {
    let text = r#"{"servers": {"a": {"command": "mcpmon", "args": ["wrap", "--", "x"]}, "b": {"command": "sh", "args": ["-c", "exec mcpmon wrap -- x"]}}}"#;
    let plan = wrapped(text);
    assert_eq!(
        crate::plan::plan(text.as_bytes(), form(), &[], Wish::Unwrap)
            .unwrap()
            .text,
        text.as_bytes()
    );
    assert_eq!(plan.text, text.as_bytes());
    assert!(
        plan.servers
            .iter()
            .all(|server| server.outcome == PlanOutcome::ByHand)
    );
}

#[test]
fn ids_have_no_characters_that_ids_cannot_have() {
    let plan =
        wrapped("{\"servers\": {\" my server\": {\"command\": \"x\"}, \"\u{200b}\": {\"command\": \"y\"}}}");
    let ids: Vec<_> = plan
        .servers
        .iter()
        .map(|server| server.after[3].as_str())
        .collect();
    assert_eq!(ids, ["my-server", "server"]);
}
