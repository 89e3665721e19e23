//! The package of the program that a command runs, as far as its words tell.

use mcpmon_model::{Package, PackageKind};

use super::{
    LaunchRules, Stage,
    bridge::{BRIDGES, Behind, behind},
    command::{Command, program_name},
    file::{FileName, FilePart},
    package::PackageName,
    target::{Subject, Target, TargetStep, step},
};

/// Most levels of launchers, and most commands of them, that are looked through.
const MAX_STEPS: usize = 16;
/// Most bridges behind each other.
const MAX_BRIDGES: usize = 2;
/// The registry of images that is left out of their names.
const DEFAULT_REGISTRY: [&str; 2] = ["docker.io/", "index.docker.io/"];
/// The namespace of Docker's own images.
const DEFAULT_NAMESPACE: &str = "library/";

impl LaunchRules {
    /// Returns the package of the program that `argv` leads to, behind launchers, shells and prefixes; `linked` is `argv`
    /// with links into installed packages resolved, and empty if there are none. Returns `None` if the words name none:
    /// code in an argument, a bridge to a server elsewhere.
    ///
    /// A path is left as it was given: the shell looks where it leads.
    pub fn package<S: AsRef<str>>(argv: &[S], linked: &[String]) -> Option<Package> {
        // Launchers can be links into packages, too. If a command names its package, the links are not needed.
        let subject = target(Command::from_argv(argv)).map(|target| target.subject);
        let is_named = matches!(
            subject,
            Some(Subject::Package { .. } | Subject::Module(_) | Subject::Image(_))
        );
        match linked {
            [_, ..] if !is_named => package_of(Command::from_argv(linked), MAX_BRIDGES),
            [] | [_, ..] => package_of(Command::from_argv(argv), MAX_BRIDGES),
        }
    }

    /// Returns the package that a file belongs to by its path: below `node_modules`, that of npm.
    pub fn package_of_file(path: &str) -> Option<Package> {
        file(path, PackageKind::Script)
    }

    /// Returns where the code is that `argv` runs itself, behind shells and prefixes; `None` if a launcher looks for it.
    pub fn code_place<S: AsRef<str>>(argv: &[S]) -> Option<CodePlace> {
        let target = target(Command::from_argv(argv))?;
        if target.stage == Stage::Launcher {
            return None;
        }
        let directory = target.directory.as_deref();
        match &target.subject {
            Subject::Module(name) => Some(CodePlace::Module(name.to_string())),
            Subject::File(path) | Subject::Served(path) => Some(CodePlace::Script(within(directory, path))),
            Subject::Program(path) => Some(CodePlace::Program(path.to_string())),
            Subject::Package { .. } | Subject::Image(_) | Subject::Task(_) | Subject::Code => None,
        }
    }
}

/// The place of the code that a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodePlace {
    /// A script, as the words name it: relative to the working directory, if it is relative.
    Script(String),
    /// A program; looked up on the search path if its name has no slash.
    Program(String),
    /// A module by its name: `python -m NAME`.
    Module(String),
}

/// Returns the first target that a command leads to.
fn target(command: Command<'_>) -> Option<Target<'_>> {
    let mut pending = vec![command];
    for _ in 0..MAX_STEPS {
        match step(pending.pop()?) {
            TargetStep::Runs(commands) | TargetStep::Shell(commands) => {
                pending = commands.into_iter().rev().collect();
            }
            TargetStep::Is(target, _) => return Some(target),
        }
    }
    None
}

/// Returns the package that a command leads to. A bridge has that of the server behind it.
fn package_of(command: Command<'_>, bridges: usize) -> Option<Package> {
    let target = target(command)?;
    let package = subject(&target)?;
    if !BRIDGES.contains(&package.name()) {
        return Some(package);
    }
    match behind(&target.arguments)? {
        Behind::Remote(_) => None,
        Behind::Commands(commands) => package_of(commands.into_iter().next()?, bridges.checked_sub(1)?),
    }
}

fn subject(target: &Target<'_>) -> Option<Package> {
    let directory = target.directory.as_deref();
    match &target.subject {
        Subject::Package { spec, .. } if is_path(spec) => {
            let path = spec.strip_prefix("file:").unwrap_or(spec);
            Package::new(PackageKind::Script, &within(directory, path))
        }
        Subject::Package { spec, .. } if is_elsewhere(spec) => {
            Package::new(PackageKind::Script, spec.split('#').next()?)
        }
        Subject::Package { kind, spec, .. } => Package::new(*kind, &PackageName::from_package(spec)?.full()),
        Subject::Module(name) => Package::new(PackageKind::Pypi, name.split('.').next()?),
        Subject::File(path) | Subject::Served(path) => file(&within(directory, path), PackageKind::Script),
        Subject::Program(path) if FileName::read(path, None).is_script() => {
            file(&within(directory, path), PackageKind::Script)
        }
        Subject::Program(path) => file(path, PackageKind::Program),
        Subject::Image(image) => Package::new(PackageKind::Oci, image_name(image)),
        Subject::Task(_) => Package::new(PackageKind::Script, directory?),
        Subject::Code => None,
    }
}

/// Returns the package of a file, which is of this kind if it belongs to none of a registry.
fn file(path: &str, kind: PackageKind) -> Option<Package> {
    let name = FileName::read(path, None);
    match (name.part, name.owner) {
        (FilePart::Installed | FilePart::Cached, Some(owner)) if path.contains("node_modules/") => {
            Package::new(PackageKind::Npm, &owner.full())
        }
        (FilePart::Installed, Some(owner)) => Package::new(PackageKind::Pypi, &owner.full()),
        (
            FilePart::Installed | FilePart::Cached | FilePart::Entry | FilePart::Collected | FilePart::Other,
            _,
        ) => Package::new(
            kind,
            match kind {
                PackageKind::Program => program_name(path),
                PackageKind::Npm | PackageKind::Pypi | PackageKind::Oci | PackageKind::Script => path,
            },
        ),
    }
}

fn within(directory: Option<&str>, path: &str) -> String {
    match directory {
        Some(directory) if !path.starts_with('/') => format!("{directory}/{path}"),
        Some(_) | None => path.to_owned(),
    }
}

/// Returns whether a package reference is a path of this host.
fn is_path(spec: &str) -> bool {
    spec.starts_with(['/', '.', '~']) || spec.starts_with("file:")
}

/// Returns whether a package reference has an address or an alias beside, or instead of, a name: what runs is not the package
/// of that name in the registry.
fn is_elsewhere(spec: &str) -> bool {
    let name = spec.strip_prefix("npm:").unwrap_or(spec);
    let version = name.get(1..).and_then(|name| name.split_once('@'));
    name.contains("://")
        || name.contains(" @ ")
        || version.is_some_and(|(_, version)| version.contains([':', '/']))
}

/// Returns an image without its tag and digest, and without the registry and namespace that are Docker's default.
fn image_name(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    let tag = image.rfind(':').filter(|at| !image[*at..].contains('/'));
    let image = tag.map_or(image, |at| &image[..at]);
    let image = DEFAULT_REGISTRY
        .iter()
        .find_map(|registry| image.strip_prefix(registry))
        .unwrap_or(image);
    image.strip_prefix(DEFAULT_NAMESPACE).unwrap_or(image)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("npx -y @modelcontextprotocol/server-memory@2026.8.31 /data", "npm:@modelcontextprotocol/server-memory"; "npx")]
    #[test_case("npm exec --package=@eslint/mcp -- mcp", "npm:@eslint/mcp"; "npm exec")]
    #[test_case("pnpm dlx x-mcp", "npm:x-mcp"; "pnpm")]
    #[test_case("bunx x-mcp", "npm:x-mcp"; "bun")]
    #[test_case("node /p/node_modules/@a/x-mcp/dist/index.js", "npm:@a/x-mcp"; "a file of npm's")]
    #[test_case("/p/node_modules/.bin/x-mcp", "npm:x-mcp"; "a command of npm's")]
    #[test_case("deno run -A npm:@a/x-mcp@1", "npm:@a/x-mcp"; "deno with npm")]
    #[test_case("deno run jsr:@a/x-mcp", "program:@a/x-mcp"; "deno with JSR")]
    #[test_case("npx -y ./packages/weather-mcp", "script:./packages/weather-mcp"; "a directory")]
    #[test_case("npx -y github:example/weather-mcp#main", "npm:example/weather-mcp"; "a repository")]
    #[test_case("npx -y https://example.org/x-mcp.tgz", "script:https://example.org/x-mcp.tgz"; "an archive")]
    #[test_case("npx -y @a/x-mcp@npm:@b/y", "script:@a/x-mcp@npm:@b/y"; "an alias")]
    #[test_case("npx -y x-mcp@file:/tmp/x", "script:x-mcp@file:/tmp/x"; "a name for a directory")]
    #[test_case("uvx --from 'x-mcp @ file:///tmp/x' x", "script:x-mcp @ file:///tmp/x"; "a name for a directory of Python")]
    #[test_case("uvx mcp-server-time==1.2", "pypi:mcp-server-time"; "uvx")]
    #[test_case("uvx --from git+https://example.org/a/x-mcp x", "script:git+https://example.org/a/x-mcp"; "uvx with a repository")]
    #[test_case("pipx run mcp_server_time", "pypi:mcp-server-time"; "pipx")]
    #[test_case("python3 -m mcp_server_time", "pypi:mcp-server-time"; "a module")]
    #[test_case("python3 -m awslabs.cdk.server", "pypi:awslabs"; "a module within others")]
    #[test_case("python3 /v/lib/python3.12/site-packages/mcp_server_time/__main__.py", "pypi:mcp-server-time"; "a file of Python's")]
    #[test_case("docker run -i --rm mcp/fetch:latest", "oci:mcp/fetch"; "an image")]
    #[test_case("docker run -i docker.io/library/x-mcp@sha256:00", "oci:x-mcp"; "an image of Docker's")]
    #[test_case("podman run -i localhost:5000/x-mcp", "oci:localhost:5000/x-mcp"; "an image of another registry")]
    #[test_case("python3 -u /srv/notes.py --x", "script:/srv/notes.py"; "a script")]
    #[test_case("/srv/notes.py --x", "script:/srv/notes.py"; "a script that is executed")]
    #[test_case("uv run --directory /srv/notes server.py", "script:/srv/notes/server.py"; "a script in a directory")]
    #[test_case("npm --prefix /srv/weather run start", "script:/srv/weather"; "a project's task")]
    #[test_case("sh -c 'exec npx -y x-mcp'", "npm:x-mcp"; "a shell")]
    #[test_case("env A=1 npx x-mcp", "npm:x-mcp"; "a prefix")]
    #[test_case("/opt/x/bin/x-mcp", "program:x-mcp"; "a program")]
    #[test_case("github-mcp-server stdio", "program:github-mcp-server"; "a program by its name")]
    #[test_case("npx -y mcp-remote https://mcp.example.org/mcp", ""; "a bridge to a server elsewhere")]
    #[test_case("node -e x", ""; "code")]
    fn packages(line: &str, package: &str) {
        let argv: Vec<String> = super::super::shell::words(line)
            .into_iter()
            .map(std::borrow::Cow::into_owned)
            .collect();
        let found = LaunchRules::package(&argv, &[]);
        assert_eq!(found.as_ref().map_or("", Package::as_str), package);
    }
}
