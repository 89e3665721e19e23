//! Errors of commands: the message for the user, and the exit status.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use mcpmon_store::QueryError;

use super::text;
use crate::app::server_log::ReadError;

/// A command that failed.
#[derive(Debug)]
pub struct CliError {
    /// The kind of failure, which sets the exit status.
    pub kind: ErrorKind,
    /// The failure.
    pub source: anyhow::Error,
    /// The remedies, one line each.
    pub hints: Vec<String>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There were findings, or something was refused: 1.
    Refused,
    /// The command line or the configuration is wrong: 2.
    Usage,
    /// Privileges, the kernel or files are missing: 3.
    Environment,
    /// A server cannot be judged because of a fault of mcpmon: 4.
    Fault,
    /// The reader of the output closed it: exit status 0 without a message.
    BrokenPipe,
}

impl CliError {
    /// Makes an error without hints.
    pub fn new(kind: ErrorKind, source: impl Into<anyhow::Error>) -> Self {
        Self {
            kind,
            source: source.into(),
            hints: Vec::new(),
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Prints the error and returns the exit status.
    pub(in crate::cli) fn report(&self, stderr: &mut dyn Write) -> ExitCode {
        if self.kind == ErrorKind::BrokenPipe {
            return ExitCode::SUCCESS;
        }
        // If standard error is closed, the message is lost.
        let _told = self.print(stderr);
        ExitCode::from(self.kind.exit_code())
    }

    fn print(&self, stderr: &mut dyn Write) -> io::Result<()> {
        // A mistake in a file is shown with its line. Further lines of an error are indented, so that they do not look
        // like another error.
        let source = format!("{:#}", self.source);
        let lines: Vec<_> = source.trim_end().split('\n').map(text::escape).collect();
        writeln!(stderr, "error: {}", lines.join("\n  "))?;
        for hint in &self.hints {
            writeln!(stderr, "hint: {}", text::escape(hint))?;
        }
        Ok(())
    }
}

impl ErrorKind {
    const fn exit_code(self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::Fault => 4,
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(ErrorKind::BrokenPipe, error);
        }
        Self::new(
            ErrorKind::Environment,
            anyhow::Error::from(error).context("cannot write the output"),
        )
    }
}

impl From<anyhow::Error> for CliError {
    /// Wraps a failure of a command's streams or files.
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<io::Error>() {
            Ok(error) => error.into(),
            Err(error) => Self::new(ErrorKind::Environment, error),
        }
    }
}

impl From<ReadError> for CliError {
    fn from(error: ReadError) -> Self {
        Self::new(ErrorKind::Environment, error)
    }
}

impl From<QueryError> for CliError {
    fn from(error: QueryError) -> Self {
        Self::new(ErrorKind::Environment, error)
    }
}

/// Prints an error, the help or the version from clap, and returns the exit status.
pub(super) fn usage(error: &clap::Error) -> ExitCode {
    let _told = error.print();
    match error.use_stderr() {
        true => ExitCode::from(ErrorKind::Usage.exit_code()),
        false => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(error: &CliError) -> (String, ExitCode) {
        let mut stderr = Vec::new();
        let code = error.report(&mut stderr);
        (String::from_utf8(stderr).unwrap(), code)
    }

    #[test]
    fn an_error_names_its_causes_and_what_to_do_and_escapes_both() {
        let source = anyhow::anyhow!("permission denied").context("cannot open /tmp/\u{1b}[31mred");
        let error = CliError::new(ErrorKind::Environment, source).with_hint("chmod it");
        assert_eq!(
            reported(&error),
            (
                "error: cannot open /tmp/\\u{1b}[31mred: permission denied\nhint: chmod it\n".to_owned(),
                ExitCode::from(3)
            )
        );
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_other_errors_are() {
        let closed = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(reported(&closed), (String::new(), ExitCode::SUCCESS));
        let full = CliError::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(
            reported(&full),
            (
                "error: cannot write the output: no storage space\n".to_owned(),
                ExitCode::from(3)
            )
        );
    }
}
