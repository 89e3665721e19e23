//! Targets of commands: the program that remains after all launchers are peeled off, and the step from a
//! command to it.

use mcpmon_model::PackageKind;

use super::{
    Stage,
    command::{Command, Word, program_name, unversioned},
    container, interpreter, loader, prefix, runner, shell,
};

/// The subject that a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    /// A package that a runner such as npx fetches, and the command of it if that was named apart.
    Package {
        kind: PackageKind,
        spec: Word<'a>,
        command: Option<Word<'a>>,
    },
    /// A module by name: `python -m`, a Java class.
    Module(Word<'a>),
    /// A script, an archive, a source file.
    File(Word<'a>),
    /// A file that an MCP SDK's command line serves, so that there is no doubt what it is.
    Served(Word<'a>),
    /// An executable, by name or path.
    Program(Word<'a>),
    /// A container image, or a service of a compose file.
    Image(Word<'a>),
    /// An entry of a project's script table: `npm run NAME`.
    Task(Word<'a>),
    /// Source code in an argument or on standard input, an interactive session.
    Code,
}

/// A [`Subject`] with what surrounds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// The subject.
    pub(super) subject: Subject<'a>,
    /// The stage of the process of this very command.
    pub(super) stage: Stage,
    /// Arguments of the subject.
    pub(super) arguments: Vec<Word<'a>>,
    /// Directory it runs in, where a launcher said so.
    pub(super) directory: Option<Word<'a>>,
}

impl<'a> Target<'a> {
    /// `subject` with the words of `command` from `rest` on as its arguments.
    pub(super) fn new(subject: Subject<'a>, stage: Stage, command: Command<'a>, rest: usize) -> Self {
        let Command { words, directory } = command.rest(rest, None);
        Self {
            subject,
            stage,
            arguments: words,
            directory,
        }
    }
}

/// The result of examining one level of a command.
#[derive(Debug)]
pub(super) enum TargetStep<'a> {
    /// The command starts or becomes these commands.
    Runs(Vec<Command<'a>>),
    /// The command starts or becomes one of the commands of a shell line; this counts as one level of shells.
    Shell(Vec<Command<'a>>),
    /// The command runs this target, and (in a container) perhaps these commands.
    Is(Target<'a>, Vec<Command<'a>>),
}

impl<'a> TargetStep<'a> {
    /// The end of the way.
    pub(super) fn is(subject: Subject<'a>, stage: Stage, command: Command<'a>, rest: usize) -> Self {
        Self::Is(Target::new(subject, stage, command, rest), Vec::new())
    }

    /// A launcher that starts nothing, such as `npm install`.
    pub(super) fn idle(command: Command<'a>) -> Self {
        program(command)
    }

    /// Splits a line that a launcher gives to the shell.
    pub(super) fn line(line: &str, arguments: &[Word<'a>], directory: Option<Word<'a>>) -> Self {
        let mut commands = shell::commands(line, arguments);
        for command in &mut commands {
            command.directory = command.directory.take().or_else(|| directory.clone());
        }
        Self::Shell(commands)
    }
}

/// Peels one level off `command`.
pub(super) fn step(mut command: Command<'_>) -> TargetStep<'_> {
    if let Some(program) = loader::program_at(&command.words) {
        command = command.rest(program, None);
    }
    let name = command.program();
    if interpreter::is_shell(name) {
        return interpreter::shell_step(command);
    }
    if let Some(interpreter) = interpreter::find(unversioned(name)) {
        return interpreter.step(command);
    }
    if let Some(runner) = runner::find(name) {
        return runner.step(command);
    }
    if container::is_client(name) {
        return container::step(command);
    }
    if let Some(prefix) = prefix::find(name) {
        return prefix.step(command);
    }
    program(command)
}

/// Returns whether [`step`] knows `name` as something that runs other things.
pub(super) fn is_launcher(name: &str) -> bool {
    let name = program_name(name);
    interpreter::is_shell(name)
        || interpreter::find(unversioned(name)).is_some()
        || runner::find(name).is_some()
        || container::is_client(name)
        || prefix::find(name).is_some()
}

/// `command` as a program that is nothing but itself.
fn program(command: Command<'_>) -> TargetStep<'_> {
    match command.words.first().cloned() {
        Some(path) => TargetStep::is(Subject::Program(path), Stage::Program, command, 1),
        None => TargetStep::Runs(Vec::new()),
    }
}
