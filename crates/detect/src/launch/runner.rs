//! Package and project runners: npx, uvx, `npm exec`, `uv run`, `go run`.

use super::{
    Stage,
    command::{Command, Word, program_name},
    options::{End, Options, Parsed, Role, parse},
    package::Name,
    runner_options::{NPM, UV, UVX},
    target::{Step, Subject, is_launcher},
};
use crate::tables::{self, WordList};

/// A program that finds, perhaps fetches, and starts something by name.
pub(super) struct Runner {
    names: &'static [&'static str],
    options: Options,
    /// The modes selected by the words after the options; the first that fits counts.
    modes: &'static [(&'static [&'static str], Mode)],
}

/// The mode of a runner: the kind of thing that it starts.
#[derive(Clone, Copy)]
enum Mode {
    /// A package, or with a package option the command of one.
    Package,
    /// A command of the environment, a file, or a module.
    Command,
    /// An entry of the project's script table.
    Task,
    /// The entry with this name.
    TaskNamed(&'static str),
    /// A file where it looks like one, else an entry of the script table; in this very process.
    FileOrTask,
    /// The package of the package option is built first.
    Selected,
    /// A file that is an MCP server, in this very process.
    Served,
}

use Mode::{FileOrTask, Selected, Served, Task, TaskNamed};
use Role::{Code, Directory, Idle, Value};

const RUNNERS: &[Runner] = &[
    Runner {
        names: &["npx"],
        options: NPM,
        modes: &[(&[], Mode::Package)],
    },
    Runner {
        names: &["npm"],
        options: NPM,
        modes: &[
            (&["exec"], Mode::Package),
            (&["x"], Mode::Package),
            (&["run"], Task),
            (&["run-script"], Task),
            (&["start"], TaskNamed("start")),
            (&["create"], TaskNamed("create")),
        ],
    },
    Runner {
        names: &["bunx", "pnpx", "dnx"],
        options: NPM,
        modes: &[(&[], Mode::Package)],
    },
    Runner {
        names: &["pnpm"],
        options: &[
            ("--package", Role::Package),
            ("-C", Directory),
            ("--dir", Directory),
            ("--filter", Value),
            ("-F", Value),
            ("--reporter", Value),
            ("--loglevel", Value),
            ("--registry", Value),
            ("--allow-build", Value),
            ("-v", Idle),
            ("--version", Idle),
        ],
        modes: &[
            (&["dlx"], Mode::Package),
            (&["exec"], Mode::Command),
            (&["run"], Task),
            (&[], Task),
        ],
    },
    Runner {
        names: &["yarn", "yarnpkg"],
        options: &[
            ("-p", Role::Package),
            ("--package", Role::Package),
            ("--cwd", Directory),
            ("-v", Idle),
            ("--version", Idle),
        ],
        modes: &[
            (&["dlx"], Mode::Package),
            (&["exec"], Mode::Command),
            (&["run"], Task),
            (&["workspace"], TaskNamed("workspace")),
            (&[], Task),
        ],
    },
    Runner {
        names: &["bun"],
        options: &[
            ("--cwd", Directory),
            ("-r", Value),
            ("--preload", Value),
            ("--require", Value),
            ("--import", Value),
            ("--env-file", Value),
            ("-c", Value),
            ("--config", Value),
            ("-F", Value),
            ("--filter", Value),
            ("--tsconfig-override", Value),
            ("-d", Value),
            ("--define", Value),
            ("-l", Value),
            ("--loader", Value),
            ("--conditions", Value),
            ("-p", Role::Package),
            ("--package", Role::Package),
            ("-e", Code),
            ("--eval", Code),
            ("--print", Code),
            ("-v", Idle),
            ("--version", Idle),
        ],
        modes: &[(&["x"], Mode::Package), (&["run"], FileOrTask), (&[], FileOrTask)],
    },
    Runner {
        names: &["deno"],
        options: &[
            ("-c", Value),
            ("--config", Value),
            ("--import-map", Value),
            ("--env-file", Value),
            ("--cert", Value),
            ("--location", Value),
            ("--preload", Value),
            ("--seed", Value),
            ("--lock", Value),
            ("--cwd", Directory),
            ("-V", Idle),
            ("--version", Idle),
        ],
        modes: &[
            (&["run"], FileOrTask),
            (&["x"], FileOrTask),
            (&["serve"], FileOrTask),
            (&["task"], Task),
            (&["eval"], TaskNamed("eval")),
            (&[], FileOrTask),
        ],
    },
    Runner {
        names: &["uvx"],
        options: UVX,
        modes: &[(&[], Mode::Package)],
    },
    Runner {
        names: &["uv"],
        options: UV,
        modes: &[
            (&["tool", "run"], Mode::Package),
            (&["tool", "uvx"], Mode::Package),
            (&["run"], Mode::Command),
        ],
    },
    Runner {
        names: &["pipx"],
        options: &[
            ("--spec", Role::Package),
            ("--python", Value),
            ("--index-url", Value),
            ("-i", Value),
            ("--pip-args", Value),
            ("--with", Value),
            ("--backend", Value),
            ("--path", Value),
            ("--version", Idle),
            ("-h", Idle),
            ("--help", Idle),
        ],
        modes: &[(&["run"], Mode::Package)],
    },
    Runner {
        names: &["go"],
        options: &[
            ("-C", Directory),
            ("-tags", Value),
            ("-ldflags", Value),
            ("-gcflags", Value),
            ("-mod", Value),
            ("-modfile", Value),
            ("-exec", Value),
        ],
        modes: &[(&["run"], Mode::Package)],
    },
    Runner {
        names: &["cargo"],
        options: &[
            ("--bin", Role::Package),
            ("--example", Role::Package),
            ("-p", Role::Package),
            ("--package", Role::Package),
            ("--manifest-path", Value),
            ("--features", Value),
            ("-F", Value),
            ("--target", Value),
            ("--target-dir", Value),
            ("--profile", Value),
            ("-j", Value),
            ("--config", Value),
            ("-Z", Value),
            ("-C", Directory),
            ("--color", Value),
        ],
        modes: &[(&["run"], Selected), (&["r"], Selected)],
    },
    // The SDKs' own command lines: everything but `run` is for developers.
    Runner {
        names: &["mcp", "fastmcp"],
        options: &[
            ("-t", Value),
            ("--transport", Value),
            ("--host", Value),
            ("-p", Value),
            ("--port", Value),
            ("-l", Value),
            ("--log-level", Value),
            ("--path", Value),
            ("--python", Value),
            ("--with", Value),
            ("--with-requirements", Value),
            ("--project", Value),
            ("--server-spec", Value),
        ],
        modes: &[(&["run"], Served)],
    },
];

/// The runner called `name`.
pub(super) fn find(name: &str) -> Option<&'static Runner> {
    RUNNERS.iter().find(|runner| runner.names.contains(&name))
}

impl Runner {
    /// Returns the command this runner starts.
    pub(super) fn step<'a>(&self, command: Command<'a>) -> Step<'a> {
        let before = parse(&command, 1, self.options);
        let operand = match before.end {
            End::Operand(at) => at,
            End::Nothing
            | End::Idle
            | End::Code
            | End::Module { .. }
            | End::File { .. }
            | End::Line { .. } => {
                return self.without_verb(before, command);
            }
        };
        let Some((verbs, mode)) = self.modes.iter().find(|(verbs, _)| {
            verbs
                .iter()
                .enumerate()
                .all(|(index, verb)| command.word(operand + index) == *verb)
        }) else {
            return Step::idle(command);
        };
        let mut parsed = match verbs {
            [] => before,
            verbs => {
                let after = parse(&command, operand + verbs.len(), self.options);
                Parsed {
                    package: after.package.or(before.package),
                    directory: after.directory.or(before.directory),
                    end: after.end,
                }
            }
        };
        let command = Command {
            directory: parsed.directory.take().or(command.directory),
            words: command.words,
        };
        started(*mode, parsed, command)
    }

    /// Options alone can say what to run (`npx -c LINE`, `bun -e CODE`), if no verb is needed for it.
    fn without_verb<'a>(&self, parsed: Parsed<'a>, command: Command<'a>) -> Step<'a> {
        match self.modes.iter().find(|(verbs, _)| verbs.is_empty()) {
            Some((_, mode)) => started(*mode, parsed, command),
            None => Step::idle(command),
        }
    }
}

fn started<'a>(mode: Mode, parsed: Parsed<'a>, command: Command<'a>) -> Step<'a> {
    let at = match (parsed.end, mode) {
        (End::Operand(at), _) => at,
        (End::Line { line, .. }, _) => return Step::line(&line, &[], command.directory),
        (End::Module { name, rest }, _) => {
            return Step::is(Subject::Module(name), Stage::Launcher, command, rest);
        }
        (End::File { path, rest }, _) => {
            return Step::is(Subject::File(path), Stage::Launcher, command, rest);
        }
        (End::Code, _) => return Step::is(Subject::Code, Stage::Inline, command, usize::MAX),
        (End::Nothing, TaskNamed(_) | Selected) => command.words.len(),
        (End::Nothing | End::Idle, _) => return Step::idle(command),
    };
    let Some(word) = command.words.get(at).cloned().or_else(|| parsed.package.clone()) else {
        return match mode {
            TaskNamed(name) => Step::is(Subject::Task(name.into()), Stage::Launcher, command, at),
            Mode::Package | Mode::Command | Task | FileOrTask | Selected | Served => Step::idle(command),
        };
    };
    match mode {
        Mode::Package => package(word, parsed.package, command, at),
        Mode::Command if is_file(&word) => Step::is(Subject::File(word), Stage::Launcher, command, at + 1),
        Mode::Command => Step::Runs(vec![command.rest(at, None)]),
        Task => Step::is(Subject::Task(word), Stage::Launcher, command, at + 1),
        TaskNamed(name) => Step::is(Subject::Task(name.into()), Stage::Launcher, command, at),
        FileOrTask => file_or_task(word, command, at),
        Served => served(&word, command, at),
        Selected => match parsed.package {
            Some(spec) => Step::is(
                Subject::Package { spec, command: None },
                Stage::Launcher,
                command,
                at,
            ),
            None => Step::is(Subject::File("main.rs".into()), Stage::Launcher, command, at),
        },
    }
}

/// `word` is the package itself, or the command of `package`.
fn package<'a>(word: Word<'a>, package: Option<Word<'a>>, command: Command<'a>, at: usize) -> Step<'a> {
    // `npx tsx server.ts`, `uvx --with x python -m y`, `npx node@20 x.js`: the package is a launcher itself.
    let name = word
        .rfind('@')
        .filter(|&at| at > 0)
        .map_or(&*word, |version| &word[..version]);
    if !name.contains('/') && is_launcher(name) && !is_namesake(name, package.as_deref()) {
        let mut inner = command.rest(at, None);
        inner.words[0] = name.to_owned().into();
        return Step::Runs(vec![inner]);
    }
    if is_file(&word) && package.is_none() {
        return Step::is(Subject::File(word), Stage::Launcher, command, at + 1);
    }
    let subject = match package {
        Some(spec) => Subject::Package {
            spec,
            command: Some(word),
        },
        None => Subject::Package {
            spec: word,
            command: None,
        },
    };
    Step::is(subject, Stage::Launcher, command, at + 1)
}

/// Returns whether `name` is a command that `package` gives the name of an SDK's: `mcp` of `@eslint/mcp`.
fn is_namesake(name: &str, package: Option<&str>) -> bool {
    is_sdk(name)
        && package
            .and_then(Name::from_package)
            .is_some_and(|package| !is_sdk(&package.full()))
}

/// Returns whether `name` is the command line of an MCP SDK: what it is told to do says whether it is a
/// server.
pub(super) fn is_sdk(name: &str) -> bool {
    matches!(name, "mcp" | "fastmcp")
}

fn file_or_task<'a>(word: Word<'a>, command: Command<'a>, at: usize) -> Step<'a> {
    if let Some(spec) = ["npm:", "jsr:"]
        .iter()
        .find_map(|scheme| word.strip_prefix(scheme))
    {
        let stage = Stage::Module {
            name: word.clone().into_owned(),
        };
        let spec = spec.to_owned().into();
        return Step::is(Subject::Package { spec, command: None }, stage, command, at + 1);
    }
    if word == "-" {
        return Step::is(Subject::Code, Stage::Inline, command, at + 1);
    }
    if is_file(&word) || word.contains('/') {
        let stage = Stage::Script {
            path: word.clone().into_owned(),
        };
        return Step::is(Subject::File(word), stage, command, at + 1);
    }
    Step::is(Subject::Task(word), Stage::Launcher, command, at + 1)
}

/// `word` is `FILE` or `FILE:OBJECT`.
fn served<'a>(word: &str, command: Command<'a>, at: usize) -> Step<'a> {
    let path = match word.rsplit_once(':') {
        Some((path, object)) if !object.contains('/') => path,
        Some(_) | None => word,
    };
    let stage = Stage::Script {
        path: path.to_owned(),
    };
    Step::is(Subject::Served(path.to_owned().into()), stage, command, at + 1)
}

/// Returns whether `word` has the ending of a source file.
fn is_file(word: &str) -> bool {
    static ENDINGS: WordList = tables::LAUNCH.list("runner", "endings");
    program_name(word)
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending))
}
