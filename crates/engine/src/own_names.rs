//! The names by which a policy permits a server, whatever its client calls it.

use std::path::Path;

use mcpmon_detect::launch::{CodePlace, LaunchRules};
use mcpmon_model::{DerivedId, Digest, NameGlob, Package, PackageKind, PinKey, ServerId};
use mcpmon_policy::{
    Policy, ServerNames, Transport,
    rules::{SpellingGlob, Spellings},
};

/// Name of a server whose command has no usable name.
const NAMELESS: &str = "server";
/// Hexadecimal digits in an id that distinguish a server from a declared one.
const DISTINCTION: usize = 8;
/// File names that many servers have: the name of the directory is used instead.
const COMMON: [&str; 8] = [
    "__main__", "app", "cli", "index", "main", "mcp", "server", "start",
];

/// The names of a server that its client cannot choose freely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNames {
    /// The id of its declaration, or the one that follows from its program or address.
    pub derived: ServerId,
    /// The id by which a list permits it: the same, unless that is the id of declarations of other packages.
    pub permitting: ServerId,
    /// The package of its program, if it is known.
    pub package: Option<Package>,
}

impl OwnNames {
    /// Returns the names of a server under a policy. The id is that of the declaration of the same package, of several the
    /// one that its client uses; else it follows from the package. A server without a package has its id alone.
    pub fn of(policy: &Policy, identity: &PinKey) -> Self {
        let Some(package) = identity.package() else {
            return Self {
                derived: identity.server.clone(),
                permitting: identity.server.clone(),
                package: None,
            };
        };
        let derived = tied_to(policy, &package, Some(&identity.server)).cloned();
        let derived = derived.unwrap_or_else(|| id_of_package(&package));
        Self {
            permitting: permitting_id(policy, &derived, Some(&package)),
            derived,
            package: Some(package),
        }
    }

    /// Returns the same names with the id that a start found: that of its declaration while there is one, or of its address.
    #[must_use]
    pub fn started_as(self, policy: &Policy, derived: Option<&DerivedId>) -> Self {
        let is_declared = |id: &ServerId| policy.servers.iter().any(|server| server.id == *id);
        match derived.filter(|derived| self.package.is_none() || is_declared(&derived.id)) {
            Some(derived) => Self {
                derived: derived.id.clone(),
                permitting: match derived.is_declared {
                    true => derived.id.clone(),
                    false => permitting_id(policy, &derived.id, self.package.as_ref()),
                },
                ..self
            },
            None => self,
        }
    }

    /// Returns them together with the name that a client gives.
    pub const fn with_given<'n>(&'n self, given: &'n ServerId) -> ServerNames<'n> {
        ServerNames {
            given,
            derived: &self.derived,
            permitting: &self.permitting,
            package: self.package.as_ref(),
        }
    }

    /// Returns whether a rule that permits something means this server.
    pub fn are_meant(&self, glob: &SpellingGlob) -> bool {
        let derived = Spellings::new(self.permitting.as_str(), self.permitting.as_str());
        let is_package = |package: &Package| package.is_named_by(&NameGlob::new(glob.as_str()));
        glob.names(&derived) || self.package.as_ref().is_some_and(is_package)
    }
}

/// Returns the id of the declaration of a package: of several the one that its client uses, else the first.
pub(super) fn tied_to<'p>(
    policy: &'p Policy,
    package: &Package,
    given: Option<&ServerId>,
) -> Option<&'p ServerId> {
    let mut tied = policy
        .servers
        .iter()
        .filter(|server| relation(&server.transport, package) == Relation::Same)
        .map(|server| &server.id);
    let own = tied.clone().find(|id| Some(*id) == given);
    own.or_else(|| tied.next())
}

/// Returns the id that allowlists match: `id`, or, if only other packages declare it, `id` with a digest of the package, so that no
/// list matches it. Denylists and settings of a server match `id` in any case.
pub fn permitting_id(policy: &Policy, id: &ServerId, package: Option<&Package>) -> ServerId {
    let Some(package) = package else {
        return id.clone();
    };
    let mut declared = policy
        .servers
        .iter()
        .filter(|server| server.id.is_spelling_of(id))
        .peekable();
    let is_free = declared.peek().is_none()
        || declared.any(|server| relation(&server.transport, package) != Relation::Other);
    if is_free {
        return id.clone();
    }
    let digest = Digest::of(package.as_str().as_bytes()).short(DISTINCTION);
    ServerId::new(format!("{id}-{digest}")).unwrap_or_else(|_| id.clone())
}

/// The relation of a declared server to a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// The declaration is of this package.
    Same,
    /// It is of another one.
    Other,
    /// It does not say.
    Unknown,
}

fn relation(transport: &Transport, package: &Package) -> Relation {
    let Transport::Stdio { command, args } = transport else {
        return match LaunchRules::is_bridge(package.name()) || LaunchRules::is_bridge(last(package.name())) {
            true => Relation::Unknown,
            false => Relation::Other,
        };
    };
    let argv: Vec<&str> = std::iter::once(command).chain(args).map(String::as_str).collect();
    let declared = LaunchRules::package(&argv, &[]);
    if declared.as_ref() == Some(package) {
        return Relation::Same;
    }
    let (kind, name) = (package.kind(), package.name());
    match LaunchRules::code_place(&argv) {
        // Whether a program is a script, its file tells.
        Some(CodePlace::Program(path) | CodePlace::Script(path))
            if kind == PackageKind::Script && path == name =>
        {
            Relation::Same
        }
        // The working directory is not known here.
        Some(CodePlace::Program(path) | CodePlace::Script(path))
            if kind == PackageKind::Script && is_relative_to(name, &path) =>
        {
            Relation::Unknown
        }
        // Nor where a module is found.
        Some(CodePlace::Module(module)) => match kind {
            PackageKind::Script if is_of_module(name, &module) => Relation::Unknown,
            PackageKind::Pypi => Relation::Unknown,
            PackageKind::Npm | PackageKind::Oci | PackageKind::Script | PackageKind::Program => {
                Relation::Other
            }
        },
        Some(CodePlace::Program(program)) => match kind {
            // An installer's record can say that a command belongs to a package.
            PackageKind::Pypi => Relation::Unknown,
            PackageKind::Npm if last(name) == last(&program) => Relation::Unknown,
            PackageKind::Npm | PackageKind::Oci | PackageKind::Script | PackageKind::Program => {
                Relation::Other
            }
        },
        Some(CodePlace::Script(_)) => Relation::Other,
        None => match declared {
            Some(_) => Relation::Other,
            None => Relation::Unknown,
        },
    }
}

/// Returns whether a declared path can be that of a script: it is relative, and the script's ends in it.
fn is_relative_to(script: &str, declared: &str) -> bool {
    let relative = Path::new(declared.strip_prefix("./").unwrap_or(declared));
    relative.components().next().is_some() && relative.is_relative() && Path::new(script).ends_with(relative)
}

/// Returns whether a script or directory can be a Python module.
fn is_of_module(script: &str, module: &str) -> bool {
    let top = module.split('.').next().unwrap_or(module);
    let path = Path::new(script);
    path.file_stem().is_some_and(|stem| stem == top)
        && path.extension().is_none_or(|extension| extension == "py")
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the id that follows from a package.
fn id_of_package(package: &Package) -> ServerId {
    let name = package.name();
    let argv: &[&str] = match package.kind() {
        PackageKind::Npm => &["npx", name],
        PackageKind::Pypi => &["uvx", name],
        PackageKind::Oci => &["docker", "run", "-i", name],
        PackageKind::Script => &["python3", name],
        PackageKind::Program => &[name],
    };
    match LaunchRules::default().detect(argv) {
        Some(launch) => launch.server,
        None => plain_id(package),
    }
}

/// Returns the id of a package that is not recognised as that of a server: its name without a scope, or the name of its
/// script.
pub fn plain_id(package: &Package) -> ServerId {
    let name = package.name();
    let last = || name.rsplit('/').next().unwrap_or(name).to_owned();
    id(&match package.kind() {
        PackageKind::Script => script_name(name),
        PackageKind::Npm | PackageKind::Pypi | PackageKind::Oci | PackageKind::Program => last(),
    })
}

/// Returns `notes` for `/srv/notes.py` and for `/srv/notes/index.js`.
pub fn script_name(path: &str) -> String {
    let path = Path::new(path);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let directory = path.parent().and_then(Path::file_name);
    match directory {
        Some(directory) if COMMON.contains(&stem.as_ref()) => directory.to_string_lossy().into_owned(),
        _ => stem.into_owned(),
    }
}

/// Returns `name` as an id, or `server` if it cannot be one.
pub fn id(name: &str) -> ServerId {
    ServerId::new(name).unwrap_or_else(|_| ServerId::new(NAMELESS).expect("a plain word is an id"))
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::Server;
    use test_case::test_case;

    use super::*;

    fn declared(id: &str, line: &str) -> Server {
        let mut words = line.split(' ').map(str::to_owned);
        Server {
            on_change: None,
            id: ServerId::new(id).expect("an id"),
            transport: Transport::Stdio {
                command: words.next().expect("a program"),
                args: words.collect(),
            },
            env_allow: Vec::new(),
            env_deny: Vec::new(),
            processes: None,
            sandbox: Default::default(),
            egress: None,
        }
    }

    #[test_case("npm:@modelcontextprotocol/server-memory" => "server-memory"; "of npm")]
    #[test_case("npm:@playwright/mcp" => "playwright-mcp"; "with a scope, because the name says nothing")]
    #[test_case("pypi:left-pad" => "left-pad"; "of Python, not recognised")]
    #[test_case("oci:ghcr.io/a/notes" => "notes"; "an image")]
    #[test_case("script:/srv/notes/index.js" => "notes"; "a script")]
    #[test_case("program:tool" => "tool"; "a program")]
    #[test_case("npm:@me/weather" => "forecast"; "declared")]
    fn ids(package: &str) -> String {
        let policy = Policy {
            servers: vec![declared("forecast", "npx -y @me/weather@1 --x")],
            ..Policy::default()
        };
        let identity = PinKey {
            server: ServerId::new("given").expect("an id"),
            name: package.to_owned(),
            uid: 7,
        };
        OwnNames::of(&policy, &identity).derived.to_string()
    }

    #[test_case("npx -y @me/weather", "npm:@me/weather" => true; "its package")]
    #[test_case("npx -y @me/weather", "script:/tmp/weather.py" => false; "a script of that name")]
    #[test_case("npx -y @me/weather", "npm:@evil/weather" => false; "a package of another scope")]
    #[test_case("python3 /srv/weather.py", "script:/srv/weather.py" => true; "its script")]
    #[test_case("python3 /srv/weather.py", "script:/tmp/weather.py" => false; "another script")]
    #[test_case("python3 ./weather.py", "script:/srv/weather.py" => true; "a script by a relative path")]
    #[test_case("python3 src/weather.py", "script:/tmp/weather.py" => false; "another one")]
    #[test_case("/srv/weather", "script:/srv/weather" => true; "an executable script")]
    #[test_case("/srv/weather", "script:/tmp/weather" => false; "another executable script")]
    #[test_case("weather", "program:weather" => true; "its program")]
    #[test_case("weather", "pypi:weather" => true; "a command that a package of Python installed")]
    #[test_case("weather", "npm:weather" => true; "a command of a package")]
    #[test_case("weather", "script:/tmp/weather.py" => false; "a script with the name of a program")]
    #[test_case("python3 -m weather", "pypi:weather" => true; "a module")]
    #[test_case("python3 -m weather", "script:/srv/weather" => true; "a module in the working directory")]
    #[test_case("python3 -m weather", "npm:@evil/weather" => false; "no module")]
    fn a_declared_name_belongs_to_its_package(line: &str, package: &str) -> bool {
        let policy = Policy {
            servers: vec![declared("weather", line)],
            ..Policy::default()
        };
        let identity = PinKey {
            server: ServerId::new("given").expect("an id"),
            name: package.to_owned(),
            uid: 7,
        };
        let names = OwnNames::of(&policy, &identity);
        let is_that = names.permitting.as_str() == "weather";
        assert!(
            is_that || names.permitting.as_str().len() == "weather-".len() + DISTINCTION,
            "{names:?}"
        );
        is_that
    }

    #[test_case("script:/tmp/notes.py" => false; "a script of that name")]
    #[test_case("npm:@evil/notes" => false; "a package of that name")]
    #[test_case("npm:mcp-remote" => true; "a program that connects to it")]
    fn the_name_of_a_declared_remote_server(package: &str) -> bool {
        let id = ServerId::new("notes").expect("an id");
        let policy = Policy {
            servers: vec![Server {
                transport: Transport::Remote {
                    server_type: mcpmon_model::ServerType::Http,
                    url: "https://notes.example/mcp".to_owned(),
                    host: mcpmon_policy::RemoteHost::Address([192, 0, 2, 1].into()),
                    port: 443,
                    tls_fingerprint: None,
                },
                ..declared("notes", "x")
            }],
            ..Policy::default()
        };
        permitting_id(&policy, &id, Package::parse(package).as_ref()) == id
    }

    #[test]
    fn of_two_declarations_the_one_that_its_client_uses_counts() {
        let policy = Policy {
            servers: vec![declared("a", "npx x-mcp --a"), declared("b", "npx x-mcp --b")],
            ..Policy::default()
        };
        let names = |server: &str| {
            let identity = PinKey {
                server: ServerId::new(server).expect("an id"),
                name: "npm:x-mcp".to_owned(),
                uid: 7,
            };
            OwnNames::of(&policy, &identity).derived.to_string()
        };
        assert_eq!((names("b"), names("c")), ("b".to_owned(), "a".to_owned()));
    }
}
