//! `cargo xtask run -- ARGS`: builds mcpmon and runs it, as root only if the command needs root.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{
    build_ebpf,
    privilege::Privilege,
    shell::{self, Environment, say, step},
};

/// Commands of mcpmon that load kernel programs.
const PRIVILEGED: [&str; 2] = ["daemon", "doctor"];

/// Runs mcpmon with `arguments`, and returns its exit status.
pub(crate) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    let binary = build()?;
    let mut mcpmon = Command::new(binary);
    mcpmon.args(arguments);
    if needs_root(arguments) {
        as_root(mcpmon)
    } else {
        exit_code_of(mcpmon)
    }
}

/// Runs a command as root, and returns its exit status.
///
/// # Errors
/// [`Environment`] if this process is not root and there is no sudo.
pub(crate) fn as_root(command: Command) -> Result<ExitCode> {
    match Privilege::current() {
        Privilege::None => {
            let command = shell::shown(&command);
            let message = format!("this needs root, and there is no sudo; run as root: {command}");
            Err(Environment(message).into())
        }
        privilege @ (Privilege::Root | Privilege::Sudo) => exit_code_of(privilege.elevate(command)),
    }
}

pub(crate) fn exit_code_of(mut command: Command) -> Result<ExitCode> {
    let shown = shell::shown(&command);
    say(format_args!("$ {shown}"));
    let status = command
        .status()
        .with_context(|| format!("could not start {shown}"))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Builds the kernel programs and the binary that embeds them.
pub(crate) fn build() -> Result<PathBuf> {
    build_ebpf::run()?;
    step("build mcpmon", || {
        shell::run(shell::cargo().args(["build", "--locked", "--package", "mcpmon"]))
    })?;
    Ok(shell::target().join("debug/mcpmon"))
}

/// Returns whether the command needs root. It is the first word that is no option; values of global options are
/// attached with `=`.
fn needs_root(arguments: &[OsString]) -> bool {
    let is_option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
    let asks_only = arguments
        .iter()
        .any(|argument| argument == "--help" || argument == "-h");
    let command = arguments
        .iter()
        .find(|argument| !is_option(argument))
        .map(OsString::as_os_str);
    !asks_only && command.is_some_and(|command| PRIVILEGED.iter().any(|name| command == OsStr::new(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_loads_kernel_programs_needs_root() {
        for (line, expected) in [
            ("daemon", true),
            ("--config=a.yaml doctor", true),
            ("daemon --help", false),
            ("servers daemon", false),
            ("", false),
        ] {
            let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            assert_eq!(needs_root(&arguments), expected, "{line}");
        }
    }
}
