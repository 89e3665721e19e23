//! Containers of podman, with images, containers, state and control groups of their own that end with the test; those of a test
//! that was aborted end with the start of the next one.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    daemon_set::{DaemonSet, Mount},
    json::text,
    program,
    site::Site,
    skip, wait,
};

/// The container engine.
#[derive(Debug)]
pub struct Podman {
    directory: PathBuf,
    /// The directory, locked: while it is, a test uses it.
    _lock: File,
}

/// The place of the engines' directories.
const PLACE: &str = "/var/tmp";
/// The beginning of their names, which are those of their control groups, too.
const PREFIX: &str = "mcpmon-podman-";

/// Directories of this host in which a program in a container finds its shell and libraries.
const SYSTEM: [&str; 4] = ["/bin", "/lib", "/lib64", "/usr"];

/// Returns whether a path is a directory that only this user can have filled.
fn is_own(path: &Path) -> bool {
    let user = nix::unistd::geteuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

impl Podman {
    /// Makes an engine, and runs a container to see whether it works. Returns `None`, and says so on standard error, if
    /// it does not.
    ///
    /// # Errors
    /// Returns an error if the engine does not work and `CI=true` says that it must.
    pub fn take() -> Result<Option<Self>> {
        for left in fs::read_dir(PLACE)? {
            let left = left?;
            let is_engine = left.file_name().to_string_lossy().starts_with(PREFIX);
            if is_engine
                && is_own(&left.path())
                && let Ok(Some(aborted)) = Self::of(left.path())
            {
                drop(aborted);
            }
        }
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(PLACE);
        let directory = directory.with_context(|| format!("cannot make a directory in {PLACE}"))?;
        let podman = Self::of(directory.keep())?.context("another test took the directory")?;
        fs::create_dir(podman.directory.join("empty"))?;
        let tried = podman.shell("true", None).output().context("cannot run podman")?;
        if tried.status.success() {
            return Ok(Some(podman));
        }
        let said = String::from_utf8_lossy(&tried.stderr);
        skip::for_lack(&format!("podman runs no container here: {}", said.trim()))?;
        Ok(None)
    }

    /// The engine with what is in a directory; `None` where a test uses it.
    fn of(directory: PathBuf) -> Result<Option<Self>> {
        let lock = File::open(&directory)?;
        Ok(lock.try_lock().is_ok().then_some(Self {
            directory,
            _lock: lock,
        }))
    }

    /// Returns the name of the control group that those of its containers are in.
    #[must_use]
    pub fn group(&self) -> String {
        let name = self.directory.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the command `podman`, with its files below this engine's directory.
    fn command(&self) -> Command {
        let mut command = Command::new("podman");
        for (option, name) in [("--root", "storage"), ("--runroot", "run"), ("--tmpdir", "state")] {
            command.arg(option).arg(self.directory.join(name));
        }
        // Overlays cannot be stacked, crun refuses hosts with control groups of both versions, and systemd may be
        // missing.
        command.args(["--storage-driver=vfs", "--runtime=runc"]);
        command.args(["--cgroup-manager=cgroupfs", "--events-backend=none"]);
        command
    }

    /// Returns the command `podman run` for a container that is removed at its end. It leaves out the limits that only
    /// the root of a host itself may raise.
    fn run(&self) -> Command {
        let mut command = self.command();
        command.args(["run", "--rm", "--log-driver=none"]);
        command.arg(format!("--cgroup-parent=/{}", self.group()));
        command.args(["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]);
        command
    }

    /// Returns the command that runs a line of bash in a new container with a separate network. The container's id goes
    /// to the file `id`.
    #[must_use]
    pub fn shell(&self, line: &str, id: Option<&Path>) -> Command {
        let root = self.directory.join("empty");
        let mut command = self.run();
        if let Some(id) = id {
            command.arg("--cidfile").arg(id);
        }
        command.args(["--interactive", "--network=none"]);
        for directory in SYSTEM.iter().filter(|directory| Path::new(directory).exists()) {
            command.arg(format!("--volume={directory}:{directory}:ro"));
        }
        command.arg("--rootfs").arg(root).args(["bash", "-c", line]);
        command
    }

    /// Makes the image of a release with the built program, and loads it.
    ///
    /// # Errors
    /// Returns an error if the image cannot be made or loaded.
    pub fn load_image(&self) -> Result<()> {
        let archive = self.directory.join("image.tar");
        let mut pack = Command::new(program::beside("xtask"));
        pack.arg("image").arg(program::path()?).arg(&archive);
        finish(&mut pack).context("is it built? `cargo build -p xtask`")?;
        finish(self.command().arg("load").arg("--input").arg(&archive))?;
        Ok(fs::remove_file(archive)?)
    }

    /// Returns the command that runs the image's daemon as the DaemonSet does on a node, with the files of `site` in
    /// the place of the host's.
    ///
    /// # Errors
    /// Returns an error if the directories of `site` cannot be made.
    pub fn daemon(&self, set: &DaemonSet, site: &Site, seccomp: Option<&Path>) -> Result<Command> {
        let mut command = self.run();
        // A private view of the control groups, as Kubernetes sets it.
        command.args(["--pid=host", "--cgroupns=private", "--network=none"]);
        command.args(["--read-only", "--cap-drop=all"]);
        command.args([
            "--security-opt=apparmor=unconfined",
            "--security-opt=label=disable",
        ]);
        if let Some(profile) = seccomp {
            command.arg(format!("--security-opt=seccomp={}", profile.display()));
        }
        let held = held_capabilities()?;
        for capability in set.capabilities.iter().filter(|name| held.contains(*name)) {
            command.arg(format!("--cap-add={capability}"));
        }
        for mount in &set.mounts {
            match of_site(site, mount)? {
                Some(host) => command.arg(format!(
                    "--volume={}:{}{}",
                    host.display(),
                    mount.path,
                    if mount.read_only { ":ro" } else { "" }
                )),
                None => command.arg(format!("--tmpfs={}", mount.path)),
            };
        }
        command.arg(&set.image).args(&set.arguments);
        Ok(command)
    }

    /// Returns this machine's seccomp profile, with bpf(2) allowed for processes without `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// Returns an error if the machine has no profile.
    pub fn profile_with_bpf(&self) -> Result<PathBuf> {
        let told = finish(self.command().args(["info", "--format=json"]))?;
        let told: Value = serde_json::from_slice(&told.stdout)?;
        let path = text(&told["host"]["security"], "seccompProfilePath");
        let profile = fs::read(path).with_context(|| format!("no profile at {path:?}"))?;
        let mut profile: Value = serde_json::from_slice(&profile)?;
        let rules = profile["syscalls"].as_array_mut().context("no rules")?;
        for rule in &mut *rules {
            let names = rule["names"].as_array_mut().context("a rule without names")?;
            names.retain(|name| name != "bpf");
        }
        rules.retain(|rule| rule["names"] != json!([]));
        rules.push(json!({"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "args": []}));
        let path = self.directory.join("seccomp.json");
        fs::write(&path, profile.to_string())?;
        Ok(path)
    }
}

impl Drop for Podman {
    /// Ends every container that is left, and removes all that it had. What cannot be removed now is by the next test.
    fn drop(&mut self) {
        let remove = ["rm", "--all", "--force", "--time=0"];
        drop(self.command().args(remove).output());
        // The process that watched a container ends after it, and is in a group itself.
        let removed = wait::until("empty control groups", || {
            let groups = groups(&self.group())?;
            groups.iter().for_each(|group| remove_group(group));
            Ok(groups.is_empty().then_some(()))
        });
        if removed.is_ok() {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}

/// The control groups of this name below the root of each hierarchy.
///
/// # Errors
/// Returns an error if the mounted hierarchies cannot be read.
pub fn groups(name: &str) -> Result<Vec<PathBuf>> {
    let groups = hierarchies()?.into_iter().map(|root| root.join(name));
    Ok(groups.filter(|group| group.exists()).collect())
}

/// The roots of the mounted hierarchies of control groups.
///
/// # Errors
/// Returns an error if they cannot be read.
pub fn hierarchies() -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/mounts").context("cannot read the mounts")?;
    let roots = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        matches!(kind, "cgroup" | "cgroup2").then(|| PathBuf::from(point))
    });
    Ok(roots.collect())
}

/// Removes a group with those in it, as far as no process is in them.
fn remove_group(group: &Path) {
    let below = fs::read_dir(group)
        .into_iter()
        .flatten()
        .filter_map(io::Result::ok);
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_group(&entry.path());
    }
    // One in which a process is stays.
    drop(fs::remove_dir(group));
}

/// Returns the directory that is mounted in the place of a host directory; `None` if the directory exists in the
/// container only.
fn of_site(site: &Site, mount: &Mount) -> Result<Option<PathBuf>> {
    let own = match mount.path.as_str() {
        "/etc/mcpmon" => {
            let directory = site.path("etc");
            fs::create_dir_all(&directory)?;
            fs::copy(site.policy(), directory.join("mcpmon.yaml"))?;
            directory
        }
        "/sys/fs/bpf" => site.path("bpf"),
        "/var/lib/mcpmon" => site.path("store"),
        "/run/mcpmon" => site.path("run"),
        _ => return Ok(mount.host.clone()),
    };
    if !own.exists() && own != site.path("bpf") {
        fs::create_dir(&own)?;
    }
    Ok(Some(own))
}

/// Returns the capabilities of this process, by their names in manifests. A container cannot have others.
fn held_capabilities() -> Result<Vec<String>> {
    let told = finish(Command::new("setpriv").arg("--dump"))?;
    let told = String::from_utf8(told.stdout)?;
    let bounding = told
        .lines()
        .find_map(|line| line.strip_prefix("Capability bounding set: "))
        .context("setpriv tells no capabilities")?;
    Ok(bounding.split(',').map(|name| name.to_uppercase()).collect())
}

/// Runs a command to its end, which must be successful.
fn finish(command: &mut Command) -> Result<Output> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
