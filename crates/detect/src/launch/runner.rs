//! Package and project runners: npx, uvx, `npm exec`, `uv run`, `go run`.

use mcpmon_model::PackageKind;
use serde::Deserialize;

use super::{
    Stage,
    command::{Command, Word, program_name},
    launchers::{LAUNCHERS, has},
    options::{End, Parsed, ValueOptions, parse},
    package::PackageName,
    target::{Subject, TargetStep, is_launcher},
};
use crate::tables::{self, WordList};

/// A program that finds, perhaps downloads, and starts something by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runner {
    #[serde(deserialize_with = "tables::words")]
    names: Vec<String>,
    /// The name of a set of options that other programs have as well.
    #[serde(default)]
    pub(super) shared: Option<String>,
    /// The kind of the packages that it fetches; none of a known registry if it is absent.
    #[serde(default)]
    packages: Option<PackageKind>,
    #[serde(default)]
    pub(super) options: ValueOptions,
    /// The modes, selected by the words after the options; the first that fits counts.
    modes: Vec<Selected>,
}

/// A mode, and the words that select it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Selected {
    #[serde(default, deserialize_with = "tables::words")]
    verbs: Vec<String>,
    runs: Mode,
}

/// The mode of a runner: the kind of thing that it starts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// A package, or with a package option the command of one.
    Package,
    /// A command of the environment, a file, or a module.
    Command,
    /// An entry of the project's script table.
    Task,
    /// The entry with the same name as the verb.
    NamedTask,
    /// A file if the word looks like one, else an entry of the script table; in the same process.
    FileOrTask,
    /// The package of the package option, which is built first.
    Built,
    /// A file that is an MCP server, in the same process.
    Served,
}

/// Returns the runner called `name`.
pub(super) fn find(name: &str) -> Option<&'static Runner> {
    LAUNCHERS.runner.iter().find(|runner| has(&runner.names, name))
}

impl Runner {
    /// Returns the command this runner starts.
    pub(super) fn step<'a>(&'static self, command: Command<'a>) -> TargetStep<'a> {
        let before = parse(&command, 1, &self.options);
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
        let selects = |mode: &&Selected| {
            let mut verbs = mode.verbs.iter().enumerate();
            verbs.all(|(index, verb)| command.word(operand + index) == *verb)
        };
        let Some(mode) = self.modes.iter().find(selects) else {
            return TargetStep::idle(command);
        };
        let mut parsed = match &*mode.verbs {
            [] => before,
            verbs => {
                let after = parse(&command, operand + verbs.len(), &self.options);
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
        self.started(mode, parsed, command)
    }

    /// Continues with a command without an operand: options alone can give what to run (`npx -c LINE`, `bun -e CODE`),
    /// if no verb is needed.
    fn without_verb<'a>(&'static self, parsed: Parsed<'a>, command: Command<'a>) -> TargetStep<'a> {
        match self.modes.iter().find(|mode| mode.verbs.is_empty()) {
            Some(mode) => self.started(mode, parsed, command),
            None => TargetStep::idle(command),
        }
    }

    fn started<'a>(
        &'static self,
        selected: &'static Selected,
        parsed: Parsed<'a>,
        command: Command<'a>,
    ) -> TargetStep<'a> {
        let kind = self.packages.unwrap_or(PackageKind::Program);
        let mode = selected.runs;
        let verb = selected.verbs.last().map_or("", String::as_str);
        let at = match (parsed.end, mode) {
            (End::Operand(at), _) => at,
            (End::Line { line, .. }, _) => return TargetStep::line(&line, &[], command.directory),
            (End::Module { name, rest }, _) => {
                return TargetStep::is(Subject::Module(name), Stage::Launcher, command, rest);
            }
            (End::File { path, rest }, _) => {
                return TargetStep::is(Subject::File(path), Stage::Launcher, command, rest);
            }
            (End::Code, _) => return TargetStep::is(Subject::Code, Stage::Inline, command, usize::MAX),
            (End::Nothing, Mode::NamedTask | Mode::Built) => command.words.len(),
            (End::Nothing | End::Idle, _) => return TargetStep::idle(command),
        };
        let Some(word) = command.words.get(at).cloned().or_else(|| parsed.package.clone()) else {
            return match mode {
                Mode::NamedTask => TargetStep::is(Subject::Task(verb.into()), Stage::Launcher, command, at),
                Mode::Package
                | Mode::Command
                | Mode::Task
                | Mode::FileOrTask
                | Mode::Built
                | Mode::Served => TargetStep::idle(command),
            };
        };
        match mode {
            Mode::Package => package(kind, word, parsed.package, command, at),
            Mode::Command if is_file(&word) => {
                TargetStep::is(Subject::File(word), Stage::Launcher, command, at + 1)
            }
            Mode::Command => TargetStep::Runs(vec![command.rest(at, None)]),
            Mode::Task => TargetStep::is(Subject::Task(word), Stage::Launcher, command, at + 1),
            Mode::NamedTask => TargetStep::is(Subject::Task(verb.into()), Stage::Launcher, command, at),
            Mode::FileOrTask => file_or_task(word, command, at),
            Mode::Served => served(&word, command, at),
            Mode::Built => match parsed.package {
                Some(spec) => TargetStep::is(
                    Subject::Package {
                        kind,
                        spec,
                        command: None,
                    },
                    Stage::Launcher,
                    command,
                    at,
                ),
                None => TargetStep::is(Subject::File("main.rs".into()), Stage::Launcher, command, at),
            },
        }
    }
}

/// Continues with `word`, which is the package itself, or a command of `package`.
fn package<'a>(
    kind: PackageKind,
    word: Word<'a>,
    package: Option<Word<'a>>,
    command: Command<'a>,
    at: usize,
) -> TargetStep<'a> {
    // `npx tsx server.ts`, `uvx --with x python -m y`, `npx node@20 x.js`: the package itself is a launcher.
    let name = word
        .rfind('@')
        .filter(|&at| at > 0)
        .map_or(&*word, |version| &word[..version]);
    if !name.contains('/') && is_launcher(name) && !is_namesake(name, package.as_deref()) {
        let mut inner = command.rest(at, None);
        inner.words[0] = name.to_owned().into();
        return TargetStep::Runs(vec![inner]);
    }
    if is_file(&word) && package.is_none() {
        return TargetStep::is(Subject::File(word), Stage::Launcher, command, at + 1);
    }
    let subject = match package {
        Some(spec) => Subject::Package {
            kind,
            spec,
            command: Some(word),
        },
        None => Subject::Package {
            kind,
            spec: word,
            command: None,
        },
    };
    TargetStep::is(subject, Stage::Launcher, command, at + 1)
}

/// Returns whether `name` is that of an SDK's command, but belongs to another `package`: `mcp` of `@eslint/mcp`.
fn is_namesake(name: &str, package: Option<&str>) -> bool {
    is_sdk(name)
        && package
            .and_then(PackageName::from_package)
            .is_some_and(|package| !is_sdk(&package.full()))
}

/// Returns whether `name` is the command line of an MCP SDK, whose arguments decide whether it is a server.
pub(super) fn is_sdk(name: &str) -> bool {
    matches!(name, "mcp" | "fastmcp")
}

fn file_or_task<'a>(word: Word<'a>, command: Command<'a>, at: usize) -> TargetStep<'a> {
    // The name of a package of JSR keeps its scheme.
    let spec = match word.strip_prefix("npm:") {
        Some(spec) => Some((PackageKind::Npm, spec)),
        None => word.strip_prefix("jsr:").map(|spec| (PackageKind::Program, spec)),
    };
    if let Some((kind, spec)) = spec {
        let stage = Stage::Module {
            name: word.clone().into_owned(),
        };
        let subject = Subject::Package {
            kind,
            spec: spec.to_owned().into(),
            command: None,
        };
        return TargetStep::is(subject, stage, command, at + 1);
    }
    if word == "-" {
        return TargetStep::is(Subject::Code, Stage::Inline, command, at + 1);
    }
    if is_file(&word) || word.contains('/') {
        let stage = Stage::Script {
            path: word.clone().into_owned(),
        };
        return TargetStep::is(Subject::File(word), stage, command, at + 1);
    }
    TargetStep::is(Subject::Task(word), Stage::Launcher, command, at + 1)
}

/// Continues with `word`, which is `FILE` or `FILE:OBJECT`.
fn served<'a>(word: &str, command: Command<'a>, at: usize) -> TargetStep<'a> {
    let path = match word.rsplit_once(':') {
        Some((path, object)) if !object.contains('/') => path,
        Some(_) | None => word,
    };
    let stage = Stage::Script {
        path: path.to_owned(),
    };
    TargetStep::is(Subject::Served(path.to_owned().into()), stage, command, at + 1)
}

/// Returns whether `word` has the ending of a source file.
fn is_file(word: &str) -> bool {
    static ENDINGS: WordList = tables::LAUNCH.list("runner", "endings");
    program_name(word)
        .rsplit_once('.')
        .is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending))
}
