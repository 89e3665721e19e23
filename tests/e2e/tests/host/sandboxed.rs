//! Servers in sandboxes, with a daemon: it reports sandboxes that wrappers made, and connections that the proxy of
//! npm's sandbox-runtime makes for a server count as the server's.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{number, text},
    program,
    real::Real,
    servers::{self, ToolServer},
    wait,
};
use serde_json::{Value, json};

/// The code of a server that asks the proxy of its sandbox for a connection, and then reads its input until it ends.
const SERVER: &str = r#"
import base64, os, socket, sys, urllib.parse
proxy = urllib.parse.urlparse(os.environ["HTTP_PROXY"])
user = [urllib.parse.unquote(part or "") for part in (proxy.username, proxy.password)]
token = base64.b64encode(":".join(user).encode()).decode()
connection = socket.create_connection((proxy.hostname, proxy.port), 10)
to = sys.argv[1]
connection.sendall(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nProxy-Authorization: Basic {token}\r\n\r\n".encode())
connection.recv(300)
sys.stdin.read()
"#;

/// A server in the sandbox of `srt`, and the port that it connects to.
struct Sandboxed {
    name: String,
    words: Vec<String>,
    port: u16,
    _listener: TcpListener,
}

impl Sandboxed {
    fn new(daemon: &Daemon, real: &Real) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let name = servers::name();
        let (script, settings) = (
            daemon.site.path(&format!("{name}.py")),
            daemon.site.path("srt.json"),
        );
        fs::write(&script, SERVER)?;
        let rules = json!({
            "network": {"allowedDomains": ["localhost"], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowRead": [], "allowWrite": [], "denyWrite": []},
        });
        fs::write(&settings, rules.to_string())?;
        let text = |path: PathBuf| path.display().to_string();
        let words = vec![
            text(real.npm("srt")),
            "--settings".to_owned(),
            text(settings),
            "--".to_owned(),
            "python3".to_owned(),
            text(script),
            format!("localhost:{port}"),
        ];
        Ok(Self {
            name,
            words,
            port,
            _listener: listener,
        })
    }

    /// Returns the connection that the proxy made.
    fn connection(&self, daemon: &Daemon) -> Result<Value> {
        let remote = format!("127.0.0.1:{}", self.port);
        daemon.event("the proxy's connection", |event| {
            text(event, "type") == "mcp_network_connection" && text(event, "remote_addr") == remote
        })
    }
}

/// A client that keeps its server's input open. It is killed at the end.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Running {
    /// Waits for the client's end; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

/// Returns a policy with these servers.
fn policy(servers: &str) -> String {
    let own = std::process::id();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: alert}}\n  detection: {{server_patterns: \
         [\"mcp-server-e2e{own}x*\"]}}\n  servers: [{servers}]\n"
    )
}

#[test]
fn a_proxy_outside_of_the_sandbox_connects_for_the_server_behind_it() -> Result<()> {
    let Some(host) = Host::take(&["python3", "node", "bwrap", "socat"])? else {
        return Ok(());
    };
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(""))?;
    for is_wrapped in [true, false] {
        let server = Sandboxed::new(&daemon, &real)?;
        let mut command = match is_wrapped {
            true => daemon.site.wrap(program::path()?, server.words.clone()),
            false => {
                let mut command = Command::new(&server.words[0]);
                command.args(&server.words[1..]);
                command
            }
        };
        let running = Running::start(&mut command)?;
        let connection = server.connection(&daemon)?;
        assert_eq!(text(&connection, "server_id"), server.name, "{connection}");
        assert_eq!(text(&connection, "direction"), "server_egress", "{connection}");
        let started = daemon.event_of("mcp_server_started", &server.name)?;
        assert_eq!(started["wrapped"], is_wrapped, "{started}");
        let serving = number(&started, "pid");
        assert_ne!(
            number(&connection, "pid"),
            serving,
            "the proxy is another process: {connection}"
        );
        let files = fs::read_to_string(format!("/proc/{serving}/cmdline")).context("it runs")?;
        assert!(files.contains(&server.name), "{files:?} {started}");
        drop(running);
    }
    Ok(())
}

#[test]
fn the_list_of_a_server_holds_for_the_proxy_of_its_sandbox() -> Result<()> {
    let Some(host) = Host::take(&["python3", "node", "bwrap", "socat"])? else {
        return Ok(());
    };
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(""))?;
    for (list, action) in [
        ("default: allow, deny: ['127.0.0.1:PORT']", "block"),
        // The connections to the proxy are on loopback, as the address is that the test connects to.
        ("default: deny, allow: [127.0.0.0/8, '::1']", "allow"),
    ] {
        let server = Sandboxed::new(&daemon, &real)?;
        let name = &server.name;
        let list = list.replace("PORT", &server.port.to_string());
        daemon.adopt(&policy(&format!(
            "{{id: {name}, command: {name}, egress: {{{list}}}}}"
        )))?;
        let _running = Running::start(Command::new(&server.words[0]).args(&server.words[1..]))?;
        let connection = server.connection(&daemon)?;
        assert_eq!(text(&connection, "server_id"), *name, "{connection}");
        assert_eq!(text(&connection, "action"), action, "{connection}");
        if action == "block" {
            assert_eq!(
                text(&connection, "rule"),
                format!("{name}.egress"),
                "{connection}"
            );
        }
    }
    Ok(())
}

#[test]
fn status_and_doctor_tell_of_the_sandbox_of_a_running_server() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(""))?;
    let server = ToolServer::write(&daemon.site.path(""))?;
    let name = &server.name;
    daemon.adopt(&policy(&format!(
        "{{id: {name}, command: {name}, sandbox: {{default: home-readonly, read: [/nonexistent]}}}}"
    )))?;
    let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
    client.initialize()?;
    let gap = "`/nonexistent` is not granted: there is no such file";
    let sandbox = wait::until("the sandbox of the server", || {
        let status = daemon.status()?;
        let servers = status["servers"].as_array().context("servers")?;
        let found = servers.iter().find(|server| text(server, "server_id") == name);
        Ok(found
            .map(|server| server["sandbox"].clone())
            .filter(Value::is_object))
    })?;
    assert_eq!(text(&sandbox, "mode"), "home-readonly", "{sandbox}");
    assert_eq!(sandbox["enforced"], true, "{sandbox}");
    assert_eq!(sandbox["gaps"], json!([gap]), "{sandbox}");
    let shown = daemon.site.ask(&["status"])?.stdout;
    assert!(shown.contains("sandbox home-readonly *"), "{shown}");
    assert!(shown.contains(gap), "{shown}");
    let findings = daemon.site.ask(&["doctor", "--json"])?.objects()?;
    let running = findings
        .iter()
        .find(|finding| text(finding, "subject") == "running sandbox");
    let running = running.context("a finding about it")?;
    assert_eq!(text(running, "verdict"), "degraded", "{running}");
    assert!(text(running, "detail").contains(gap), "{running}");
    let listed = daemon.site.list(&["servers"])?;
    let listed = listed.iter().find(|server| text(server, "server_id") == name);
    assert_eq!(listed.context("the server")?["sandbox"], sandbox);
    Ok(())
}
