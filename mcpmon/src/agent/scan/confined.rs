//! `mcpmon confined`: the process that a scan starts a server in. It has namespaces of its own, so that the server reaches no
//! network, and everything that it starts ends with it.
//!
//! There are two of these processes: the first makes the namespaces, the second is the first process in them, and dies
//! with the first one. Whatever the server left behind dies with the second.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitCode},
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::{prctl, signal::Signal},
    unistd::{getegid, geteuid},
};

/// The verb.
pub const VERB: &str = "confined";
/// Exit status where the process cannot be confined.
pub const NOT_CONFINED: u8 = 125;

/// The process to be confined.
#[derive(Clone, Debug, clap::Args)]
pub struct Confinement {
    /// Try whether it is possible
    #[arg(long)]
    probe: bool,
    /// Be the first process of the namespaces
    #[arg(long)]
    first: bool,
    /// Keep the network
    #[arg(long)]
    network: bool,
    /// The server's program and arguments
    #[arg(last = true)]
    words: Vec<OsString>,
}

/// Runs a server in namespaces of its own.
///
/// # Errors
/// Returns an error if there are none, or the server does not start.
pub fn run(confinement: &Confinement) -> io::Result<ExitCode> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if confinement.first {
        return repeat(&mut server(&confinement.words)?);
    }
    if let Err(error) = enter(confinement.network) {
        return match confinement.probe {
            true => Ok(ExitCode::from(NOT_CONFINED)),
            false => Err(error),
        };
    }
    if confinement.probe {
        return Ok(ExitCode::SUCCESS);
    }
    let mut first = Command::new(std::env::current_exe()?);
    first.args([VERB, "--first", "--"]).args(&confinement.words);
    repeat(&mut first)
}

fn server(words: &[OsString]) -> io::Result<Command> {
    let missing = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is a part of `mcpmon scan --start`",
        )
    };
    let (program, arguments) = words.split_first().ok_or_else(missing)?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Makes the namespaces; as another user than root one of users first, in which this user stays who they are.
fn enter(keeps_network: bool) -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    let mut flags = CloneFlags::CLONE_NEWPID;
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

/// Runs a command to its end, and ends as it did.
fn repeat(command: &mut Command) -> io::Result<ExitCode> {
    let status = command.status()?;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
