//! `mcpmon confined`: the process in which a scan starts a server. Its namespaces leave the server no network, and end
//! all processes of the server when it ends. The server starts in a sandbox; of its user's files, it can only read the
//! caches of its package manager.
//!
//! There are two such processes: the first one makes the namespaces, and the second one is the first process in them.
//! The second one dies with the first, and all processes that the server left behind die with the second. Neither has
//! the server's variables: those of a configuration that is not reviewed yet could make these processes run another
//! program, or misdirect the sandbox.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use mcpmon_config::{LocalConfig, Search};
use mcpmon_policy::{SandboxMode, SandboxNetwork, SandboxPolicy};
use mcpmon_session::files::places_of;
use mcpmon_stdio::{Domain, OpenProgram};
use nix::{
    sched::{CloneFlags, unshare},
    sys::{prctl, signal::Signal},
    unistd::{getegid, geteuid, setsid},
};

use super::caches::mirror;
use crate::app::sandbox::{Sandboxed, variable};

/// The subcommand.
pub const VERB: &str = "confined";
/// Exit status if the process cannot be confined.
pub const NOT_CONFINED: u8 = 125;
/// The prefix of the names under which a server's variables are passed through these processes.
const VARIABLE_PREFIX: &[u8] = b"mcpmon-server-variable ";

/// The process to be confined.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Confinement {
    /// Try whether it is possible
    #[arg(long)]
    pub(super) probe: bool,
    /// Be the first process of the namespaces
    #[arg(long)]
    pub(super) first: bool,
    /// Make no namespaces
    #[arg(long)]
    pub(super) here: bool,
    /// Keep the network
    #[arg(long)]
    pub(super) network: bool,
    /// Make no sandbox
    #[arg(long)]
    pub(super) open: bool,
    /// The server's program and arguments
    #[arg(last = true)]
    pub(super) words: Vec<OsString>,
}

impl Confinement {
    /// Returns whether this host allows such namespaces.
    pub(super) fn is_possible(network: bool) -> bool {
        let probe = Self {
            probe: true,
            network,
            ..Self::default()
        };
        let command = probe.command(&OwnFiles::default());
        let status = command.and_then(|mut command| command.stderr(Stdio::null()).status());
        status.is_ok_and(|status| status.success())
    }

    /// Returns the command that starts this process.
    pub(super) fn command(&self, own: &OwnFiles) -> io::Result<Command> {
        let mut command = Command::new(env::current_exe()?);
        for (option, path) in [("--config", &own.config), ("--db", &own.store)] {
            if let Some(path) = path {
                command.arg(option).arg(path);
            }
        }
        command.arg(VERB);
        let options = [
            ("--probe", self.probe),
            ("--first", self.first),
            ("--here", self.here),
            ("--network", self.network),
            ("--open", self.open),
        ];
        command.args(
            options
                .iter()
                .filter(|(_, is_set)| *is_set)
                .map(|(option, _)| option),
        );
        command.arg("--").args(&self.words);
        Ok(command)
    }
}

/// The files of mcpmon, which the server may not use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFiles {
    /// A configuration file outside the usual places.
    pub config: Option<PathBuf>,
    /// The store.
    pub store: Option<PathBuf>,
}

/// The reason why a server is not started.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A namespace or a process cannot be made.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The program does not exist or cannot be opened.
    #[error(transparent)]
    Program(#[from] mcpmon_stdio::ProgramError),
    /// The sandbox cannot be made.
    #[error("its sandbox cannot be made")]
    Sandbox(#[from] mcpmon_stdio::DomainError),
    /// No command was given, because a person called this by hand.
    #[error("this is a part of `mcpmon scan --start`")]
    NoCommand,
}

/// Returns a name for a server's variable that has no meaning for these processes.
pub(super) fn variable_name(name: &str) -> OsString {
    OsString::from_vec([VARIABLE_PREFIX, name.as_bytes()].concat())
}

/// Runs a server in its own namespaces, and in a sandbox.
///
/// # Errors
/// Returns an error if these cannot be made, or the server does not start.
pub fn run(confinement: &Confinement, own: &OwnFiles) -> Result<ExitCode, ConfineError> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)?;
    if confinement.first {
        // A process in the session of a terminal could put input into that terminal.
        setsid().map_err(io::Error::from)?;
    }
    if confinement.first || confinement.here {
        return Ok(repeat(&mut server(confinement, own)?)?);
    }
    if let Err(error) = enter(confinement.network) {
        return match confinement.probe {
            true => Ok(ExitCode::from(NOT_CONFINED)),
            false => Err(error.into()),
        };
    }
    if confinement.probe {
        return Ok(ExitCode::SUCCESS);
    }
    let first = Confinement {
        first: true,
        ..confinement.clone()
    };
    Ok(repeat(&mut first.command(own)?)?)
}

/// Prepares the command that starts the server in its sandbox.
fn server(confinement: &Confinement, own: &OwnFiles) -> Result<Command, ConfineError> {
    let (name, arguments) = confinement.words.split_first().ok_or(ConfineError::NoCommand)?;
    let (its_own, passed): (Vec<_>, Vec<_>) =
        env::vars_os().partition(|(name, _)| name.as_bytes().starts_with(VARIABLE_PREFIX));
    let its_own: Vec<(OsString, OsString)> = its_own
        .into_iter()
        .map(|(name, value)| {
            let name = OsStr::from_bytes(&name.as_bytes()[VARIABLE_PREFIX.len()..]);
            (name.to_owned(), value)
        })
        .collect();
    let search_path = variable(&its_own, "PATH").or_else(|| variable(&passed, "PATH"));
    let program = OpenProgram::resolve(name, arguments, search_path)?;
    let (domain, told) = match confinement.open {
        true => (None, Vec::new()),
        false => {
            let (domain, told) = domain(&program, &passed, confinement.network, own)?;
            (Some(domain), told)
        }
    };
    let mut command = Command::new(&program.path);
    if let Some((name, arguments)) = program.arguments.split_first() {
        command.arg0(name).args(arguments);
    }
    command.env_clear().envs(passed).envs(told).envs(its_own);
    if let Some(domain) = domain {
        domain.confine(&mut command);
    }
    Ok(command)
}

/// Makes the sandbox. It is drawn from this user's variables, because the server's configuration can set the server's
/// to anything. Returns the variables by which its package manager finds the caches that it may write to.
fn domain(
    program: &OpenProgram,
    environment: &[(OsString, OsString)],
    keeps_network: bool,
    own: &OwnFiles,
) -> Result<(Domain, Vec<(OsString, OsString)>), ConfineError> {
    let search = Search::of_process(own.config.clone(), LocalConfig::Ignore);
    let sandboxed = Sandboxed {
        program,
        environment,
        temporary: None,
        protected: &places_of(&search, own.store.as_deref(), None),
        extra: &[],
    };
    let network = match keeps_network {
        true => SandboxNetwork::Egress,
        false => SandboxNetwork::Off,
    };
    let policy = SandboxPolicy {
        mode: SandboxMode::Strict,
        network,
        ..SandboxPolicy::default()
    };
    let caches = sandboxed.caches();
    let told = match variable(environment, "TMPDIR") {
        Some(temporary) => mirror(&caches, Path::new(temporary)),
        None => Vec::new(),
    };
    let rules = sandboxed.draw_untrusted(&policy, &caches).rules;
    Ok((Domain::sandboxed(&rules)?.domain, told))
}

/// Makes the namespaces. For a user other than root there is a user namespace too, in which this user keeps their id.
fn enter(keeps_network: bool) -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    let mut flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    flags.set(CloneFlags::CLONE_NEWNET, !keeps_network);
    flags.set(CloneFlags::CLONE_NEWUSER, !user.is_root());
    unshare(flags)?;
    if !user.is_root() {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    Ok(())
}

/// Runs a command to its end, and returns its exit status.
fn repeat(command: &mut Command) -> io::Result<ExitCode> {
    let status = command.status()?;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
