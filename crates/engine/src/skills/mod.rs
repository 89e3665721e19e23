//! Skills that a server offers: the manifests in their entries, and the check of files against them.
//!
//! An entry (SEP-2640) names each file of a skill with its size and digest. That does not prove who wrote it, because
//! the server sends both; but a person accepts the entry, and files that are read later have to match it.

mod frontmatter;

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mcpmon_detect::meaning::uris;
use mcpmon_model::{DefinitionKind, DefinitionRecord, Digest, RawJson};

/// The file that every skill has at its root.
const MAIN_FILE: &str = "/SKILL.md";
/// Most files of a skill: what every client has to support.
const MAX_FILES: usize = 512;

/// The entry of a skill, read.
#[derive(Debug)]
pub(crate) struct Skill<'a> {
    uri: Cow<'a, str>,
    frontmatter: RawJson<'a>,
    files: SkillFiles,
}

/// The files of a skill.
#[derive(Debug)]
enum SkillFiles {
    /// Every one of them, by its URI.
    Listed(BTreeMap<String, SkillFile>),
    /// They are made when they are read: nothing is known of them.
    Dynamic,
}

/// A file, as its manifest has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SkillFile {
    digest: Digest,
    size: u64,
}

/// A content of a resource that was read: its own URI, if it has one, and its bytes.
type ResourceContent = (Option<String>, Vec<u8>);

/// The reason why an entry is invalid, or why a read file is not the one that its entry describes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SkillError(Cow<'static, str>);

impl From<&'static str> for SkillError {
    fn from(cause: &'static str) -> Self {
        Self(cause.into())
    }
}

impl From<String> for SkillError {
    fn from(cause: String) -> Self {
        Self(cause.into())
    }
}

impl<'a> Skill<'a> {
    /// Reads an entry.
    ///
    /// # Errors
    /// Returns an error if the entry is not what the extension requires: such a skill must not be loaded.
    pub(crate) fn parse(entry: RawJson<'a>) -> Result<Self, SkillError> {
        let uri = entry
            .member("uri")
            .and_then(RawJson::text)
            .ok_or("it has no URI")?;
        let root = root(&uri).ok_or("its URI does not end in /SKILL.md")?;
        let frontmatter = entry.member("frontmatter").ok_or("it has no frontmatter")?;
        let text = |member: &str| frontmatter.member(member).and_then(RawJson::text);
        let name = text("name").ok_or("its frontmatter has no name")?;
        text("description").ok_or("its frontmatter has no description")?;
        if root.rsplit('/').next() != Some(&*name) {
            return Err("its name is not the last part of its path".into());
        }
        let resources = entry.member("resources").ok_or("it names no files")?;
        let files = match resources.text() {
            Some(text) if text == "dynamic" => SkillFiles::Dynamic,
            _ if resources.as_str().starts_with('[') => SkillFiles::Listed(files(&uri, root, resources)?),
            Some(_) | None => return Err("its files are neither a list nor dynamic".into()),
        };
        Ok(Self {
            uri,
            frontmatter,
            files,
        })
    }

    /// Checks that a URI in the directory of this skill is that of one of its files.
    ///
    /// # Errors
    /// Returns an error if the manifest does not name it: a file that it does not name is a change of the skill.
    pub(crate) fn admits(&self, uri: &str) -> Result<(), SkillError> {
        match &self.files {
            SkillFiles::Listed(files) if !files.contains_key(uri) => {
                Err("the manifest does not name this file".into())
            }
            SkillFiles::Listed(_) | SkillFiles::Dynamic => Ok(()),
        }
    }

    /// Checks a file that was read from `uri` in the directory of this skill.
    ///
    /// # Errors
    /// Returns an error if it is not the file that the manifest describes, or, for the main file, if its frontmatter is not
    /// that of the entry.
    pub(crate) fn verify(&self, uri: &str, content: &[u8]) -> Result<(), SkillError> {
        self.admits(uri)?;
        if let SkillFiles::Listed(files) = &self.files
            && let Some(file) = files.get(uri)
        {
            let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
            if size != file.size {
                return Err(format!("the manifest says {} bytes, and {size} came", file.size).into());
            }
            let digest = Digest::of(content);
            if digest != file.digest {
                let (told, came) = (file.digest.short(12), digest.short(12));
                return Err(format!("the manifest says {told}, and {came} came").into());
            }
        }
        match uri == self.uri {
            true => frontmatter::verify(self.frontmatter, content),
            false => Ok(()),
        }
    }
}

/// Returns whether a URI is in the directory of the skill at `skill`, in any of the ways in which it can be read.
pub(crate) fn contains(skill: &str, uri: &str) -> bool {
    let Some(root) = root(skill) else { return false };
    let is_within = |uri: &str, root: &str| {
        uri.strip_prefix(root)
            .is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
    };
    is_within(uri, root) || {
        let roots = uris(root);
        let forms = uris(uri);
        forms
            .iter()
            .any(|form| roots.iter().any(|root| is_within(form, root)))
    }
}

/// Returns whether a recorded definition is a skill whose files are made when they are read.
pub(crate) fn is_dynamic(record: &DefinitionRecord) -> bool {
    record.key.kind == DefinitionKind::Skill && record.seen.text_of("resources").as_deref() == Some("dynamic")
}

/// Returns the entry with its files sorted by URI, which has the same meaning; `None` if they are sorted already.
pub(crate) fn in_order(entry: RawJson<'_>) -> Option<String> {
    let resources = entry.member("resources")?;
    if resources.items().map(uri_of).is_sorted() {
        return None;
    }
    let mut files: Vec<RawJson<'_>> = resources.items().collect();
    files.sort_by_cached_key(|file| uri_of(*file));
    let files: Vec<&str> = files.into_iter().map(RawJson::as_str).collect();
    let members = entry.members().map(|(name, value)| {
        let value = match name == "resources" {
            true => Cow::Owned(format!("[{}]", files.join(","))),
            false => Cow::Borrowed(value.as_str()),
        };
        format!("{}:{value}", RawJson::quoted(&name))
    });
    Some(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
}

/// Returns the contents of a resource that was read, each with its URI.
///
/// # Errors
/// Returns an error if readers can understand them differently.
pub(crate) fn contents(result: RawJson<'_>) -> Result<Vec<ResourceContent>, SkillError> {
    let contents = one(result, "contents")?.ok_or("there are no contents")?;
    contents
        .items()
        .map(|item| {
            let uri = one(item, "uri")?.and_then(RawJson::text).map(Cow::into_owned);
            let bytes = match (one(item, "text")?, one(item, "blob")?) {
                (Some(text), None) => {
                    let text = text.text().ok_or("the text is no string")?;
                    text.into_owned().into_bytes()
                }
                (None, Some(blob)) => {
                    let blob = blob.text().ok_or("the blob is no string")?;
                    STANDARD
                        .decode(blob.as_bytes())
                        .map_err(|_error| "the blob is no base64")?
                }
                (Some(_), Some(_)) => return Err("there are a text and a blob".into()),
                (None, None) => return Err("there is neither text nor blob".into()),
            };
            Ok((uri, bytes))
        })
        .collect()
}

/// Returns the URI in an object.
pub(crate) fn uri_of(object: RawJson<'_>) -> Option<Cow<'_, str>> {
    object.member("uri").and_then(RawJson::text)
}

/// Returns the only member of this name. Another spelling, or a second member, is an error, because readers differ
/// about it.
fn one<'j>(object: RawJson<'j>, name: &str) -> Result<Option<RawJson<'j>>, SkillError> {
    let mut found = None;
    for (member, value) in object.members() {
        if !member.eq_ignore_ascii_case(name) {
            continue;
        }
        if member != name || found.replace(value).is_some() {
            return Err(format!("{name} is there twice, or in another spelling").into());
        }
    }
    Ok(found)
}

/// Reads the files that a manifest names.
fn files(uri: &str, root: &str, resources: RawJson<'_>) -> Result<BTreeMap<String, SkillFile>, SkillError> {
    let mut files = BTreeMap::new();
    for file in resources.items() {
        if files.len() >= MAX_FILES {
            return Err(format!("it has more than {MAX_FILES} files").into());
        }
        let name = file.member("uri").and_then(RawJson::text);
        let name = name.ok_or("a file has no URI")?;
        if !is_below(root, &name) {
            return Err("a file is outside its directory".into());
        }
        let digest = file.member("digest").and_then(RawJson::text);
        let digest = digest
            .as_deref()
            .and_then(sha256)
            .ok_or("a digest is no sha256:HEX")?;
        let size = file.member("size").and_then(|size| size.as_str().parse().ok());
        let size = size.ok_or("a size is no number of bytes")?;
        if files
            .insert(name.into_owned(), SkillFile { digest, size })
            .is_some()
        {
            return Err("a file is named twice".into());
        }
    }
    match files.contains_key(uri) {
        true => Ok(files),
        false => Err("its manifest does not name SKILL.md".into()),
    }
}

/// Returns the directory of a skill, without a `/` at its end.
fn root(skill: &str) -> Option<&str> {
    skill.strip_suffix(MAIN_FILE).filter(|root| !root.is_empty())
}

/// Returns whether a URI is that of a file below `root`, without `..` in its path.
fn is_below(root: &str, uri: &str) -> bool {
    let Some(path) = uri.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) else {
        return false;
    };
    path.split(['/', '\\']).all(|step| {
        let step = step.to_ascii_lowercase().replace("%2e", ".");
        !matches!(&*step, "" | "." | "..") && !step.contains("%2f") && !step.contains("%5c")
    })
}

/// Returns the digest in `sha256:HEX`, which has to be in lower case, as the extension requires.
fn sha256(text: &str) -> Option<Digest> {
    let digits = text.strip_prefix("sha256:")?;
    let is_lower = !digits.bytes().any(|byte| byte.is_ascii_uppercase());
    digits.parse().ok().filter(|_| is_lower)
}

#[cfg(test)]
mod tests;
