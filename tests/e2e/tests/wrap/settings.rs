//! `mcpmon setup --hooks` and `--llm` on a home of clients: the hooks are started as clients would, and the files are
//! restored.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpListener,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{program, wrapped::Home};
use serde_json::Value;
use test_case::test_case;

fn setup_command(home: &Home, options: &[&str]) -> Result<Command> {
    let mut command = Command::new(program::path()?);
    command
        .arg("setup")
        .args(options)
        .env("HOME", home.path("home"))
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .env("PATH", home.path("bin"))
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("CODEX_HOME")
        .env_remove("MCPMON_CONFIG")
        .current_dir(home.path("home"));
    Ok(command)
}

/// Runs `mcpmon setup`, and returns exit status, standard output and standard error.
fn setup(home: &Home, options: &[&str]) -> Result<(i32, String, String)> {
    let output = setup_command(home, options)?.output()?;
    Ok((
        output.status.code().context("a status")?,
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

/// Makes a home with the directories of these clients.
fn home_of(directories: &[&str]) -> Result<Home> {
    let home = Home::new()?;
    for directory in directories {
        fs::create_dir_all(home.path("home").join(directory))?;
    }
    Ok(home)
}

fn json(home: &Home, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(
        home.path("home").join(path),
    )?)?)
}

/// Starts a hook as clients do: as a shell command that gets the call on standard input.
fn hook(home: &Home, command: &str, input: &str) -> Result<Output> {
    // Root's own store is that of the daemon.
    let command = format!("{command} --db {}", home.path("store.db").display());
    let mut hook = Command::new("/bin/sh")
        .args(["-c", &command])
        .env("HOME", home.path("home"))
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .env_remove("MCPMON_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    hook.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
    Ok(hook.wait_with_output()?)
}

#[test_case("claude-code", ".claude/settings.json", "{\n  // no JSON\n}", "{\n\t\"model\": \"opus\"\n}\n", "PreToolUse", "Write"; "claude code")]
#[test_case("codex", ".codex/hooks.json", "{", r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}}"#, "PreToolUse", "Write"; "codex")]
#[test_case("gemini-cli", ".gemini/settings.json", "{/*", "{\r\n  // mine\r\n  \"hooks\": {},\r\n}", "BeforeTool", "write_file"; "gemini")]
fn a_hook_that_setup_put_there_stops_a_call_and_goes_again(
    client: &str,
    path: &str,
    unreadable: &str,
    before: &str,
    event: &str,
    tool: &str,
) -> Result<()> {
    let directory = path.split('/').next().context("a directory")?;
    let home = home_of(&[directory])?;
    let file = home.path("home").join(path);
    fs::write(&file, unreadable)?;
    let options = ["--client", client, "--hooks", "--enforce"];
    let (code, _, errors) = setup(&home, &options)?;
    assert_eq!(code, 2, "{errors}");
    assert_eq!(fs::read_to_string(&file)?, unreadable);

    fs::write(&file, before)?;
    let (code, preview, errors) = setup(&home, &[&options[..], &["--dry-run"]].concat())?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(fs::read_to_string(&file)?, before);
    let (code, difference, errors) = setup(&home, &options)?;
    assert_eq!((code, &difference), (0, &preview), "{errors}");
    assert!(
        difference.contains(&format!("@@ hooks.{event} @@")),
        "{difference}"
    );
    let text = fs::read_to_string(&file)?;
    let line = text
        .lines()
        .find(|line| line.contains("mcpmon hook"))
        .context("a hook")?;
    let command = line.split("\"command\": ").nth(1).context("a command")?;
    let command: String = serde_json::Deserializer::from_str(command)
        .into_iter()
        .next()
        .context("a text")??;

    let input = format!(
        r#"{{"session_id":"s","hook_event_name":"{event}","tool_name":"{tool}","tool_input":{{"file_path":"/home/me/.bashrc","content":"x"}}}}"#
    );
    let answer = hook(&home, &command, &input)?;
    assert_eq!(answer.status.code(), Some(2), "{answer:?}");

    let (code, again, errors) = setup(&home, &options)?;
    assert_eq!((code, again.as_str()), (0, ""), "{errors}");
    assert_eq!(fs::read_to_string(&file)?, text);
    let (code, _, errors) = setup(&home, &["--disable", "--hooks"])?;
    assert_eq!(code, 0, "{errors}");
    assert!(errors.contains("byte for byte"), "{errors}");
    assert_eq!(fs::read_to_string(&file)?, before);
    Ok(())
}

#[test]
fn hooks_of_cursor_ask_for_each_event_and_a_made_file_goes_again() -> Result<()> {
    let home = home_of(&[".cursor"])?;
    let (code, _, errors) = setup(&home, &["--hooks"])?;
    assert_eq!(code, 0, "{errors}");
    assert!(errors.contains("Cursor: its version cannot be told"), "{errors}");
    let hooks = json(&home, ".cursor/hooks.json")?;
    assert_eq!(hooks["version"], 1);
    for event in ["beforeShellExecution", "beforeReadFile", "preToolUse"] {
        let command = hooks["hooks"][event][0]["command"]
            .as_str()
            .context("a command")?;
        assert!(command.ends_with("mcpmon hook cursor"), "{command}");
    }
    assert!(
        !home.path("home/.claude").exists(),
        "a client that is not there got a file"
    );
    let (code, difference, errors) = setup(&home, &["--disable"])?;
    assert_eq!(code, 0, "{errors}");
    assert!(difference.contains("+++ /dev/null"), "{difference}");
    assert!(!home.path("home/.cursor/hooks.json").exists());
    Ok(())
}

#[test]
fn servers_and_hooks_in_one_file_are_confirmed_and_undone_together() -> Result<()> {
    let home = home_of(&[".gemini", ".claude"])?;
    let file = home.path("home/.gemini/settings.json");
    let before = "{\n  \"mcpServers\": {\n    \"cat\": {\"command\": \"cat\"}\n  }\n}\n";
    fs::write(&file, before)?;
    let terminal = nix::pty::openpty(None, None)?;
    let mut person = File::from(terminal.master);
    let mut child = setup_command(&home, &["--hooks", "--client", "gemini-cli"])?
        .stdin(Stdio::from(terminal.slave.try_clone()?))
        .stdout(Stdio::from(terminal.slave.try_clone()?))
        .stderr(Stdio::from(terminal.slave))
        .spawn()?;
    person.write_all(b"y\n")?;
    let (mut shown, mut part) = (Vec::new(), [0; 4096]);
    // Reading from a terminal that is closed returns an error.
    while let Ok(length @ 1..) = person.read(&mut part) {
        shown.extend_from_slice(&part[..length]);
    }
    let shown = String::from_utf8(shown)?;
    ensure!(child.wait()?.success(), "{shown}");
    assert!(
        shown.contains("Change 1 file of a client and the policy? [y/N]"),
        "{shown}"
    );
    let settings = json(&home, ".gemini/settings.json")?;
    assert_eq!(settings["mcpServers"]["cat"]["args"][0], "wrap", "{settings}");
    assert_eq!(settings["hooks"]["BeforeTool"][0]["matcher"], ".*", "{settings}");
    let (code, _, errors) = setup(&home, &["--disable"])?;
    assert_eq!(code, 0, "{errors}");
    assert_eq!(fs::read_to_string(&file)?, before);
    Ok(())
}

#[test]
fn an_old_version_and_clients_without_hooks_are_named() -> Result<()> {
    let home = home_of(&[".codex", ".config/zed", "package/bin"])?;
    fs::write(
        home.path("home/package/package.json"),
        r#"{"name": "@openai/codex", "version": "0.100.0"}"#,
    )?;
    fs::write(home.path("home/package/bin/codex.js"), "")?;
    fs::create_dir(home.path("bin"))?;
    std::os::unix::fs::symlink(home.path("home/package/bin/codex.js"), home.path("bin/codex"))?;
    fs::create_dir_all(home.path("config/zed"))?;
    fs::write(home.path("config/zed/settings.json"), "{}")?;
    let (code, _, errors) = setup(&home, &["--hooks", "--dry-run"])?;
    assert_eq!(code, 0, "{errors}");
    assert!(
        errors.contains("Codex 0.100.0 has no such hooks") && errors.contains("from 0.124.0 on"),
        "{errors}"
    );
    assert!(errors.contains("no hooks that mcpmon knows: Zed"), "{errors}");
    Ok(())
}

#[test]
fn models_are_led_to_the_proxy_and_back() -> Result<()> {
    let home = home_of(&[".claude", ".codex", ".gemini", ".cursor"])?;
    fs::create_dir_all(home.path("config/opencode"))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let listen = listener.local_addr()?;
    home.configure(&format!("version: 1\nproxy: {{listen: \"{listen}\"}}\n"))?;
    let files = [
        (".claude/settings.json", "{\"env\": {\"A\": \"1\"}}", "/anthropic"),
        (
            ".codex/config.toml",
            "# c\r\nmodel = \"m\"\r\n[features]\r\nx = true\r\n",
            "/openai/v1",
        ),
        (".gemini/.env", "GEMINI_API_KEY=k", "/gemini"),
        ("../config/opencode/opencode.jsonc", "{ // c\n}", "/anthropic/v1"),
    ];
    for (path, text, _) in files {
        fs::write(home.path("home").join(path), text)?;
    }
    let (code, _, errors) = setup(&home, &["--llm"])?;
    assert_eq!(code, 0, "{errors}");
    assert!(
        errors.contains("Cursor: its models are not led to the proxy: "),
        "{errors}"
    );
    assert!(!errors.contains("nothing listens"), "{errors}");
    for (path, before, route) in files {
        let text = fs::read_to_string(home.path("home").join(path))?;
        assert!(
            text.contains(&format!("http://{listen}{route}")),
            "{path}: {text}"
        );
        assert_ne!(text, before);
    }
    let codex = fs::read_to_string(home.path("home/.codex/config.toml"))?;
    assert!(codex.starts_with("openai_base_url = "), "{codex}");

    // Another address of the proxy, at which nothing listens.
    drop(listener);
    home.configure("version: 1\nproxy: {listen: \"127.0.0.1:9\"}\n")?;
    let (code, _, errors) = setup(&home, &["--llm"])?;
    assert_eq!(code, 0, "{errors}");
    assert!(errors.contains("nothing listens at 127.0.0.1:9"), "{errors}");
    assert!(fs::read_to_string(home.path("home/.gemini/.env"))?.ends_with("=http://127.0.0.1:9/gemini\n"));

    let (code, _, errors) = setup(&home, &["--disable", "--llm"])?;
    assert_eq!(code, 0, "{errors}");
    for (path, before, _) in files {
        assert_eq!(
            fs::read_to_string(home.path("home").join(path))?,
            before,
            "{path}"
        );
    }
    Ok(())
}

#[test_case("proxy: {token_file: /nonexistent/token}", "token"; "a token")]
#[test_case("proxy: {mode: disabled}", "disabled"; "no proxy")]
fn a_proxy_that_clients_cannot_use_is_a_usage_error(proxy: &str, reason: &str) -> Result<()> {
    let home = home_of(&[".claude"])?;
    home.configure(&format!("version: 1\n{proxy}\n"))?;
    let (code, _, errors) = setup(&home, &["--llm"])?;
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains(reason), "{errors}");
    assert!(!home.path("home/.claude/settings.json").exists());
    Ok(())
}
