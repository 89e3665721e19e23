//! One server has one id, behind its wrapper and in the kernel's records; and the client of a server that the daemon
//! refuses is answered, because the wrapper is no process of the server.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    daemon::Daemon,
    host::Host,
    json::{number, text},
    program,
    servers::{self, NpmServer, change},
    wrapped::Wrapped,
};
use serde_json::Value;
use test_case::test_case;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

/// Returns a policy under which the names of servers match a pattern, so that the kernel side recognises them by itself.
fn policy(mcp: &str) -> String {
    let own = std::process::id();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: block}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\"]}}\n{mcp}"
    )
}

/// The command that starts a server.
#[derive(Clone, Copy, Debug)]
enum Command {
    /// A script that is executed by its path.
    Script,
    /// The interpreter with the script as its argument.
    Interpreter,
    /// `npx` with the package.
    Npx,
    /// The command of the package in `node_modules/.bin`.
    Bin,
    /// `node` with a file of the package.
    Node,
}

/// A server of a test, with the file that is changed and the id that is derived from the command.
struct Server {
    words: Vec<OsString>,
    directory: PathBuf,
    file: PathBuf,
    derived: String,
    _npm: Option<NpmServer>,
}

impl Server {
    fn make(command: Command, directory: &Path) -> Result<Self> {
        if let Command::Script | Command::Interpreter = command {
            let file = servers::python_script(directory)?;
            let derived = file.file_name().context("a name")?.to_string_lossy().into_owned();
            let mut words = vec![file.clone().into_os_string()];
            if let Command::Interpreter = command {
                words.insert(0, "python3".into());
            }
            return Ok(Self {
                words,
                directory: directory.to_owned(),
                file,
                derived,
                _npm: None,
            });
        }
        let npm = NpmServer::install()?;
        let bin = npm.project.join("node_modules/.bin").join(&npm.name);
        let words: Vec<OsString> = match command {
            Command::Npx => vec!["npx".into(), "--no-install".into(), npm.name.clone().into()],
            Command::Bin => vec![bin.into()],
            Command::Script | Command::Interpreter | Command::Node => {
                vec!["node".into(), npm.script().into()]
            }
        };
        Ok(Self {
            words,
            directory: npm.project.clone(),
            file: npm.script(),
            derived: npm.name.clone(),
            _npm: Some(npm),
        })
    }

    /// Starts the server behind a wrapper with these options.
    fn start(&self, daemon: &Daemon, options: &[&str]) -> Result<Wrapped> {
        let mut wrap = daemon.site.wrap_with(program::path()?, options, &self.words);
        Wrapped::start(wrap.current_dir(&self.directory))
    }
}

/// Asserts that the client of a refused server gets the reason for every request, and the user on standard error.
fn assert_answered(refused: &mut Wrapped, server: &str, rule: &str) -> Result<()> {
    for (id, request) in [(1, INITIALIZE), (2, LIST)] {
        refused.send(request)?;
        let line = refused.line()?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("an answer: {line:?}"))?;
        assert_eq!(number(&answer, "id"), id, "{answer}");
        let message = text(&answer["error"], "message");
        assert!(message.contains(server), "{answer}");
        assert!(message.contains(&format!("(rule {rule}, event ")), "{answer}");
    }
    let (code, rest, errors) = refused.finish()?;
    assert_eq!((code, rest.as_str()), (1, ""), "{errors}");
    assert!(errors.contains(rule) && errors.contains(server), "{errors}");
    Ok(())
}

#[test_case(Command::Script, &[]; "a script")]
#[test_case(Command::Script, &["--server", "notes"]; "a script with an id")]
#[test_case(Command::Interpreter, &["--server=notes"]; "an interpreter with an id")]
#[test_case(Command::Npx, &["--server", "notes"]; "npx with an id")]
#[test_case(Command::Bin, &[]; "a command of a package")]
#[test_case(Command::Node, &["--server", "notes"]; "a file of a package with an id")]
fn a_changed_server_is_refused_under_its_id_and_its_client_is_answered(
    command: Command,
    options: &[&str],
) -> Result<()> {
    let Some(host) = Host::take(&["python3", "node", "npx"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(""))?;
    let server = Server::make(command, &daemon.site.path(""))?;
    let id = if options.is_empty() {
        server.derived.as_str()
    } else {
        "notes"
    };

    let mut first = server.start(&daemon, options)?;
    first.send(INITIALIZE)?;
    let line = first.line()?;
    assert!(line.contains("serverInfo"), "{line}");
    let started = daemon.start_of(id, 1)?;
    assert_eq!(text(&started, "layer"), "kernel", "{started}");
    assert_eq!(text(&started, "pin"), "pinned", "{started}");
    assert_eq!(started["wrapped"], true, "{started}");
    let (code, _, errors) = first.finish()?;
    assert_eq!(code, 0, "{errors}");

    change(&server.file)?;
    let mut refused = server.start(&daemon, options)?;
    assert_answered(&mut refused, id, "mcp.version_pinning")?;
    daemon.event_of("mcp_server_denied", id)?;
    // Another name for the same files is no first use.
    let mut renamed = server.start(&daemon, &["--server", "renamed"])?;
    assert_answered(&mut renamed, "renamed", "mcp.version_pinning")?;
    let run = daemon.site.ask(&["pins", "trust", "--server", id])?;
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut trusted = server.start(&daemon, options)?;
    trusted.send(INITIALIZE)?;
    let line = trusted.line()?;
    assert!(line.contains("serverInfo"), "{line}");
    Ok(())
}

/// A list that denies a server by the name of its program also holds under another id, and the client is answered.
#[test]
fn a_server_that_the_policy_denies_is_answered() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let own = std::process::id();
    let denies =
        format!("  server_policy: denylist\n  denied_servers: [{{id: \"mcp-server-e2e{own}x*\"}}]\n");
    let daemon = Daemon::start(&host, &policy(&denies))?;
    let server = Server::make(Command::Script, &daemon.site.path(""))?;
    let mut refused = server.start(&daemon, &[])?;
    assert_answered(&mut refused, &server.derived, "mcp.server_policy")?;
    let mut renamed = server.start(&daemon, &["--server", "notes"])?;
    assert_answered(&mut renamed, "notes", "mcp.server_policy")
}

/// A name that a client gives permits nothing: a list permits the program, or a declared server by its command.
#[test]
fn an_allowed_name_before_another_program_permits_nothing() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let site = mcpmon_e2e::site::Site::new("version: 1\n")?;
    let declared = Server::make(Command::Interpreter, &site.path("declared"))?;
    let other = Server::make(Command::Interpreter, &site.path("other"))?;
    let script = declared.file.display();
    site.write_policy(&policy(&format!(
        "  server_policy: allowlist\n  allowed_servers: [{{id: notes}}]\n  servers: [{{id: notes, command: python3, args: [\"{script}\"]}}]\n"
    )))?;
    let daemon = Daemon::start_at(&host, site)?;
    for options in [&[][..], &["--server", "notes"], &["--server", "renamed"]] {
        let mut allowed = declared.start(&daemon, options)?;
        allowed.send(INITIALIZE)?;
        let line = allowed.line()?;
        assert!(line.contains("serverInfo"), "{options:?}: {line}");
        let (code, _, errors) = allowed.finish()?;
        assert_eq!(code, 0, "{errors}");
    }
    let mut refused = other.start(&daemon, &["--server", "notes"])?;
    assert_answered(&mut refused, "notes", "mcp.server_policy")
}
