//! Facts about a running process from `/proc`. All are read through one descriptor of its directory, so that another
//! process with the same number cannot answer in its place.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::{
        fd::OwnedFd,
        unix::{
            ffi::{OsStrExt as _, OsStringExt as _},
            fs::OpenOptionsExt as _,
        },
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat, readlinkat},
    sys::stat::Mode,
};

use super::{
    elf,
    root::{FoundFile, Root},
};

/// Most bytes read of a command line or environment.
const MAX_STRINGS: u64 = 256 * 1024;
/// Most bytes read of its mounts.
const MAX_MOUNTS: u64 = 4 << 20;
const DELETED: &[u8] = b" (deleted)";

/// A process that was alive when it was opened; every query fails once it has ended.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    directory: File,
}

/// The file a process runs from.
#[derive(Debug)]
pub struct Executable {
    /// Its path inside the process's root at the time of its start.
    pub path: PathBuf,
    /// True if that path no longer leads to it.
    pub deleted: bool,
    /// The file itself.
    pub node: FoundFile,
}

/// The error of a query about a process.
#[derive(Debug, thiserror::Error)]
#[error("process {pid}: cannot read {what}")]
pub struct ProcessError {
    /// The process.
    pub pid: u32,
    /// File or link below `/proc/PID`.
    pub what: &'static str,
    /// The cause.
    #[source]
    pub source: io::Error,
}

impl ProcessError {
    /// Returns whether the process has ended: its directory has no files then, even if it was not reaped yet.
    pub fn is_end(&self) -> bool {
        let ends = [Errno::ESRCH, Errno::ENOENT].map(|errno| errno as i32);
        self.source
            .raw_os_error()
            .is_some_and(|errno| ends.contains(&errno))
    }
}

impl Process {
    /// Opens process `pid`.
    ///
    /// # Errors
    /// Returns an error if there is no such process.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_DIRECTORY | OFlag::O_CLOEXEC).bits())
            .open(format!("/proc/{pid}"))
            .map(|directory| Self { pid, directory })
            .map_err(|source| ProcessError {
                pid,
                what: "its directory",
                source,
            })
    }

    /// Returns its number.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the file that it executes.
    ///
    /// # Errors
    /// Returns an error if it has ended or belongs to another user.
    pub fn executable(&self) -> Result<Executable, ProcessError> {
        self.file_at("exe", "exe")
    }

    /// Returns whether the program that it executes is a dynamic loader by its content, whatever it is called; false
    /// where that cannot be read.
    pub fn executes_loader(&self) -> bool {
        let executable = self.descriptor("exe", "exe").ok().map(FoundFile::new);
        let file = executable.and_then(|found| found.ok()?.open().ok());
        file.and_then(|file| elf::is_loader(&file)).unwrap_or(false)
    }

    /// Returns a file that it has open.
    ///
    /// # Errors
    /// Returns an error if it has ended, belongs to another user, or has no such descriptor.
    pub fn opened(&self, descriptor: i32) -> Result<Executable, ProcessError> {
        self.file_at(&format!("fd/{descriptor}"), "fd")
    }

    /// Returns the file at the target of a link: `name` is the path of the link, and `what` its name in errors.
    fn file_at(&self, name: &str, what: &'static str) -> Result<Executable, ProcessError> {
        let node = self
            .descriptor(name, what)
            .and_then(|descriptor| FoundFile::new(descriptor).map_err(self.failed(what)))?;
        let written = self.link_inside_root(name, what)?;
        let deleted = written
            .as_os_str()
            .as_bytes()
            .strip_suffix(DELETED)
            .filter(|_| !self.leads_to(&written, &node));
        Ok(match deleted {
            Some(path) => Executable {
                path: PathBuf::from(OsStr::from_bytes(path)),
                deleted: true,
                node,
            },
            None => Executable {
                path: written,
                deleted: false,
                node,
            },
        })
    }

    fn leads_to(&self, path: &Path, node: &FoundFile) -> bool {
        let Ok(found) = self
            .root()
            .and_then(|root| root.find(path).map_err(self.failed("root")))
        else {
            return false;
        };
        (found.stat().st_dev, found.stat().st_ino) == (node.stat().st_dev, node.stat().st_ino)
    }

    /// Returns its root directory, in its mount namespace.
    ///
    /// # Errors
    /// Returns an error if it has ended or belongs to another user.
    pub fn root(&self) -> Result<Root, ProcessError> {
        self.descriptor("root", "root").map(Root::from_descriptor)
    }

    /// Returns its working directory, as a path inside its root.
    ///
    /// # Errors
    /// Returns an error if it has ended or belongs to another user.
    pub fn working_directory(&self) -> Result<PathBuf, ProcessError> {
        self.link_inside_root("cwd", "cwd")
    }

    /// Returns its arguments. The process can overwrite them, so they are its own claim.
    ///
    /// # Errors
    /// Returns an error if it has ended.
    pub fn arguments(&self) -> Result<Vec<OsString>, ProcessError> {
        Ok(strings(&self.read("cmdline", MAX_STRINGS)?))
    }

    /// Returns the value of an environment variable at its start.
    ///
    /// # Errors
    /// Returns an error if it has ended or belongs to another user.
    pub fn variable(&self, name: &str) -> Result<Option<OsString>, ProcessError> {
        let environment = strings(&self.read("environ", MAX_STRINGS)?);
        Ok(environment.iter().find_map(|entry| {
            let value = entry
                .as_bytes()
                .strip_prefix(name.as_bytes())?
                .strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value).to_owned())
        }))
    }

    /// Returns the names of its environment variables at its start, without those that are not UTF-8.
    ///
    /// # Errors
    /// Returns an error if it has ended or belongs to another user.
    pub fn variables(&self) -> Result<Vec<String>, ProcessError> {
        let environment = strings(&self.read("environ", MAX_STRINGS)?);
        let name = |entry: &OsString| Some(entry.to_str()?.split_once('=')?.0.to_owned());
        Ok(environment.iter().filter_map(name).collect())
    }

    /// Returns the target of a link inside the process's root. The kernel writes the target as seen from here: with the
    /// path of a chroot, and without that of another mount namespace.
    fn link_inside_root(&self, name: &str, what: &'static str) -> Result<PathBuf, ProcessError> {
        let root = PathBuf::from(self.link("root", "root")?);
        let path = PathBuf::from(self.link(name, what)?);
        Ok(match path.strip_prefix(&root) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => path,
        })
    }

    fn link(&self, name: &str, what: &'static str) -> Result<OsString, ProcessError> {
        readlinkat(&self.directory, name).map_err(|errno| self.failed(what)(errno.into()))
    }

    fn descriptor(&self, name: &str, what: &'static str) -> Result<OwnedFd, ProcessError> {
        openat(
            &self.directory,
            name,
            OFlag::O_PATH | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| self.failed(what)(errno.into()))
    }

    /// Returns the process's mount table, as text.
    pub(super) fn mounts(&self) -> Result<String, ProcessError> {
        let text = self.read("mountinfo", MAX_MOUNTS)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn read(&self, name: &'static str, limit: u64) -> Result<Vec<u8>, ProcessError> {
        let descriptor = openat(
            &self.directory,
            name,
            OFlag::O_RDONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| self.failed(name)(errno.into()))?;
        let mut content = Vec::new();
        File::from(descriptor)
            .take(limit)
            .read_to_end(&mut content)
            .map_err(self.failed(name))?;
        Ok(content)
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> ProcessError {
        let pid = self.pid;
        move |source| ProcessError { pid, what, source }
    }
}

/// Splits NUL-terminated strings.
fn strings(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes
        .split(|&c| c == 0)
        .map(|text| OsString::from_vec(text.to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixture::WaitingChild;

    #[test]
    fn a_process_is_described_even_if_its_file_is_replaced() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let here = directory.path().canonicalize()?;
        let program = here.join("cat");
        fs::copy("/bin/cat", &program)?;
        let child = WaitingChild::start(&program, &[], &here)?;
        let process = Process::open(child.pid())?;
        assert_eq!(process.working_directory()?, here);
        assert_eq!(process.arguments()?, [program.as_os_str()]);
        assert_eq!(process.variable("MCPMON_TEST")?, Some("a=b".into()));
        assert_eq!(process.variable("MCPMON_TES")?, None);
        let executable = process.executable()?;
        assert_eq!(
            (executable.path.as_path(), executable.deleted),
            (program.as_path(), false)
        );

        fs::remove_file(&program)?;
        fs::write(&program, "another")?;
        let executable = process.executable()?;
        assert_eq!(
            (executable.path.as_path(), executable.deleted),
            (program.as_path(), true)
        );
        assert_eq!(
            executable.node.stat().st_size,
            fs::metadata("/bin/cat")?.len().cast_signed()
        );
        Ok(())
    }

    #[test]
    fn a_file_may_be_called_deleted() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let program = directory.path().canonicalize()?.join("cat (deleted)");
        fs::copy("/bin/cat", &program)?;
        let child = WaitingChild::start(&program, &[], directory.path())?;
        let executable = Process::open(child.pid())?.executable()?;
        assert_eq!((executable.path, executable.deleted), (program, false));
        Ok(())
    }

    #[test]
    fn a_process_that_ended_answers_nothing() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let child = WaitingChild::start(Path::new("/bin/cat"), &[], directory.path())?;
        let process = Process::open(child.pid())?;
        drop(child);
        let kind = |error: ProcessError| error.source.raw_os_error();
        let gone = Some(Errno::ESRCH as i32);
        assert_eq!(process.executable().map_err(kind).err(), Some(gone));
        assert_eq!(process.arguments().map_err(kind).err(), Some(gone));
        Ok(())
    }
}
