//! A real client reads the files that `mcpmon setup` writes: it starts the wrapper, and its file is restored
//! afterwards.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    program,
    real::{Real, Scene},
};

/// Runs a client whose home is that of the scene, and returns its standard output.
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
    let project = scene.file("project").display().to_string();
    setup_of(
        "claude-code",
        scene,
        &[&["--project", &project], options].concat(),
    )
}

/// Runs `mcpmon setup` for one client.
fn setup_of(client: &str, scene: &Scene, options: &[&str]) -> Result<()> {
    let output = Command::new(program::path()?)
        .args(["setup", "--client", client])
        .args(options)
        .env("HOME", scene.file(""))
        .env("XDG_STATE_HOME", scene.file("state"))
        .env("XDG_CONFIG_HOME", scene.file("config"))
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("CODEX_HOME")
        .env_remove("MCPMON_CONFIG")
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Returns the policy of this scene. Clients hand on no variable that leads to it, so setup names it to the wrappers.
fn policy_of(scene: &Scene) -> String {
    scene.file("config/mcpmon/mcpmon.yaml").display().to_string()
}

/// Returns the line of a list that is about this server.
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
    // The store of this host must stay as it is.
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
    let config = policy_of(&scene);
    for name in ["everywhere", "here", "shared"] {
        let line = line(&list, name)?;
        let command = format!("{own} wrap --server {name} --config {config} -- {server}");
        assert!(line.contains(&command), "{list}");
        // The client asks a person before it starts servers of a project.
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

/// A client that keeps its servers in one file and can list them.
struct ListingClient {
    id: &'static str,
    /// The name of its program.
    program: &'static str,
    /// The words that add a server, before its name.
    add: &'static [&'static str],
    /// The words between the name and the URL of a remote server.
    url: &'static [&'static str],
    /// The words between the name and the command of a server.
    command: &'static [&'static str],
    file: &'static str,
}

const CODEX: ListingClient = ListingClient {
    id: "codex",
    program: "codex",
    add: &["mcp", "add"],
    url: &["--url"],
    command: &["--"],
    file: ".codex/config.toml",
};

const GEMINI: ListingClient = ListingClient {
    id: "gemini-cli",
    program: "gemini",
    add: &["mcp", "add", "--scope", "user"],
    url: &["--transport", "http"],
    command: &[],
    file: ".gemini/settings.json",
};

impl ListingClient {
    /// Runs the client in the home of the scene, and returns its output on both streams.
    fn run(&self, real: &Real, scene: &Scene, arguments: &[&str]) -> Result<String> {
        let output = Command::new(real.npm(self.program))
            .args(arguments)
            .current_dir(scene.file("project"))
            .env("HOME", scene.file(""))
            .env("XDG_CONFIG_HOME", scene.file("config"))
            .env_remove("CODEX_HOME")
            .output()
            .with_context(|| format!("{} is needed", self.program))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {text}");
        Ok(text)
    }

    /// Checks that the client reads its file after setup, and that the file is restored.
    fn reads_what_setup_wrote(&self) -> Result<()> {
        let Some(real) = Real::find()? else {
            return Ok(());
        };
        let scene = Scene::new()?;
        fs::create_dir_all(scene.file("project"))?;
        let server = real.npm("mcp-server-everything").display().to_string();
        let url = "http://127.0.0.1:9/mcp";
        self.run(
            &real,
            &scene,
            &[self.add, &["near"], self.command, &[server.as_str()]].concat(),
        )?;
        self.run(&real, &scene, &[self.add, &["far"], self.url, &[url]].concat())?;
        let before = fs::read(scene.file(self.file))?;

        setup_of(self.id, &scene, &["--remote"])?;
        let list = self.run(&real, &scene, &["mcp", "list"])?;
        let own = program::path()?.canonicalize()?.display().to_string();
        let config = policy_of(&scene);
        for name in ["near", "far"] {
            let line = list
                .lines()
                .find(|line| line.contains(&format!("--server {name} ")))
                .with_context(|| format!("{name} is not wrapped: {list}"))?;
            let wanted = match name {
                "near" => format!("wrap --server near --config {config} -- {server}"),
                _ => format!("wrap --server far --url {url}"),
            };
            assert!(line.contains(&own) && line.contains(&wanted), "{list}");
        }

        setup_of(self.id, &scene, &["--disable"])?;
        assert!(
            fs::read(scene.file(self.file))? == before,
            "the file is not what it was"
        );
        assert!(
            !self
                .run(&real, &scene, &["mcp", "list"])?
                .contains("wrap --server")
        );
        Ok(())
    }
}

#[test]
fn codex_reads_what_setup_wrote_and_has_its_file_back() -> Result<()> {
    CODEX.reads_what_setup_wrote()
}

#[test]
fn gemini_cli_reads_what_setup_wrote_and_has_its_file_back() -> Result<()> {
    GEMINI.reads_what_setup_wrote()
}
