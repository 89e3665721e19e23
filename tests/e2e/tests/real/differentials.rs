//! Lines that a strict parser refuses and real servers execute: behind the wrapper, no server executes them.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    client::Client,
    real::{Real, Scene},
};
use serde_json::json;

/// The name of a well-formed call that follows a questionable line over the same connection.
const MARKER: &str = "after";

/// A line, and which of three servers execute the call in it: TypeScript 1.x, Python 1.x, Python 2.x. The call records
/// a text that begins with the row's name.
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
    let with = |name: &str, bytes: &[u8]| {
        let line = call(&format!(r#"{{"text":"{name} @"}}"#));
        let (before, after) = line.split_once('@').expect("it is there");
        [before.as_bytes(), bytes, after.as_bytes(), b"\n"].concat()
    };
    let row = |name: &'static str, line: Vec<u8>, executed: [bool; 3]| Row { name, line, executed };
    let (opened, closed) = ("[".repeat(200), "]".repeat(200));
    let deep = format!(r#"{{"text":"nested too deep","more":{opened}{closed}}}"#);
    vec![
        row(
            "invalid UTF-8",
            with("invalid UTF-8", b"a\xffb"),
            [true, true, true],
        ),
        row(
            "lone surrogate",
            with("lone surrogate", br"a\ud800b"),
            [true, false, false],
        ),
        row(
            "NaN",
            (call(r#"{"text":"NaN","more":NaN}"#) + "\n").into_bytes(),
            [false, true, true],
        ),
        row(
            "bare CR as a newline",
            [
                br#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
                &b"\r"[..],
                call(r#"{"text":"bare CR as a newline"}"#).as_bytes(),
                b"\n",
            ]
            .concat(),
            [false, true, true],
        ),
        row(
            "nested too deep",
            (call(&deep) + "\n").into_bytes(),
            [true, false, false],
        ),
        row(
            "no newline at the end",
            call(r#"{"text":"no newline at the end"}"#).into_bytes(),
            [false, true, true],
        ),
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
    let lines: Vec<(&str, &[u8])> = rows.iter().map(|row| (row.name, &row.line[..])).collect();
    for (number, server) in servers.iter().enumerate() {
        let alone = Noted::after(server, Behind::Nothing, &lines)?;
        let wrapped = Noted::after(server, Behind::Wrapper, &lines)?;
        for row in &rows {
            let what = format!("{} at {}", row.name, server[1].display());
            let is_executed = |noted: &Noted| !noted.of(row.name).is_empty();
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
            r#"{"jsonrpc":"2.0","id":"line","method":"ping","method":"tools/call","params":{"name":"note","arguments":{"text":"duplicate key"}}}"#,
        ),
        (
            "escaped key",
            r#"{"jsonrpc":"2.0","id":"line","m\u0065thod":"tools/call","params":{"name":"note","arguments":{"text":"escaped key"}}}"#,
        ),
        (
            "CR between tokens",
            "{\"jsonrpc\":\"2.0\",\r\"id\":\"line\",\"method\":\"tools/call\",\"params\":{\"name\":\"note\",\"arguments\":{\"text\":\"CR between tokens\"}}}",
        ),
    ];
    let server = [real.python("python"), real.script("handshake.py")];
    let bytes = lines.map(|(name, line)| (name, format!("{line}\n").into_bytes()));
    let bytes: Vec<(&str, &[u8])> = bytes.iter().map(|(name, line)| (*name, &line[..])).collect();
    let noted = Noted::after(&server, Behind::Wrapper, &bytes)?;
    for (name, _) in &lines {
        assert_eq!(noted.of(name), [*name]);
    }
    let calls = noted.scene.events("mcp_tool_called")?;
    assert_eq!(calls.len(), 2 * lines.len(), "these and the markers: {calls:?}");
    Ok(())
}

/// The component between a client and a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    Wrapper,
}

/// The texts that a server recorded until its end, without the markers.
struct Noted {
    texts: Vec<String>,
    scene: Scene,
}

impl Noted {
    /// Sends lines after a handshake, each with the name that its text begins with. A complete line is followed by a
    /// call that is answered. An incomplete one is the last thing that the server reads.
    fn after(server: &[PathBuf; 2], behind: Behind, lines: &[(&str, &[u8])]) -> Result<Self> {
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
        for (_, line) in lines {
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
        let (markers, texts): (Vec<&str>, Vec<&str>) = noted.lines().partition(|text| *text == MARKER);
        let whole = lines.iter().filter(|(_, line)| line.ends_with(b"\n"));
        ensure!(markers.len() == whole.count(), "a marker is missing: {noted}");
        // Texts are recognised by their content, not by their position, because a server may execute two calls at a
        // time.
        for text in &texts {
            let is_known = lines.iter().any(|(name, _)| text.starts_with(name));
            ensure!(is_known, "{text} is of no line");
        }
        let texts = texts.into_iter().map(str::to_owned).collect();
        Ok(Self { texts, scene })
    }

    /// Returns a text for every call that was executed because of the line with this name.
    fn of(&self, name: &str) -> Vec<&str> {
        let texts = self.texts.iter().map(String::as_str);
        texts.filter(|text| text.starts_with(name)).collect()
    }
}
