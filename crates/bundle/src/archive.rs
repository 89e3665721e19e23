//! The archive: `manifest.json` and the files, as a tar that can be written in one form only.

use std::io::{Cursor, Read as _};

use mcpmon_model::Digest;
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, EntryType, Header};

use crate::{
    MAX_BUNDLE_BYTES, MAX_FILE_BYTES,
    error::BundleError,
    manifest::{FORMAT, Manifest, ManifestFile},
};

/// The name of the manifest in the archive.
const MANIFEST: &str = "manifest.json";
/// Bytes of zeros that end an archive.
pub(crate) const END_BYTES: usize = 1024;

/// The files that a bundle can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BundleFile {
    /// The policy; every bundle has it.
    Policy,
    /// Findings that are known and accepted.
    Suppressions,
    /// Definitions that are known to be good.
    Pins,
}

impl BundleFile {
    /// Every file, in the order of the archive.
    pub const ALL: [Self; 3] = [Self::Policy, Self::Suppressions, Self::Pins];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy.yaml",
            Self::Suppressions => "suppressions.yaml",
            Self::Pins => "pins.yaml",
        }
    }

    /// Returns the file of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|file| file.name() == name)
    }
}

/// A bundle without its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The description of the bundle: serial, name, times, and the digests of its files.
    pub manifest: Manifest,
    /// Its files, each once, in the order of [`BundleFile::ALL`].
    pub files: Vec<(BundleFile, String)>,
}

impl Bundle {
    /// Creates a bundle of these files; `format` and `files` of `manifest` are filled in.
    ///
    /// # Errors
    /// Returns an error if the manifest is invalid, a file is missing, or anything is too large.
    pub fn new(manifest: Manifest, mut files: Vec<(BundleFile, String)>) -> Result<Self, BundleError> {
        files.sort_by_key(|(file, _)| *file);
        let named = files.iter().map(|(file, text)| ManifestFile {
            name: file.name().to_owned(),
            size: text.len() as u64,
            sha256: Digest::of(text.as_bytes()),
        });
        let manifest = Manifest {
            format: FORMAT,
            files: named.collect(),
            ..manifest
        };
        // Parsed like on a host, so that only valid bundles are written.
        Self::parse(&encode(&manifest.to_json(), &files))
    }

    /// Returns the archive.
    pub fn to_tar(&self) -> Vec<u8> {
        encode(&self.manifest.to_json(), &self.files)
    }

    /// Reads an archive without a signature.
    ///
    /// # Errors
    /// Returns an error if it is not exactly what [`Self::to_tar`] writes.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        if bytes.len() > MAX_BUNDLE_BYTES {
            return Err(BundleError::TooLarge);
        }
        let mut manifest = None;
        let mut files: Vec<(BundleFile, String)> = Vec::new();
        let mut archive = Archive::new(Cursor::new(bytes));
        let broken = |error: std::io::Error| BundleError::Archive(error.to_string());
        for entry in archive.entries().map_err(broken)?.raw(true) {
            let mut entry = entry.map_err(broken)?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            check_entry(&name, entry.header())?;
            let mut content = Vec::new();
            entry.read_to_end(&mut content).map_err(broken)?;
            let text =
                String::from_utf8(content).map_err(|_no_text| BundleError::NotText { name: name.clone() })?;
            let is_twice = match BundleFile::named(&name) {
                None => manifest.replace(text).is_some(),
                Some(file) => {
                    let is_twice = files.iter().any(|(known, _)| *known == file);
                    files.push((file, text));
                    is_twice
                }
            };
            if is_twice {
                return Err(BundleError::Twice { name });
            }
        }
        let text = manifest.ok_or(BundleError::Missing { name: MANIFEST })?;
        let manifest = Manifest::parse(&text)?;
        if !files.iter().any(|(file, _)| *file == BundleFile::Policy) {
            return Err(BundleError::Missing {
                name: BundleFile::Policy.name(),
            });
        }
        manifest.check_files(&files)?;
        // Nothing in a bundle may have two meanings for different readers of tar.
        if encode(text.as_bytes(), &files) != bytes || !files.is_sorted_by_key(|(file, _)| *file) {
            return Err(BundleError::NotCanonical);
        }
        Ok(Self { manifest, files })
    }
}

/// Checks the type and size of an entry before its content is read.
fn check_entry(name: &str, header: &Header) -> Result<(), BundleError> {
    let name = name.to_owned();
    let kind = header.entry_type();
    if kind != EntryType::Regular {
        let kind = if matches!(kind, EntryType::Symlink | EntryType::Link) {
            "a link".to_owned()
        } else if kind == EntryType::Directory {
            "a directory".to_owned()
        } else {
            format!("of the type {:?}", char::from(kind.as_byte()))
        };
        return Err(BundleError::NotAFile { name, kind });
    }
    if name.contains('/') || name.contains("..") {
        return Err(BundleError::Path { name });
    }
    if name != MANIFEST && BundleFile::named(&name).is_none() {
        return Err(BundleError::UnknownEntry { name });
    }
    match header.entry_size() {
        Ok(size) if size <= MAX_FILE_BYTES as u64 => Ok(()),
        Ok(_) | Err(_) => Err(BundleError::FileTooLarge { name }),
    }
}

/// Writes the archive.
fn encode(manifest: &[u8], files: &[(BundleFile, String)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let files = files.iter().map(|(file, text)| (file.name(), text.as_bytes()));
    for (name, content) in [(MANIFEST, manifest)].into_iter().chain(files) {
        builder
            .append(&header(name, content.len()), content)
            .expect("memory takes every byte");
    }
    builder.into_inner().expect("memory takes every byte")
}

/// Returns the header of a file. It contains nothing of the builder, so that the same files give the same bytes.
pub(crate) fn header(name: &str, size: usize) -> Header {
    let mut header = Header::new_ustar();
    header.set_path(name).expect("a short plain name");
    header.set_entry_type(EntryType::Regular);
    header.set_size(size as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    header
}
