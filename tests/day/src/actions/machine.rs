//! The machine: sleep, clock, disks, users and containers.

use std::fs;

use anyhow::Result;
use mcpmon_e2e::disk::{self, Disk};

use super::{PYTHON, PYTHON_LINE, SCRIPT};
use crate::{
    action::{
        Action,
        Expectation::Passes,
        Outcome, Step,
        Step::{During, Run, Start, Use},
    },
    day::Day,
};

const ROOT: Step = Run(r#"[ "$(id -u)" = 0 ] || { echo 'it needs root'; exit 77; }"#);
/// A home of another user, with mcpmon where that user can execute it.
const ANOTHER_HOME: Step = Run(
    "chmod 755 .. . && install -D -m 755 $(readlink bin/mcpmon) bin-of-all/mcpmon && mkdir other && cp -r .config app other/ && chown -R 65534:65534 other",
);
const ANOTHER_USER: Step = Start(
    "env -C $HOME/other HOME=$HOME/other PATH=$HOME/bin-of-all:$PATH setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'exec mcpmon wrap --server $NAME -- python3 app/weather.py'",
);

pub(super) const ACTIONS: &[Action] = &[
    Action::new(
        "sleep",
        "Let the machine sleep while a server is in use",
        &[
            SCRIPT,
            During(PYTHON_LINE, &[Run(
                r#"below() { for child in $(cat "/proc/$1/task/$1/children"); do echo "$child"; below "$child"; done; }
                all="$CLIENT $(below $CLIENT)"; kill -STOP $all; sleep 2; kill -CONT $all"#,
            )]),
            PYTHON,
        ],
        Passes,
    )
    .in_slice(),
    Action::new(
        "suspended-clock",
        "Start the server with a clock that went on for a day of sleep",
        &[
            ROOT,
            SCRIPT,
            PYTHON,
            Start("unshare --time --boottime 86400 --monotonic 86400 --fork mcpmon wrap --server $NAME -- python3 app/weather.py"),
        ],
        Passes,
    ),
    Action::new(
        "clock-change",
        "Change the wall clock",
        &[Run("echo 'the wall clock belongs to all programs of this machine; time namespaces do not have it'; exit 77")],
        Passes,
    ),
    Action::new(
        "files-from-the-future",
        "Restore files with times in the future",
        &[SCRIPT, PYTHON, Run("touch -d '+2 days' app/weather.py app"), PYTHON],
        Passes,
    ),
    Action::new(
        "disk-full",
        "Fill the disk with the store",
        &[SCRIPT, Use(|day| on_disk(day, &[PYTHON], Disk::fill))],
        Passes,
    )
    .in_slice(),
    Action::new(
        "disk-full-at-first",
        "Start a server for the first time while the disk is full",
        &[SCRIPT, Use(|day| on_disk(day, &[], Disk::fill))],
        Passes,
    ),
    Action::new(
        "disk-full-while-in-use",
        "Fill the disk, and make room again, while a server is in use",
        &[
            SCRIPT,
            Use(|day| {
                on_disk(
                    day,
                    &[During(PYTHON_LINE, &[Run(
                        "dd if=/dev/zero of=.local/state/mcpmon/filler bs=4k 2>/dev/null || true",
                    )])],
                    |_| Ok(fs::remove_file(day.path(".local/state/mcpmon/filler"))?),
                )
            }),
        ],
        Passes,
    ),
    Action::new(
        "disk-read-only",
        "Mount the disk with the store read-only",
        &[SCRIPT, Use(|day| on_disk(day, &[PYTHON], |disk| disk.set_read_only(true)))],
        Passes,
    ),
    Action::new(
        "temporary-files-removed",
        "Remove all caches and temporary files",
        &[SCRIPT, PYTHON, Run("rm -rf .cache .npm tmp app/__pycache__"), PYTHON],
        Passes,
    ),
    Action::new(
        "another-user",
        "Use the server as another user",
        &[ROOT, SCRIPT, ANOTHER_HOME, ANOTHER_USER, ANOTHER_USER],
        Passes,
    )
    .in_slice(),
    Action::new(
        "two-users",
        "Use the same server as two users by turns",
        &[ROOT, SCRIPT, PYTHON, ANOTHER_HOME, ANOTHER_USER, PYTHON, ANOTHER_USER],
        Passes,
    ),
    Action::new(
        "mount-namespace",
        "Use the server in a mount namespace",
        &[
            ROOT,
            SCRIPT,
            PYTHON,
            Start("unshare --mount mcpmon wrap --server $NAME -- python3 app/weather.py"),
        ],
        Passes,
    ),
    Action::new(
        "process-namespace",
        "Use the server with processes of its own, as in a container",
        &[
            ROOT,
            SCRIPT,
            PYTHON,
            Start("unshare --mount --pid --fork --mount-proc mcpmon wrap --server $NAME -- python3 app/weather.py"),
            PYTHON,
        ],
        Passes,
    )
    .in_slice(),
    Action::new(
        "user-namespace",
        "Use the server in a user namespace, as in a container without root",
        &[
            SCRIPT,
            PYTHON,
            Run("unshare --user --map-root-user true 2>/dev/null || { echo 'user namespaces are not allowed'; exit 77; }"),
            Start("unshare --user --map-root-user --mount mcpmon wrap --server $NAME -- python3 app/weather.py"),
        ],
        Passes,
    ),
];

/// Performs steps with the store on a small disk, changes the disk, and starts the server.
fn on_disk(
    day: &Day<'_>,
    before: &[Step],
    change: impl FnOnce(&Disk) -> Result<()> + Send,
) -> Result<Outcome> {
    day.needs_root()?;
    let directory = day.path(".local/state/mcpmon");
    fs::create_dir_all(&directory)?;
    disk::with(&directory, "16m", |disk| {
        let outcome = day.steps(before, &[])?;
        if outcome != Outcome::Passes {
            return Ok(outcome);
        }
        change(disk)?;
        day.steps(&[PYTHON], &[])
    })
}
