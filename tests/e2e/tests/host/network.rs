//! Connections: recorded, refused, in other forms of an address, by agents only, and from a server's process tree.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    client::Client,
    daemon::Daemon,
    host::Host,
    json::{number, text},
    network::{Attempt, Listener, connect},
    program,
    servers::PythonServer,
    wait,
};
use serde_json::Value;

/// Returns the connection events to this address, as `mcpmon connections` lists them.
fn to(daemon: &Daemon, listener: &Listener, filters: &[&str]) -> Result<Vec<Value>> {
    let mut listed = daemon
        .site
        .list(&[&["connections", "--limit", "10000"], filters].concat())?;
    listed.retain(|event| text(event, "remote_addr") == listener.target().to_string());
    Ok(listed)
}

/// Waits for the first connection event to this address.
fn first(daemon: &Daemon, listener: &Listener) -> Result<Value> {
    wait::until("a connection event", || {
        Ok(to(daemon, listener, &[])?.into_iter().next())
    })
}

#[test]
fn watched_and_refused() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let [watched, refused, mapped, unlisted] = [
        Listener::open()?,
        Listener::open()?,
        Listener::open()?,
        Listener::open()?,
    ];
    let policy = format!(
        r#"
version: 1
network:
  watch: [{{name: watched-e2e, cidrs: ["{}"], ports: [{}]}}]
  deny: [{{name: refused-e2e, cidrs: ["{}", "{}"]}}]
"#,
        watched.ip(),
        watched.target().port(),
        refused.ip(),
        mapped.ip()
    );
    let daemon = Daemon::start(&host, &policy)?;
    assert_eq!(connect(unlisted.target())?, Attempt::Connected);
    assert_eq!(connect(watched.target())?, Attempt::Connected);
    assert_eq!(connect(refused.target())?, Attempt::Refused);
    assert_eq!(connect(mapped.mapped())?, Attempt::Refused);

    let event = first(&daemon, &watched)?;
    assert_eq!(text(&event, "action"), "audit");
    assert_eq!(text(&event, "rule"), "watched-e2e");
    assert_eq!(text(&event, "direction"), "watch");
    assert_eq!(text(&event, "protocol"), "tcp");
    assert_eq!(number(&event, "pid"), u64::from(std::process::id()));
    let exe = std::env::current_exe()?;
    assert_eq!(text(&event, "exe"), exe.display().to_string());

    let event = first(&daemon, &refused)?;
    assert_eq!(text(&event, "action"), "block");
    assert_eq!(text(&event, "rule"), "refused-e2e");
    assert!(
        text(&event, "reason").contains("`refused-e2e` in network.deny"),
        "{event}"
    );
    assert_eq!(event.get("given_addr"), None);

    let event = first(&daemon, &mapped)?;
    assert_eq!(text(&event, "action"), "block");
    assert_eq!(text(&event, "given_addr"), mapped.mapped().to_string());

    assert_eq!(to(&daemon, &unlisted, &[])?, Vec::<Value>::new());
    assert_eq!(
        to(&daemon, &watched, &["--action", "block"])?,
        Vec::<Value>::new()
    );
    assert_eq!(to(&daemon, &refused, &["--action", "block"])?.len(), 1);
    Ok(())
}

/// Returns the command of a copy of bash under another name, which connects itself and through programs that it starts.
fn agent(directory: &Path, name: &str) -> Result<Command> {
    let path = directory.join(name);
    let bash = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|directory| directory.join("bash"))
        .find(|path| path.exists())
        .context("bash")?;
    program::copy(bash, &path)?;
    let mut command = Command::new(path);
    command.arg("-c").stderr(Stdio::null());
    Ok(command)
}

#[test]
fn refused_to_agents_only() -> Result<()> {
    let Some(host) = Host::take(&["bash"])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let name = format!("agent-{}", std::process::id());
    let policy = format!(
        r#"
version: 1
network:
  agents: ["{name}"]
  deny: [{{name: agents-e2e, cidrs: ["{}"], scope: agents}}]
"#,
        listener.ip()
    );
    let daemon = Daemon::start(&host, &policy)?;
    let line = listener.bash();
    let child = format!("bash -c '{line}'; exit $?");
    for (program, line, permitted) in [
        ("bystander", &line, true),
        ("bystander", &child, true),
        (&name, &line, false),
        (&name, &child, false),
    ] {
        let status = agent(&daemon.site.path(""), program)?.arg(line).status()?;
        assert_eq!(status.success(), permitted, "{program} {line}");
    }
    let refusals =
        || Ok(Some(to(&daemon, &listener, &["--action", "block"])?).filter(|list| list.len() == 2));
    let refusals = wait::until("two refusals", refusals)?;
    assert!(refusals.iter().all(|event| text(event, "rule") == "agents-e2e"));
    Ok(())
}

/// A changed list of agents applies to processes that start afterwards.
#[test]
fn agents_named_by_a_new_policy() -> Result<()> {
    let Some(host) = Host::take(&["bash"])? else {
        return Ok(());
    };
    let listener = Listener::open()?;
    let name = format!("late-{}", std::process::id());
    let policy = |agents: &str| {
        format!(
            "version: 1\nnetwork: {{agents: [{agents}], deny: [{{name: late-e2e, cidrs: [{}], scope: agents}}]}}\n",
            listener.ip()
        )
    };
    let daemon = Daemon::start(&host, &policy(""))?;
    let attempt = || -> Result<bool> {
        Ok(agent(&daemon.site.path(""), &name)?
            .arg(listener.bash())
            .status()?
            .success())
    };
    assert!(attempt()?);
    daemon.adopt(&policy(&name))?;
    assert!(!attempt()?);
    daemon.adopt(&policy("other"))?;
    assert!(attempt()?);
    Ok(())
}

#[test]
fn what_a_server_may_reach() -> Result<()> {
    let Some(host) = Host::take(&["python3"])? else {
        return Ok(());
    };
    let [allowed, other] = [Listener::open()?, Listener::open()?];
    let site = mcpmon_e2e::site::Site::new("version: 1\n")?;
    let server = PythonServer::write(&site.path("python"))?;
    site.write_policy(&format!(
        r#"
version: 1
mcp:
  servers:
    - id: {0}
      command: python3
      args: ["-m", "{0}"]
      egress: {{default: deny, allow: ["{1}"]}}
  version_pinning: {{on_change: alert}}
"#,
        server.module,
        allowed.target()
    ))?;
    let daemon = Daemon::start_at(&host, site)?;
    let mut client = Client::start(&mut server.python())?;
    client.initialize()?;
    assert_eq!(client.connect(allowed.target())?, "connected");
    assert_eq!(client.connect(other.target())?, "EPERM");
    assert_eq!(connect(other.target())?, Attempt::Connected, "others are free");

    let event = first(&daemon, &allowed)?;
    assert_eq!(text(&event, "action"), "allow");
    assert_eq!(text(&event, "direction"), "server_egress");
    assert_eq!(text(&event, "server_id"), server.module);
    let event = first(&daemon, &other)?;
    assert_eq!(text(&event, "action"), "block");
    assert_eq!(text(&event, "rule"), format!("{}.egress", server.module));
    assert!(text(&event, "reason").contains("egress.allow"), "{event}");
    assert_eq!(to(&daemon, &other, &["--server", &server.module])?.len(), 1);
    assert_eq!(
        to(&daemon, &other, &["--server", "another"])?,
        Vec::<Value>::new()
    );
    Ok(())
}

#[test]
fn connections_are_followed() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let [before, after] = [Listener::open()?, Listener::open()?];
    let policy = format!(
        "version: 1\nnetwork: {{watch: [{{name: follow-e2e, cidrs: [\"{}\", \"{}\"]}}]}}\n",
        before.ip(),
        after.ip()
    );
    let daemon = Daemon::start(&host, &policy)?;
    connect(before.target())?;
    first(&daemon, &before)?;
    let mut follower = Command::new(program::path()?)
        .args(["connections", "--follow", "--json", "--db"])
        .arg(daemon.site.store())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = follower.stdout.take().context("a pipe was asked for")?;
    let mut lines = BufReader::new(output).lines();
    let mut until = |listener: &Listener| -> Result<()> {
        loop {
            let line = lines.next().context("the listing ended")??;
            let event: Value = serde_json::from_str(&line)?;
            if text(&event, "remote_addr") == listener.target().to_string() {
                return Ok(());
            }
        }
    };
    let outcome = until(&before).and_then(|()| {
        connect(after.target())?;
        until(&after)
    });
    follower.kill()?;
    follower.wait()?;
    outcome
}
