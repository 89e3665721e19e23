//! The root of the cgroup v2 hierarchy, on unified and hybrid hosts.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The reason why there is no cgroup for the programs.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// `/proc/self/mountinfo` is unreadable.
    #[error("failed to read the mount table")]
    Mounts(#[source] io::Error),
    /// No cgroup v2 hierarchy is mounted.
    #[error(
        "no cgroup v2 hierarchy is mounted; mount one: `mount -t cgroup2 none /sys/fs/cgroup/unified` (or /sys/fs/cgroup)"
    )]
    NotMounted,
    /// The mounted directory is only a part of the hierarchy: programs attached there would miss everything outside of
    /// it.
    #[error(
        "{path} is not the root of the cgroup hierarchy (inode {inode}, not 1); in a container, mount the host's /sys/fs/cgroup and use the host's cgroup namespace"
    )]
    NotRoot {
        /// The mount point of the hierarchy.
        path: PathBuf,
        /// The inode number that was found.
        inode: u64,
    },
    /// The directory cannot be opened.
    #[error("failed to open {path}")]
    Open {
        /// The mount point of the hierarchy.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The opened root directory.
#[derive(Debug)]
pub struct CgroupRoot {
    /// The mount point.
    pub path: PathBuf,
    /// The descriptor to which programs are attached.
    pub directory: File,
}

/// Inode number of the hierarchy's root in kernfs.
const ROOT_INODE: u64 = 1;

impl CgroupRoot {
    /// Finds the mount, and checks that it is the root.
    ///
    /// # Errors
    /// Returns an error if there is none, or only a part of the hierarchy is visible.
    pub fn find() -> Result<Self, CgroupError> {
        let table = fs::read_to_string("/proc/self/mountinfo").map_err(CgroupError::Mounts)?;
        let mut not_root = None;
        for path in mounts(&table) {
            match Self::open(&path) {
                Ok(root) => return Ok(root),
                Err(error) => not_root = not_root.or(Some(error)),
            }
        }
        Err(not_root.unwrap_or(CgroupError::NotMounted))
    }

    fn open(path: &Path) -> Result<Self, CgroupError> {
        let failed = |source| CgroupError::Open {
            path: path.to_owned(),
            source,
        };
        let directory = File::open(path).map_err(failed)?;
        let inode = directory.metadata().map_err(failed)?.ino();
        if inode != ROOT_INODE {
            return Err(CgroupError::NotRoot {
                path: path.to_owned(),
                inode,
            });
        }
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }
}

/// Returns the mount points of type cgroup2, in the order of `/proc/self/mountinfo`.
fn mounts(table: &str) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let point = mount.split(' ').nth(4)?;
            (kind.split(' ').next()? == "cgroup2").then(|| PathBuf::from(unescape(point)))
        })
        .collect()
}

/// Reverses the kernel's octal escapes (space, tab, newline, backslash).
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unified_and_hybrid_mounts_are_found() {
        let table = "\
25 30 0:23 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw
26 25 0:24 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
27 25 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
28 25 0:24 / /mnt/with\\040space rw - cgroup2 none rw";
        assert_eq!(
            mounts(table),
            [Path::new("/sys/fs/cgroup/unified"), Path::new("/mnt/with space")]
        );
        assert_eq!(mounts("garbage\n - \n1 2 3 4 5"), [] as [&Path; 0]);
    }
}
