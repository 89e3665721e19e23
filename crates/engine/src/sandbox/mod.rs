//! Rules of a server's sandbox, built from its declaration and from listings of this host's directories.
//!
//! Landlock knows grants and no exceptions: a directory that holds protected files is not granted as a whole; each of
//! its unprotected entries is granted instead. So a file that appears in such a directory later is not granted either.

mod caches;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
};

use mcpmon_detect::protected_paths::{FileAccess, PathCategory, Places, Protection, protection};
use mcpmon_model::{FileGrant, FileRight, PathPattern, SandboxRules};
use mcpmon_policy::{
    Egress, EgressDefault, SandboxMode, SandboxNetwork, SandboxPath, SandboxPathStart, SandboxPolicy,
};

pub use self::caches::{MirroredCache, PackageCache, package_caches};

/// Most grants of one sandbox: the kernel takes more, but no real directory has so many entries next to protected
/// files.
const MAX_GRANTS: usize = 4096;
/// Most directories that are listed because they contain protected files.
const MAX_LISTED: usize = 512;

/// Directories and files of the system that any program may need.
const SYSTEM: [&str; 18] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/snap",
    "/etc",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/nscd",
    "/run/NetworkManager/resolv.conf",
    "/var/lib/ca-certificates",
];
/// Files of the system that are links on many hosts, into directories that are not granted.
const LINKED: [&str; 3] = ["/etc/resolv.conf", "/etc/localtime", "/etc/hosts"];
/// Devices that any program may need. Terminals are not among them: `/dev/pts` has those of the user, and `/dev/tty` is
/// that of the client.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];
/// Memory that processes share by name.
const SHARED_MEMORY: &str = "/dev/shm";
/// Entries of the root directory that are not granted as a whole.
const NOT_WHOLE: [&str; 5] = ["dev", "home", "root", "Users", "tmp"];
/// The directory with the processes, granted as a whole: its entries come and go. The kernel refuses memory, environment
/// and descriptors of a process to one that may not trace it, and Landlock lets no process trace one outside its domain.
const PROCESSES: &str = "/proc";
/// Directories that contain homes.
const HOMES: [&str; 3] = ["/home", "/root", "/Users"];
/// Temporary directories of all users.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// The places on this host for which a sandbox is built.
#[derive(Debug)]
pub struct SandboxPlaces<'a> {
    /// The home directory, without links.
    pub home: Option<&'a Path>,
    /// The directory that the client starts the server in, without links.
    pub workspace: &'a Path,
    /// The files and directories of the server's own package.
    pub package: &'a [PathBuf],
    /// The caches of the package manager that starts it.
    pub caches: &'a [PathBuf],
    /// The temporary directory that its environment names.
    pub temporary: Option<&'a Path>,
    /// True if it may write what other programs of its user use too: the caches, and memory shared by name.
    pub writes_shared: bool,
    /// The places of protected files.
    pub protected: &'a Places,
    /// Further protected files.
    pub extra: &'a [PathPattern],
}

/// The part of the file system that building the rules needs.
pub trait DirectoryListing {
    /// Returns the entries of a directory; none if it cannot be listed.
    fn entries(&mut self, directory: &Path) -> Vec<DirectoryEntry>;
    /// Returns the path of a file without links; `None` if there is no file.
    fn real(&mut self, path: &Path) -> Option<PathBuf>;
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name.
    pub name: OsString,
    /// True if it is a symbolic link: the target is granted only through its own path.
    pub is_link: bool,
}

/// The rules of a sandbox, with remarks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrawnSandbox {
    /// The rules.
    pub rules: SandboxRules,
    /// Grants of the declaration that have no effect, each as a sentence without a full stop.
    pub remarks: Vec<String>,
}

/// Returns whether a directory, given without links, is a home or contains homes: `home`, or those in the usual places.
/// Such a directory is never a package.
pub fn holds_home(directory: &Path, home: Option<&Path>) -> bool {
    let is_usual = HOMES.iter().map(Path::new).any(|homes| {
        homes.starts_with(directory) || directory.parent() == Some(homes) && homes != Path::new("/root")
    });
    is_usual || home.is_some_and(|home| home.starts_with(directory))
}

/// Builds the rules of a sandbox. `egress` is the list, if the kernel does not enforce it.
pub fn draw(
    sandbox: &SandboxPolicy,
    egress: Option<&Egress>,
    places: &SandboxPlaces<'_>,
    listing: &mut dyn DirectoryListing,
) -> DrawnSandbox {
    let mut drawing = Drawing {
        places,
        listing,
        grants: BTreeSet::new(),
        listed: 0,
        is_cut: false,
        remarks: Vec::new(),
    };
    let files = match sandbox.mode {
        SandboxMode::Off => None,
        SandboxMode::HomeReadonly => {
            drawing.host();
            Some(drawing.declared(sandbox))
        }
        SandboxMode::Strict => {
            drawing.system();
            Some(drawing.declared(sandbox))
        }
    };
    let is_offline = sandbox.network == SandboxNetwork::Off;
    let connect = egress
        .filter(|_| !is_offline)
        .and_then(|egress| drawing.ports(egress));
    if drawing.is_cut {
        drawing.remarks.push(format!(
            "more than {MAX_GRANTS} files beside protected ones, or more than {MAX_LISTED} directories with some: the \
             rest is not granted"
        ));
    }
    DrawnSandbox {
        remarks: drawing.remarks,
        rules: SandboxRules {
            files,
            connect,
            is_offline,
        },
    }
}

struct Drawing<'a> {
    places: &'a SandboxPlaces<'a>,
    listing: &'a mut dyn DirectoryListing,
    grants: BTreeSet<FileGrant>,
    listed: usize,
    is_cut: bool,
    remarks: Vec<String>,
}

impl Drawing<'_> {
    /// Grants reading of everything that is not protected.
    fn host(&mut self) {
        for entry in self.listing.entries(Path::new("/")) {
            let is_whole = !NOT_WHOLE.iter().any(|name| entry.name == *name);
            if is_whole && !entry.is_link {
                self.grant(&Path::new("/").join(&entry.name), FileRight::Read);
            }
        }
        if let Some(home) = self.places.home {
            self.grant(home, FileRight::Read);
        }
        // The workspace may be in another user's home.
        self.grant(self.places.workspace, FileRight::Read);
        for path in TEMPORARY {
            self.real(Path::new(path), FileRight::Write);
        }
        self.devices();
    }

    fn system(&mut self) {
        for path in SYSTEM.iter().chain(&LINKED) {
            self.real(Path::new(path), FileRight::Read);
        }
        self.devices();
    }

    fn devices(&mut self) {
        for path in DEVICES {
            self.real(Path::new(path), FileRight::Device);
        }
        if self.places.writes_shared {
            self.real(Path::new(SHARED_MEMORY), FileRight::Write);
        }
    }

    /// Grants the package of the server, and what its declaration grants.
    fn declared(&mut self, sandbox: &SandboxPolicy) -> Vec<FileGrant> {
        // If a script is in a home, the files next to it are not granted with it.
        for path in self.places.package {
            if !holds_home(path, self.places.home) {
                self.grant(path, FileRight::Read);
            }
        }
        let on_caches = match self.places.writes_shared {
            true => FileRight::Write,
            false => FileRight::Read,
        };
        for path in self.places.caches {
            self.real(path, on_caches);
        }
        if let Some(path) = self.places.temporary {
            self.real(path, FileRight::Write);
        }
        let rights = [
            (&sandbox.read, FileRight::Read),
            (&sandbox.write, FileRight::Write),
        ];
        for (paths, right) in rights {
            for path in paths {
                self.written(path, right);
            }
        }
        std::mem::take(&mut self.grants).into_iter().collect()
    }

    /// Grants a path of the declaration, even to a protected file, because the declaration names it.
    fn written(&mut self, written: &SandboxPath, right: FileRight) {
        let start = match written.start {
            SandboxPathStart::Root => Some(Path::new("/")),
            SandboxPathStart::Home => self.places.home,
            SandboxPathStart::Workspace => Some(self.places.workspace),
        };
        let Some(start) = start else {
            self.remarks
                .push(format!("`{written}` is not granted: there is no home directory"));
            return;
        };
        let path = written
            .names
            .iter()
            .fold(start.to_owned(), |path, name| path.join(name));
        let Some(real) = self.listing.real(&path) else {
            self.remarks
                .push(format!("`{written}` is not granted: there is no such file"));
            return;
        };
        let is_meant = match self.protection(&path, right) {
            Protection::Protected(category) => category != PathCategory::McpmonConfig,
            Protection::Free | Protection::Holds => false,
        };
        match self.protection(&real, right) {
            Protection::Protected(PathCategory::McpmonConfig) => {
                self.remarks
                    .push(format!("`{written}` is not granted: it is a file of mcpmon"));
            }
            Protection::Protected(_) if is_meant => self.exactly(&real, right),
            Protection::Protected(category) => self.remarks.push(format!(
                "`{written}` is not granted: it leads to a protected file ({}); name that file itself",
                category.as_str()
            )),
            Protection::Free | Protection::Holds => self.grant(&real, right),
        }
    }

    /// Grants the target of a path, unless it is protected.
    fn real(&mut self, path: &Path, right: FileRight) {
        if let Some(real) = self.listing.real(path) {
            self.grant(&real, right);
        }
    }

    /// Grants the unprotected part of a path.
    fn grant(&mut self, path: &Path, right: FileRight) {
        match self.protection(path, right) {
            Protection::Free => self.exactly(path, right),
            Protection::Holds => self.contents(path, right),
            Protection::Protected(_) if right == FileRight::Write => self.grant(path, FileRight::Read),
            Protection::Protected(_) => {}
        }
    }

    /// Grants the unprotected entries of a directory that also contains protected files.
    fn contents(&mut self, directory: &Path, right: FileRight) {
        if self.listed == MAX_LISTED {
            self.is_cut = true;
            return;
        }
        self.listed += 1;
        // The names in a home are secrets (of keys, of accounts), and a right to list a directory covers everything
        // below it.
        let is_public = !self.is_related_to_home(directory);
        if is_public {
            self.exactly(directory, FileRight::List);
        }
        for entry in self.listing.entries(directory) {
            if !entry.is_link {
                self.grant(&directory.join(&entry.name), right);
            }
        }
    }

    fn exactly(&mut self, path: &Path, right: FileRight) {
        if self.grants.len() == MAX_GRANTS {
            self.is_cut = true;
            return;
        }
        self.grants.insert(FileGrant {
            path: path.to_owned(),
            right,
        });
    }

    fn protection(&self, path: &Path, right: FileRight) -> Protection {
        if path == Path::new(PROCESSES) {
            return Protection::Free;
        }
        let access = match right {
            FileRight::List | FileRight::Read | FileRight::Device => FileAccess::Read,
            FileRight::Write => FileAccess::Write,
        };
        let named = protection(
            &path.to_string_lossy(),
            access,
            self.places.protected,
            self.places.extra,
        );
        let is_above_home = self.places.home.is_some_and(|home| home.starts_with(path));
        let is_above_homes = path == Path::new("/") || HOMES.iter().any(|homes| path == Path::new(homes));
        if is_above_home || is_above_homes {
            named.max(Protection::Holds)
        } else {
            named
        }
    }

    fn is_related_to_home(&self, directory: &Path) -> bool {
        let mut homes = HOMES.iter().map(Path::new).chain(self.places.home);
        homes.any(|home| home.starts_with(directory) || directory.starts_with(home))
    }

    /// Returns the ports that an egress list allows; `None` if it allows all.
    fn ports(&mut self, egress: &Egress) -> Option<BTreeSet<u16>> {
        if egress.default == EgressDefault::Allow {
            return None;
        }
        let ports: Option<BTreeSet<u16>> = egress.allow.iter().map(|allowed| allowed.port).collect();
        if ports.is_none() {
            let remark = "`egress.allow` has a destination without a port: without a daemon only ports are refused, and \
                          so none is";
            self.remarks.push(remark.to_owned());
        }
        ports
    }
}
