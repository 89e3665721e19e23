//! If nothing is blocked, clients and servers cannot detect the wrapper.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::real::{Real, SERVERS, Scene, Sdk};
use serde_json::{Value, json};

#[test]
fn eleven_servers_with_the_python_sdk() -> Result<()> {
    every_server_passes_byte_for_byte(Sdk::Python)
}

#[test]
fn eleven_servers_with_the_typescript_sdk() -> Result<()> {
    every_server_passes_byte_for_byte(Sdk::TypeScript)
}

fn every_server_passes_byte_for_byte(sdk: Sdk) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    for server in SERVERS {
        let (bare, scene) = (Scene::new()?, Scene::new()?);
        let command = real.command(&server, &scene.data());
        let alone = real.drive(sdk, &bare, server.calls, &real.command(&server, &bare.data()))?;

        let (outer, inner) = (scene.file("outer"), scene.file("inner"));
        let wrapped = scene.wrapped(server.command, &[], &real.tapped(&inner, &command))?;
        let through = real.drive(sdk, &scene, server.calls, &real.tapped(&outer, &wrapped))?;

        let own = |value: &Value, scene: &Scene| {
            value
                .to_string()
                .replace(&scene.directory().display().to_string(), "@")
        };
        assert_eq!(own(&alone, &bare), own(&through, &scene), "{}", server.command);
        for side in ["client", "server"] {
            let (near, far) = (outer.with_extension(side), inner.with_extension(side));
            let (near, far) = (fs::read(near)?, fs::read(far)?);
            ensure!(!near.is_empty(), "{}: nothing passed", server.command);
            assert!(near == far, "{}: bytes of the {side} differ", server.command);
        }
        let calls: Vec<Value> = serde_json::from_str(server.calls)?;
        assert_eq!(
            scene.events("mcp_tool_called")?.len(),
            calls.len(),
            "{}",
            server.command
        );
        let seen = scene.events("mcp_tool_seen")?;
        assert_eq!(
            seen.iter().filter(|event| event["definition"] == "tool").count(),
            through["tools"]["tools"].as_array().context("a list")?.len(),
            "{}",
            server.command
        );
        for event in scene.events("mcp_detection")? {
            assert_eq!(event["action"], "allow", "{}: {event}", server.command);
        }
    }
    Ok(())
}

/// In observe mode a message that would be blocked is recorded as such, and passes unchanged.
#[test]
fn observed_traffic_passes_byte_for_byte() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    for (mode, told) in [
        ("poisoned", "mcp_tool_call_intercepted"),
        ("hidden-unicode", "mcp_detection"),
        ("poisoned-output", "mcp_output_inspection"),
        ("sampling", "mcp_request_judged"),
    ] {
        let scene = Scene::new()?;
        let policy = scene.configuration("version: 1\nmode: observe\n")?;
        let server = [
            real.python("python").display().to_string(),
            real.script("hostile.py").display().to_string(),
            mode.to_owned(),
        ];
        let (outer, inner) = (scene.file("outer"), scene.file("inner"));
        let wrapped = scene.wrapped("hostile", &["--config", &policy], &real.tapped(&inner, &server))?;
        let calls = r#"[["forecast", {"path": "Bergen"}], ["towns", {}]]"#;
        real.drive(Sdk::Python, &scene, calls, &real.tapped(&outer, &wrapped))?;
        for side in ["client", "server"] {
            let (near, far) = (outer.with_extension(side), inner.with_extension(side));
            let (near, far) = (fs::read(near)?, fs::read(far)?);
            ensure!(!near.is_empty(), "{mode}: nothing passed");
            assert!(near == far, "{mode}: bytes of the {side} differ");
        }
        let events = scene.events(told)?;
        assert!(
            events.iter().any(|event| event["action"] == "would_block"),
            "{mode}: {events:?}"
        );
        let all = scene.list(&["events", "--limit", "100000"])?;
        assert!(all.iter().all(|event| event["action"] != "block"), "{mode}");
    }
    Ok(())
}

#[test]
fn the_inspector_lists_and_calls() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let scene = Scene::new()?;
    let server = real.npm("mcp-server-everything").display().to_string();
    let wrapped = scene.wrapped("everything", &[], std::slice::from_ref(&server))?;
    let inspect = |command: &[String], options: &[&str]| -> Result<String> {
        let config = scene.file("inspector.json");
        // The inspector takes options in the server's command for its own.
        let script = scene.file("it.sh");
        let words: Vec<_> = command.iter().map(|word| format!("'{word}'")).collect();
        fs::write(&script, format!("#!/bin/sh\nexec {}\n", words.join(" ")))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        let server = json!({"command": script, "args": []});
        fs::write(&config, json!({"mcpServers": {"it": server}}).to_string())?;
        let mut inspector = real.inspector();
        inspector.arg("--config").arg(config);
        inspector.args(["--server", "it"]).args(options);
        let output = scene.prepare(&mut inspector).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the inspector failed: {errors}");
        String::from_utf8(output.stdout).context("the inspector tells text")
    };
    for options in [
        &["--method", "tools/list"][..],
        &[
            "--method",
            "tools/call",
            "--tool-name",
            "echo",
            "--tool-arg",
            "message=hi",
        ],
    ] {
        let alone = inspect(std::slice::from_ref(&server), options)?;
        assert_eq!(alone, inspect(&wrapped, options)?);
        assert!(alone.len() > 20, "{alone}");
    }
    Ok(())
}
