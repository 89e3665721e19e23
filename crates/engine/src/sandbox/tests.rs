use std::collections::BTreeMap;

use test_case::test_case;

use super::*;

/// A file system in memory: directories with the names in them, links with their targets.
struct Listing {
    directories: BTreeMap<PathBuf, Vec<DirectoryEntry>>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Listing {
    /// Of paths, and of links in the form `FROM -> TO`.
    fn new(paths: &[&str]) -> Self {
        let mut listing = Self {
            directories: BTreeMap::new(),
            links: BTreeMap::new(),
        };
        for text in paths {
            let (path, target) = text.split_once(" -> ").unwrap_or((text, ""));
            let path = Path::new(path);
            if !target.is_empty() {
                listing.links.insert(path.to_owned(), target.into());
            }
            for below in path.ancestors() {
                let (Some(directory), Some(name)) = (below.parent(), below.file_name()) else {
                    continue;
                };
                let entry = DirectoryEntry {
                    name: name.to_owned(),
                    is_link: below == path && !target.is_empty(),
                };
                let entries = listing.directories.entry(directory.to_owned()).or_default();
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
        listing
    }
}

impl DirectoryListing for Listing {
    fn entries(&mut self, directory: &Path) -> Vec<DirectoryEntry> {
        self.directories.get(directory).cloned().unwrap_or_default()
    }

    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        let real = self.links.get(path).cloned().unwrap_or_else(|| path.to_owned());
        let exists = match (real.parent(), real.file_name()) {
            (Some(directory), Some(name)) => {
                let mut entries = self.entries(directory).into_iter();
                entries.any(|entry| entry.name == name)
            }
            (_, _) => true,
        };
        exists.then_some(real)
    }
}

const HOST: [&str; 29] = [
    "/usr/bin/node",
    "/bin -> /usr/bin",
    "/etc/hosts",
    "/etc/shadow",
    "/etc/mcpmon/mcpmon.yaml",
    "/proc/1/environ",
    "/dev/null",
    "/dev/sda",
    "/dev/pts/0",
    "/dev/tty",
    "/dev/shm/x",
    "/tmp/x",
    "/srv/data/file",
    "/srv/keys -> /home/me/.ssh",
    "/var/lib/mcpmon/mcpmon.db",
    "/var/cache/x",
    "/home/me/.ssh/id_ed25519",
    "/home/me/.aws/credentials",
    "/home/me/.aws/config",
    "/home/me/.bashrc",
    "/home/me/.gitconfig",
    "/home/me/.config/mcpmon/mcpmon.yaml",
    "/home/me/.config/editor/settings",
    "/home/me/.npm/_cacache",
    "/home/me/.nvm/node/bin/node",
    "/home/me/project/main.py",
    "/home/me/keys -> /home/me/.ssh",
    "/home/you/secret",
    "/root/.profile",
];

/// Draws the rules of a sandbox on that host.
fn drawn(sandbox: &SandboxPolicy, egress: Option<&Egress>) -> DrawnSandbox {
    drawn_for(sandbox, egress, true, &["/home/me/.nvm/node".into()])
}

fn drawn_for(
    sandbox: &SandboxPolicy,
    egress: Option<&Egress>,
    writes_shared: bool,
    package: &[PathBuf],
) -> DrawnSandbox {
    let protected = Places::default().with_alias("/home/me", &[]);
    let places = SandboxPlaces {
        home: Some(Path::new("/home/me")),
        workspace: Path::new("/home/me/project"),
        package,
        caches: &["/home/me/.npm".into()],
        temporary: Some(Path::new("/tmp/x")),
        writes_shared,
        protected: &protected,
        extra: &[],
    };
    draw(sandbox, egress, &places, &mut Listing::new(&HOST))
}

fn sandbox(mode: SandboxMode, read: &[&str], write: &[&str]) -> SandboxPolicy {
    let paths = |paths: &[&str]| paths.iter().map(|path| path.parse().expect("a path")).collect();
    SandboxPolicy {
        mode,
        read: paths(read),
        write: paths(write),
        network: SandboxNetwork::Egress,
    }
}

/// The right that the rules give on a path.
fn right(drawn: &DrawnSandbox, path: &str) -> Option<FileRight> {
    let grants = drawn.rules.files.as_ref().expect("rules on files");
    let covering = grants
        .iter()
        .filter(|grant| Path::new(path).starts_with(&grant.path));
    covering.map(|grant| grant.right).max()
}

#[test_case("/usr/bin/node" => Some(FileRight::Read); "a program")]
#[test_case("/etc/hosts" => Some(FileRight::Read); "a setting of the system")]
#[test_case("/etc/shadow" => Some(FileRight::List); "passwords: their name alone")]
#[test_case("/etc/mcpmon/mcpmon.yaml" => Some(FileRight::List); "the policy of the host: its name alone")]
#[test_case("/var/lib/mcpmon/mcpmon.db" => Some(FileRight::List); "the store of the host: its name alone")]
#[test_case("/proc/1/environ" => Some(FileRight::Read); "a process, which its domain keeps apart")]
#[test_case("/dev/null" => Some(FileRight::Device); "a device that any program may need")]
#[test_case("/dev/sda" => None; "another device")]
#[test_case("/dev/pts/0" => None; "a terminal")]
#[test_case("/tmp/x" => Some(FileRight::Write); "temporary files")]
#[test_case("/srv/data/file" => Some(FileRight::Read); "data")]
#[test_case("/home/me/project/main.py" => Some(FileRight::Read); "a project")]
#[test_case("/home/me/.gitconfig" => Some(FileRight::Read); "settings of git")]
#[test_case("/home/me/.aws/config" => Some(FileRight::Read); "a file beside credentials")]
#[test_case("/home/me/.npm/_cacache" => Some(FileRight::Write); "a cache")]
#[test_case("/home/me/.ssh/id_ed25519" => None; "a key")]
#[test_case("/home/me/.aws/credentials" => None; "credentials")]
#[test_case("/home/me/.bashrc" => None; "what shells run")]
#[test_case("/home/me/.config/mcpmon/mcpmon.yaml" => None; "the user's policy")]
#[test_case("/home/me/keys" => None; "a link")]
#[test_case("/home/me" => None; "the names in a home")]
#[test_case("/home/you/secret" => None; "the home of another user")]
#[test_case("/root/.profile" => None; "the home of root")]
fn of_home_readonly(path: &str) -> Option<FileRight> {
    right(&drawn(&sandbox(SandboxMode::HomeReadonly, &[], &[]), None), path)
}

#[test_case("/usr/bin/node" => Some(FileRight::Read); "a program")]
#[test_case("/home/me/.nvm/node/bin/node" => Some(FileRight::Read); "its own package")]
#[test_case("/home/me/.npm/_cacache" => Some(FileRight::Write); "a cache")]
#[test_case("/home/me/project/main.py" => None; "a project")]
#[test_case("/srv/data/file" => None; "data")]
#[test_case("/tmp/x" => Some(FileRight::Write); "its own temporary files")]
#[test_case("/tmp/y" => None; "temporary files of others")]
#[test_case("/dev/null" => Some(FileRight::Device); "a device that any program may need")]
#[test_case("/dev/pts/0" => None; "a terminal")]
#[test_case("/dev/tty" => None; "the terminal of its client")]
#[test_case("/dev/shm/x" => Some(FileRight::Write); "shared memory")]
#[test_case("/etc/shadow" => Some(FileRight::List); "passwords: their name alone")]
#[test_case("/home/me/.ssh/id_ed25519" => None; "a key")]
fn of_strict(path: &str) -> Option<FileRight> {
    right(&drawn(&sandbox(SandboxMode::Strict, &[], &[]), None), path)
}

#[test_case("/home/me/.npm/_cacache" => Some(FileRight::Read); "a cache")]
#[test_case("/dev/shm/x" => None; "shared memory")]
#[test_case("/tmp/x" => Some(FileRight::Write); "its own temporary files")]
fn of_a_server_that_writes_nothing_shared(path: &str) -> Option<FileRight> {
    let policy = sandbox(SandboxMode::Strict, &[], &[]);
    right(&drawn_for(&policy, None, false, &[]), path)
}

#[test_case("/" => None; "everything")]
#[test_case("/home" => None; "all homes")]
#[test_case("/home/me" => None; "its own home")]
#[test_case("/home/me/project" => Some(FileRight::Read); "a project")]
fn of_a_package(package: &str) -> Option<FileRight> {
    let policy = sandbox(SandboxMode::Strict, &[], &[]);
    right(
        &drawn_for(&policy, None, true, &[package.into()]),
        "/home/me/project/main.py",
    )
}

#[test_case("/" => true; "everything")]
#[test_case("/home" => true; "the homes")]
#[test_case("/home/you" => true; "the home of another user")]
#[test_case("/root" => true; "the home of root")]
#[test_case("/Users/you" => true; "a home in another usual place")]
#[test_case("/data" => true; "above the home")]
#[test_case("/data/me" => true; "the home")]
#[test_case("/data/me/project" => false; "a project")]
#[test_case("/root/project" => false; "a project of root")]
#[test_case("/srv" => false; "another directory")]
fn homes(directory: &str) -> bool {
    holds_home(Path::new(directory), Some(Path::new("/data/me")))
}

#[test]
fn what_is_granted_is_granted_without_what_is_protected_in_it() {
    let policy = sandbox(SandboxMode::Strict, &["/srv/data"], &["~", "${workspace}"]);
    let drawn = drawn(&policy, None);
    assert_eq!(drawn.remarks, [""; 0]);
    assert_eq!(right(&drawn, "/srv/data/file"), Some(FileRight::Read));
    assert_eq!(right(&drawn, "/home/me/project/main.py"), Some(FileRight::Write));
    assert_eq!(
        right(&drawn, "/home/me/.config/editor/settings"),
        Some(FileRight::Write)
    );
    assert_eq!(
        right(&drawn, "/home/me/.gitconfig"),
        Some(FileRight::Read),
        "it may not be written"
    );
    for path in [
        "/home/me/.ssh/id_ed25519",
        "/home/me/.bashrc",
        "/home/me/.config/mcpmon/mcpmon.yaml",
    ] {
        assert_eq!(right(&drawn, path), None, "{path}");
    }
}

#[test]
fn a_protected_file_is_granted_by_its_own_name_alone() {
    let policy = sandbox(
        SandboxMode::Strict,
        &["~/.aws/credentials", "/srv/keys", "~/.config/mcpmon", "~/absent"],
        &[],
    );
    let drawn = drawn(&policy, None);
    assert_eq!(right(&drawn, "/home/me/.aws/credentials"), Some(FileRight::Read));
    assert_eq!(right(&drawn, "/home/me/.ssh/id_ed25519"), None);
    assert_eq!(right(&drawn, "/home/me/.config/mcpmon/mcpmon.yaml"), None);
    assert_eq!(
        drawn.remarks,
        [
            "`/srv/keys` is not granted: it leads to a protected file (ssh-config); name that file itself",
            "`~/.config/mcpmon` is not granted: it is a file of mcpmon",
            "`~/absent` is not granted: there is no such file",
        ]
    );
}

#[test]
fn a_grant_of_everything_is_no_way_round() {
    let drawn = drawn(&sandbox(SandboxMode::Strict, &[], &["/"]), None);
    let grants = drawn.rules.files.as_ref().expect("rules on files");
    assert!(grants.iter().all(|grant| grant.path != Path::new("/")));
    assert_eq!(right(&drawn, "/srv/data/file"), Some(FileRight::Write));
    assert_eq!(right(&drawn, "/home/you/secret"), Some(FileRight::Write));
    for path in ["/home/me/.ssh/id_ed25519", "/root/.profile"] {
        assert_eq!(right(&drawn, path), None, "{path}");
    }
    assert_eq!(
        right(&drawn, "/etc/shadow"),
        Some(FileRight::List),
        "its name alone"
    );
}

#[test]
fn without_a_daemon_connections_are_refused_by_their_ports() {
    let list = |allow: &[&str]| Egress {
        default: EgressDefault::Deny,
        allow: allow
            .iter()
            .map(|text| text.parse().expect("a destination"))
            .collect(),
        deny: Vec::new(),
    };
    let open = SandboxPolicy::default();
    let of = |policy: &SandboxPolicy, egress: &Egress| drawn(policy, Some(egress)).rules;
    let rules = of(&open, &list(&["api.example.com:443", "[10.0.0.0/8]:8080"]));
    assert_eq!(rules.connect, Some(BTreeSet::from([443, 8080])));
    assert_eq!((rules.files, rules.is_offline), (None, false));
    assert_eq!(of(&open, &list(&[])).connect, Some(BTreeSet::new()));
    let told = drawn(&open, Some(&list(&["api.example.com"])));
    assert!(
        told.rules.is_open() && told.remarks[0].contains("without a port"),
        "{told:?}"
    );
    assert!(of(&open, &Egress::default()).is_open());
    let off = SandboxPolicy {
        network: SandboxNetwork::Off,
        ..open
    };
    let rules = of(&off, &list(&["api.example.com:443"]));
    assert_eq!((rules.connect, rules.is_offline), (None, true));
}
