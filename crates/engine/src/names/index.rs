//! Index of names: the known tools that a name can mean.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mcpmon_model::ServerId;

use super::{NamingClient, SCHEMES, Scheme};

/// A tool that a name used by a model can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate<'a> {
    /// The server.
    pub server: &'a ServerId,
    /// The tool, as its server knows it.
    pub tool: &'a str,
    /// The client whose scheme makes the name; the first, if several schemes make the same name.
    pub client: NamingClient,
}

/// Tools by the names that models can use for them. A tool has a name in every scheme; only hashes of the names are
/// kept, and the names are made again for comparison.
#[derive(Clone, Debug, Default)]
pub struct Names {
    tools: Vec<(ServerId, String)>,
    /// Hash of a name, and the number of its tool; sorted, without duplicates.
    index: Vec<(u64, u32)>,
}

/// Most tools whose names are kept.
const MAX_TOOLS: usize = 1 << 17;
/// Most places at which a plugin's name may end that are tried.
const MAX_PLACES: usize = 64;

impl Names {
    /// Builds the index of every name of these tools; tools beyond the limit have no names.
    pub fn new(tools: impl IntoIterator<Item = (ServerId, String)>) -> Self {
        let tools: Vec<(ServerId, String)> = tools.into_iter().take(MAX_TOOLS).collect();
        let mut index = Vec::with_capacity(tools.len() * SCHEMES.len());
        for (number, (server, tool)) in (0..).zip(&tools) {
            let names = SCHEMES.iter().map(|scheme| scheme.visible(server.as_str(), tool));
            index.extend(names.map(|name| (hash(&name.to_ascii_lowercase()), number)));
        }
        index.sort_unstable();
        index.dedup();
        Self { tools, index }
    }

    /// Returns the tools that `name` can mean, for `client` if that is known. A name with several tools is ambiguous,
    /// and the strictest verdict on any of them holds.
    ///
    /// The client's own name is only a hint: if its scheme did not make the tool's name, any other scheme may have
    /// that leaves a mark in it. A name without a mark is then one of the client's own tools.
    pub fn resolve(&self, name: &str, client: Option<NamingClient>) -> Vec<Candidate<'_>> {
        let mut found: Vec<(Candidate<'_>, &Scheme)> = self.every(name);
        if found.is_empty() {
            found = without_plugin(name).flat_map(|name| self.every(&name)).collect();
        }
        if found.is_empty() {
            // Some clients accept a name that a model writes in another case. A name without a mark is one of the
            // client's own tools.
            found = self.every_like(name, str::eq_ignore_ascii_case);
            found.retain(|(_, scheme)| scheme.may_be_of(client));
        }
        let is_own = |(candidate, _): &&(Candidate<'_>, &Scheme)| Some(candidate.client) == client;
        let is_any_own = found.iter().any(|candidate| is_own(&candidate));
        let kept = found.iter().filter(|candidate| match client {
            None => true,
            Some(_) if is_any_own => is_own(candidate),
            Some(_) => candidate.1.is_marked(),
        });
        let mut tools: Vec<Candidate<'_>> = Vec::new();
        for (candidate, _) in kept {
            let is_same =
                |known: &Candidate<'_>| (known.server, known.tool) == (candidate.server, candidate.tool);
            if !tools.iter().any(is_same) {
                tools.push(*candidate);
            }
        }
        tools
    }

    /// Returns every tool and scheme that make `name`.
    fn every(&self, name: &str) -> Vec<(Candidate<'_>, &'static Scheme)> {
        self.every_like(name, PartialEq::eq)
    }

    fn every_like(
        &self,
        name: &str,
        is_like: fn(&str, &str) -> bool,
    ) -> Vec<(Candidate<'_>, &'static Scheme)> {
        let hash = hash(&name.to_ascii_lowercase());
        let from = self.index.partition_point(|(known, _)| *known < hash);
        let same = self.index[from..].iter().take_while(|(known, _)| *known == hash);
        let mut found = Vec::new();
        for (server, tool) in same.filter_map(|(_, number)| self.tools.get(*number as usize)) {
            let made = SCHEMES
                .iter()
                .filter(|scheme| is_like(&scheme.visible(server.as_str(), tool), name));
            found.extend(made.map(|scheme| {
                let client = scheme.client;
                (Candidate { server, tool, client }, scheme)
            }));
        }
        found
    }
}

/// Removes the plugin's name that Claude Code puts before the name of a server from a plugin:
/// `mcp__plugin_PLUGIN_SERVER__TOOL`. The name does not show where the plugin's part ends, so each possible end is
/// tried.
fn without_plugin(name: &str) -> impl Iterator<Item = String> {
    let rest = name.strip_prefix("mcp__plugin_").unwrap_or_default();
    let places = rest.match_indices('_').take(MAX_PLACES);
    places.map(|(at, _)| format!("mcp__{}", &rest[at + 1..]))
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn names(tools: &[(&str, &str)]) -> Names {
        Names::new(tools.iter().map(|(server, tool)| {
            let server = ServerId::new(*server).expect("an id");
            (server, (*tool).to_owned())
        }))
    }

    fn told(names: &Names, name: &str, client: Option<NamingClient>) -> Vec<String> {
        let found = names.resolve(name, client);
        found
            .iter()
            .map(|candidate| format!("{} {}", candidate.server, candidate.tool))
            .collect()
    }

    #[test_case("mcp__fs__read", &[("fs", "read")] => vec!["fs read"]; "one")]
    #[test_case("read", &[("fs", "read"), ("evil", "read")] => vec!["fs read", "evil read"]; "bare name of two servers")]
    #[test_case("mcp__fs__a_b", &[("fs", "a.b"), ("fs", "a_b")] => vec!["fs a.b", "fs a_b"]; "two tools alike but for a dot")]
    #[test_case("dup__name", &[("x", "dup__name"), ("dup", "name")] => vec!["x dup__name", "dup name"]; "a tool named like a prefix")]
    #[test_case("mcp__plugin_dev_tools_fs__read", &[("fs", "read")] => vec!["fs read"]; "of a plugin")]
    #[test_case("mcp__plugin_fs__read", &[("other", "read")] => Vec::<String>::new(); "of a plugin, another server")]
    #[test_case("MCP__FS__Read", &[("fs", "read")] => vec!["fs read"]; "another case")]
    #[test_case("mcp__fs__Read", &[("fs", "read"), ("fs", "Read")] => vec!["fs Read"]; "another case that is somebody else's")]
    #[test_case("Read", &[("fs", "read")] => Vec::<String>::new(); "another case of what has no mark")]
    #[test_case("FS_Read", &[("fs", "read")] => vec!["fs read"]; "another case without a mark, of a server")]
    #[test_case("fs-read", &[("fs", "read")] => vec!["fs read"]; "a hyphen")]
    #[test_case("Fs:Read", &[("fs", "read")] => vec!["fs read"]; "a colon, in another case")]
    #[test_case("mcp__fs__write", &[("fs", "read")] => Vec::<String>::new(); "none")]
    fn names_are_resolved(name: &str, tools: &[(&str, &str)]) -> Vec<String> {
        told(&names(tools), name, None)
    }

    #[test_case("dup__name", NamingClient::FastAgent => vec!["dup name"]; "its own scheme")]
    #[test_case("dup__name", NamingClient::ClaudeCode => vec!["dup name"]; "another scheme with a mark")]
    #[test_case("fs_read", NamingClient::Opencode => vec!["fs read"]; "its own scheme without a mark")]
    #[test_case("FS_Read", NamingClient::Opencode => vec!["fs read"]; "its own scheme in another case")]
    #[test_case("fs:read", NamingClient::ClaudeCode => vec!["fs read"]; "a colon is a mark")]
    #[test_case("fs-read", NamingClient::CopilotCli => vec!["fs read"]; "its own scheme with a hyphen")]
    #[test_case("fs-read", NamingClient::ClaudeCode => Vec::<String>::new(); "another scheme with a hyphen")]
    #[test_case("fs_read", NamingClient::ClaudeCode => Vec::<String>::new(); "another scheme without a mark")]
    #[test_case("Bash", NamingClient::ClaudeCode => Vec::<String>::new(); "a tool of the client that a server has too")]
    fn a_known_client_leaves_less_doubt(name: &str, client: NamingClient) -> Vec<String> {
        let tools = [
            ("dup", "name"),
            ("x", "dup__name"),
            ("fs", "read"),
            ("evil", "Bash"),
        ];
        told(&names(&tools), name, Some(client))
    }
}
