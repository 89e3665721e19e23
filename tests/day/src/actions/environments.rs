//! Switch environments, interpreters and directories.

use anyhow::Result;
use tempfile::Builder;

use super::{CONSOLE, MODULE, NODE, NPM, NPX, PYTHON, SCRIPT, VENV, WORK_TREE};
use crate::{
    action::{
        Action,
        Expectation::{Alerts, Passes, Refused},
        Outcome, Step,
        Step::{Run, Start, Use},
    },
    day::Day,
};

/// Starts the script with an activated environment.
const ACTIVE: Step = Start(
    "env VIRTUAL_ENV=$HOME/other PATH=$HOME/other/bin:$PATH mcpmon wrap --server $NAME -- python3 app/weather.py",
);
const NVM: Step =
    Start("env PATH=$HOME/.nvm/current/bin:$PATH mcpmon wrap --server $NAME -- node app/weather.js");
const PYENV: Step =
    Start("env PATH=$HOME/.pyenv/shims:$PATH mcpmon wrap --server $NAME -- python3 app/weather.py");
const REHASH: &str = r#"mkdir -p .pyenv/shims && printf '#!/bin/sh\nexec /usr/bin/python3 "$@"\n' >.pyenv/shims/new
    chmod +x .pyenv/shims/new && mv .pyenv/shims/new .pyenv/shims/python3"#;

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "activate-another-environment",
        "Activate another environment before a script is started",
        &[
            SCRIPT,
            PYTHON,
            Run("python3 -m venv --without-pip other"),
            ACTIVE,
            PYTHON,
        ],
        Passes,
    )
    .in_slice(),
    Action::new(
        "install-in-active-environment",
        "Install a package in the active environment of a script",
        &[
            SCRIPT,
            Run("python3 -m venv --without-pip other"),
            ACTIVE,
            Run("pip --python other/bin/python install -q packaging idna"),
            ACTIVE,
        ],
        Passes,
    ),
    Action::new(
        "environment-anew",
        "Make the environment again, with pip in it",
        &[
            VENV,
            CONSOLE,
            Run("rm -r .venv && python3 -m venv .venv && .venv/bin/pip install -q $NAME==1.0.0 idna==3.19"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "environment-renamed",
        "Rename the directory of the environment",
        &[
            VENV,
            MODULE,
            Run("mv .venv env"),
            Start("mcpmon wrap --server $NAME -- env/bin/python -m $MODULE"),
        ],
        Passes,
    ),
    Action::new(
        "second-environment",
        "Use the same version in another environment",
        &[
            VENV,
            MODULE,
            Run(
                "python3 -m venv --without-pip two && pip --python two/bin/python install -q $NAME==1.0.0 idna==3.19",
            ),
            Start("mcpmon wrap --server $NAME -- two/bin/python -m $MODULE"),
            MODULE,
        ],
        Passes,
    ),
    Action::new(
        "another-python",
        "Make the environment again with another Python that root installed",
        &[
            VENV,
            MODULE,
            Run(
                r#"for python in /usr/bin/python3.1? /usr/local/bin/python3.1? $(dirname "$(command -v pyenv || echo /none/none)")/../versions/3.1*/bin/python3; do
                if [ -x "$python" ] && ! [ "$python" -ef /usr/bin/python3 ] && "$python" -m venv --without-pip new 2>/dev/null; then
                    rm -r .venv && mv new .venv && exec pip --python .venv/bin/python install -q $NAME==1.0.0 idna==3.19
                fi
            done
            echo 'no other Python is installed'; exit 77"#,
            ),
            MODULE,
        ],
        Alerts,
    ),
    Action::new(
        "system-python-upgrade",
        "Let the distribution upgrade the interpreter",
        &[SCRIPT, Use(system_upgrade)],
        Alerts,
    )
    .in_slice(),
    Action::new(
        "user-python-replaced",
        "Replace an interpreter in your own home",
        &[
            SCRIPT,
            Run("mkdir own && cp /usr/bin/python3 own/python3"),
            Start("mcpmon wrap --server $NAME -- own/python3 app/weather.py"),
            Run("echo >>own/python3"),
            Start("mcpmon wrap --server $NAME -- own/python3 app/weather.py"),
        ],
        Refused(&["python3", "mcpmon "]),
    ),
    Action::new(
        "pyenv-rehash",
        "Let a version manager write its launchers again",
        &[SCRIPT, Run(REHASH), PYENV, Run(REHASH), PYENV],
        Passes,
    ),
    Action::new(
        "nvm-use",
        "Switch the link of a version manager to another directory with the same Node",
        &[
            WORK_TREE,
            Run(
                "for v in v1 v2; do mkdir -p .nvm/$v/bin && ln -s /usr/bin/node .nvm/$v/bin/node; done; ln -s v1 .nvm/current",
            ),
            NVM,
            Run("ln -sfn v2 .nvm/current"),
            NVM,
        ],
        Passes,
    ),
    Action::new(
        "version-manager-adopted",
        "Begin to use a version manager for Node",
        &[
            WORK_TREE,
            NODE,
            Run("mkdir -p .nvm/v1/bin && ln -s /usr/bin/node .nvm/v1/bin/node && ln -s v1 .nvm/current"),
            NVM,
        ],
        Passes,
    ),
    Action::new(
        "symlinked-command",
        "Start the server through a link in `~/bin`",
        &[
            VENV,
            CONSOLE,
            Run("ln -s $HOME/.venv/bin/$NAME bin/weather"),
            Start("mcpmon wrap --server $NAME -- weather"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "module-and-console-script",
        "Start by the console script, and by `python -m`",
        &[VENV, CONSOLE, MODULE, CONSOLE],
        Passes,
    ),
    Action::new(
        "project-renamed",
        "Rename the directory of a Node project",
        &[
            NPM,
            NPX,
            Run("mkdir project && mv package.json package-lock.json node_modules project"),
            Start("mcpmon wrap --server $NAME -- npx --prefix project $NAME"),
        ],
        Passes,
    ),
    Action::new(
        "project-restored",
        "Restore a project from a backup with other times",
        &[
            NPM,
            NPX,
            Run("cp -r node_modules backup && rm -r node_modules && mv backup node_modules"),
            NPX,
        ],
        Passes,
    ),
    Action::new(
        "another-working-directory",
        "Start the client in another directory",
        &[
            SCRIPT,
            Start("mcpmon wrap --server $NAME -- python3 $HOME/app/weather.py"),
            Start("env -C /tmp mcpmon wrap --server $NAME -- python3 $HOME/app/weather.py"),
        ],
        Passes,
    ),
    Action::new(
        "another-time-zone",
        "Travel to another time zone and language",
        &[
            SCRIPT,
            PYTHON,
            Start(
                "env TZ=Asia/Kolkata LANG=de_DE.UTF-8 mcpmon wrap --server $NAME -- python3 app/weather.py",
            ),
        ],
        Passes,
    ),
];

/// Replaces an interpreter that only root can change, as a distribution does.
fn system_upgrade(day: &Day<'_>) -> Result<Outcome> {
    day.needs_root()?;
    // Everyone may write to the parents of temporary directories elsewhere.
    let system = Builder::new().prefix("mcpmon-day-").tempdir_in("/opt")?;
    let variables = [("SYSTEM", system.path().display().to_string())];
    let start = Start("mcpmon wrap --server $NAME -- $SYSTEM/python3 app/weather.py");
    let upgrade =
        Run("cp $SYSTEM/python3 $SYSTEM/new && echo >>$SYSTEM/new && mv $SYSTEM/new $SYSTEM/python3");
    let steps = [Run("cp /usr/bin/python3 $SYSTEM/python3"), start, upgrade, start];
    day.steps(&steps, &variables)
}
