//! Documents and challenges of authorisation, made to fit the address by which a client knows the server.

use serde_json::{Map, Value};

/// A challenge that sends clients to `own` for the server's metadata; and where it sent them.
pub(super) fn challenge(text: &str, own: &str) -> (String, Option<String>) {
    const NAME: &str = "resource_metadata=\"";
    let lower = text.to_ascii_lowercase();
    let Some(start) = lower.find(NAME).map(|at| at + NAME.len()) else {
        return (text.to_owned(), None);
    };
    let end = text[start..].find('"').map_or(text.len(), |at| start + at);
    let announced = text[start..end].to_owned();
    (
        format!("{}{own}{}", &text[..start], &text[end..]),
        Some(announced),
    )
}

/// Metadata of a resource that is known as `own`.
pub(super) fn protected_resource(body: &[u8], own: &str) -> Option<Vec<u8>> {
    let mut members: Map<String, Value> = serde_json::from_slice(body).ok()?;
    members.insert("resource".to_owned(), own.into());
    serde_json::to_vec(&members).ok()
}

/// Metadata of who gives out tokens, as it is.
pub(super) fn authorization_server(body: &[u8]) -> Option<Vec<u8>> {
    let members: Map<String, Value> = serde_json::from_slice(body).ok()?;
    serde_json::to_vec(&members).ok()
}
