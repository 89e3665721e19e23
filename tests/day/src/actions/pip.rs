//! Install, upgrade and remove packages by pip, in the environment of a server.

use super::{CONSOLE, MODULE, PUBLISH, TRUST, TRY_MODULE, UPDATED, VENV};
use crate::action::{
    Action,
    Expectation::{Alerts, Answered, Passes, Refused},
    Step::Run,
};

const UPGRADE: &str = "pip --python .venv/bin/python install -q $NAME==1.1.0";

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "pip-unrelated-install",
        "Install an unrelated package",
        &[
            VENV,
            CONSOLE,
            Run("pip --python .venv/bin/python install -q iniconfig"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "pip-unrelated-upgrade",
        "Upgrade an unrelated package",
        &[
            VENV,
            Run("pip --python .venv/bin/python install -q packaging==26.3"),
            MODULE,
            Run("pip --python .venv/bin/python install -q -U packaging"),
            MODULE,
        ],
        Passes,
    ),
    Action::new(
        "pip-unrelated-remove",
        "Remove an unrelated package",
        &[
            VENV,
            Run("pip --python .venv/bin/python install -q iniconfig packaging"),
            CONSOLE,
            Run("pip --python .venv/bin/python uninstall -q -y iniconfig packaging"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "pip-upgrades-itself",
        "Install pip in the environment, and let it install a package",
        &[
            VENV,
            CONSOLE,
            Run("pip --python .venv/bin/python install -q pip && .venv/bin/pip install -q packaging"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "pip-dependency-upgrade",
        "Upgrade a dependency of the server",
        &[
            VENV,
            CONSOLE,
            Run("pip --python .venv/bin/python install -q -U idna"),
            CONSOLE,
        ],
        Alerts,
    )
    .in_slice(),
    Action::new(
        "pip-dependency-downgrade",
        "Upgrade a dependency of the server, and go back",
        &[
            VENV,
            CONSOLE,
            Run("pip --python .venv/bin/python install -q -U idna"),
            Run("pip --python .venv/bin/python install -q idna==3.19"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "pip-server-upgrade",
        "Upgrade the server",
        &[VENV, CONSOLE, PUBLISH, Run(UPGRADE), CONSOLE],
        Refused(UPDATED),
    ),
    Action::new(
        "pip-server-upgrade-accepted",
        "Upgrade the server, and accept it with `mcpmon pins trust`",
        &[VENV, MODULE, PUBLISH, Run(UPGRADE), TRY_MODULE, TRUST, MODULE],
        Passes,
    ),
    Action::new(
        "pip-server-reinstall",
        "Reinstall the same version of the server",
        &[
            VENV,
            CONSOLE,
            Run("pip --python .venv/bin/python install -q --force-reinstall --no-deps $NAME==1.0.0"),
            CONSOLE,
        ],
        Passes,
    ),
    Action::new(
        "pip-server-remove-and-install",
        "Remove the server, and install it again",
        &[
            VENV,
            MODULE,
            Run("pip --python .venv/bin/python uninstall -q -y $NAME idna"),
            Run("pip --python .venv/bin/python install -q $NAME==1.0.0 idna==3.19"),
            MODULE,
        ],
        Passes,
    ),
    Action::new(
        "pip-server-remove",
        "Remove the server, and leave it in the client's configuration",
        &[
            VENV,
            CONSOLE,
            Run("pip --python .venv/bin/python uninstall -q -y $NAME"),
            CONSOLE,
        ],
        Answered(&["could not be started", "No such file"]),
    ),
    Action::new(
        "pip-patched-by-hand",
        "Patch an installed package by hand",
        &[
            VENV,
            CONSOLE,
            Run("echo '# patched' >>$(echo .venv/lib/python3*/site-packages/$MODULE/server.py)"),
            CONSOLE,
        ],
        Refused(&["server.py", "mcpmon "]),
    ),
    Action::new(
        "pip-bytecode",
        "Remove and compile the bytecode of all packages",
        &[
            VENV,
            CONSOLE,
            Run(
                "find .venv -name __pycache__ -prune -exec rm -r '{}' + && .venv/bin/python -m compileall -q .venv/lib",
            ),
            CONSOLE,
        ],
        Passes,
    ),
];
