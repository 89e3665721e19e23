//! The fields of a form, and what each of them takes.

use std::collections::BTreeMap;

use mcpmon_model::RawJson;

/// Levels of fields within fields; what lies deeper takes any text.
const MAX_DEPTH: usize = 8;

/// The kind of input that a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Any text.
    Text,
    /// A number.
    Number,
    /// One of some values: nothing secret can be typed.
    Closed,
}

/// The fields of a form, by the names of the members on the way to them.
#[derive(Debug, Default)]
pub(super) struct Fields {
    all: BTreeMap<Vec<String>, Field>,
}

impl Fields {
    /// Returns the fields of a requested schema.
    pub(super) fn of(schema: Option<RawJson<'_>>) -> Self {
        let mut fields = Self::default();
        if let Some(schema) = schema {
            fields.take(schema, &mut vec!["requestedSchema".to_owned()]);
        }
        fields
    }

    fn take(&mut self, schema: RawJson<'_>, way: &mut Vec<String>) {
        if way.len() > 2 * MAX_DEPTH {
            return;
        }
        let Some(properties) = schema.member("properties") else {
            return;
        };
        way.push("properties".to_owned());
        for (name, field) in properties.members() {
            way.push(name.into_owned());
            self.take(field, way);
            self.all.insert(way.clone(), kind(field));
            way.pop();
        }
        way.pop();
    }

    /// Returns the field at these members.
    pub(super) fn at(&self, members: &[&str]) -> Option<Field> {
        let way: Vec<String> = members.iter().map(|&member| member.to_owned()).collect();
        self.all.get(&way).copied()
    }

    /// Returns the innermost field that contains the value at these members.
    pub(super) fn around(&self, members: &[&str]) -> Option<Field> {
        (1..members.len()).rev().find_map(|end| self.at(&members[..end]))
    }

    /// Returns whether the user can type text: into a field, or as an answer to a question without fields.
    pub(super) fn take_text(&self) -> bool {
        self.all.is_empty() || self.all.values().any(|field| *field != Field::Closed)
    }
}

/// Returns the kind of a field; one that is not understood takes any text.
fn kind(field: RawJson<'_>) -> Field {
    let is_enumeration = field
        .member("enum")
        .is_some_and(|list| list.items().next().is_some());
    if is_enumeration || field.member("const").is_some() || is_choice(field) {
        return Field::Closed;
    }
    match field.member("type").and_then(RawJson::text).as_deref() {
        Some("boolean" | "null") => Field::Closed,
        Some("number" | "integer") => Field::Number,
        // A list of choices is one where its items are.
        Some("array") => field.member("items").map_or(Field::Text, kind),
        Some(_) | None => Field::Text,
    }
}

/// Returns whether a field is a list of titled values and nothing else, as the protocol describes a choice.
fn is_choice(field: RawJson<'_>) -> bool {
    let is_titled = |item: RawJson<'_>| item.member("const").is_some();
    let list = field.member("oneOf").or_else(|| field.member("anyOf"));
    list.is_some_and(|list| list.items().next().is_some() && list.items().all(is_titled))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_case::test_case;

    use super::*;

    #[test_case(json!({"type": "string"}) => Field::Text; "a text")]
    #[test_case(json!({}) => Field::Text; "nothing is said")]
    #[test_case(json!({"type": ["string", "null"]}) => Field::Text; "several types")]
    #[test_case(json!({"type": "integer"}) => Field::Number; "a number")]
    #[test_case(json!({"type": "boolean"}) => Field::Closed; "yes or no")]
    #[test_case(json!({"type": "string", "enum": ["a", "b"]}) => Field::Closed; "one of a list")]
    #[test_case(json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}) => Field::Closed; "one of a titled list")]
    #[test_case(json!({"type": "string", "oneOf": [{"const": "a"}, {"type": "string"}]}) => Field::Text; "a titled value or any text")]
    #[test_case(json!({"type": "string", "enum": []}) => Field::Text; "one of nothing")]
    #[test_case(json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}) => Field::Closed; "several of a list")]
    #[test_case(json!({"type": "array", "items": {"type": "string"}}) => Field::Text; "several texts")]
    fn kinds(field: serde_json::Value) -> Field {
        let schema = json!({"properties": {"x": field}}).to_string();
        let fields = Fields::of(Some(RawJson::trusted(&schema)));
        fields
            .at(&["requestedSchema", "properties", "x"])
            .expect("a field")
    }

    #[test]
    fn a_value_belongs_to_the_innermost_field() {
        let schema = json!({"properties": {"a": {"properties": {"b": {"type": "boolean"}}}}}).to_string();
        let fields = Fields::of(Some(RawJson::trusted(&schema)));
        let outer = ["requestedSchema", "properties", "a", "title"];
        let inner = ["requestedSchema", "properties", "a", "properties", "b", "title"];
        assert_eq!(fields.around(&outer), Some(Field::Text));
        assert_eq!(fields.around(&inner), Some(Field::Closed));
        assert_eq!(fields.around(&["message"]), None);
    }
}
