//! Install, upgrade and remove packages by uv.

use super::{CONSOLE, MODULE, PUBLISH, TRUST, TRY_CONSOLE, UPDATED, VENV};
use crate::action::{
    Action,
    Expectation::{Alerts, Passes, Refused},
    Step,
    Step::{Run, Start},
};

const UV: Step = Run("uv venv -q .venv && uv pip install -q $NAME==1.0.0 idna==3.19");
const UVX: Step = Start("mcpmon wrap --server $NAME -- uvx -q $NAME@latest");
/// A project of uv with a server in it.
const PROJECT: Step = Run(
    r#"mkdir app && { echo 'import idna'; cat $SERVER_PY; } >app/weather.py
    printf '[project]\nname = "weather"\nversion = "1.0.0"\nrequires-python = ">=3.10"\ndependencies = ["idna"]\n' >app/pyproject.toml
    uv sync -q --project app"#,
);
const UV_RUN: Step = Start("mcpmon wrap --server $NAME -- uv run -q --project app app/weather.py");
const TOOL: Step = Start("mcpmon wrap --server $NAME -- $HOME/.local/bin/$NAME");

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "uv-unrelated-install",
        "Install an unrelated package",
        &[UV, CONSOLE, Run("uv pip install -q packaging"), CONSOLE],
        Passes,
    )
    .in_slice(),
    Action::new(
        "uv-unrelated-remove",
        "Remove an unrelated package",
        &[
            UV,
            Run("uv pip install -q packaging"),
            MODULE,
            Run("uv pip uninstall -q packaging"),
            MODULE,
        ],
        Passes,
    ),
    Action::new(
        "uv-dependency-upgrade",
        "Upgrade a dependency of the server",
        &[UV, CONSOLE, Run("uv pip install -q -U idna"), CONSOLE],
        Alerts,
    ),
    Action::new(
        "uv-server-upgrade",
        "Upgrade the server",
        &[UV, MODULE, PUBLISH, Run("uv pip install -q $NAME==1.1.0"), MODULE],
        Refused(UPDATED),
    )
    .in_slice(),
    Action::new(
        "uv-server-upgrade-accepted",
        "Upgrade the server, and accept it with `mcpmon pins trust`",
        &[
            UV,
            CONSOLE,
            PUBLISH,
            Run("uv pip install -q $NAME==1.1.0"),
            TRY_CONSOLE,
            TRUST,
            CONSOLE,
        ],
        Passes,
    )
    .in_slice(),
    Action::new(
        "uv-after-pip",
        "Reinstall with uv what pip installed",
        &[
            VENV,
            MODULE,
            Run("uv pip install -q --reinstall $NAME==1.0.0 idna==3.19"),
            MODULE,
        ],
        Passes,
    ),
    Action::new(
        "uv-environment-anew",
        "Make the environment again",
        &[
            UV,
            CONSOLE,
            Run("rm -r .venv; uv venv -q .venv && uv pip install -q $NAME==1.0.0 idna==3.19"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "uvx-cache-cleared",
        "Start by uvx, clear the cache, and start again",
        &[UVX, Run("uv cache clean -q"), UVX],
        Passes,
    ),
    Action::new(
        "uvx-latest",
        "Start the latest version by uvx after a release",
        &[UVX, PUBLISH, UVX],
        Refused(UPDATED),
    ),
    Action::new(
        "uvx-and-pip",
        "Start by uvx in one client, and from an environment of pip in another",
        &[
            Run("python3 -m venv --without-pip .venv && pip --python .venv/bin/python install -q $NAME"),
            UVX,
            CONSOLE,
            UVX,
        ],
        Passes,
    ),
    Action::new(
        "uv-project-add",
        "Add an unrelated package to the project of a server",
        &[PROJECT, UV_RUN, Run("uv add -q --project app iniconfig"), UV_RUN],
        Passes,
    ),
    Action::new(
        "uv-tool-reinstall",
        "Install the server as a tool, and reinstall it",
        &[
            Run("uv tool install -q $NAME==1.0.0"),
            TOOL,
            Run("uv tool install -q --reinstall $NAME==1.0.0"),
            TOOL,
        ],
        Passes,
    ),
];
