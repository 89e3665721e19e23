//! Refused names in answers that only an agent's own look-up got, from a real DNS server in a separate network.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{daemon::Daemon, host::Host, json::text, program, site::Site, wait};
use serde_json::Value;

const WORKLOAD: &str = include_str!("../../fixtures/lookups.py");
const PROGRAMS: &[&str] = &["dnsmasq", "ip", "nsenter", "python3", "unshare"];
/// The number of look-ups that are followed by a connection at once.
const RACES: u8 = 20;

/// An agent in a separate network, with the DNS server of its choice.
struct Agent {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The number of a process in the agent's network.
    pid: String,
}

impl Agent {
    /// Starts an agent under this command name; `records` are options of dnsmasq.
    fn start(site: &Site, name: &str, records: &[String]) -> Result<Self> {
        let script = site.path("lookups.py");
        fs::write(&script, WORKLOAD)?;
        let bash = site.path(name);
        program::copy("/bin/bash", &bash)?;
        let mut process = Command::new(bash)
            // Without a further command, bash would replace itself by its last command.
            .args(["-c", r#""$@"; exit"#, "bash", "unshare", "--net", "python3"])
            .arg(script)
            .args(records)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().context("a pipe was asked for")?;
        let output = BufReader::new(process.stdout.take().context("a pipe was asked for")?);
        let mut agent = Self {
            process,
            input,
            output,
            pid: String::new(),
        };
        agent.pid = agent.line()?;
        Ok(agent)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "the agent has ended");
        Ok(line.trim().to_owned())
    }

    /// Lets the agent look up a name or connect.
    fn ask(&mut self, what: &str, argument: &str) -> Result<String> {
        writeln!(self.input, "{what} {argument}")?;
        self.line()
    }

    /// Waits until the agent is refused an address.
    fn refused(&mut self, address: &str) -> Result<()> {
        wait::until("a refusal", || {
            Ok((self.ask("connect", address)? == "EPERM").then_some(()))
        })
    }

    /// Lets another process in the agent's network connect, which is not an agent.
    fn bystander_connects(&self, address: &str) -> Result<bool> {
        let script = format!("import socket; socket.create_connection((\"{address}\", 443), 5)");
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.pid, "python3", "-c", &script]);
        Ok(command.stderr(Stdio::null()).status()?.success())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The agent's network, with the DNS server in it, ends with the agent's input.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn policy(agent: &str, hosts: &[&str]) -> String {
    let hosts = hosts.join(", ");
    format!(
        "version: 1\nnetwork: {{resolve_interval: 1h, agents: [{agent}], deny: [{{name: followed-e2e, hosts: [{hosts}]}}]}}\n"
    )
}

/// Returns the addresses of a name that `mcpmon status` lists as followed.
fn followed(daemon: &Daemon, name: &str) -> Result<Vec<Value>> {
    let status = daemon.status()?;
    Ok(status["network"]["followed"][name]
        .as_array()
        .cloned()
        .unwrap_or_default())
}

#[test]
fn a_refused_name_is_followed_to_what_another_resolver_says() -> Result<()> {
    let Some(host) = Host::take(PROGRAMS)? else {
        return Ok(());
    };
    let name = format!("dns-{}", std::process::id());
    let daemon = Daemon::start(
        &host,
        &policy(&name, &["evil.example", "www.example", "inner.example"]),
    )?;
    let records = [
        "--host-record=evil.example,198.51.100.7",
        "--host-record=cdn.example,198.51.100.8",
        "--cname=www.example,cdn.example",
        "--host-record=inner.example,127.0.0.9",
        "--host-record=inner.example,10.9.9.9",
        "--host-record=good.example,198.51.100.9",
    ];
    let mut agent = Agent::start(&daemon.site, &name, &records.map(str::to_owned))?;
    for address in ["198.51.100.7", "198.51.100.8", "198.51.100.9"] {
        assert_eq!(
            agent.ask("connect", address)?,
            "connected",
            "{address}, which nobody looked up"
        );
    }
    assert_eq!(agent.ask("lookup", "evil.example")?, "198.51.100.7");
    agent.refused("198.51.100.7")?;
    assert_eq!(agent.ask("lookup", "WWW.Example")?, "198.51.100.8");
    agent.refused("198.51.100.8")?;
    assert!(
        agent.bystander_connects("198.51.100.7")?,
        "answers concern agents only"
    );

    // Answers are ignored that would cut the agent off from its own host or network, and answers for other names.
    agent.ask("lookup", "inner.example")?;
    agent.ask("lookup", "good.example")?;
    agent.ask("lookup", "evil.example")?;
    for address in ["127.0.0.9", "10.9.9.9", "198.51.100.9"] {
        assert_eq!(agent.ask("connect", address)?, "connected", "{address}");
    }
    let told = followed(&daemon, "evil.example")?;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(text(&told[0], "address"), "198.51.100.7");
    assert_eq!(text(&told[0], "server"), "127.0.0.1");
    assert_eq!(followed(&daemon, "inner.example")?, Vec::<Value>::new());

    let event = daemon.event("the refusal", |event| {
        text(event, "action") == "block" && text(event, "remote_addr") == "198.51.100.7:443"
    })?;
    assert_eq!(text(&event, "rule"), "followed-e2e");
    assert_eq!(text(&event, "remote_name"), "evil.example");

    // The next daemon continues to refuse it, until a policy without the name is in force.
    let daemon = daemon.restart(&host)?;
    assert_eq!(agent.ask("connect", "198.51.100.7")?, "EPERM");
    assert_eq!(followed(&daemon, "evil.example")?.len(), 1);
    daemon.adopt(&policy(&name, &["www.example"]))?;
    assert_eq!(agent.ask("connect", "198.51.100.7")?, "connected");
    agent.refused("198.51.100.8")
}

/// The daemon receives an answer at the same time as the agent, so a connection that comes at once may succeed, and is
/// then cut.
#[test]
fn the_first_connections_after_an_answer() -> Result<()> {
    let Some(host) = Host::take(PROGRAMS)? else {
        return Ok(());
    };
    let name = format!("race-{}", std::process::id());
    let names: Vec<String> = (0..RACES).map(|number| format!("n{number}.example")).collect();
    let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
    let daemon = Daemon::start(&host, &policy(&name, &hosts))?;
    let record = |(number, name): (u8, &String)| format!("--host-record={name},198.51.100.{}", number + 1);
    let records: Vec<String> = (0..).zip(&names).map(record).collect();
    let mut agent = Agent::start(&daemon.site, &name, &records)?;
    let mut times = Vec::new();
    let mut at_once = 0;
    for name in &names {
        let told = agent.ask("race", name)?;
        let words: Vec<&str> = told.split(' ').collect();
        assert_eq!(words[1], "EPERM", "{name}: {told}");
        at_once += usize::from(words[0] == "EPERM");
        times.push(words[2].parse::<u64>()?);
    }
    times.sort_unstable();
    // Not by `println!`, whose output the test harness captures.
    writeln!(
        std::io::stderr().lock(),
        "{at_once} of {RACES} first connections refused; refused after a median of {} µs, at most {} µs",
        times[times.len() / 2],
        times[times.len() - 1]
    )?;
    Ok(())
}

#[test]
fn a_name_has_a_bounded_number_of_addresses() -> Result<()> {
    let Some(host) = Host::take(PROGRAMS)? else {
        return Ok(());
    };
    let name = format!("many-{}", std::process::id());
    let daemon = Daemon::start(&host, &policy(&name, &["many.example"]))?;
    let records: Vec<String> = (1..=100)
        .map(|number| format!("--host-record=many.example,198.51.100.{number}"))
        .collect();
    let mut agent = Agent::start(&daemon.site, &name, &records)?;
    let told = agent.ask("lookup", "many.example")?;
    assert_eq!(told.split(' ').count(), 100, "{told}");
    let event = daemon.event("the bound", |event| {
        text(event, "type") == "mcp_enforcement_degraded" && text(event, "component") == "DNS answers"
    })?;
    assert!(
        text(&event, "cause").contains("`many.example` has more addresses"),
        "{event}"
    );
    assert_eq!(followed(&daemon, "many.example")?.len(), 64);
    let outcomes: Vec<String> = (1..=100)
        .map(|number| agent.ask("connect", &format!("198.51.100.{number}")))
        .collect::<Result<_>>()?;
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "EPERM").count(), 64);
    Ok(())
}
