//! Files that processes executed before a server serves. Their number is bounded, because any user can start processes.

use std::collections::{BTreeMap, VecDeque};

use mcpmon_detect::launch::{LaunchRules, Stage};
use mcpmon_model::{Exec, Fork, ProcessId};

use crate::chain::{ScriptChain, shortened};

/// Most processes that are remembered. Those that ended are forgotten first.
const MAX_PROCESSES: usize = 4096;
/// The number from which the caller has to look for ended processes: the end of most processes is not reported.
const CROWDED: usize = MAX_PROCESSES / 2;
/// Most files of one process.
const MAX_FILES: usize = 6;
/// Longest path, bytes. A path that is cut leads to no file, so a longer one is not taken for another file.
const MAX_PATH: usize = 1024;
/// Most ancestors that are followed.
const MAX_DEPTH: usize = 64;

/// The files that processes executed recently.
#[derive(Debug, Default)]
pub(super) struct ExecPaths {
    of: BTreeMap<ProcessId, ExecPath>,
    /// Processes that may live, and some that have ended; those checked longest ago come first.
    living: VecDeque<ProcessId>,
    /// Processes that have ended, in that order: what they started may still become a server.
    ended: VecDeque<ProcessId>,
    /// Start time of the youngest forgotten process.
    forgotten: Option<u64>,
}

#[derive(Debug)]
struct ExecPath {
    parent: ProcessId,
    files: Vec<ExecutedFile>,
    /// The script that the process executed last, and the scripts that interpret it.
    chain: Option<(String, Vec<String>)>,
    has_ended: bool,
    /// True if the process may have executed more files, which were forgotten.
    is_partial: bool,
}

/// A file that a process executed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ExecutedFile {
    /// Its path as the process gave it.
    given: String,
    /// The absolute path, if the working directory is known.
    path: String,
}

impl ExecutedFile {
    fn new(mut given: String, directory: Option<&str>) -> Self {
        let mut path = match directory {
            Some(directory) if !given.starts_with('/') => format!("{directory}/{given}"),
            Some(_) | None => given.clone(),
        };
        for text in [&mut given, &mut path] {
            text.truncate(text.floor_char_boundary(MAX_PATH));
        }
        Self { given, path }
    }
}

/// The error that a process which led to a server was forgotten, because too many others were started meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WayForgotten;

impl ExecPaths {
    /// Returns the chain of scripts that a process executes: of this exec or, if `env` came between, of an earlier one.
    pub(super) fn chain(&self, exec: &Exec) -> Option<ScriptChain> {
        let again = || {
            let (script, interpreters) = self.of.get(&exec.process)?.chain.as_ref()?;
            ScriptChain::again(script, interpreters, exec)
        };
        ScriptChain::of(exec).or_else(again)
    }

    /// Notes that a process executes a file.
    pub(super) fn executes(&mut self, exec: &Exec, chain: Option<&ScriptChain>) {
        let file = LaunchRules::executed_file(&shortened(exec, chain).argv, &exec.filename);
        let way = self.entry(exec.process, exec.parent);
        way.chain = chain.map(|chain| (chain.script.clone(), chain.interpreters.clone()));
        let interpreters = chain.into_iter().flat_map(|chain| chain.interpreters.clone());
        for file in interpreters.chain(file) {
            let file = ExecutedFile::new(file, exec.directory.as_deref());
            if way.files.len() < MAX_FILES && !way.files.contains(&file) {
                way.files.push(file);
            }
        }
    }

    /// Notes that a process forked.
    pub(super) fn forked(&mut self, fork: Fork) {
        self.entry(fork.process, fork.parent);
    }

    /// Notes that a process ended: it can be forgotten first.
    pub(super) fn ended(&mut self, process: ProcessId) {
        if let Some(way) = self.of.get_mut(&process)
            && !way.has_ended
        {
            way.has_ended = true;
            self.ended.push_back(process);
        }
    }

    /// Returns at most `count` processes whose life the caller should check, others each time; none while there is
    /// enough room.
    pub(super) fn next_to_check(&mut self, count: usize) -> Vec<ProcessId> {
        if self.of.len() < CROWDED {
            return Vec::new();
        }
        let mut wanted = Vec::new();
        while wanted.len() < count
            && let Some(process) = self.living.pop_front()
        {
            if self.may_live(process) {
                wanted.push(process);
            }
        }
        self.living.extend(&wanted);
        wanted
    }

    fn may_live(&self, process: ProcessId) -> bool {
        self.of.get(&process).is_some_and(|way| !way.has_ended)
    }

    /// Returns the files that each process of a launch executed before `serving` served, those of the first process
    /// first; a process without such files is left out. The file that serves is not among them.
    ///
    /// # Errors
    ///
    /// Returns an error if a process of the launch was forgotten.
    pub(super) fn before(
        &self,
        launcher: ProcessId,
        serving: ProcessId,
        stage: &Stage,
    ) -> Result<Vec<Vec<String>>, WayForgotten> {
        let mut line = Vec::new();
        let mut process = Some(serving);
        while let Some(next) = process.filter(|_| line.len() < MAX_DEPTH) {
            line.push(next);
            let way = self.of.get(&next);
            if way.map_or_else(|| self.may_be_forgotten(next), |way| way.is_partial) {
                return Err(WayForgotten);
            }
            process = way.map(|way| way.parent).filter(|_| next != launcher);
        }
        let files = line.iter().rev().filter_map(|process| {
            let way = self.of.get(process)?;
            let mut files: Vec<&ExecutedFile> = way.files.iter().collect();
            if *process == serving {
                match stage {
                    Stage::Script { path } | Stage::Shell { script: Some(path) } => {
                        files.retain(|file| file.given != *path)
                    }
                    Stage::Program | Stage::Container { .. } => drop(files.pop()),
                    Stage::Module { .. }
                    | Stage::Launcher
                    | Stage::Shell { script: None }
                    | Stage::Inline => {}
                }
            }
            let paths = files.into_iter().map(|file| file.path.clone());
            Some(paths.collect()).filter(|paths: &Vec<String>| !paths.is_empty())
        });
        Ok(files.collect())
    }

    fn entry(&mut self, process: ProcessId, parent: ProcessId) -> &mut ExecPath {
        if !self.of.contains_key(&process) {
            while self.of.len() >= MAX_PROCESSES
                && let Some(first) = self.ended.pop_front().or_else(|| self.living.pop_front())
            {
                if self.of.remove(&first).is_some() {
                    self.forgotten = self.forgotten.max(Some(first.start));
                }
            }
            self.living.push_back(process);
            if self.living.len() > 2 * MAX_PROCESSES {
                let of = &self.of;
                self.living
                    .retain(|process| of.get(process).is_some_and(|way| !way.has_ended));
            }
        }
        let is_partial = self.may_be_forgotten(process);
        self.of.entry(process).or_insert(ExecPath {
            parent,
            files: Vec::new(),
            chain: None,
            has_ended: false,
            is_partial,
        })
    }

    fn may_be_forgotten(&self, process: ProcessId) -> bool {
        self.forgotten.is_some_and(|youngest| process.start <= youngest)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start: 1 }
    }

    /// The executions of each process: its number, its parent's, the path given to `execve`, and its command.
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

    const RELATIVE_NPX: Execs = &[
        (
            2,
            1,
            "./node_modules/.bin/npx",
            "/usr/bin/env node ./node_modules/.bin/npx -y pkg",
        ),
        (2, 1, "/usr/bin/node", "node ./node_modules/.bin/npx -y pkg"),
        (4, 2, "/cache/.bin/pkg", "node /cache/.bin/pkg"),
    ];
    const RELATIVE_UVX: Execs = &[
        (2, 1, "../bin/uvx", "uvx time"),
        (4, 2, "/cache/bin/time", "/cache/bin/python /cache/bin/time"),
    ];
    const RELATIVE_SERVER: Execs = &[(4, 1, "/usr/bin/python3", "python3 server.py")];
    const RELATIVE_PROGRAM: Execs = &[(4, 1, "./server", "./server")];

    const SHIM: Execs = &[
        (2, 1, "/run/mcpmon-shims-7-0/npx", "npx -y pkg"),
        (
            2,
            1,
            "/usr/bin/mcpmon",
            "mcpmon wrap --server pkg -- /usr/bin/npx -y pkg",
        ),
        (3, 2, "/dev/fd/7", "node /usr/bin/npx -y pkg"),
        (4, 3, "/cache/.bin/pkg", "node /cache/.bin/pkg"),
    ];

    #[test_case(SHIM => "/run/mcpmon-shims-7-0/npx; /usr/bin/npx"; "a shim and what it wraps")]
    #[test_case(NPX => "/usr/bin/npx"; "npx")]
    #[test_case(RELATIVE_NPX => "/work/./node_modules/.bin/npx"; "npx of the working directory")]
    #[test_case(RELATIVE_UVX => "/work/../bin/uvx; /cache/bin/time"; "uvx beside the working directory")]
    #[test_case(RELATIVE_SERVER => ""; "a script of the working directory")]
    #[test_case(RELATIVE_PROGRAM => ""; "a program of the working directory")]
    #[test_case(NPX_WRAPPED => "/usr/bin/npx"; "npx behind a wrapper")]
    #[test_case(PLANTED_NODE => "/home/me/bin/node /usr/bin/npx"; "a script in the place of node")]
    #[test_case(PLANTED_PYTHON => "/home/me/bin/python3"; "a script in the place of python")]
    #[test_case(DIRECT => ""; "no launcher")]
    #[test_case(UVX => "/usr/bin/uvx; /cache/bin/time"; "uvx")]
    fn ways(execs: Execs) -> String {
        let mut ways = ExecPaths::default();
        let mut stage = Stage::Inline;
        for (pid, parent, filename, command) in execs {
            let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
            stage = LaunchRules::stage(&argv);
            ways.executes(
                &Exec {
                    process: process(*pid),
                    parent: process(*parent),
                    filename: (*filename).to_owned(),
                    directory: Some("/work".to_owned()),
                    argv,
                    ..Exec::default()
                },
                None,
            );
        }
        let files = ways.before(process(execs[0].0), process(4), &stage);
        let files = files.expect("nothing was forgotten");
        files
            .iter()
            .map(|files| files.join(" "))
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn a_program_of_its_own_has_no_way_and_what_it_becomes_has_one() {
        let mut ways = ExecPaths::default();
        let mut exec = |filename: &str| {
            ways.executes(
                &Exec {
                    process: process(4),
                    filename: filename.to_owned(),
                    argv: vec![filename.to_owned()],
                    ..Exec::default()
                },
                None,
            );
            ways.before(process(4), process(4), &Stage::Program)
        };
        assert_eq!(exec("/opt/server"), Ok(vec![]));
        assert_eq!(exec("/opt/other"), Ok(vec![vec!["/opt/server".to_owned()]]));
    }

    /// Starts a process under the first one.
    fn starts(ways: &mut ExecPaths, pid: u32, filename: &str) {
        ways.executes(
            &Exec {
                process: ProcessId {
                    pid,
                    start: pid.into(),
                },
                parent: process(1),
                filename: filename.to_owned(),
                argv: vec![filename.to_owned()],
                ..Exec::default()
            },
            None,
        );
    }

    #[test]
    fn no_user_fills_the_memory() {
        let mut ways = ExecPaths::default();
        for pid in 0..3 * MAX_PROCESSES as u32 {
            starts(&mut ways, pid, &"/x".repeat(2000));
            ways.ended(ProcessId {
                pid,
                start: pid.into(),
            });
        }
        assert!(ways.living.len() <= 2 * MAX_PROCESSES, "{}", ways.living.len());
        assert_eq!((ways.of.len(), ways.ended.len()), (MAX_PROCESSES, MAX_PROCESSES));
        assert!(
            ways.of
                .values()
                .all(|way| way.files.iter().all(|file| file.path.len() <= MAX_PATH))
        );
    }

    /// A launcher, which becomes the server later.
    const SERVER: ProcessId = ProcessId { pid: 2, start: 2 };

    #[test]
    fn a_launcher_that_lives_is_not_forgotten_for_others_that_ended() {
        let mut ways = ExecPaths::default();
        starts(&mut ways, 2, "/home/me/bin/serve");
        for pid in 10..4 * MAX_PROCESSES as u32 {
            starts(&mut ways, pid, "/bin/true");
            ways.ended(ProcessId {
                pid,
                start: pid.into(),
            });
        }
        starts(&mut ways, 2, "/opt/server");
        let before = ways.before(SERVER, SERVER, &Stage::Program);
        assert_eq!(before, Ok(vec![vec!["/home/me/bin/serve".to_owned()]]));
    }

    #[test]
    fn ends_that_nobody_told_are_asked_for() {
        let mut ways = ExecPaths::default();
        starts(&mut ways, 2, "/home/me/bin/serve");
        for pid in 10..4 * MAX_PROCESSES as u32 {
            starts(&mut ways, pid, "/bin/true");
            for process in ways.next_to_check(2) {
                if process != SERVER {
                    ways.ended(process);
                }
            }
        }
        assert!(ways.of.contains_key(&SERVER));
    }

    #[test]
    fn what_was_forgotten_is_said_to_be() {
        let mut ways = ExecPaths::default();
        starts(&mut ways, 2, "/home/me/bin/serve");
        for pid in 10..2 * MAX_PROCESSES as u32 {
            starts(&mut ways, pid, "/bin/sleep");
        }
        let young = ProcessId {
            pid: 1,
            start: u64::MAX,
        };
        assert_eq!(
            ways.before(young, young, &Stage::Program),
            Ok(vec![]),
            "it came later"
        );
        let before = ways.before(SERVER, SERVER, &Stage::Program);
        assert_eq!(before, Err(WayForgotten));
        // What it executes now is not all that it executed.
        starts(&mut ways, 2, "/opt/server");
        let before = ways.before(SERVER, SERVER, &Stage::Program);
        assert_eq!(before, Err(WayForgotten));
    }
}
