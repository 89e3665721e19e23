//! What is measured: ways from a client to the far side.

use std::{
    env, fs,
    path::{self, Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::Options;

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
    /// kvlar, which looks at calls.
    Kvlar,
    /// Assay, which looks at calls.
    Assay,
}

/// A way, and how it is taken.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) way: Way,
    command: Vec<String>,
    home: PathBuf,
}

/// Directory with everything the programs write and read.
#[derive(Debug)]
pub(crate) struct Site(PathBuf);

impl Site {
    pub(crate) fn new() -> Result<Self> {
        let path = env::temp_dir().join(format!("mcpmon-bench-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.path(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What is left in a temporary directory is not worth a failure.
        let _left = fs::remove_dir_all(&self.0);
    }
}

impl Contender {
    /// All that can be had, the floors first.
    pub(crate) fn all(options: &Options, site: &Site) -> Result<Vec<Self>> {
        let bench = env::current_exe()?.display().to_string();
        // They are started from a directory of their own.
        let text = |path: &Path| {
            path::absolute(path)
                .unwrap_or_else(|_relative| path.to_owned())
                .display()
                .to_string()
        };
        let policy = site.file("mcpmon.yaml", MCPMON_POLICY)?;
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
                    &text(&options.mcpmon),
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
        ];
        if let Some(kvlar) = &options.kvlar {
            let policy = site.file("kvlar.yaml", KVLAR_POLICY)?;
            let command = [&text(kvlar), "proxy", "--stdio", "--policy", &policy, "--"];
            ways.push((Way::Kvlar, words(&command)));
        }
        if let Some(assay) = &options.assay {
            let policy = site.file("assay.yaml", ASSAY_POLICY)?;
            let command = [&text(assay), "mcp", "wrap", "--policy", &policy, "--"];
            ways.push((Way::Assay, words(&command)));
        }
        let contender = |(way, before): (Way, Vec<String>)| Self {
            way,
            command: before
                .into_iter()
                .chain([bench.clone(), "echo".to_owned()])
                .collect(),
            home: site.0.clone(),
        };
        Ok(ways.into_iter().map(contender).collect())
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).current_dir(&self.home);
        for (name, directory) in [
            ("HOME", "."),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
        ] {
            command.env(name, self.home.join(directory));
        }
        command.env_remove("MCPMON_CONFIG").env_remove("RUST_LOG");
        command
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
