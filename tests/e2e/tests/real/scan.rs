//! `mcpmon scan` with real servers, and the validity of its SARIF output.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    real::{Origin, Real, SERVERS},
    scanned::{fill, scan, write},
    wrapped::Home,
};
use serde_json::{Value, json};

/// A script that validates standard input against the schema in the file of its argument.
const VALIDATE: &str = "import json, sys, jsonschema\n\
    schema = json.load(open(sys.argv[1]))\n\
    jsonschema.validators.validator_for(schema)(schema).validate(json.load(sys.stdin))\n";
/// The schema as OASIS publishes it.
const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sarif-2.1.0.schema.json");

#[test]
fn sarif_is_valid() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let home = Home::new()?;
    fill(&home)?;
    let log = scan(&home, &["--format", "sarif"])?.stdout;
    let validate = |log: &str| -> Result<(bool, String)> {
        let file = home.path("log.sarif");
        std::fs::write(&file, log)?;
        let output = Command::new(real.python("python"))
            .args(["-c", VALIDATE, SCHEMA])
            .stdin(std::fs::File::open(&file)?)
            .output()?;
        Ok((
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    };
    let (is_valid, complaint) = validate(&log)?;
    ensure!(is_valid, "{complaint}");
    let broken = log.replace("\"ruleId\"", "\"rule\"");
    ensure!(!validate(&broken)?.0, "the schema is not read");

    let log: Value = serde_json::from_str(&log)?;
    let run = &log["runs"][0];
    let results = run["results"].as_array().context("results")?;
    let ids: Vec<&Value> = results.iter().map(|result| &result["ruleId"]).collect();
    for rule in [
        "lookalike-server",
        "configured-secret",
        "script-sends-secrets",
        "unreadable-file",
    ] {
        ensure!(ids.contains(&&json!(rule)), "no {rule}: {ids:?}");
    }
    for result in results {
        let index = result["ruleIndex"].as_u64().context("an index")?;
        let rule = &run["tool"]["driver"]["rules"][usize::try_from(index)?];
        assert_eq!(rule["id"], result["ruleId"]);
        ensure!(result["partialFingerprints"]["mcpmon/v1"].is_string(), "{result}");
    }
    // The lines of the findings move, and the fingerprints stay the same.
    let fingerprints = |results: &[Value]| -> Vec<String> {
        let all = results.iter();
        let mut all: Vec<_> = all
            .map(|result| result["partialFingerprints"].to_string())
            .collect();
        all.sort();
        all
    };
    let text = std::fs::read_to_string(home.path("home/.claude.json"))?;
    write(&home, "home/.claude.json", &format!("\n\n\n{text}"))?;
    let moved: Value = serde_json::from_str(&scan(&home, &["--format", "sarif"])?.stdout)?;
    let moved = moved["runs"][0]["results"].as_array().context("results")?;
    assert_eq!(fingerprints(moved), fingerprints(results));
    Ok(())
}

/// An npm server and a PyPI server are started, without a network if this host allows that.
#[test]
fn real_servers_are_listed() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let home = Home::new()?;
    let command = |name: &str| -> Result<Vec<String>> {
        let known = SERVERS
            .iter()
            .find(|known| known.command == name)
            .context("a server")?;
        Ok(real.command(known, &home.path("empty")))
    };
    let server = |words: Vec<String>| json!({"command": words[0], "args": words[1..]});
    let servers = json!({"mcpServers": {
        "everything": server(command("mcp-server-everything")?),
        "time": server(command("mcp-server-time")?),
        "broken": {"command": "sh", "args": ["-c", "echo cannot go on >&2; exit 3"]},
    }});
    assert_eq!(
        SERVERS
            .iter()
            .find(|known| known.command == "mcp-server-time")
            .map(|known| known.origin),
        Some(Origin::Python)
    );
    std::fs::create_dir_all(home.path("empty"))?;
    write(&home, "home/.claude.json", &servers.to_string())?;
    let run = scan(&home, &["--start", "--yes", "--json"])?;
    let objects = run.objects()?;
    let of = |name: &str| {
        objects
            .iter()
            .find(|object| object["name"] == name)
            .context("a server")
    };
    for (name, tool) in [("everything", "echo"), ("time", "get_current_time")] {
        let server = of(name)?;
        assert_eq!(server["source"], "listed", "{server} {}", run.stderr);
        let tools = server["tools"].as_array().context("tools")?;
        ensure!(tools.contains(&json!(tool)), "{server}");
    }
    let broken = of("broken")?;
    assert_eq!(broken["source"], "failed");
    ensure!(
        broken["fault"]
            .as_str()
            .is_some_and(|fault| fault.contains("cannot go on")),
        "{broken}"
    );
    Ok(())
}
