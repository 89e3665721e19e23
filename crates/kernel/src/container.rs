//! Containers and pods, read from cgroup paths.
//!
//! A cgroup path contains the container's id and, under Kubernetes, the pod's UID. It does not contain the pod's name
//! or namespace: those stay `None` here.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::fd::{AsFd as _, AsRawFd as _},
};

use mcpmon_model::ContainerRef;

use crate::sys;

/// Longest `/proc/PID/cgroup` that is read, in bytes: 14 controllers with paths of `PATH_MAX`.
const MAX_CGROUP_FILE: u64 = 64 * 1024;

/// Returns the container of process `pid`. Returns `None` if it does not run in one.
///
/// # Errors
/// Returns an error if `/proc/PID/cgroup` cannot be read, for example because the process has ended.
pub fn of_process(pid: u32) -> io::Result<Option<ContainerRef>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/cgroup"))?
        .take(MAX_CGROUP_FILE)
        .read_to_end(&mut text)?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// Returns the container whose cgroup, or one inside it, has this id below the opened root of the hierarchy. Returns
/// `None` if the cgroup belongs to no container. The processes in it may have ended.
///
/// # Errors
/// Returns an error if the cgroup was removed, as it is soon after a container has ended, or may not be looked up.
pub fn of_cgroup(root: &File, id: u64) -> io::Result<Option<ContainerRef>> {
    let group = sys::open_cgroup(root.as_fd(), id)?;
    let path = fs::read_link(format!("/proc/self/fd/{}", group.as_raw_fd()))?;
    let path = path.to_string_lossy();
    // The kernel marks a removed cgroup this way.
    Ok(parse_path(path.trim_end_matches(" (deleted)")))
}

/// Parses the text of `/proc/PID/cgroup`: `hierarchy:controllers:path` lines, of version 1, 2 or both.
///
/// If the lines disagree, the most specific one wins, then the first.
pub fn parse(cgroup: &str) -> Option<ContainerRef> {
    let mut best: Option<ContainerRef> = None;
    for line in cgroup.lines() {
        let Some(path) = line.splitn(3, ':').nth(2) else {
            continue;
        };
        let found = parse_path(path);
        if found.as_ref().map(said) > best.as_ref().map(said) {
            best = found;
        }
    }
    best
}

fn said(container: &ContainerRef) -> usize {
    usize::from(container.container_id.is_some()) + usize::from(container.pod_uid.is_some())
}

/// Returns the innermost container in a cgroup path, and the innermost pod above it.
fn parse_path(path: &str) -> Option<ContainerRef> {
    let mut found = ContainerRef::default();
    let mut parent = "";
    let mut in_pod = false;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if let Some(uid) = pod_uid(name) {
            found = ContainerRef {
                pod_uid: Some(uid),
                ..ContainerRef::default()
            };
            in_pod = true;
        } else if let Some(id) = container_id(parent, name, in_pod) {
            found.container_id = Some(id.to_owned());
            in_pod = false;
        }
        parent = name;
    }
    (found != ContainerRef::default()).then_some(found)
}

/// Returns the UID in `kubepods-burstable-pod<uid>.slice` of the systemd driver (in which dashes of the UID are
/// underscores), or in `pod<uid>` of the cgroupfs driver.
fn pod_uid(name: &str) -> Option<String> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) => {
            let (prefix, uid) = slice.rsplit_once("-pod")?;
            (prefix == "kubepods"
                || prefix.ends_with("kubepods-burstable")
                || prefix.ends_with("kubepods-besteffort")
                || prefix.ends_with("-kubepods"))
            .then(|| uid.replace('_', "-"))?
        }
        None => name.strip_prefix("pod")?.to_owned(),
    };
    is_uid(&uid).then_some(uid)
}

/// Returns whether the text is a UUID, or the 32 hexadecimal digits of a static pod from the kubelet's manifest
/// directory.
fn is_uid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    (groups == [8, 4, 4, 4, 12] || groups == [32]) && text.bytes().all(|c| c == b'-' || is_hex(c))
}

/// Returns the id in a cgroup's name, if runtime, parent or pod show that the name is a container's.
fn container_id<'n>(parent: &str, name: &'n str, in_pod: bool) -> Option<&'n str> {
    const PREFIXES: [&str; 5] = ["docker-", "cri-containerd-", "crio-", "libpod-", "nerdctl-"];
    const PARENTS: [&str; 3] = ["docker", "crio", "buildkit"];
    let bare = name.strip_suffix(".scope").unwrap_or(name);
    if let Some(id) = PREFIXES.iter().find_map(|prefix| bare.strip_prefix(prefix)) {
        return is_container_id(id).then_some(id);
    }
    // containerd's systemd driver outside Kubernetes and inside: `…:cri-containerd:<id>`.
    if let Some((_, id)) = bare.rsplit_once(":cri-containerd:") {
        return is_container_id(id).then_some(id);
    }
    (in_pod || PARENTS.contains(&parent))
        .then_some(bare)
        .filter(|id| is_container_id(id))
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_hex)
}

const fn is_hex(c: u8) -> bool {
    matches!(c, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::MetadataExt as _, path::PathBuf};

    use test_case::test_case;

    use super::*;
    use crate::cgroup::CgroupRoot;

    const ID: &str = "3f1c0a9d8e7b6a5f4e3d2c1b0a9f8e7d6c5b4a392817065f4e3d2c1b0a9f8e7d";
    const INNER: &str = "aa1c0a9d8e7b6a5f4e3d2c1b0a9f8e7d6c5b4a392817065f4e3d2c1b0a9f8e7d";
    const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

    /// Replaces `ID`, `INNER`, `UID` and `UID_` (with underscores).
    fn expand(template: &str) -> String {
        template
            .replace("UID_", &UID.replace('-', "_"))
            .replace("UID", UID)
            .replace("INNER", INNER)
            .replace("ID", ID)
    }

    #[test_case("0::/docker/ID" => "ID no pod"; "docker cgroupfs")]
    #[test_case("0::/system.slice/docker-ID.scope" => "ID no pod"; "docker systemd")]
    #[test_case("0::/system.slice/docker-ID.scope/init" => "ID no pod"; "a cgroup inside a container")]
    #[test_case("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container" => "ID no pod"; "podman rootless")]
    #[test_case("0::/libpod_parent/libpod-ID" => "ID no pod"; "podman cgroupfs")]
    #[test_case("0::/machine.slice/libpod-ID.scope" => "ID no pod"; "podman systemd")]
    #[test_case("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/cri-containerd-ID.scope" => "ID UID"; "containerd systemd burstable")]
    #[test_case("0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/crio-ID.scope" => "ID UID"; "crio systemd besteffort")]
    #[test_case("0::/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope" => "ID UID"; "guaranteed")]
    #[test_case("0::/kubepods/burstable/podUID/ID" => "ID UID"; "cgroupfs burstable")]
    #[test_case("0::/kubepods/podUID/ID" => "ID UID"; "cgroupfs guaranteed")]
    #[test_case("0::/kubepods/podUID/crio-ID" => "ID UID"; "crio cgroupfs")]
    #[test_case("0::/system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID" => "ID no pod"; "containerd without a slice")]
    #[test_case("0::/docker/ID/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podUID_.slice/cri-containerd-INNER.scope" => "INNER UID"; "kind: the innermost")]
    #[test_case("0::/kubelet/kubepods/besteffort/podUID/INNER" => "INNER UID"; "kind cgroupfs")]
    #[test_case("0::/docker/ID/docker/INNER" => "INNER no pod"; "docker in docker")]
    #[test_case("0::/kubepods/podUID" => "no container UID"; "a process in the pod's own cgroup")]
    #[test_case("12:cpu,cpuacct:/docker/ID\n1:name=systemd:/docker/ID\n0::/" => "ID no pod"; "version 1")]
    #[test_case("9:name=systemd:/\n4:memory:/x\n0::/docker/ID" => "ID no pod"; "hybrid")]
    #[test_case("4:memory:/docker/ID\n0::/kubepods/podUID/INNER" => "INNER UID"; "the line that says more")]
    #[test_case("0::/" => "none"; "the root")]
    #[test_case("0::/user.slice/user-1000.slice/session-2.scope" => "none"; "a login session")]
    #[test_case("0::/build/ID" => "none"; "64 digits that are no container")]
    #[test_case("0::/system.slice/docker.service" => "none"; "the engine itself")]
    #[test_case("0::/system.slice/docker-1234.scope" => "none"; "an id too short")]
    #[test_case("0::/docker/IDa" => "none"; "an id too long")]
    #[test_case("0::/docker/3F1C0A9D8E7B6A5F4E3D2C1B0A9F8E7D6C5B4A392817065F4E3D2C1B0A9F8E7D" => "none"; "capital digits")]
    #[test_case("0::/podracer/ID" => "none"; "no pod")]
    #[test_case("0::/web-podUID_.slice/x" => "none"; "a slice of another's")]
    #[test_case("garbage\n\n:\n::" => "none"; "no cgroup file")]
    fn containers(template: &str) -> String {
        let Some(found) = parse(&expand(template)) else {
            return "none".to_owned();
        };
        assert_eq!((&found.namespace, &found.pod), (&None, &None));
        let name = |id: Option<String>, absent: &str| {
            id.map_or_else(
                || absent.to_owned(),
                |id| match id.as_str() {
                    ID => "ID".to_owned(),
                    INNER => "INNER".to_owned(),
                    UID => "UID".to_owned(),
                    _ => id,
                },
            )
        };
        format!(
            "{} {}",
            name(found.container_id, "no container"),
            name(found.pod_uid, "no pod")
        )
    }

    #[test]
    fn this_process_has_a_readable_cgroup() -> io::Result<()> {
        let pid = std::process::id();
        let expected = parse(&fs::read_to_string(format!("/proc/{pid}/cgroup"))?);
        assert_eq!(of_process(pid)?, expected);
        Ok(())
    }

    /// A cgroup with the name of a container's, removed at the end of its test.
    struct Group(PathBuf);

    impl Drop for Group {
        fn drop(&mut self) {
            drop(fs::remove_dir(&self.0));
        }
    }

    #[test]
    #[ignore = "it needs root: `cargo xtask test` runs it"]
    fn a_group_is_found_by_its_id_until_it_is_removed() {
        let root = CgroupRoot::find().expect("the hierarchy");
        let group = Group(root.path.join(format!("libpod-{ID}")));
        fs::create_dir(&group.0).expect("a group");
        let id = fs::metadata(&group.0).expect("the group").ino();
        let found = of_cgroup(&root.directory, id).expect("the group's path");
        assert_eq!(found.and_then(|found| found.container_id).as_deref(), Some(ID));
        let own = root.directory.metadata().expect("the root").ino();
        assert_eq!(of_cgroup(&root.directory, own).expect("the root's path"), None);
        drop(group);
        let gone = of_cgroup(&root.directory, id).expect_err("it is gone");
        assert_eq!(gone.raw_os_error(), Some(nix::libc::ESTALE));
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert_eq!(
            of_process(u32::MAX).map_err(|error| error.kind()),
            Err(io::ErrorKind::NotFound)
        );
    }
}
