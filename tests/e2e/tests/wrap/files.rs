//! The files that a server runs from, looked at before it starts and before it has its first say.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program, wait,
    wrapped::{Home, Wrapped, children},
};

const ASKED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// Says nothing before it is asked.
const CODE: &str = "import sys\nfor line in sys.stdin: print(line.replace('method', 'result').replace('\"ping\"', '{}'), end='', flush=True)\n";

/// Python itself: what is called so on PATH may be a script that looks for one of several.
fn python() -> Result<String> {
    let output = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .context("cannot run python3")?;
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

fn start(home: &Home) -> Result<Wrapped> {
    let script = home.path("server.py").display().to_string();
    Wrapped::start(&mut home.wrap(&["--server", "swapped"], &[&python()?, &script])?)
}

/// Waits until the server runs: its script was looked at by then.
fn running(wrapped: &Wrapped) -> Result<()> {
    wait::until("the server", || {
        let relays = children(wrapped.pid().as_raw().cast_unsigned())?;
        let servers = relays.first().map(|relay| children(*relay)).transpose()?;
        Ok(servers.filter(|servers| !servers.is_empty()))
    })
    .map(drop)
}

fn pin(home: &Home) -> Result<()> {
    let mut wrapped = start(home)?;
    wrapped.send(ASKED)?;
    assert!(wrapped.line()?.contains("result"));
    let store = home.path("store.db").display().to_string();
    wait::until("its pin", || {
        let run = program::run(["events", "--json", "--type", "mcp_server_started", "--db", &store])?;
        let started = run.objects()?;
        Ok(started
            .first()
            .map(|started| assert_eq!(text(started, "pin"), "pinned")))
    })?;
    wrapped.finish()?;
    Ok(())
}

/// Whether nothing but the wrapper spoke: it refuses what was asked.
fn is_refusal(output: &str) -> bool {
    output.lines().count() == 1 && output.contains("(rule mcp.version_pinning)")
}

#[test]
fn a_script_that_was_another_one_meanwhile_does_not_speak() -> Result<()> {
    let home = Home::new()?;
    let [script, aside, other] = ["server.py", "aside.py", "other.py"].map(|name| home.path(name));
    fs::write(&script, CODE)?;
    pin(&home)?;

    // What is put back has the pinned content, and nobody knows what the interpreter has read.
    let mut wrapped = start(&home)?;
    running(&wrapped)?;
    fs::write(&other, "print('something else')")?;
    fs::hard_link(&script, &aside)?;
    fs::rename(&other, &script)?;
    fs::rename(&aside, &script)?;
    wrapped.send(ASKED)?;
    let (code, output, errors) = wrapped.finish()?;
    assert_eq!(code, 1, "{errors}");
    assert!(is_refusal(&output), "{output}");
    assert!(errors.contains("refused by mcp.version_pinning"), "{errors}");

    let mut wrapped = start(&home)?;
    running(&wrapped)?;
    fs::write(&script, format!("{CODE}#"))?;
    wrapped.send(ASKED)?;
    let (code, output, _) = wrapped.finish()?;
    assert_eq!(code, 1);
    assert!(is_refusal(&output), "changed for good: {output}");

    fs::write(&script, CODE)?;
    let mut wrapped = start(&home)?;
    wrapped.send(ASKED)?;
    assert!(wrapped.line()?.contains("result"), "the pinned one, untouched");
    let (code, ..) = wrapped.finish().context("it ends")?;
    assert_eq!(code, 0);
    Ok(())
}
