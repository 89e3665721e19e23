//! Questions to the user that ask for credentials, which MCP forbids in forms.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    inspect::walk::{self, Part},
    model::{Category, Finding, Match, RawJson, Severity, Standing},
};

/// What no form may ask for, as the name of a field or in the question.
static CREDENTIAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?:^|[^a-z])(?:pass(?:word|wd|phrase|code)s?|pwd|pin ?(?:code|number)|api[ _-]?(?:key|token|secret)s?|(?:access|auth|authentication|bearer|refresh|session|personal[ _-]access|secret)[ _-]?(?:token|key)s?|client[ _-]?secrets?|private[ _-]?keys?|ssh[ _-]?keys?|secrets?|credentials?|seed phrase|mnemonic|recovery (?:phrase|code)s?|one[ _-]?time (?:password|code)s?|otp|2fa|mfa|verification code|cvv|cvc|card number|credit card|social security|ssn|token)(?:$|[^a-z])",
    )
    .expect("a constant pattern is compiled by every test")
});

/// What asks for credentials in the parameters of a question, if anything does. A question that leads to a page of
/// the server's (`mode: url`) is no form.
pub(super) fn asks_for_credentials(params: RawJson<'_>) -> Option<Finding> {
    let mut found = None;
    let mut leads_to_page = false;
    walk::strings(params, |path, part, text| {
        leads_to_page |= part == Part::Value && path.members().eq(["mode"]) && text == "url";
        if found.is_some() || !is_asked(path, part) {
            return;
        }
        // `apiKey` and `api_key` are one name.
        let spaced = if part == Part::Key {
            spaced(&text)
        } else {
            text.into_owned()
        };
        if let Some(asked) = CREDENTIAL.find(&spaced) {
            found = Some(Finding {
                pattern: "asks_for_credentials".to_owned(),
                category: Category::CredentialTheft,
                severity: Severity::High,
                field: path.shown(),
                matches: vec![Match {
                    text: asked
                        .as_str()
                        .trim_matches(|c: char| !c.is_alphanumeric())
                        .to_owned(),
                    position: asked.start(),
                    context: spaced.chars().take(100).collect(),
                }],
                standing: Standing::Asserted,
            });
        }
    });
    found.filter(|_| !leads_to_page)
}

/// The message, names of the fields of the form, and what is said of them.
fn is_asked(path: &walk::Path<'_>, part: Part) -> bool {
    let members: Vec<&str> = path.members().collect();
    match (members.as_slice(), part) {
        (["message"] | ["requestedSchema", "properties", _, "title" | "description"], Part::Value)
        | (["requestedSchema", "properties", _], Part::Key) => true,
        (_, Part::Key | Part::Value) => false,
    }
}

/// A name with its words apart.
fn spaced(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = c.is_lowercase();
        words.push(c);
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_case::test_case;

    use super::*;

    #[test_case(json!({"message": "Enter your GitHub password"}), Some("message"); "in the question")]
    #[test_case(json!({"message": "Please log in", "requestedSchema": {"type": "object", "properties": {"apiKey": {"type": "string"}}}}), Some("requestedSchema.properties.apiKey"); "as a field")]
    #[test_case(json!({"message": "Go on?", "requestedSchema": {"properties": {"x": {"title": "Access token"}}}}), Some("requestedSchema.properties.x.title"); "as a title")]
    #[test_case(json!({"message": "Which folder?", "requestedSchema": {"properties": {"passage": {"description": "A passage of the text"}, "pinned": {"type": "boolean"}}}}), None; "words that look alike")]
    #[test_case(json!({"mode": "url", "message": "Enter your password on our page", "url": "https://a.example"}), None; "a page")]
    #[test_case(json!({"message": "Your name?", "requestedSchema": {"properties": {"name": {"default": "secret"}}}}), None; "a default")]
    fn credentials_are_not_asked_for(params: serde_json::Value, expected: Option<&str>) {
        let json = params.to_string();
        let found = asks_for_credentials(RawJson::trusted(&json)).map(|finding| finding.field);
        assert_eq!(found.as_deref(), expected);
    }
}
