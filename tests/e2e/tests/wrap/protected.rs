//! Protected files, recognised by their names and by the targets of links.

use std::{fs, os::unix::fs::symlink};

use anyhow::Result;
use mcpmon_e2e::wrapped::{Home, Wrapped};

fn call(path: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"write_file","arguments":{{"path":"{path}","content":"x"}}}}}}"#
    )
}

/// Returns the client's answer to a request to write a file; the server repeats what reaches it.
fn answer(home: &Home, path: &str) -> Result<String> {
    let mut command = home.wrap(&["--server", "files"], &["cat"])?;
    command
        .env("HOME", home.path("me"))
        .current_dir(home.path("work"));
    let mut wrapped = Wrapped::start(&mut command)?;
    wrapped.send(&call(path))?;
    let line = wrapped.line()?;
    wrapped.finish()?;
    Ok(line)
}

#[test]
fn links_to_protected_files_are_seen_through() -> Result<()> {
    let home = Home::new()?;
    fs::create_dir(home.path("me"))?;
    fs::create_dir(home.path("work"))?;
    symlink("../me/.bashrc", home.path("work/notes.md"))?;
    symlink(home.path("me"), home.path("work/deep"))?;
    for path in ["notes.md", "./deep/.profile", "deep/.config/fish/config.fish"] {
        let answer = answer(&home, path)?;
        assert!(answer.contains("rule protected_file"), "{path}: {answer}");
        assert!(answer.contains("~/."), "{path}: {answer}");
    }
    for path in ["plain.md", "deep/notes.md"] {
        assert_eq!(answer(&home, path)?, call(path));
    }
    Ok(())
}

#[test]
fn mcpmons_own_files_are_protected_wherever_they_are() -> Result<()> {
    let home = Home::new()?;
    fs::create_dir(home.path("work"))?;
    home.configure("version: 1\nmcp: {config_guard: {extra_paths: ['**/prod/*.tf']}}\n")?;
    let own = [
        home.path("store.db"),
        home.path("store.db-wal"),
        home.path("config/mcpmon/mcpmon.yaml"),
        mcpmon_e2e::program::path()?.clone(),
    ];
    for path in own {
        let path = path.display().to_string();
        let answer = answer(&home, &path)?;
        assert!(answer.contains("(mcpmon-config)"), "{path}: {answer}");
    }
    let answer = answer(&home, "prod/main.tf")?;
    assert!(answer.contains("(extra_paths)"), "{answer}");
    Ok(())
}
