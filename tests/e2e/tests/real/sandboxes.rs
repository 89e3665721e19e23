//! Real servers in sandboxes: in one that was generated from a session, and in that of npm's sandbox-runtime.

use std::{
    fs,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    program,
    real::{Real, Scene, Sdk},
};
use serde_json::json;

/// Calls of the first session; `@` is the directory that the server may use.
const USED: &str = r#"[["list_directory", {"path": "@"}], ["read_text_file", {"path": "@/note.txt"}], ["write_file", {"path": "@/out/a.txt", "content": "a"}]]"#;
/// Calls of the next session. The last one writes to a place where the first session wrote nothing.
const USED_AGAIN: &str = r#"[["read_text_file", {"path": "@/note.txt"}], ["write_file", {"path": "@/out/b.txt", "content": "b"}], ["write_file", {"path": "@/c.txt", "content": "c"}]]"#;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

#[test]
fn a_session_of_a_server_is_the_sandbox_of_the_next() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let data = scene.data();
    fs::create_dir(data.join("out"))?;
    let command = vec![
        real.npm("mcp-server-filesystem").display().to_string(),
        data.display().to_string(),
    ];
    real.drive(
        Sdk::TypeScript,
        &scene,
        USED,
        &scene.wrapped("files", &[], &command)?,
    )?;
    let calls = scene.events("mcp_tool_called")?;
    let session = calls.first().and_then(|call| call["session_id"].as_str());
    let session = session.context("a session")?;

    let (store, locked) = (scene.store(), scene.file("locked.yaml"));
    let (store, locked) = (store.display().to_string(), locked.display().to_string());
    let run = program::run(["policy", "generate", session, "--output", &locked, "--db", &store])?;
    ensure!(run.code == Some(0), "{run:?}");
    let run = program::run(["policy", "check", &locked])?;
    ensure!(run.code == Some(0), "{run:?}");
    let text = fs::read_to_string(&locked)?;
    let sandbox = text.split_once("sandbox:\n").context("a sandbox")?.1;
    let (read, written) = sandbox.split_once("write:\n").context("grants")?;
    ensure!(sandbox.starts_with("        default: strict\n"), "{text}");
    ensure!(read.contains(&format!("- \"{}\"\n", data.display())), "{text}");
    ensure!(
        written.contains(&format!("- \"{}\"\n", data.join("out").display())),
        "{text}"
    );

    let seen = real.drive(
        Sdk::TypeScript,
        &scene,
        USED_AGAIN,
        &scene.wrapped("files", &["--config", &locked], &command)?,
    )?;
    ensure!(seen.to_string().contains("a note"), "{seen}");
    ensure!(fs::read_to_string(data.join("out/b.txt"))? == "b", "{seen}");
    ensure!(!data.join("c.txt").exists(), "{seen}");
    let told = scene.events("mcp_server_sandboxed")?;
    let [told] = told.as_slice() else {
        anyhow::bail!("one sandbox: {told:?}");
    };
    assert_eq!(
        (&told["mode"], &told["enforced"]),
        (&json!("strict"), &json!(true)),
        "{told}"
    );
    Ok(())
}

/// Returns the first part of a command that runs in the sandbox of `srt`, with the scene as the only writable
/// directory.
fn srt(real: &Real, scene: &Scene) -> Result<Vec<String>> {
    let settings = scene.file("srt.json");
    let rules = json!({
        "network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": [], "allowRead": [], "allowWrite": [scene.directory()], "denyWrite": []},
    });
    fs::write(&settings, rules.to_string())?;
    let words = [real.npm("srt"), "--settings".into(), settings, "--".into()];
    Ok(words.map(|word| word.display().to_string()).to_vec())
}

/// Starts a command, sends the initialization of a client, and closes its input.
fn introduced(scene: &Scene, words: &[String]) -> Result<Output> {
    let mut command = Command::new(&words[0]);
    let mut child = scene
        .prepare(command.args(&words[1..]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("a pipe")?;
    // Sending fails if the command ends at once.
    drop(writeln!(input, "{INITIALIZE}"));
    let mut output = std::io::BufReader::new(child.stdout.take().context("a pipe")?);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line)?;
    drop(input);
    let mut ended = child.wait_with_output()?;
    ended.stdout = line.into_bytes();
    Ok(ended)
}

#[test]
fn a_wrapper_inside_of_a_sandbox_says_where_it_belongs() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = [real.npm("mcp-server-filesystem"), scene.data()].map(|word| word.display().to_string());
    let inside = [srt(&real, &scene)?, scene.wrapped("files", &[], &server)?].concat();
    let run = introduced(&scene, &inside)?;
    let (said, errors) = (String::from_utf8(run.stdout)?, String::from_utf8(run.stderr)?);
    ensure!(said.contains("secure-filesystem-server"), "{said} {errors}");
    let remedy = "put the wrapper outside: `mcpmon wrap -- srt … COMMAND`";
    assert_eq!(errors.matches(remedy).count(), 1, "{errors}");
    let told = scene.events("mcp_enforcement_degraded")?;
    ensure!(
        told.iter().any(|event| event["component"] == "wrapper"),
        "{told:?}"
    );
    Ok(())
}

#[test]
fn a_wrapper_outside_of_a_sandbox_knows_the_server_in_it() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = [real.npm("mcp-server-filesystem"), scene.data()].map(|word| word.display().to_string());
    let mut outside = vec![program::path()?.display().to_string(), "wrap".to_owned()];
    outside.extend([
        "--db".to_owned(),
        scene.store().display().to_string(),
        "--".to_owned(),
    ]);
    outside.extend([srt(&real, &scene)?, server.to_vec()].concat());
    let run = introduced(&scene, &outside)?;
    let (said, errors) = (String::from_utf8(run.stdout)?, String::from_utf8(run.stderr)?);
    ensure!(said.contains("secure-filesystem-server"), "{said} {errors}");
    ensure!(!errors.contains("put the wrapper outside"), "{errors}");
    let started = scene.events("mcp_server_started")?;
    let ids: Vec<_> = started.iter().map(|event| &event["server_id"]).collect();
    assert_eq!(ids, [&json!("server-filesystem")], "{started:?}");
    Ok(())
}
