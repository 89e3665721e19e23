//! The registry entries that real packages name, and the `server.json` beside a package, compared with the running
//! server.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program::{self, Run},
    real::{Known, Real, SERVERS, Scene, Sdk},
};
use serde_json::{Value, json};

const EVERYTHING: &str = "@modelcontextprotocol/server-everything";

fn known(command: &str) -> Result<&'static Known> {
    let known = SERVERS.iter().find(|known| known.command == command);
    known.context("it is one of them")
}

/// Drives a server behind the wrapper, and returns the origin of the package in the event of its start.
fn origin(real: &Real, scene: &Scene, id: &str, command: &[String]) -> Result<Value> {
    real.drive(Sdk::TypeScript, scene, "[]", &scene.wrapped(id, &[], command)?)?;
    let starts = scene.events("mcp_server_started")?;
    let start = starts.iter().rfind(|event| text(event, "server_id") == id);
    Ok(start.context("a start")?["package_origin"].clone())
}

#[test]
fn real_packages_name_their_entries() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    for (command, ecosystem, entry) in [
        (
            "mcp-server-everything",
            "npm",
            "io.github.modelcontextprotocol/server-everything",
        ),
        ("context7-mcp", "npm", "io.github.upstash/context7"),
        (
            "mcp-server-time",
            "pypi",
            "io.github.modelcontextprotocol/server-time",
        ),
    ] {
        let scene = Scene::new()?;
        let origin = origin(
            &real,
            &scene,
            command,
            &real.command(known(command)?, &scene.data()),
        )?;
        assert_eq!(text(&origin, "ecosystem"), ecosystem, "{origin}");
        assert_eq!(origin["registry_entry"], json!({"name": entry}), "{origin}");
    }
    Ok(())
}

/// Installs the package of a real server a second time, beside the other packages, and returns its directory.
fn installed(real: &Real, scene: &Scene) -> Result<PathBuf> {
    let modules = real.npm("..").canonicalize()?;
    let own = scene.file("project/node_modules");
    let package = own.join(EVERYTHING);
    fs::create_dir_all(package.parent().context("a scope")?)?;
    copy(&modules.join(EVERYTHING), &package)?;
    for (from, to) in [
        (modules.clone(), own.clone()),
        (
            modules.join("@modelcontextprotocol"),
            own.join("@modelcontextprotocol"),
        ),
    ] {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let to = to.join(entry.file_name());
            if !to.exists() && !entry.file_name().to_string_lossy().starts_with('.') {
                symlink(entry.path(), to)?;
            }
        }
    }
    Ok(package)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => fs::copy(entry.path(), to).map(drop)?,
        }
    }
    Ok(())
}

#[test]
fn the_file_beside_a_package_is_compared_with_what_is_installed() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let package = installed(&real, &scene)?;
    let about: Value = serde_json::from_str(&fs::read_to_string(package.join("package.json"))?)?;
    let version = text(&about, "version");
    let file = package.join("server.json");
    let publish = |name: &str, version: &str| {
        let card = json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": name,
            "description": "Everything",
            "version": version,
            "packages": [{
                "registryType": "npm",
                "identifier": EVERYTHING,
                "version": version,
                "transport": {"type": "stdio"},
            }],
        });
        fs::write(&file, card.to_string())
    };
    let inspect = |more: &[&str]| -> Result<Run> {
        let store = scene.store().display().to_string();
        program::run([&["inspect", "--server", "all", "--db", &store], more].concat())
    };
    let name = text(&about, "mcpName");
    let script = package.join("dist/index.js").display().to_string();
    let command = ["node".to_owned(), script];

    publish(name, version)?;
    let found = origin(&real, &scene, "all", &command)?;
    let place = file.display().to_string();
    assert_eq!(
        found["registry_entry"],
        json!({"name": name, "version": version, "file": place}),
        "{found}"
    );
    let same = inspect(&[])?;
    assert_eq!(same.code, Some(0), "{same:?}");
    for word in [
        &format!("{EVERYTHING} {version} of npm"),
        name,
        "it is what",
        &place,
        "get-sum",
    ] {
        assert!(
            same.stdout.contains(word) || same.stderr.contains(word),
            "{word}: {same:?}"
        );
    }

    publish("io.github.somebody/else", "0.0.1")?;
    let differs = inspect(&["--json"])?;
    assert_eq!(differs.code, Some(0), "what lies beside it is shown: {differs:?}");
    let objects = differs.objects()?;
    let differences: Vec<&Value> = objects
        .iter()
        .filter(|object| object["difference"].is_string())
        .collect();
    let subjects: Vec<&str> = differences
        .iter()
        .map(|object| text(object, "difference"))
        .collect();
    assert_eq!(
        subjects,
        ["registry name", "version of the npm package"],
        "{objects:?}"
    );
    assert_eq!(text(differences[1], "live"), version);
    assert!(
        differences
            .iter()
            .all(|object| text(object, "card_file") == place)
    );
    let refused = inspect(&["--card", &place])?;
    assert_eq!(refused.code, Some(1), "{refused:?}");

    let unknown = program::run([
        "inspect",
        "--server",
        "nobody",
        "--db",
        &scene.store().display().to_string(),
    ])?;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("mcpmon servers"), "{unknown:?}");
    Ok(())
}
