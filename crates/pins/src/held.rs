//! Descriptors of the files from which a server is started. They are kept open while the starting process lives,
//! because the server itself may end before it can be examined.
//!
//! The starting process may name any file. So a held file counts only if it is the file that the kernel saw executed,
//! and nothing of it is read before that is certain.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use mcpmon_model::FileId;

use super::{
    HashError,
    process::{Executable, Process, ProcessError},
    root::{FoundFile, Root},
};

/// A program that is about to be executed, with the root and the working directory of the starting process, which the
/// program inherits.
#[derive(Debug)]
pub struct HeldProgram {
    executable: Executable,
    /// Device of its file system, in the kernel's numbering.
    device: u32,
    root: Root,
    working_directory: PathBuf,
    variables: Vec<(String, String)>,
}

impl HeldProgram {
    /// Opens the file that `process` has open as `descriptor`, and is about to execute with these variables.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or has no such descriptor.
    pub fn of(
        process: &Process,
        descriptor: i32,
        variables: Vec<(String, String)>,
    ) -> Result<Self, ProcessError> {
        let executable = process.opened(descriptor)?;
        Ok(Self {
            device: device_of_file(process, &executable.node)?,
            executable,
            root: process.root()?,
            working_directory: process.working_directory()?,
            variables,
        })
    }

    /// Opens the file at an absolute path of this process's own file system, which a process that has ended may have
    /// executed without anything beside it.
    ///
    /// # Errors
    /// Returns an error if nothing is there, or it cannot be opened.
    pub fn at(path: &Path) -> Result<Self, HashError> {
        let root = Root::at(Path::new("/")).map_err(HashError::Plan)?;
        let path = root.canonical(path).map_err(HashError::Plan)?;
        let node = root.find(&path).map_err(HashError::Plan)?;
        Ok(Self {
            device: device_of_file(&Process::open(std::process::id())?, &node)?,
            executable: Executable {
                path,
                deleted: false,
                node,
            },
            root,
            working_directory: PathBuf::from("/"),
            variables: Vec::new(),
        })
    }

    /// Returns the program, if it is `file` now.
    pub(super) fn executable(&self, file: &FileId) -> Result<Executable, HashError> {
        let node = self.executable.node.again().map_err(HashError::Plan)?;
        match self.identity(&node) == *file {
            true => Ok(Executable {
                path: self.executable.path.clone(),
                deleted: self.executable.deleted,
                node,
            }),
            false => Err(HashError::NotHeld),
        }
    }

    pub(super) const fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn working_directory(&self) -> &Path {
        &self.working_directory
    }

    pub(super) fn variable(&self, wanted: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        variables.find_map(|(name, value)| (name == wanted).then_some(value.as_str()))
    }

    fn identity(&self, node: &FoundFile) -> FileId {
        let stat = node.stat();
        let nanoseconds = stat
            .st_ctime
            .wrapping_mul(1_000_000_000)
            .wrapping_add(stat.st_ctime_nsec);
        FileId {
            device: self.device,
            inode: stat.st_ino,
            size: stat.st_size.cast_unsigned(),
            ctime: nanoseconds.cast_unsigned(),
        }
    }
}

/// Returns the device of the file system of a file that this process opened, and that `process` sees too.
fn device_of_file(process: &Process, node: &FoundFile) -> Result<u32, ProcessError> {
    let mounts = process.mounts()?;
    let device = mount_of(node).and_then(|mount| device_of(&mounts, mount));
    Ok(device.unwrap_or_else(|| kernel_device(node.stat().st_dev)))
}

/// Returns the id of the mount through which a file was opened.
fn mount_of(node: &FoundFile) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", node.as_raw_fd())).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    id.trim().parse().ok()
}

/// Returns the device of a mount's file system. On btrfs and overlayfs, `stat(2)` returns another one; see proc(5).
fn device_of(mounts: &str, mount: u64) -> Option<u32> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (id, _parent, device) = (fields.next()?, fields.next()?, fields.next()?);
        let (major, minor) = device.split_once(':')?;
        let is_it = id.parse() == Ok(mount);
        is_it.then(|| Some(numbered(major.parse().ok()?, minor.parse().ok()?)))?
    })
}

/// Converts a device of `stat(2)` to the kernel's numbering.
fn kernel_device(device: u64) -> u32 {
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    numbered(
        u32::try_from(major).unwrap_or_default(),
        u32::try_from(minor).unwrap_or_default(),
    )
}

/// `MKDEV` of the kernel.
const fn numbered(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

impl FoundFile {
    /// Returns the same file with its current metadata.
    fn again(&self) -> io::Result<Self> {
        Self::new(self.try_clone()?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsRawFd as _};

    use super::*;
    use crate::{EntryPoint, Hasher};

    fn held(file: &File) -> HeldProgram {
        let process = Process::open(std::process::id()).expect("this process");
        HeldProgram::of(&process, file.as_raw_fd(), Vec::new()).expect("it is open")
    }

    #[test]
    fn only_the_file_that_was_executed_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("program");
        fs::copy("/bin/true", &path).expect("a copy");
        let file = File::open(&path).expect("it is there");
        let held = held(&file);
        let executed = held.identity(&held.executable.node);
        let hash = |executed: &FileId| {
            Hasher::default().held(&held, executed, "program".into(), &EntryPoint::Program, &|| false)
        };
        let files = hash(&executed).expect("hashed");
        let digest = files.executable.hashed().expect("a digest").digest;
        let text = fs::read(&path).expect("readable");
        assert_eq!(digest, mcpmon_model::Digest::of(&text));
        let others = [
            FileId {
                inode: executed.inode + 1,
                ..executed
            },
            FileId {
                device: executed.device + 1,
                ..executed
            },
            FileId {
                ctime: executed.ctime + 1,
                ..executed
            },
        ];
        for other in others {
            assert!(matches!(hash(&other), Err(HashError::NotHeld)), "{other:?}");
        }
        fs::write(&path, b"written since").expect("written");
        assert!(matches!(hash(&executed), Err(HashError::NotHeld)));
    }

    #[test]
    fn a_program_is_found_at_its_path_only_if_it_was_executed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["one", "two"] {
            fs::copy("/bin/true", path(name)).expect("a copy");
        }
        std::os::unix::fs::symlink("one", path("link")).expect("a link");
        let executed = held(&File::open(path("one")).expect("it is there"));
        let executed = executed.identity(&executed.executable.node);
        let hash = |name: &str| {
            let program = HeldProgram::at(&path(name))?;
            Hasher::default().held(&program, &executed, name.into(), &EntryPoint::Program, &|| false)
        };
        for name in ["one", "link"] {
            let files = hash(name).expect("it was executed");
            let file = files.executable.hashed().expect("a digest").clone();
            assert_eq!(file.path.file_name(), Some("one".as_ref()));
        }
        // Of the same content.
        assert!(matches!(hash("two"), Err(HashError::NotHeld)));
        assert!(matches!(hash("none"), Err(HashError::Plan(_))));
        fs::rename(path("two"), path("one")).expect("replaced");
        assert!(matches!(hash("one"), Err(HashError::NotHeld)));
    }

    #[test]
    fn a_file_system_has_a_number_of_its_own() {
        let mounts =
            "22 1 0:31 / / rw - btrfs /dev/vda rw\n36 22 259:3 / /data rw - ext4 /dev/nvme rw\nodd\n";
        assert_eq!(device_of(mounts, 22), Some(31));
        assert_eq!(device_of(mounts, 36), Some(259 << 20 | 3));
        assert_eq!(device_of(mounts, 99), None);
    }

    #[test]
    fn a_descriptor_that_is_not_open_holds_nothing() {
        let process = Process::open(std::process::id()).expect("this process");
        HeldProgram::of(&process, -1, Vec::new()).expect_err("no descriptor");
    }
}
