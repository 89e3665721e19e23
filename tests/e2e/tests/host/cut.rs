//! Open connections: they are cut when a new rule refuses them or a person stops their server, and their end is
//! reported.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{TcpStream, UdpSocket},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{number, text},
    network::Listener,
    servers::PythonServer,
    wait,
};
use serde_json::Value;

/// Returns a policy that looks only for servers of this run.
fn policy(more: &str) -> String {
    let own = std::process::id();
    format!(
        "version: 1\nmcp:\n  version_pinning: {{on_change: alert}}\n  detection: {{server_patterns: [\"mcp_server_e2e{own}x*\"]}}\n{more}"
    )
}

fn deny(listener: &Listener) -> String {
    policy(&format!(
        "network: {{deny: [{{name: cut-e2e, cidrs: [\"{}\"]}}]}}\n",
        listener.ip()
    ))
}

/// Opens a connection of this process that carried five bytes there and three back, and returns both ends.
fn used(listener: &Listener) -> Result<(TcpStream, TcpStream)> {
    let mut stream = TcpStream::connect(listener.target())?;
    stream.set_read_timeout(Some(wait::TIMEOUT))?;
    let mut other = listener.accept()?;
    stream.write_all(b"hello")?;
    other.read_exact(&mut [0; 5])?;
    other.write_all(b"bye")?;
    stream.read_exact(&mut [0; 3])?;
    Ok((stream, other))
}

fn error_of(stream: &mut TcpStream) -> Result<ErrorKind> {
    Ok(stream.read(&mut [0; 8]).err().context("it goes on")?.kind())
}

fn cut_from(daemon: &Daemon, listener: &Listener, protocol: &str) -> Result<Value> {
    daemon.event("the cut", |event| {
        text(event, "type") == "mcp_connection_cut"
            && text(event, "remote_addr") == listener.target().to_string()
            && text(event, "protocol") == protocol
    })
}

#[test]
fn an_address_that_becomes_denied_loses_its_connections() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let (denied, other) = (Listener::open()?, Listener::open()?);
    let daemon = Daemon::start(&host, &policy(""))?;
    let (mut stream, _end) = used(&denied)?;
    let (mut bystander, _end) = used(&other)?;
    let datagrams = UdpSocket::bind("127.0.0.1:0")?;
    datagrams.connect(denied.target())?;
    daemon.adopt(&deny(&denied))?;
    assert_eq!(error_of(&mut stream)?, ErrorKind::ConnectionAborted);

    let told = cut_from(&daemon, &denied, "tcp")?;
    assert_eq!(
        (text(&told, "action"), text(&told, "rule")),
        ("block", "cut-e2e"),
        "{told}"
    );
    assert_eq!(
        (number(&told, "bytes_sent"), number(&told, "bytes_received")),
        (5, 3),
        "{told}"
    );
    assert_eq!(number(&told, "pid"), u64::from(std::process::id()), "{told}");
    assert!(
        text(&told, "reason").contains("`cut-e2e` in network.deny"),
        "{told}"
    );
    let told = cut_from(&daemon, &denied, "udp")?;
    assert_eq!(told.get("bytes_sent"), None, "{told}");

    bystander.write_all(b"more")?;
    assert_eq!(text(&daemon.status()?, "state"), "enforcing");
    Ok(())
}

#[test]
fn nothing_is_cut_where_policy_only_observes() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let (observed, denied) = (Listener::open()?, Listener::open()?);
    let daemon = Daemon::start(&host, &policy("mode: observe\n"))?;
    let (mut stream, mut end) = used(&observed)?;
    daemon.adopt(&format!("{}mode: observe\n", deny(&observed)))?;
    // The daemon looks at the earlier connection before the later one, which is cut.
    let (mut later, _end) = used(&denied)?;
    daemon.adopt(&deny(&denied))?;
    assert_eq!(error_of(&mut later)?, ErrorKind::ConnectionAborted);
    stream.write_all(b"more")?;
    end.read_exact(&mut [0; 4])?;
    Ok(())
}

#[test]
fn servers_lose_their_connections_when_a_person_stops_them() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let daemon = Daemon::start(&host, &policy(""))?;
    let server = PythonServer::write(&daemon.site.path(""))?;
    let listener = Listener::open()?;
    let mut client = Client::start(&mut server.python())?;
    client.initialize()?;
    daemon.event_of("mcp_server_started", &server.id)?;
    assert_eq!(client.keep(listener.target())?, "connected");
    let _of_server = listener.accept()?;
    let (mut own, _end) = used(&listener)?;

    let said = daemon.site.ask(&["kill", "--all"])?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(client.kept("read")?, "ECONNABORTED");
    let told = cut_from(&daemon, &listener, "tcp")?;
    assert_eq!(
        (
            text(&told, "rule"),
            text(&told, "server_id"),
            number(&told, "bytes_sent")
        ),
        ("kill_switch", &*server.id, 5),
        "{told}"
    );
    own.write_all(b"more")?;
    Ok(())
}

/// The bytes of a socket are counted in the kernel, so that a later daemon can report its end.
#[test]
fn ends_of_connections_are_told_with_their_bytes() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let mut daemon = Daemon::start(&host, &policy(""))?;
    let server = PythonServer::write(&daemon.site.path(""))?;
    let mut client = Client::start(&mut server.python())?;
    client.initialize()?;
    daemon.event_of("mcp_server_started", &server.id)?;
    for restarts in [false, true] {
        let listener = Listener::open()?;
        assert_eq!(client.keep(listener.target())?, "connected");
        let mut end = listener.accept()?;
        end.write_all(b"bye")?;
        assert_eq!(client.kept("read")?, "bye");
        if restarts {
            daemon = daemon.restart(&host)?;
        }
        assert_eq!(client.kept("close")?, "closed");
        let is_of = |event: &Value, kind: &str| {
            text(event, "type") == kind && text(event, "remote_addr") == listener.target().to_string()
        };
        let closed = daemon.event("its end", |event| is_of(event, "mcp_connection_closed"))?;
        assert_eq!(text(&closed, "server_id"), server.id, "{closed}");
        let bytes = (number(&closed, "bytes_sent"), number(&closed, "bytes_received"));
        assert_eq!(bytes, (5, 3), "{closed}");
        let listed = daemon.site.list(&["connections", "--server", &server.id])?;
        let row = listed.iter().find(|row| is_of(row, "mcp_network_connection"));
        let row = row.context("a row")?;
        assert_eq!(row["socket"], closed["socket"], "{row}");
        assert_eq!(row["closed"]["bytes_sent"], 5, "{row}");
        assert_eq!(row["closed"]["duration_ms"], closed["duration_ms"], "{row}");
    }
    Ok(())
}
