//! Package references as runners take them (npm, PyPI, Git, paths), container images, and their names.

/// The name of something that can be an MCP server, without versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PackageName {
    /// npm scope without its `@`, owner of a repository, namespace of an image.
    pub(super) scope: Option<String>,
    /// The name itself.
    pub(super) bare: String,
    /// The origin of the name.
    pub(super) origin: NameOrigin,
}

/// The origin of a name, which determines its full form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NameOrigin {
    /// A registry of packages: `@scope/name`.
    #[default]
    Registry,
    /// A repository, an image, a path: `scope/name`.
    Place,
}

impl PackageName {
    /// Returns a name without a scope.
    pub(super) fn bare(name: &str) -> Self {
        Self {
            scope: None,
            bare: name.to_owned(),
            origin: NameOrigin::Registry,
        }
    }

    /// Returns the name with its scope.
    pub(super) fn full(&self) -> String {
        match (&self.scope, self.origin) {
            (None, _) => self.bare.clone(),
            (Some(scope), NameOrigin::Registry) => format!("@{scope}/{}", self.bare),
            (Some(scope), NameOrigin::Place) => format!("{scope}/{}", self.bare),
        }
    }

    /// Reads a package reference; `None` for the directory itself (`.`).
    pub(super) fn from_package(spec: &str) -> Option<Self> {
        let spec = spec.strip_prefix("npm:").unwrap_or(spec);
        // PEP 508: `name @ https://…`
        let spec = spec.split_once(" @ ").map_or(spec, |(name, _)| name).trim();
        if let Some(scoped) = spec.strip_prefix('@') {
            let (scope, name) = scoped.split_once('/')?;
            let name = until(name, &['@', '/']);
            return named(Some(scope), name, NameOrigin::Registry);
        }
        let place = ["git+", "github:", "gitlab:", "bitbucket:", "jsr:", "file:"]
            .iter()
            .find_map(|scheme| spec.strip_prefix(scheme))
            .unwrap_or(spec);
        if place.contains('/') {
            return from_place(place);
        }
        // Version and extras: `name@1`, `name==1.2`, `name[cli]>=1`, `name~=2`.
        named(
            None,
            until(place, &['@', '=', '[', '<', '>', '~', '!', ';', '#', ' ']),
            NameOrigin::Registry,
        )
    }

    /// Reads a container image reference.
    pub(super) fn from_image(image: &str) -> Option<Self> {
        let image = until(image, &['@']);
        let mut parts = image.rsplit('/');
        let name = until(parts.next()?, &[':']);
        let scope = parts.next().filter(|scope| !scope.contains(['.', ':']));
        named(scope, name, NameOrigin::Place)
    }
}

/// Returns the last two parts of a URL or path, without version, query and ending.
fn from_place(place: &str) -> Option<PackageName> {
    let place = place.split_once("://").map_or(place, |(_, rest)| rest);
    let place = until(place, &['#', '?']);
    let mut parts = place
        .split('/')
        .rev()
        .filter(|part| !part.is_empty() && *part != ".");
    let last = until(parts.next()?, &['@', '[']);
    let last = [".git", ".tgz", ".tar.gz", ".whl", ".zip"]
        .iter()
        .find_map(|ending| last.strip_suffix(ending))
        .unwrap_or(last);
    let scope = parts
        .next()
        .filter(|scope| !scope.contains(['.', ':', '~', '$', '@']));
    named(scope, last, NameOrigin::Place)
}

fn named(scope: Option<&str>, bare: &str, origin: NameOrigin) -> Option<PackageName> {
    (!bare.is_empty() && !matches!(bare, "." | "..")).then(|| PackageName {
        scope: scope.filter(|scope| !scope.is_empty()).map(str::to_owned),
        bare: bare.to_owned(),
        origin,
    })
}

/// Returns `text` up to the first of `ends`.
fn until<'a>(text: &'a str, ends: &[char]) -> &'a str {
    text.split(ends).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("mcp-server-git" => "mcp-server-git")]
    #[test_case("mcp-server-git@latest" => "mcp-server-git")]
    #[test_case("mcp-server-git==2025.1.14" => "mcp-server-git")]
    #[test_case("mcp-server-git~=1.0" => "mcp-server-git"; "compatible release")]
    #[test_case("mcp[cli]>=1.2" => "mcp"; "extras")]
    #[test_case("@scope/name" => "@scope/name")]
    #[test_case("@scope/name@1.2.3" => "@scope/name"; "scoped version")]
    #[test_case("npm:@scope/name@^1/bin" => "@scope/name"; "npm specifier")]
    #[test_case("git+https://github.com/owner/repo.git@v1#subdirectory=x" => "owner/repo"; "git url")]
    #[test_case("git+ssh://git@github.com/owner/repo" => "owner/repo"; "git over ssh")]
    #[test_case("github:owner/repo#main" => "owner/repo"; "github shorthand")]
    #[test_case("owner/repo" => "owner/repo"; "bare shorthand")]
    #[test_case("./tools/thing" => "tools/thing"; "path")]
    #[test_case("/srv/thing-1.0.tgz" => "srv/thing-1.0"; "archive")]
    #[test_case("thing @ https://example.org/x.whl" => "thing"; "direct reference")]
    #[test_case("." => ""; "here")]
    #[test_case("@" => ""; "only a sign")]
    #[test_case("@scope/" => ""; "only a scope")]
    fn packages(spec: &str) -> String {
        PackageName::from_package(spec)
            .map(|name| name.full())
            .unwrap_or_default()
    }

    #[test_case("postgres:16" => "postgres")]
    #[test_case("mcp/fetch" => "mcp/fetch")]
    #[test_case("ghcr.io/github/github-mcp-server:1.0" => "github/github-mcp-server")]
    #[test_case("localhost:5000/thing@sha256:00" => "thing"; "registry port and digest")]
    #[test_case("docker.io/library/node:22" => "library/node")]
    #[test_case("" => ""; "empty")]
    fn images(image: &str) -> String {
        PackageName::from_image(image)
            .map(|name| name.full())
            .unwrap_or_default()
    }
}
