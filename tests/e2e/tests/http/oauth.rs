//! The official SDKs log in at a server behind mcpmon, with the authorisation server of the official SDK. Its tokens do
//! not appear in anything that mcpmon keeps.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    background::{Background, free_address},
    mcp_proxy::{McpProxy, it, shipped},
    program,
    real::{Real, Scene},
    wait,
    wrapped::Wrapped,
};
use serde_json::{Value, json};
use test_case::test_case;

/// The token of a proxy that others can reach too. It gives access to the proxy, and must not leave it.
const TOKEN: &str = "0123456789abcdef-of-the-path";
/// The longest time for a client on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A client of an official SDK that can log in.
#[derive(Clone, Copy, Debug)]
enum Sdk {
    Python,
    /// The second major version.
    Python2,
    TypeScript,
    /// The second major version.
    TypeScript2,
}

impl Sdk {
    /// Logs in and calls `whoami`. Returns the answer, and the token.
    fn log_in(self, real: &Real, url: &str) -> Result<(String, String)> {
        let (mut client, line) = match self {
            Self::Python => (Command::new(real.python("python")), None),
            Self::Python2 => (Command::new(real.python2("python")), None),
            Self::TypeScript => (Command::new("node"), Some("sdk")),
            Self::TypeScript2 => (Command::new("node"), Some("client")),
        };
        let script = if line.is_some() { "login.mjs" } else { "login.py" };
        client.arg(real.script(script)).args(line).arg(url);
        let scene = Scene::new()?;
        scene.prepare(&mut client);
        let output = assert_cmd::Command::from_std(client).timeout(TIMEOUT).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{self:?} does not get in at {url}: {errors}"
        );
        let told: Value = serde_json::from_slice(&output.stdout).context("the client tells JSON")?;
        let text = |field: &str| told[field].as_str().map(str::to_owned).context("a text");
        Ok((text("text")?, text("token")?))
    }
}

/// A server that requires a token, and the authorisation server that issues it.
struct Guarded {
    scene: Scene,
    process: Background,
}

impl Guarded {
    /// Starts both. `takes` says for which resources there are tokens: `any`, or the server's `own` URL.
    fn start(real: &Real, takes: &str) -> Result<Self> {
        let (scene, authority, server) = (Scene::new()?, free_address()?, free_address()?);
        let mut command = Command::new("node");
        command.arg(real.script("authority.mjs"));
        command.args([authority, server].map(|address| address.port().to_string()));
        command.arg(scene.file("heard")).arg(takes);
        let log = scene.file("authority.log");
        let process = Background::start(scene.prepare(&mut command), server, log)?;
        Ok(Self { scene, process })
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.process.address)
    }

    /// Returns the requests to the authorisation server.
    fn heard(&self) -> Result<String> {
        Ok(fs::read_to_string(self.scene.file("heard"))?)
    }
}

#[test_case(Sdk::Python; "python")]
#[test_case(Sdk::Python2; "python, the second line")]
#[test_case(Sdk::TypeScript; "typescript")]
#[test_case(Sdk::TypeScript2; "typescript, the second line")]
fn a_client_logs_in_through_the_proxy(sdk: Sdk) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = Guarded::start(&real, "any")?;
    let proxy = McpProxy::observing(&it(&server.url()))?;
    let told = sdk.log_in(&real, &proxy.url("it"));
    let (text, token) = told.with_context(|| proxy.log())?;
    // The resource is the URL by which the client knows the server.
    assert_eq!(text, format!("a token for {}", proxy.url("it")));
    nothing_is_kept(&proxy, &token)
}

#[test_case(Sdk::Python; "python")]
#[test_case(Sdk::Python2; "python, the second line")]
#[test_case(Sdk::TypeScript; "typescript")]
#[test_case(Sdk::TypeScript2; "typescript, the second line")]
fn nobody_hears_the_token_of_a_path(sdk: Sdk) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = Guarded::start(&real, "any")?;
    let proxy = McpProxy::for_others(TOKEN, &shipped("observe.yaml")?, &[it(&server.url())])?;
    let origin = format!("http://{}", proxy.address());
    let told = sdk.log_in(&real, &format!("{origin}/s/{TOKEN}/mcp/it"));
    let (text, token) = told.with_context(|| proxy.log())?;
    assert_eq!(text, format!("a token for {origin}/"));
    let heard = server.heard()?;
    assert!(
        heard.contains("/authorize?") && heard.contains("/token"),
        "{heard}"
    );
    assert!(!heard.contains(TOKEN), "{heard}");
    nothing_is_kept(&proxy, &token)?;
    assert!(!proxy.log().contains(TOKEN), "{}", proxy.log());
    Ok(())
}

/// Checks that the store and the log have the call, and nothing of the login.
fn nothing_is_kept(proxy: &McpProxy, token: &str) -> Result<()> {
    wait::until("the call's record", || {
        Ok((!proxy.scene.events("mcp_tool_called")?.is_empty()).then_some(()))
    })?;
    let files = files(proxy.scene.directory())?;
    assert!(files.contains(&proxy.scene.store()), "{files:?}");
    for file in files {
        let bytes = fs::read(&file)?;
        let is_there = bytes.windows(token.len()).any(|part| part == token.as_bytes());
        assert!(!is_there, "the token is in {}", file.display());
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => files.extend(self::files(&entry.path())?),
            false if entry.file_type()?.is_file() => files.push(entry.path()),
            false => {}
        }
    }
    Ok(files)
}

/// An authorisation server that knows the server only by its own URL issues no token for another one. A client that
/// starts a program knows no URL, so a token that was issued for the server works there.
#[test]
fn where_another_resource_is_refused_there_is_the_wrapper() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = Guarded::start(&real, "own")?;
    let proxy = McpProxy::observing(&it(&server.url()))?;
    for sdk in [Sdk::Python, Sdk::TypeScript] {
        let refused = sdk.log_in(&real, &proxy.url("it"));
        let told = format!("{:?}", refused.err().context("there is no token for the proxy")?);
        assert!(!told.contains("whoami"), "{told}");
    }
    assert!(server.heard()?.contains("/token"), "it was asked for one");

    let (_, token) = Sdk::TypeScript.log_in(&real, &server.url())?;
    let scene = Scene::new()?;
    let mut command = Command::new(program::path()?);
    command.args(["wrap", "--server", "it", "--url", &server.url()]);
    command.args(["--header-env", "Authorization=LOGIN", "--db"]);
    command.arg(scene.store()).env("LOGIN", format!("Bearer {token}"));
    let mut client = Wrapped::start(scene.prepare(&mut command))?;
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}});
    ask(
        &mut client,
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
    )?;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}});
    let answer = ask(&mut client, &call)?;
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(text, format!("a token for {}", server.url()), "{answer}");
    Ok(())
}

fn ask(client: &mut Wrapped, request: &Value) -> Result<Value> {
    client.send(&request.to_string())?;
    loop {
        let line = client.line()?;
        let message: Value = serde_json::from_str(&line).with_context(|| format!("no message: {line:?}"))?;
        if message["id"] == request["id"] {
            return Ok(message);
        }
    }
}
