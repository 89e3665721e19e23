//! Commands whose content depends on a registry when they start: packages and images without a fixed version.

use super::{
    LaunchRules,
    budget::Budget,
    command::{Command, program_name},
    target::{Subject, TargetStep, step},
};

/// A package or an image that a command fetches when it starts, by a reference whose content can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpinned {
    /// Its kind.
    pub kind: UnpinnedKind,
    /// The reference as written.
    pub reference: String,
}

/// The kind of thing that is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnpinnedKind {
    /// A package of a registry, or a repository.
    Package,
    /// A container image without a tag, or with `latest`.
    Image,
    /// A container image with another tag, which its publisher can move.
    Tag,
}

/// Programs that run a package that is already installed.
const LOCAL: [&str; 1] = ["cargo"];
/// Fewest digits of an abbreviated commit.
const MIN_COMMIT: usize = 7;

/// A package or an image that a command fetches when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The reference as written.
    reference: String,
    /// True for a container image, false for a package.
    pub is_image: bool,
    /// The launcher.
    program: String,
}

impl Fetched {
    /// Returns the publisher and the name, without registry and version: the scope of a package or the namespace of an
    /// image, if there is one. Returns `None` for a repository, and for a file of this host.
    pub fn name(&self) -> Option<(Option<&str>, &str)> {
        let is_local =
            self.reference.starts_with(['.', '/', '~']) || self.reference.contains(':') && !self.is_image;
        let reference = self
            .reference
            .strip_prefix("npm:")
            .or_else(|| self.reference.strip_prefix("jsr:"));
        let reference = match reference {
            Some(reference) => reference,
            None if is_local => return None,
            None => &self.reference,
        };
        let digest = reference.char_indices().skip(1).find(|(_, c)| *c == '@');
        let reference = digest.map_or(reference, |(at, _)| &reference[..at]);
        let (path, name) = match reference.rsplit_once('/') {
            Some((path, name)) => (Some(path), name),
            None => (None, reference),
        };
        let end = name
            .find([':', '=', '<', '>', '~', '!', '[', ' '])
            .unwrap_or(name.len());
        // Of `registry.example/namespace/image` the namespace is the publisher.
        let publisher = path.and_then(|path| path.rsplit('/').next());
        let publisher = publisher.filter(|part| !part.contains(['.', ':']));
        Some((publisher, &name[..end]))
    }
}

impl LaunchRules {
    /// Returns what `argv` would fetch without a fixed version.
    pub fn unpinned<S: AsRef<str>>(argv: &[S]) -> Option<Unpinned> {
        Self::fetches(argv).into_iter().find_map(|fetched| {
            let Fetched {
                reference,
                is_image,
                program,
            } = fetched;
            let kind = if is_image {
                moving(&reference)?
            } else if is_pinned(&reference, &program) {
                return None;
            } else {
                UnpinnedKind::Package
            };
            Some(Unpinned { kind, reference })
        })
    }

    /// Returns the packages and images that `argv` fetches when it starts.
    pub fn fetches<S: AsRef<str>>(argv: &[S]) -> Vec<Fetched> {
        let mut found = Vec::new();
        find(Command::from_argv(argv), Some(Budget::default()), &mut found);
        found
    }
}

fn find(command: Command<'_>, budget: Option<Budget>, found: &mut Vec<Fetched>) {
    let Some(budget) = budget else { return };
    let program = program_name(command.word(0)).to_owned();
    let fetches = !LOCAL.contains(&program.as_str());
    // The image of a service is in the compose file.
    let is_service = program.ends_with("-compose") || command.words.iter().any(|word| word == "compose");
    let (budget, commands) = match step(command) {
        TargetStep::Runs(commands) => (budget.wrapper(), commands),
        TargetStep::Shell(commands) => (budget.shell(), commands),
        TargetStep::Is(target, _) => {
            let (reference, is_image) = match &target.subject {
                Subject::Package { spec, .. } if fetches => (spec, false),
                Subject::Image(image) if !is_service => (image, true),
                Subject::Package { .. }
                | Subject::Image(_)
                | Subject::Module(_)
                | Subject::File(_)
                | Subject::Served(_)
                | Subject::Program(_)
                | Subject::Task(_)
                | Subject::Code => return,
            };
            found.push(Fetched {
                reference: reference.to_string(),
                is_image,
                program,
            });
            return;
        }
    };
    for command in commands {
        find(command, budget, found);
    }
}

/// Returns whether a package reference has one fixed content, or is on this host.
fn is_pinned(spec: &str, program: &str) -> bool {
    let spec = spec.trim();
    let is_local = spec.starts_with(['.', '/', '~']) || spec.starts_with("file:");
    if is_local {
        return true;
    }
    let spec = spec
        .strip_prefix("npm:")
        .or_else(|| spec.strip_prefix("jsr:"))
        .unwrap_or(spec);
    // `name==1.2` is pip's form; for `name @ URL` the URL decides.
    if let Some((_, version)) = spec.split_once("==") {
        return is_version(version);
    }
    let is_repository = spec.contains("git+") || spec.contains("://") || spec.contains("github:");
    if is_repository {
        let mark = spec.rsplit(['#', '@']).next().unwrap_or_default();
        let mark = mark.split('&').next().unwrap_or_default();
        return is_commit(mark) || spec.contains("sha256=");
    }
    match spec.char_indices().skip(1).filter(|(_, c)| *c == '@').last() {
        Some((at, _)) => {
            let version = &spec[at + 1..];
            let version = version.split('/').next().unwrap_or_default();
            is_version(version) || program == "go" && is_version(version.trim_start_matches('v'))
        }
        None => false,
    }
}

/// Returns whether a version is a single release: no range, no tag such as `latest`, no wildcard.
fn is_version(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_' | '!');
    let begins = version.starts_with(|c: char| c.is_ascii_digit());
    let parts = version.split(['-', '+']).next().unwrap_or_default().split('.');
    let is_wild = |part: &str| matches!(part, "x" | "X" | "*" | "");
    begins && version.chars().all(is_part) && version.contains('.') && !parts.into_iter().any(is_wild)
}

fn is_commit(text: &str) -> bool {
    text.len() >= MIN_COMMIT && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the way in which an image reference can change its content; `None` for a digest.
fn moving(image: &str) -> Option<UnpinnedKind> {
    if image.contains("@sha256:") {
        return None;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once(':') {
        None | Some((_, "latest")) => Some(UnpinnedKind::Image),
        Some(_) => Some(UnpinnedKind::Tag),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("npx -y some-mcp-server" => Some("some-mcp-server".to_owned()); "npx without a version")]
    #[test_case("npx -y @scope/server@latest" => Some("@scope/server@latest".to_owned()); "a tag")]
    #[test_case("npx -y @scope/server@^1.2.0" => Some("@scope/server@^1.2.0".to_owned()); "a range")]
    #[test_case("npx -y @scope/server@1" => Some("@scope/server@1".to_owned()); "a major version")]
    #[test_case("npx -y @scope/server@1.x" => Some("@scope/server@1.x".to_owned()); "a wildcard")]
    #[test_case("npx -y @scope/server@1.2.3" => None; "a version")]
    #[test_case("npx -y server@2.0.0-beta.1" => None; "a version before a release")]
    #[test_case("uvx mcp-server-time" => Some("mcp-server-time".to_owned()); "uvx")]
    #[test_case("uvx mcp-server-time==2025.1.14" => None; "uvx with a version")]
    #[test_case("uvx mcp-server-time@2025.1.14" => None; "uvx with a version behind an at sign")]
    #[test_case("uvx mcp-server-time>=2025.1" => Some("mcp-server-time>=2025.1".to_owned()); "uvx with a lower bound")]
    #[test_case("uvx --from git+https://git.example/a/b server" => Some("git+https://git.example/a/b".to_owned()); "a repository")]
    #[test_case("uvx --from git+https://git.example/a/b@0a1b2c3d4e5f server" => None; "a commit")]
    #[test_case("uvx --from git+https://git.example/a/b@main server" => Some("git+https://git.example/a/b@main".to_owned()); "a branch")]
    #[test_case("uvx --from ./server server" => None; "a directory")]
    #[test_case("pipx run mcp-server-time" => Some("mcp-server-time".to_owned()); "pipx")]
    #[test_case("pnpm dlx server-x" => Some("server-x".to_owned()); "pnpm")]
    #[test_case("bunx server-x" => Some("server-x".to_owned()); "bun")]
    #[test_case("deno run -A npm:@a/server" => Some("@a/server".to_owned()); "deno")]
    #[test_case("deno run -A npm:@a/server@1.0.0" => None; "deno with a version")]
    #[test_case("go run example.org/a/server@v1.2.3" => None; "go with a version")]
    #[test_case("go run example.org/a/server@latest" => Some("example.org/a/server@latest".to_owned()); "go with a tag")]
    #[test_case("sh -c 'npx -y server-x'" => Some("server-x".to_owned()); "in a shell's line")]
    #[test_case("env A=b timeout 9 npx -y server-x" => Some("server-x".to_owned()); "behind prefixes")]
    #[test_case("docker run -i --rm mcp/fetch" => Some("mcp/fetch".to_owned()); "an image")]
    #[test_case("docker run -i mcp/fetch:latest" => Some("mcp/fetch:latest".to_owned()); "an image by latest")]
    #[test_case("docker run -i localhost:5000/fetch:1.0" => Some("localhost:5000/fetch:1.0".to_owned()); "an image by a tag")]
    #[test_case("docker run -i mcp/fetch@sha256:0f" => None; "an image by its digest")]
    #[test_case("docker exec -i running server" => None; "a container that runs already")]
    #[test_case("node /opt/server/index.js" => None; "a file")]
    #[test_case("cargo run -p server" => None; "a project of this host")]
    #[test_case("npx" => None; "nothing")]
    fn references(line: &str) -> Option<String> {
        let words: Vec<String> = match line.split_once('\'') {
            Some((before, inside)) => before
                .split_whitespace()
                .map(str::to_owned)
                .chain([inside.trim_end_matches('\'').to_owned()])
                .collect(),
            None => line.split(' ').map(str::to_owned).collect(),
        };
        LaunchRules::unpinned(&words).map(|unpinned| unpinned.reference)
    }

    #[test_case("npx -y @scope/server@1.2.3" => Some("scope server".to_owned()); "a scope")]
    #[test_case("npx -y some-server" => Some("- some-server".to_owned()); "a package without a scope")]
    #[test_case("uvx mcp-server-time==2025.1.14" => Some("- mcp-server-time".to_owned()); "a version of pip")]
    #[test_case("docker run -i mcp/fetch:latest" => Some("mcp fetch".to_owned()); "an image with a tag")]
    #[test_case("docker run -i docker.io/mcp/fetch@sha256:0f" => Some("mcp fetch".to_owned()); "an image with its registry")]
    #[test_case("docker run -i localhost:5000/fetch:1.0" => Some("- fetch".to_owned()); "an image of a registry")]
    #[test_case("docker run -i fetch" => Some("- fetch".to_owned()); "an image without a namespace")]
    #[test_case("uvx --from git+https://git.example/a/b server" => None; "a repository of its own")]
    #[test_case("npx -y ./server" => None; "a directory of this host")]
    fn names(line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let fetched = LaunchRules::fetches(&words);
        let (publisher, name) = fetched.first()?.name()?;
        Some(format!(
            "{} {name}",
            publisher.map_or("-", |publisher| publisher.trim_start_matches('@'))
        ))
    }

    #[test_case("mcp/fetch" => Some(UnpinnedKind::Image))]
    #[test_case("registry:5000/mcp/fetch" => Some(UnpinnedKind::Image); "a port is no tag")]
    #[test_case("mcp/fetch:1.2" => Some(UnpinnedKind::Tag))]
    #[test_case("mcp/fetch:1.2@sha256:00" => None)]
    fn images(image: &str) -> Option<UnpinnedKind> {
        moving(image)
    }
}
