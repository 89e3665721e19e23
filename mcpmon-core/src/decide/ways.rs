//! The files that processes executed on their way to a server. Bounded: any user can start processes.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    inspect::launch::{LaunchRules, Stage},
    model::{Exec, Fork, ProcessId},
};

/// Processes that are remembered; the oldest is forgotten first.
const MAX_PROCESSES: usize = 2048;
/// Files of one process.
const MAX_FILES: usize = 6;
/// Bytes of a path. What is cut leads nowhere, so that a longer one is not taken for nothing.
const MAX_PATH: usize = 1024;
/// Longest line of processes that is climbed.
const MAX_DEPTH: usize = 64;

/// What the latest processes executed.
#[derive(Debug, Default)]
pub(super) struct Ways {
    of: BTreeMap<ProcessId, Way>,
    order: VecDeque<ProcessId>,
}

#[derive(Debug)]
struct Way {
    parent: ProcessId,
    files: Vec<String>,
}

impl Ways {
    /// A process executes.
    pub(super) fn executes(&mut self, exec: &Exec) {
        let file = LaunchRules::executed_file(&exec.argv, &exec.filename);
        let way = self.entry(exec.process, exec.parent);
        let Some(mut file) = file else { return };
        file.truncate(file.floor_char_boundary(MAX_PATH));
        if way.files.len() < MAX_FILES && !way.files.contains(&file) {
            way.files.push(file);
        }
    }

    /// A process started another one.
    pub(super) fn forked(&mut self, fork: Fork) {
        self.entry(fork.process, fork.parent);
    }

    /// What the first process of a launch that executed files executed before `serving`: nothing where that process
    /// serves itself.
    pub(super) fn before(&self, launcher: ProcessId, serving: ProcessId, stage: &Stage) -> Vec<String> {
        let mut line = Vec::new();
        let mut process = Some(serving);
        while let Some(next) = process.filter(|_| line.len() < MAX_DEPTH) {
            line.push(next);
            process = self
                .of
                .get(&next)
                .map(|way| way.parent)
                .filter(|_| next != launcher);
        }
        let first = line.iter().rev().find_map(|process| {
            Some((process, self.of.get(process)?)).filter(|(_, way)| !way.files.is_empty())
        });
        let Some((process, way)) = first else {
            return Vec::new();
        };
        let mut files = way.files.clone();
        if *process == serving {
            match stage {
                Stage::Script { path } | Stage::Shell { script: Some(path) } => {
                    files.retain(|file| file != path)
                }
                Stage::Program | Stage::Container { .. } => drop(files.pop()),
                Stage::Module { .. } | Stage::Launcher | Stage::Shell { script: None } | Stage::Inline => {}
            }
        }
        files
    }

    fn entry(&mut self, process: ProcessId, parent: ProcessId) -> &mut Way {
        if !self.of.contains_key(&process) {
            self.order.push_back(process);
            if self.order.len() > MAX_PROCESSES
                && let Some(oldest) = self.order.pop_front()
            {
                self.of.remove(&oldest);
            }
        }
        let files = Vec::new();
        self.of.entry(process).or_insert(Way { parent, files })
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start: 1 }
    }

    /// What each of these processes executed, by its number, its parent's, the path given to `execve`, and its command.
    type Execs = &'static [(u32, u32, &'static str, &'static str)];

    const NPX: Execs = &[
        (2, 1, "/usr/bin/npx", "/usr/bin/env node /usr/bin/npx -y pkg"),
        (2, 1, "/usr/bin/node", "node /usr/bin/npx -y pkg"),
        (3, 2, "/bin/sh", "sh -c pkg"),
        (4, 3, "/cache/.bin/pkg", "node /cache/.bin/pkg"),
    ];
    const NPX_WRAPPED: Execs = &[
        (2, 1, "/usr/bin/mcpmon", "mcpmon wrap -- npx -y pkg"),
        (3, 2, "/dev/fd/7", "node /usr/bin/npx -y pkg"),
        (4, 3, "/cache/.bin/pkg", "node /cache/.bin/pkg"),
    ];
    const PLANTED_NODE: Execs = &[
        (2, 1, "/usr/bin/npx", "/usr/bin/env node /usr/bin/npx -y pkg"),
        (
            2,
            1,
            "/home/me/bin/node",
            "/bin/sh /home/me/bin/node /usr/bin/npx -y pkg",
        ),
        (2, 1, "/usr/bin/node", "/usr/bin/node /usr/bin/npx -y pkg"),
        (4, 2, "/cache/.bin/pkg", "node /cache/.bin/pkg"),
    ];
    const PLANTED_PYTHON: Execs = &[
        (
            4,
            1,
            "/home/me/bin/python3",
            "/bin/sh /home/me/bin/python3 /srv/server.py",
        ),
        (4, 1, "/usr/bin/python3", "/usr/bin/python3 /srv/server.py"),
    ];
    const DIRECT: Execs = &[(4, 1, "/usr/bin/python3", "python3 /srv/server.py")];
    const UVX: Execs = &[
        (2, 1, "/usr/bin/uvx", "uvx time"),
        (4, 2, "/cache/bin/time", "/cache/bin/python /cache/bin/time"),
    ];

    #[test_case(NPX => "/usr/bin/npx"; "npx")]
    #[test_case(NPX_WRAPPED => "/usr/bin/npx"; "npx behind a wrapper")]
    #[test_case(PLANTED_NODE => "/home/me/bin/node /usr/bin/npx"; "a script in the place of node")]
    #[test_case(PLANTED_PYTHON => "/home/me/bin/python3"; "a script in the place of python")]
    #[test_case(DIRECT => ""; "no launcher")]
    #[test_case(UVX => "/usr/bin/uvx"; "uvx")]
    fn ways(execs: Execs) -> String {
        let mut ways = Ways::default();
        let mut stage = Stage::Inline;
        for (pid, parent, filename, command) in execs {
            let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
            stage = LaunchRules::stage(&argv);
            ways.executes(&Exec {
                process: process(*pid),
                parent: process(*parent),
                filename: (*filename).to_owned(),
                argv,
                ..Exec::default()
            });
        }
        ways.before(process(execs[0].0), process(4), &stage).join(" ")
    }

    #[test]
    fn a_program_of_its_own_has_no_way_and_what_it_becomes_has_one() {
        let mut ways = Ways::default();
        let mut exec = |filename: &str| {
            ways.executes(&Exec {
                process: process(4),
                filename: filename.to_owned(),
                argv: vec![filename.to_owned()],
                ..Exec::default()
            });
            ways.before(process(4), process(4), &Stage::Program)
        };
        assert_eq!(exec("/opt/server"), [""; 0]);
        assert_eq!(exec("/opt/other"), ["/opt/server"]);
    }

    #[test]
    fn no_user_fills_the_memory() {
        let mut ways = Ways::default();
        for pid in 0..5000 {
            ways.executes(&Exec {
                process: process(pid),
                filename: "/x".repeat(2000),
                argv: vec!["x".to_owned()],
                ..Exec::default()
            });
        }
        assert_eq!((ways.of.len(), ways.order.len()), (MAX_PROCESSES, MAX_PROCESSES));
        assert!(
            ways.of
                .values()
                .all(|way| way.files.iter().all(|file| file.len() <= MAX_PATH))
        );
    }
}
