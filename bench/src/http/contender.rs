//! The measured ways from a client to the server.

use std::env;

use anyhow::{Result, ensure};
use mcpmon_bench::{
    proxied::{self, Request, free},
    report,
    site::{Site, absolute},
};
use serde::Serialize;
use serde_json::Value;

use crate::{Options, question::Question};

/// The default policy with rates that no run reaches, so that calls are counted and none is refused.
const POLICY: &str = "rate_limits: {default_rpm: 1000000000, default_burst: 1000000000}";

/// A way from a client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// A direct connection.
    Direct,
    /// A reverse proxy that inspects nothing.
    Bare,
    /// mcpmon, with its default policy and its store.
    Mcpmon,
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

/// Starts all contenders, the floors first, and opens a session with each.
pub(crate) fn all(options: &Options, site: &Site) -> Result<Vec<Contender>> {
    let bench = env::current_exe()?;
    let server = free()?;
    let mut command = site.command(&bench);
    command.args(["upstream", &server.to_string()]);
    let direct = Contender::start(Way::Direct, server, "/mcp", command)?;

    let address = free()?;
    let mut command = site.command(&bench);
    command.args(["bare", &address.to_string(), &server.to_string()]);
    let bare = Contender::start(Way::Bare, address, "/mcp", command)?;

    let servers = format!("servers: [{{id: bench, url: \"http://{server}/mcp\"}}]");
    let policy = format!("version: 1\nmcp: {{{POLICY}, {servers}}}\n");
    let address = free()?;
    let mut command = site.command(&absolute(&options.mcpmon)?);
    command.args(["proxy", "--listen", &address.to_string(), "--socket", "no-daemon"]);
    command.arg("--config").arg(site.file("mcpmon.yaml", &policy)?);
    command.args(["--db", "store.db"]);
    let mcpmon = Contender::start(Way::Mcpmon, address, "/mcp/bench", command)?;

    let all = vec![direct, bare, mcpmon];
    all.iter().try_for_each(open)?;
    Ok(all)
}

/// Opens a session, and checks that answers come through unchanged, so that no refusals are measured.
fn open(contender: &Contender) -> Result<()> {
    for question in Question::OPENING.into_iter().chain([Question::Call]) {
        let body = proxied::ask(&request(contender, question))?;
        if question == Question::Initialized {
            continue;
        }
        let expected: Value = serde_json::from_str(&question.answer())?;
        ensure!(
            serde_json::from_slice::<Value>(&body)? == expected,
            "{:?} changes an answer: {}",
            contender.way,
            String::from_utf8_lossy(&body)
        );
    }
    Ok(())
}
