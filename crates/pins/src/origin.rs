//! The origin of a package: what its installer noted beside it about the registry it came from.
//!
//! Nobody checked it here: whoever can write the package can write the note too. It tells a user which release runs, and
//! is compared with what a registry says.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use mcpmon_model::{Ecosystem, PackageOrigin};
use serde::Deserialize;
use serde_json::Value;

use super::root::Root;

/// Largest note that is read, bytes: the lock file of a large project has some.
const MAX_NOTE: u64 = 16 << 20;
/// Longest text that is taken from a note, bytes; a longer one is left out.
const MAX_TEXT: usize = 1024;
/// Directories above an environment in which its lock file is looked for.
const MAX_ABOVE: usize = 2;

/// The origin of an npm package, by the lock file that npm keeps in the outermost `node_modules`, or by its own
/// description where it was installed without one.
pub(super) fn of_node(root: &Root, package: &Path, base: &Path) -> Option<PackageOrigin> {
    let place = package.strip_prefix(base).ok()?.to_str()?;
    // One outside `node_modules` is a checkout: no registry sent it.
    let (_, name) = place.rsplit_once("node_modules/")?;
    let lock = json(root, &base.join("node_modules/.package-lock.json"));
    let noted = lock.as_ref().and_then(|lock| lock.get("packages")?.get(place));
    let own = json(root, &package.join("package.json"));
    let of = |value: Option<&Value>, field: &str| short(value?.get(field)?.as_str()?);
    Some(PackageOrigin {
        ecosystem: Ecosystem::Npm,
        // An alias is installed under another name than its own.
        name: of(noted, "name")
            .or_else(|| of(own.as_ref(), "name"))
            .or_else(|| short(name))?,
        version: of(noted, "version").or_else(|| of(own.as_ref(), "version"))?,
        resolved: of(noted, "resolved"),
        integrity: of(noted, "integrity"),
    })
}

/// The origin of a Python distribution with this `.dist-info`, by PEP 610, or by the `uv.lock` of the project that its
/// environment belongs to.
pub(super) fn of_python(root: &Root, metadata: &Path, environment: &Path) -> Option<PackageOrigin> {
    let headers = text(root, &metadata.join("METADATA"))?;
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
    })
}

/// The address an archive was fetched from, and its digest.
type Source = (Option<String>, Option<String>);

/// The source in a `direct_url.json`: the user named an archive or a repository rather than a registry.
fn direct(root: &Root, metadata: &Path) -> Option<Source> {
    let noted = json(root, &metadata.join("direct_url.json"))?;
    let url = short(noted.get("url")?.as_str()?);
    let archive = noted.get("archive_info");
    let digest = archive
        .and_then(|archive| short(archive.get("hashes")?.get("sha256")?.as_str()?))
        .map(|digest| format!("sha256:{digest}"));
    let commit = noted
        .get("vcs_info")
        .and_then(|vcs| short(vcs.get("commit_id")?.as_str()?))
        .map(|commit| format!("commit:{commit}"));
    Some((url, digest.or(commit)))
}

/// A lock file of uv, as far as it is read.
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

#[derive(Clone, Debug, Deserialize)]
struct LockedFile {
    url: Option<String>,
    hash: Option<String>,
}

/// The source in the project's `uv.lock`: the wheel whose tags are those of the installed one, else the source
/// distribution.
fn locked(root: &Root, metadata: &Path, environment: &Path, name: &str, version: &str) -> Option<Source> {
    let mut above = environment.ancestors().skip(1).take(MAX_ABOVE);
    let lock = above.find_map(|directory| text(root, &directory.join("uv.lock")))?;
    let lock: UvLock = toml::from_str(&lock).ok()?;
    let normal = super::python::normalise(name);
    let package = lock.package.into_iter().find(|package| {
        super::python::normalise(&package.name) == normal && package.version.as_deref() == Some(version)
    })?;
    let tags = text(root, &metadata.join("WHEEL")).unwrap_or_default();
    let tags: Vec<&str> = tags
        .lines()
        .filter_map(|line| line.strip_prefix("Tag: "))
        .collect();
    let is_installed = |file: &&LockedFile| {
        let stem = file.url.as_deref().and_then(|url| url.strip_suffix(".whl"));
        stem.is_some_and(|stem| tags.iter().any(|tag| stem.ends_with(&format!("-{tag}"))))
    };
    let file = package
        .wheels
        .iter()
        .find(is_installed)
        .cloned()
        .or(package.sdist)?;
    Some((
        file.url.as_deref().and_then(short),
        file.hash.as_deref().and_then(short),
    ))
}

fn text(root: &Root, path: &Path) -> Option<String> {
    String::from_utf8(root.read(path, MAX_NOTE).ok()?).ok()
}

fn json(root: &Root, path: &Path) -> Option<Value> {
    serde_json::from_str(&text(root, path)?).ok()
}

/// A text of a note: it is shown, so it has no control characters and is not long.
fn short(text: &str) -> Option<String> {
    let is_plain = !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control);
    is_plain.then(|| text.to_owned())
}

/// Returns the environment that a distribution is installed in: what is above its `lib`, `lib64` or `Lib`.
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

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let root = Root::at(directory.path()).unwrap();
        (directory, root)
    }

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
        "node_modules/@acme/mail": {"version": "1.2.3", "resolved": "https://r.example/mail.tgz", "integrity": "sha512-AA=="},
        "node_modules/@acme/mail/node_modules/zod": {"version": "3.0.0", "integrity": "sha512-BB=="},
        "node_modules/short": {"name": "its-own-name", "version": "2.0.0"},
        "node_modules/endless": {"version": "1.0.0", "resolved": "a\nb"}}}"#;

    #[test_case("/x/node_modules/@acme/mail", "/x" => "@acme/mail 1.2.3 https://r.example/mail.tgz sha512-AA=="; "in a scope")]
    #[test_case("/x/node_modules/@acme/mail/node_modules/zod", "/x" => "zod 3.0.0 - sha512-BB=="; "in another package")]
    #[test_case("/x/node_modules/short", "/x" => "its-own-name 2.0.0 - -"; "an alias")]
    #[test_case("/x/node_modules/endless", "/x" => "endless 1.0.0 - -"; "a text that is no text of one line")]
    #[test_case("/x/node_modules/unlocked", "/x" => "unlocked 4.0.0 - -"; "by its own description")]
    #[test_case("/x/node_modules/nothing", "/x" => "none"; "no version")]
    #[test_case("/x/src", "/x/src" => "none"; "a checkout")]
    fn npm(package: &str, base: &str) -> String {
        let (_directory, root) = tree(&[
            ("x/node_modules/.package-lock.json", LOCK),
            (
                "x/node_modules/unlocked/package.json",
                r#"{"name":"unlocked","version":"4.0.0"}"#,
            ),
            ("x/src/package.json", r#"{"name":"own","version":"0.0.1"}"#),
        ]);
        told(of_node(&root, Path::new(package), Path::new(base)))
    }

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
]
"#;
    const ARCHIVE: &str =
        r#"{"url": "https://a.example/t.whl", "archive_info": {"hashes": {"sha256": "dd"}}}"#;
    const REPOSITORY: &str =
        r#"{"url": "https://g.example/t", "vcs_info": {"vcs": "git", "commit_id": "ee"}}"#;

    #[test_case(&[] => "Mcp_Server-Time 2026.1 - -"; "no lock file")]
    #[test_case(&[("p/uv.lock", UV_LOCK), ("WHEEL", "Tag: py3-none-any\n")] => "Mcp_Server-Time 2026.1 https://r.example/mcp_server_time-2026.1-py3-none-any.whl sha256:cc"; "the wheel that is installed")]
    #[test_case(&[("p/uv.lock", UV_LOCK), ("WHEEL", "Tag: py2-none-any\n")] => "Mcp_Server-Time 2026.1 https://r.example/time.tar.gz sha256:aa"; "built from the sources")]
    #[test_case(&[("p/uv.lock", &UV_LOCK[..40])] => "Mcp_Server-Time 2026.1 - -"; "a lock file that is cut off")]
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
        let (_directory, root) = tree(&files);
        let metadata = Path::new("/").join(info);
        let environment = environment_of(&metadata).expect("an environment");
        assert_eq!(environment, Path::new("/p/.venv"));
        told(of_python(&root, &metadata, &environment))
    }
}
