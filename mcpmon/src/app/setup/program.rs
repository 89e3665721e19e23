//! The path of the program that clients are to start.

use std::{
    env, io,
    path::{Path, PathBuf},
};

/// The kernel's suffix for the path of a removed file.
const GONE: &str = " (deleted)";

/// This program, as clients can start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The path, with all links resolved.
    pub path: String,
    /// True if the path may not exist for long: a build or temporary directory.
    pub is_fleeting: bool,
}

/// The reason why clients cannot start this program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The system does not report the path of this program.
    #[error("cannot tell where this program is")]
    Unknown(#[source] io::Error),
    /// The program's file was replaced or removed since it was started.
    #[error("{} was replaced: run the new one", .0.display())]
    Gone(PathBuf),
    /// The path is not UTF-8, which JSON requires.
    #[error("the path of this program is no text: {}", .0.display())]
    NotText(PathBuf),
}

impl Program {
    /// Finds the running program.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn running() -> Result<Self, ProgramError> {
        let path = env::current_exe().map_err(ProgramError::Unknown)?;
        let Some(text) = path.to_str() else {
            return Err(ProgramError::NotText(path));
        };
        if let Some(path) = text.strip_suffix(GONE) {
            return Err(ProgramError::Gone(PathBuf::from(path)));
        }
        Ok(Self {
            is_fleeting: is_fleeting(&path, &env::temp_dir()),
            path: text.to_owned(),
        })
    }
}

fn is_fleeting(path: &Path, temporary: &Path) -> bool {
    let below = [Path::new("/tmp"), Path::new("/var/tmp"), temporary];
    let build = |path: &Path| path.ends_with("target/debug") || path.ends_with("target/release");
    below.iter().any(|directory| path.starts_with(directory)) || path.parent().is_some_and(build)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/usr/local/bin/mcpmon" => false; "installed")]
    #[test_case("/home/a/mcpmon/target/release/mcpmon" => true; "built")]
    #[test_case("/tmp/mcpmon" => true; "unpacked")]
    #[test_case("/scratch/x/mcpmon" => true; "in the directory of the variable")]
    #[test_case("/opt/target/mcpmon" => false; "a directory of that name")]
    fn paths_that_do_not_stay_are_told(path: &str) -> bool {
        is_fleeting(Path::new(path), Path::new("/scratch"))
    }

    #[test]
    fn the_running_program_has_an_absolute_path() {
        let program = Program::running().expect("this test");
        assert!(Path::new(&program.path).is_absolute());
    }
}
