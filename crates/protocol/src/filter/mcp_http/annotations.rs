//! Tool arguments that clients repeat in headers: `x-mcp-header` in the `inputSchema`, since 2026-07-28.

use std::collections::BTreeMap;

use mcpmon_model::RawJson;

use crate::decode::json::{Doubt, LoneSurrogate, MAX_DEPTH, Scanner, Value, ValueKind, canonical};

/// The key that marks a property of a schema.
const MARK: &str = "x-mcp-header";

/// Most headers of one tool; of a tool with more, none is used.
const MAX_HEADERS: usize = 64;

/// Longest definition that is searched, bytes: a schema is walked once for each of its levels.
const MAX_BYTES: usize = 1 << 20;

/// An argument that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Annotation {
    /// The header's name after `Mcp-Param-`, in lower case.
    pub(super) header: Box<str>,
    /// The names of the members that lead from the arguments to it, as JSON writes them.
    pub(super) path: Vec<Box<str>>,
}

impl Annotation {
    /// Returns the bytes that remembering it takes.
    pub(super) fn len(&self) -> usize {
        self.header.len() + self.path.iter().map(|name| name.len()).sum::<usize>()
    }
}

/// Returns the annotations of the tool that `definition` defines; none if they break the rules, because clients that
/// follow the protocol send no headers for such a tool.
pub(super) fn annotations(definition: RawJson<'_>) -> Vec<Annotation> {
    let text = definition.as_str();
    if text.len() > MAX_BYTES || !may_have(text) {
        return Vec::new();
    }
    let mut scanner = Scanner::new(MAX_DEPTH);
    let Ok(scan) = scanner.scan(text.as_bytes(), LoneSurrogate::Replace) else {
        return Vec::new();
    };
    if scan.doubt < Doubt::Name {
        return of_tool(scan.document.root());
    }
    // The mark can be written with an escape.
    let anew = canonical(scan.document);
    let mut scanner = Scanner::new(MAX_DEPTH);
    match scanner.scan(anew.as_bytes(), LoneSurrogate::Refuse) {
        Ok(scan) => of_tool(scan.document.root()),
        Err(_) => Vec::new(),
    }
}

/// Returns whether a text can have an annotation. Names may have escapes, which are rare.
fn may_have(text: &str) -> bool {
    text.contains(MARK) || text.contains("\\u")
}

fn of_tool(tool: Value<'_>) -> Vec<Annotation> {
    let mut found = FoundAnnotations::default();
    if let Some(schema) = last(tool, "inputSchema") {
        found.schema(schema, SchemaPlace::Root, &mut Vec::new());
    }
    if found.is_broken {
        return Vec::new();
    }
    let annotations = found.annotations.into_iter();
    annotations
        .map(|(header, path)| Annotation { header, path })
        .collect()
}

/// The place of a schema within another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPlace {
    Root,
    /// Only below names of properties: its value has one place in the arguments, or none.
    Property,
    /// In a list, a choice or a definition: it has no single value.
    Elsewhere,
}

#[derive(Default)]
struct FoundAnnotations {
    annotations: BTreeMap<Box<str>, Vec<Box<str>>>,
    is_broken: bool,
}

impl FoundAnnotations {
    /// Walks a schema and those in it: as deep as the text, whose depth is limited.
    fn schema<'t>(&mut self, schema: Value<'t>, place: SchemaPlace, path: &mut Vec<&'t str>) {
        for member in schema.members() {
            match member.name {
                MARK => self.mark(schema, member.value, place, path),
                "properties" => {
                    for property in member.value.members() {
                        path.push(property.name);
                        self.schema(property.value, place.below(), path);
                        path.pop();
                    }
                }
                "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
                    for named in member.value.members() {
                        self.schema(named.value, SchemaPlace::Elsewhere, path);
                    }
                }
                // The members are values, not schemas.
                "const" | "default" | "enum" | "examples" => {}
                _ if member.value.kind() == ValueKind::Array => {
                    for item in member.value.items() {
                        self.schema(item, SchemaPlace::Elsewhere, path);
                    }
                }
                _ => self.schema(member.value, SchemaPlace::Elsewhere, path),
            }
        }
    }

    fn mark(&mut self, schema: Value<'_>, mark: Value<'_>, place: SchemaPlace, path: &[&str]) {
        let kind = last(schema, "type").and_then(Value::string);
        let header = mark.string().filter(|header| is_token(header));
        let (Some(header), SchemaPlace::Property) = (header, place) else {
            self.is_broken = true;
            return;
        };
        match kind.as_deref() {
            Some("string" | "integer" | "boolean") => {}
            // Numbers are not allowed, because each language formats them differently; yet some clients send them.
            Some("number") => return,
            Some(_) | None => {
                self.is_broken = true;
                return;
            }
        }
        let path = path.iter().map(|name| Box::from(*name)).collect();
        let known = self
            .annotations
            .insert(header.to_ascii_lowercase().into_boxed_str(), path);
        self.is_broken |= known.is_some() || self.annotations.len() > MAX_HEADERS;
    }
}

impl SchemaPlace {
    const fn below(self) -> Self {
        match self {
            Self::Root | Self::Property => Self::Property,
            Self::Elsewhere => Self::Elsewhere,
        }
    }
}

/// Returns the last of the members with this name: readers use the last one.
fn last<'t>(object: Value<'t>, name: &str) -> Option<Value<'t>> {
    let members = object.members().filter(|member| member.name == name);
    members.last().map(|member| member.value)
}

/// Returns whether a text can be the name of a header (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn told(schema: &str) -> String {
        let tool = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
        let told = annotations(RawJson::trusted(&tool));
        let told = told
            .iter()
            .map(|one| format!("{}={}", one.header, one.path.join(".")));
        told.collect::<Vec<_>>().join(" ")
    }

    #[test_case(r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"q":{"type":"string"}}}"# => "region=region"; "one")]
    #[test_case(r#"{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"}}},"c":{"type":"boolean","x-mcp-header":"C"}}}"# => "b=a.b c=c"; "nested")]
    #[test_case(r#"{"properties":{"n":{"type":"number","x-mcp-header":"N"}}}"# => ""; "a number, which some send")]
    #[test_case(r#"{"properties":{"n":{"type":"number","x-mcp-header":"N"},"s":{"type":"string","x-mcp-header":"S"}}}"# => "s=s"; "beside a number")]
    #[test_case(r#"{"properties":{"properties":{"type":"string","x-mcp-header":"P"}}}"# => "p=properties"; "a property called properties")]
    #[test_case(r#"{"properties":{"r":{"type":"string","x-mcp-he\u0061der":"R"}},"x":"x-mcp-header"}"# => "r=r"; "an escape in the mark")]
    #[test_case(r#"{"properties":{"r":{"type":"string","default":{"x-mcp-header":"no"},"x-mcp-header":"R"}}}"# => "r=r"; "a value that looks like one")]
    #[test_case(r#"{"properties":{"r":{"type":"string","x-mcp-header":""}}}"# => ""; "an empty name")]
    #[test_case(r#"{"properties":{"r":{"type":"string","x-mcp-header":"a:b"}}}"# => ""; "no token")]
    #[test_case(r#"{"properties":{"r":{"type":"string","x-mcp-header":"R\r\nHost"}}}"# => ""; "another header inside")]
    #[test_case(r#"{"properties":{"r":{"type":"array","x-mcp-header":"R"}}}"# => ""; "an array")]
    #[test_case(r#"{"properties":{"r":{"type":["string"],"x-mcp-header":"R"}}}"# => ""; "more types")]
    #[test_case(r#"{"properties":{"a":{"type":"string","x-mcp-header":"R"},"b":{"type":"string","x-mcp-header":"r"}}}"# => ""; "a name twice")]
    #[test_case(r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"items":{"type":"string","x-mcp-header":"B"}}}}"# => ""; "an item of a list")]
    #[test_case(r#"{"x-mcp-header":"R","type":"string"}"# => ""; "the schema itself")]
    #[test_case(r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"oneOf":[{"properties":{"b":{"type":"string","x-mcp-header":"B"}}}]}"# => ""; "a choice")]
    #[test_case(r#"{"$defs":{"default":{"type":"string","x-mcp-header":"A"}}}"# => ""; "a definition called default")]
    #[test_case(r#"{"properties":{"r":{"type":"string"}}}"# => ""; "none")]
    fn annotations_of(schema: &str) -> String {
        told(schema)
    }

    #[test]
    fn there_is_room_for_so_many() {
        let schema = |count: usize| {
            let property = |at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#);
            let properties: Vec<String> = (0..count).map(property).collect();
            format!(r#"{{"properties":{{{}}}}}"#, properties.join(","))
        };
        assert_eq!(told(&schema(MAX_HEADERS)).split(' ').count(), MAX_HEADERS);
        assert_eq!(told(&schema(MAX_HEADERS + 1)), "");
    }
}
