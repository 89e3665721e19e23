//! What is measured: ways from a client to the far side.

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

use crate::{Options, strict};

/// The default policy with a rate that no run reaches: calls are counted, and none is refused.
const MCPMON_POLICY: &str =
    "version: 1\nmcp: {rate_limits: {default_rpm: 1000000000, default_burst: 1000000000}}\n";
/// Policies under which the others let everything through, as mcpmon's lets this through.
const KVLAR_POLICY: &str = "name: bench\ndescription: lets everything through\nversion: \"1.0\"\nrules:\n  - id: allow-all\n    description: everything\n    match_on: {}\n    effect:\n      type: allow\n";
const ASSAY_POLICY: &str = "version: \"1.0\"\nname: bench\ntools:\n  allow: [\"report\"]\n";

/// A way from a client to the far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// Nothing between them.
    Direct,
    /// One thread that polls.
    Relay,
    /// A thread for each direction.
    Threads,
    /// mcpmon, with its default policy and its store.
    Mcpmon,
    /// mcpmon, with its strict policy and its store.
    Strict,
    /// kvlar, which looks at calls.
    Kvlar,
    /// Assay, which looks at calls.
    Assay,
}

impl report::Way for Way {
    const DIRECT: Self = Self::Direct;
    const MCPMON: Self = Self::Mcpmon;
}

/// A way, and how it is taken.
#[derive(Debug)]
pub(crate) struct Contender<'s> {
    pub(crate) way: Way,
    command: Vec<String>,
    site: &'s Site,
}

impl<'s> Contender<'s> {
    /// All that can be had, the floors first.
    pub(crate) fn all(options: &Options, site: &'s Site) -> Result<Vec<Self>> {
        let bench = env::current_exe()?.display().to_string();
        let shown = |path: &Path| path.display().to_string();
        let text = |path: &PathBuf| absolute(path).map(|path| shown(&path));
        let policy = shown(&site.file("mcpmon.yaml", MCPMON_POLICY)?);
        let server = [bench.clone(), "echo".to_owned()];
        let strict = strict::wrapper(&text(&options.mcpmon)?, site, &server)?;
        let mut ways = vec![
            (Way::Direct, Vec::new()),
            (
                Way::Relay,
                vec![bench.clone(), "relay".to_owned(), "--".to_owned()],
            ),
            (
                Way::Threads,
                vec![bench.clone(), "threads".to_owned(), "--".to_owned()],
            ),
            (
                Way::Mcpmon,
                words(&[
                    &text(&options.mcpmon)?,
                    "wrap",
                    "--server",
                    "bench",
                    "--socket",
                    "no-daemon",
                    "--config",
                    &policy,
                    "--db",
                    "store.db",
                    "--",
                ]),
            ),
            (Way::Strict, strict),
        ];
        if let Some(kvlar) = &options.kvlar {
            let policy = shown(&site.file("kvlar.yaml", KVLAR_POLICY)?);
            let command = [&text(kvlar)?, "proxy", "--stdio", "--policy", &policy, "--"];
            ways.push((Way::Kvlar, words(&command)));
        }
        if let Some(assay) = &options.assay {
            let policy = shown(&site.file("assay.yaml", ASSAY_POLICY)?);
            let command = [&text(assay)?, "mcp", "wrap", "--policy", &policy, "--"];
            ways.push((Way::Assay, words(&command)));
        }
        let contender = |(way, before): (Way, Vec<String>)| Self {
            way,
            command: before.into_iter().chain(server.clone()).collect(),
            site,
        };
        Ok(ways.into_iter().map(contender).collect())
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = self.site.command(Path::new(&self.command[0]));
        command.args(&self.command[1..]);
        command
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
