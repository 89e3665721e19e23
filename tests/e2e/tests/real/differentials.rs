//! Lines that a strict parser refuses and real servers execute: with the wrapper between, they do not.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    real::{Real, Scene},
    wait,
};

const HELLO: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;
/// How long a server that executes nothing is watched. One that executes is seen much earlier.
const WATCH: Duration = Duration::from_secs(3);

/// A line, and which of the three servers execute it: TypeScript 1.x, Python 1.x, Python 2.x.
struct Row {
    name: &'static str,
    line: Vec<u8>,
    executed: [bool; 3],
}

fn rows() -> Vec<Row> {
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"note","arguments":{arguments}}}}}"#
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
    for row in rows() {
        for (server, executed) in servers.iter().zip(row.executed) {
            let scene = Scene::new()?;
            let kept = scene.file("executed");
            let mut command: Vec<String> = server.iter().map(|part| part.display().to_string()).collect();
            command.push(kept.display().to_string());
            let what = format!("{} at {}", row.name, server[1].display());
            assert_eq!(
                is_executed(&scene, &command, &row.line, executed)?,
                executed,
                "alone: {what}"
            );
            if executed {
                fs::remove_file(&kept)?;
                let wrapped = scene.wrapped("note", &[], &command)?;
                assert!(
                    !is_executed(&scene, &wrapped, &row.line, false)?,
                    "behind the wrapper: {what}"
                );
            }
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
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"note","arguments":{"text":"x"}}}"#,
        ),
        (
            "escaped key",
            r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"tools/call","params":{"name":"note","arguments":{"text":"x"}}}"#,
        ),
        (
            "CR between tokens",
            "{\"jsonrpc\":\"2.0\",\r\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"note\",\"arguments\":{\"text\":\"x\"}}}",
        ),
    ];
    for (name, line) in lines {
        let scene = Scene::new()?;
        let kept = scene.file("executed");
        let server = [real.python("python"), real.script("handshake.py"), kept.clone()];
        let command: Vec<String> = server.iter().map(|part| part.display().to_string()).collect();
        let wrapped = scene.wrapped("note", &[], &command)?;
        let line = format!("{line}\n");
        assert!(is_executed(&scene, &wrapped, line.as_bytes(), true)?, "{name}");
        assert_eq!(fs::read_to_string(&kept)?, "x\n", "{name}");
        // The wrapper may still be writing.
        let calls = wait::until("the call to be recorded", || {
            Ok(Some(scene.events("mcp_tool_called")?).filter(|calls| !calls.is_empty()))
        })?;
        assert_eq!(calls.len(), 1, "{name}");
    }
    Ok(())
}

/// Sends the line after a handshake, and says whether the server did what it asks.
fn is_executed(scene: &Scene, command: &[String], line: &[u8], expected: bool) -> Result<bool> {
    let kept = scene.file("executed");
    let mut server = Command::new(&command[0]);
    scene.prepare(server.args(&command[1..]));
    let child = server
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut child = Running(child);
    let mut stdin = child.0.stdin.take().context("a pipe")?;
    let mut answers = BufReader::new(child.0.stdout.take().context("a pipe")?);
    stdin.write_all(HELLO)?;
    answers.read_line(&mut String::new())?;
    stdin.write_all(line)?;
    stdin.flush()?;
    if !line.ends_with(b"\n") {
        drop(stdin);
    } else {
        thread::spawn(move || {
            let _held = stdin;
            thread::sleep(10 * WATCH);
        });
    }
    let deadline = Instant::now() + if expected { 10 * WATCH } else { WATCH };
    while Instant::now() < deadline && !kept.exists() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(kept.exists())
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait().map(drop)) {
            panic!("the server was gone already: {error}");
        }
    }
}
