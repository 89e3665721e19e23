//! Root privileges: those of this process, commands that need root, and the question before such commands.

use std::{
    io::{BufRead as _, Write as _},
    os::unix::fs::MetadataExt as _,
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, Result};

use crate::shell::{self, Environment, say};

/// The way in which this process can run commands as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// The process is root.
    Root,
    /// It can use `sudo`.
    Sudo,
    /// It has no way to become root.
    None,
}

impl Privilege {
    /// Returns the privilege of this process.
    pub(crate) fn current() -> Self {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        match (is_root, shell::which("sudo")) {
            (true, _) => Self::Root,
            (false, Some(_)) => Self::Sudo,
            (false, None) => Self::None,
        }
    }

    /// Returns the command to be run as root; the environment set on `command` is kept.
    pub(crate) fn elevate(self, command: Command) -> Command {
        if self == Self::Root {
            return command;
        }
        let mut elevated = shell::command("sudo");
        elevated.arg("--preserve-env=CI,PATH,RUST_BACKTRACE,NO_COLOR");
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                let mut assignment = name.to_owned();
                assignment.push("=");
                assignment.push(value);
                elevated.arg(assignment);
            }
        }
        elevated
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        if let Some(directory) = command.get_current_dir() {
            elevated.current_dir(directory);
        }
        elevated
    }
}

/// The extent of a change to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Adds something: a developer who logged in as root has consented already.
    Adds,
    /// Removes something that is installed: a person must agree.
    Removes,
}

/// The state of consent: given, to be asked for, or impossible because no person can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    Given,
    Ask,
    Impossible,
}

/// One question at a time: the answer must be to the one that was read last.
static TURN: Mutex<()> = Mutex::new(());

/// Shows what is about to run as root, and asks if a person has to agree.
///
/// # Errors
/// [`Environment`] with the commands, if no person can be asked or the answer is no.
pub(crate) fn consent(purpose: &str, commands: &[Command], change: Change) -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let privilege = Privilege::current();
    let list: Vec<String> = commands
        .iter()
        .map(|command| format!("    {}", shell::shown(command)))
        .collect();
    let list = list.join("\n");
    say(format_args!("{purpose}:\n{list}"));
    let sudo_is_free = privilege == Privilege::Sudo && shell::ask("sudo", &["-n", "true"]).is_some();
    let unattended = shell::is_ci() && sudo_is_free;
    match consent_of(privilege, change, unattended, shell::is_interactive()) {
        Consent::Given => Ok(()),
        Consent::Ask if yes("Run this now?")? => Ok(()),
        Consent::Ask | Consent::Impossible => {
            Err(Environment(format!("{purpose}; run this as root, then start again:\n{list}")).into())
        }
    }
}

fn consent_of(privilege: Privilege, change: Change, unattended_sudo: bool, interactive: bool) -> Consent {
    match (privilege, change) {
        (Privilege::Root, Change::Adds) => Consent::Given,
        (Privilege::Sudo, Change::Adds) if unattended_sudo => Consent::Given,
        (Privilege::Root | Privilege::Sudo, _) if interactive => Consent::Ask,
        (Privilege::Root | Privilege::Sudo | Privilege::None, _) => Consent::Impossible,
    }
}

/// Asks a question. Only "y", "yes" or just Enter is a yes.
fn yes(question: &str) -> Result<bool> {
    let mut stderr = std::io::stderr();
    write!(stderr, "{question} [Y/n] ")
        .and_then(|()| stderr.flush())
        .context("could not ask on stderr")?;
    let mut answer = String::new();
    let read = std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("could not read the answer")?;
    Ok(read > 0 && matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_asked_only_before_something_is_removed() {
        let rows = [
            (Privilege::Root, Change::Adds, false, false, Consent::Given),
            (
                Privilege::Root,
                Change::Removes,
                false,
                false,
                Consent::Impossible,
            ),
            (Privilege::Root, Change::Removes, false, true, Consent::Ask),
            (Privilege::Sudo, Change::Adds, false, true, Consent::Ask),
            (Privilege::Sudo, Change::Adds, true, false, Consent::Given),
            (Privilege::Sudo, Change::Removes, true, false, Consent::Impossible),
            (Privilege::Sudo, Change::Adds, false, false, Consent::Impossible),
            (Privilege::None, Change::Adds, false, true, Consent::Impossible),
        ];
        for (privilege, change, unattended, interactive, expected) in rows {
            let given = consent_of(privilege, change, unattended, interactive);
            assert_eq!(
                given, expected,
                "{privilege:?} {change:?} {unattended} {interactive}"
            );
        }
    }

    #[test]
    fn an_elevated_command_keeps_its_words_and_variables() {
        let mut command = Command::new("apt-get");
        command
            .args(["install", "-y"])
            .env("DEBIAN_FRONTEND", "noninteractive");
        let elevated = shell::shown(&Privilege::Sudo.elevate(command));
        assert!(
            elevated.ends_with("DEBIAN_FRONTEND=noninteractive -- apt-get install -y"),
            "{elevated}"
        );
    }
}
