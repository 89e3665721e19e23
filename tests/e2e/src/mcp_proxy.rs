//! A running `mcpmon proxy` in front of MCP servers that are reached over HTTP, and real servers of this kind.

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

/// A proxy in front of MCP servers.
#[derive(Debug)]
pub struct McpProxy {
    /// The proxy's files.
    pub scene: Scene,
    process: Background,
}

impl McpProxy {
    /// Starts a proxy with this policy, which is YAML with a block `mcp:`, in front of these servers: objects with
    /// `id`, `url` and other settings.
    ///
    /// # Errors
    /// Returns an error if the proxy does not come up.
    pub fn start(policy: &str, servers: &[Value]) -> Result<Self> {
        let scene = Scene::new()?;
        let address = free_address()?;
        Self::listening(scene, address, &format!("listen: \"{address}\""), policy, servers)
    }

    /// Starts a proxy that others can reach too, if they have this token.
    ///
    /// # Errors
    /// Returns the errors of [`McpProxy::start`].
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

    /// Starts a proxy with the shipped policy `policies/observe.yaml`, in front of one server named `it`.
    ///
    /// # Errors
    /// Returns the errors of [`McpProxy::start`].
    pub fn observing(server: &Value) -> Result<Self> {
        Self::start(&shipped("observe.yaml")?, std::slice::from_ref(server))
    }

    /// Returns the proxy's URL for a server.
    #[must_use]
    pub fn url(&self, server: &str) -> String {
        format!("http://{}/mcp/{server}", self.process.address)
    }

    /// Returns the address at which the proxy listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.process.address
    }

    /// Returns the proxy's output.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the proxy's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Returns the text of a policy that is shipped.
///
/// # Errors
/// Returns an error if there is no policy with this name.
pub fn shipped(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../policies")
        .join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the declaration of a server named `it`.
#[must_use]
pub fn it(url: &str) -> Value {
    json!({"id": "it", "url": url})
}

/// Returns the declaration of a server named `it` that uses the older transport.
#[must_use]
pub fn it_by_sse(url: &str) -> Value {
    json!({"id": "it", "url": url, "type": "sse"})
}

/// The npm server `server-everything` over HTTP.
#[derive(Debug)]
pub struct Everything {
    process: Background,
    path: &'static str,
}

impl Everything {
    /// Starts the server with Streamable HTTP.
    ///
    /// # Errors
    /// Returns an error if the server does not come up.
    pub fn streamable(real: &Real, scene: &Scene) -> Result<Self> {
        Self::start(real, scene, "streamableHttp", "/mcp")
    }

    /// Starts the server with the older transport.
    ///
    /// # Errors
    /// Returns an error if the server does not come up.
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

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{}", self.process.address, self.path)
    }
}

/// A stdio server that `supergateway` offers over Streamable HTTP.
#[derive(Debug)]
pub struct Gateway(Background);

impl Gateway {
    /// Starts the gateway for this command.
    ///
    /// # Errors
    /// Returns an error if the gateway does not come up.
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

    /// Returns the gateway's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.0.address)
    }
}
