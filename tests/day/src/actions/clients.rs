//! Clients and their sessions: several at once, upgrades, ends, slow and large answers, other transports and hooks.

use anyhow::Result;
use mcpmon_e2e::{
    mcp_proxy::McpProxy,
    notes_server::{self, Remote, tool},
};
use serde_json::{Value, json};

use super::{CONSOLE, NPM, NPX, NPX_LINE, PUBLISH, PYTHON, PYTHON_LINE, SCRIPT, TRUST, VENV};
use crate::{
    action::{
        Action,
        Expectation::{Passes, Refused},
        Outcome, Step,
        Step::{Call, During, Run, Start, Try, Use},
    },
    day::Day,
};

const URL: Step = Start("mcpmon wrap --server $NAME --url $URL");
const FORECAST: &str = "Returns the forecast of a town.";

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "two-clients",
        "Use the server in two clients at once",
        &[SCRIPT, During(PYTHON_LINE, &[PYTHON])],
        Passes,
    )
    .in_slice(),
    Action::new(
        "two-names",
        "Use the server under two names at once",
        &[
            SCRIPT,
            During(
                PYTHON_LINE,
                &[Start(
                    "mcpmon wrap --server $NAME-second -- python3 app/weather.py",
                )],
            ),
            PYTHON,
        ],
        Passes,
    )
    .in_slice(),
    Action::new(
        "two-versions",
        "Use two versions by turns, after both were accepted",
        &[
            VENV,
            CONSOLE,
            PUBLISH,
            Run(
                "mkdir two && cd two && python3 -m venv --without-pip .venv && pip --python .venv/bin/python install -q $NAME==1.1.0",
            ),
            Try(SECOND_LINE),
            TRUST,
            SECOND,
            CONSOLE,
            SECOND,
        ],
        Passes,
    ),
    Action::new(
        "upgrade-while-in-use",
        "Install a package while the server is in use",
        &[NPM, During(NPX_LINE, &[Run("npm install -s semver")]), NPX],
        Passes,
    ),
    Action::new(
        "client-upgrade",
        "Upgrade the client to one with a newer protocol",
        &[SCRIPT, PYTHON, Use(newer)],
        Passes,
    )
    .in_slice(),
    Action::new(
        "client-killed",
        "Kill the client, and start it again",
        &[SCRIPT, Use(killed), PYTHON],
        Passes,
    ),
    Action::new(
        "server-crash",
        "Restart a server that crashed",
        &[SCRIPT, Use(crashed), PYTHON],
        Passes,
    )
    .in_slice(),
    Action::new(
        "slow-server",
        "Call a tool that takes two seconds",
        &[SCRIPT, Call(PYTHON_LINE, "slow")],
        Passes,
    ),
    Action::new(
        "large-result",
        "Call a tool that returns two megabytes",
        &[SCRIPT, Call(PYTHON_LINE, "large")],
        Passes,
    ),
    Action::new(
        "blocked-tool",
        "Call a tool that the policy blocks",
        &[SCRIPT, Call(PYTHON_LINE, "forbidden")],
        Refused(&["forbidden", "blocked by policy", "mcpmon explain "]),
    )
    .in_slice(),
    Action::new(
        "denied-server",
        "Start a server that the policy denies",
        &[
            SCRIPT,
            Start("mcpmon wrap --server $NAME-denied -- python3 app/weather.py"),
        ],
        Refused(&["may not run", "mcpmon explain "]),
    )
    .in_slice(),
    Action::new(
        "remote-server-restart",
        "Use a remote server by `wrap --url` before and after its restart",
        &[Use(remote)],
        Passes,
    ),
    Action::new(
        "proxied-server",
        "Use a remote server through `mcpmon proxy`",
        &[Use(proxied)],
        Passes,
    ),
    Action::new(
        "hook-allows",
        "Let an agent read a note, with a hook",
        &[Use(|day| {
            hook(day, "Read", &json!({"file_path": day.path("notes.txt")}))
        })],
        Passes,
    ),
    Action::new(
        "hook-blocks",
        "Let an agent write `~/.bashrc`, with a hook",
        &[Use(|day| {
            hook(
                day,
                "Write",
                &json!({"file_path": day.path(".bashrc"), "content": "x"}),
            )
        })],
        Refused(&["~/.bashrc", "mcpmon explain "]),
    )
    .in_slice(),
];

const SECOND: Step = Start(SECOND_LINE);
const SECOND_LINE: &str = "mcpmon wrap --server $NAME -- $HOME/two/.venv/bin/$NAME";

/// Starts the server in a client of a later version.
fn newer(day: &Day<'_>) -> Result<Outcome> {
    day.steps(&[PYTHON], &[(crate::client::VERSION, "2025-11-25".to_owned())])
}

fn killed(day: &Day<'_>) -> Result<Outcome> {
    let (client, outcome) = day.start(PYTHON_LINE, &[])?;
    drop(client);
    Ok(outcome)
}

fn crashed(day: &Day<'_>) -> Result<Outcome> {
    let (mut client, outcome) = day.start(PYTHON_LINE, &[])?;
    let _ends_without_an_answer = client.call("crash")?;
    Ok(outcome)
}

fn remote(day: &Day<'_>) -> Result<Outcome> {
    let tools = json!([tool("forecast", FORECAST)]);
    for _ in 0..2 {
        let remote = Remote::start(&tools)?;
        let outcome = day.steps(&[URL], &[("URL", remote.url())])?;
        if outcome != Outcome::Passes {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passes)
}

fn proxied(day: &Day<'_>) -> Result<Outcome> {
    let remote = Remote::start(&json!([tool("forecast", FORECAST)]))?;
    let server = json!({"id": day.name, "url": remote.url()});
    let proxy = McpProxy::start(&day.config.policy(), &[server])?;
    let url = proxy.url(&day.name);
    let list = notes_server::list(&url)?;
    if list.tools() != ["forecast"] {
        return Ok(Outcome::Refused(list.body.to_string()));
    }
    let called = notes_server::call(&url, "forecast")?;
    Ok(
        match called.body["result"]["isError"] == true || called.status != 200 {
            true => Outcome::Refused(called.text().to_owned()),
            false => Outcome::Passes,
        },
    )
}

/// Asks mcpmon for a client's own tool, as the hook of Claude Code does.
fn hook(day: &Day<'_>, tool: &str, input: &Value) -> Result<Outcome> {
    let call =
        json!({"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input});
    let script = r#"printf '%s' "$CALL" | mcpmon hook claude-code 2>errors || { [ $? = 2 ] && cat errors; }"#;
    let errors = day.run(script, &[("CALL", call.to_string())])?;
    Ok(match errors.is_empty() {
        true => Outcome::Passes,
        false => Outcome::Refused(errors),
    })
}
