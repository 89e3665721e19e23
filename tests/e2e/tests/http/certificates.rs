//! A server with a pinned certificate gets requests only where it presents that certificate.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    background::{Background, free_address},
    mcp_proxy::McpProxy,
    raw::{Message, exchange, post},
    real::{Real, Scene},
};
use serde_json::json;

/// A server with a self-signed certificate.
struct Tls {
    process: Background,
    scene: Scene,
}

impl Tls {
    fn start(real: &Real) -> Result<Self> {
        let (scene, address) = (Scene::new()?, free_address()?);
        let mut command = Command::new(real.python2("python"));
        command.arg(real.script("tls.py")).arg(address.port().to_string());
        command.arg(scene.file("heard"));
        let log = scene.file("tls.log");
        let process = Background::start(scene.prepare(&mut command), address, log)?;
        Ok(Self { process, scene })
    }

    /// Returns the digest of the certificate, and the requests that the server received.
    fn heard(&self) -> Result<(String, Vec<String>)> {
        let text = fs::read_to_string(self.scene.file("heard"))?;
        let mut lines = text.lines().map(str::to_owned);
        Ok((lines.next().context("a digest")?, lines.collect()))
    }

    /// Returns the answer to a client that lists its tools through mcpmon, with this certificate pinned.
    fn listed(&self, pinned: Option<&str>) -> Result<(Message, McpProxy)> {
        let mut server = json!({"id": "it", "url": format!("https://{}/mcp", self.process.address)});
        if let Some(pinned) = pinned {
            server["tls_fingerprint"] = json!(format!("sha256:{pinned}"));
        }
        let proxy = McpProxy::start("version: 1\nmcp:\n  server_policy: none\n", &[server])?;
        let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}});
        let request = post(proxy.address(), "/mcp/it", &[], &list.to_string());
        Ok((exchange(proxy.address(), &request)?, proxy))
    }
}

#[test]
fn only_the_pinned_certificate_is_asked() -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let server = Tls::start(&real)?;
    let (shown, _) = server.heard()?;
    let (listed, _) = server.listed(Some(&shown))?;
    assert_eq!(listed.status(), "200", "{}", listed.text());
    let heard = server.heard()?.1.len();

    let other = "0123456789abcdef".repeat(4);
    let (refused, proxy) = server.listed(Some(&other))?;
    assert_eq!(refused.status(), "502", "{}", refused.text());
    let told = refused.text();
    assert!(
        told.contains(&shown) && told.contains(&other),
        "both are shown: {told}"
    );
    // One event for the client's connection, and one for the proxy's own if it had asked by then.
    assert!(!proxy.scene.events("mcp_tls_mismatch")?.is_empty());

    let (refused, _) = server.listed(None)?;
    assert_eq!(
        refused.status(),
        "502",
        "nobody vouches for it: {}",
        refused.text()
    );
    assert_eq!(server.heard()?.1.len(), heard, "nothing was said to it");
    Ok(())
}
