//! Tables of protected files, by category, and of files with secrets. Those of clients are in the table of clients.

use std::{collections::HashMap, sync::LazyLock};

use mcpmon_clients::{CLIENTS, Client, ConfigFile};
use mcpmon_model::{PathPattern, PathStart};

use super::PathCategory;
use crate::tables::{self, WordList};

/// Files of mcpmon itself: changing them changes what is stopped.
static MCPMON: WordList = tables::PROTECTED_PATHS.list("table", "mcpmon");

/// Hooks of programs that are not in the table of clients.
static CLIENT_HOOKS: WordList = tables::PROTECTED_PATHS.list("table", "client_hooks");

/// Files that every shell runs when it starts.
static SHELL: WordList = tables::PROTECTED_PATHS.list("table", "shell");

/// The sources of packages, and the files their managers run.
static PACKAGES: WordList = tables::PROTECTED_PATHS.list("table", "packages");

/// The files git runs: hooks, aliases, pagers, credential helpers.
static GIT: WordList = tables::PROTECTED_PATHS.list("table", "git");

/// The settings of logins, and of the routes of connections.
static SSH: WordList = tables::PROTECTED_PATHS.list("table", "ssh");

/// Registries, and the lookup of their credentials.
static DOCKER: WordList = tables::PROTECTED_PATHS.list("table", "docker");

/// Clusters, and the commands that authenticate to them.
static KUBE: WordList = tables::PROTECTED_PATHS.list("table", "kube");

/// Instructions that several agents read at the start of every session, or one that is not in the table of clients.
static INSTRUCTIONS: WordList = tables::PROTECTED_PATHS.list("table", "instructions");

/// The files that run without a person starting them, and the settings of who may become root.
static AUTOSTART: WordList = tables::PROTECTED_PATHS.list("table", "autostart");

/// Files with keys, tokens or passwords.
static CREDENTIALS: WordList = tables::PROTECTED_PATHS.list("table", "credentials");

/// Names that look protected but are samples, which nothing runs.
static SAMPLES: WordList = tables::PROTECTED_PATHS.list("table", "samples");

/// A protected path.
#[derive(Debug)]
pub(super) struct ProtectedPath {
    pub(super) category: PathCategory,
    pub(super) pattern: PathPattern,
}

/// Every protected path. Most rows have a name that any matching path must contain.
#[derive(Debug)]
pub(super) struct ProtectedPaths {
    rows: Vec<ProtectedPath>,
    /// Rows by the last of their names: a matching path contains it.
    by_name: HashMap<String, Vec<usize>>,
    /// Rows by each of their names: a directory above a match contains one of them.
    by_any_name: HashMap<String, Vec<usize>>,
    /// Rows without a name.
    nameless: Vec<usize>,
    samples: Vec<PathPattern>,
}

/// The built-in paths.
pub(super) static TABLE: LazyLock<ProtectedPaths> = LazyLock::new(|| {
    let groups = [
        (PathCategory::McpmonConfig, &*MCPMON),
        (PathCategory::ClientHooks, &*CLIENT_HOOKS),
        (PathCategory::ShellConfig, &*SHELL),
        (PathCategory::PackageConfig, &*PACKAGES),
        (PathCategory::GitConfig, &*GIT),
        (PathCategory::SshConfig, &*SSH),
        (PathCategory::DockerConfig, &*DOCKER),
        (PathCategory::KubeConfig, &*KUBE),
        (PathCategory::AgentInstructions, &*INSTRUCTIONS),
        (PathCategory::Autostart, &*AUTOSTART),
        (PathCategory::Credential, &*CREDENTIALS),
    ];
    let built_in = groups.iter().flat_map(|&(category, patterns)| {
        let patterns = patterns.iter().map(|&text| pattern(text));
        patterns.map(move |pattern| ProtectedPath { category, pattern })
    });
    let mut rows: Vec<ProtectedPath> = built_in.chain(CLIENTS.iter().flat_map(client_rows)).collect();
    rows.sort_by_key(|row| row.category);
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    let mut by_any_name: HashMap<String, Vec<usize>> = HashMap::new();
    let mut nameless = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for name in row.pattern.literals() {
            by_any_name.entry(name.to_owned()).or_default().push(index);
        }
        match row.pattern.literals().last() {
            Some(name) => by_name.entry(name.to_owned()).or_default().push(index),
            None => nameless.push(index),
        }
    }
    ProtectedPaths {
        rows,
        by_name,
        by_any_name,
        nameless,
        samples: SAMPLES.iter().map(|&text| pattern(text)).collect(),
    }
});

impl ProtectedPaths {
    /// Returns the rows that a path with these names, in lower case, can match.
    pub(super) fn rows(&self, names: &[String]) -> Vec<&ProtectedPath> {
        self.named(&self.by_name, names)
    }

    /// Returns the rows that a path with these names can match, or be above.
    pub(super) fn rows_below(&self, names: &[String]) -> Vec<&ProtectedPath> {
        match names {
            [] => self.all(),
            names => self.named(&self.by_any_name, names),
        }
    }

    fn named(&self, index: &HashMap<String, Vec<usize>>, names: &[String]) -> Vec<&ProtectedPath> {
        let named = names.iter().filter_map(|name| index.get(name));
        let mut found: Vec<usize> = named.flatten().chain(&self.nameless).copied().collect();
        found.sort_unstable();
        found.into_iter().map(|index| &self.rows[index]).collect()
    }

    /// Returns all rows: a path with wildcards can match any of them.
    pub(super) fn all(&self) -> Vec<&ProtectedPath> {
        self.rows.iter().collect()
    }

    /// Returns whether the path is a sample.
    pub(super) fn is_sample(&self, names: &[String]) -> bool {
        let mut samples = self.samples.iter();
        samples.any(|sample| sample.meets(PathStart::Unknown, names).is_some())
    }
}

/// Returns the rows of a client.
fn client_rows(client: &Client) -> impl Iterator<Item = ProtectedPath> {
    let protected = &client.protected;
    let groups = [
        (PathCategory::ClientMcpConfig, &protected.servers),
        (PathCategory::ClientHooks, &protected.hooks),
        (PathCategory::AgentInstructions, &protected.instructions),
        (PathCategory::Credential, &protected.secrets),
    ];
    let further = groups
        .into_iter()
        .flat_map(|(category, texts)| texts.iter().map(move |text| (category, pattern(text))));
    let files = client.files.iter().flat_map(ConfigFile::patterns);
    let files = files.map(|text| (PathCategory::ClientMcpConfig, pattern(&text)));
    further
        .chain(files)
        .map(|(category, pattern)| ProtectedPath { category, pattern })
}

fn pattern(text: &str) -> PathPattern {
    PathPattern::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
