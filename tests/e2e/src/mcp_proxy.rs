//! A running `mcpmon proxy` before MCP servers that are reached over HTTP, and real such servers.

use std::{
    fs, io::Write as _, net::SocketAddr, os::unix::fs::OpenOptionsExt as _, path::Path, process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    background::{Background, free_address},
    program,
    real::{Real, Scene},
};

/// A proxy before MCP servers.
#[derive(Debug)]
pub struct McpProxy {
    /// Its files.
    pub scene: Scene,
    process: Background,
}

impl McpProxy {
    /// One with this policy, YAML that has a block `mcp:`, before these servers: `id`, `url` and what else is declared.
    ///
    /// # Errors
    /// Returns an error if it does not come up.
    pub fn start(policy: &str, servers: &[Value]) -> Result<Self> {
        let scene = Scene::new()?;
        let address = free_address()?;
        Self::listening(scene, address, &format!("listen: \"{address}\""), policy, servers)
    }

    /// One that others reach too, who have this token.
    ///
    /// # Errors
    /// As [`McpProxy::start`].
    pub fn for_others(token: &str, policy: &str, servers: &[Value]) -> Result<Self> {
        let scene = Scene::new()?;
        let address = free_address()?;
        let file = scene.file("token");
        let mut options = fs::OpenOptions::new();
        let mut written = options.write(true).create_new(true).mode(0o600).open(&file)?;
        writeln!(written, "{token}")?;
        let port = address.port();
        let settings = format!("listen: \"0.0.0.0:{port}\", token_file: {}", file.display());
        Self::listening(scene, address, &settings, policy, servers)
    }

    fn listening(
        scene: Scene,
        address: SocketAddr,
        settings: &str,
        policy: &str,
        servers: &[Value],
    ) -> Result<Self> {
        let declared = format!("\nmcp:\n  servers: {}\n", json!(servers));
        ensure!(
            policy.contains("\nmcp:\n"),
            "a policy has a block `mcp:`: {policy}"
        );
        let policy = policy.replacen("\nmcp:\n", &declared, 1);
        let configuration = scene.configuration(&format!("{policy}proxy: {{{settings}}}\n"))?;
        let mut command = Command::new(program::path()?);
        command
            .args(["proxy", "--config", &configuration, "--db"])
            .arg(scene.store())
            .env("RUST_LOG", "info,mcpmon=trace");
        let process = Background::start(scene.prepare(&mut command), address, scene.file("proxy.log"))?;
        Ok(Self { scene, process })
    }

    /// One that observes as `policies/observe.yaml` says, before one server named `it`.
    ///
    /// # Errors
    /// As [`McpProxy::start`].
    pub fn observing(server: &Value) -> Result<Self> {
        Self::start(&shipped("observe.yaml")?, std::slice::from_ref(server))
    }

    /// Returns the URL of a server behind it.
    #[must_use]
    pub fn url(&self, server: &str) -> String {
        format!("http://{}/mcp/{server}", self.process.address)
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.process.address
    }

    /// Returns its output.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// A policy that is shipped.
///
/// # Errors
/// Returns an error if there is none of that name.
pub fn shipped(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../policies")
        .join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// A server named `it`, as it is declared.
#[must_use]
pub fn it(url: &str) -> Value {
    json!({"id": "it", "url": url})
}

/// A server named `it` of the older transport.
#[must_use]
pub fn it_by_sse(url: &str) -> Value {
    json!({"id": "it", "url": url, "type": "sse"})
}

/// `server-everything` over HTTP.
#[derive(Debug)]
pub struct Everything {
    process: Background,
    path: &'static str,
}

impl Everything {
    /// Streamable HTTP.
    ///
    /// # Errors
    /// Returns an error if it does not come up.
    pub fn streamable(real: &Real, scene: &Scene) -> Result<Self> {
        Self::start(real, scene, "streamableHttp", "/mcp")
    }

    /// The older transport.
    ///
    /// # Errors
    /// Returns an error if it does not come up.
    pub fn sse(real: &Real, scene: &Scene) -> Result<Self> {
        Self::start(real, scene, "sse", "/sse")
    }

    fn start(real: &Real, scene: &Scene, transport: &str, path: &'static str) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(real.npm("mcp-server-everything"));
        command.arg(transport).env("PORT", address.port().to_string());
        let log = scene.file("everything.log");
        let process = Background::start(scene.prepare(&mut command), address, log)?;
        Ok(Self { process, path })
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{}", self.process.address, self.path)
    }
}

/// A server of pipes behind Streamable HTTP, by `supergateway`.
#[derive(Debug)]
pub struct Gateway(Background);

impl Gateway {
    /// Before this command.
    ///
    /// # Errors
    /// Returns an error if it does not come up.
    pub fn start(real: &Real, scene: &Scene, command: &[String]) -> Result<Self> {
        let address = free_address()?;
        let words = command
            .iter()
            .map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        let line = words.collect::<Vec<_>>().join(" ");
        let mut gateway = Command::new(real.npm("supergateway"));
        gateway.args(["--outputTransport", "streamableHttp", "--stateful", "--port"]);
        gateway.arg(address.port().to_string()).args(["--stdio", &line]);
        let log = scene.file("gateway.log");
        Ok(Self(Background::start(
            scene.prepare(&mut gateway),
            address,
            log,
        )?))
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.0.address)
    }
}
