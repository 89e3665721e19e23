//! Programs in front of a command: `env`, `sudo`, `timeout`, `mise exec --`.

use serde::Deserialize;

use super::{
    command::{Command, Word, is_assignment},
    launchers::{LAUNCHERS, has},
    options::{End, ValueOptions, parse},
    shell,
    target::TargetStep,
};
use crate::tables;

/// A program that runs the command in its arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefix {
    #[serde(deserialize_with = "tables::words")]
    names: Vec<String>,
    /// Words of which one must follow for a command to be run; empty where the program always runs one.
    #[serde(default, deserialize_with = "tables::words")]
    verbs: Vec<String>,
    #[serde(default)]
    options: ValueOptions,
    /// The operands after the options in front of the command.
    #[serde(default)]
    operands: usize,
    /// True if the command begins after the first `--`; without one, after the options.
    #[serde(default)]
    dashes: bool,
}

/// Returns the prefix called `name`.
pub(super) fn find(name: &str) -> Option<&'static Prefix> {
    LAUNCHERS.prefix.iter().find(|prefix| has(&prefix.names, name))
}

impl Prefix {
    /// Returns the command after this prefix.
    pub(super) fn step<'a>(&self, command: Command<'a>) -> TargetStep<'a> {
        let mut parsed = parse(&command, 1, &self.options);
        let mut directory = parsed.directory.take();
        if !self.verbs.is_empty() {
            let End::Operand(at) = parsed.end else {
                return TargetStep::idle(command);
            };
            if !has(&self.verbs, command.word(at)) {
                return TargetStep::idle(command);
            }
            parsed = parse(&command, at + 1, &self.options);
            directory = parsed.directory.take().or(directory);
        }
        match parsed.end {
            End::Line { line, rest } => {
                // `env -S` is no shell: its words are followed by the other arguments.
                if has(&self.names, "env") {
                    let mut words = shell::words(&line);
                    words.extend(command.words.into_iter().skip(rest));
                    return TargetStep::Runs(vec![behind(
                        Command {
                            words,
                            directory: command.directory,
                        },
                        0,
                        directory,
                    )]);
                }
                TargetStep::line(&line, &[], directory)
            }
            End::Operand(at) => {
                let start = match self.dashes {
                    false => after_assignments(&command, at) + self.operands,
                    true => dashes(&command, at).unwrap_or(at),
                };
                if start >= command.words.len() {
                    return TargetStep::idle(command);
                }
                TargetStep::Runs(vec![behind(command, start, directory)])
            }
            End::Module { .. } | End::File { .. } | End::Code | End::Idle | End::Nothing => {
                TargetStep::idle(command)
            }
        }
    }
}

fn behind<'a>(command: Command<'a>, at: usize, directory: Option<Word<'a>>) -> Command<'a> {
    let start = after_assignments(&command, at);
    command.rest(start, directory)
}

/// Returns the index of the first word from `at` on that is no `NAME=value`.
fn after_assignments(command: &Command<'_>, at: usize) -> usize {
    let assignments = command
        .words
        .iter()
        .skip(at)
        .take_while(|word| is_assignment(word))
        .count();
    at + assignments
}

/// Returns the index after the first `--` at or after `at`; `at` itself, if it is already after the `--` of the
/// options.
fn dashes(command: &Command<'_>, at: usize) -> Option<usize> {
    if at > 0 && command.word(at - 1) == "--" {
        return Some(at);
    }
    let offset = command.words.iter().skip(at).position(|word| word == "--")?;
    Some(at + offset + 1)
}
