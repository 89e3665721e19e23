//! Work on one's own servers: edit, format, rebase.

use super::{NODE, PYTHON, SCRIPT, WORK_TREE};
use crate::action::{
    Action,
    Expectation::{Alerts, Passes, Refused, Serves},
    Step,
    Step::{Run, Start},
};

const EDIT: Step = Run("sed -i 's/as small as one gets/edited/' app/weather.py");
/// The environment has the user's work tree installed.
const EDITABLE: Step = Run(
    r#"printf '[project]\nname = "%s"\nversion = "1.0.0"\n[project.scripts]\n%s = "weather:main"\n[tool.setuptools]\npy-modules = ["weather"]\n' $NAME $NAME >app/pyproject.toml
    uv venv -q .venv && uv pip install -q -e ./app"#,
);
const IMPORTING: Step = Run(
    "{ echo 'import towns'; cat $SERVER_PY; } >app/weather.py && echo 'TOWNS = []' >app/towns.py && cd app && git add . && git commit -qm two",
);

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "edit-in-work-tree",
        "Edit the server in a git work tree",
        &[WORK_TREE, PYTHON, EDIT, PYTHON],
        Alerts,
    )
    .in_slice(),
    Action::new(
        "edit-and-commit",
        "Edit the server, commit it, and start it twice",
        &[WORK_TREE, PYTHON, EDIT, Run("git -C app commit -qam two"), PYTHON, PYTHON],
        Serves,
    ),
    Action::new(
        "edit-outside-work-tree",
        "Edit the server outside a work tree",
        &[SCRIPT, PYTHON, EDIT, PYTHON],
        Refused(&["weather.py", "mcpmon "]),
    )
    .in_slice(),
    Action::new(
        "edit-node-in-work-tree",
        "Edit a JavaScript server in a git work tree",
        &[WORK_TREE, NODE, Run("sed -i 's/as small as one gets/edited/' app/weather.js"), NODE],
        Alerts,
    ),
    Action::new(
        "edit-imported-module",
        "Edit a module that the server imports",
        &[WORK_TREE, IMPORTING, PYTHON, Run("echo '# a note' >>app/towns.py"), PYTHON],
        Alerts,
    ),
    Action::new(
        "edit-installed-as-editable",
        "Edit a server that is installed as editable",
        &[
            WORK_TREE,
            EDITABLE,
            Start("mcpmon wrap --server $NAME -- .venv/bin/$NAME"),
            EDIT,
            Start("mcpmon wrap --server $NAME -- .venv/bin/$NAME"),
        ],
        Alerts,
    ),
    Action::new(
        "add-a-file",
        "Add a file beside the script",
        &[SCRIPT, PYTHON, Run("echo 'TOWNS = []' >app/towns.py && echo Read >app/README"), PYTHON],
        Passes,
    )
    .in_slice(),
    Action::new(
        "add-a-directory",
        "Add a directory with tests beside the script",
        &[WORK_TREE, PYTHON, Run("mkdir app/tests && echo 'import weather' >app/tests/test_weather.py"), PYTHON],
        Passes,
    ),
    Action::new(
        "touch",
        "Save the server without a change",
        &[SCRIPT, PYTHON, Run("cp app/weather.py app/.new && mv app/.new app/weather.py && touch app/weather.py"), PYTHON],
        Passes,
    ),
    Action::new(
        "permissions",
        "Make the server executable",
        &[SCRIPT, PYTHON, Run("chmod 755 app/weather.py"), PYTHON],
        Passes,
    ),
    Action::new(
        "format-python",
        "Format the server with ruff",
        &[WORK_TREE, PYTHON, Run("ruff format -q app"), PYTHON],
        Alerts,
    )
    .in_slice(),
    Action::new(
        "format-javascript",
        "Format the server with prettier",
        &[WORK_TREE, NODE, Run("prettier --log-level error --tab-width 4 --write app/weather.js"), NODE],
        Alerts,
    ),
    Action::new(
        "git-rebase",
        "Rebase a branch on a change of the server",
        &[
            WORK_TREE,
            Run("cd app && git switch -qc topic && echo More >>README && git commit -qam topic"),
            PYTHON,
            Run("cd app && git switch -q main && echo '# a note' >>weather.py && git commit -qam main && git switch -q topic && git rebase -q main"),
            PYTHON,
        ],
        Alerts,
    )
    .in_slice(),
    Action::new(
        "git-stash",
        "Edit the server, and stash the change",
        &[WORK_TREE, PYTHON, EDIT, Run("git -C app stash -q"), PYTHON],
        Passes,
    )
    .in_slice(),
    Action::new(
        "git-checkout",
        "Check out a branch with another version of the server",
        &[
            WORK_TREE,
            Run("cd app && git switch -qc topic && echo '# a note' >>weather.py && git commit -qam topic && git switch -q main"),
            PYTHON,
            Run("git -C app switch -q topic"),
            PYTHON,
        ],
        Alerts,
    ),
    Action::new(
        "git-checkout-and-back",
        "Check out another branch, and come back",
        &[
            WORK_TREE,
            Run("cd app && git switch -qc topic && echo '# a note' >>weather.py && git commit -qam topic && git switch -q main"),
            PYTHON,
            Run("git -C app switch -q topic && git -C app switch -q main"),
            PYTHON,
        ],
        Passes,
    ),
    Action::new(
        "git-pull",
        "Pull a change that does not affect the server",
        &[
            Run("git init -q origin && cp $SERVER_PY origin/weather.py && cd origin && git add . && git commit -qm one && git clone -q . ../app"),
            PYTHON,
            Run("cd origin && echo Weather >README && git add . && git commit -qm two && git -C ../app pull -q"),
            PYTHON,
        ],
        Passes,
    ),
    Action::new(
        "git-mv",
        "Rename the server, and its path in the client",
        &[
            WORK_TREE,
            PYTHON,
            Run("cd app && git mv weather.py forecast.py && git commit -qm two"),
            Start("mcpmon wrap --server $NAME -- python3 app/forecast.py"),
        ],
        Passes,
    ),
    Action::new(
        "git-clone-anew",
        "Clone the work tree again in the same place",
        &[
            Run("git init -q origin && cp $SERVER_PY origin/weather.py && cd origin && git add . && git commit -qm one && git clone -q . ../app"),
            PYTHON,
            Run("rm -rf app && git clone -q origin app"),
            PYTHON,
        ],
        Passes,
    ),
    Action::new(
        "build-anew",
        "Build a server again with the same result",
        &[
            Run("mkdir -p app/dist && cp $SERVER_JS app/dist/weather.js"),
            Start("mcpmon wrap --server $NAME -- node app/dist/weather.js"),
            Run("rm -r app/dist && mkdir app/dist && cp $SERVER_JS app/dist/weather.js"),
            Start("mcpmon wrap --server $NAME -- node app/dist/weather.js"),
        ],
        Passes,
    ),
];
