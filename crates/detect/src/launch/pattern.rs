//! Names of MCP servers: the built-in patterns, and the words that mark a developer's tool.

use crate::tables::{self, WordList};

/// Globs over lower-cased names of packages, modules, images, programs and scripts that are servers.
///
/// A name that shows a tool *for* MCP (`mcp-inspector`, `create-mcp-server`) is excluded all the same.
pub(super) static BUILT_IN_PATTERNS: WordList = tables::LAUNCH.list("pattern", "built_in_patterns");

/// Words that, right after `mcp` or `mcp-server`, make it a client, whatever follows.
static CLIENTS: WordList = tables::LAUNCH.list("pattern", "clients");
/// Words that make the name one of a tool for developers, if they alone follow `mcp` or `mcp-server`.
static TOOLS: WordList = tables::LAUNCH.list("pattern", "tools");
/// Those of them that describe a form of a product's server, if the product's name precedes: `acme-mcp-dev`,
/// `acme-mcp-agent`.
const FORMS: &[&str] = &["agent", "agents", "dev", "test"];
/// Words that, before a package's name, make it a tool for developers.
static PACKAGE_VERBS: WordList = tables::LAUNCH.list("pattern", "package_verbs");
/// Words that, before a module's name, make it a tool for developers.
static MODULE_VERBS: WordList = tables::LAUNCH.list("pattern", "module_verbs");
/// Words that, in front of a script's or task's name, make it one of a developer's chores.
static SCRIPT_VERBS: WordList = tables::LAUNCH.list("pattern", "script_verbs");

/// The kind of a name: the less public, the more a verb in front of it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PatternKind {
    /// A package, program or image, published under this name.
    Package,
    /// A module, installed or of a project.
    Module,
    /// A file or task of a project.
    Script,
}

/// Returns whether any of [`BUILT_IN_PATTERNS`] can match `name`: most commands are done with here.
pub(super) fn mentions_mcp(name: &str) -> bool {
    name.contains("mcp") || name.contains("modelcontextprotocol")
}

/// Returns whether `name` is that of a tool for developers of MCP rather than of a server.
pub(super) fn is_tool(name: &str, kind: PatternKind) -> bool {
    let mut words = name
        .split(['-', '_', '.', ':', '/', '@'])
        .filter(|word| !word.is_empty())
        .peekable();
    let Some(first) = words.peek().copied() else {
        return false;
    };
    if first != name && is_verb(first, kind) {
        return true;
    }
    // In `@mcp-x/cli` the scope says MCP, and the name says which part of it.
    if let Some((scope, bare)) = name.split_once('/')
        && scope.contains("mcp")
        && bare
            .split(['-', '_'])
            .all(|word| TOOLS.contains(&word) || CLIENTS.contains(&word))
    {
        return true;
    }
    let mut is_of_a_product = false;
    let says_mcp = words.any(|word| {
        let says_mcp = word.ends_with("mcp") || word == "modelcontextprotocol";
        is_of_a_product |= !says_mcp
            || word
                .strip_suffix("mcp")
                .is_some_and(|product| !product.is_empty());
        says_mcp
    });
    if !says_mcp {
        return false;
    }
    let mut after = words.skip_while(|word| matches!(*word, "server" | "servers"));
    let Some(word) = after.next() else {
        return false;
    };
    match kind {
        PatternKind::Package => {
            let is_tool = |word: &str| TOOLS.contains(&word) && !(is_of_a_product && FORMS.contains(&word));
            CLIENTS.contains(&word) || is_tool(word) && after.all(is_tool)
        }
        PatternKind::Module | PatternKind::Script => {
            TOOLS.contains(&word) || CLIENTS.contains(&word) || is_verb(word, kind)
        }
    }
}

fn is_verb(word: &str, kind: PatternKind) -> bool {
    PACKAGE_VERBS.contains(&word)
        || (kind >= PatternKind::Module && MODULE_VERBS.contains(&word))
        || (kind >= PatternKind::Script && SCRIPT_VERBS.contains(&word))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("mcp-inspector", PatternKind::Package => true)]
    #[test_case("@modelcontextprotocol/inspector", PatternKind::Package => true; "scoped")]
    #[test_case("mcp-client-nodejs", PatternKind::Package => true; "a client whatever follows")]
    #[test_case("mcp-cli-tester", PatternKind::Package => true; "nothing but tools")]
    #[test_case("@mcp-x/cli", PatternKind::Package => true; "scope and tool")]
    #[test_case("@mcp-x/jira", PatternKind::Package => false; "scope and server")]
    #[test_case("create-mcp-server", PatternKind::Package => true)]
    #[test_case("mcp-server-tester", PatternKind::Package => true)]
    #[test_case("@acme/mcp-dev", PatternKind::Package => false; "a form of a product's server")]
    #[test_case("acme-voice-mcp-agent", PatternKind::Package => false; "another form of one")]
    #[test_case("mcp-agent", PatternKind::Package => true; "of no product")]
    #[test_case("acme-mcp-inspector", PatternKind::Package => true; "a tool of a product")]
    #[test_case("cli-mcp-server", PatternKind::Package => false; "a server about command lines")]
    #[test_case("mcp-docs-server", PatternKind::Package => false; "the word is not the last")]
    #[test_case("test-mcp-server", PatternKind::Package => false; "published under this name")]
    #[test_case("test_mcp_server", PatternKind::Module => true)]
    #[test_case("fetch_mcp", PatternKind::Module => false)]
    #[test_case("fetch_mcp", PatternKind::Script => true)]
    #[test_case("mcp:build", PatternKind::Script => true; "task")]
    #[test_case("mcp", PatternKind::Script => false)]
    #[test_case("build", PatternKind::Script => false; "no verb in front of anything")]
    fn tools(name: &str, kind: PatternKind) -> bool {
        is_tool(name, kind)
    }

    #[test]
    fn every_built_in_pattern_mentions_mcp() {
        assert!(BUILT_IN_PATTERNS.iter().all(|pattern| mentions_mcp(pattern)));
    }
}
