//! Interpreters, virtual machines and shells, and the programs that they are told to run.

use serde::Deserialize;

use super::{
    Stage,
    command::{Command, program_name},
    launchers::{LAUNCHERS, has},
    options::{End, ValueOptions, parse},
    target::{Subject, TargetStep, is_launcher},
};
use crate::tables::{self, WordList};

/// npm packages whose scripts start other programs.
static NPM_PACKAGES: WordList = tables::LAUNCH.list("interpreter", "npm_packages");
/// The commands of these packages.
static NPM_COMMANDS: WordList = tables::LAUNCH.list("interpreter", "npm_commands");
/// Python modules that start other programs.
static PYTHON_MODULES: WordList = tables::LAUNCH.list("interpreter", "python_modules");

/// A program that runs a file or a module in its own process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interpreter {
    #[serde(deserialize_with = "tables::words")]
    names: Vec<String>,
    options: ValueOptions,
    #[serde(default)]
    operand: Operand,
}

/// The first operand of an interpreter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operand {
    /// A file.
    #[default]
    File,
    /// A class or an assembly: a module unless it has a file's ending.
    Class,
    /// A file with this ending; any other word is a command of the tool.
    FileEnding(String),
}

/// Returns the interpreter called `name`, which has no version.
pub(super) fn find(name: &str) -> Option<&'static Interpreter> {
    let mut interpreters = LAUNCHERS.interpreter.iter();
    interpreters.find(|interpreter| has(&interpreter.names, name))
}

/// Returns whether `name` is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "fish"
    )
}

impl Interpreter {
    /// Returns the command this interpreter runs.
    pub(super) fn step<'a>(&self, command: Command<'a>) -> TargetStep<'a> {
        match parse(&command, 1, &self.options).end {
            End::Module { name, .. } | End::File { path: name, .. } if name.is_empty() => {
                TargetStep::idle(command)
            }
            // `python -m pipx run x`
            End::Module { name, rest } if PYTHON_MODULES.contains(&&*name) => {
                TargetStep::Runs(vec![command.rest(rest - 1, None).renamed(&name)])
            }
            End::Module { name, rest } => {
                let stage = Stage::Module {
                    name: name.clone().into_owned(),
                };
                TargetStep::is(Subject::Module(name), stage, command, rest)
            }
            End::File { path, rest } => {
                let stage = Stage::Script {
                    path: path.clone().into_owned(),
                };
                TargetStep::is(Subject::File(path), stage, command, rest)
            }
            End::Operand(at) => self.operand(command, at),
            End::Code | End::Nothing => TargetStep::is(Subject::Code, Stage::Inline, command, usize::MAX),
            End::Idle | End::Line { .. } => TargetStep::idle(command),
        }
    }

    /// Returns the file that it is told to run.
    pub(super) fn script(&self, command: &Command<'_>) -> Option<String> {
        match parse(command, 1, &self.options).end {
            End::Operand(at) => Some(command.word(at).to_owned()).filter(|word| word != "-"),
            End::File { path, .. } => Some(path.into_owned()),
            End::Module { .. } | End::Line { .. } | End::Code | End::Idle | End::Nothing => None,
        }
    }

    fn operand<'a>(&self, command: Command<'a>, at: usize) -> TargetStep<'a> {
        let word = command.words[at].clone();
        if word == "-" {
            return TargetStep::is(Subject::Code, Stage::Inline, command, usize::MAX);
        }
        let module = match &self.operand {
            Operand::File => false,
            Operand::Class => !word.contains('/') && !word.ends_with(".java"),
            Operand::FileEnding(ending) if !word.ends_with(ending.as_str()) => {
                return TargetStep::idle(command);
            }
            Operand::FileEnding(_) => false,
        };
        if module {
            let stage = Stage::Module {
                name: word.clone().into_owned(),
            };
            return TargetStep::is(Subject::Module(word), stage, command, at + 1);
        }
        if let Some(name) = launcher_script(&word) {
            let name = name.to_owned();
            return TargetStep::Runs(vec![command.rest(at, None).renamed(&name)]);
        }
        let stage = Stage::Script {
            path: word.clone().into_owned(),
        };
        TargetStep::is(Subject::File(word), stage, command, at + 1)
    }
}

/// Returns the launcher whose script `path` is: `/usr/bin/npx`, `…/npm/bin/npx-cli.js`,
/// `…/node_modules/tsx/dist/cli.mjs`. Below `node_modules` only the packages of launchers have such scripts: any package
/// can call a file `npx.js`, and would not be pinned.
fn launcher_script(path: &str) -> Option<&str> {
    let file = program_name(path);
    let Some((_, inside)) = path.rsplit_once("/node_modules/") else {
        let is_command = path.contains('/') && is_launcher(file) && script_stem(file).is_none();
        return is_command.then_some(file);
    };
    if inside.strip_prefix(".bin/") == Some(file) {
        return NPM_COMMANDS.contains(&file).then_some(file);
    }
    let package = package_directory(inside);
    let stem = script_stem(file).unwrap_or(file);
    let stem = stem.strip_suffix("-cli").unwrap_or(stem);
    let mut names = [stem, package.rsplit('/').next()?].into_iter();
    let name = names.find(|name| is_launcher(name))?;
    NPM_PACKAGES.contains(&package).then_some(name)
}

/// Returns `index` for `index.js`; `None` for a file of another kind.
fn script_stem(file: &str) -> Option<&str> {
    let endings = [".js", ".mjs", ".cjs"];
    endings.iter().find_map(|ending| file.strip_suffix(ending))
}

/// Returns the package of a path below `node_modules`, with its scope.
fn package_directory(inside: &str) -> &str {
    let mut ends = inside.match_indices('/');
    let end = if inside.starts_with('@') {
        ends.nth(1)
    } else {
        ends.next()
    };
    end.map_or(inside, |(at, _)| &inside[..at])
}

/// Returns the command a shell runs: the commands of a line, or a script.
pub(super) fn shell_step(command: Command<'_>) -> TargetStep<'_> {
    let mut line_follows = false;
    let mut at = 1;
    while let Some(word) = command.words.get(at) {
        let Some(letters) = word
            .strip_prefix(['-', '+'])
            .filter(|letters| !letters.is_empty())
        else {
            break;
        };
        at += 1;
        match letters {
            "-" => break,
            "-rcfile" | "-init-file" | "o" | "O" => at += 1,
            letters if letters.starts_with('-') => {}
            letters => line_follows |= letters.contains('c'),
        }
    }
    let Some(operand) = command.words.get(at).cloned() else {
        return TargetStep::is(Subject::Code, Stage::Inline, command, usize::MAX);
    };
    if line_follows {
        return TargetStep::line(&operand, &command.words[at + 1..], command.directory);
    }
    let stage = Stage::Shell {
        script: Some(operand.clone().into_owned()),
    };
    TargetStep::is(Subject::File(operand), stage, command, at + 1)
}
