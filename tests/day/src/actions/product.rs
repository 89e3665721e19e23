//! mcpmon itself: upgrades, shims, `run`, `setup`, its policy and its store.

use super::{NODE, NPM, NPX, PYTHON, PYTHON_LINE, SCRIPT, WORK_TREE};
use crate::action::{
    Action,
    Expectation::{Passes, Refused},
    Step,
    Step::{During, Run, Start},
};

/// Puts a copy of mcpmon in the place of a link, so that it can be upgraded.
const INSTALL: Step = Run("cp --remove-destination $(readlink bin/mcpmon) bin/mcpmon");
/// Replaces mcpmon by a version with other bytes.
const UPGRADE: Step = Run("cp bin/mcpmon bin/new && echo >>bin/new && mv bin/new bin/mcpmon");
const SHIMS: Step = Run("mcpmon shim install --dir $HOME/shims");
const SHIMMED: Step = Start("env PATH=$HOME/shims:$PATH npx $NAME");
/// Starts an agent of `mcpmon run`, which starts the server as its client file names it.
const AGENT: Step = Start("mcpmon run -- sh -c 'npx $NAME; exit'");
const AGENT_WRAPPED: Step = Start("mcpmon run -- sh -c 'mcpmon wrap --server $NAME -- npx $NAME; exit'");
/// A client with the server in its file.
const CURSOR: Step = Run(
    r#"mkdir .cursor && printf '{"mcpServers": {"%s": {"command": "python3", "args": ["%s/app/weather.py"]}}}' $NAME $HOME >.cursor/mcp.json"#,
);
/// Starts the server by the command in the client's file.
const BY_FILE: Step = Start(
    r#"$(python3 -c "import json; s = json.load(open('.cursor/mcp.json'))['mcpServers']['$NAME']; print(s['command'], *s['args'])")"#,
);
const TYPO: Step = Run("mkdir -p .config/mcpmon && echo 'blocked_tool: [x]' >>.config/mcpmon/mcpmon.yaml");

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "mcpmon-upgrade",
        "Upgrade mcpmon in its place",
        &[SCRIPT, INSTALL, PYTHON, UPGRADE, PYTHON],
        Passes,
    )
    .in_slice(),
    Action::new(
        "mcpmon-upgrade-while-in-use",
        "Upgrade mcpmon while a server is in use",
        &[SCRIPT, INSTALL, During(PYTHON_LINE, &[UPGRADE]), PYTHON],
        Passes,
    ),
    Action::new(
        "mcpmon-moved",
        "Move mcpmon to another directory",
        &[
            SCRIPT,
            INSTALL,
            PYTHON,
            Run("mkdir -p .local/bin && mv bin/mcpmon .local/bin/"),
            Start("env PATH=$HOME/.local/bin:$PATH mcpmon wrap --server $NAME -- python3 app/weather.py"),
        ],
        Passes,
    ),
    Action::new(
        "shims-anew",
        "Install the shims again",
        &[
            NPM,
            SHIMS,
            SHIMMED,
            Run("mcpmon shim remove --dir $HOME/shims"),
            SHIMS,
            SHIMMED,
        ],
        Passes,
    )
    .in_slice(),
    Action::new(
        "shims-of-an-upgraded-mcpmon",
        "Upgrade mcpmon behind its shims",
        &[NPM, INSTALL, SHIMS, SHIMMED, UPGRADE, SHIMS, SHIMMED],
        Passes,
    ),
    Action::new(
        "wrap-then-run",
        "Start the agent by `mcpmon run` after its server was wrapped",
        &[NPM, NPX, AGENT_WRAPPED, NPX],
        Passes,
    )
    .in_slice(),
    Action::new(
        "run-twice",
        "Start the agent by `mcpmon run` twice",
        &[NPM, AGENT, AGENT],
        Passes,
    ),
    Action::new(
        "setup-and-back",
        "Run `mcpmon setup`, and take it back",
        &[
            SCRIPT,
            CURSOR,
            BY_FILE,
            Run("mcpmon setup --yes --client cursor"),
            BY_FILE,
            Run("mcpmon setup --yes --client cursor"),
            BY_FILE,
            Run("mcpmon setup --disable --yes --client cursor"),
            BY_FILE,
        ],
        Passes,
    ),
    Action::new(
        "policy-typo",
        "Make a mistake in your policy",
        &[SCRIPT, PYTHON, TYPO, PYTHON],
        Refused(&["policy", "mcpmon.yaml", "blocked_tool"]),
    )
    .with_daemon(Passes)
    .in_slice(),
    Action::new(
        "policy-typo-while-in-use",
        "Make a mistake in your policy while a server is in use",
        &[SCRIPT, During(PYTHON_LINE, &[TYPO, Run("sleep 3")])],
        Passes,
    ),
    Action::new(
        "policy-edited",
        "Edit your policy while a server is in use",
        &[
            WORK_TREE,
            NODE,
            During(
                "mcpmon wrap --server $NAME -- node app/weather.js",
                &[Run(
                    "mkdir -p .config/mcpmon && printf 'version: 1\nmcp: {blocked_tools: [forbidden, other]}\n' >.config/mcpmon/mcpmon.yaml",
                )],
            ),
            NODE,
        ],
        Passes,
    ),
    Action::new(
        "store-removed",
        "Remove the store of mcpmon",
        &[SCRIPT, PYTHON, Run("rm -rf .local/state/mcpmon"), PYTHON],
        Passes,
    ),
    Action::new(
        "pins-reset",
        "Forget the pins of the server after an edit",
        &[
            SCRIPT,
            PYTHON,
            Run("echo '# a note' >>app/weather.py && mcpmon pins reset --server $NAME"),
            PYTHON,
        ],
        Passes,
    ),
    Action::new(
        "sandboxed",
        "Start the server in a sandbox, after it ran without one",
        &[
            SCRIPT,
            PYTHON,
            Start("mcpmon wrap --server $NAME --sandbox -- python3 app/weather.py"),
            PYTHON,
        ],
        Passes,
    ),
];
