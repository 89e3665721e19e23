//! The actions, a file for each group, and the parts that several groups have.

mod clients;
mod environments;
mod machine;
mod npm;
mod pip;
mod product;
mod sources;
mod uv;

use anyhow::Result;

use crate::{
    action::{Action, Outcome, Step},
    day::Day,
};

/// Makes an environment with the server, by venv and pip.
const VENV: Step = Step::Run(
    "python3 -m venv --without-pip .venv && pip --python .venv/bin/python install -q $NAME==1.0.0 idna==3.19",
);
/// Starts the server by its console script.
const CONSOLE: Step = Step::Start(CONSOLE_LINE);
const CONSOLE_LINE: &str = "mcpmon wrap --server $NAME -- $HOME/.venv/bin/$NAME";
const TRY_CONSOLE: Step = Step::Try(CONSOLE_LINE);
/// Starts the server by its module.
const MODULE: Step = Step::Start(MODULE_LINE);
const TRY_MODULE: Step = Step::Try(MODULE_LINE);
const MODULE_LINE: &str = "mcpmon wrap --server $NAME -- .venv/bin/python -m $MODULE";
/// Installs the server in a project, by npm.
const NPM: Step = Step::Run(
    r#"echo '{"name": "app", "private": true}' >package.json && npm install -s $NAME@1.0.0 ms@2.1.2"#,
);
/// Starts the server of the project by npx.
const NPX: Step = Step::Start(NPX_LINE);
const TRY_NPX: Step = Step::Try(NPX_LINE);
const NPX_LINE: &str = "mcpmon wrap --server $NAME -- npx $NAME";
/// Writes a server of the user's own, in no work tree.
const SCRIPT: Step = Step::Run("mkdir app && cp $SERVER_PY app/weather.py");
/// Writes a server of the user's own, in a git work tree.
const WORK_TREE: Step = Step::Run(
    "git init -q app && cp $SERVER_PY app/weather.py && cp $SERVER_JS app/weather.js && echo Weather >app/README && cd app && git add . && git commit -qm one",
);
/// Starts that server.
const PYTHON: Step = Step::Start(PYTHON_LINE);
const PYTHON_LINE: &str = "mcpmon wrap --server $NAME -- python3 app/weather.py";
/// Starts that server, written in JavaScript.
const NODE: Step = Step::Start("mcpmon wrap --server $NAME -- node app/weather.js");
/// Publishes the next version of the server.
const PUBLISH: Step = Step::Use(publish);
/// Accepts the changed files of the server, after it was tried.
const TRUST: Step = Step::Run("mcpmon pins trust --server $NAME");
/// The refusal of an update of the server's package.
const UPDATED: &[&str] = &["1.0.0", "1.1.0", "mcpmon "];

fn publish(day: &Day<'_>) -> Result<Outcome> {
    day.publish("1.1.0").map(|()| Outcome::Passes)
}

/// Returns the groups of actions.
#[must_use]
pub fn groups() -> [(&'static str, &'static [Action]); 8] {
    [
        ("Packages by pip", pip::ACTIONS),
        ("Packages by uv", uv::ACTIONS),
        ("Packages by npm", npm::ACTIONS),
        ("Environments", environments::ACTIONS),
        ("Your own servers", sources::ACTIONS),
        ("Clients and sessions", clients::ACTIONS),
        ("mcpmon", product::ACTIONS),
        ("The machine", machine::ACTIONS),
    ]
}

/// Returns all actions.
pub fn all() -> impl Iterator<Item = Action> {
    groups().into_iter().flat_map(|(_, actions)| actions).copied()
}
