//! Resolution of a command to the executed file: the program is found as `execvp(3)` would, and its `#!`
//! lines are followed as the kernel would, down to the one file that is opened and later executed by that
//! descriptor.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::OFlag,
    unistd::{AccessFlags, access},
};

use super::shebang::{self, Shebang};

/// `#!` lines followed for one program, the kernel's own limit.
const MAX_INTERPRETERS: usize = 5;
/// The search path if `PATH` is unset.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// The interpreter of a text without a `#!` line.
const SHELL: &str = "/bin/sh";

/// An open file, and the arguments for its execution.
#[derive(Debug)]
pub struct OpenProgram {
    /// The executable: a binary, or the interpreter of a script.
    pub file: File,
    /// The path at which it was found.
    pub path: PathBuf,
    /// Its arguments, its name first.
    pub arguments: Vec<OsString>,
    /// The scripts whose first lines led to it, beginning with the one that the command named.
    pub scripts: Vec<(PathBuf, File)>,
}

/// The reason why a command cannot be executed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no file of that name.
    #[error("there is no program {name:?} on PATH: install it, or give its full path")]
    NotFound {
        /// The name.
        name: OsString,
    },
    /// The file cannot be opened.
    #[error("cannot open the program {path}", path = .path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A directory, pipe, socket or device.
    #[error("{path} is no regular file, so it cannot be executed", path = .path.display())]
    NotRegular {
        /// Its path.
        path: PathBuf,
    },
    /// The file has no execute permission.
    #[error("{path} may not be executed: make it executable with `chmod +x`", path = .path.display())]
    NotExecutable {
        /// Its path.
        path: PathBuf,
    },
    /// The interpreter of the script is a script itself, and so on.
    #[error("{path} needs more than {MAX_INTERPRETERS} interpreters in a row", path = .path.display())]
    TooManyInterpreters {
        /// Its path.
        path: PathBuf,
    },
}

impl OpenProgram {
    /// Finds and opens the file that `name` with `arguments` executes.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn resolve(
        name: &OsStr,
        arguments: &[OsString],
        search_path: Option<&OsStr>,
    ) -> Result<Self, ProgramError> {
        let mut path = find(name, search_path)?;
        let mut arguments = [&[name.to_owned()], arguments].concat();
        let mut scripts = Vec::new();
        for _ in 0..=MAX_INTERPRETERS {
            let file = open(&path)?;
            let (interpreter, before) = match read_shebang(&file, &path)? {
                Shebang::None => {
                    return Ok(Self {
                        file,
                        path,
                        arguments,
                        scripts,
                    });
                }
                Shebang::Interpreter { path, argument } => {
                    let mut before = vec![path.clone().into_os_string()];
                    before.extend(argument);
                    (path, before)
                }
                Shebang::OnPath { name, arguments } => {
                    let found = find(&name, search_path)?;
                    (found, [vec![name], arguments].concat())
                }
                Shebang::Text => (PathBuf::from(SHELL), vec![OsString::from(SHELL)]),
            };
            arguments[0] = path.clone().into_os_string();
            arguments.splice(0..0, before);
            scripts.push((path, file));
            path = interpreter;
        }
        Err(ProgramError::TooManyInterpreters { path })
    }
}

/// Searches like `execvp(3)`: a name with a slash is a path.
fn find(name: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, ProgramError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let not_found = || ProgramError::NotFound {
        name: name.to_owned(),
    };
    if name.is_empty() {
        return Err(not_found());
    }
    let candidates =
        env::split_paths(search_path.unwrap_or_else(|| OsStr::new(DEFAULT_PATH))).map(|directory| {
            match directory.as_os_str().is_empty() {
                true => Path::new(".").join(name),
                false => directory.join(name),
            }
        });
    let mut present = candidates.filter(|path| path.is_file()).peekable();
    let first = present.peek().cloned();
    let executable = present.find(|path| access(path, AccessFlags::X_OK).is_ok());
    match (executable, first) {
        (Some(path), _) => Ok(path),
        (None, Some(path)) => Err(ProgramError::NotExecutable { path }),
        (None, None) => Err(not_found()),
    }
}

fn open(path: &Path) -> Result<File, ProgramError> {
    let failed = |source| ProgramError::Open {
        path: path.to_owned(),
        source,
    };
    // `O_NONBLOCK`, so that a pipe in the place of a program cannot block the open.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path);
    let file = match opened {
        // The program may be executed but not read.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_PATH | OFlag::O_CLOEXEC).bits())
            .open(path),
        opened => opened,
    }
    .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(ProgramError::NotRegular {
            path: path.to_owned(),
        });
    }
    if metadata.mode() & 0o111 == 0 {
        return Err(ProgramError::NotExecutable {
            path: path.to_owned(),
        });
    }
    Ok(file)
}

fn read_shebang(file: &File, path: &Path) -> Result<Shebang, ProgramError> {
    let mut head = [0; shebang::HEAD];
    let mut length = 0;
    while length < head.len() {
        match file.read_at(&mut head[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The file is open for execution only.
            Err(error) if error.raw_os_error() == Some(nix::libc::EBADF) => return Ok(Shebang::None),
            Err(source) => {
                return Err(ProgramError::Open {
                    path: path.to_owned(),
                    source,
                });
            }
        }
    }
    Ok(shebang::parse(&head[..length]))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    type Tested = Result<(), Box<dyn std::error::Error>>;

    fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
        fs::write(path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    }

    fn resolve(name: &OsStr, search_path: &Path) -> Result<OpenProgram, ProgramError> {
        OpenProgram::resolve(name, &["an argument".into()], Some(search_path.as_os_str()))
    }

    #[test]
    fn a_binary_is_opened_where_path_finds_it() -> Tested {
        let directory = tempfile::tempdir()?;
        fs::copy("/bin/true", directory.path().join("server"))?;
        let program = resolve(OsStr::new("server"), directory.path())?;
        assert_eq!(program.path, directory.path().join("server"));
        assert_eq!(program.arguments, ["server", "an argument"]);
        Ok(())
    }

    #[test]
    fn a_script_keeps_its_path_and_its_interpreter_is_opened() -> Tested {
        let directory = tempfile::tempdir()?;
        let (script, interpreter) = (directory.path().join("script"), directory.path().join("run"));
        fs::copy("/bin/true", &interpreter)?;
        write(&script, &format!("#! {} -a b \n", interpreter.display()), 0o755)?;
        let program = resolve(OsStr::new("script"), directory.path())?;
        assert_eq!(program.path, interpreter);
        let scripts: Vec<&Path> = program.scripts.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!(scripts, [script.as_path()]);
        let expected = [
            interpreter.as_os_str(),
            "-a b".as_ref(),
            script.as_os_str(),
            "an argument".as_ref(),
        ];
        assert_eq!(program.arguments, expected);

        write(&script, "#!/usr/bin/env run\n", 0o755)?;
        let program = resolve(OsStr::new("script"), directory.path())?;
        assert_eq!(program.path, interpreter);
        let expected = ["run".as_ref(), script.as_os_str(), "an argument".as_ref()];
        assert_eq!(program.arguments, expected);

        write(&script, "echo without a first line\n", 0o755)?;
        let program = resolve(OsStr::new("script"), directory.path())?;
        assert_eq!(program.path, Path::new("/bin/sh"));
        assert_eq!(program.arguments[1], script);
        Ok(())
    }

    #[test]
    fn what_cannot_be_executed_is_told_by_its_cause() -> Tested {
        let directory = tempfile::tempdir()?;
        let told = |name: &OsStr| {
            let error = resolve(name, directory.path()).err();
            error.map_or_else(String::new, |error| error.to_string())
        };
        assert!(told(OsStr::new("absent")).contains("no program \"absent\" on PATH"));
        assert!(told(OsStr::new("")).contains("no program \"\" on PATH"));
        let path = |name: &str| directory.path().join(name);
        assert!(told(path("absent").as_os_str()).contains("cannot open the program"));
        assert!(told(directory.path().as_os_str()).contains("no regular file"));
        write(&path("data"), "data", 0o644)?;
        assert!(told(OsStr::new("data")).contains("chmod +x"));
        assert!(told(path("data").as_os_str()).contains("chmod +x"));
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU)?;
        assert!(told(path("pipe").as_os_str()).contains("no regular file"));
        write(&path("loop"), &format!("#!{}\n", path("loop").display()), 0o755)?;
        assert!(told(OsStr::new("loop")).contains("more than 5 interpreters"));
        Ok(())
    }

    #[test]
    fn a_name_that_may_not_be_executed_does_not_hide_a_later_one() -> Tested {
        let (first, second) = (tempfile::tempdir()?, tempfile::tempdir()?);
        write(&first.path().join("server"), "data", 0o644)?;
        fs::copy("/bin/true", second.path().join("server"))?;
        let search_path = env::join_paths([first.path(), second.path()])?;
        let program = OpenProgram::resolve(OsStr::new("server"), &[], Some(&search_path))?;
        assert_eq!(program.path, second.path().join("server"));
        Ok(())
    }
}
