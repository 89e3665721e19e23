//! Lines that a strict parser refuses and real servers execute: with the wrapper between, they do not.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    client::Client,
    real::{Real, Scene},
};
use serde_json::json;

/// What a well-formed call leaves behind, which follows a line in question on the same path.
const MARKER: &str = "after";

/// A line, and which of the three servers execute it: TypeScript 1.x, Python 1.x, Python 2.x.
struct Row {
    name: &'static str,
    line: Vec<u8>,
    executed: [bool; 3],
}

fn rows() -> Vec<Row> {
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"line","method":"tools/call","params":{{"name":"note","arguments":{arguments}}}}}"#
        )
    };
    let with = |bytes: &[u8]| {
        let line = call(r#"{"text":"@"}"#);
        let (before, after) = line.split_once('@').expect("it is there");
        [before.as_bytes(), bytes, after.as_bytes(), b"\n"].concat()
    };
    let deep = format!(r#"{{"text":"x","more":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    vec![
        Row {
            name: "invalid UTF-8",
            line: with(b"a\xffb"),
            executed: [true, true, true],
        },
        Row {
            name: "lone surrogate",
            line: with(br"a\ud800b"),
            executed: [true, false, false],
        },
        Row {
            name: "NaN",
            line: (call(r#"{"text":"x","more":NaN}"#) + "\n").into_bytes(),
            executed: [false, true, true],
        },
        Row {
            name: "bare CR as a newline",
            line: [
                br#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
                &b"\r"[..],
                call(r#"{"text":"x"}"#).as_bytes(),
                b"\n",
            ]
            .concat(),
            executed: [false, true, true],
        },
        Row {
            name: "nested too deep",
            line: (call(&deep) + "\n").into_bytes(),
            executed: [true, false, false],
        },
        Row {
            name: "no newline at the end",
            line: call(r#"{"text":"x"}"#).into_bytes(),
            executed: [false, true, true],
        },
    ]
}

#[test]
fn what_servers_execute_and_a_strict_parser_refuses_does_not_reach_them() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let servers = [
        ["node".into(), real.script("handshake.mjs")],
        [real.python("python"), real.script("handshake.py")],
        [real.python2("python"), real.script("stateless.py")],
    ];
    let rows = rows();
    let lines: Vec<&[u8]> = rows.iter().map(|row| &row.line[..]).collect();
    for (number, server) in servers.iter().enumerate() {
        let alone = Noted::after(server, Behind::Nothing, &lines)?;
        let wrapped = Noted::after(server, Behind::Wrapper, &lines)?;
        for (position, row) in rows.iter().enumerate() {
            let what = format!("{} at {}", row.name, server[1].display());
            let is_executed = |noted: &Noted| !noted.texts[position].is_empty();
            assert_eq!(is_executed(&alone), row.executed[number], "alone: {what}");
            assert!(!is_executed(&wrapped), "behind the wrapper: {what}");
        }
    }
    Ok(())
}

#[test]
fn what_only_looks_odd_is_executed_once_and_as_judged() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let lines = [
        (
            "duplicate key",
            r#"{"jsonrpc":"2.0","id":"line","method":"ping","method":"tools/call","params":{"name":"note","arguments":{"text":"x"}}}"#,
        ),
        (
            "escaped key",
            r#"{"jsonrpc":"2.0","id":"line","m\u0065thod":"tools/call","params":{"name":"note","arguments":{"text":"x"}}}"#,
        ),
        (
            "CR between tokens",
            "{\"jsonrpc\":\"2.0\",\r\"id\":\"line\",\"method\":\"tools/call\",\"params\":{\"name\":\"note\",\"arguments\":{\"text\":\"x\"}}}",
        ),
    ];
    let server = [real.python("python"), real.script("handshake.py")];
    let bytes: Vec<Vec<u8>> = lines
        .iter()
        .map(|(_, line)| format!("{line}\n").into_bytes())
        .collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let noted = Noted::after(&server, Behind::Wrapper, &bytes)?;
    for ((name, _), texts) in lines.iter().zip(&noted.texts) {
        assert_eq!(texts, &["x"], "{name}");
    }
    let calls = noted.scene.events("mcp_tool_called")?;
    assert_eq!(calls.len(), 2 * lines.len(), "these and the markers: {calls:?}");
    Ok(())
}

/// What is between a client and a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    Wrapper,
}

/// What a server noted until its end.
struct Noted {
    /// For every line in question, a text for every call that was executed because of it.
    texts: Vec<Vec<String>>,
    scene: Scene,
}

impl Noted {
    /// Sends `lines` after a handshake. Each that ends is followed by a call that is answered: by then the server
    /// has done with what came before. One that does not end is the last thing that the server reads.
    fn after(server: &[PathBuf; 2], behind: Behind, lines: &[&[u8]]) -> Result<Self> {
        let scene = Scene::new()?;
        let kept = scene.file("executed");
        let parts = server.iter().chain([&kept]);
        let mut command: Vec<String> = parts.map(|part| part.display().to_string()).collect();
        if behind == Behind::Wrapper {
            command = scene.wrapped("note", &[], &command)?;
        }
        let mut client = Client::start(scene.prepare(Command::new(&command[0]).args(&command[1..])))?;
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        });
        client.ask("initialize", &hello)?;
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        for line in lines {
            client.write(line)?;
            if line.ends_with(b"\n") {
                client.ask(
                    "tools/call",
                    &json!({"name": "note", "arguments": {"text": MARKER}}),
                )?;
            }
        }
        client.close()?;
        let noted = fs::read(&kept).context("the markers are noted")?;
        let noted = String::from_utf8_lossy(&noted);
        let mut texts = vec![Vec::new()];
        for text in noted.lines() {
            match texts.last_mut() {
                Some(since) if text != MARKER => since.push(text.to_owned()),
                Some(_) | None => texts.push(Vec::new()),
            }
        }
        // After the last marker comes what an unfinished line did, if there is one.
        texts.truncate(lines.len());
        ensure!(texts.len() == lines.len(), "a marker is missing: {noted}");
        Ok(Self { texts, scene })
    }
}
