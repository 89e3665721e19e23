//! Servers that an agent of `mcpmon run` starts by a launcher get a wrapper automatically; other commands are not
//! changed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    program,
    real::{Real, Scene, Sdk},
    wait,
};
use test_case::test_case;

const CALLS: &str = r#"[["echo", {"message": "hello"}], ["get-sum", {"a": 2, "b": 3}]]"#;

/// Returns the command `mcpmon run` with the store of the scene, and without a proxy that could conflict with another
/// one.
fn run(scene: &Scene, options: &[&str]) -> Result<Vec<String>> {
    let mut words = vec![program::path()?.display().to_string(), "run".to_owned()];
    words.extend(options.iter().map(|&option| option.to_owned()));
    words.extend(["--socket", "/nonexistent/mcpmon.sock", "--db"].map(str::to_owned));
    words.push(scene.store().display().to_string());
    words.push("--".to_owned());
    Ok(words)
}

/// Returns the command of a server by `npx`, as clients start it.
fn by_npx(real: &Real) -> Vec<String> {
    let prefix = real.npm("../..").display().to_string();
    ["npx", "--prefix", &prefix, "mcp-server-everything"]
        .map(str::to_owned)
        .to_vec()
}

#[test_case(Sdk::Python; "python")]
#[test_case(Sdk::TypeScript; "typescript")]
fn a_server_by_npx_is_wrapped(sdk: Sdk) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let command = by_npx(&real);
    let through = real.drive_by(&run(&scene, &[])?, sdk, &scene, CALLS, &command)?;
    let bare = Scene::new()?;
    let alone = real.drive(sdk, &bare, CALLS, &command)?;
    assert_eq!(through, alone, "the client sees no difference");
    let started = scene.events("mcp_server_started")?;
    assert_eq!(started.len(), 1, "wrapped once: {started:?}");
    assert_eq!(started[0]["wrapped"], true);
    assert_eq!(scene.events("mcp_tool_called")?.len(), 2);
    assert_eq!(
        scene.events("mcp_enforcement_degraded")?.len(),
        0,
        "no wrapper steps aside"
    );
    Ok(())
}

#[test]
fn without_launchers_nothing_is_wrapped() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let by = run(&scene, &["--no-shims"])?;
    real.drive_by(&by, Sdk::Python, &scene, CALLS, &by_npx(&real))?;
    assert_eq!(scene.events("mcp_tool_called")?.len(), 0);
    Ok(())
}

/// A server that has a wrapper already gets no second one.
#[test]
fn a_wrapped_server_stays_as_it_is() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let wrapped = scene.wrapped("everything", &[], &by_npx(&real))?;
    real.drive_by(&run(&scene, &[])?, Sdk::Python, &scene, CALLS, &wrapped)?;
    assert_eq!(scene.events("mcp_server_started")?.len(), 1);
    assert_eq!(scene.events("mcp_tool_called")?.len(), 2);
    assert_eq!(scene.events("mcp_enforcement_degraded")?.len(), 0);
    Ok(())
}

/// A command that does not start a conversation with a server goes to the real launcher, with its arguments, streams,
/// exit status and name.
#[test_case("npx cowsay 'two words'", "npx|cowsay|two words", 7; "no server")]
#[test_case("npx mcp-server-everything </dev/null", "npx|mcp-server-everything", 7; "nobody speaks to it")]
#[test_case("npx --help mcp-server-everything", "npx|--help|mcp-server-everything", 7; "asked about itself")]
#[test_case("uvx --version", "", 127; "a launcher that is not there")]
#[test_case("command -v uvx || exit 9", "", 9; "it is not found either")]
fn anything_else_is_untouched(script: &str, said: &str, code: i32) -> Result<()> {
    let scene = Scene::new()?;
    let bin = scene.file("bin");
    fs::create_dir(&bin)?;
    let npx = bin.join("npx");
    // This launcher speaks no protocol, and prints its name and its arguments.
    fs::write(
        &npx,
        "#!/bin/sh\nprintf '%s' \"${0##*/}\"; printf '|%s' \"$@\"; exit 7\n",
    )?;
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755))?;
    let by = run(&scene, &[])?;
    let (program, arguments) = by.split_first().context("a command")?;
    let mut command = Command::new(program);
    command.args(arguments).args(["sh", "-c", script]);
    let mut child = scene
        .prepare(&mut command)
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let held = child.stdin.take();
    let output = child.wait_with_output()?;
    drop(held);
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(code), "{:?}: {told}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{told}");
    Ok(())
}

/// Arguments after the package or the image belong to the server, even if they look like options of the launcher.
#[test_case("npx mcp-server-everything", 1; "a server")]
#[test_case("npx mcp-server-everything --help", 1; "help of the server's")]
#[test_case("npx mcp-server-everything version", 1; "a last word")]
#[test_case("docker run -i --rm mcp/everything -t -d", 1; "letters behind the image")]
#[test_case("docker run -i -e -d mcp/everything", 1; "a value like an option")]
#[test_case("docker run -i --rm -d mcp/everything", 0; "in the background")]
#[test_case("docker run --rm mcp/everything -i", 0; "without input")]
fn what_a_server_is_told_keeps_no_wrapper_away(script: &str, wrapped: usize) -> Result<()> {
    let scene = Scene::new()?;
    let bin = scene.file("bin");
    fs::create_dir(&bin)?;
    for name in ["npx", "docker"] {
        fs::write(bin.join(name), "#!/bin/sh\nexit 7\n")?;
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755))?;
    }
    let by = run(&scene, &[])?;
    let (program, arguments) = by.split_first().context("a command")?;
    let mut command = Command::new(program);
    command.args(arguments).args(["sh", "-c", script]);
    let output = scene
        .prepare(&mut command)
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .stdin(Stdio::piped())
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{told}");
    assert_eq!(scene.events("mcp_server_started")?.len(), wrapped, "{told}");
    Ok(())
}

#[test]
fn launchers_that_stay_wrap_until_they_are_taken_away() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let directory = scene.file("shims").display().to_string();
    let store = scene.store().display().to_string();
    let installed = program::run([
        "shim",
        "install",
        "--dir",
        &directory,
        "--socket",
        "/nonexistent/mcpmon.sock",
        "--db",
        &store,
    ])?;
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    assert_eq!(installed.stdout, format!("export PATH=\"{directory}:$PATH\"\n"));
    let path = format!("PATH={directory}:{}", std::env::var("PATH")?);
    let client = ["env".to_owned(), path];
    let command = by_npx(&real);
    let through = real.drive_by(&client, Sdk::Python, &scene, CALLS, &command)?;
    let alone = real.drive(Sdk::Python, &Scene::new()?, CALLS, &command)?;
    assert_eq!(through, alone, "the client sees no difference");
    assert_eq!(scene.events("mcp_server_started")?.len(), 1);

    let removed = program::run(["shim", "remove", "--dir", &directory])?;
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    real.drive_by(&client, Sdk::Python, &scene, CALLS, &command)?;
    assert_eq!(scene.events("mcp_server_started")?.len(), 1, "started as before");
    let nothing = program::run(["shim", "remove", "--dir", &directory])?;
    assert_eq!(nothing.code, Some(2), "{}", nothing.stderr);
    Ok(())
}

/// The file that names a launcher's wrapper is missing or broken, or is in the directory of the launcher that another
/// link leads to.
#[test_case(None, false, false; "gone")]
#[test_case(Some("{"), false, false; "broken")]
#[test_case(None, true, false; "gone, behind a link")]
#[test_case(Some(""), true, true; "behind a link")]
fn a_launcher_wraps_whatever_is_beside_it(left: Option<&str>, by_link: bool, is_told: bool) -> Result<()> {
    let scene = Scene::new()?;
    let (bin, shims, links) = (scene.file("bin"), scene.file("shims"), scene.file("links"));
    fs::create_dir(&bin)?;
    fs::write(
        bin.join("npx"),
        "#!/bin/sh\ntr '\\000' ' ' </proc/$PPID/cmdline >&2; exit 7\n",
    )?;
    fs::set_permissions(bin.join("npx"), fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut install = Command::new(program::path()?);
    install.args(["shim", "install", "--socket", "/nonexistent/mcpmon.sock", "--dir"]);
    install.arg(&shims).arg("--db").arg(scene.store());
    let installed = scene.prepare(&mut install).env("PATH", &path).output()?;
    ensure!(installed.status.success(), "{installed:?}");
    let told = shims.join(".mcpmon.json");
    match left {
        None => fs::remove_file(told)?,
        Some("") => {}
        Some(text) => fs::write(told, text)?,
    }
    let called = match by_link {
        true => {
            fs::create_dir(&links)?;
            symlink(shims.join("npx"), links.join("npx"))?;
            links
        }
        false => shims,
    };
    let mut npx = program::with_own_state(called.join("npx"), ["mcp-server-everything"]);
    let output = scene
        .prepare(&mut npx)
        .env("PATH", format!("{}:{path}", called.display()))
        .stdin(Stdio::piped())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{errors}");
    let warnings = errors.matches("mcpmon: no readable .mcpmon.json").count();
    assert_eq!(warnings, usize::from(!is_told), "{errors}");
    // The process above the real launcher shows how it was started.
    let store = scene.store().display().to_string();
    let socket = match is_told {
        true => "/nonexistent/mcpmon.sock",
        false => "/run/mcpmon/mcpmon.sock",
    };
    let wrapper = format!("mcpmon wrap --server mcp-server-everything --socket {socket} ");
    assert!(errors.contains(&wrapper), "{errors}");
    assert_eq!(errors.contains(&format!("--db {store} ")), is_told, "{errors}");
    Ok(())
}

/// Two installations of mcpmon, from a package and from `cargo install`, each have launchers. Neither takes the other's
/// launchers for the real ones, because they would start each other for ever then.
#[test]
fn launchers_of_two_programs_lead_to_the_real_one() -> Result<()> {
    let scene = Scene::new()?;
    let bin = scene.file("bin");
    fs::create_dir(&bin)?;
    fs::write(bin.join("npx"), "#!/bin/sh\nprintf real\n")?;
    fs::set_permissions(bin.join("npx"), fs::Permissions::from_mode(0o755))?;
    let mut path = format!("{}:/usr/bin:/bin", bin.display());
    // If mcpmon has another name, its launchers are recognised by the file beside them.
    for name in ["mcpmon", "mcpmon-next"] {
        let copy = scene.file(&format!("copy-of-{name}"));
        fs::create_dir(&copy)?;
        program::copy(program::path()?, copy.join(name))?;
        let shims = scene.file(&format!("shims-of-{name}"));
        let mut install = Command::new(copy.join(name));
        install.args(["shim", "install", "--dir"]).arg(&shims);
        let installed = scene.prepare(&mut install).env("PATH", &path).output()?;
        ensure!(installed.status.success(), "{installed:?}");
        ensure!(shims.join("npx").is_symlink(), "a launcher of {name}");
        path = format!("{}:{path}", shims.display());
    }
    for name in ["mcpmon", "mcpmon-next"] {
        let mut npx = Command::new(scene.file(&format!("shims-of-{name}")).join("npx"));
        let mut child = scene
            .prepare(npx.arg("--version"))
            .env("PATH", &path)
            .stdout(Stdio::piped())
            .spawn()?;
        let ended = wait::until("the real launcher's end", || Ok(child.try_wait()?));
        child.kill()?;
        let output = child.wait_with_output()?;
        ensure!(ended?.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "real");
    }
    Ok(())
}
