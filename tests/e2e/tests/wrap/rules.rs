//! Decisions of a wrapper before any message passes: whether the server runs, and with which environment.

use std::{fs, os::unix::fs::PermissionsExt as _};

use anyhow::Result;
use mcpmon_e2e::wrapped::{Home, Wrapped};

#[test]
fn a_server_that_is_denied_does_not_start() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmcp:\n  server_policy: denylist\n  denied_servers: [{id: notes}]\n")?;
    let ran = home.path("ran").display().to_string();
    let mut wrapped = Wrapped::start(&mut home.wrap(&["--server", "notes"], &["touch", &ran])?)?;
    let (code, output, errors) = wrapped.finish()?;
    assert_eq!((code, output.as_str()), (1, ""));
    assert!(errors.contains("the MCP server notes was refused"), "{errors}");
    assert!(!home.path("ran").exists());
    let mut wrapped = Wrapped::start(&mut home.wrap(&["--server", "other"], &["touch", &ran])?)?;
    assert_eq!(wrapped.finish()?.0, 0);
    assert!(home.path("ran").exists());
    Ok(())
}

#[test]
fn a_configuration_with_a_mistake_starts_nothing() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmcp: {server_polizy: none}\n")?;
    let (code, output, errors) = home.start(&["cat"])?.finish()?;
    assert_eq!((code, output.as_str()), (4, ""));
    assert!(errors.contains("server_polizy"), "{errors}");
    Ok(())
}

/// Returns the names of the variables in the environment of a server that is declared like this.
fn variables(rules: &str) -> Result<Vec<String>> {
    let home = Home::new()?;
    home.configure(&format!(
        "version: 1\nmcp:\n  servers: [{{id: keeper, type: stdio, command: keeper, {rules}}}]\n"
    ))?;
    let script = "for name in $(env | cut -d= -f1); do echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"$name\\\"}\"; done";
    let mut command = home.wrap(&["--server", "keeper"], &["sh", "-c", script])?;
    command
        .env("GITHUB_TOKEN", "hunter2")
        .env("GITHUB_HOST", "example.com")
        .env("AWS_SECRET_ACCESS_KEY", "hunter3")
        .env("ORDINARY", "yes");
    let (code, output, errors) = Wrapped::start(&mut command)?.finish()?;
    assert_eq!(code, 0, "{errors}");
    assert!(!errors.contains("hunter"), "{errors}");
    let name = |line: &str| line.rsplit('"').nth(1).map(str::to_owned);
    Ok(output.lines().filter_map(name).collect())
}

#[test]
fn a_server_has_the_variables_that_its_rules_leave_it() -> Result<()> {
    let has = |names: &[String], name: &str| names.iter().any(|other| other == name);
    let all = variables("args: []")?;
    for name in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ORDINARY", "PATH"] {
        assert!(has(&all, name), "{name} in {all:?}");
    }
    let allowed = variables("env_allow: [\"GITHUB_*\"], env_deny: [GITHUB_HOST]")?;
    assert!(
        has(&allowed, "GITHUB_HOST") && has(&allowed, "PATH"),
        "{allowed:?}"
    );
    for name in [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "ORDINARY",
        "XDG_STATE_HOME",
    ] {
        assert!(!has(&allowed, name), "{name} in {allowed:?}");
    }
    let listed = variables("env_allow: [GITHUB_TOKEN]")?;
    assert!(
        has(&listed, "GITHUB_TOKEN") && !has(&listed, "GITHUB_HOST"),
        "{listed:?}"
    );
    let denied = variables("env_deny: [\"AWS_*\"]")?;
    assert!(
        !has(&denied, "AWS_SECRET_ACCESS_KEY") && has(&denied, "ORDINARY"),
        "{denied:?}"
    );
    Ok(())
}

#[test]
fn a_script_runs_as_without_a_wrapper() -> Result<()> {
    let home = Home::new()?;
    let script = home.path("server with a space");
    let text =
        "#!/usr/bin/env -S sh -e\necho \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"$0 $1\\\"}\"\n";
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let path = script.display().to_string();
    let (code, output, errors) = home.start(&[&path, "an argument"])?.finish()?;
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains(&format!("{path} an argument")), "{output}");
    Ok(())
}

#[test]
fn one_wrapper_is_enough() -> Result<()> {
    let home = Home::new()?;
    let program = mcpmon_e2e::program::path()?.display().to_string();
    let mut wrapped = home.start(&[&program, "wrap", "--", "cat"])?;
    let line = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    wrapped.send(line)?;
    assert_eq!(wrapped.line()?, line);
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0);
    assert!(errors.contains("wrapped already"), "{errors}");
    Ok(())
}
