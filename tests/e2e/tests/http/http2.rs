//! A server that supports only HTTP/2 gets requests in HTTP/2, and its answers are unchanged.

use std::{fs, process::Command};

use anyhow::{Context as _, Result};
use mcpmon_conformant_server::{Answers, ConformantServer};
use mcpmon_e2e::{
    background::{Background, free_address},
    mcp_proxy::McpProxy,
    notes_server::Certificate,
    real::{Real, Scene},
};
use serde_json::{Value, json};
use test_case::test_case;

use crate::sdks::{ANY, Sdk, same};

/// An HTTP/2 terminator with TLS in front of a server.
struct Front {
    scene: Scene,
    process: Background,
    certificate: Certificate,
}

impl Front {
    fn start(real: &Real, server: &str) -> Result<Self> {
        let (scene, address) = (Scene::new()?, free_address()?);
        let certificate = Certificate::make(scene.directory())?;
        let mut command = Command::new("node");
        command.arg(real.script("http2.mjs"));
        command.arg(address.port().to_string()).arg(server);
        command.args([&certificate.certificate, &certificate.key]);
        command.arg(scene.file("heard"));
        let log = scene.file("front.log");
        let process = Background::start(scene.prepare(&mut command), address, log)?;
        Ok(Self {
            scene,
            process,
            certificate,
        })
    }

    fn declared(&self) -> Value {
        json!({
            "id": "it",
            "url": format!("https://{}/mcp", self.process.address),
            "tls_fingerprint": self.certificate.fingerprint,
        })
    }
}

fn steps() -> Value {
    json!([
        ["lists"],
        ["call", "test_simple_text", {}],
        ["call", "text", {"letters": 300_000}],
        ["progress", "test_tool_with_progress", {}],
        ["call", "test_elicitation", {"message": "Who are you?"}],
        ["cancel", "slow", {}, "cancelled"],
        ["change", "test_trigger_tool_change"],
    ])
}

#[test_case(Sdk::TypeScript; "a session")]
#[test_case(Sdk::TypeScriptStateless; "the stateless era")]
fn a_server_of_http2_is_the_same(sdk: Sdk) -> Result<()> {
    let Some(real) = Real::find()? else {
        return Ok(());
    };
    let [first, second] = [(); 2].map(|()| ConformantServer::start(ANY, Answers::Events));
    let (alone, behind) = (first?, second?);
    let front = Front::start(&real, &behind.url())?;
    let proxy = McpProxy::observing(&front.declared())?;
    let expected = sdk.drive(&real, "http", &alone.url(), &steps())?;
    let seen = sdk.drive(&real, "http", &proxy.url("it"), &steps());
    let seen = seen.with_context(|| proxy.log())?;
    same(&expected, &seen, &proxy.log());
    let heard = fs::read_to_string(front.scene.file("heard"))?;
    assert!(
        heard.lines().count() > 7 && heard.lines().all(|line| line.starts_with("2.0 ")),
        "{heard}"
    );
    Ok(())
}
