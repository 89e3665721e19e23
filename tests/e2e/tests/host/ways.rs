//! Ways to run another program or other code under the name of a pinned server, each with what comes of it.

use std::{
    fs,
    io::Read as _,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{is, text},
    program,
    servers::{self, NativeServer, change},
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use test_case::test_case;

/// Executes a copy of a program that is in no file system.
const MEMFD: &str = r"
import os, sys
memory = os.memfd_create('copy')
with open(sys.argv[1], 'rb') as program:
    os.write(memory, program.read())
again = os.open(f'/proc/self/fd/{memory}', os.O_RDONLY)
os.close(memory)
os.execve(again, [sys.argv[2], '9'], os.environ)
";

fn policy() -> String {
    let own = std::process::id();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: block}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n"
    )
}

/// A mount that ends with the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).unwrap_or_default();
    }
}

/// A started server, and what has to stay for it.
type Start = (Child, Option<Mounted>);

fn start(command: &mut Command) -> Result<Child> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().context("it does not start")
}

/// Closes its input and waits; its output, and the signal that ended it.
fn outcome(mut server: Child) -> Result<(String, Option<i32>)> {
    drop(server.stdin.take());
    let mut output = String::new();
    let mut stdout = server.stdout.take().context("a pipe")?;
    stdout.read_to_string(&mut output)?;
    Ok((output, server.wait()?.signal()))
}

/// A changed copy of the program, in a directory of its own.
fn changed(server: &NativeServer, directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let copy = directory.join(&server.name);
    program::copy(&server.program, &copy)?;
    change(&copy)?;
    Ok(copy)
}

fn by_memfd(server: &NativeServer, scratch: &Path) -> Result<Start> {
    let copy = changed(server, &scratch.join("copy"))?;
    let other = copy.with_file_name("other");
    fs::rename(copy, &other)?;
    let mut command = Command::new("python3");
    command.args(["-c", MEMFD]).args([&other, &server.program]);
    Ok((start(&mut command)?, None))
}

fn deleted(server: &NativeServer, scratch: &Path) -> Result<Start> {
    let copy = changed(server, &scratch.join("copy"))?;
    let child = start(Command::new(&copy).arg("9"))?;
    fs::remove_file(copy)?;
    Ok((child, None))
}

fn by_hard_link(server: &NativeServer, scratch: &Path) -> Result<Start> {
    let copy = changed(server, &scratch.join("copy"))?;
    let other = copy.with_file_name("other");
    fs::rename(&copy, &other)?;
    fs::hard_link(&other, &copy)?;
    Ok((start(Command::new(&copy).arg("9"))?, None))
}

fn by_bind_mount(server: &NativeServer, scratch: &Path) -> Result<Start> {
    let copy = changed(server, &scratch.join("copy"))?;
    mount(
        Some(&copy),
        &server.program,
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    )?;
    let mounted = Mounted(server.program.clone());
    Ok((start(Command::new(&server.program).arg("9"))?, Some(mounted)))
}

fn by_overlay(server: &NativeServer, scratch: &Path) -> Result<Start> {
    let upper = scratch.join("upper");
    changed(server, &upper)?;
    let (work, merged) = (scratch.join("work"), scratch.join("merged"));
    fs::create_dir_all(&work)?;
    fs::create_dir_all(&merged)?;
    let lower = server.program.parent().context("a directory")?;
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    mount(
        Some("overlay"),
        &merged,
        Some("overlay"),
        MsFlags::empty(),
        Some(&*options),
    )?;
    let mounted = Mounted(merged.clone());
    Ok((
        start(Command::new(merged.join(&server.name)).arg("9"))?,
        Some(mounted),
    ))
}

#[test_case(by_memfd; "a program without a file")]
#[test_case(deleted; "a file that is deleted")]
#[test_case(by_hard_link; "a hard link")]
#[test_case(by_bind_mount; "a bind mount")]
#[test_case(by_overlay; "an overlay")]
fn another_program_under_the_name_of_a_pinned_one_runs_nothing(
    way: fn(&NativeServer, &Path) -> Result<Start>,
) -> Result<()> {
    let Some(host) = Host::take(&["cc", "python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let first = start(Command::new(&server.program).arg("9"))?;
    daemon.start_of(&server.name, 1)?;
    assert_eq!(outcome(first)?, ("ran".to_owned(), None));

    let scratch = tempfile::tempdir_in("/var/tmp")?;
    let (child, mounted) = way(&server, scratch.path())?;
    let ended = outcome(child)?;
    drop(mounted);
    assert_eq!(ended, (String::new(), Some(9)), "{}", daemon.log());
    let denied = daemon.event_of("mcp_server_denied", &server.name)?;
    assert_eq!(text(&denied, "action"), "block", "{denied}");
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    assert_eq!(text(&mismatch, "part"), "executable", "{mismatch}");
    Ok(())
}

fn script(path: &Path, code: &str) -> Result<()> {
    fs::write(path, code)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Code in no file of the server is not compared: SECURITY.md names it.
#[test_case("NODE_OPTIONS", "--require={}"; "node's options")]
#[test_case("LD_PRELOAD", "{}"; "a library that is loaded first")]
fn code_by_the_environment_is_not_compared(variable: &str, value: &str) -> Result<()> {
    let Some(host) = Host::take(&["cc", "node"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let name = servers::name();
    let directory = daemon.site.path(&name);
    fs::create_dir_all(&directory)?;
    let server = directory.join(&name);
    script(&server, "console.log('server'); process.stdin.resume()\n")?;
    let begin = || start(Command::new("node").arg(&server));
    let first = begin()?;
    daemon.start_of(&name, 1)?;
    assert_eq!(outcome(first)?, ("server\n".to_owned(), None));

    let elsewhere = tempfile::tempdir_in("/var/tmp")?;
    let added = match variable {
        "LD_PRELOAD" => {
            let (source, library) = (
                elsewhere.path().join("added.c"),
                elsewhere.path().join("added.so"),
            );
            let code = "#include <unistd.h>\n__attribute__((constructor)) static void run(void) { write(1, \"added\\n\", 6); }\n";
            fs::write(&source, code)?;
            let compiled = Command::new("cc")
                .args(["-shared", "-fPIC", "-w", "-o"])
                .args([&library, &source])
                .status()?;
            anyhow::ensure!(compiled.success(), "cc ended with {compiled}");
            library
        }
        _ => {
            let added = elsewhere.path().join("added.js");
            fs::write(&added, "console.log('added')\n")?;
            added
        }
    };
    let value = value.replace("{}", &added.display().to_string());
    let second = start(Command::new("node").arg(&server).env(variable, value))?;
    let started = daemon.start_of(&name, 2)?;
    assert_eq!(text(&started, "pin"), "match", "{started}");
    assert_eq!(outcome(second)?, ("added\nserver\n".to_owned(), None));
    Ok(())
}

/// A program that the dynamic loader is told to run has the loader's name: it is no start of the server.
#[test]
fn a_program_that_the_loader_runs_is_not_recognised() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = servers::ProgramServer::make(&daemon.site.path(""))?;
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    let loader = if loader.exists() {
        loader
    } else {
        Path::new("/lib/ld-linux-aarch64.so.1")
    };
    let mark = daemon.site.path("mark");
    let command = server.command(&mark);
    let mut by_loader = Command::new(loader);
    by_loader.arg(command.get_program()).args(command.get_args());
    assert_eq!(outcome(start(&mut by_loader)?)?.1, None);
    assert!(mark.exists(), "it runs");
    let events = daemon.site.events()?;
    let told = events
        .iter()
        .any(|event| is(event, "mcp_server_started", &server.name));
    assert!(!told, "{events:?}");
    Ok(())
}
