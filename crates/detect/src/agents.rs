//! Process names of the agents that start MCP servers.

use std::sync::LazyLock;

use mcpmon_clients::CLIENTS;

/// Process names of agents that are not in the table of clients.
const OTHER_AGENTS: [&str; 3] = ["aider", "auggie", "qwen"];

/// Names (`comm`, at most 15 bytes) by which Linux shows well-known agents, sorted: those in the table of clients, and
/// some more.
///
/// Only names that are an agent's own: what runs as `node` or `electron`, or shares its name with a common
/// tool (Amazon Q's `q`, Continue's `cn`), is found through its configuration instead.
pub static AGENT_NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let clients = CLIENTS.iter().flat_map(|client| &client.processes);
    let mut names: Vec<_> = clients.map(String::as_str).chain(OTHER_AGENTS).collect();
    names.sort_unstable();
    names
});

/// The process name of `mcpmon run`: everything below it is one session.
pub const RUN_NAME: &str = "mcpmon-run";

/// Returns whether `comm` is the process name of a known agent.
pub fn is_agent(comm: &str) -> bool {
    AGENT_NAMES.binary_search(&comm).is_ok()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("claude" => true)]
    #[test_case("code" => true)]
    #[test_case("zed-editor" => true)]
    #[test_case("aider" => true; "first")]
    #[test_case("node" => false)]
    #[test_case("python3" => false)]
    #[test_case("bash" => false)]
    #[test_case("q" => false; "shared with other tools")]
    #[test_case("claudette" => false; "longer")]
    #[test_case("" => false; "empty")]
    fn agents(comm: &str) -> bool {
        is_agent(comm)
    }

    #[test]
    fn names_are_sorted_and_fit_the_kernel() {
        assert!(AGENT_NAMES.is_sorted_by(|a, b| a < b));
        assert!(AGENT_NAMES.iter().all(|name| (1..=15).contains(&name.len())));
    }
}
