//! The entry of a package in the registry of MCP servers, according to the package itself: the name under which its
//! owner is registered, and the `server.json` with which it was published.
//!
//! A program that can write the package can write both.

use std::path::{Component, Path, PathBuf};

use mcpmon_model::RegistryEntry;
use serde::Deserialize;

use super::{
    origin::{self, MAX_NOTE},
    root::Root,
};

/// The file with which a server is published.
const SERVER_JSON: &str = "server.json";
/// The text before the name in the description of a Python distribution.
const NAME_MARK: &str = "mcp-name:";
/// Most parts of the path of its `server.json` inside `site-packages`.
const MAX_DEPTH: usize = 2;
/// Longest name, bytes.
const MAX_NAME: usize = 200;

/// The fields of a `server.json` that are read.
#[derive(Debug, Deserialize)]
struct ServerJson {
    name: String,
    #[serde(default, deserialize_with = "origin::if_text")]
    version: Option<String>,
}

/// Returns the entry of an npm package in this directory, which gives itself the name `own` (`mcpName`).
pub(super) fn of_node(root: &Root, package: &Path, own: Option<&str>) -> Option<RegistryEntry> {
    entry(root, own, Some(package.join(SERVER_JSON)))
}

/// Returns the entry of a Python distribution with this `.dist-info`, from its description and its installed files.
pub(super) fn of_python(root: &Root, metadata: &Path, description: &str) -> Option<RegistryEntry> {
    // The description may explain the mark before it uses it.
    let mut marked = description
        .split(NAME_MARK)
        .skip(1)
        .filter_map(|rest| rest.lines().next()?.split_whitespace().next());
    let own = marked.find(|name| is_name(name));
    entry(root, own, installed(root, metadata))
}

/// Returns the entry from a package's own name, which the registry compares, and from its `server.json`. The version in
/// that is the entry's, unless the file names another server.
fn entry(root: &Root, own: Option<&str>, file: Option<PathBuf>) -> Option<RegistryEntry> {
    let own = own.filter(|name| is_name(name)).map(str::to_owned);
    let noted = file.and_then(|file| {
        let noted: ServerJson = origin::json(root, &file)?;
        is_name(&noted.name).then_some((noted, origin::short(file.to_str()?)))
    });
    let Some((noted, file)) = noted else {
        return own.map(|name| RegistryEntry {
            name,
            version: None,
            file: None,
        });
    };
    let is_its = own.as_ref().is_none_or(|own| *own == noted.name);
    Some(RegistryEntry {
        version: noted
            .version
            .filter(|_| is_its)
            .as_deref()
            .and_then(origin::short),
        name: own.unwrap_or(noted.name),
        file,
    })
}

/// Returns the `server.json` at the top of a package, or next to it, among the files of the distribution: a deeper one
/// belongs to a package that it contains
/// (<https://packaging.python.org/en/latest/specifications/recording-installed-packages/>).
fn installed(root: &Root, metadata: &Path) -> Option<PathBuf> {
    let record = origin::text(root, &metadata.join("RECORD"), MAX_NOTE)?;
    let paths = record.lines().filter_map(|line| line.split(',').next());
    let mut named = paths
        .map(Path::new)
        .filter(|path| path.ends_with(SERVER_JSON) && path.components().all(is_below))
        .filter(|path| path.components().count() <= MAX_DEPTH);
    Some(metadata.parent()?.join(named.next()?))
}

fn is_below(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(_))
}

/// Returns whether the registry accepts this name: a namespace, such as that of a domain, and a name in it.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str, more: &[u8]| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
        !part.is_empty() && part.bytes().all(is_allowed)
    };
    let parts = name.split_once('/');
    name.len() <= MAX_NAME
        && parts.is_some_and(|(space, name)| is_part(space, b".-") && is_part(name, b"._-"))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::fixture::Fixture;

    fn told(entry: Option<RegistryEntry>) -> String {
        entry.map_or_else(
            || "none".to_owned(),
            |RegistryEntry { name, version, file }| {
                let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
                format!("{name} {} {}", or(version), or(file))
            },
        )
    }

    const MAIL: &str = r#"{"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.acme/mail", "version": "1.2.0", "packages": []}"#;

    #[test_case(None, "" => "none"; "neither")]
    #[test_case(Some("io.github.acme/mail"), "" => "io.github.acme/mail - -"; "its own name")]
    #[test_case(None, MAIL => "io.github.acme/mail 1.2.0 /p/server.json"; "the file")]
    #[test_case(Some("io.github.acme/mail"), MAIL => "io.github.acme/mail 1.2.0 /p/server.json"; "both")]
    #[test_case(Some("io.github.acme/other"), MAIL => "io.github.acme/other - /p/server.json"; "a file of another server")]
    #[test_case(None, r#"{"name": "mail", "version": "1"}"# => "none"; "a file of something else")]
    #[test_case(None, r#"{"name": "io.github.acme/mail", "version": "1\u202e"}"# => "io.github.acme/mail - /p/server.json"; "a version that turns what follows around")]
    #[test_case(None, r#"{"name": "io.github.acme/mail", "version": 1}"# => "io.github.acme/mail - /p/server.json"; "a version that is no text")]
    #[test_case(Some("acme\u{202e}/mail"), "{" => "none"; "a name that turns what follows around and a file that is cut off")]
    fn npm(own: Option<&str>, file: &str) -> String {
        let fixture = Fixture::of(&[("p/server.json", file)]).unwrap();
        told(of_node(fixture.root(), Path::new("/p"), own))
    }

    #[test_case("", &[] => "none"; "neither")]
    #[test_case("<!-- mcp-name: io.github.acme/mail -->", &[] => "io.github.acme/mail - -"; "its own name")]
    #[test_case("Put `mcp-name: NAME` here.\n\nmcp-name:\nmcp-name: io.github.acme/mail\nmcp-name: io.github.acme/late", &[] => "io.github.acme/mail - -"; "the first that is a name")]
    #[test_case("", &[("mail/_vendor/server.json", MAIL)] => "none"; "the file of a package that it carries along")]
    #[test_case("mcp-name:", &[("mail/server.json", MAIL)] => "io.github.acme/mail 1.2.0 /s/mail/server.json"; "a file and no name")]
    #[test_case("mcp-name: io.github.acme/mail", &[("mail/server.json", MAIL)] => "io.github.acme/mail 1.2.0 /s/mail/server.json"; "both")]
    #[test_case("", &[("other/server.json", MAIL)] => "none"; "the file of another distribution")]
    #[test_case("", &[("../out/server.json", MAIL)] => "none"; "a file that is elsewhere")]
    fn pypi(description: &str, more: &[(&str, &str)]) -> String {
        let record = "mail/__init__.py,sha256=aa,1\n../out/server.json,sha256=bb,2\n\
            mail/_vendor/server.json,sha256=dd,4\nmail/server.json,sha256=cc,3\n";
        let mut files = vec![("s/mail-1.dist-info/RECORD".to_owned(), record)];
        files.extend(more.iter().map(|(name, content)| (format!("s/{name}"), *content)));
        let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (&**name, *content)).collect();
        let fixture = Fixture::of(&files).unwrap();
        told(of_python(
            fixture.root(),
            Path::new("/s/mail-1.dist-info"),
            description,
        ))
    }
}
