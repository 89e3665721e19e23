//! Ways to run another program or other code under the name of a pinned server, and the outcome of each.

use std::{
    fs,
    io::Read as _,
    os::fd::AsRawFd as _,
    os::unix::{
        fs::PermissionsExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{is, number, text},
    program,
    servers::{self, NativeServer, change},
    wait,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use test_case::test_case;

/// A program that executes a copy of another program, which is in no file system.
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

/// A started server, and the mount that has to stay for it.
type Start = (Child, Option<Mounted>);

fn start(command: &mut Command) -> Result<Child> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().context("it does not start")
}

/// Closes the server's input and waits for its end. Returns its output, and the signal that ended it.
fn outcome(mut server: Child) -> Result<(String, Option<i32>)> {
    drop(server.stdin.take());
    let mut output = String::new();
    let mut stdout = server.stdout.take().context("a pipe")?;
    stdout.read_to_string(&mut output)?;
    Ok((output, server.wait()?.signal()))
}

/// Waits for the end of a server whose input stays open. Returns the signal that ended it.
fn end(mut server: Child) -> Result<Option<i32>> {
    let ended = wait::until("the server's end", || Ok(server.try_wait()?));
    server.kill()?;
    Ok(ended?.signal())
}

/// Makes a changed copy of the program, in another directory.
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
    let mounted = overlay(lower, &upper, &work, &merged)?;
    Ok((
        start(Command::new(merged.join(&server.name)).arg("9"))?,
        Some(mounted),
    ))
}

fn overlay(lower: &Path, upper: &Path, work: &Path, merged: &Path) -> Result<Mounted> {
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    mount(
        Some("overlay"),
        merged,
        Some("overlay"),
        MsFlags::empty(),
        Some(&*options),
    )?;
    Ok(Mounted(merged.to_owned()))
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

/// Ways to change a server's script in the layer below an overlay, while the server runs.
fn written(below: &Path) -> Result<()> {
    let code = fs::read_to_string(below)?.replace("'good'", "'evil'");
    Ok(fs::write(below, code)?)
}

fn written_and_put_back(below: &Path) -> Result<()> {
    let good = fs::read(below)?;
    written(below)?;
    Ok(fs::write(below, good)?)
}

fn replaced(below: &Path) -> Result<()> {
    let other = below.with_extension("other");
    fs::copy(below, &other)?;
    written(&other)?;
    Ok(fs::rename(&other, below)?)
}

/// The overlay keeps what it has found: what is replaced in the layer below, its processes do not see.
#[test_case(written, Some(9); "written")]
#[test_case(written_and_put_back, Some(9); "written and put back")]
#[test_case(replaced, None; "replaced")]
fn a_script_that_changes_below_an_overlay(
    change: fn(&Path) -> Result<()>,
    expected: Option<i32>,
) -> Result<()> {
    let Some(host) = Host::take(&["node"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let name = servers::name();
    let scratch = tempfile::tempdir_in("/var/tmp")?;
    let at = |part: &str| scratch.path().join(part);
    for part in ["lower", "upper", "work", "merged"] {
        fs::create_dir(at(part))?;
    }
    let below = at("lower").join(&name);
    script(
        &below,
        "const mark = 'good'; console.log(mark); process.stdin.resume()\n",
    )?;
    let _mounted = overlay(&at("lower"), &at("upper"), &at("work"), &at("merged"))?;
    let server = at("merged").join(&name);
    let begin = || start(Command::new("node").arg(&server));
    let first = begin()?;
    daemon.start_of(&name, 1)?;
    assert_eq!(outcome(first)?, ("good\n".to_owned(), None));

    let second = begin()?;
    let started = daemon.start_of(&name, 2)?;
    assert_eq!(text(&started, "pin"), "match", "{started}");
    change(&below)?;
    if expected.is_none() {
        let merged = fs::read_to_string(&server)?;
        assert!(merged.contains("'good'"), "{merged}");
        assert_eq!(outcome(second)?, ("good\n".to_owned(), None));
        return Ok(());
    }
    let denied = daemon.event_of("mcp_server_denied", &name)?;
    assert_eq!(text(&denied, "rule"), "mcp.version_pinning", "{denied}");
    assert_eq!(outcome(second)?.1, expected, "{}", daemon.log());
    Ok(())
}

fn script(path: &Path, code: &str) -> Result<()> {
    fs::write(path, code)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Code that is in no file of the server is not compared; SECURITY.md says so.
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

fn loader() -> Result<PathBuf> {
    let names = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let found = names.map(PathBuf::from).into_iter().find(|path| path.exists());
    found.context("no dynamic loader of glibc")
}

/// Returns a command by which the loader runs a program, with options for the loader.
fn by_loader(loader: &Path, program: &Path) -> Command {
    let mut command = Command::new(loader);
    command
        .args(["--library-path", "/nowhere", "--argv0", "other"])
        .arg(program)
        .arg("9");
    command
}

#[test]
fn a_program_that_the_loader_runs_is_compared() -> Result<()> {
    let Some(host) = Host::take(&["cc"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = NativeServer::compile(&daemon.site.path(""))?;
    let loader = loader()?;
    let first = start(Command::new(&server.program).arg("9"))?;
    daemon.start_of(&server.name, 1)?;
    assert_eq!(outcome(first)?, ("ran".to_owned(), None));

    let unchanged = start(&mut by_loader(&loader, &server.program))?;
    let started = daemon.start_of(&server.name, 2)?;
    assert_eq!(text(&started, "pin"), "match", "{started}");
    assert_eq!(
        outcome(unchanged)?,
        ("ran".to_owned(), None),
        "{:?}",
        daemon.site.events()
    );

    // A loader that any user may have written can run any code.
    let own = daemon.site.path("").join(loader.file_name().context("a name")?);
    program::copy(&loader, &own)?;
    let (_, signal) = outcome(start(&mut by_loader(&own, &server.program))?)?;
    assert_eq!(signal, Some(9), "{}", daemon.log());

    change(&server.program)?;
    let ended = outcome(start(&mut by_loader(&loader, &server.program))?)?;
    assert_eq!(ended, (String::new(), Some(9)), "{}", daemon.log());
    let mismatch = daemon.event("the changed program", |event| {
        let is_it = text(event, "path") == server.program.display().to_string();
        is(event, "mcp_server_binary_mismatch", &server.name) && is_it
    })?;
    assert_eq!(text(&mismatch, "part"), "executable", "{mismatch}");
    Ok(())
}

/// A copy can be anybody's, and is what is pinned. The kernel cuts its name, and that of the server.
#[test_case(false; "the one of the system")]
#[test_case(true; "a copy of it")]
fn what_else_a_loader_runs_is_not_stopped(is_copy: bool) -> Result<()> {
    let Some(host) = Host::take(&["setpriv"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = servers::ProgramServer::make(&daemon.site.path(""))?;
    assert!(server.name.len() > 15, "{}", server.name);
    let system = loader()?;
    let mut loader = system.clone();
    if is_copy {
        loader = daemon.site.path("").join(system.file_name().context("a name")?);
        program::copy(&system, &loader)?;
    }
    let held = || -> Result<u64> { Ok(number(&daemon.status()?["counters"], "exec_held")) };
    let serve = |start_number: usize, pin: &str| {
        let direct = server.command(&daemon.site.path("mark"));
        let mut command = Command::new(&loader);
        let server_process = start(command.arg(direct.get_program()).args(direct.get_args()))?;
        let started = daemon.start_of(&server.name, start_number)?;
        assert_eq!(text(&started, "pin"), pin, "{started}");
        outcome(server_process)
    };
    assert_eq!(serve(1, "pinned")?.1, None);
    let before = held()?;
    assert_eq!(serve(2, "match")?.1, None);
    assert_eq!(held()?, before + 1, "the server is stopped");
    for user in ["0", "65534"] {
        let mut other = Command::new("setpriv");
        other.args(["--reuid", user, "--clear-groups", "--"]);
        let status = other.arg(&system).arg("/bin/true").status()?;
        assert!(status.success(), "{status}");
    }
    // Another user's program of that name.
    let others = tempfile::tempdir_in("/var/tmp")?;
    fs::set_permissions(others.path(), fs::Permissions::from_mode(0o755))?;
    let program = others.path().join(&server.name);
    program::copy(Path::new("/bin/true"), &program)?;
    let mut other = Command::new("setpriv");
    other.args(["--reuid", "65534", "--clear-groups", "--"]);
    let status = other.arg(&system).arg(&program).status()?;
    assert!(status.success(), "{status}");
    assert_eq!(held()?, before + 1, "nothing else is");
    Ok(())
}

/// The first argument of a loader is whatever its starter wrote there.
#[test]
fn a_loader_under_another_name_is_known_by_its_file() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = servers::ProgramServer::make(&daemon.site.path(""))?;
    let loader = loader()?;
    let run = |mark: &Path| {
        let direct = server.command(mark);
        let mut command = Command::new(&loader);
        command
            .arg0("npm")
            .arg(direct.get_program())
            .args(direct.get_args());
        start(&mut command)
    };
    for (number, pin) in [(1, "pinned"), (2, "match")] {
        let child = run(&daemon.site.path("mark"))?;
        let started = daemon.start_of(&server.name, number)?;
        assert_eq!(text(&started, "pin"), pin, "{started}");
        assert_eq!(outcome(child)?.1, None, "{:?}", daemon.site.events());
    }
    server.change()?;
    let mark = daemon.site.path("mark3");
    assert_eq!(outcome(run(&mark)?)?.1, Some(9), "{}", daemon.log());
    assert!(!mark.exists(), "it runs nothing");
    Ok(())
}

/// A copy has any name, and what is executed by descriptor a number.
#[test]
fn a_loader_is_known_by_its_content() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = servers::ProgramServer::make(&daemon.site.path(""))?;
    let loader = loader()?;
    let opened = fs::File::open(&loader)?;
    let mark = |number: usize| daemon.site.path(&format!("mark{number}"));
    let first = start(&mut server.command(&mark(1)))?;
    daemon.start_of(&server.name, 1)?;
    assert_eq!(outcome(first)?.1, None);

    let by_descriptor = |mark: &Path| {
        let direct = server.command(mark);
        let mut command = Command::new(format!("/dev/fd/{}", opened.as_raw_fd()));
        command.arg0("npx").arg(direct.get_program());
        start(command.args(direct.get_args()))
    };
    let second = by_descriptor(&mark(2))?;
    let started = daemon.start_of(&server.name, 2)?;
    assert_eq!(text(&started, "pin"), "match", "{:?}", daemon.site.events());
    assert_eq!(outcome(second)?.1, None, "{:?}", daemon.site.events());
    assert!(mark(2).exists(), "it runs");

    // A loader that any user may have written can run any code.
    let own = daemon.site.path("x");
    program::copy(&loader, &own)?;
    let direct = server.command(&mark(3));
    let third = start(
        Command::new(&own)
            .arg(direct.get_program())
            .args(direct.get_args()),
    )?;
    assert_eq!(end(third)?, Some(9), "{}", daemon.log());

    server.change()?;
    assert_eq!(outcome(by_descriptor(&mark(4))?)?.1, Some(9), "{}", daemon.log());
    assert!(!mark(4).exists(), "it runs nothing");
    Ok(())
}

/// If a program is linked for the loader, the loader maps the program itself.
#[test]
fn a_program_that_is_linked_for_the_loader_is_compared() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let server = servers::ProgramServer::make(&daemon.site.path(""))?;
    let loader = loader()?;
    let run = |program: &Path, mark: &Path| {
        let direct = server.command(mark);
        let mut command = Command::new(program);
        if program == loader {
            command.arg(direct.get_program());
        }
        start(command.args(direct.get_args()))
    };
    for (number, program, pin) in [(1, &server.program, "pinned"), (2, &loader, "match")] {
        let mark = daemon.site.path(&format!("mark{number}"));
        let child = run(program, &mark)?;
        let started = daemon.start_of(&server.name, number)?;
        assert_eq!(text(&started, "pin"), pin, "{started}");
        assert_eq!(outcome(child)?.1, None, "{:?}", daemon.site.events());
        assert!(mark.exists(), "it runs");
    }
    server.change()?;
    let mark = daemon.site.path("mark3");
    assert_eq!(outcome(run(&loader, &mark)?)?.1, Some(9), "{}", daemon.log());
    assert!(!mark.exists(), "it runs nothing");
    let mismatch = daemon.event_of("mcp_server_binary_mismatch", &server.name)?;
    assert_eq!(text(&mismatch, "part"), "executable", "{mismatch}");
    Ok(())
}

/// A program that runs the script in its argument as its own code.
const RUNNER: &str = "import sys; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))\n";

/// The first line of a script that is interpreted by another script.
#[derive(Clone, Copy)]
enum Below {
    Interpreter,
    Env,
}

/// Makes a script whose first line names another script, and that other script.
fn chain(directory: &Path, name: &str, below: Below) -> Result<(PathBuf, PathBuf)> {
    let (server, runner) = (directory.join(name), directory.join("runner"));
    let first = match below {
        Below::Interpreter => "#!/usr/bin/python3",
        Below::Env => "#!/usr/bin/env -S /usr/bin/python3 -u",
    };
    script(&runner, &format!("{first}\n{RUNNER}"))?;
    let code = "import sys; print('server', flush=True); sys.stdin.read()";
    script(&server, &format!("#!{}\n{code}\n", runner.display()))?;
    Ok((server, runner))
}

#[test_case(Below::Interpreter; "of an interpreter")]
#[test_case(Below::Env; "of env with options")]
fn scripts_that_interpret_scripts_are_compared(below: Below) -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy())?;
    let name = servers::name();
    let directory = tempfile::tempdir_in("/var/tmp")?;
    let (server, runner) = chain(directory.path(), &name, below)?;
    for (number, pin) in [(1, "pinned"), (2, "match")] {
        let child = start(&mut Command::new(&server))?;
        let started = daemon.start_of(&name, number)?;
        assert_eq!(text(&started, "pin"), pin, "{started}");
        assert_eq!(outcome(child)?, ("server\n".to_owned(), None));
    }
    for (file, part) in [(&server, "script"), (&runner, "launcher")] {
        let before = fs::read_to_string(file)?;
        script(file, &format!("{before}print('other')\n"))?;
        let ended = outcome(start(&mut Command::new(&server))?)?;
        assert_eq!(ended, (String::new(), Some(9)), "{part}: {}", daemon.log());
        daemon.event("the changed script", |event| {
            is(event, "mcp_server_binary_mismatch", &name) && text(event, "part") == part
        })?;
        script(file, &before)?;
    }
    Ok(())
}

/// Code in an argument is in no file: a declared server is recognised by its command line, and only its interpreter is
/// compared.
#[test_case("python3", "-c", "import sys; print('server', flush=True); sys.stdin.read()"; "python")]
#[test_case("node", "-e", "console.log('server'); process.stdin.resume()"; "node")]
fn code_in_an_argument_is_known_by_its_words(interpreter: &str, option: &str, code: &str) -> Result<()> {
    let Some(host) = Host::take(&[interpreter])? else {
        return Ok(());
    };
    let name = servers::name();
    let declared = serde_json::json!([{"id": name, "command": interpreter, "args": [option, code]}]);
    let policy = format!("{}  servers: {declared}\n", policy());
    let daemon = Daemon::start(&host, &policy)?;
    let run = |code: &str| start(Command::new(interpreter).args([option, code]));
    for (number, pin) in [(1, "pinned"), (2, "match")] {
        let child = run(code)?;
        let started = daemon.start_of(&name, number)?;
        assert_eq!(text(&started, "pin"), pin, "{started}");
        assert_eq!(outcome(child)?, ("server\n".to_owned(), None));
    }
    let other = code.replace("server", "other");
    assert_eq!(outcome(run(&other)?)?, ("other\n".to_owned(), None));
    // The events are recorded in order, so the earlier ones are there when this one is.
    let last = run(code)?;
    daemon.start_of(&name, 3)?;
    outcome(last)?;
    let events = daemon.site.events()?;
    let of_other = |event: &serde_json::Value| event.to_string().contains("'other'");
    assert!(!events.iter().any(of_other), "{events:?}");
    Ok(())
}
