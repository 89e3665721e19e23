//! A directory on a separate tmpfs, with programs to execute. There, the kernel's inode facts are the same as those of
//! stat(2), which is not so on btrfs and overlayfs.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::process::FileKey;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::stat::{major, minor},
    unistd::Pid,
};

/// A fresh tmpfs, visible to the calling process and its children only.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Mounts the tmpfs in a new mount namespace of the calling process, which must have one thread only.
    ///
    /// # Errors
    /// Returns an error if a mount is refused.
    pub fn mount() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNS).context("cannot make a mount namespace")?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .context("cannot detach mounts")?;
        let path = env::temp_dir();
        mount(Some("tmpfs"), &path, Some("tmpfs"), MsFlags::empty(), none).context("cannot mount a tmpfs")?;
        Ok(Self { path })
    }

    /// Returns the path of a file in the directory.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Copies a program of this machine under its own name, because busybox chooses its function by that name.
    ///
    /// # Errors
    /// Returns an error if there is no such program.
    pub fn copy(&self, program: &str) -> Result<PathBuf> {
        let copy = self.path.join(program);
        fs::copy(Path::new("/bin").join(program), &copy).with_context(|| format!("cannot copy {program}"))?;
        Ok(copy)
    }

    /// Writes an executable script.
    ///
    /// # Errors
    /// Returns an error if the script cannot be written.
    pub fn script(&self, name: &str, text: &str) -> Result<PathBuf> {
        let script = self.path.join(name);
        fs::write(&script, text).with_context(|| format!("cannot write {name}"))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).context("cannot change a mode")?;
        Ok(script)
    }
}

/// A cgroup for one test.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes a cgroup under `root`.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn make(root: &Path) -> Result<Self> {
        let path = root.join(format!("mcpmon-kernel-tests-{}", Pid::this()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }

    /// Returns the cgroup's id.
    ///
    /// # Errors
    /// Returns an error if the cgroup is gone.
    pub fn id(&self) -> Result<u64> {
        Ok(fs::metadata(&self.path).context("the cgroup is gone")?.ino())
    }

    /// Moves the calling process into the cgroup.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub fn enter(&self) -> Result<()> {
        fs::write(self.path.join("cgroup.procs"), "0").context("cannot enter the cgroup")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel refuses this while a process is in the cgroup, which shows a process that the test left behind.
        let _removed = fs::remove_dir(&self.path);
    }
}

/// A cgroup for one test whose memory can be limited, in the cgroup hierarchy of this machine that has the memory
/// controller.
#[derive(Debug)]
pub struct MemoryGroup {
    group: Cgroup,
    usage: &'static str,
    limit: &'static str,
}

impl MemoryGroup {
    /// Bytes left to the processes in a limited group.
    const SLACK: u64 = 2 << 20;

    /// Makes a cgroup.
    ///
    /// # Errors
    /// Returns an error if no hierarchy has the memory controller.
    pub fn make() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/mounts").context("cannot read the mounts")?;
        let mounted = |kind: &str, option: &str| {
            mounts.lines().find_map(|line| {
                let mut fields = line.split(' ').skip(1);
                let path = fields.next()?;
                let found = fields.next()? == kind
                    && (option.is_empty() || fields.next()?.split(',').any(|found| found == option));
                found.then(|| PathBuf::from(path))
            })
        };
        if let Some(root) = mounted("cgroup", "memory") {
            return Ok(Self {
                group: Cgroup::make(&root)?,
                usage: "memory.usage_in_bytes",
                limit: "memory.limit_in_bytes",
            });
        }
        let root = mounted("cgroup2", "").context("no cgroup hierarchy is mounted")?;
        fs::write(root.join("cgroup.subtree_control"), "+memory").context("no hierarchy has memory")?;
        Ok(Self {
            group: Cgroup::make(&root)?,
            usage: "memory.current",
            limit: "memory.max",
        })
    }

    /// Moves the calling process into the cgroup.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub fn enter(&self) -> Result<()> {
        self.group.enter()
    }

    /// Sets a memory limit slightly above the present usage.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub fn limit_to_usage(&self) -> Result<()> {
        let usage = fs::read_to_string(self.group.path.join(self.usage)).context("cannot read the usage")?;
        let limit = usage.trim().parse::<u64>()? + Self::SLACK;
        fs::write(self.group.path.join(self.limit), limit.to_string()).context("cannot set the limit")
    }
}

/// Returns the inode facts of a file as stat(2) reports them.
///
/// # Errors
/// Returns an error if they do not fit into the types of the kernel's records.
pub fn facts(stat: &fs::Metadata) -> Result<FileKey> {
    let seconds = u64::try_from(stat.ctime())?;
    let nanoseconds = u64::try_from(stat.ctime_nsec())?;
    let (major, minor) = (major(stat.dev()), minor(stat.dev()));
    ensure!(minor < 1 << 20, "device {major}:{minor}");
    Ok(FileKey {
        inode: stat.ino(),
        size: stat.size(),
        ctime: seconds * 1_000_000_000 + nanoseconds,
        device: u32::try_from(major << 20 | minor)?,
        reserved: 0,
    })
}
