//! Verification of the program at the other end of the socket. A wrapper must run this same program, whatever it claims
//! to be.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    sync::{Mutex, PoisonError},
};

use mcpmon_model::{Digest, ProcessId};
use sha2::{Digest as _, Sha256};

use crate::app::host;

/// Largest program that is compared by content, bytes.
const MAX_PROGRAM: u64 = 512 << 20;
/// Most programs whose comparison is remembered.
const MAX_COMPARED: usize = 64;

/// The file that this process runs, to compare others with.
#[derive(Debug)]
pub(super) struct OwnProgram {
    file: FileKey,
    digest: Option<Digest>,
    /// Other files that were compared by content, with the result.
    compared: Mutex<BTreeMap<FileKey, bool>>,
}

/// Identifies a file with its content: if the file is written, the size or the times change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileKey {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileKey {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl OwnProgram {
    /// Reads the file of this process.
    ///
    /// # Errors
    /// Returns an error if `/proc` does not show it.
    pub(super) fn look() -> io::Result<Self> {
        let file = File::open("/proc/self/exe")?;
        let metadata = file.metadata()?;
        Ok(Self {
            file: FileKey::of(&metadata),
            digest: None,
            compared: Mutex::default(),
        }
        .with_digest(&file))
    }

    fn with_digest(mut self, file: &File) -> Self {
        self.digest = digest(file).ok();
        self
    }

    /// Returns the size of the file, bytes.
    pub(super) const fn size(&self) -> u64 {
        self.file.size
    }

    /// Returns whether `process` runs this program: the same file, or a copy of it that belongs to root. Reads a file
    /// of some megabytes if it was not compared before.
    pub(super) fn is_run_by(&self, process: ProcessId) -> bool {
        let runs = self.is_at(&format!("/proc/{}/exe", process.pid));
        // Checked last, because the number may have been given to another process meanwhile.
        runs && host::is_alive(process)
    }

    fn is_at(&self, path: &str) -> bool {
        let Ok(file) = File::open(path) else {
            return false;
        };
        let Ok(metadata) = file.metadata() else {
            return false;
        };
        let key = FileKey::of(&metadata);
        if (key.device, key.inode) == (self.file.device, self.file.inode) {
            return true;
        }
        if metadata.uid() != 0 || key.size != self.file.size {
            return false;
        }
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) = compared.get(&key) {
            return *equal;
        }
        let equal = self.digest.is_some() && digest(&file).ok() == self.digest;
        if compared.len() >= MAX_COMPARED {
            compared.clear();
        }
        compared.insert(key, equal);
        equal
    }
}

fn digest(file: &File) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    io::copy(
        &mut io::Read::take(file, MAX_PROGRAM),
        &mut PeerHashing(&mut hasher),
    )?;
    Ok(Digest::from_bytes(hasher.finalize().into()))
}

struct PeerHashing<'a>(&'a mut Sha256);

impl io::Write for PeerHashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, process::Command};

    use super::*;

    fn process(pid: u32) -> ProcessId {
        host::identify(pid).expect("it runs")
    }

    #[test]
    fn this_process_runs_this_program_and_another_program_does_not() {
        let own = OwnProgram::look().expect("own program");
        assert!(own.is_run_by(process(std::process::id())));
        let mut sleep = Command::new("sleep").arg("60").spawn().expect("sleep");
        assert!(!own.is_run_by(process(sleep.id())));
        sleep.kill().expect("it is ours");
        sleep.wait().expect("it ends");
    }

    #[test]
    fn a_name_or_a_number_proves_nothing() {
        let own = OwnProgram::look().expect("own program");
        let directory = tempfile::tempdir().expect("directory");
        let name = std::env::current_exe().expect("path");
        let disguised = directory.path().join(name.file_name().expect("name"));
        fs::copy("/bin/cat", &disguised).expect("copy");
        fs::set_permissions(&disguised, fs::Permissions::from_mode(0o755)).expect("mode");
        let mut child = Command::new(&disguised)
            .stdin(std::process::Stdio::piped())
            .env("MCPMON_WRAPPER", "1")
            .spawn()
            .expect("cat");
        let id = process(child.id());
        assert!(!own.is_run_by(id));
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        assert!(!own.is_run_by(ProcessId {
            start: 1,
            ..process(std::process::id())
        }));
    }

    #[test]
    fn a_copy_counts_if_it_is_roots_own() {
        let own = OwnProgram::look().expect("own program");
        let directory = tempfile::tempdir().expect("directory");
        let copy = directory.path().join("copy");
        fs::copy("/proc/self/exe", &copy).expect("copy");
        let is_root = nix::unistd::geteuid().is_root();
        assert_eq!(own.is_at(&copy.to_string_lossy()), is_root);
        if is_root {
            std::os::unix::fs::chown(&copy, Some(65_534), None).expect("chown");
            assert!(!own.is_at(&copy.to_string_lossy()));
        }
    }
}
