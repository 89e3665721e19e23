//! The files `mcpmon setup` writes are read by a real client: it starts the wrapper, and gets its file back
//! afterwards.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    program,
    real::{Real, Scene},
};

/// A client whose home is that of the scene; what it said on standard output.
fn claude(real: &Real, scene: &Scene, arguments: &[&str]) -> Result<String> {
    let output = Command::new("node")
        .arg(real.npm("../@anthropic-ai/claude-code/cli-wrapper.cjs"))
        .args(arguments)
        .current_dir(scene.file("project"))
        .env("HOME", scene.file(""))
        .env("XDG_STATE_HOME", scene.file("state"))
        .env("XDG_CONFIG_HOME", scene.file("config"))
        .env("DISABLE_AUTOUPDATER", "1")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env_remove("CLAUDE_CONFIG_DIR")
        .output()
        .context("node is needed")?;
    ensure!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn setup(scene: &Scene, options: &[&str]) -> Result<()> {
    let output = Command::new(program::path()?)
        .args(["setup", "--client", "claude-code", "--project"])
        .arg(scene.file("project"))
        .args(options)
        .env("HOME", scene.file(""))
        .env("XDG_STATE_HOME", scene.file("state"))
        .env("XDG_CONFIG_HOME", scene.file("config"))
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("MCPMON_CONFIG")
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The line of a list that is about this server.
fn line<'l>(list: &'l str, server: &str) -> Result<&'l str> {
    let start = format!("{server}: ");
    list.lines()
        .find(|line| line.starts_with(&start))
        .with_context(|| format!("{server} is not in the list: {list}"))
}

#[test]
fn claude_code_starts_what_setup_wrote_and_has_its_files_back() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    fs::create_dir_all(scene.file("project"))?;
    // The store of this host is to stay as it is.
    fs::create_dir_all(scene.file("config/mcpmon"))?;
    let store = scene.store().display().to_string();
    let policy = format!("version: 1\nrecord: {{path: \"{store}\"}}\n");
    fs::write(scene.file("config/mcpmon/mcpmon.yaml"), policy)?;
    let server = real.npm("mcp-server-everything").display().to_string();
    for (scope, name) in [("user", "everywhere"), ("local", "here")] {
        claude(
            &real,
            &scene,
            &["mcp", "add", "--scope", scope, name, "--", &server],
        )?;
    }
    claude(
        &real,
        &scene,
        &["mcp", "add", "--scope", "project", "shared", "--", &server],
    )?;
    let files = [".claude.json", "project/.mcp.json"].map(|name| scene.file(name));
    let list = claude(&real, &scene, &["mcp", "list"])?;
    assert!(line(&list, "everywhere")?.contains("Connected"), "{list}");
    let before = files.each_ref().map(fs::read);

    setup(&scene, &[])?;
    let list = claude(&real, &scene, &["mcp", "list"])?;
    let own = program::path()?.canonicalize()?.display().to_string();
    for name in ["everywhere", "here", "shared"] {
        let line = line(&list, name)?;
        let command = format!("{own} wrap --server {name} -- {server}");
        assert!(line.contains(&command), "{list}");
        // It asks a person before it starts those of a project.
        assert!(line.contains("Connected") || name == "shared", "{list}");
    }

    setup(&scene, &["--disable"])?;
    for (file, before) in files.iter().zip(before) {
        assert!(
            fs::read(file)? == before?,
            "{} is not what it was",
            file.display()
        );
    }
    assert!(!claude(&real, &scene, &["mcp", "list"])?.contains("wrap --server"));
    Ok(())
}
