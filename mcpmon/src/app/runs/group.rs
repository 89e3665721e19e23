//! Control groups of agents, as the daemon reads them.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use mcpmon_model::ProcessId;

use crate::app::{host, run::GROUP_PREFIX};

/// Most processes of a group that are read.
const MAX_MEMBERS: usize = 4096;
/// Most groups that are read: an agent may make further groups below its own.
const MAX_GROUPS: usize = 64;

/// A control group that a `mcpmon run` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    path: PathBuf,
    /// The kernel's id of the group.
    pub(crate) id: u64,
}

impl Group {
    /// Finds the group `name` below that of the process `run`, which `uid` must own, in the hierarchy at `root`.
    pub(super) fn find(root: &Path, run: u32, uid: u32, name: &str) -> Option<Self> {
        if !name.starts_with(GROUP_PREFIX) || name.contains('/') {
            return None;
        }
        let groups = fs::read_to_string(format!("/proc/{run}/cgroup")).ok()?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        // A path with `..` belongs to a process outside the part of the hierarchy that this process sees.
        if own.split('/').any(|part| part == "..") {
            return None;
        }
        let path = root.join(own).join(name);
        let metadata = fs::symlink_metadata(&path).ok()?;
        let is_own = metadata.is_dir() && metadata.uid() == uid;
        is_own.then_some(Self {
            path,
            id: metadata.ino(),
        })
    }

    /// Returns the processes of the group and of the groups below it. Returns `None` if the group is gone.
    pub(crate) fn members(&self) -> Option<Vec<ProcessId>> {
        let mut members = Vec::new();
        let mut groups = vec![self.path.clone()];
        let mut seen = 0;
        while let Some(group) = groups.pop() {
            seen += 1;
            match fs::read_to_string(group.join("cgroup.procs")) {
                Ok(pids) => members.extend(pids.lines().filter_map(|pid| host::identify(pid.parse().ok()?))),
                Err(error) if seen == 1 && error.kind() == io::ErrorKind::NotFound => return None,
                Err(_gone) => {}
            }
            let below = fs::read_dir(&group).into_iter().flatten().flatten();
            let room = MAX_GROUPS.saturating_sub(seen + groups.len());
            groups.extend(
                below
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path())
                    .take(room),
            );
            if members.len() >= MAX_MEMBERS {
                members.truncate(MAX_MEMBERS);
                break;
            }
        }
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_made_by_a_run_and_below_its_own() {
        let root = tempfile::tempdir().expect("a directory");
        let run = std::process::id();
        let uid = nix::unistd::getuid().as_raw();
        let own = fs::read_to_string("/proc/self/cgroup").expect("a group");
        let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::/")) else {
            return; // this host has no such hierarchy
        };
        let name = format!("{GROUP_PREFIX}7");
        let path = root.path().join(own).join(&name);
        assert_eq!(Group::find(root.path(), run, uid, &name), None, "not there");
        fs::create_dir_all(path.join("below")).expect("directories");
        let group = Group::find(root.path(), run, uid, &name).expect("it is there");
        assert_eq!(group.id, fs::metadata(&path).expect("it is").ino());
        assert_eq!(
            Group::find(root.path(), run, uid + 1, &name),
            None,
            "another user's"
        );
        for other in ["below", "../x", "mcpmon-run-7/below"] {
            assert_eq!(Group::find(root.path(), run, uid, other), None, "{other}");
        }
        assert_eq!(group.members(), None, "no control group at all");
        fs::write(path.join("cgroup.procs"), "").expect("written");
        fs::write(path.join("below/cgroup.procs"), format!("{run}\n0\n")).expect("written");
        let members = group.members().expect("it is there");
        assert_eq!(members, [host::identify(run).expect("own")]);
    }
}
