//! The Landlock domain in which a server starts. Its processes can act on one another but on no process outside; in a
//! sandbox, they can use only the files and ports that its rules grant.
//!
//! A process in a domain may trace only processes of that domain. So it can neither open the descriptors nor read the
//! memory of others through `/proc`, even those of its own user. Every domain has that effect.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Command,
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort, PathBeneath,
    PathFd, PathFdError, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    Scope, make_bitflags,
};
use mcpmon_model::{FileRight, SandboxRules};
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};

use super::sys;

/// The right that the domain handles, and grants everywhere. A domain has to handle some right, and it denies `Refer`
/// unless that is handled and granted: then no file could be moved to another directory.
const HANDLED: AccessFs = AccessFs::Refer;

/// The rights that exist on files other than directories.
const ON_FILE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    Execute | WriteFile | ReadFile | Truncate | IoctlDev
});

/// A domain that a process can enter.
#[derive(Debug)]
pub struct Domain {
    pub(super) ruleset: OwnedFd,
    /// True if the server must not run outside of the domain.
    pub(super) is_required: bool,
}

/// A domain with the rules of a sandbox, and what of the rules is missing.
#[derive(Debug)]
pub struct SandboxDomain {
    /// The domain.
    pub domain: Domain,
    /// The rules that this kernel does not enforce.
    pub unenforced: Vec<SandboxFeature>,
    /// The granted paths that cannot be opened.
    pub unopened: Vec<(PathBuf, io::Error)>,
}

/// The reason why there is no domain.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The kernel's Landlock is missing, or too old to allow moves of files.
    #[error(
        "this kernel has no Landlock of Linux 5.19 or later, or has it switched off (`lsm=` at boot, a seccomp filter)"
    )]
    Unsupported(#[from] RulesetError),
    /// The kernel has no Landlock.
    #[error("this kernel has no Landlock, or has it switched off (`lsm=` at boot, a seccomp filter)")]
    Absent,
    /// The system call succeeded, but returned no ruleset.
    #[error("the kernel made no Landlock ruleset")]
    NotMade,
    /// The root directory cannot be opened.
    #[error("the root directory cannot be opened")]
    Root(#[from] PathFdError),
}

/// A part of a sandbox that the kernel enforces from some version of Landlock on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxFeature {
    /// The files that are opened, made and removed.
    Files,
    /// Moves of files from one granted directory to another.
    Moves,
    /// Emptying of files that may not be written.
    Truncation,
    /// TCP connections.
    Tcp,
    /// Commands to devices.
    Devices,
    /// Abstract UNIX sockets.
    AbstractSockets,
    /// UDP.
    Udp,
}

impl SandboxFeature {
    /// All features, in the order in which kernels introduced them.
    pub const ALL: [Self; 7] = [
        Self::Files,
        Self::Moves,
        Self::Truncation,
        Self::Tcp,
        Self::Devices,
        Self::AbstractSockets,
        Self::Udp,
    ];

    /// Returns the first version of Landlock with it.
    pub const fn abi(self) -> u8 {
        match self {
            Self::Files => 1,
            Self::Moves => 2,
            Self::Truncation => 3,
            Self::Tcp => 4,
            Self::Devices => 5,
            Self::AbstractSockets => 6,
            Self::Udp => 10,
        }
    }

    /// Returns the first Linux with it.
    pub const fn kernel(self) -> &'static str {
        match self {
            Self::Files => "5.13",
            Self::Moves => "5.19",
            Self::Truncation => "6.2",
            Self::Tcp => "6.7",
            Self::Devices => "6.10",
            Self::AbstractSockets => "6.12",
            Self::Udp => "7.2",
        }
    }

    /// Returns the consequence for a sandbox without it.
    pub const fn without(self) -> &'static str {
        match self {
            Self::Files => "no file is kept from the server",
            Self::Moves => "no file moves from one directory to another, not even between granted ones",
            Self::Truncation => "files that may only be read can be emptied",
            Self::Tcp => "TCP connections are not restricted",
            Self::Devices => "devices that are granted for reading take commands",
            Self::AbstractSockets => "abstract UNIX sockets of other programs can be connected to",
            Self::Udp => "UDP, and DNS with it, is not restricted",
        }
    }

    /// Returns whether the kernel enforces it.
    fn is_supported(self) -> bool {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let handled = match self {
            Self::Files => ruleset.handle_access(AccessFs::from_all(ABI::V1)),
            Self::Moves => ruleset.handle_access(AccessFs::Refer),
            Self::Truncation => ruleset.handle_access(AccessFs::Truncate),
            Self::Tcp => ruleset.handle_access(AccessNet::ConnectTcp),
            Self::Devices => ruleset.handle_access(AccessFs::IoctlDev),
            Self::AbstractSockets => ruleset.scope(Scope::AbstractUnixSocket),
            Self::Udp => ruleset.handle_access(AccessNet::ConnectSendUdp),
        };
        handled.is_ok()
    }

    /// Returns whether a sandbox with these rules needs it.
    pub const fn is_needed(self, rules: &SandboxRules) -> bool {
        match self {
            Self::Files | Self::Moves | Self::Truncation | Self::Devices | Self::AbstractSockets => {
                rules.files.is_some()
            }
            Self::Tcp => rules.connect.is_some() || rules.is_offline,
            Self::Udp => rules.is_offline,
        }
    }
}

/// Returns the version of Landlock in this kernel. Returns `None` if the kernel has none, or has it switched off.
pub fn landlock_version() -> Option<u8> {
    sys::landlock_version()
}

/// Returns the parts of a sandbox that this kernel does not enforce.
pub fn unsupported_features() -> Vec<SandboxFeature> {
    let features = SandboxFeature::ALL.into_iter();
    features.filter(|feature| !feature.is_supported()).collect()
}

impl Domain {
    /// Creates a domain that does not restrict files.
    ///
    /// # Errors
    /// [`DomainError`].
    pub fn new() -> Result<Self, DomainError> {
        let everywhere = PathBeneath::new(PathFd::new("/")?, HANDLED);
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(HANDLED)?
            .create()?
            .add_rule(everywhere)?;
        Self::of(ruleset, false)
    }

    fn of(ruleset: RulesetCreated, is_required: bool) -> Result<Self, DomainError> {
        let ruleset = Option::from(ruleset).ok_or(DomainError::NotMade)?;
        Ok(Self { ruleset, is_required })
    }

    /// Creates a domain with these rules, as far as the kernel enforces them.
    ///
    /// # Errors
    /// Returns a [`DomainError`] if the kernel enforces none of them.
    pub fn sandboxed(rules: &SandboxRules) -> Result<SandboxDomain, DomainError> {
        Self::sandboxed_as_of(rules, ABI::V10)
    }

    /// Creates a domain as a kernel with this version of Landlock would, for tests of older versions.
    fn sandboxed_as_of(rules: &SandboxRules, newest: ABI) -> Result<SandboxDomain, DomainError> {
        let is_enforced =
            |feature: SandboxFeature| ABI::from(i32::from(feature.abi())) <= newest && feature.is_supported();
        if !is_enforced(SandboxFeature::Files) {
            return Err(DomainError::Absent);
        }
        let needed = SandboxFeature::ALL
            .into_iter()
            .filter(|feature| feature.is_needed(rules));
        let unenforced: Vec<_> = needed.filter(|feature| !is_enforced(*feature)).collect();
        let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        // A domain denies moves of files unless it handles them.
        let handled = match rules.files {
            Some(_) => on_files(newest),
            None => HANDLED.into(),
        };
        ruleset = ruleset.handle_access(handled)?;
        if rules.files.is_some() && is_enforced(SandboxFeature::AbstractSockets) {
            ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
        }
        if (rules.connect.is_some() || rules.is_offline) && is_enforced(SandboxFeature::Tcp) {
            ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
        }
        if rules.is_offline && is_enforced(SandboxFeature::Tcp) {
            ruleset = ruleset.handle_access(AccessNet::BindTcp)?;
        }
        if rules.is_offline && is_enforced(SandboxFeature::Udp) {
            ruleset = ruleset.handle_access(AccessNet::BindUdp | AccessNet::ConnectSendUdp)?;
        }
        let mut created = ruleset.create()?;
        let mut unopened = Vec::new();
        match &rules.files {
            Some(grants) => {
                for grant in grants {
                    match open(&grant.path) {
                        Ok((file, rights)) => {
                            let granted = rights & on_right(grant.right, newest);
                            if !granted.is_empty() {
                                created = created.add_rule(PathBeneath::new(file, granted))?;
                            }
                        }
                        Err(error) => unopened.push((grant.path.clone(), error)),
                    }
                }
            }
            None => {
                created = created.add_rule(PathBeneath::new(PathFd::new("/")?, HANDLED))?;
            }
        }
        if !rules.is_offline && is_enforced(SandboxFeature::Tcp) {
            for port in rules.connect.iter().flatten() {
                created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
            }
        }
        Ok(SandboxDomain {
            domain: Self::of(created, true)?,
            unenforced,
            unopened,
        })
    }

    /// Starts `command`, with all its descendants, in this domain.
    pub fn confine(self, command: &mut Command) -> &mut Command {
        sys::enter_before_exec(self.ruleset, command)
    }
}

/// Returns the rights on files that are handled: all up to version `newest`.
fn on_files(newest: ABI) -> BitFlags<AccessFs> {
    // The right of version 9, to connect to UNIX sockets by path, is not handled: programs use such sockets to look
    // names up.
    AccessFs::from_all(newest.min(ABI::V8))
}

fn on_right(right: FileRight, newest: ABI) -> BitFlags<AccessFs> {
    let all = on_files(newest);
    let granted = match right {
        FileRight::List => AccessFs::ReadDir.into(),
        FileRight::Read => AccessFs::from_read(ABI::V1),
        FileRight::Device => make_bitflags!(AccessFs::{ReadFile | WriteFile | ReadDir | IoctlDev | Truncate}),
        FileRight::Write => all & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev}),
    };
    granted & all
}

/// Opens a path without following links, which an attacker could have placed, and returns the rights that exist on it.
fn open(path: &Path) -> io::Result<(File, BitFlags<AccessFs>)> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let file = File::from(openat2(AT_FDCWD, path, how)?);
    let rights = match file.metadata()?.is_dir() {
        true => AccessFs::from_all(ABI::V8),
        false => ON_FILE,
    };
    Ok((file, rights))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, net::TcpListener};

    use mcpmon_model::FileGrant;

    use super::*;

    type Tested = Result<(), Box<dyn std::error::Error>>;

    const SYSTEM: [&str; 5] = ["/usr", "/bin", "/lib", "/lib64", "/etc"];

    fn grant(path: &Path, right: FileRight) -> FileGrant {
        FileGrant {
            path: fs::canonicalize(path).expect("a path"),
            right,
        }
    }

    /// Rules with the system's files and these.
    fn rules(grants: &[(&Path, FileRight)]) -> SandboxRules {
        let system = SYSTEM.iter().map(|path| grant(Path::new(path), FileRight::Read));
        let granted = grants.iter().map(|(path, right)| grant(path, *right));
        let null = grant(Path::new("/dev/null"), FileRight::Device);
        SandboxRules {
            files: Some(system.chain(granted).chain([null]).collect()),
            ..SandboxRules::default()
        }
    }

    /// Returns what a shell says in a sandbox as of a version of Landlock.
    fn said(rules: &SandboxRules, newest: ABI, script: &str) -> Result<String, Box<dyn std::error::Error>> {
        let sandbox = Domain::sandboxed_as_of(rules, newest)?;
        let mut command = Command::new("/bin/bash");
        let output = sandbox.domain.confine(command.args(["-c", script])).output()?;
        Ok(String::from_utf8(output.stdout)?)
    }

    #[test]
    fn only_what_is_granted_is_read_and_written() -> Tested {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name);
        for name in ["read", "write", "secret"] {
            fs::create_dir(path(name))?;
            fs::write(path(name).join("file"), name)?;
        }
        let rules = rules(&[
            (&path("read"), FileRight::Read),
            (&path("write"), FileRight::Write),
        ]);
        let script = format!(
            "cd {}; cat read/file; cat write/file; cat secret/file; echo x > write/new && cat write/new; \
             echo x > read/new; echo x > read/file; echo x > secret/file; echo x > new; rm -f read/file; \
             mv write/new write/moved && echo moved; mv write/moved read/; : > /dev/null && echo null",
            directory.path().display()
        );
        assert_eq!(said(&rules, ABI::V10, &script)?, "readwritex\nmoved\nnull\n");
        assert_eq!(fs::read_to_string(path("read").join("file"))?, "read");
        Ok(())
    }

    #[test]
    fn names_are_listed_where_only_they_are_granted() -> Tested {
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("file"), "content")?;
        let rules = rules(&[(directory.path(), FileRight::List)]);
        let script = format!("ls {0}; cat {0}/file", directory.path().display());
        assert_eq!(said(&rules, ABI::V10, &script)?, "file\n");
        Ok(())
    }

    #[test]
    fn a_grant_that_became_a_link_is_no_grant_of_its_target() -> Tested {
        let directory = tempfile::tempdir()?;
        let (granted, secret) = (directory.path().join("granted"), directory.path().join("secret"));
        fs::create_dir(&granted)?;
        fs::create_dir(&secret)?;
        fs::write(secret.join("file"), "secret")?;
        let rules = rules(&[(&granted, FileRight::Read)]);
        fs::remove_dir(&granted)?;
        std::os::unix::fs::symlink(&secret, &granted)?;
        let sandbox = Domain::sandboxed(&rules)?;
        let [(path, _)] = sandbox.unopened.as_slice() else {
            panic!("one path: {:?}", sandbox.unopened);
        };
        assert!(path.ends_with("granted"), "{path:?}");
        let script = format!("cat {}/file", granted.display());
        assert_eq!(said(&rules, ABI::V10, &script)?, "");
        Ok(())
    }

    #[test]
    fn connections_go_to_granted_ports_alone() -> Tested {
        let listeners = [
            TcpListener::bind("127.0.0.1:0")?,
            TcpListener::bind("127.0.0.1:0")?,
        ];
        let [granted, other] = listeners
            .each_ref()
            .map(|listener| listener.local_addr().map(|address| address.port()));
        let (granted, other) = (granted?, other?);
        let script = format!(
            "for port in {granted} {other}; do (: < /dev/tcp/127.0.0.1/$port) 2>/dev/null && echo $port; done"
        );
        let mut rules = SandboxRules {
            connect: Some(BTreeSet::from([granted])),
            ..SandboxRules::default()
        };
        assert_eq!(said(&rules, ABI::V10, &script)?, format!("{granted}\n"));
        rules.is_offline = true;
        assert_eq!(said(&rules, ABI::V10, &script)?, "");
        assert_eq!(
            said(&rules, ABI::V3, &script)?,
            format!("{granted}\n{other}\n"),
            "a kernel that knows no connections refuses none"
        );
        Ok(())
    }

    #[test]
    fn an_old_kernel_keeps_files_apart_and_the_rest_is_named() -> Tested {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name);
        fs::write(path("secret"), "secret")?;
        for name in ["a", "b"] {
            fs::create_dir(path(name))?;
        }
        fs::write(path("a/file"), "x")?;
        let mut rules = rules(&[(&path("a"), FileRight::Write), (&path("b"), FileRight::Write)]);
        rules.is_offline = true;
        let unenforced = |newest| Domain::sandboxed_as_of(&rules, newest).map(|sandbox| sandbox.unenforced);
        assert_eq!(unenforced(ABI::V1)?, SandboxFeature::ALL[1..]);
        assert_eq!(unenforced(ABI::V3)?, SandboxFeature::ALL[3..]);
        let script = format!(
            "cd {}; cat secret; cat a/file; mv a/file b/ && echo moved",
            directory.path().display()
        );
        // Without the right to move, `mv` copies.
        assert_eq!(said(&rules, ABI::V1, &script)?, "xmoved\n");
        assert!(matches!(
            Domain::sandboxed_as_of(&rules, ABI::Unsupported),
            Err(DomainError::Absent)
        ));
        Ok(())
    }

    #[test]
    fn what_this_kernel_lacks_is_the_newest() {
        let unsupported = unsupported_features();
        let first = SandboxFeature::ALL.len() - unsupported.len();
        assert_eq!(unsupported, SandboxFeature::ALL[first..]);
        let version = landlock_version().unwrap_or_default();
        assert!(
            SandboxFeature::ALL
                .iter()
                .all(|feature| { unsupported.contains(feature) == (feature.abi() > version) })
        );
    }
}
