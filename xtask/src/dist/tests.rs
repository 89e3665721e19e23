//! Tests of the tarball and its installer, with a program that only prints its arguments.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use super::{
    build::Source,
    container,
    contents::{Contents, Kind},
    tarball, target,
};
use crate::shell;

/// A program that answers the calls that packing makes to mcpmon.
const PROGRAM: &str = r#"#!/bin/sh
case $1 in
    completions) echo "completions for $2" ;;
    man) for page in mcpmon mcpmon-status; do echo "page $page" >"$3/$page.1"; done ;;
esac
"#;

const DIRECTORY: &str = "mcpmon-1.2.3-x86_64-unknown-linux-musl";

struct Packed {
    directory: TempDir,
    source: Source,
    contents: Contents,
    binary: PathBuf,
}

fn packed() -> Packed {
    let directory = tempfile::tempdir().expect("a directory");
    let binary = directory.path().join("mcpmon");
    fs::write(&binary, PROGRAM).expect("a program");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("a mode");
    let bill = directory.path().join("bill");
    fs::write(&bill, "{}").expect("a bill");
    let source = Source {
        directory: shell::repository().to_owned(),
        version: "1.2.3".to_owned(),
        commit: "c0ffee".to_owned(),
        date: 1_700_000_000,
        object: PathBuf::new(),
    };
    let root = directory.path().join("stage/files");
    let contents = Contents::stage(&source, &[], &binary, &bill, &root).expect("staged");
    Packed {
        directory,
        source,
        contents,
        binary,
    }
}

impl Packed {
    fn tarball(&self) -> PathBuf {
        let path = self.directory.path().join("mcpmon.tar.gz");
        tarball::write(&self.contents, DIRECTORY, &path).expect("a tarball");
        path
    }

    /// Unpacks the tarball, and returns its directory.
    fn unpacked(&self) -> PathBuf {
        let mut tar = Command::new("tar");
        tar.arg("-xzf")
            .arg(self.tarball())
            .arg("-C")
            .arg(self.directory.path());
        assert!(tar.status().expect("tar runs").success());
        self.directory.path().join(DIRECTORY)
    }
}

fn install(unpacked: &Path, root: &Path, arguments: &[&str]) -> Output {
    let mut script = Command::new(unpacked.join("install.sh"));
    script.args(arguments).env("DESTDIR", root);
    script.output().expect("the installer runs")
}

fn installed(unpacked: &Path, root: &Path, arguments: &[&str]) {
    let output = install(unpacked, root, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Returns all files below a directory, with their modes.
fn files(root: &Path) -> BTreeSet<(String, u32)> {
    let mut found = BTreeSet::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o7777;
            let name = path.strip_prefix(root).expect("below it").display().to_string();
            found.insert((name, mode));
        }
    }
    found
}

#[test]
fn archives_of_the_same_files_are_the_same_bytes() {
    let (one, other) = (packed(), packed());
    let read = |path: PathBuf| fs::read(path).expect("a file");
    assert_eq!(read(one.tarball()), read(other.tarball()));
    let image = |packed: &Packed| {
        let path = packed.directory.path().join("image.tar");
        container::write(&packed.source, &packed.binary, target::TARGETS[0], &path).expect("an image");
        read(path)
    };
    assert_eq!(image(&one), image(&other));
}

#[test]
fn packages_have_what_they_need_and_two_files_to_configure() {
    let contents = packed().contents;
    let kind = |path: &str| {
        let entry = contents.entries.iter().find(|entry| entry.path == path);
        entry.unwrap_or_else(|| panic!("{path} is missing")).kind
    };
    assert_eq!(kind("usr/bin/mcpmon"), Kind::Program);
    assert_eq!(kind("etc/mcpmon/mcpmon.yaml"), Kind::Configuration);
    assert_eq!(kind("etc/apparmor.d/mcpmon"), Kind::Configuration);
    assert_eq!(kind("usr/share/man/man1/mcpmon-status.1.gz"), Kind::Documentation);
    assert_eq!(kind("usr/lib/systemd/system/mcpmon.service"), Kind::Data);
    assert_eq!(kind("usr/share/doc/mcpmon/mcpmon.cdx.json"), Kind::Documentation);
    let configured = contents
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Configuration);
    assert_eq!(configured.count(), 2);
}

#[test]
fn the_installer_installs_and_takes_everything_back() {
    let packed = packed();
    let unpacked = packed.unpacked();
    let root = packed.directory.path().join("root");
    installed(&unpacked, &root, &["--prefix", "/opt/mcpmon"]);
    let found = files(&root);
    for (path, mode) in [
        ("opt/mcpmon/bin/mcpmon", 0o755),
        ("opt/mcpmon/share/man/man1/mcpmon.1.gz", 0o644),
        ("opt/mcpmon/share/mcpmon/installed", 0o644),
        ("etc/mcpmon/mcpmon.yaml", 0o644),
        ("etc/systemd/system/mcpmon.service", 0o644),
    ] {
        assert!(
            found.contains(&(path.to_owned(), mode)),
            "{path} {mode:o} in {found:?}"
        );
    }
    let unit = fs::read_to_string(root.join("etc/systemd/system/mcpmon.service")).expect("a unit");
    assert!(
        unit.contains("ExecStart=/opt/mcpmon/bin/mcpmon daemon\n"),
        "{unit}"
    );

    let policy = root.join("etc/mcpmon/mcpmon.yaml");
    fs::write(&policy, "version: 1\n").expect("changed");
    installed(&unpacked, &root, &["--prefix", "/opt/mcpmon"]);
    assert_eq!(fs::read_to_string(&policy).expect("it stays"), "version: 1\n");
    assert_eq!(files(&root), found, "a second time changes nothing");

    installed(&unpacked, &root, &["--uninstall", "--prefix", "/opt/mcpmon"]);
    let left: Vec<_> = files(&root).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, ["etc/mcpmon/mcpmon.yaml"]);
    installed(&unpacked, &root, &["--prefix", "/opt/mcpmon", "--no-service"]);
    assert!(!root.join("etc/systemd/system/mcpmon.service").exists());
    installed(
        &unpacked,
        &root,
        &["--uninstall", "--purge", "--prefix", "/opt/mcpmon"],
    );
    assert_eq!(files(&root), BTreeSet::new());
}

#[test]
fn the_installer_adds_a_profile_where_the_system_has_a_place_for_it() {
    let packed = packed();
    let unpacked = packed.unpacked();
    let root = packed.directory.path().join("root");
    let profile = root.join("etc/apparmor.d/mcpmon");
    installed(&unpacked, &root, &[]);
    assert!(!profile.exists(), "a system without AppArmor");
    fs::create_dir_all(root.join("etc/apparmor.d/local")).expect("directories");
    installed(&unpacked, &root, &["--prefix", "/opt/mcpmon"]);
    let text = fs::read_to_string(&profile).expect("a profile");
    assert!(text.contains("\n@{mcpmon}=/opt/mcpmon/bin/mcpmon\n"), "{text}");
    installed(&unpacked, &root, &["--uninstall"]);
    assert!(profile.exists(), "it is the other prefix's");
    installed(&unpacked, &root, &["--uninstall", "--prefix", "/opt/mcpmon"]);
    assert!(!profile.exists());
}

#[test]
fn the_profile_allows_the_capabilities_of_the_unit() {
    let read = |path: &str| fs::read_to_string(shell::repository().join(path)).expect("a file");
    let unit = read("deploy/systemd/mcpmon.service");
    let of_unit = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let of_unit: BTreeSet<_> = of_unit
        .expect("the unit names them")
        .split(' ')
        .map(|name| name.trim_start_matches("CAP_").to_lowercase())
        .collect();
    let profile = read("deploy/apparmor/mcpmon");
    let of_profile: BTreeSet<_> = profile
        .lines()
        .filter_map(|line| line.trim().strip_prefix("capability ")?.strip_suffix(','))
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(of_profile, of_unit);
}

/// Adds a file to an unpacked tarball, as if its version had that file.
fn add(unpacked: &Path, path: &str) {
    let content = b"of that version";
    let file = unpacked.join(path);
    fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    fs::write(&file, content).expect("a file");
    let list = unpacked.join("SHA256SUMS");
    let sums = fs::read_to_string(&list).expect("sums");
    let sum = format!("{}  {path}\n", tarball::hexadecimal(content));
    fs::write(&list, sums + &sum).expect("sums");
}

#[test]
fn what_only_a_former_version_had_goes_with_the_next_one() {
    let (former, next) = (packed(), packed());
    let root = next.directory.path().join("root");
    let next = next.unpacked();
    installed(&next, &root, &[]);
    let expected = files(&root);

    let former = former.unpacked();
    add(&former, "usr/share/man/man7/former.7");
    installed(&former, &root, &[]);
    assert_eq!(files(&root).len(), expected.len() + 1);
    installed(&next, &root, &["--no-service"]);
    assert_eq!(files(&root), expected, "the service stays as it was");
    assert!(!root.join("usr/local/share/man/man7").exists());
}

#[test]
fn an_interrupted_installation_is_removed_whole() {
    let packed = packed();
    let unpacked = packed.unpacked();
    let root = packed.directory.path().join("root");
    // A file has the name of the last directory, so the installation fails there.
    let in_the_way = root.join("usr/local/share/zsh");
    fs::create_dir_all(in_the_way.parent().expect("a directory")).expect("a directory");
    fs::write(&in_the_way, "").expect("a file");
    assert!(!install(&unpacked, &root, &[]).status.success());
    assert!(root.join("usr/local/bin/mcpmon").exists());
    installed(&unpacked, &root, &["--uninstall", "--purge"]);
    let left: Vec<_> = files(&root).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, ["usr/local/share/zsh"]);
}

#[test]
fn a_service_of_another_prefix_stays_when_one_is_removed() {
    let packed = packed();
    let unpacked = packed.unpacked();
    let root = packed.directory.path().join("root");
    let unit = root.join("etc/systemd/system/mcpmon.service");
    installed(&unpacked, &root, &["--prefix", "/opt/one"]);
    installed(&unpacked, &root, &["--prefix", "/opt/other"]);
    let purged = install(
        &unpacked,
        &root,
        &["--uninstall", "--purge", "--prefix", "/opt/one"],
    );
    assert_eq!(purged.status.code(), Some(3), "{purged:?}");
    installed(&unpacked, &root, &["--uninstall", "--prefix", "/opt/one"]);
    assert!(!root.join("opt/one/bin").exists());
    assert!(unit.exists() && root.join("opt/other/bin/mcpmon").exists());
    installed(
        &unpacked,
        &root,
        &["--uninstall", "--purge", "--prefix", "/opt/other"],
    );
    assert_eq!(files(&root), BTreeSet::new());
}

#[test]
fn the_installer_leaves_a_package_its_service() {
    let packed = packed();
    let unpacked = packed.unpacked();
    let root = packed.directory.path().join("root");
    let of_package = root.join("usr/lib/systemd/system/mcpmon.service");
    fs::create_dir_all(of_package.parent().expect("a directory")).expect("a directory");
    fs::write(&of_package, "").expect("a unit");
    assert_eq!(install(&unpacked, &root, &[]).status.code(), Some(3));
    assert_eq!(files(&root).len(), 1, "nothing was installed");
    installed(&unpacked, &root, &["--no-service"]);
    let purged = install(&unpacked, &root, &["--uninstall", "--purge"]);
    assert_eq!(purged.status.code(), Some(3), "the package's configuration stays");
    let removed = install(&unpacked, &root, &["--uninstall"]);
    let told = String::from_utf8_lossy(&removed.stdout);
    assert!(removed.status.success() && told.contains("it stays"), "{told}");
    assert!(of_package.exists());
}

#[test]
fn a_changed_file_is_not_installed() {
    let packed = packed();
    let unpacked = packed.unpacked();
    let root = packed.directory.path().join("root");
    fs::write(unpacked.join("usr/bin/mcpmon"), "#!/bin/sh\necho another\n").expect("changed");
    let output = install(&unpacked, &root, &[]);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("nothing was installed"), "{told}");
    assert!(!root.exists());
}

#[test]
fn the_installer_refuses_what_it_does_not_understand() {
    let packed = packed();
    let unpacked = packed.unpacked();
    let root = packed.directory.path().join("root");
    for (arguments, expected) in [
        (&["--frobnicate"][..], 2),
        (&["--prefix"], 2),
        (&["--prefix", "relative"], 2),
        (&["--prefix", "/usr"], 2),
        (&["--prefix", "/usr//"], 2),
        (&["--prefix", "/opt/../usr"], 2),
        (&["--prefix", "/opt/a b"], 2),
        (&["--prefix", "/opt/a&b"], 2),
        (&["--prefix", "/opt/a|b"], 2),
        (&["--prefix", "/opt/%h"], 2),
        (&["--prefix", "/opt/a\nb"], 2),
        (&["--purge"], 2),
        (&["--start", "--no-service"], 2),
        (&["--uninstall"], 3),
    ] {
        let output = install(&unpacked, &root, arguments);
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    assert!(!root.exists());
}
