//! The measured ways from a client to the far side.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use mcpmon_bench::{
    report,
    site::{Site, absolute},
};
use serde::Serialize;

use crate::{Options, daemon::Daemon, strict};

/// The default policy with a rate and a burst that no run reaches: calls are counted, and none is refused or reported,
/// although they come as fast as possible here. The daemon's proxy is disabled, because the port may be in use by
/// another daemon.
pub(crate) const MCPMON_POLICY: &str = "version: 1\nproxy: {mode: disabled}\nmcp: {rate_limits: {default_rpm: 1000000000, default_burst: 1000000000}, cross_server: {burst: {max_calls: 1000000000}}}\n";
/// A socket path on which no daemon listens.
pub(crate) const NO_DAEMON: &str = "no-daemon";
/// Policies under which the other programs allow everything, as mcpmon's policy does here.
const KVLAR_POLICY: &str = "name: bench\ndescription: lets everything through\nversion: \"1.0\"\nrules:\n  - id: allow-all\n    description: everything\n    match_on: {}\n    effect:\n      type: allow\n";
const ASSAY_POLICY: &str = "version: \"1.0\"\nname: bench\ntools:\n  allow: [\"report\"]\n";

/// A way from a client to the far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// A direct connection.
    Direct,
    /// One thread that polls.
    Relay,
    /// A thread for each direction.
    Threads,
    /// mcpmon, with its default policy and its store.
    Mcpmon,
    /// mcpmon, with its strict policy and its store.
    Strict,
    /// mcpmon, beside another server of the session: calls are counted in the store.
    Beside,
    /// mcpmon, beside another server of the session: calls are counted in the daemon.
    BesideDaemon,
    /// kvlar, which inspects calls.
    Kvlar,
    /// Assay, which inspects calls.
    Assay,
}

impl report::Way for Way {
    const DIRECT: Self = Self::Direct;
    const MCPMON: Self = Self::Mcpmon;
}

/// A way, and the command that starts it.
#[derive(Debug)]
pub(crate) struct Contender<'s> {
    pub(crate) way: Way,
    command: Vec<String>,
    /// The command of another server of the session, through mcpmon too.
    beside: Option<Vec<String>>,
    site: &'s Site,
}

impl<'s> Contender<'s> {
    /// Returns all contenders that are available, the floors first.
    pub(crate) fn all(options: &Options, daemon: Option<&Daemon>, site: &'s Site) -> Result<Vec<Self>> {
        let bench = env::current_exe()?.display().to_string();
        let shown = |path: &Path| path.display().to_string();
        let text = |path: &PathBuf| absolute(path).map(|path| shown(&path));
        let mcpmon = text(&options.mcpmon)?;
        let policy = site.file("mcpmon.yaml", MCPMON_POLICY)?;
        let server = [bench.clone(), "echo".to_owned()];
        let strict = strict::wrapper(&mcpmon, site, &server)?;
        let wrapper = Wrapper {
            mcpmon: &mcpmon,
            policy: &policy,
            store: "store.db",
        };
        let mut ways = vec![
            (Way::Direct, Vec::new(), None),
            (Way::Relay, words(&[&bench, "relay", "--"]), None),
            (Way::Threads, words(&[&bench, "threads", "--"]), None),
            (Way::Mcpmon, wrapper.before("bench", NO_DAEMON), None),
            (Way::Strict, strict, None),
            (
                Way::Beside,
                wrapper.before("bench", NO_DAEMON),
                Some(wrapper.before("other", NO_DAEMON)),
            ),
        ];
        if let Some(daemon) = daemon {
            let socket = shown(daemon.socket());
            let other = Some(wrapper.before("other", &socket));
            ways.push((Way::BesideDaemon, wrapper.before("bench", &socket), other));
        }
        if let Some(kvlar) = &options.kvlar {
            let policy = shown(&site.file("kvlar.yaml", KVLAR_POLICY)?);
            let command = [&text(kvlar)?, "proxy", "--stdio", "--policy", &policy, "--"];
            ways.push((Way::Kvlar, words(&command), None));
        }
        if let Some(assay) = &options.assay {
            let policy = shown(&site.file("assay.yaml", ASSAY_POLICY)?);
            let command = [&text(assay)?, "mcp", "wrap", "--policy", &policy, "--"];
            ways.push((Way::Assay, words(&command), None));
        }
        let before = |before: Vec<String>| [before, server.to_vec()].concat();
        let contender = |(way, command, beside): (Way, _, Option<_>)| Self {
            way,
            command: before(command),
            beside: beside.map(before),
            site,
        };
        Ok(ways.into_iter().map(contender).collect())
    }

    /// Returns the command that starts the server.
    pub(crate) fn command(&self) -> Command {
        self.starting(&self.command)
    }

    /// Returns the command that starts the other server of the session.
    pub(crate) fn beside(&self) -> Option<Command> {
        self.beside.as_ref().map(|words| self.starting(words))
    }

    fn starting(&self, words: &[String]) -> Command {
        let mut command = self.site.command(Path::new(&words[0]));
        command.args(&words[1..]);
        command
    }
}

/// A measured wrapper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrapper<'w> {
    pub(crate) mcpmon: &'w str,
    pub(crate) policy: &'w Path,
    pub(crate) store: &'w str,
}

impl Wrapper<'_> {
    /// Returns the words in front of the server's command. A daemon may listen at `socket`.
    pub(crate) fn before(&self, server: &str, socket: &str) -> Vec<String> {
        let policy = self.policy.display().to_string();
        words(&[
            self.mcpmon,
            "wrap",
            "--server",
            server,
            "--socket",
            socket,
            "--config",
            &policy,
            "--db",
            self.store,
            "--",
        ])
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
