//! Starting a server, and the pipes to it.

use std::{
    cell::Cell,
    ffi::{CString, NulError, OsString},
    io,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::PathBuf,
};

use nix::{
    fcntl::OFlag,
    sys::signal::SigSet,
    unistd::{Pid, getpid, pipe2},
};

use super::{
    domain::Domain,
    program::OpenProgram,
    sink::{Sink, set_nonblocking},
    stderr::ServerStderr,
    sys::{self, Image, Strings},
};

/// A running server.
#[derive(Debug)]
pub struct RunningChild {
    pub(super) pid: Pid,
    pub(super) stdin: Sink,
    pub(super) stdout: OwnedFd,
    /// The error because of which the server is not in the domain in which it was to start.
    pub unconfined: Option<io::Error>,
}

/// The reason why a server was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An argument or variable contains a NUL byte.
    #[error("an argument or environment variable contains a NUL byte, which no program can be given")]
    Nul(#[from] NulError),
    /// The pipes cannot be created.
    #[error("cannot make the pipes to the server")]
    Pipes(#[source] io::Error),
    /// The kernel refuses the sandbox.
    #[error("the kernel does not let the server enter its sandbox")]
    Sandbox(#[source] io::Error),
    /// The kernel refuses the program.
    #[error("cannot execute {path}", path = .path.display())]
    Execute {
        /// The program.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl RunningChild {
    /// Executes `program` by its descriptor, with this environment, standard error and signal mask, in this process's
    /// group and, if the kernel allows it, in `domain`. The server is killed when the calling thread ends.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        program: OpenProgram,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        stderr: ServerStderr,
        mask: SigSet,
        domain: Option<Domain>,
    ) -> Result<Self, StartError> {
        let arguments = program
            .arguments
            .into_iter()
            .map(|text| CString::new(text.into_vec()));
        let environment = environment
            .into_iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|errno| StartError::Pipes(errno.into()));
        let (its_stdin, stdin) = pipe()?;
        let (stdout, its_stdout) = pipe()?;
        set_nonblocking(&stdout).map_err(StartError::Pipes)?;
        let image = Image {
            file: program.file,
            stdin: its_stdin,
            stdout: its_stdout,
            stderr: stderr.0,
            arguments: Strings::new(arguments.collect::<Result<_, _>>()?),
            environment: Strings::new(environment.collect::<Result<_, _>>()?),
            mask,
            parent: getpid(),
            domain,
            refused_domain: Cell::new(None),
        };
        let pid = sys::start(&image).map_err(|source| {
            let is_kept_out = image.refused_domain.get().is_some();
            match &image.domain {
                Some(domain) if domain.is_required && is_kept_out => StartError::Sandbox(source),
                Some(_) | None => StartError::Execute {
                    path: program.path,
                    source,
                },
            }
        })?;
        Ok(Self {
            pid,
            stdin: Sink::of_pipe(stdin).map_err(StartError::Pipes)?,
            stdout,
            unconfined: image.refused_domain.take().map(io::Error::from),
        })
    }

    /// Returns the process number.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, fs::File, io::Read as _};

    use nix::sys::wait::waitpid;

    use super::*;

    fn stderr() -> io::Result<ServerStderr> {
        ServerStderr::open().map(|(stderr, _copies)| stderr)
    }

    #[test]
    fn what_was_looked_at_is_what_runs_whatever_its_path_leads_to_by_then()
    -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("server");
        fs::copy("/bin/echo", &path)?;
        let program = OpenProgram::resolve(path.as_os_str(), &["as looked at".into()], None)?;
        fs::remove_file(&path)?;
        fs::copy("/bin/false", &path)?;
        let environment = [("NAME".into(), "value".into())];
        let server = RunningChild::start(program, environment, stderr()?, SigSet::empty(), None)?;
        let said = all(server.stdout)?;
        waitpid(server.pid, None)?;
        assert_eq!(said, "as looked at\n");
        Ok(())
    }

    #[test]
    fn it_has_the_environment_it_is_given_and_no_other() -> Result<(), Box<dyn std::error::Error>> {
        let program = OpenProgram::resolve("env".as_ref(), &[], Some("/usr/bin:/bin".as_ref()))?;
        let environment = [("NAME".into(), "a=b".into())];
        let server = RunningChild::start(program, environment, stderr()?, SigSet::empty(), None)?;
        let said = all(server.stdout)?;
        waitpid(server.pid, None)?;
        assert_eq!(said, "NAME=a=b\n");
        Ok(())
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error() -> Result<(), Box<dyn std::error::Error>> {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("server");
        fs::write(&path, b"\x7fELF\0 and nothing more")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        let program = OpenProgram::resolve(path.as_os_str(), &[], None)?;
        let started = RunningChild::start(program, [], stderr()?, SigSet::empty(), None);
        assert!(matches!(started, Err(StartError::Execute { .. })), "{started:?}");
        let program = OpenProgram::resolve("true".as_ref(), &["a\0b".into()], None)?;
        let started = RunningChild::start(program, [], stderr()?, SigSet::empty(), None);
        assert!(matches!(started, Err(StartError::Nul(_))), "{started:?}");
        Ok(())
    }

    /// Runs a script with a shell in a domain, and returns its output.
    fn said_in_a_domain(script: &str) -> Result<String, Box<dyn std::error::Error>> {
        let program = OpenProgram::resolve("/bin/sh".as_ref(), &["-c".into(), script.into()], None)?;
        let domain = Some(Domain::new()?);
        let server = RunningChild::start(program, env::vars_os(), stderr()?, SigSet::empty(), domain)?;
        assert!(server.unconfined.is_none(), "{server:?}");
        let said = all(server.stdout)?;
        waitpid(server.pid, None)?;
        Ok(said)
    }

    #[test]
    fn in_a_domain_no_process_outside_can_be_looked_into() -> Result<(), Box<dyn std::error::Error>> {
        let script = format!(
            "for process in {} self; do readlink /proc/$process/fd/0 >/dev/null 2>&1 && echo $process; done",
            std::process::id()
        );
        assert_eq!(said_in_a_domain(&script)?, "self\n");
        Ok(())
    }

    #[test]
    fn a_domain_takes_nothing_else_away() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let script = format!(
            "cd {} && mkdir a b && echo x > a/f && ln a/f b/g && mv a/f b/f && cat b/f b/g; \
             sleep 60 & readlink /proc/$!/fd/0 >/dev/null && echo child; kill $!; \
             kill -0 $PPID && echo signal; cat /proc/$PPID/comm >/dev/null && echo name",
            directory.path().display()
        );
        assert_eq!(said_in_a_domain(&script)?, "x\nx\nchild\nsignal\nname\n");
        Ok(())
    }

    /// Reads everything that is in a non-blocking pipe.
    fn all(pipe: OwnedFd) -> io::Result<String> {
        use nix::fcntl::{FcntlArg, fcntl};
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty()))?;
        let mut text = String::new();
        File::from(pipe).read_to_string(&mut text)?;
        Ok(text)
    }
}
