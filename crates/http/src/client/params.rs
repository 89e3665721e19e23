//! Arguments that a tool requires in headers too: `x-mcp-header` in its schema, `Mcp-Param-*` in a request.

use std::collections::BTreeMap;

use hyper::header::{HeaderName, HeaderValue};
use mcpmon_protocol::decode::json::{LoneSurrogate, MAX_DEPTH, Scanner, Value, ValueKind};

use super::outline::encoded;

/// Most tools with such arguments that are remembered for one server.
const MAX_TOOLS: usize = 2000;
/// Most such arguments of one tool.
const MAX_ARGUMENTS: usize = 64;
/// Depth in a schema to which such arguments are searched for.
const MAX_ARGUMENT_DEPTH: usize = 8;
/// Longest value that is sent in a header, bytes.
const MAX_BYTES: usize = 4096;

/// The arguments of each tool that are to be repeated in headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolHeaders(BTreeMap<String, Vec<ArgumentPlace>>);

/// An argument, by its place among the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ArgumentPlace {
    path: Vec<String>,
    header: HeaderName,
}

impl ToolHeaders {
    /// Adds the tools of a page of `tools/list`.
    pub(crate) fn learn(&mut self, answer: &[u8]) {
        let mut scanner = Scanner::new(MAX_DEPTH);
        let Ok(scan) = scanner.scan(answer, LoneSurrogate::Replace) else {
            return;
        };
        let result = scan.document.root().member("result");
        let Some(tools) = result.and_then(|result| result.member("tools")) else {
            return;
        };
        for tool in tools.items() {
            let Some(name) = tool.member("name").and_then(Value::string) else {
                continue;
            };
            let mut places = Vec::new();
            if let Some(schema) = tool.member("inputSchema") {
                find(schema, &mut Vec::new(), &mut places);
            }
            if places.is_empty() {
                self.0.remove(name.as_ref());
            } else if self.0.len() < MAX_TOOLS || self.0.contains_key(name.as_ref()) {
                self.0.insert(name.into_owned(), places);
            }
        }
    }

    /// Adds what `other` has learned.
    pub(crate) fn extend(&mut self, other: Self) {
        for (tool, places) in other.0 {
            if self.0.len() < MAX_TOOLS || self.0.contains_key(&tool) {
                self.0.insert(tool, places);
            }
        }
    }

    /// Returns the headers of a call.
    pub(super) fn of_call(&self, tool: &str, arguments: Value<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let places = self.0.get(tool).map(Vec::as_slice).unwrap_or_default();
        let header = |place: &ArgumentPlace| {
            let mut value = arguments;
            for name in &place.path {
                value = value.member(name)?;
            }
            let text = written(value).filter(|text| text.len() <= MAX_BYTES)?;
            Some((place.header.clone(), encoded(&text)))
        };
        places.iter().filter_map(header).collect()
    }
}

/// Returns the value of a header for an argument. Returns `None` for a value that is not sent in a header.
fn written(value: Value<'_>) -> Option<String> {
    match value.kind() {
        ValueKind::String => value.string().map(std::borrow::Cow::into_owned),
        ValueKind::Boolean => Some(value.text().to_owned()),
        ValueKind::Number => {
            let text = value.text();
            let is_integer = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            match is_integer {
                true => Some(text.to_owned()),
                false => text.parse::<f64>().ok().map(|number| number.to_string()),
            }
        }
        ValueKind::Null | ValueKind::Array | ValueKind::Object => None,
    }
}

fn find(schema: Value<'_>, path: &mut Vec<String>, places: &mut Vec<ArgumentPlace>) {
    let Some(properties) = schema.member("properties") else {
        return;
    };
    for property in properties.members() {
        if places.len() >= MAX_ARGUMENTS || path.len() >= MAX_ARGUMENT_DEPTH {
            return;
        }
        path.push(property.name.to_owned());
        let named = property.value.member("x-mcp-header").and_then(Value::string);
        let header = named.and_then(|name| format!("mcp-param-{name}").parse::<HeaderName>().ok());
        if let Some(header) = header
            && places.iter().all(|place| place.header != header)
        {
            places.push(ArgumentPlace {
                path: path.clone(),
                header,
            });
        }
        find(property.value, path, places);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"query","inputSchema":{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "again":{"type":"string","x-mcp-header":"REGION"},
        "bad":{"type":"string","x-mcp-header":"a b"},
        "deep":{"type":"object","properties":{"limit":{"type":"integer","x-mcp-header":"Limit"}}},
        "dry":{"type":"boolean","x-mcp-header":"Dry"},
        "none":{"type":"string","x-mcp-header":"None"}}}},{"name":"plain","inputSchema":{"type":"object"}}]}}"#;

    fn headers(known: &ToolHeaders, tool: &str, arguments: &str) -> Vec<String> {
        let mut scanner = Scanner::new(MAX_DEPTH);
        let scan = scanner.scan(arguments.as_bytes(), LoneSurrogate::Refuse).unwrap();
        let headers = known.of_call(tool, scan.document.root());
        let shown = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        shown.collect()
    }

    #[test]
    fn arguments_stand_in_headers_where_the_schema_says_so() {
        let mut known = ToolHeaders::default();
        known.learn(LIST.as_bytes());
        let arguments = r#"{"region":"zürich","again":"x","bad":"x","deep":{"limit":12345678901234567890},"dry":true,"none":null}"#;
        assert_eq!(
            headers(&known, "query", arguments),
            [
                "mcp-param-region: =?base64?esO8cmljaA==?=",
                "mcp-param-limit: 12345678901234567890",
                "mcp-param-dry: true"
            ]
        );
        assert!(headers(&known, "plain", arguments).is_empty());
        known.learn(br#"{"result":{"tools":[{"name":"query","inputSchema":{}}]}}"#);
        assert!(headers(&known, "query", arguments).is_empty());
    }
}
