//! A fleet's policy: a signed bundle from a web server, which stays in force on a host if the server fails.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    background::{Background, free_address},
    client::Client,
    daemon::Daemon,
    host::Host,
    json::text,
    program,
    servers::ToolServer,
    site::Site,
    wait,
};
use serde_json::Value;

/// The machine that signs bundles, and the directory of the web server.
struct Fleet {
    directory: tempfile::TempDir,
    address: SocketAddr,
    key: String,
}

impl Fleet {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        for name in ["www", "policy"] {
            fs::create_dir(path(name))?;
        }
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=policy"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", &path("tls.key"), "-out", &path("tls.pem")])
            .output()?;
        ensure!(made.status.success(), "{made:?}");
        let key = run(&["bundle", "keygen", &path("fleet.key")])?.trim().to_owned();
        run(&["bundle", "keygen", &path("other.key")])?;
        Ok(Self {
            directory,
            address: free_address()?,
            key,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the web server.
    fn serve(&self) -> Result<Background> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle_server.py");
        let mut command = Command::new("python3");
        command.arg("-u").arg(script).arg(self.address.port().to_string());
        command.arg(self.path("www"));
        command.args([self.path("tls.pem"), self.path("tls.key")]);
        Background::start(&mut command, self.address, self.path("server.log"))
    }

    /// Builds a bundle that hides a tool of this run's servers, signs and publishes it.
    fn publish(&self, serial: u64, hidden: &str, key: &str) -> Result<()> {
        let own = std::process::id();
        let policy = format!(
            "version: 1\nmcp:\n  version_pinning: {{on_change: alert}}\n  detection: {{server_patterns: [\"mcp-server-e2e{own}x*\", \"mcp_server_e2e{own}x*\"]}}\n  blocked_tools: [{hidden}]\n"
        );
        fs::write(self.path("policy/policy.yaml"), policy)?;
        let path = |name: &str| self.path(name).display().to_string();
        let serial = serial.to_string();
        run(&[
            "bundle",
            "build",
            &path("policy"),
            "-o",
            &path("a.tar"),
            "--serial",
            &serial,
        ])?;
        run(&[
            "bundle",
            "sign",
            &path("a.tar"),
            "--key",
            &path(key),
            "-o",
            &path("a.new"),
        ])?;
        fs::rename(self.path("a.new"), self.path("www/a.bundle"))?;
        Ok(())
    }

    /// Returns the policy file of a host of this fleet.
    fn host(&self) -> String {
        format!(
            "version: 1\npolicy:\n  bundle: {{url: 'https://{}/a.bundle', public_key: '{}', interval: 1s, ca_file: '{}'}}\n",
            self.address,
            self.key,
            self.path("tls.pem").display()
        )
    }
}

fn run(arguments: &[&str]) -> Result<String> {
    let run = program::run(arguments)?;
    ensure!(run.code == Some(0), "{arguments:?}: {run:?}");
    Ok(run.stdout)
}

fn bundle(daemon: &Daemon) -> Result<Value> {
    Ok(daemon.status()?["policy"]["bundle"].clone())
}

/// Waits until the bundle with this serial is in force, and its status shows no refusal.
fn in_force(daemon: &Daemon, serial: u64) -> Result<()> {
    let found = wait::until(&format!("bundle {serial}"), || {
        let bundle = bundle(daemon)?;
        Ok((bundle["serial"] == serial && bundle["refused"].is_null()).then_some(()))
    });
    found.with_context(|| daemon.log())
}

/// Waits until a bundle is refused for this reason, with `serial` still in force.
fn refused(daemon: &Daemon, because: &str, serial: u64) -> Result<()> {
    daemon.event(because, |event| {
        text(event, "type") == "policy_rejected" && event.to_string().contains(because)
    })?;
    let status = daemon.status()?;
    ensure!(status["policy"]["bundle"]["serial"] == serial, "{status}");
    let told = status["degraded"]["policy bundle"].to_string();
    ensure!(told.contains(because), "{status}");
    Ok(())
}

#[test]
fn a_bundle_is_rolled_out_and_no_server_takes_it_back() -> Result<()> {
    let Some(host) = Host::take(&["python3", "openssl"])? else {
        return Ok(());
    };
    let fleet = Fleet::new()?;
    let web = fleet.serve()?;
    fleet.publish(7, "first", "fleet.key")?;
    let daemon = Daemon::start(&host, &fleet.host())?;
    in_force(&daemon, 7)?;
    let loaded = daemon.event("the bundle", |event| event["bundle_serial"] == 7)?;
    assert_eq!(text(&loaded, "type"), "policy_loaded");
    let published = fs::read(fleet.path("www/a.bundle"))?;
    let verified = run(&[
        "bundle",
        "verify",
        &fleet.path("www/a.bundle").display().to_string(),
        "--key",
        &fleet.key,
    ])?;
    assert!(verified.contains(text(&loaded, "bundle_digest")), "{verified}");
    wait::until("an answer that nothing changed", || {
        Ok(web.log().contains("\" 304 ").then_some(()))
    })?;

    // Running wrappers adopt a bundle that is rolled out.
    let server = ToolServer::write(&daemon.site.path(""))?;
    server.offer(&[("first", "One."), ("second", "Two.")])?;
    let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
    client.initialize()?;
    assert_eq!(client.tools()?, ["second"]);
    fleet.publish(8, "second", "fleet.key")?;
    in_force(&daemon, 8)?;
    wait::until("the new policy at the wrapper", || {
        Ok((client.tools()? == ["first"]).then_some(()))
    })?;

    // Bundles with another key, a changed byte or an older serial are refused, and the bundle in force stays.
    fleet.publish(9, "first", "other.key")?;
    refused(&daemon, "signed with another key", 8)?;
    let mut changed = published.clone();
    changed[600] ^= 1;
    fs::write(fleet.path("www/a.bundle"), changed)?;
    refused(&daemon, "the signature does not fit", 8)?;
    fs::write(fleet.path("www/a.bundle"), &published)?;
    refused(&daemon, "an older bundle is never taken again", 8)?;
    assert_eq!(client.tools()?, ["first"]);
    drop(client);

    // Without the web server a daemon starts with the last good bundle, and reports that it cannot reach the server.
    drop(web);
    let daemon = daemon.restart(&host)?;
    assert_eq!(bundle(&daemon)?["serial"], 8);
    let mut client = Client::start(&mut daemon.site.wrap(program::path()?, server.words()))?;
    client.initialize()?;
    assert_eq!(client.tools()?, ["first"]);
    drop(client);
    wait::until("word of the silent server", || {
        let told = daemon.status()?["degraded"]["policy bundle"].to_string();
        Ok(told.contains("was not heard since").then_some(()))
    })?;

    // The serial outlives the restart.
    let _web = fleet.serve()?;
    wait::until("the older one refused again", || {
        let bundle = bundle(&daemon)?;
        Ok(bundle["refused"]
            .to_string()
            .contains("never taken again")
            .then_some(()))
    })?;
    fleet.publish(10, "first", "fleet.key")?;
    in_force(&daemon, 10)?;
    let status = daemon.status()?;
    assert!(status["degraded"]["policy bundle"].is_null(), "{status}");
    Ok(())
}

#[test]
fn without_a_bundle_the_file_of_the_host_holds_and_says_so() -> Result<()> {
    let Some(host) = Host::take(&["python3", "openssl"])? else {
        return Ok(());
    };
    let fleet = Fleet::new()?;
    let site = Site::new(&(fleet.host() + "mcp: {blocked_tools: [of_the_host]}\n"))?;
    let daemon = Daemon::start_at(&host, site)?;
    let told = daemon.event("that there is none", |event| {
        text(event, "component") == "policy bundle"
    })?;
    assert!(text(&told, "cause").contains("no bundle is in force"), "{told}");
    assert!(bundle(&daemon)?["serial"].is_null());
    let _web = fleet.serve()?;
    fleet.publish(7, "first", "fleet.key")?;
    in_force(&daemon, 7)?;
    let sources = daemon.status()?["policy"]["sources"].to_string();
    assert!(
        sources.contains("bundle 7/policy.yaml") && sources.contains("mcpmon.yaml"),
        "{sources}"
    );
    Ok(())
}
