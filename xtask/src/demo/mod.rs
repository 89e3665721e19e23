//! `cargo xtask demo`: launches, hashes and connects to a real MCP server, and has the kernel refuse a denied address.
//! Everything that it makes is removed again, on Ctrl-C and on failure too.

mod client;
mod daemon;
mod network;
mod outcome;
mod prerequisites;
mod runtime;
mod undo;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail, ensure};

use self::{
    daemon::Daemon,
    runtime::Runtime,
    undo::{Streams, Undo},
};
use crate::{
    privilege::Privilege,
    run,
    shell::{self, say, step},
};

/// The port on which the HTTP server listens, on every address of its namespace.
const PORT: u16 = 3901;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Take the server from npm (node) or from PyPI (python) [default: node where there is one]
    #[arg(long, value_enum)]
    runtime: Option<Runtime>,
    /// The part that runs as root, after everything is built
    #[arg(long, hide = true)]
    scene: bool,
}

/// Checks, builds and fetches as the user, then plays the scene as root.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let directory = shell::target().join("demo");
    if options.scene {
        let runtime = options
            .runtime
            .context("the scene is started by `cargo xtask demo`")?;
        return scene(runtime, &directory).map(|()| ExitCode::SUCCESS);
    }
    run::as_root(prepare(options, &directory)?)
}

/// Plays the scene as a test, which fails if the scene shows anything unexpected.
///
/// # Errors
/// [`shell::Environment`] if it cannot be played on this machine.
pub(crate) fn test() -> Result<()> {
    let options = Options {
        runtime: None,
        scene: false,
    };
    let scene = prepare(&options, &shell::target().join("demo"))?;
    shell::run(&mut Privilege::current().elevate(scene))
}

/// Checks, builds and fetches. Returns the command that plays the scene as root.
fn prepare(options: &Options, directory: &Path) -> Result<Command> {
    let runtime = prerequisites::check(options.runtime)?;
    run::build()?;
    fs::create_dir_all(directory).with_context(|| format!("could not create {}", directory.display()))?;
    step(&format!("fetch {}", runtime.server()), || {
        runtime.fetch(directory)
    })?;
    say("\nLoading the kernel programs and making a network namespace need root:");
    let mut scene = shell::command(std::env::current_exe().context("the path of xtask")?);
    scene.args(["demo", "--scene", "--runtime", runtime.name()]);
    Ok(scene)
}

fn scene(runtime: Runtime, directory: &Path) -> Result<()> {
    let undo = Undo::on_signals()?;
    let played = play(runtime, directory, &undo);
    undo.run();
    played
}

fn play(runtime: Runtime, directory: &Path, undo: &Undo) -> Result<()> {
    let scratch = scratch(undo)?;
    step("make a network namespace", || network::make(undo))?;
    let daemon = step("start mcpmon daemon", || Daemon::start(&scratch, undo))?;
    let stdio = step("launch an MCP server over stdio", || {
        let mut server = undo.spawn(
            runtime.stdio(directory),
            Streams::Piped,
            &scratch.join("stdio.log"),
        )?;
        client::over_stdio(&mut server)
    })?;
    ensure!(!stdio.tools.is_empty(), "the server offers no tool");
    say(format_args!(
        "it offers {} tools: {}",
        stdio.tools.len(),
        stdio.tools.join(", ")
    ));
    let watched = SocketAddr::from((network::WATCHED, PORT));
    step(
        "launch an MCP server over Streamable HTTP, in the namespace",
        || {
            let server = network::inside(&runtime.http(directory, PORT));
            let log = scratch.join("http.log");
            let mut server = undo.spawn(server, Streams::Logged, &log)?;
            undo::wait_until(|| network::has_listener(PORT), "the server", &mut server, &log)?;
            let status = client::over_http(watched)?;
            say(format_args!(
                "connected to the watched address {watched}: {status}"
            ));
            Ok(())
        },
    )?;
    let denied = SocketAddr::from((network::DENIED, PORT));
    step("connect to the same server by a denied address", || {
        refused(denied)
    })?;
    daemon.wait_for(&[network::WATCHED, network::DENIED])?;
    for listing in ["servers", "execs", "connections", "status"] {
        shell::print(format_args!("\n──── mcpmon {listing}"));
        daemon.show(listing)?;
    }
    daemon.listings()?.check()?;
    shell::print(format_args!(
        "\nThe refusal is the line with {denied}: the kernel answered EPERM, no packet left."
    ));
    Ok(())
}

/// Makes a directory for this run, after removing what a killed run left. It belongs to root and is in a directory of
/// root's: the daemon would reject a policy below a checkout, because the checkout's owner could change it.
fn scratch(undo: &Undo) -> Result<PathBuf> {
    let scratch = PathBuf::from("/run/mcpmon-demo");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).with_context(|| format!("could not remove {}", scratch.display()))?;
    }
    fs::create_dir_all(&scratch).with_context(|| format!("could not create {}", scratch.display()))?;
    undo.later(undo::Action::RemoveDirectory(scratch.clone()));
    Ok(scratch)
}

fn refused(address: SocketAddr) -> Result<()> {
    match client::connect(address) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            say(format_args!("refused by the kernel: {address}: {error}"));
            Ok(())
        }
        Err(error) => bail!("{address} was to be refused with EPERM, and failed otherwise: {error}"),
        Ok(_) => bail!("{address} is on the deny list, and the connection was let through"),
    }
}
