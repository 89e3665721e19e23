//! Updates and edits of a pinned server that npm installed. The packages are made here, so that nothing is downloaded.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};
use mcpmon_e2e::wrapped::Home;
use serde_json::Value;

use crate::updates::{Start, change, changes, events, pin, run, start, start_as, trust};

/// The code of a server in JavaScript.
const SCRIPT: &str = "#!/usr/bin/env node\nrequire('part');\nprocess.stdin.on('data', line => \
    process.stdout.write(String(line).replace('method', 'result').replace('\"ping\"', '{}')));\n";

/// An npm project with the package `mcp-server-weather`, which needs `part`.
struct Project {
    home: Home,
}

impl Project {
    fn new() -> Result<Self> {
        let home = Home::new()?;
        fs::create_dir_all(home.path("project"))?;
        fs::write(
            home.path("project/package.json"),
            "{\"name\": \"project\", \"private\": true}",
        )?;
        let project = Self { home };
        project.install("1.2.0", "1.0.0")?;
        Ok(project)
    }

    /// Packs a package into an archive.
    fn pack(&self, name: &str, version: &str, code: &str, requires: &str) -> Result<String> {
        let directory = self.home.path(&format!("{name}-{version}"));
        fs::create_dir_all(directory.join("package"))?;
        fs::write(
            directory.join("package/package.json"),
            format!(
                "{{\"name\": \"{name}\", \"version\": \"{version}\", \"bin\": \"index.js\", \"dependencies\": {{{requires}}}}}"
            ),
        )?;
        fs::write(directory.join("package/index.js"), code)?;
        let archive = self.home.path(&format!("{name}-{version}.tgz"));
        run(Command::new("tar")
            .arg("czf")
            .arg(&archive)
            .arg("-C")
            .arg(&directory)
            .arg("package"))?;
        Ok(archive.display().to_string())
    }

    fn install(&self, weather: &str, part: &str) -> Result<()> {
        let code = format!("// {part}\n");
        let part = self.pack("part", part, &code, "")?;
        let weather = self.pack("mcp-server-weather", weather, SCRIPT, "\"part\": \"*\"")?;
        self.npm(&[&part, &weather])
    }

    fn npm(&self, archives: &[&str]) -> Result<()> {
        let options = [
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ];
        run(Command::new("npm")
            .args(options)
            .args(archives)
            .env("npm_config_cache", self.home.path("npm"))
            .current_dir(self.home.path("project")))
    }

    fn command(&self) -> [String; 2] {
        let path = self.home.path("project/node_modules/mcp-server-weather/index.js");
        ["node".to_owned(), path.display().to_string()]
    }

    fn start(&self) -> Result<Start> {
        let [node, path] = self.command();
        start(&self.home, &[&node, &path])
    }
}

#[test]
fn updates_and_edits_of_npm_packages() -> Result<()> {
    let project = Project::new()?;
    let [node, path] = project.command();
    pin(&project.home, &[&node, &path])?;
    let unrelated = project.pack("unrelated", "1.0.0", "", "")?;
    project.npm(&[&unrelated])?;
    assert!(project.start()?.ran());
    assert_eq!(
        events(&project.home, "mcp_server_binary_mismatch")?,
        [Value::Null; 0]
    );

    let part = project.pack("part", "1.1.0", "// new\n", "")?;
    project.npm(&[&part])?;
    let start = project.start()?;
    let told = changes(&project.home)?;
    assert!(start.ran(), "{start:?}");
    assert_eq!(told, change("dependency", "dependency part 1.0.0 → 1.1.0"));
    trust(&project.home)?;

    let file = project.home.path("project/node_modules/part/index.js");
    let code = fs::read(&file)?;
    fs::write(&file, "// evil\n")?;
    let start = project.start()?;
    assert_eq!(start.code, 1, "{start:?}");
    let told = changes(&project.home)?;
    assert_eq!(told.first().context("a change")?.0, "tampered", "{told:?}");
    fs::write(&file, code)?;
    assert!(project.start()?.ran(), "as accepted");

    let weather = project.pack(
        "mcp-server-weather",
        "1.3.0",
        &format!("{SCRIPT}// new\n"),
        "\"part\": \"*\"",
    )?;
    project.npm(&[&weather])?;
    let start = project.start()?;
    assert_eq!(start.code, 1, "{start:?}");
    assert!(
        start.answer.contains("package mcp-server-weather 1.2.0 → 1.3.0"),
        "{start:?}"
    );
    Ok(())
}

/// Whoever can write a directory can name a package there, and a client can give its server a new name.
#[test]
fn a_copy_of_a_package_elsewhere_is_no_first_use() -> Result<()> {
    let project = Project::new()?;
    let [node, path] = project.command();
    pin(&project.home, &[&node, &path])?;
    let copy = project.home.path("copy");
    run(Command::new("cp")
        .arg("-r")
        .arg(project.home.path("project"))
        .arg(&copy))?;
    let script = copy.join("node_modules/mcp-server-weather/index.js");
    let copied = script.display().to_string();
    let start = start_as(&project.home, "copy", &[&node, &copied])?;
    assert!(start.ran(), "{start:?}");

    fs::write(&script, format!("{SCRIPT}// evil\n"))?;
    for name in ["copy", "new"] {
        let start = start_as(&project.home, name, &[&node, &copied])?;
        assert_eq!(start.code, 1, "{name}: {start:?}");
        assert!(start.answer.contains("mcp-server-weather"), "{name}: {start:?}");
    }
    // A package of this name and a newer version, in a directory of its own.
    let fake = project.home.path("fake/node_modules/mcp-server-weather");
    fs::create_dir_all(&fake)?;
    fs::write(
        fake.join("package.json"),
        "{\"name\": \"mcp-server-weather\", \"version\": \"9.0.0\"}",
    )?;
    fs::write(fake.join("index.js"), SCRIPT)?;
    let script = fake.join("index.js").display().to_string();
    let start = start_as(&project.home, "fake", &[&node, &script])?;
    assert_eq!(start.code, 1, "{start:?}");
    let told = "package mcp-server-weather 1.2.0 → 9.0.0, which no package manager recorded";
    assert!(start.answer.contains(told), "{start:?}");
    Ok(())
}
