//! A running `mcpmon proxy` between real SDKs and a model that follows a script; it is ended at the latest with its
//! test.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::{
    background::{Background, free_address},
    program,
    real::{Real, Scene},
};

/// A proxy, and the model behind it.
#[derive(Debug)]
pub struct Proxy {
    /// The proxy's files.
    pub scene: Scene,
    /// The model.
    pub model: FakeLlm,
    process: Background,
}

/// An official SDK of a model provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSdk {
    /// From PyPI.
    Python,
    /// From npm.
    TypeScript,
}

impl Proxy {
    /// Starts a proxy with this policy, which is YAML without `proxy` and `version`.
    ///
    /// # Errors
    /// Returns an error if the proxy does not come up.
    pub fn start(script: &Value, policy: &str) -> Result<Self> {
        let script: Script = serde_json::from_value(script.clone()).context("no script")?;
        let model = FakeLlm::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)?;
        let scene = Scene::new()?;
        let address = free_address()?;
        let providers: Value = ["anthropic", "openai", "gemini", "ollama"]
            .map(|provider| (provider, format!("http://{}", model.address())))
            .into_iter()
            .map(|(provider, url)| (provider.to_owned(), json!(url)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let configuration =
            format!("version: 1\nproxy: {{listen: \"{address}\", providers: {providers}}}\n{policy}");
        let configuration = scene.configuration(&configuration)?;
        let mut command = Command::new(program::path()?);
        command
            .args(["proxy", "--config", &configuration, "--db"])
            .arg(scene.store());
        let process = Background::start(scene.prepare(&mut command), address, scene.file("proxy.log"))?;
        Ok(Self {
            scene,
            model,
            process,
        })
    }

    /// Returns the proxy's output.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the URL at which the proxy listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.process.address)
    }

    /// Returns the model's answer as an SDK reads it, with these members added to its request.
    ///
    /// # Errors
    ///
    /// Returns an error if the SDK fails.
    pub fn ask(
        &self,
        real: &Real,
        sdk: ModelSdk,
        dialect: &str,
        how: &str,
        request: &Value,
    ) -> Result<Value> {
        let mut driver = match sdk {
            ModelSdk::Python => {
                let mut driver = Command::new(real.python_llm("python"));
                driver.arg(real.script("llm.py"));
                driver
            }
            ModelSdk::TypeScript => {
                let mut driver = Command::new("node");
                driver.arg(real.script("llm.mjs"));
                driver
            }
        };
        driver.args([dialect, &self.url(), how, &request.to_string()]);
        let output = self.scene.prepare(&mut driver).stdin(Stdio::null()).output()?;
        ensure!(
            output.status.success(),
            "{sdk:?} does not accept {dialect} {how}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.log()
        );
        serde_json::from_slice(&output.stdout).context("the SDK tells what it saw as JSON")
    }
}
