//! The files that every package installs, collected once.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, GzBuilder};

use super::build::Source;

/// A file of the packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The path below the root, without a leading slash.
    pub(super) path: String,
    pub(super) kind: Kind,
}

/// The kinds of files that package managers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Program,
    /// A file in which the administrator's changes are kept.
    Configuration,
    Documentation,
    Data,
}

impl Entry {
    /// Returns the permission bits.
    pub(super) const fn mode(&self) -> u32 {
        match self.kind {
            Kind::Program => 0o755,
            Kind::Configuration | Kind::Documentation | Kind::Data => 0o644,
        }
    }
}

/// All files, staged below one directory.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) version: String,
    /// The date of every archive, in seconds since 1970.
    pub(super) date: u64,
    /// The repository's files, for files that only one of the packages has.
    pub(super) repository: PathBuf,
    pub(super) root: PathBuf,
    /// The files, sorted by path.
    pub(super) entries: Vec<Entry>,
}

/// Files of the repository, and the paths at which they are installed.
const COPIED: [(&str, &str, Kind); 11] = [
    (
        "deploy/systemd/mcpmon.service",
        "usr/lib/systemd/system/mcpmon.service",
        Kind::Data,
    ),
    (
        "deploy/systemd/mcpmon-proxy.socket",
        "usr/lib/systemd/system/mcpmon-proxy.socket",
        Kind::Data,
    ),
    (
        "deploy/systemd/mcpmon.sysusers.conf",
        "usr/lib/sysusers.d/mcpmon.conf",
        Kind::Data,
    ),
    (
        "deploy/apparmor/mcpmon",
        "etc/apparmor.d/mcpmon",
        Kind::Configuration,
    ),
    (
        "policies/default.yaml",
        "etc/mcpmon/mcpmon.yaml",
        Kind::Configuration,
    ),
    (
        "policies/observe.yaml",
        "usr/share/doc/mcpmon/examples/observe.yaml",
        Kind::Documentation,
    ),
    (
        "policies/strict.yaml",
        "usr/share/doc/mcpmon/examples/strict.yaml",
        Kind::Documentation,
    ),
    (
        "policies/agentshield.yaml",
        "usr/share/doc/mcpmon/examples/agentshield.yaml",
        Kind::Documentation,
    ),
    (
        "policies/schema.json",
        "usr/share/doc/mcpmon/examples/schema.json",
        Kind::Documentation,
    ),
    (
        "SECURITY.md",
        "usr/share/doc/mcpmon/SECURITY.md",
        Kind::Documentation,
    ),
    ("LICENSE", "usr/share/doc/mcpmon/LICENSE", Kind::Documentation),
];

/// Shells, and the path at which each looks for the completions of a command.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/mcpmon"),
    ("fish", "usr/share/fish/vendor_completions.d/mcpmon.fish"),
    ("zsh", ZSH),
];

/// The completions of zsh, for which Debian has another path.
pub(super) const ZSH: &str = "usr/share/zsh/site-functions/_mcpmon";

impl Contents {
    /// Copies and generates every file below `root`; `runner` is the command by which the binary runs here.
    pub(super) fn stage(
        source: &Source,
        runner: &[String],
        binary: &Path,
        bill: &Path,
        root: &Path,
    ) -> Result<Self> {
        let mut staged = Self {
            version: source.version.clone(),
            date: source.date,
            repository: source.directory.clone(),
            root: root.to_owned(),
            entries: Vec::new(),
        };
        staged.copy(binary, "usr/bin/mcpmon", Kind::Program)?;
        staged.copy(bill, "usr/share/doc/mcpmon/mcpmon.cdx.json", Kind::Documentation)?;
        for (from, to, kind) in COPIED {
            staged.copy(&source.directory.join(from), to, kind)?;
        }
        let changes = read(&source.directory.join("CHANGELOG.md"))?;
        staged.add(
            "usr/share/doc/mcpmon/changelog.gz",
            &gzip(&changes)?,
            Kind::Documentation,
        )?;
        let mcpmon = |arguments: &[&str]| printed(runner, binary, arguments);
        for (shell, path) in COMPLETIONS {
            staged.add(path, &mcpmon(&["completions", shell])?, Kind::Data)?;
        }
        let pages = root.with_file_name("man");
        super::empty(&pages)?;
        mcpmon(&["man", "--directory", &pages.to_string_lossy()])?;
        for page in fs::read_dir(&pages)? {
            let page = page?;
            let path = format!("usr/share/man/man1/{}.gz", page.file_name().display());
            staged.add(&path, &gzip(&read(&page.path())?)?, Kind::Documentation)?;
        }
        staged.entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(staged)
    }

    fn copy(&mut self, from: &Path, path: &str, kind: Kind) -> Result<()> {
        self.add(path, &read(from)?, kind)
    }

    fn add(&mut self, path: &str, content: &[u8], kind: Kind) -> Result<()> {
        ensure!(!content.is_empty(), "{path} would be empty");
        let entry = Entry {
            path: path.to_owned(),
            kind,
        };
        let file = self.root.join(path);
        let parent = file.parent().context("a file without a directory")?;
        fs::create_dir_all(parent).with_context(|| format!("could not create {}", parent.display()))?;
        fs::write(&file, content).with_context(|| format!("could not write {}", file.display()))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(entry.mode()))
            .with_context(|| format!("could not change the mode of {}", file.display()))?;
        self.entries.push(entry);
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("could not read {}", path.display()))
}

/// Compresses `content`. The same content gives the same bytes, because the header has no name and no time.
pub(super) fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

/// Returns the output of the binary.
fn printed(runner: &[String], binary: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut words = runner.iter().map(AsRef::as_ref).chain([binary.as_os_str()]);
    let mut command = Command::new(words.next().expect("the binary, if nothing else"));
    let output = command
        .args(words)
        .args(arguments)
        .output()
        .with_context(|| format!("could not run {}", binary.display()))?;
    ensure!(
        output.status.success(),
        "{} {} failed: {}",
        binary.display(),
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
