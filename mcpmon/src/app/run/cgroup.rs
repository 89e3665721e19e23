//! A control group for an agent: its processes stay in it, and can be found after their parents have ended.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

/// The prefix of the names of such groups.
pub(crate) const GROUP_PREFIX: &str = "mcpmon-run-";

/// A control group that was made here. Dropping this removes it, if no process is left in it.
#[derive(Debug)]
pub(super) struct OwnGroup {
    path: PathBuf,
}

/// The reason why the group cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupError {
    /// No cgroup v2 hierarchy is mounted.
    #[error("no cgroup v2 hierarchy is mounted")]
    NotMounted,
    /// The group cannot be made: the user is not root, and no part of the hierarchy was delegated.
    #[error("cannot make a control group in {path}")]
    Make {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl OwnGroup {
    /// Makes a group below that of this process.
    ///
    /// # Errors
    /// Returns an error if the host does not allow it, or this user may not.
    pub(super) fn make() -> Result<Self, GroupError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let parent = group(&mounts, &own).ok_or(GroupError::NotMounted)?;
        let path = parent.join(format!("{GROUP_PREFIX}{}", process::id()));
        let failed = |source| GroupError::Make {
            path: parent.clone(),
            source,
        };
        match fs::create_dir(&path) {
            // It is left over from a killed process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        let group = Self { path };
        // A group that can be made cannot always be entered.
        let entered = fs::OpenOptions::new().write(true).open(group.entrance());
        entered.map_err(failed)?;
        Ok(group)
    }

    /// Returns the name of the group, below that of this process.
    pub(super) fn name(&self) -> Option<String> {
        self.path.file_name()?.to_str().map(str::to_owned)
    }

    /// Returns the file to which a process writes `0` to enter the group.
    pub(super) fn entrance(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "the control group stays: something still runs in it");
        }
    }
}

/// Returns the directory of this process's group in the v2 hierarchy.
fn group(mounts: &str, own: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ');
        let (root, point) = (fields.nth(3)?, fields.next()?);
        (kind.split(' ').next()? == "cgroup2").then_some((root, point))
    });
    let (root, point) = mount?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // In a container, only a part of the hierarchy is mounted.
    let below = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    Some(Path::new(point).join(below))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const UNIFIED: &str = "26 25 0:24 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "\
25 30 0:23 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw
26 25 0:24 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
27 25 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
";
    const PART: &str = "26 25 0:24 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test_case(UNIFIED, "0::/user.slice/app.scope\n" => Some("/sys/fs/cgroup/user.slice/app.scope".into()); "unified")]
    #[test_case(HYBRID, "4:memory:/x\n0::/\n" => Some("/sys/fs/cgroup/unified".into()); "hybrid")]
    #[test_case(PART, "0::/docker/abc/y\n" => Some("/sys/fs/cgroup/y".into()); "a part of it")]
    #[test_case("", "0::/\n" => None; "not mounted")]
    #[test_case(UNIFIED, "4:memory:/x\n" => None; "version 1 alone")]
    fn groups_are_found(mounts: &str, own: &str) -> Option<PathBuf> {
        group(mounts, own)
    }
}
