//! A server written in Go whose SDK takes different member names for the same one (GHSA-q382-vc8q-7jhj).

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use anyhow::Result;
use mcpmon_e2e::{
    real::Real,
    wrapped::{Home, Wrapped},
};
use serde_json::Value;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// A call for parsers that read member names only up to a NUL.
const HIDDEN_CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"ping","method\u0000":"tools/call","params":{"name":"container_list","arguments":{}}}"#;
const PLAIN_CALL: &str =
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"container_list","arguments":{}}}"#;

/// A replacement for podman that the server executes.
const PODMAN: &str = "#!/bin/sh\necho \"$@\" >> \"$PODMAN_CALLS\"\necho '[]'\n";

fn ask(server: &mut Wrapped, line: &str) -> Result<Value> {
    server.send(line)?;
    Ok(serde_json::from_str(&server.line()?)?)
}

#[test]
fn a_call_in_a_name_with_a_nul_reaches_no_go_server() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let Some(program) = real.go_server() else {
        return Ok(());
    };
    let home = Home::new()?;
    home.configure("version: 1\n")?;
    let podman = home.path("bin/podman");
    fs::create_dir(home.path("bin"))?;
    fs::write(&podman, PODMAN)?;
    fs::set_permissions(&podman, fs::Permissions::from_mode(0o755))?;
    let calls = home.path("calls");
    let listed = || fs::read_to_string(&calls).map_or(0, |text| text.matches("container list").count());
    let start = |command: &mut Command| -> Result<Wrapped> {
        let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
        let mut server = Wrapped::start(command.env("PATH", path).env("PODMAN_CALLS", &calls))?;
        assert!(ask(&mut server, INITIALIZE)?["result"].is_object());
        server.send(INITIALIZED)?;
        Ok(server)
    };

    let mut alone = start(&mut Command::new(&program))?;
    let executed = ask(&mut alone, HIDDEN_CALL)?;
    assert!(executed["result"]["content"].is_array(), "{executed}");
    assert_eq!(listed(), 1, "the server takes it for a call");

    let mut wrapped = start(&mut home.wrap(&[], &[&program.display().to_string()])?)?;
    let refused = ask(&mut wrapped, HIDDEN_CALL)?;
    assert_eq!(
        (&refused["id"], refused["error"].is_object()),
        (&2.into(), true),
        "{refused}"
    );
    assert_eq!(listed(), 1, "nothing was executed");
    let executed = ask(&mut wrapped, PLAIN_CALL)?;
    assert!(executed["result"]["content"].is_array(), "{executed}");
    assert_eq!(listed(), 2);
    Ok(())
}
