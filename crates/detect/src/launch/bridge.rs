//! Bridges between a client and a server that runs elsewhere, and the identity of that server.

use mcpmon_model::Digest;

use super::{
    command::{Command, Word},
    shell,
};
use crate::tables::{self, WordList};

/// Programs that connect a client's stdio to a server elsewhere, or a server's stdio to the network; the id is that of
/// the server at the other end.
pub(super) static BRIDGES: WordList = tables::LAUNCH.list("known", "bridges");

/// The target of a bridge.
#[derive(Debug)]
pub(super) enum Behind<'a> {
    /// A server at a URL, as the id it gets.
    Remote(String),
    /// Servers it starts itself.
    Commands(Vec<Command<'a>>),
}

/// Reads the arguments of a bridge.
pub(super) fn behind<'a>(arguments: &[Word<'a>]) -> Option<Behind<'a>> {
    let mut words = arguments.iter().enumerate();
    let mut first_operand = None;
    while let Some((at, word)) = words.next() {
        if let Some(id) = remote_id(word) {
            return Some(Behind::Remote(id));
        }
        match word.as_ref() {
            "--stdio" => {
                let (_, line) = words.next()?;
                return Some(Behind::Commands(shell::commands(line, &[])));
            }
            "--" => return Some(Behind::Commands(vec![from(arguments, at + 1)])),
            // `@smithery/cli run PACKAGE`
            "run" if first_operand.is_none() => {
                let mut words = vec!["npx".into()];
                words.extend(arguments[at + 1..].iter().cloned());
                return Some(Behind::Commands(vec![Command {
                    words,
                    directory: None,
                }]));
            }
            option if option.starts_with('-') => {}
            _ => first_operand = first_operand.or(Some(at)),
        }
    }
    first_operand.map(|at| Behind::Commands(vec![from(arguments, at)]))
}

fn from<'a>(arguments: &[Word<'a>], at: usize) -> Command<'a> {
    Command {
        words: arguments[at..].to_vec(),
        directory: None,
    }
}

/// Returns the id of the server at `url`: its host, its port if the URL has one, and, if the path is more specific than
/// `/mcp` or `/sse`, a part of the hash of the path, which could be a secret.
fn remote_id(url: &str) -> Option<String> {
    let rest = ["https://", "http://", "wss://", "ws://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))?;
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let path = path.trim_matches('/');
    let mut id = host.to_ascii_lowercase().replace(':', "-");
    if !matches!(path, "" | "mcp" | "sse" | "v1/mcp" | "v1/sse") {
        id.push('-');
        id.push_str(&Digest::of(path.as_bytes()).short(6));
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("https://mcp.example.com/sse" => Some("mcp.example.com".to_owned()); "host")]
    #[test_case("http://LOCALHOST:8080/mcp" => Some("localhost-8080".to_owned()); "port")]
    #[test_case("https://user:pw@example.com?key=1" => Some("example.com".to_owned()); "no secrets")]
    #[test_case("example.com" => None; "no url")]
    fn remote_ids(url: &str) -> Option<String> {
        remote_id(url)
    }

    #[test]
    fn a_path_tells_servers_of_one_host_apart() {
        let id = |path: &str| remote_id(&format!("https://example.com/{path}"));
        assert_ne!(id("a/mcp"), id("b/mcp"));
        assert!(id("secret/mcp").is_some_and(|id| !id.contains("secret")));
    }
}
