//! Secrets in text that people, tools and models wrote: prompts, files, output of commands.

use super::{Hit, code, found::placeholder, layers, makeup, text, value};
use crate::model::{Redaction, Severity};

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disclosure {
    /// What it is: the name of a pattern.
    pub kind: &'static str,
    /// How bad it is that it is there.
    pub severity: Severity,
    /// What takes it out of the text.
    pub redaction: Redaction,
}

/// The secrets in `text`, in their order, none overlapping another. What only looks random is none of them: lock
/// files, hashes, ids and images do too. What code and examples have where a secret would stand is none either.
#[must_use]
pub fn in_text(text: &str) -> Vec<Disclosure> {
    hits(text)
        .into_iter()
        .map(|hit| Disclosure {
            kind: hit.kind,
            severity: hit.severity,
            redaction: Redaction {
                text: placeholder(hit.kind),
                place: hit.span,
            },
        })
        .collect()
}

/// What a secret is in such a text.
pub(super) fn hits(text: &str) -> Vec<Hit> {
    if !makeup::may_hold(text) {
        return Vec::new();
    }
    let mut hits = text::hits(text);
    hits.retain(|hit| is_secret(hit, text));
    hits
}

/// Whether what was found in such a text is a secret there.
pub(super) fn is_secret(hit: &Hit, text: &str) -> bool {
    match hit.kind {
        "high_entropy" | "base64_blob" => false,
        "generic_secret" | "bearer_token" => {
            let value = layers::unescape(&text[hit.span.clone()]);
            // No secret that has a name has words: an address writes them with escapes.
            !value.contains(' ')
                && !value::is_made_up(&value)
                && (hit.kind == "bearer_token" || !code::is_expression(&value))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::in_text;

    #[test_case("let token = crypto_random_string::<24>();" => 0; "a function")]
    #[test_case("OpenAI(api_key=embedding_api_key, base_url=url)" => 0; "a variable")]
    #[test_case("clientSecret: my-app-secret" => 0; "a name in an example")]
    #[test_case("curl -H \"Authorization: Bearer my-new-token\"" => 0; "a token in an example")]
    #[test_case("return \"Bearer \" + self.read_key_of_session()" => 0; "a token that is put together")]
    #[test_case("clientSecret: github_token_123" => 0; "a number that counts")]
    #[test_case(concat!("client", "Secret: prod-db-token-2024") => 1; "words and a year, as people choose them")]
    #[test_case(concat!("api", "_key=q7Lx9vTz2mKpW4sR8nYd") => 1; "a key")]
    #[test_case(concat!("clientSecret: q7Lx9vTz", "-2mKpW4sR-token") => 1; "a secret with a word in it")]
    #[test_case(concat!("Authorization: Bear", "er q7Lx9vTz2mKpW4sR8nYd") => 1; "a token")]
    fn secrets(text: &str) -> usize {
        in_text(text).len()
    }
}
