//! Servers that a launcher starts, without a daemon: the files of the server are pinned, and so are the programs that
//! were looked up on PATH.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program,
    real::Real,
    servers::{NpmServer, WheelServer},
    wait,
    wrapped::{Home, Wrapped},
};
use serde_json::Value;
use test_case::test_case;

use crate::files::python;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}"#;

fn events(home: &Home, kind: &str) -> Result<Vec<Value>> {
    let store = home.path("store.db").display().to_string();
    let run = program::run([
        "events", "--json", "--limit", "1000", "--type", kind, "--db", &store,
    ])?;
    let mut events = run.objects()?;
    events.sort_by_key(|event| text(event, "timestamp").to_owned());
    Ok(events)
}

/// Lets a server answer, and returns the record of its start with this number.
fn serve(home: &Home, number: usize, wrap: &mut Command) -> Result<Value> {
    let mut wrapped = Wrapped::start(wrap)?;
    wrapped.send(INITIALIZE)?;
    let line = wrapped.line().context("an answer")?;
    assert!(line.contains("serverInfo"), "{line}");
    let started = wait::until("its start", || {
        let mut started = events(home, "mcp_server_started")?;
        Ok((started.len() >= number).then(|| started.remove(number - 1)))
    })?;
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0, "{errors}");
    Ok(started)
}

/// Starts a server that may not run, and checks that the client gets only the refusal.
fn refuse(wrap: &mut Command, cause: &str) -> Result<()> {
    let mut wrapped = Wrapped::start(wrap)?;
    wrapped.send(INITIALIZE)?;
    let output = wrapped.line().context("an answer")?;
    assert!(output.contains("(rule mcp.version_pinning"), "{output}");
    let (code, rest, errors) = wrapped.finish()?;
    assert_eq!((code, rest.as_str()), (1, ""), "{errors}");
    assert!(errors.contains(cause), "{errors}");
    Ok(())
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("a directory")?)?;
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Returns `PATH` with a directory in front of all others.
fn path_with(directory: &Path) -> Result<String> {
    let path = env::var("PATH").context("PATH")?;
    Ok(format!("{}:{path}", directory.display()))
}

#[test_case(&["npx", "--no-install", "@"]; "npx")]
#[test_case(&["npm", "exec", "--no-install", "--", "@"]; "npm exec")]
#[test_case(&["bunx", "--no-install", "@"]; "bunx")]
fn a_changed_byte_behind_npm(command: &[&str]) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = NpmServer::install()?;
    let home = Home::new()?;
    let bunx = home.path("bunx");
    std::os::unix::fs::symlink(real.bun(), &bunx)?;
    let wrap = |command: &[&str]| -> Result<Command> {
        let words: Vec<String> = command
            .iter()
            .map(|word| match *word {
                "bunx" => bunx.display().to_string(),
                word => word.replace('@', &server.name),
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut wrap = home.wrap(&[], &words)?;
        wrap.current_dir(&server.project);
        Ok(wrap)
    };
    let first = serve(&home, 1, &mut wrap(command)?)?;
    let script = server.script();
    assert_eq!(text(&first, "script"), script.display().to_string(), "{first}");
    assert!(text(&first, "package_sha256").starts_with("sha256:"), "{first}");
    let second = serve(&home, 2, &mut wrap(command)?)?;
    assert_eq!(text(&second, "pin"), "match", "{second}");

    // The same files, started by their interpreter, are the same server.
    let direct = ["node", &script.display().to_string()];
    let third = serve(&home, 3, &mut wrap(&direct)?)?;
    assert_eq!(
        (text(&third, "server_id"), text(&third, "pin")),
        (text(&first, "server_id"), "match"),
        "{third}"
    );

    let text_before = fs::read_to_string(&script)?;
    fs::write(&script, format!("{text_before} "))?;
    refuse(&mut wrap(command)?, "are not those of this version")?;
    fs::write(&script, text_before)?;
    server.change_dependency()?;
    refuse(&mut wrap(command)?, "are not those of this version")
}

/// pnpm installs into a separate store and cache.
#[test]
fn a_changed_byte_behind_pnpm_dlx() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = NpmServer::install()?;
    let home = Home::new()?;
    let words = [
        real.npm("pnpm").display().to_string(),
        format!("--package={}", server.pack()?.display()),
        "dlx".to_owned(),
        server.name.clone(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let wrap = || -> Result<Command> {
        let mut wrap = home.wrap(&[], &words)?;
        wrap.current_dir(&server.project)
            .env("PNPM_HOME", home.path("pnpm"))
            .env("XDG_DATA_HOME", home.path("data"));
        Ok(wrap)
    };
    let first = serve(&home, 1, &mut wrap()?)?;
    assert_eq!(text(&first, "server_id"), server.name, "{first}");
    let script = PathBuf::from(text(&first, "script"));
    assert!(script.starts_with(home.path("cache")), "{first}");
    assert!(text(&first, "package_sha256").starts_with("sha256:"), "{first}");
    let second = serve(&home, 2, &mut wrap()?)?;
    assert_eq!(text(&second, "pin"), "match", "{second}");

    let package = home.path("cache").join("pnpm/dlx");
    let changed = change_below(&package, "version.js", "exports.version = \"1.0.0\"; \n")?;
    assert!(changed > 0, "it is installed below the cache");
    refuse(&mut wrap()?, "/version.js)")
}

/// Overwrites every file with this name below a directory, and returns the number of them.
fn change_below(directory: &Path, name: &str, text: &str) -> Result<usize> {
    let mut changed = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Links are skipped, because their targets are found anyway.
        if entry.file_type()?.is_dir() {
            changed += change_below(&entry.path(), name, text)?;
        } else if entry.file_name() == name {
            fs::write(entry.path(), text)?;
            changed += 1;
        }
    }
    Ok(changed)
}

#[test_case(&["uvx", "--from", "WHEEL", "NAME"]; "uvx")]
#[test_case(&["uv", "run", "--no-project", "--with", "WHEEL", "NAME"]; "uv run")]
#[test_case(&["pipx", "run", "--spec", "WHEEL", "NAME"]; "pipx")]
fn a_changed_byte_behind_a_python_launcher(command: &[&str]) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let home = Home::new()?;
    let server = WheelServer::build(&home.path("wheels"), &python()?)?;
    let cache = home.path("uv-cache");
    let wrap = || -> Result<Command> {
        let words: Vec<String> = command
            .iter()
            .enumerate()
            .map(|(position, word)| match *word {
                program if position == 0 => real.python_launcher(program).display().to_string(),
                "WHEEL" => server.wheel.display().to_string(),
                "NAME" => server.name.clone(),
                word => word.to_owned(),
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut wrap = home.wrap(&[], &words)?;
        wrap.env("UV_CACHE_DIR", &cache)
            .env("UV_OFFLINE", "1")
            .env("UV_PYTHON", python()?)
            .env("UV_PYTHON_DOWNLOADS", "never")
            .env("PIPX_HOME", home.path("pipx"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(wrap)
    };
    let first = serve(&home, 1, &mut wrap()?)?;
    assert!(text(&first, "script").ends_with(&server.name), "{first}");
    assert!(text(&first, "package_sha256").starts_with("sha256:"), "{first}");
    let second = serve(&home, 2, &mut wrap()?)?;
    assert_eq!(text(&second, "pin"), "match", "{second}");
    assert!(
        server.change_below(&cache)? > 0,
        "it is installed below the cache"
    );
    refuse(&mut wrap()?, "are not those of this version")
}

/// A script that is found on PATH before the interpreter, and executes it.
#[test]
fn a_script_in_the_place_of_the_interpreter_does_not_run() -> Result<()> {
    let home = Home::new()?;
    let script = home.path("server.py");
    let code = include_str!("../../fixtures/server.py");
    fs::write(&script, code)?;
    let python = python()?;
    fs::create_dir(home.path("bin"))?;
    std::os::unix::fs::symlink(&python, home.path("bin/python3"))?;
    let script = script.display().to_string();
    let wrap = |place: &str| -> Result<Command> {
        let mut wrap = home.wrap(&["--server", "planted"], &["python3", &script])?;
        wrap.env("PATH", path_with(&home.path(place))?);
        Ok(wrap)
    };
    serve(&home, 1, &mut wrap("bin")?)?;

    let mark = home.path("mark");
    let planted = format!("#!/bin/sh\n: > {}\nexec {python} \"$@\"\n", mark.display());
    write_program(&home.path("planted/python3"), &planted)?;
    refuse(&mut wrap("planted")?, "its launcher")?;
    assert!(!mark.exists(), "it was started");
    let told = events(&home, "mcp_server_binary_mismatch")?;
    let [told] = &told[..] else {
        panic!("one mismatch: {told:?}")
    };
    assert_eq!(
        (text(told, "part"), text(told, "action")),
        ("launcher", "block"),
        "{told}"
    );
    assert!(text(told, "path").ends_with("planted/python3"), "{told}");

    home.configure("version: 1\nmcp: {version_pinning: {on_change: alert}}\n")?;
    let started = serve(&home, 2, &mut wrap("planted")?)?;
    assert_eq!(
        (text(&started, "pin"), text(&started, "action")),
        ("mismatch", "audit"),
        "{started}"
    );

    home.configure("version: 1\n")?;
    let store = home.path("store.db").display().to_string();
    let socket = home.path("no-daemon").display().to_string();
    let trust = [
        "pins", "trust", "--server", "planted", "--db", &store, "--socket", &socket,
    ];
    let trusted = program::run(trust)?;
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let started = serve(&home, 3, &mut wrap("planted")?)?;
    assert_eq!(text(&started, "pin"), "match", "{started}");
    let started = serve(&home, 4, &mut wrap("bin")?)?;
    assert_eq!(text(&started, "pin"), "match", "{started}");
    Ok(())
}

#[test]
fn another_launcher_of_the_same_name_does_not_run() -> Result<()> {
    let server = NpmServer::install()?;
    let home = Home::new()?;
    let wrap = |place: &str| -> Result<Command> {
        let mut wrap = home.wrap(&[], &["npx", "--no-install", &server.name])?;
        wrap.current_dir(&server.project);
        wrap.env("PATH", path_with(&home.path(place))?);
        Ok(wrap)
    };
    serve(&home, 1, &mut wrap("none")?)?;
    let planted = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\n: > {}\nexec npx \"$@\"\n",
        home.path("mark").display()
    );
    write_program(&home.path("planted/npx"), &planted)?;
    refuse(&mut wrap("planted")?, "its launcher")?;
    assert!(!home.path("mark").exists(), "it was started");
    // The interpreter of npx itself is looked up as well.
    let node = format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\n: > {}\nexec node \"$@\"\n",
        home.path("mark").display()
    );
    write_program(&home.path("other/node"), &node)?;
    refuse(&mut wrap("other")?, "its launcher")?;
    assert!(!home.path("mark").exists(), "it was started");
    Ok(())
}

/// `mcpmon run` puts shims in front of PATH: links to mcpmon that have the names of launchers.
#[test]
fn a_shim_of_mcpmon_is_seen_through_and_never_pinned() -> Result<()> {
    let server = NpmServer::install()?;
    let home = Home::new()?;
    let upgraded = home.path("upgraded/mcpmon");
    fs::create_dir(home.path("upgraded"))?;
    let mut build = fs::read(program::path()?)?;
    build.push(0);
    fs::write(&upgraded, build)?;
    fs::set_permissions(&upgraded, fs::Permissions::from_mode(0o755))?;
    for (shims, target) in [
        ("mcpmon-shims-7-0", program::path()?.to_path_buf()),
        ("other-shims", upgraded),
    ] {
        fs::create_dir(home.path(shims))?;
        std::os::unix::fs::symlink(target, home.path(shims).join("npx"))?;
    }
    let wrap = |place: &str| -> Result<Command> {
        let mut wrap = home.wrap(&[], &["npx", "--no-install", &server.name])?;
        wrap.current_dir(&server.project);
        wrap.env("PATH", path_with(&home.path(place))?);
        Ok(wrap)
    };
    for (number, place) in ["mcpmon-shims-7-0", "none", "other-shims"].iter().enumerate() {
        let started = serve(&home, number + 1, &mut wrap(place)?)?;
        let wanted = if number == 0 { "pinned" } else { "match" };
        assert_eq!(text(&started, "pin"), wanted, "{place}: {started}");
    }
    let store = home.path("store.db").display().to_string();
    let pins = program::run(["pins", "list", "--json", "--db", &store])?.objects()?;
    let launchers: Vec<_> = pins
        .iter()
        .filter(|pin| text(pin, "part") == "launcher")
        .collect();
    let [launcher] = &launchers[..] else {
        panic!("one launcher: {pins:?}")
    };
    assert!(
        text(launcher, "path").ends_with("/npx") && !text(launcher, "path").contains("shims"),
        "{launcher}"
    );
    Ok(())
}

#[test]
fn a_pinned_server_that_ends_before_its_comparison_was_not_refused() -> Result<()> {
    let server = NpmServer::install()?;
    let home = Home::new()?;
    let mut wrap = home.wrap(&[], &["npx", "--no-install", &server.name])?;
    wrap.current_dir(&server.project);
    serve(&home, 1, &mut wrap)?;
    // A client that closes the pipe at once.
    Wrapped::start(&mut wrap)?.finish()?;
    assert_eq!(events(&home, "mcp_server_denied")?, Vec::<Value>::new());
    let started = &events(&home, "mcp_server_started")?[1];
    assert_eq!(
        (text(started, "action"), text(started, "severity")),
        ("audit", "info"),
        "{started}"
    );
    let reason = text(started, "reason");
    assert!(
        reason.contains("ended before its files were compared") && reason.contains("nothing was refused"),
        "{reason}"
    );
    Ok(())
}

/// npx names the package; the package's command is a link with another name.
#[test]
fn one_package_is_one_server_however_it_is_started() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let home = Home::new()?;
    let command = real.npm("mcp-server-memory");
    let script = command.canonicalize()?.display().to_string();
    let project = real.npm("../..").canonicalize()?;
    let command = command.display().to_string();
    let starts: [&[&str]; 4] = [
        &[&command],
        &["npx", "--no-install", "@modelcontextprotocol/server-memory"],
        &["node", &command],
        &["node", &script],
    ];
    for (position, words) in starts.into_iter().enumerate() {
        let mut wrap = home.wrap(&[], words)?;
        // These packages include a Node, which npx puts in front of all others.
        wrap.current_dir(&project)
            .env("PATH", path_with(&project.join("node_modules/.bin"))?)
            .env("MEMORY_FILE_PATH", home.path("memory.json"));
        let started = serve(&home, position + 1, &mut wrap)?;
        let pin = if position == 0 { "pinned" } else { "match" };
        assert_eq!(
            (text(&started, "server_id"), text(&started, "pin")),
            ("server-memory", pin),
            "{words:?}: {started}"
        );
    }
    Ok(())
}

#[test]
fn a_file_beside_a_script_that_nothing_imports_is_not_pinned() -> Result<()> {
    let home = Home::new()?;
    let code = include_str!("../../fixtures/server.py");
    let script = home.path("code/server.py");
    fs::create_dir(home.path("code"))?;
    fs::write(&script, format!("import helper\n{code}"))?;
    fs::write(home.path("code/helper.py"), "")?;
    let words = [python()?, script.display().to_string()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let wrap = || {
        let mut wrap = home.wrap(&["--server", "beside"], &words)?;
        wrap.env("PYTHONDONTWRITEBYTECODE", "1");
        anyhow::Ok(wrap)
    };
    serve(&home, 1, &mut wrap()?)?;
    fs::write(home.path("code/unrelated.py"), "")?;
    let second = serve(&home, 2, &mut wrap()?)?;
    assert_eq!(text(&second, "pin"), "match", "{second}");
    fs::write(home.path("code/helper.py"), "#")?;
    refuse(&mut wrap()?, "its package (changed helper.py)")?;
    fs::write(home.path("code/helper.py"), "")?;
    fs::write(home.path("code/json.py"), "")?;
    refuse(&mut wrap()?, "its package (added json.py)")
}
