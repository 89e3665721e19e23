//! Install, upgrade and remove packages by npm.

use super::{NPM, NPX, PUBLISH, TRUST, TRY_NPX, UPDATED};
use crate::action::{
    Action,
    Expectation::{Alerts, Passes, Refused},
    Step,
    Step::{Run, Start},
};

const NPX_Y: Step = Start("mcpmon wrap --server $NAME -- npx -y $NAME@latest");
const GLOBAL: Step = Start("mcpmon wrap --server $NAME -- $HOME/.npm-global/bin/$NAME");

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "npm-unrelated-install",
        "Install an unrelated package",
        &[NPM, NPX, Run("npm install -s semver"), NPX],
        Passes,
    ),
    Action::new(
        "npm-unrelated-upgrade",
        "Upgrade an unrelated package",
        &[
            NPM,
            Run("npm install -s semver@7.8.5"),
            NPX,
            Run("npm install -s semver@7.8.6"),
            NPX,
        ],
        Passes,
    ),
    Action::new(
        "npm-unrelated-remove",
        "Remove an unrelated package",
        &[
            NPM,
            Run("npm install -s semver"),
            NPX,
            Run("npm uninstall -s semver"),
            NPX,
        ],
        Passes,
    ),
    Action::new(
        "npm-dependency-upgrade",
        "Upgrade a dependency of the server",
        &[NPM, NPX, Run("npm install -s ms@2.1.3"), NPX],
        Alerts,
    ),
    Action::new(
        "npm-server-upgrade",
        "Upgrade the server",
        &[NPM, NPX, PUBLISH, Run("npm install -s $NAME@1.1.0"), NPX],
        Refused(UPDATED),
    )
    .in_slice(),
    Action::new(
        "npm-server-upgrade-accepted",
        "Upgrade the server, and accept it with `mcpmon pins trust`",
        &[
            NPM,
            NPX,
            PUBLISH,
            Run("npm install -s $NAME@1.1.0"),
            TRY_NPX,
            TRUST,
            NPX,
        ],
        Passes,
    ),
    Action::new(
        "npm-server-and-back",
        "Upgrade the server, and go back before it is started",
        &[
            NPM,
            NPX,
            PUBLISH,
            Run("npm install -s $NAME@1.1.0 && npm install -s $NAME@1.0.0"),
            NPX,
        ],
        Passes,
    ),
    Action::new(
        "npm-ci",
        "Install all packages again from the lock file",
        &[NPM, NPX, Run("npm ci -s"), NPX],
        Passes,
    ),
    Action::new(
        "npm-modules-removed",
        "Remove `node_modules`, and install again",
        &[NPM, NPX, Run("rm -r node_modules && npm install -s"), NPX],
        Passes,
    ),
    Action::new(
        "npm-prune",
        "Prune and deduplicate the packages",
        &[NPM, NPX, Run("npm prune -s && npm dedupe -s"), NPX],
        Passes,
    ),
    Action::new(
        "npx-cache-cleared",
        "Start by `npx -y`, clear its cache, and start again",
        &[NPX_Y, Run("rm -r .npm"), NPX_Y],
        Passes,
    ),
    Action::new(
        "npx-latest",
        "Start the latest version by `npx -y` after a release",
        &[NPX_Y, PUBLISH, NPX_Y],
        Refused(UPDATED),
    ),
    Action::new(
        "npm-global-install",
        "Install an unrelated package globally",
        &[
            Run("npm install -s -g --prefix .npm-global $NAME@1.0.0"),
            GLOBAL,
            Run("npm install -s -g --prefix .npm-global semver"),
            GLOBAL,
        ],
        Passes,
    ),
    Action::new(
        "npm-started-in-three-ways",
        "Start by npx, by the command and by the script",
        &[
            NPM,
            NPX,
            Start("mcpmon wrap --server $NAME -- node_modules/.bin/$NAME"),
            Start("mcpmon wrap --server $NAME -- node node_modules/$NAME/index.js"),
            NPX,
        ],
        Passes,
    ),
    Action::new(
        "npm-patched-by-hand",
        "Patch an installed package by hand",
        &[
            NPM,
            NPX,
            Run("echo '// patched' >>node_modules/$NAME/index.js"),
            NPX,
        ],
        Refused(&["index.js", "mcpmon "]),
    ),
];
