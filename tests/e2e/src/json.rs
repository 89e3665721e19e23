//! Short accessors for fields of JSON objects.

use serde_json::Value;

/// Returns a text field; empty if the object does not have it.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a numeric field; 0 if the object does not have it.
#[must_use]
pub fn number(object: &Value, field: &str) -> u64 {
    object.get(field).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns whether `object` is an event of this type about this server.
#[must_use]
pub fn is(object: &Value, kind: &str, server: &str) -> bool {
    text(object, "type") == kind && text(object, "server_id") == server
}
