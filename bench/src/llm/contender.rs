//! The measured ways from a client to the provider.

use std::{env, net::SocketAddr};

use anyhow::{Result, ensure};
use mcpmon_bench::{
    proxied::{self, Request, free},
    report,
    site::{Site, absolute},
};
use serde::Serialize;

use crate::{Options, question::Question};

/// The default policy with rates that no run reaches, so that calls are counted and none is refused.
const MCPMON_POLICY: &str = "mcp: {rate_limits: {default_rpm: 1000000000, default_burst: 1000000000}}\n";
/// A way from a client to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// A direct connection.
    Direct,
    /// A reverse proxy that inspects nothing.
    Bare,
    /// mcpmon, with its default policy and its store.
    Mcpmon,
    /// mitmproxy.
    Mitmproxy,
    /// LiteLLM.
    Litellm,
}

impl report::Way for Way {
    const DIRECT: Self = Self::Direct;
    const MCPMON: Self = Self::Mcpmon;
}

/// A way, and the address at which it begins.
pub(crate) type Contender = proxied::Contender<Way>;

/// Builds the request for a question at the beginning of a way.
pub(crate) fn request(contender: &Contender, question: Question) -> Request {
    let address = contender.address;
    Request {
        address,
        bytes: question.request(&address.to_string(), contender.path),
    }
}

/// Starts all contenders that are available, the floors first.
pub(crate) fn all(options: &Options, site: &Site) -> Result<Vec<Contender>> {
    let bench = env::current_exe()?;
    let mut command = site.command(&bench);
    let provider = free()?;
    command.args(["upstream", &provider.to_string()]);
    let direct = Contender::start(Way::Direct, provider, "/v1/messages", command)?;
    let mut all = vec![direct];
    let mut add = |way, address, path, command| {
        let contender = Contender::start(way, address, path, command)?;
        check(&contender)?;
        all.push(contender);
        anyhow::Ok(())
    };

    let address = free()?;
    let mut command = site.command(&bench);
    command.args(["bare", &address.to_string(), &provider.to_string()]);
    add(Way::Bare, address, "/v1/messages", command)?;

    let policy =
        format!("version: 1\n{MCPMON_POLICY}proxy: {{providers: {{anthropic: \"http://{provider}\"}}}}\n");
    let address = free()?;
    let mut command = site.command(&absolute(&options.mcpmon)?);
    command.args(["proxy", "--listen", &address.to_string(), "--socket", "no-daemon"]);
    command.arg("--config").arg(site.file("mcpmon.yaml", &policy)?);
    command.args(["--db", "store.db"]);
    add(Way::Mcpmon, address, "/v1/messages", command)?;

    let peers = [
        (Way::Mitmproxy, mitmproxy(options, site, provider)),
        (Way::Litellm, litellm(options, site, provider)),
    ];
    for (way, peer) in peers {
        match peer {
            Ok(peer) => all.extend(peer),
            Err(error) => eprintln!("{way:?} is not measured: {error:#}"),
        }
    }
    Ok(all)
}

fn mitmproxy(options: &Options, site: &Site, provider: SocketAddr) -> Result<Option<Contender>> {
    let Some(mitmdump) = &options.mitmproxy else {
        return Ok(None);
    };
    let address = free()?;
    let mut command = site.command(&absolute(mitmdump)?);
    command.args(["--quiet", "--listen-host", "127.0.0.1"]);
    command.args(["--listen-port", &address.port().to_string()]);
    command.args(["--mode", &format!("reverse:http://{provider}")]);
    let peer = Contender::start(Way::Mitmproxy, address, "/v1/messages", command)?;
    check(&peer)?;
    Ok(Some(peer))
}

fn litellm(options: &Options, site: &Site, provider: SocketAddr) -> Result<Option<Contender>> {
    let Some(litellm) = &options.litellm else {
        return Ok(None);
    };
    let address = free()?;
    let mut command = site.command(&absolute(litellm)?);
    command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
    command
        .arg("--config")
        .arg(site.file("litellm.yaml", "model_list: []\n")?);
    command.env("ANTHROPIC_API_BASE", format!("http://{provider}"));
    command.env("ANTHROPIC_API_KEY", "of-a-benchmark");
    // It does not start without a master key otherwise, and waits for a price list from the network.
    command.env("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true");
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "true");
    let peer = Contender::start(Way::Litellm, address, "/anthropic/v1/messages", command)?;
    check(&peer)?;
    Ok(Some(peer))
}

/// Checks that whole answers come through unchanged, so that no refusals are measured.
fn check(contender: &Contender) -> Result<()> {
    for question in [Question::Text, Question::Call] {
        let body = proxied::ask(&request(contender, question))?;
        ensure!(
            body == question.answer().as_bytes(),
            "{:?} changes an answer: {}",
            contender.way,
            String::from_utf8_lossy(&body)
        );
    }
    Ok(())
}
