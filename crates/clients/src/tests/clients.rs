//! One file of each client, in the shape in which that client keeps it: set up, set up again, and undone to the byte.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use test_case::test_case;

use crate::{
    plan::{FileForm, FilePlan, PlanOutcome, Wish, plan},
    setup::settled,
    table::{CLIENTS, client},
};

const PROGRAM: &str = "/usr/local/bin/mcpmon";

/// A file of a client, by a part of its path in the table.
fn form(id: &str, path: &str) -> FileForm {
    let client = client(id).unwrap_or_else(|| panic!("no client {id}"));
    let has_path = |paths: &Vec<String>| paths.iter().any(|candidate| candidate.contains(path));
    let file = client.files.iter().find(|file| has_path(&file.paths));
    FileForm {
        client,
        file: file.unwrap_or_else(|| panic!("{id} has no file {path}")),
    }
}

fn wrap(text: &str, form: FileForm) -> FilePlan {
    plan(text.as_bytes(), form, &[], Wish::Wrap(PROGRAM.into()))
        .unwrap_or_else(|mistake| panic!("{mistake:?}:\n{text}"))
}

fn text_of(plan: &FilePlan) -> &str {
    str::from_utf8(&plan.text).expect("text")
}

/// Sets up, sets up again and undoes with and without the ledger, in each way in which editors save a file.
fn round_trip(original: &str, form: FileForm) -> FilePlan {
    for variant in [
        original.to_owned(),
        original.replace('\n', "\r\n"),
        format!("\u{feff}{original}"),
        original.trim_end().to_owned(),
    ] {
        let once = wrap(&variant, form);
        let words =
            |plan: &FilePlan| -> Vec<_> { plan.servers.iter().map(|server| server.before.clone()).collect() };
        let again = plan(&once.text, form, &once.kept, Wish::Wrap(PROGRAM.into())).expect("readable");
        assert_eq!(text_of(&again), text_of(&once), "set up twice");
        assert_eq!(again.kept, once.kept);
        for server in &again.servers {
            assert!(!server.outcome.changes(), "{server:?}");
        }
        let back = plan(&once.text, form, &once.kept, Wish::Unwrap).expect("readable");
        assert_eq!(text_of(&back), variant, "undone");

        let forgotten = plan(&once.text, form, &[], Wish::Unwrap).expect("readable");
        let bare = plan(&forgotten.text, form, &[], Wish::Unwrap).expect("readable");
        assert_eq!(
            words(&bare),
            words(&wrap(&variant, form)),
            "undone without the ledger"
        );

        let moved = plan(&once.text, form, &once.kept, Wish::Wrap("/opt/monitor".into())).expect("readable");
        assert_eq!(text_of(&moved), text_of(&once).replace(PROGRAM, "/opt/monitor"));
        let back = plan(&moved.text, form, &moved.kept, Wish::Unwrap).expect("readable");
        assert_eq!(text_of(&back), variant, "undone after a move");
    }
    wrap(original, form)
}

fn outcomes(plan: &FilePlan) -> Vec<(&str, PlanOutcome)> {
    let servers = plan.servers.iter();
    servers
        .map(|server| (server.path.last().map_or("", String::as_str), server.outcome))
        .collect()
}

const CLAUDE_CODE: &str = "{\n  \"numStartups\": 12,\n  \"projects\": {\n    \"/home/zoë/größe\": {\n      \"mcpServers\": {\n        \"db\": { \"type\": \"stdio\", \"command\": \"uvx\", \"args\": [\"mcp-server-sqlite\"], \"env\": {} }\n      },\n      \"history\": [\"\\ud83d\"]\n    }\n  },\n  \"mcpServers\": {\n    \"docs\": { \"type\": \"http\", \"url\": \"https://docs.example.com/mcp\", \"headers\": { \"X-Key\": \"k\" } }\n  }\n}\n";
const CLAUDE_PROJECT: &str = "{\"mcpServers\":{\"notes\":{\"command\":\"./notes.sh\",\"args\":[]}}}";
const CLAUDE_PLUGIN: &str =
    "{\n\t\"lint\": {\n\t\t\"command\": \"${CLAUDE_PLUGIN_ROOT}/lint\"\n\t},\n\t\"version\": \"1\"\n}\n";
const CLAUDE_DESKTOP: &str = "{\n    \"globalShortcut\": \"\",\n    \"mcpServers\": {\n        \"files\": {\n            \"command\": \"npx\",\n            \"args\": [\n                \"-y\",\n                \"@example/files\",\n                \"/home/me/Документы\"\n            ]\n        }\n    }\n}";
const CURSOR: &str = "{\n  // of the team\n  \"mcpServers\": {\n    \"a\": { \"command\": \"npx\", \"args\": [\"-y\", \"a\",], },\n    \"b\": { \"url\": \"https://b.example.com/sse\" },\n  },\n}\n";
const VSCODE: &str = "{\n\t\"inputs\": [{ \"id\": \"k\", \"type\": \"promptString\" }],\n\t\"servers\": {\n\t\t\"a\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"docker\", // pulls\n\t\t\t\"args\": [\"run\", \"-i\", /* quiet */ \"img\"],\n\t\t\t\"env\": { \"K\": \"${input:k}\" },\n\t\t},\n\t},\n}\n";
const WINDSURF: &str = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\", \"disabled\": true, \"disabledTools\": [\"x\"] },\n    \"far\": { \"serverUrl\": \"https://far.example.com/mcp\" }\n  }\n}\n";
const CODEX: &str = "# mine\nmodel = \"o9\" # newest\n\n[mcp_servers.files]\ncommand = \"npx\" # of Node\nargs = [\"-y\", '@example/files', \"ü\"]\nenv = { \"A\" = \"1\" }\nstartup_timeout_sec = 20\n\n[mcp_servers.\"no args\"]\n\tcommand = 'server'\n\tcwd = \"/srv\"\n\n[mcp_servers.inline_parent]\nenabled = false\ncommand = \"x\"\nargs = [\n    # first\n    \"one\",\n    \"two\", # second\n]\n\n[mcp_servers.far]\nurl = \"https://far.example.com/mcp\"\nhttp_headers = { \"X-Key\" = \"k\" }\n\n[profiles.fast]\nmodel = \"o9-mini\"\n";
const CODEX_INLINE: &str = "mcp_servers.dotted.command = \"d\"\nmcp_servers.dotted.env.A = \"1\"\nmcp_servers.list.args = []\nmcp_servers.list.command = \"l\"\nmcp_servers.short = { command = \"s\" }\nmcp_servers.full = { args = [\"1\"], command = \"f\", env = { A = \"b\" } }\n";
const GEMINI: &str = "{\n  \"theme\": \"Dark\",\n  \"mcpServers\": {\n    \"a\": { \"command\": \"python\", \"args\": [\"-m\", \"a\"], \"trust\": false, \"timeout\": 5000 },\n    \"b\": { \"httpUrl\": \"https://b.example.com/mcp\" },\n    \"c\": { \"url\": \"https://c.example.com/sse\" }\n  }\n}\n";
const OPENCODE: &str = "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  // servers\n  \"mcp\": {\n    \"a\": {\n      \"type\": \"local\",\n      \"command\": [\"npx\", \"-y\", \"a\"],\n      \"environment\": { \"A\": \"1\" },\n    },\n    \"b\": { \"type\": \"local\", \"command\": [\n      // just this\n      \"b\"\n    ], \"enabled\": false },\n    \"c\": { \"type\": \"remote\", \"url\": \"https://c.example.com/mcp\" },\n  },\n}\n";
const ZED: &str = "// Zed settings\n{\n  \"theme\": \"One Dark\",\n  \"context_servers\": {\n    \"new\": { \"source\": \"custom\", \"command\": \"uv\", \"args\": [\"run\", \"x\"], \"env\": {} },\n    \"old\": {\n      \"command\": { \"path\": \"node\", \"args\": [\"old.js\"], \"env\": null },\n      \"settings\": {}\n    },\n    \"older\": { \"command\": { \"path\": \"node\" } },\n    \"far\": { \"url\": \"https://far.example.com/mcp\" },\n    \"extension\": { \"settings\": { \"k\": 1 } }\n  },\n}\n";
const COPILOT: &str = "{\n  \"mcpServers\": {\n    \"a\": {\n      \"type\": \"local\",\n      \"command\": \"npx\",\n      \"tools\": [\"*\"],\n      \"args\": [\"-y\", \"a\"]\n    }\n  }\n}\n";
const GOOSE: &str = "GOOSE_PROVIDER: anthropic # model\nextensions:\n  developer:\n    bundled: true\n    enabled: true\n    name: developer\n    type: builtin\n  github:\n    # needs a token\n    args:\n    - -y\n    - '@example/github'   # pinned\n    - --größe=1\n    bundled: null\n    cmd: npx\n    description: \"\"\n    enabled: true\n    env_keys: []\n    envs: {TOKEN: x}\n    name: github\n    timeout: 300\n    type: stdio\n  bare:\n    cmd: \"server\" # alone\n    args: []\n    type: stdio\n  none:\n    type: stdio\n    cmd: none\n\n  empty:\n    cmd: empty\n    args:\n    type: stdio\n  far:\n    type: streamable_http\n    uri: https://far.example.com/mcp\nGOOSE_MODE: auto\n";
const CONTINUE: &str = "name: Mine\nversion: 0.0.1\nschema: v1\nmodels:\n  - uses: anthropic/claude\nmcpServers:\n  - name: SQLite\n    command: npx\n    args:\n      - \"-y\"\n      # the database\n      - mcp-sqlite\n      - /home/me/ключ.db\n    env:\n      KEY: ${{ secrets.KEY }}\n  - command: uvx\n    name: fetch it\n  - {name: flow, command: f, args: [a, 'b']}\n  - {name: short, command: s}\n  - name: script\n    command: sh\n    args:\n      - -c\n      - |\n        exec server \\\n          --fast\n\n  - name: far\n    type: streamable-http\n    url: https://far.example.com/mcp\n  - uses: someone/server\n";
const CLINE: &str = "{\n  \"mcpServers\": {\n    \"a\": { \"autoApprove\": [], \"disabled\": false, \"timeout\": 60, \"command\": \"node\", \"args\": [\"a.js\"], \"type\": \"stdio\" }\n  }\n}";
const ROO: &str = "{\"mcpServers\":{\n\t\"a\":{\"command\":\"cmd\",\"args\":[\"/c\",\"npx\"],\"alwaysAllow\":[\"x\"]},\n\t\"b\":{\"type\":\"streamable-http\",\"url\":\"https://b.example.com\"}}}\n";
const KIRO: &str = "{\n  \"mcpServers\": {\n    \"aws\": { \"command\": \"uvx\", \"args\": [\"aws@latest\"], \"env\": { \"FASTMCP_LOG_LEVEL\": \"ERROR\" }, \"autoApprove\": [] }\n  }\n}\n";
const AMP: &str = "{\n  \"amp.notifications.enabled\": true,\n  \"amp.mcpServers\": {\n    \"play\": { \"command\": \"npx\", \"args\": [\"-y\", \"play\"] },\n    \"far\": { \"url\": \"https://far.example.com/sse\" }\n  }\n}\n";
const CRUSH: &str = "{\n  \"$schema\": \"https://charm.land/crush.json\",\n  \"mcp\": {\n    \"files\": { \"type\": \"stdio\", \"command\": \"node\", \"args\": [\"files.js\"], \"timeout\": 120 },\n    \"hub\": { \"type\": \"http\", \"url\": \"https://hub.example.com/mcp/\", \"headers\": { \"Authorization\": \"Bearer $KEY\" } }\n  }\n}\n";
const LM_STUDIO: &str = "{\r\n  \"mcpServers\": {\r\n    \"a\": {\r\n      \"command\": \"npx\",\r\n      \"args\": [\r\n        \"a\"\r\n      ]\r\n    }\r\n  }\r\n}\r\n";
const VIBE: &str = "[[mcp_servers]]\nname = \"fetch\"\ntransport = \"stdio\"\ncommand = \"uvx\"\nargs = [\"mcp-server-fetch\"]\n\n[[mcp_servers]]\nname = \"far\"\ntransport = \"streamable-http\"\nurl = \"http://127.0.0.1:8000\"\n\n[[mcp_servers]]\nname = \"list\"\ncommand = [\"uvx\", \"it\"]\n";

#[test_case("claude-code", ".claude.json", CLAUDE_CODE)]
#[test_case("claude-code", "./.mcp.json", CLAUDE_PROJECT; "claude-code project")]
#[test_case("claude-code", "plugins/cache", CLAUDE_PLUGIN; "claude-code plugin")]
#[test_case("claude-desktop", "Claude", CLAUDE_DESKTOP)]
#[test_case("cursor", "~/.cursor", CURSOR)]
#[test_case("vscode", "User/mcp.json", VSCODE)]
#[test_case("windsurf", "windsurf", WINDSURF)]
#[test_case("codex", "CODEX_HOME", CODEX)]
#[test_case("codex", "./.codex", CODEX_INLINE; "codex dotted and inline")]
#[test_case("gemini-cli", "~/.gemini/settings", GEMINI)]
#[test_case("opencode", "opencode.jsonc", OPENCODE)]
#[test_case("zed", "zed/settings", ZED)]
#[test_case("copilot-cli", "COPILOT_HOME", COPILOT)]
#[test_case("goose", "goose", GOOSE)]
#[test_case("continue", "config.yaml", CONTINUE)]
#[test_case("cline", "cline_mcp", CLINE)]
#[test_case("roo", "roo-cline", ROO)]
#[test_case("kiro", "~/.kiro", KIRO)]
#[test_case("amp", "amp/settings", AMP)]
#[test_case("crush", "crush.json", CRUSH)]
#[test_case("lm-studio", "lmstudio", LM_STUDIO)]
#[test_case("antigravity", "antigravity", WINDSURF)]
#[test_case("amazon-q", "~/.aws", KIRO)]
#[test_case("kimi", "kimi", CLINE)]
#[test_case("factory", "~/.factory", COPILOT)]
#[test_case("mistral-vibe", "~/.vibe", VIBE)]
fn a_file_is_set_up_and_undone(id: &str, path: &str, original: &str) {
    let plan = round_trip(original, form(id, path));
    let is_wrapped = |server: &(&str, PlanOutcome)| server.1 == PlanOutcome::Wrap;
    assert!(outcomes(&plan).iter().any(is_wrapped), "{:?}", outcomes(&plan));
}

#[test_case("srt")]
#[test_case("bwrap")]
fn a_wrapper_is_put_outside_of_a_sandbox(program: &str) {
    let original = format!(
        r#"{{"mcpServers": {{"search": {{"command": "{program}", "args": ["npx", "-y", "tavily-mcp"]}}}}}}"#
    );
    let plan = wrap(&original, form("claude-code", ".claude.json"));
    let written = text_of(&plan);
    let inner = format!(r#""--", "{program}", "npx", "-y", "tavily-mcp""#);
    assert!(written.contains(&inner), "{written}");
    assert!(
        !written.contains(&format!(r#""command": "{program}""#)),
        "{written}"
    );
}

#[test]
fn toml_keeps_its_comments_and_order() {
    assert_snapshot!(text_of(&wrap(CODEX, form("codex", "CODEX_HOME"))), @r#"
    # mine
    model = "o9" # newest

    [mcp_servers.files]
    command = "/usr/local/bin/mcpmon" # of Node
    args = ["wrap", "--server", "files", "--", "npx", "-y", '@example/files', "ü"]
    env = { "A" = "1" }
    startup_timeout_sec = 20

    [mcp_servers."no args"]
    	args = ["wrap", "--server", "no-args", "--", 'server']
    	command = "/usr/local/bin/mcpmon"
    	cwd = "/srv"

    [mcp_servers.inline_parent]
    enabled = false
    command = "/usr/local/bin/mcpmon"
    args = [
        # first
        "wrap",
        "--server",
        "inline_parent",
        "--",
        "x",
        "one",
        "two", # second
    ]

    [mcp_servers.far]
    url = "https://far.example.com/mcp"
    http_headers = { "X-Key" = "k" }

    [profiles.fast]
    model = "o9-mini"
    "#);
    assert_snapshot!(text_of(&wrap(CODEX_INLINE, form("codex", "CODEX_HOME"))), @r#"
    mcp_servers.dotted.args = ["wrap", "--server", "dotted", "--", "d"]
    mcp_servers.dotted.command = "/usr/local/bin/mcpmon"
    mcp_servers.dotted.env.A = "1"
    mcp_servers.list.args = ["wrap", "--server", "list", "--", "l"]
    mcp_servers.list.command = "/usr/local/bin/mcpmon"
    mcp_servers.short = { command = "/usr/local/bin/mcpmon", args = ["wrap", "--server", "short", "--", "s"] }
    mcp_servers.full = { args = ["wrap", "--server", "full", "--", "f", "1"], command = "/usr/local/bin/mcpmon", env = { A = "b" } }
    "#);
    assert_snapshot!(text_of(&wrap(VIBE, form("mistral-vibe", "~/.vibe"))), @r#"
    [[mcp_servers]]
    name = "fetch"
    transport = "stdio"
    command = "/usr/local/bin/mcpmon"
    args = ["wrap", "--server", "fetch", "--", "uvx", "mcp-server-fetch"]

    [[mcp_servers]]
    name = "far"
    transport = "streamable-http"
    url = "http://127.0.0.1:8000"

    [[mcp_servers]]
    name = "list"
    command = ["/usr/local/bin/mcpmon", "wrap", "--server", "list", "--", "uvx", "it"]
    "#);
}

#[test]
fn yaml_keeps_its_comments_and_order() {
    assert_snapshot!(text_of(&wrap(GOOSE, form("goose", "goose"))), @r#"
    GOOSE_PROVIDER: anthropic # model
    extensions:
      developer:
        bundled: true
        enabled: true
        name: developer
        type: builtin
      github:
        # needs a token
        args:
        - "wrap"
        - "--server"
        - "github"
        - "--"
        - "npx"
        - -y
        - '@example/github'   # pinned
        - --größe=1
        bundled: null
        cmd: "/usr/local/bin/mcpmon"
        description: ""
        enabled: true
        env_keys: []
        envs: {TOKEN: x}
        name: github
        timeout: 300
        type: stdio
      bare:
        cmd: "/usr/local/bin/mcpmon" # alone
        args: ["wrap", "--server", "bare", "--", "server"]
        type: stdio
      none:
        type: stdio
        args: ["wrap", "--server", "none", "--", "none"]
        cmd: "/usr/local/bin/mcpmon"

      empty:
        cmd: "/usr/local/bin/mcpmon"
        args: ["wrap", "--server", "empty", "--", "empty"]
        type: stdio
      far:
        type: streamable_http
        uri: https://far.example.com/mcp
    GOOSE_MODE: auto
    "#);
    assert_snapshot!(text_of(&wrap(CONTINUE, form("continue", "config.yaml"))), @r#"
    name: Mine
    version: 0.0.1
    schema: v1
    models:
      - uses: anthropic/claude
    mcpServers:
      - name: SQLite
        command: "/usr/local/bin/mcpmon"
        args:
          - "wrap"
          - "--server"
          - "SQLite"
          - "--"
          - "npx"
          - "-y"
          # the database
          - mcp-sqlite
          - /home/me/ключ.db
        env:
          KEY: ${{ secrets.KEY }}
      - args: ["wrap", "--server", "fetch-it", "--", "uvx"]
        command: "/usr/local/bin/mcpmon"
        name: fetch it
      - {name: flow, command: "/usr/local/bin/mcpmon", args: ["wrap", "--server", "flow", "--", "f", a, 'b']}
      - {name: short, command: "/usr/local/bin/mcpmon", args: ["wrap", "--server", "short", "--", "s"]}
      - name: script
        command: "/usr/local/bin/mcpmon"
        args:
          - "wrap"
          - "--server"
          - "script"
          - "--"
          - "sh"
          - -c
          - |
            exec server \
              --fast

      - name: far
        type: streamable-http
        url: https://far.example.com/mcp
      - uses: someone/server
    "#);
}

#[test]
fn a_command_in_a_list_and_one_with_members_are_wrapped() {
    assert_snapshot!(text_of(&wrap(OPENCODE, form("opencode", "opencode.json"))), @r#"
    {
      "$schema": "https://opencode.ai/config.json",
      // servers
      "mcp": {
        "a": {
          "type": "local",
          "command": ["/usr/local/bin/mcpmon", "wrap", "--server", "a", "--", "npx", "-y", "a"],
          "environment": { "A": "1" },
        },
        "b": { "type": "local", "command": [
          // just this
          "/usr/local/bin/mcpmon",
          "wrap",
          "--server",
          "b",
          "--",
          "b"
        ], "enabled": false },
        "c": { "type": "remote", "url": "https://c.example.com/mcp" },
      },
    }
    "#);
    assert_snapshot!(text_of(&wrap(ZED, form("zed", "zed/settings"))), @r#"
    // Zed settings
    {
      "theme": "One Dark",
      "context_servers": {
        "new": { "source": "custom", "command": "/usr/local/bin/mcpmon", "args": ["wrap", "--server", "new", "--", "uv", "run", "x"], "env": {} },
        "old": {
          "command": { "path": "/usr/local/bin/mcpmon", "args": ["wrap", "--server", "old", "--", "node", "old.js"], "env": null },
          "settings": {}
        },
        "older": { "command": { "path": "/usr/local/bin/mcpmon", "args": ["wrap", "--server", "older", "--", "node"] } },
        "far": { "url": "https://far.example.com/mcp" },
        "extension": { "settings": { "k": 1 } }
      },
    }
    "#);
}

/// A file with remote servers in every form that can be wrapped.
const REMOTE_CODEX: &str = "[mcp_servers.far]\nurl = \"https://far.example.com/mcp\" # far\nhttp_headers = { \"X-Key\" = \"schl\u{fc}ssel\", X-Other = 'o' }\n\n[mcp_servers]\nnear = { url = 'http://127.0.0.1:1/mcp' }\n";
const REMOTE_DOTTED: &str =
    "mcp_servers.dotted.enabled = true\nmcp_servers.dotted.url = \"https://d.example.com/mcp\"\n";
const REMOTE_GOOSE: &str = "extensions:\n  far: # f\n    type: sse\n    envs: {}\n    headers: {}\n    uri: 'https://far.example.com/sse' # u\n    timeout: 3\n  flow: {type: streamable_http, uri: https://flow.example.com/mcp, headers: {Authorization: 'Bearer \u{e9}'}}\n";
const REMOTE_LINES: &str = "{\n\t\"servers\": {\n\t\t// far away\n\t\t\"far\": {\n\t\t\t\"type\": \"http\", // kind\n\t\t\t\"url\": \"https://far.example.com/mcp\", // u\n\t\t\t\"headers\": {\n\t\t\t\t\"Authorization\": \"Bearer ${input:k}\", // secret\n\t\t\t},\n\t\t},\n\t},\n}\n";

#[test_case("claude-code", ".claude.json", CLAUDE_CODE)]
#[test_case("cursor", "~/.cursor", CURSOR)]
#[test_case("vscode", "User/mcp.json", REMOTE_LINES)]
#[test_case("windsurf", "windsurf", WINDSURF)]
#[test_case("codex", "CODEX_HOME", CODEX)]
#[test_case("codex", "./.codex", REMOTE_CODEX; "codex headers")]
#[test_case("codex", "./.codex", REMOTE_DOTTED; "codex dotted")]
#[test_case("gemini-cli", "~/.gemini/settings", GEMINI)]
#[test_case("opencode", "opencode.jsonc", OPENCODE)]
#[test_case("zed", "zed/settings", ZED)]
#[test_case("goose", "goose", GOOSE)]
#[test_case("goose", "goose", REMOTE_GOOSE; "goose flow and server-sent events")]
#[test_case("continue", "config.yaml", CONTINUE)]
#[test_case("roo", "roo-cline", ROO)]
#[test_case("amp", "amp/settings", AMP)]
#[test_case("crush", "crush.json", CRUSH)]
#[test_case("mistral-vibe", "~/.vibe", VIBE)]
fn remote_servers_are_wrapped_on_request_and_come_back(id: &str, path: &str, original: &str) {
    let form = form(id, path);
    for variant in [
        original.to_owned(),
        original.replace('\n', "\r\n"),
        format!("\u{feff}{original}"),
        original.trim_end().to_owned(),
    ] {
        let wish = Wish::WrapAll(PROGRAM.into());
        let once = settled(form, variant.as_bytes(), &[], wish).expect("certain");
        let remote = |server: &&crate::PlannedServer| server.url.is_some();
        assert!(once.servers.iter().filter(remote).count() > 0);
        for server in once.servers.iter().filter(remote) {
            assert_eq!(server.outcome, PlanOutcome::Wrap, "{server:?}");
        }
        let again = plan(&once.text, form, &once.kept, wish).expect("readable");
        assert_eq!(text_of(&again), text_of(&once), "set up twice");
        let later = plan(&once.text, form, &once.kept, Wish::Wrap(PROGRAM.into())).expect("readable");
        assert_eq!(text_of(&later), text_of(&once), "set up without remote servers");
        assert_eq!(later.kept, once.kept);
        let moved =
            settled(form, &once.text, &once.kept, Wish::WrapAll("/opt/monitor".into())).expect("certain");
        assert_eq!(text_of(&moved), text_of(&once).replace(PROGRAM, "/opt/monitor"));
        for wrapped in [&once, &moved] {
            let back = settled(form, &wrapped.text, &wrapped.kept, Wish::Unwrap).expect("certain");
            assert_eq!(text_of(&back), variant, "undone");
        }
        let forgotten = plan(&once.text, form, &[], Wish::Unwrap).expect("readable");
        for server in forgotten.servers.iter().zip(&once.servers) {
            if server.1.url.is_some() {
                assert_eq!(server.0.outcome, PlanOutcome::ByHand, "nobody knows what it was");
            }
        }
    }
}

#[test]
fn a_wrapper_of_a_url_is_started_like_any_server() {
    let texts = |id, path, text: &str| {
        let plan = plan(
            text.as_bytes(),
            form(id, path),
            &[],
            Wish::WrapAll(PROGRAM.into()),
        )
        .expect("readable");
        text_of(&plan).to_owned()
    };
    assert_snapshot!(texts("vscode", "User/mcp.json", REMOTE_LINES), @r#"
    {
    	"servers": {
    		// far away
    		"far": {
    			"type": "stdio", // kind
    			"command": "/usr/local/bin/mcpmon",
    			"args": ["wrap", "--server", "far", "--url", "https://far.example.com/mcp", "--header-env", "Authorization=MCPMON_HEADER_AUTHORIZATION"], // u
    			"env": {"MCPMON_HEADER_AUTHORIZATION": "Bearer ${input:k}"},
    		},
    	},
    }
    "#);
    assert_snapshot!(texts("codex", "./.codex", REMOTE_CODEX), @r#"
    [mcp_servers.far]
    args = ["wrap", "--server", "far", "--url", "https://far.example.com/mcp", "--header-env", "X-Key=MCPMON_HEADER_X_KEY", "--header-env", "X-Other=MCPMON_HEADER_X_OTHER"]
    command = "/usr/local/bin/mcpmon" # far
    env = {MCPMON_HEADER_X_KEY = "schlüssel", MCPMON_HEADER_X_OTHER = 'o'}

    [mcp_servers]
    near = { command = "/usr/local/bin/mcpmon", args = ["wrap", "--server", "near", "--url", "http://127.0.0.1:1/mcp"] }
    "#);
    assert_snapshot!(texts("goose", "goose", REMOTE_GOOSE), @r#"
    extensions:
      far: # f
        type: "stdio"
        envs: {}
        headers: {}
        args: ["wrap", "--server", "far", "--url", "https://far.example.com/sse", "--transport", "sse"]
        cmd: "/usr/local/bin/mcpmon" # u
        timeout: 3
      flow: {type: "stdio", cmd: "/usr/local/bin/mcpmon", args: ["wrap", "--server", "flow", "--url", "https://flow.example.com/mcp", "--header-env", "Authorization=MCPMON_HEADER_AUTHORIZATION"], envs: {MCPMON_HEADER_AUTHORIZATION: "Bearer é"}}
    "#);
    let opencode = r#"{"mcp": {"c": {"type": "remote", "url": "https://c.example.com/mcp", "headers": {"A": "{env:A}"}}}}"#;
    assert_snapshot!(texts("opencode", "opencode.json", opencode), @r#"{"mcp": {"c": {"type": "local", "command": ["/usr/local/bin/mcpmon", "wrap", "--server", "c", "--url", "https://c.example.com/mcp", "--header-env", "A=MCPMON_HEADER_A"], "environment": {"MCPMON_HEADER_A": "{env:A}"}}}}"#);
}

#[test]
fn a_client_may_write_its_file_anew_while_a_url_is_wrapped() {
    let form = form("claude-code", ".claude.json");
    let original = CLAUDE_CODE.replace("\\ud83d", "");
    let once = plan(original.as_bytes(), form, &[], Wish::WrapAll(PROGRAM.into())).expect("readable");
    let value: serde_json::Value = serde_json::from_slice(&once.text).expect("JSON");
    let anew = serde_json::to_vec_pretty(&value).expect("text");
    assert_ne!(anew, once.text);
    let back = settled(form, &anew, &once.kept, Wish::Unwrap).expect("certain");
    let back: serde_json::Value = serde_json::from_slice(&back.text).expect("JSON");
    let before: serde_json::Value = serde_json::from_str(&original).expect("JSON");
    assert_eq!(
        back["mcpServers"]["docs"]["url"],
        before["mcpServers"]["docs"]["url"]
    );
    assert_eq!(
        back["mcpServers"]["docs"]["headers"],
        before["mcpServers"]["docs"]["headers"]
    );
    assert_eq!(back["mcpServers"]["docs"]["type"], "http");
    assert_eq!(back["mcpServers"]["docs"]["command"], serde_json::Value::Null);
}

#[test_case(r#""url": "https://a.example.com/?key=k""# => with |reason: &str| assert!(reason.contains("secret")); "a query")]
#[test_case(r#""url": "https://me:pw@a.example.com/""# => with |reason: &str| assert!(reason.contains("secret")); "a password")]
#[test_case(r#""url": "${URL}""# => with |reason: &str| assert!(reason.contains("begin with")); "a variable")]
#[test_case(r#""url": 1"# => "its URL is no plain string"; "a number")]
#[test_case(r#""url": "https://a.example.com", "serverUrl": "https://b.example.com""# => "it has two URLs"; "two URLs")]
#[test_case(r#""url": "https://a.example.com", "args": []"# => "it has arguments beside a URL"; "arguments")]
#[test_case(r#""type": "ws", "url": "https://a.example.com""# => with |reason: &str| assert!(reason.contains("WebSocket")); "a WebSocket")]
#[test_case(r#""type": [], "url": "https://a.example.com""# => "its kind is no plain string"; "a kind that is a list")]
#[test_case(r#""url": "https://a.example.com", "oauth": {}"# => with |reason: &str| assert!(reason.contains("logs in")); "a login of the client")]
#[test_case(r#""url": "https://a.example.com", "headersHelper": "x""# => with |reason: &str| assert!(reason.contains("logs in")); "a program for headers")]
#[test_case(r#""url": "https://a.example.com", "headers": {"A": "b"}, "env": {}"# => "it has headers and an environment"; "an environment")]
#[test_case(r#""url": "https://a.example.com", "headers": {"A-B": "c", "A_B": "d"}"# => with |reason: &str| assert!(reason.contains("headers")); "headers of one variable")]
#[test_case(r#""url": "https://a.example.com", "headers": {"A\nB": "c"}"# => with |reason: &str| assert!(reason.contains("headers")); "a header that is none")]
#[test_case(r#""url": "https://a.example.com", "headers": {"A": 1}"# => with |reason: &str| assert!(reason.contains("headers")); "a header that is a number")]
#[test_case(r#""url": "https://a.example.com", "headers": ["A"]"# => with |reason: &str| assert!(reason.contains("headers")); "a list of headers")]
fn a_url_that_no_wrapper_can_take_says_why(members: &str) -> &'static str {
    let text = format!("{{\"mcpServers\": {{\"a\": {{{members}}}}}}}");
    let form = form("cursor", "~/.cursor");
    let plan = plan(text.as_bytes(), form, &[], Wish::WrapAll(PROGRAM.into())).expect("readable");
    assert_eq!(text_of(&plan), text);
    let PlanOutcome::Unclear(reason) = plan.servers[0].outcome else {
        panic!("{:?}", plan.servers[0].outcome);
    };
    reason
}

#[test]
fn every_server_of_a_file_has_an_outcome() {
    let goose = wrap(GOOSE, form("goose", "goose"));
    assert_eq!(
        outcomes(&goose),
        [
            ("developer", PlanOutcome::Unclear("it runs inside the client")),
            ("github", PlanOutcome::Wrap),
            ("bare", PlanOutcome::Wrap),
            ("none", PlanOutcome::Wrap),
            ("empty", PlanOutcome::Wrap),
            ("far", PlanOutcome::Remote),
        ]
    );
    let gemini = wrap(GEMINI, form("gemini-cli", "~/.gemini/settings"));
    assert_eq!(
        outcomes(&gemini),
        [
            ("a", PlanOutcome::Wrap),
            ("b", PlanOutcome::Remote),
            ("c", PlanOutcome::Remote)
        ]
    );
    let list = wrap(CONTINUE, form("continue", "config.yaml"));
    let names: Vec<_> = outcomes(&list).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["SQLite", "fetch it", "flow", "short", "script", "far", "7"]
    );
}

#[test_case("extensions: &all\n  a: {cmd: x}\nother: *all\n" => "2:3: servers behind an anchor, an alias or a tag are not edited"; "an anchor on the way")]
#[test_case("extensions:\n  a: {cmd: x}\n  a: {cmd: y}\n" => "3:3: `a` stands twice"; "two servers of one name")]
#[test_case("extensions:\n\ta: 1\n" => with |place: String| assert!(place.starts_with("2:"), "{place}"); "a tab")]
#[test_case("- a\n" => "1:1: expected an object"; "a list")]
fn yaml_that_is_not_edited_says_where(text: &str) -> String {
    let form = form("goose", "goose");
    let mistake = plan(text.as_bytes(), form, &[], Wish::Wrap(PROGRAM.into())).expect_err("refused");
    format!("{}:{}: {}", mistake.line, mistake.column, mistake.reason)
}

#[test_case("a: {cmd: &c x}" => "its command is no string"; "an anchor")]
#[test_case("a: *x" => "it has an anchor, an alias or a tag"; "an alias")]
#[test_case("a: {<<: *x, cmd: y}" => "it takes members from elsewhere in the file"; "a merge")]
#[test_case("a: {cmd: x, args: [1]}" => "its arguments are no list of strings"; "a number")]
#[test_case("a: {cmd: x, args: *x}" => "its arguments are no list of strings"; "arguments from elsewhere")]
#[test_case("a: {cmd: 1}" => "its command is no string"; "a command that is a number")]
#[test_case("a:\n    cmd: |\n      x\n" => "its command is a text of several lines"; "a block")]
fn yaml_servers_that_are_not_edited_say_why(server: &str) -> String {
    let text = format!("x: &x {{k: v}}\nextensions:\n  {server}\n");
    let plan = round_trip(&text, form("goose", "goose"));
    assert_eq!(text_of(&plan), text);
    let PlanOutcome::Unclear(reason) = plan.servers[0].outcome else {
        panic!("{:?}", plan.servers[0].outcome);
    };
    reason.to_owned()
}

#[test_case("a = 1\n[mcp_servers\n" => 2; "no end of a header")]
#[test_case("\u{feff}a = 1\nb = \n" => 2; "no value, behind a byte order mark")]
#[test_case("[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a]\ncommand = 'y'\n" => 3; "two servers of one name")]
fn malformed_toml_has_a_line(text: &str) -> usize {
    let form = form("codex", "CODEX_HOME");
    plan(text.as_bytes(), form, &[], Wish::Wrap(PROGRAM.into()))
        .expect_err("refused")
        .line
}

#[test]
fn a_server_edited_since_keeps_the_edit() {
    for (text, form) in [
        (GOOSE, form("goose", "goose")),
        (CONTINUE, form("continue", "config.yaml")),
        (CODEX, form("codex", "CODEX_HOME")),
        (OPENCODE, form("opencode", "opencode.json")),
    ] {
        let once = wrap(text, form);
        // Another value of a server, and another comment, as if a person had changed them.
        let edit = |text: &str| {
            text.replace("timeout: 300", "timeout: 301")
                .replace("sec = 20", "sec = 21")
                .replace("\"1\"", "\"2\"")
                .replace("# ", "# really ")
        };
        let edited = edit(text_of(&once));
        assert_ne!(edited, text_of(&once));
        let back = plan(edited.as_bytes(), form, &once.kept, Wish::Unwrap).expect("readable");
        let before = plan(text.as_bytes(), form, &[], Wish::Unwrap).expect("readable");
        let after = plan(&back.text, form, &[], Wish::Unwrap).expect("readable");
        let words =
            |plan: &FilePlan| -> Vec<_> { plan.servers.iter().map(|server| server.before.clone()).collect() };
        assert_eq!(words(&after), words(&before), "{}", text_of(&back));
    }
}

#[test]
fn every_client_of_the_table_has_a_round_trip() {
    let source = include_str!("clients.rs");
    let tested: BTreeSet<_> = CLIENTS
        .iter()
        .filter(|client| source.contains(&format!("#[test_case(\"{}\", ", client.id)))
        .map(|client| &client.id)
        .collect();
    assert_eq!(tested.len(), CLIENTS.len(), "{tested:?}");
}
