//! Guesses about a name that belongs to no known tool: whether an MCP tool can have it, and the server of that tool.

use mcpmon_model::{ServerId, ToolName};

use super::{NamingClient, Order, SCHEMES, Scheme};

/// An unknown tool, as derived from a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guess {
    /// Its server; `None` if the name does not contain it.
    pub server: Option<ServerId>,
    /// The tool.
    pub tool: String,
}

/// Most ways to divide a name that are tried.
const MAX_SPLITS: usize = 64;

/// Returns the namespace and the name of a tool, joined.
pub fn joined(name: &ToolName<'_>) -> String {
    match name.namespace.as_deref() {
        None | Some("") => name.name.clone().into_owned(),
        Some(space) if space.ends_with("__") => format!("{space}{}", name.name),
        Some(space) => format!("{space}__{}", name.name),
    }
}

/// Returns each pair of parts that `name` can consist of: a server's name and a tool's, in the scheme of any client.
pub fn parts(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let places = name.match_indices(BETWEEN).take(MAX_SPLITS);
    let parts = places.map(|(at, between)| (&name[..at], &name[at + between.len()..]));
    parts.filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
}

/// The separators that clients put between a server's name and a tool's.
const BETWEEN: [char; 5] = ['_', '-', ':', '/', '.'];

/// Returns the possible meanings of a `name` that belongs to no known tool: a tool of one of `servers`, or else of an
/// unknown server. Returns none if the name has no mark of any scheme, and therefore is not an MCP tool's.
pub fn guesses<'s>(
    name: &str,
    client: Option<NamingClient>,
    servers: impl IntoIterator<Item = &'s ServerId>,
) -> Vec<Guess> {
    // If a scheme with a mark made the name, no scheme without a mark did.
    let (marked, plain): (Vec<&Scheme>, Vec<&Scheme>) = SCHEMES
        .iter()
        .filter(|scheme| scheme.may_be_of(client))
        .partition(|scheme| scheme.is_marked());
    let of_server = |schemes: &[&Scheme], server: &ServerId| -> Vec<Guess> {
        let tools = schemes.iter().filter_map(|scheme| scheme.tool_of(server, name));
        let guess = |tool: &str| Guess {
            server: Some(server.clone()),
            tool: tool.to_owned(),
        };
        tools.map(guess).collect()
    };
    let (mut found, mut unmarked) = (Vec::new(), Vec::new());
    for server in servers {
        found.extend(of_server(&marked, server));
        unmarked.extend(of_server(&plain, server));
    }
    if found.is_empty() {
        found = unmarked;
    }
    if found.is_empty() {
        found = divided(name, client);
    }
    found.sort();
    found.dedup();
    found
}

impl Scheme {
    /// Returns the tool that `name` means if it is a tool of `server`.
    fn tool_of<'n>(&self, server: &ServerId, name: &'n str) -> Option<&'n str> {
        let server = self.server(server.as_str());
        let rest = behind(name, self.prefix)?;
        let tool = match self.order {
            Order::ServerFirst => behind(behind(rest, &server)?, self.between)?,
            Order::ToolFirst => before(before(rest, &server)?, self.between)?,
            Order::ToolOnly => return None,
        };
        (!tool.is_empty()).then_some(tool)
    }

    /// Returns whether the mark of this scheme has no other meaning.
    fn is_unmistakable(&self) -> bool {
        !self.prefix.is_empty() || self.client == NamingClient::Cline
    }

    fn splits(&self, name: &str) -> Vec<Guess> {
        let Some(rest) = behind(name, self.prefix) else {
            return Vec::new();
        };
        let lower = rest.to_ascii_lowercase();
        let places = lower.match_indices(self.between).take(MAX_SPLITS);
        let pairs = places.map(|(at, between)| match self.order {
            Order::ToolFirst => (&rest[at + between.len()..], &rest[..at]),
            Order::ServerFirst | Order::ToolOnly => (&rest[..at], &rest[at + between.len()..]),
        });
        let whole = pairs.filter(|(server, tool)| !server.is_empty() && !tool.is_empty());
        whole
            .map(|(server, tool)| Guess {
                server: ServerId::new(server).ok(),
                tool: tool.to_owned(),
            })
            .collect()
    }
}

/// Returns the part after `start` in a name. The case of marks is ignored, because agents find tools in any spelling.
fn behind<'n>(name: &'n str, start: &str) -> Option<&'n str> {
    let (head, rest) = name.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(rest)
}

/// Returns the part before `end`.
fn before<'n>(name: &'n str, end: &str) -> Option<&'n str> {
    let (rest, tail) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
    tail.eq_ignore_ascii_case(end).then_some(rest)
}

/// Divides a name into server and tool, at every possible place.
fn divided(name: &str, client: Option<NamingClient>) -> Vec<Guess> {
    let is_meant = |scheme: &&Scheme| {
        scheme.is_unmistakable() || client == Some(NamingClient::LibreChat) && client == Some(scheme.client)
    };
    let schemes: Vec<&Scheme> = SCHEMES.iter().filter(is_meant).collect();
    // The longest prefix counts: `mcp__a__b` is no `mcp_` name.
    let prefixes = schemes.iter().map(|scheme| scheme.prefix);
    let prefix = prefixes
        .filter(|prefix| behind(name, prefix).is_some())
        .max_by_key(|prefix| prefix.len())
        .unwrap_or_default();
    let own = schemes.iter().filter(|scheme| scheme.prefix == prefix);
    let found: Vec<Guess> = own.flat_map(|scheme| scheme.splits(name)).collect();
    if found.is_empty() && !prefix.is_empty() {
        let tool = name[prefix.len()..].to_owned();
        return vec![Guess { server: None, tool }];
    }
    found
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use test_case::test_case;

    use super::*;

    fn told(name: &str, client: Option<NamingClient>, servers: &[&str]) -> Vec<String> {
        let servers: Vec<ServerId> = servers
            .iter()
            .map(|server| ServerId::new(*server).expect("an id"))
            .collect();
        let told = |guess: Guess| {
            let server = guess.server.as_ref().map_or("?", ServerId::as_str);
            format!("{server} {}", guess.tool)
        };
        guesses(name, client, &servers).into_iter().map(told).collect()
    }

    #[test_case("mcp__my_srv__new", None, &["my.srv"] => vec!["my.srv new"]; "a known server")]
    #[test_case("my.srv__new", None, &["my.srv"] => vec!["my.srv new"]; "a known server with a weaker mark")]
    #[test_case("srv_new", Some(NamingClient::Opencode), &["srv"] => vec!["srv new"]; "a known server without a mark")]
    #[test_case("srv_new", None, &["srv"] => vec!["srv new"]; "no mark, and a client that may leave none")]
    #[test_case("srv_new", Some(NamingClient::ClaudeCode), &["srv"] => Vec::<String>::new(); "no mark, and no client that leaves none")]
    #[test_case("SRV-new", None, &["srv"] => vec!["srv new"]; "a hyphen, in another case")]
    #[test_case("srv:new", Some(NamingClient::ClaudeCode), &["srv"] => vec!["srv new"]; "a colon")]
    #[test_case("srv2_new", None, &["srv"] => Vec::<String>::new(); "another server without a mark")]
    #[test_case("mcp__evil__run", None, &["fs"] => vec!["evil run"]; "an unknown server")]
    #[test_case("MCP__Evil__Run", None, &["fs"] => vec!["Evil Run"]; "in capitals")]
    #[test_case("Mcp__My_Srv__new", None, &["my.srv"] => vec!["my.srv new"]; "a known server in capitals")]
    #[test_case("a0MCP0b", None, &[] => vec!["a b"]; "a mark in the middle in capitals")]
    #[test_case("mcp__a__b__c", None, &[] => vec!["a b__c", "a__b c"]; "more than one way")]
    #[test_case("mcp_a_b", None, &[] => vec!["a b"]; "another prefix")]
    #[test_case("mcp--a--b", None, &[] => vec!["a b"]; "one more")]
    #[test_case("a0mcp0b", None, &[] => vec!["a b"]; "a mark in the middle")]
    #[test_case("mcp__nothing", None, &[] => vec!["? nothing"]; "no server")]
    #[test_case("list_mcp_resources", None, &[] => Vec::<String>::new(); "a tool of a client")]
    #[test_case("list_mcp_fs", Some(NamingClient::LibreChat), &[] => vec!["fs list"]; "of a client that names tools so")]
    #[test_case("developer__shell", None, &[] => Vec::<String>::new(); "anybody can write two underscores")]
    #[test_case("Bash", None, &["fs"] => Vec::<String>::new(); "none")]
    #[test_case("", None, &["fs"] => Vec::<String>::new(); "nothing")]
    fn names_of_no_known_tool(name: &str, client: Option<NamingClient>, servers: &[&str]) -> Vec<String> {
        told(name, client, servers)
    }

    #[test_case("a_b-c" => vec![("a", "b-c"), ("a_b", "c")]; "two ways")]
    #[test_case("a:b" => vec![("a", "b")]; "a colon")]
    #[test_case("_a_" => Vec::<(&str, &str)>::new(); "nothing on one side")]
    #[test_case("ab" => Vec::<(&str, &str)>::new(); "one word")]
    fn names_in_two_parts(name: &str) -> Vec<(&str, &str)> {
        parts(name).collect()
    }

    #[test]
    fn there_is_an_end() {
        let name = format!("mcp__{}", "a__".repeat(10_000));
        assert!(guesses(&name, None, &[]).len() <= 2 * MAX_SPLITS);
    }

    #[test_case(None, "read" => "read"; "none")]
    #[test_case(Some("mcp__fs"), "read" => "mcp__fs__read"; "a server")]
    #[test_case(Some("mcp__fs__"), "read" => "mcp__fs__read"; "with what is between")]
    #[test_case(Some(""), "read" => "read"; "empty")]
    fn what_a_tool_lies_in(namespace: Option<&str>, name: &str) -> String {
        joined(&ToolName {
            namespace: namespace.map(Cow::Borrowed),
            name: Cow::Borrowed(name),
        })
    }
}
