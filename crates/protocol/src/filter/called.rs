//! Names of the tools that a body calls, for a judge that wants to know them first.

use super::mcp_http::head::{last, version};
use crate::decode::{
    DecodeLimits,
    json::{LoneSurrogate, Scanner, Value, ValueKind},
    jsonrpc::{Envelope, Payload},
};

/// Returns the tools that the messages in a body call, as far as they can be read. No decision depends on it.
pub(super) fn called(limits: DecodeLimits, body: &[u8]) -> Vec<String> {
    calls(limits, body).tools
}

/// Called tools, and the protocol revision, if a message gives it.
#[derive(Debug, Default)]
pub(super) struct CalledTools {
    pub(super) tools: Vec<String>,
    pub(super) version: Option<String>,
}

/// Returns the called tools, with the revision that is needed to ask the server about them.
pub(super) fn calls(limits: DecodeLimits, body: &[u8]) -> CalledTools {
    let mut scanner = Scanner::new(limits.max_depth);
    let Ok(scan) = scanner.scan(body, LoneSurrogate::Refuse) else {
        return CalledTools::default();
    };
    let root = scan.document.root();
    match root.kind() == ValueKind::Array {
        true => CalledTools {
            tools: root.items().take(limits.max_batch).filter_map(tool).collect(),
            version: root.items().take(limits.max_batch).find_map(version),
        },
        false => CalledTools {
            tools: tool(root).into_iter().collect(),
            version: version(root),
        },
    }
}

fn tool(message: Value<'_>) -> Option<String> {
    let envelope = Envelope::read(message).ok()?;
    match envelope.payload {
        Payload::Method { method, params } if method == "tools/call" => {
            last(params?, "name")?.string().map(|name| name.into_owned())
        }
        Payload::Method { .. } | Payload::Result(_) | Payload::Error(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"# => vec!["a".to_owned()]; "a call")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"b","name":"\u0061"}}"# => vec!["a".to_owned()]; "written otherwise")]
    #[test_case(r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}},{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"b"}}]"# => vec!["a".to_owned(), "b".to_owned()]; "a batch")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"# => Vec::<String>::new(); "another request")]
    #[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"# => Vec::<String>::new(); "a call of nothing")]
    #[test_case("{" => Vec::<String>::new(); "no JSON")]
    fn tools(body: &str) -> Vec<String> {
        called(DecodeLimits::default(), body.as_bytes())
    }
}
