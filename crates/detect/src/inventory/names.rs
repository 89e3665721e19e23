//! Tools of several servers that are taken for one another.

use std::collections::BTreeMap;

use mcpmon_model::Severity;

use crate::tool_names::folded;

/// A tool as a server offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferedTool<'a> {
    /// The server.
    pub server: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// A tool that shadows another server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed<'a> {
    /// The later one.
    pub tool: OfferedTool<'a>,
    /// The one before.
    pub other: OfferedTool<'a>,
    /// The severity: a name that only looks the same was made to be mistaken.
    pub severity: Severity,
}

/// Returns each tool whose name another server offers before it, or one that looks the same.
pub fn shadowed_tools<'a>(tools: &[OfferedTool<'a>]) -> Vec<Shadowed<'a>> {
    let mut seen: BTreeMap<String, Vec<OfferedTool<'a>>> = BTreeMap::new();
    let mut found = Vec::new();
    for tool in tools {
        let before = seen.entry(folded(tool.name)).or_default();
        let of_others = || before.iter().filter(|other| other.server != tool.server);
        // A name that differs is the worse one.
        let other = of_others()
            .find(|other| other.name != tool.name && !is_respelled(other.name, tool.name))
            .or_else(|| of_others().next());
        if let Some(other) = other {
            let is_same = other.name == tool.name || is_respelled(other.name, tool.name);
            found.push(Shadowed {
                tool: *tool,
                other: *other,
                severity: if is_same { Severity::Low } else { Severity::High },
            });
        }
        before.push(*tool);
    }
    found
}

/// Returns whether names differ only in case and punctuation, as servers mean it.
fn is_respelled(a: &str, b: &str) -> bool {
    let plain = |name: &str| -> Option<String> {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        name.is_ascii()
            .then(|| letters.map(|c| c.to_ascii_lowercase()).collect())
    };
    plain(a).is_some() && plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("read_file", "read_file" => Some(Severity::Low); "the same")]
    #[test_case("read_file", "readFile" => Some(Severity::Low); "another spelling")]
    #[test_case("read_file", "reаd_file" => Some(Severity::High); "a look-alike")]
    #[test_case("read_file", "read_note" => None; "another name")]
    fn tools_of_two_servers(one: &str, other: &str) -> Option<Severity> {
        let tools = [
            OfferedTool {
                server: "a",
                name: one,
            },
            OfferedTool {
                server: "b",
                name: other,
            },
        ];
        let found = shadowed_tools(&tools);
        found.first().map(|found| found.severity)
    }

    #[test]
    fn tools_of_one_server_shadow_nothing() {
        let tool = OfferedTool {
            server: "a",
            name: "x",
        };
        assert_eq!(shadowed_tools(&[tool, tool]), []);
    }
}
