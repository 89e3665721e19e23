//! The origin of a package: what its installer recorded about the registry from which it came.
//!
//! The origin is not verified: a program that can write the package can write the record too. It shows a user which
//! release runs, and is compared with what a registry says.

use std::{
    ffi::OsStr,
    fmt,
    path::{Component, Path, PathBuf},
};

use mcpmon_model::{Ecosystem, PackageOrigin};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use super::{locks, python::normalise, registry_entry, root::Root};

/// Largest lock file of npm that is read, bytes; only one entry of it is kept in memory.
pub(super) const MAX_NPM_LOCK: u64 = 8 << 20;
/// Largest `uv.lock` that is read, bytes; all of it is in memory for a moment.
const MAX_UV_LOCK: u64 = 1 << 20;
/// Largest record of another kind that is read, bytes.
pub(super) const MAX_NOTE: u64 = 1 << 20;
/// Longest text that is used from a record, bytes; a longer one is left out.
const MAX_TEXT: usize = 1024;
/// Levels above an environment in which its lock file is looked for.
pub(super) const MAX_ABOVE: usize = 2;

/// The fields of a `package.json` or of an entry in npm's lock file that are read.
#[derive(Debug, Default, Deserialize)]
struct NpmNote {
    name: Option<String>,
    version: Option<String>,
    resolved: Option<String>,
    integrity: Option<String>,
    #[serde(rename = "mcpName", default, deserialize_with = "if_text")]
    registry_name: Option<String>,
}

/// Reads a member, and ignores it unless it is a text: other values do not invalidate the rest.
pub(super) fn if_text<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<String>, D::Error> {
    let value = Value::deserialize(reader)?;
    Ok(value.as_str().map(str::to_owned))
}

/// Returns the origin of an npm package, from the lock file in the outermost `node_modules`, or from its own
/// `package.json` if it was installed without a lock file.
pub(super) fn of_node(root: &Root, package: &Path, base: &Path) -> Option<PackageOrigin> {
    let place = package.strip_prefix(base).ok()?;
    // A package outside `node_modules` is a checkout, and did not come from a registry.
    let parts: Vec<&str> = place.components().map(component).collect::<Option<_>>()?;
    let at = parts.iter().rposition(|part| *part == "node_modules")?;
    let lock = text(root, &base.join("node_modules/.package-lock.json"), MAX_NPM_LOCK);
    let noted = lock.and_then(|lock| note(&lock, &["packages", place.to_str()?]));
    let noted = noted.unwrap_or_default();
    let own: NpmNote = json(root, &package.join("package.json")).unwrap_or_default();
    let registry_entry = registry_entry::of_node(root, package, own.registry_name.as_deref());
    let either = |noted: Option<String>, own: Option<String>| short(&noted.or(own)?);
    let directory = parts[at + 1..].join("/");
    // An alias is installed under another name than the package's own.
    let name = either(noted.name, own.name).or_else(|| short(&directory))?;
    let version = either(noted.version, own.version)?;
    let (resolved, integrity) = match (noted.resolved, noted.integrity) {
        (None, None) => locks::of_node(root, base, &directory, &name, &version).unwrap_or_default(),
        (resolved, integrity) => (
            resolved.as_deref().and_then(location),
            integrity.as_deref().and_then(short),
        ),
    };
    Some(PackageOrigin {
        ecosystem: Ecosystem::Npm,
        name,
        version,
        resolved,
        integrity,
        registry_entry,
    })
}

fn component(part: Component<'_>) -> Option<&str> {
    let Component::Normal(name) = part else {
        return None;
    };
    name.to_str()
}

/// Returns the entry of a JSON text at this path; the rest is not kept in memory.
fn note(text: &str, way: &[&str]) -> Option<NpmNote> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Way(way).deserialize(&mut reader).ok()?
}

struct Way<'w>(&'w [&'w str]);

impl<'de> DeserializeSeed<'de> for Way<'_> {
    type Value = Option<NpmNote>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => NpmNote::deserialize(deserializer).map(Some),
            [_, ..] => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Way<'_> {
    type Value = Option<NpmNote>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<String>()? {
            match self.0 {
                [wanted, rest @ ..] if name == *wanted => found = members.next_value_seed(Way(rest))?,
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Returns the origin of a Python distribution with this `.dist-info`, from PEP 610, or from the lock file (of uv or
/// poetry) of the project of its environment.
pub(super) fn of_python(root: &Root, metadata: &Path, environment: &Path) -> Option<PackageOrigin> {
    let headers = text(root, &metadata.join("METADATA"), MAX_NOTE)?;
    let header = |name: &str| {
        let mut headers = headers.lines().take_while(|line| !line.is_empty());
        short(
            headers
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?
                .trim(),
        )
    };
    let (name, version) = (header("Name")?, header("Version")?);
    let (resolved, integrity) = direct(root, metadata)
        .or_else(|| locked(root, metadata, environment, &name, &version))
        .unwrap_or_default();
    Some(PackageOrigin {
        ecosystem: Ecosystem::Pypi,
        name,
        version,
        resolved,
        integrity,
        registry_entry: registry_entry::of_python(root, metadata, &headers),
    })
}

/// The URL from which an archive was fetched, and its digest.
pub(super) type Source = (Option<String>, Option<String>);

/// The fields of a `direct_url.json` that are read.
#[derive(Debug, Deserialize)]
struct DirectUrl {
    url: String,
    archive_info: Option<ArchiveNote>,
    vcs_info: Option<RepositoryNote>,
}

#[derive(Debug, Deserialize)]
struct ArchiveNote {
    hashes: Option<HashNote>,
}

#[derive(Debug, Deserialize)]
struct HashNote {
    sha256: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RepositoryNote {
    commit_id: Option<String>,
}

/// Returns the source in a `direct_url.json`: the user named an archive or a repository instead of a registry.
fn direct(root: &Root, metadata: &Path) -> Option<Source> {
    let noted: DirectUrl = json(root, &metadata.join("direct_url.json"))?;
    let digest = noted.archive_info.and_then(|archive| archive.hashes?.sha256);
    let commit = noted.vcs_info.and_then(|repository| repository.commit_id);
    let prefixed = |kind: &str, text: Option<String>| Some(format!("{kind}:{}", short(&text?)?));
    let integrity = prefixed("sha256", digest).or_else(|| prefixed("commit", commit));
    Some((location(&noted.url), integrity))
}

/// The fields of a lock file of uv that are read.
#[derive(Debug, Deserialize)]
struct UvLock {
    #[serde(default)]
    package: Vec<LockedPackage>,
}

#[derive(Debug, Deserialize)]
struct LockedPackage {
    name: String,
    version: Option<String>,
    sdist: Option<LockedFile>,
    #[serde(default)]
    wheels: Vec<LockedFile>,
}

#[derive(Debug, Deserialize)]
struct LockedFile {
    url: Option<String>,
    hash: Option<String>,
}

/// Returns the source in the project's lock file, if the tool of the lock file was the installer: the wheel with the
/// tags of the installed one, or the source distribution if there is no wheel.
fn locked(root: &Root, metadata: &Path, environment: &Path, name: &str, version: &str) -> Option<Source> {
    let installer = text(root, &metadata.join("INSTALLER"), MAX_NOTE)?;
    let tags = text(root, &metadata.join("WHEEL"), MAX_NOTE).unwrap_or_default();
    let tags: Vec<&str> = tags
        .lines()
        .filter_map(|line| line.strip_prefix("Tag: "))
        .collect();
    // Poetry writes its name with a capital letter, followed by its version.
    match installer.split_whitespace().next()?.to_ascii_lowercase().as_str() {
        "uv" => of_uv(root, environment, name, version, &tags),
        "poetry" => locks::of_poetry(root, environment, name, version, &tags),
        _ => None,
    }
}

fn of_uv(root: &Root, environment: &Path, name: &str, version: &str, tags: &[&str]) -> Option<Source> {
    let mut above = environment.ancestors().skip(1).take(MAX_ABOVE);
    let lock = above.find_map(|directory| text(root, &directory.join("uv.lock"), MAX_UV_LOCK))?;
    let lock: UvLock = toml::from_str(&lock).ok()?;
    let normal = normalise(name);
    let mut packages = lock
        .package
        .iter()
        .filter(|package| normalise(&package.name) == normal && package.version.as_deref() == Some(version));
    let (package, None) = (packages.next()?, packages.next()) else {
        return None;
    };
    let file = match &*package.wheels {
        [] => package.sdist.as_ref()?,
        wheels => wheels.iter().find(|wheel| {
            let url = wheel.url.as_deref().unwrap_or_default();
            tags.iter().any(|tag| has_tag(url, tag))
        })?,
    };
    Some((
        file.url.as_deref().and_then(location),
        file.hash.as_deref().and_then(short),
    ))
}

/// Returns whether the file name of a wheel has a tag: each of its last three parts is a set, as `py2.py3`
/// (<https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/>).
pub(super) fn has_tag(url: &str, tag: &str) -> bool {
    let Some(stem) = url.strip_suffix(".whl") else {
        return false;
    };
    let sets = stem.rsplitn(4, '-').take(3);
    let parts = tag.rsplitn(3, '-');
    parts.clone().count() == 3
        && sets
            .zip(parts)
            .all(|(set, part)| set.split('.').any(|one| one == part))
}

pub(super) fn text(root: &Root, path: &Path, limit: u64) -> Option<String> {
    String::from_utf8(root.read(path, limit).ok()?).ok()
}

pub(super) fn json<T: DeserializeOwned>(root: &Root, path: &Path) -> Option<T> {
    serde_json::from_str(&text(root, path, MAX_NOTE)?).ok()
}

/// Returns a text of a record if it is safe to show: names, versions, digests and URLs are ASCII, so a text with other
/// characters, which could hide or reverse others, is left out, and so is a long one.
pub(super) fn short(text: &str) -> Option<String> {
    let is_shown = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let is_plain = !text.is_empty() && text.len() <= MAX_TEXT && text.bytes().all(is_shown);
    is_plain.then(|| text.to_owned())
}

/// Returns a URL without the parts that can be credentials: user and password before the host, query and fragment.
pub(super) fn location(url: &str) -> Option<String> {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let Some((scheme, rest)) = url.split_once("://") else {
        return short(url).filter(|url| !url.contains('@'));
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    short(&format!("{scheme}://{host}{path}"))
}

/// Returns the environment of a distribution: the directory above its `lib`, `lib64` or `Lib`.
pub(super) fn environment_of(metadata: &Path) -> Option<PathBuf> {
    let is_library = |name: &OsStr| ["lib", "lib64", "Lib"].iter().any(|known| name == *known);
    let library = metadata
        .ancestors()
        .find(|directory| directory.file_name().is_some_and(is_library))?;
    library.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::fixture::Fixture;

    fn told(origin: Option<PackageOrigin>) -> String {
        origin.map_or_else(
            || "none".to_owned(),
            |origin| {
                let PackageOrigin {
                    name,
                    version,
                    resolved,
                    integrity,
                    ..
                } = origin;
                let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
                format!("{name} {version} {} {}", or(resolved), or(integrity))
            },
        )
    }

    const LOCK: &str = r#"{"packages": {
        "node_modules/@acme/mail": {"version": "1.2.3", "resolved": "https://me:secret@r.example/mail.tgz?token=1#x", "integrity": "sha512-AA=="},
        "node_modules/@acme/mail/node_modules/zod": {"version": "3.0.0", "integrity": "sha512-BB=="},
        "node_modules/short": {"name": "its-own-name", "version": "2.0.0"},
        "node_modules/endless": {"version": "1.0.0", "resolved": "a\nb"},
        "node_modules/turned": {"version": "1.0.0\u202e", "integrity": "sha512-CC=="},
        "node_modules/hidden": {"version": "1.0.0", "integrity": "sha512-\u200bCC=="}}}"#;

    #[test_case("/x/node_modules/@acme/mail", "/x" => "@acme/mail 1.2.3 https://r.example/mail.tgz sha512-AA=="; "in a scope")]
    #[test_case("/x/node_modules/@acme/mail/node_modules/zod", "/x" => "zod 3.0.0 - sha512-BB=="; "in another package")]
    #[test_case("/x/node_modules/short", "/x" => "its-own-name 2.0.0 - -"; "an alias")]
    #[test_case("/x/node_modules/endless", "/x" => "endless 1.0.0 - -"; "a text that is no text of one line")]
    #[test_case("/x/node_modules/turned", "/x" => "none"; "a version that turns what follows around")]
    #[test_case("/x/node_modules/hidden", "/x" => "hidden 1.0.0 - -"; "a digest with what nobody sees")]
    #[test_case("/p/node_modules/.pnpm/mail@2.0.0/node_modules/mail", "/p" => "mail 2.0.0 - sha512-PP=="; "by pnpm")]
    #[test_case("/y/node_modules/mail", "/y" => "mail 2.0.0 https://r.example/m.tgz sha512-YY=="; "by yarn")]
    #[test_case("/z/node_modules/mail", "/z" => "mail 2.0.0 - -"; "beside the lock file of a yarn that did not install it")]
    #[test_case("/x/node_modules/unlocked", "/x" => "unlocked 4.0.0 - -"; "by its own description")]
    #[test_case("/x/node_modules/misnamed", "/x" => "misnamed 5.0.0 - -"; "a registry name that is no text")]
    #[test_case("/x/node_modules/nothing", "/x" => "none"; "no version")]
    #[test_case("/x/src", "/x/src" => "none"; "a checkout")]
    fn npm(package: &str, base: &str) -> String {
        let fixture = Fixture::of(&[
            ("x/node_modules/.package-lock.json", LOCK),
            (
                "x/node_modules/unlocked/package.json",
                r#"{"name":"unlocked","version":"4.0.0"}"#,
            ),
            (
                "x/node_modules/misnamed/package.json",
                r#"{"name":"misnamed","version":"5.0.0","mcpName":{"a":1}}"#,
            ),
            ("x/src/package.json", r#"{"name":"own","version":"0.0.1"}"#),
            (
                "p/node_modules/.pnpm/lock.yaml",
                "packages:\n  mail@2.0.0:\n    resolution: {integrity: sha512-PP==}\n",
            ),
            (
                "p/node_modules/.pnpm/mail@2.0.0/node_modules/mail/package.json",
                MAIL,
            ),
            ("y/yarn.lock", YARN_LOCK),
            ("y/node_modules/.yarn-integrity", "{}"),
            ("y/node_modules/mail/package.json", MAIL),
            ("z/yarn.lock", YARN_LOCK),
            ("z/node_modules/mail/package.json", MAIL),
        ])
        .unwrap();
        told(of_node(fixture.root(), Path::new(package), Path::new(base)))
    }

    const MAIL: &str = r#"{"name":"mail","version":"2.0.0"}"#;
    const YARN_LOCK: &str =
        "mail@^2:\n  version \"2.0.0\"\n  resolved \"https://r.example/m.tgz#1\"\n  integrity sha512-YY==\n";

    const METADATA: &str = "Metadata-Version: 2.1\nName: Mcp_Server-Time\nVersion: 2026.1\n\nName: no header";
    const UV_LOCK: &str = r#"
version = 1
[[package]]
name = "mcp-server-time"
version = "2026.1"
sdist = { url = "https://r.example/time.tar.gz", hash = "sha256:aa", size = 1 }
wheels = [
    { url = "https://r.example/mcp_server_time-2026.1-cp39-cp39-win32.whl", hash = "sha256:bb" },
    { url = "https://r.example/mcp_server_time-2026.1-py3-none-any.whl", hash = "sha256:cc" },
    { url = "https://r.example/mcp_server_time-2026.1-py2.py3-none-any.whl", hash = "sha256:dd" },
]
"#;
    const SOURCES: &str = r#"
[[package]]
name = "mcp-server-time"
version = "2026.1"
sdist = { url = "https://user:key@r.example/time.tar.gz?token=1", hash = "sha256:aa" }
"#;
    const POETRY_LOCK: &str = r#"
[[package]]
name = "mcp-server-time"
version = "2026.1"
files = [
    {file = "mcp_server_time-2026.1-py3-none-any.whl", hash = "sha256:cc"},
    {file = "mcp_server_time-2026.1.tar.gz", hash = "sha256:aa"},
]
"#;
    const POETRY: (&str, &str) = ("INSTALLER", "Poetry 2.1.3\n");
    const UV: (&str, &str) = ("INSTALLER", "uv\n");
    const ARCHIVE: &str =
        r#"{"url": "https://a.example/t.whl", "archive_info": {"hashes": {"sha256": "dd"}}}"#;
    const REPOSITORY: &str =
        r#"{"url": "https://g.example/t", "vcs_info": {"vcs": "git", "commit_id": "ee"}}"#;

    #[test_case(&[] => "Mcp_Server-Time 2026.1 - -"; "no lock file")]
    #[test_case(&[("p/uv.lock", UV_LOCK), ("WHEEL", "Tag: py3-none-any\n"), UV] => "Mcp_Server-Time 2026.1 https://r.example/mcp_server_time-2026.1-py3-none-any.whl sha256:cc"; "the wheel that is installed")]
    #[test_case(&[("p/uv.lock", UV_LOCK), ("WHEEL", "Tag: py2-none-any\n"), UV] => "Mcp_Server-Time 2026.1 https://r.example/mcp_server_time-2026.1-py2.py3-none-any.whl sha256:dd"; "a wheel of several tags")]
    #[test_case(&[("p/uv.lock", UV_LOCK), ("WHEEL", "Tag: cp310-none-any\n"), UV] => "Mcp_Server-Time 2026.1 - -"; "no wheel of the lock file")]
    #[test_case(&[("p/uv.lock", UV_LOCK), ("WHEEL", "Tag: py3-none-any\n"), ("INSTALLER", "pip")] => "Mcp_Server-Time 2026.1 - -"; "installed by another program")]
    #[test_case(&[("p/uv.lock", SOURCES), UV] => "Mcp_Server-Time 2026.1 https://r.example/time.tar.gz sha256:aa"; "built from the sources")]
    #[test_case(&[("p/uv.lock", &UV_LOCK[..40]), UV] => "Mcp_Server-Time 2026.1 - -"; "a lock file that is cut off")]
    #[test_case(&[("p/poetry.lock", POETRY_LOCK), ("WHEEL", "Tag: py3-none-any\n"), POETRY] => "Mcp_Server-Time 2026.1 - sha256:cc"; "by poetry")]
    #[test_case(&[("p/poetry.lock", POETRY_LOCK), ("WHEEL", "Tag: cp310-none-any\n"), POETRY] => "Mcp_Server-Time 2026.1 - -"; "no wheel of the lock file of poetry")]
    #[test_case(&[("p/poetry.lock", POETRY_LOCK), ("WHEEL", "Tag: py3-none-any\n"), UV] => "Mcp_Server-Time 2026.1 - -"; "a lock file of another tool")]
    #[test_case(&[("direct_url.json", ARCHIVE), ("p/uv.lock", UV_LOCK)] => "Mcp_Server-Time 2026.1 https://a.example/t.whl sha256:dd"; "an archive that was named")]
    #[test_case(&[("direct_url.json", REPOSITORY)] => "Mcp_Server-Time 2026.1 https://g.example/t commit:ee"; "a repository")]
    fn pypi(more: &[(&str, &str)]) -> String {
        let info = "p/.venv/lib/python3.11/site-packages/mcp_server_time-2026.1.dist-info";
        let place = |name: &str| match name.starts_with("p/") {
            true => name.to_owned(),
            false => format!("{info}/{name}"),
        };
        let mut files = vec![(place("METADATA"), METADATA)];
        files.extend(more.iter().map(|(name, content)| (place(name), *content)));
        let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (&**name, *content)).collect();
        let fixture = Fixture::of(&files).unwrap();
        let metadata = Path::new("/").join(info);
        let environment = environment_of(&metadata).expect("an environment");
        assert_eq!(environment, Path::new("/p/.venv"));
        told(of_python(fixture.root(), &metadata, &environment))
    }
}
