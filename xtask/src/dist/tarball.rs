//! Archives with fixed owners, times and order.

use std::{collections::BTreeSet, fs, io::Cursor, path::Path};

use anyhow::{Context as _, Result};
use mcpmon_model::Digest;
use tar::{Builder, EntryType, Header};

use super::contents::{Contents, gzip};

/// The script that installs the files of the tarball.
const INSTALLER: &str = "deploy/packages/install.sh";

/// The name of the list that the installer compares files with.
const SUMS: &str = "SHA256SUMS";

/// Writes the tarball: the installer, the checksums of all files, and the files.
pub(super) fn write(contents: &Contents, directory: &str, to: &Path) -> Result<()> {
    let mut archive = Archive::new(contents.date);
    let mut sums = String::new();
    let mut files = Vec::new();
    for entry in &contents.entries {
        let content = fs::read(contents.root.join(&entry.path))?;
        sums += &format!("{}  {}\n", hexadecimal(&content), entry.path);
        files.push((format!("{directory}/{}", entry.path), entry.mode(), content));
    }
    files.push((format!("{directory}/{SUMS}"), 0o644, sums.into_bytes()));
    let installer = fs::read(contents.repository.join(INSTALLER))?;
    files.push((format!("{directory}/install.sh"), 0o755, installer));
    files.sort();
    for (path, mode, content) in files {
        archive.add(&path, mode, &content)?;
    }
    let bytes = gzip(&archive.finish()?)?;
    fs::write(to, bytes).with_context(|| format!("could not write {}", to.display()))
}

/// Returns the SHA-256 of a content, as `sha256sum` prints it.
pub(super) fn hexadecimal(content: &[u8]) -> String {
    let digest = Digest::of(content).to_string();
    digest.trim_start_matches("sha256:").to_owned()
}

/// A tar archive whose files all belong to root.
pub(super) struct Archive {
    builder: Builder<Vec<u8>>,
    directories: BTreeSet<String>,
    date: u64,
}

impl Archive {
    pub(super) fn new(date: u64) -> Self {
        Self {
            builder: Builder::new(Vec::new()),
            directories: BTreeSet::new(),
            date,
        }
    }

    /// Adds a file after the directories above it.
    pub(super) fn add(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        for (end, _) in path.match_indices('/') {
            let directory = &path[..=end];
            if self.directories.insert(directory.to_owned()) {
                self.append(directory, EntryType::Directory, 0o755, &[])?;
            }
        }
        self.append(path, EntryType::Regular, mode, content)
    }

    fn append(&mut self, path: &str, kind: EntryType, mode: u32, content: &[u8]) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(self.date);
        header.set_size(content.len() as u64);
        self.builder
            .append_data(&mut header, path, Cursor::new(content))
            .with_context(|| format!("could not pack {path}"))
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.builder.into_inner()?)
    }
}
