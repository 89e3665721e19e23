//! Names of secrets: of flags, variables, headers, members and parameters.

use crate::tables::{self, WordList};

/// The claim of a name about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameClaim {
    /// The value is a password, which a person chose.
    Password,
    /// The value is a key, a token or another generated secret.
    Generated,
    /// The value is a key of some kind.
    Key,
    /// The value is related to a secret.
    Hint,
}

/// Words before `token` if the token is no secret.
static PLAIN_TOKENS: WordList = tables::SECRETS.list("names", "plain_tokens");

/// Words before `key` if the key is a secret.
static OPENING: WordList = tables::SECRETS.list("names", "opening");

/// Words that end like passwords, but are none.
static PLAIN_PASSES: WordList = tables::SECRETS.list("names", "plain_passes");

/// Words of keys that are no secrets.
static PLAIN_KEYS: WordList = tables::SECRETS.list("names", "plain_keys");

/// Words that may follow the decisive one.
static TRAILING: WordList = tables::SECRETS.list("names", "trailing");

/// Returns whether a flag, variable or header of this name contains a secret, by the last words of the name.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let name = name.trim_matches(['"', '\'']);
    matches!(claim(name), Some(NameClaim::Password | NameClaim::Generated))
}

/// Returns whether a text can be a name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Returns the claim of a name; `None` if it claims no secret.
pub(super) fn claim(name: &str) -> Option<NameClaim> {
    if !is_name(name) {
        return None;
    }
    let spelled = spelled(name);
    let mut words: Vec<&str> = spelled.split('_').filter(|word| !word.is_empty()).collect();
    while words.len() > 1
        && words
            .last()
            .is_some_and(|word| TRAILING.contains(word) || word.bytes().all(|b| b.is_ascii_digit()))
    {
        words.pop();
    }
    let (last, before) = words.split_last()?;
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit());
    let previous = before.last().copied().unwrap_or_default();
    if words.iter().any(|word| matches!(*word, "public" | "publishable")) {
        return None;
    }
    match last {
        "cookie" | "pat" | "bearer" => return Some(NameClaim::Generated),
        "pass" | "pw" | "psw" | "pin" if last != "pin" || previous == "card" => {
            return Some(NameClaim::Password);
        }
        _ if last.ends_with("pass") && last.len() > 5 && !ends_with_any(last, &PLAIN_PASSES) => {
            return Some(NameClaim::Password);
        }
        "sig" | "signature" | "credential" | "credentials" | "authorization" => {
            return Some(NameClaim::Generated);
        }
        _ => {}
    }
    if is_password(last) {
        return Some(NameClaim::Password);
    }
    if ends_with_any(last, &["token"]) {
        let joined = last.strip_suffix("token").unwrap_or_default();
        let is_plain = PLAIN_TOKENS.contains(&previous) || PLAIN_TOKENS.contains(&joined);
        return (!is_plain).then_some(NameClaim::Generated);
    }
    if ends_with_any(
        last,
        &[
            "secret",
            "apikey",
            "accesskey",
            "secretkey",
            "privatekey",
            "authkey",
            "licensekey",
        ],
    ) {
        return Some(NameClaim::Generated);
    }
    if words.iter().any(|word| PLAIN_KEYS.contains(word)) {
        return None;
    }
    if matches!(last, "key" | "api")
        || last.ends_with("key") && last.len() > 4 && !matches!(last, "monkey" | "turkey" | "hotkey")
    {
        let opens = before.iter().any(|word| OPENING.contains(word)) && last != "api";
        return Some(if opens {
            NameClaim::Generated
        } else {
            NameClaim::Key
        });
    }
    let hints = words.iter().any(|word| {
        ["passw", "secret", "token", "auth"]
            .iter()
            .any(|hint| word.contains(hint))
    });
    hints.then_some(NameClaim::Hint)
}

/// Words before `token` if it is a secret: without one it may be a handle of a page, a document, a cursor.
static OPENING_TOKENS: WordList = tables::SECRETS.list("names", "opening_tokens");

/// Words of names whose values only identify a person or a role, and are no secrets.
static SHOWN: WordList = tables::SECRETS.list("names", "shown");

/// Returns whether a value of this name is certainly a secret: the name is more specific than `token`, and not that of
/// a public value.
pub(super) fn opens(name: &str) -> bool {
    let is_variable = name.contains('_') && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let spelled = spelled(name);
    let mut words = spelled.split('_').filter(|word| !word.is_empty());
    if words.clone().any(|word| SHOWN.contains(&word)) {
        return false;
    }
    let is_token = spelled.contains("token");
    !is_token || is_variable || words.any(|word| OPENING_TOKENS.contains(&word.trim_end_matches("token")))
}

/// Returns whether a word is one for a password: in any spelling, mistyped, or in another language.
fn is_password(word: &str) -> bool {
    word.contains("passw")
        || ends_with_any(
            word,
            &[
                "paswords",
                "passphrase",
                "passcode",
                "kennwort",
                "contrasena",
                "senha",
                "pwd",
                "pswd",
                "paswd",
                "pasword",
                "psword",
                "pswrd",
                "psswrd",
                "pssword",
                "pword",
                "userpwd",
            ],
        )
}

fn ends_with_any(word: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| word.ends_with(ending))
}

/// Returns a kebab-case, snake_case or camelCase name in lower case, with `_` between its words.
fn spelled(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len() + 8);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && was_lower {
            spelled.push('_');
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        spelled.push(match c {
            '-' | '.' => '_',
            c => c.to_ascii_lowercase(),
        });
    }
    spelled
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("password" => Some(NameClaim::Password))]
    #[test_case("DB_PASSWORD" => Some(NameClaim::Password); "variable")]
    #[test_case("userPw" => Some(NameClaim::Password); "camel case")]
    #[test_case("--api-key" => Some(NameClaim::Generated); "flag")]
    #[test_case("some_api_token_123" => Some(NameClaim::Generated); "numbered")]
    #[test_case("token_value" => Some(NameClaim::Generated); "value of")]
    #[test_case("secret_path" => Some(NameClaim::Hint); "has to do with one")]
    #[test_case("pageToken" => None; "of a page")]
    #[test_case("some_key" => Some(NameClaim::Key); "a key")]
    #[test_case("sortKey" => None; "a key that opens nothing")]
    #[test_case("public_key" => None; "public")]
    #[test_case("IFLA_VXLAN_LOCALBYPASS" => None; "a word that ends as passwords do")]
    #[test_case("gpg-key" => None; "a key that is known by its fingerprint")]
    #[test_case("pattern" => None; "no word of it")]
    #[test_case("two words" => None; "no name")]
    fn names_claim(name: &str) -> Option<NameClaim> {
        claim(name)
    }
}
