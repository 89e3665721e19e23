//! Names that say that a secret follows: of flags, variables, headers, members and parameters.

/// What a name says of the value that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// It is a password, which a person chose.
    Password,
    /// It is a key, a token or another secret that was generated.
    Generated,
    /// It is a key of some kind.
    Key,
    /// It has to do with one.
    Hint,
}

/// Words that stand in front of `token` where it is none that opens anything.
const PLAIN_TOKENS: [&str; 32] = [
    "authenticity",
    "begin",
    "bos",
    "completion",
    "continuation",
    "count",
    "csrf",
    "current",
    "cursor",
    "design",
    "end",
    "eos",
    "first",
    "generic",
    "input",
    "last",
    "lexical",
    "mask",
    "max",
    "min",
    "next",
    "num",
    "output",
    "pad",
    "page",
    "prompt",
    "resume",
    "special",
    "start",
    "stop",
    "sync",
    "total",
];

/// Words that make a key one that opens something.
const OPENING: [&str; 24] = [
    "access",
    "account",
    "activation",
    "admin",
    "anon",
    "api",
    "app",
    "auth",
    "authentication",
    "authorization",
    "client",
    "consumer",
    "encryption",
    "license",
    "live",
    "master",
    "private",
    "role",
    "root",
    "secret",
    "service",
    "shared",
    "signing",
    "storage",
];

/// Words that end as passwords do.
const PLAIN_PASSES: [&str; 7] = [
    "bypass",
    "compass",
    "encompass",
    "overpass",
    "surpass",
    "trespass",
    "underpass",
];

/// Words of keys that open nothing.
const PLAIN_KEYS: [&str; 12] = [
    "cache",
    "column",
    "foreign",
    "index",
    "map",
    "object",
    "partition",
    "primary",
    "schema",
    "sequence",
    "sort",
    "unique",
];

/// Words that may follow the one that counts.
const TRAILING: [&str; 10] = [
    "b64", "base64", "default", "str", "string", "test", "text", "txt", "val", "value",
];

/// Whether a flag, variable or header of this name carries a secret, by the last words of the name.
pub(in crate::inspect) fn names_a_secret(name: &str) -> bool {
    let name = name.trim_matches(['"', '\'']);
    matches!(claim(name), Some(Claim::Password | Claim::Generated))
}

/// Whether a text can be the name of anything.
pub(in crate::inspect) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// What a name says; `None` where it says nothing of secrets.
pub(super) fn claim(name: &str) -> Option<Claim> {
    if !is_name(name) {
        return None;
    }
    let mut words = words_of(name);
    while words.len() > 1
        && words
            .last()
            .is_some_and(|word| TRAILING.contains(&word.as_str()) || word.bytes().all(|b| b.is_ascii_digit()))
    {
        words.pop();
    }
    let (last, before) = words.split_last()?;
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit());
    let previous = before.last().map_or("", String::as_str);
    if words.iter().any(|word| word == "public" || word == "publishable") {
        return None;
    }
    match last {
        "cookie" | "pat" | "bearer" => return Some(Claim::Generated),
        "pass" | "pw" | "psw" | "pin" if last != "pin" || previous == "card" => return Some(Claim::Password),
        _ if last.ends_with("pass") && last.len() > 5 && !PLAIN_PASSES.contains(&last) => {
            return Some(Claim::Password);
        }
        "sig" | "signature" | "credential" | "credentials" | "authorization" => {
            return Some(Claim::Generated);
        }
        _ => {}
    }
    if is_password(last) {
        return Some(Claim::Password);
    }
    if ends_with_any(last, &["token"]) {
        let is_plain = PLAIN_TOKENS.contains(&previous)
            || PLAIN_TOKENS.iter().any(|word| last == [word, "token"].concat());
        return (!is_plain).then_some(Claim::Generated);
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
        return Some(Claim::Generated);
    }
    let is_plain = |word: &String| PLAIN_KEYS.contains(&word.as_str());
    if words.iter().any(is_plain) {
        return None;
    }
    if matches!(last, "key" | "api")
        || last.ends_with("key") && last.len() > 4 && !matches!(last, "monkey" | "turkey" | "hotkey")
    {
        let opens = before.iter().any(|word| OPENING.contains(&word.as_str())) && last != "api";
        return Some(if opens { Claim::Generated } else { Claim::Key });
    }
    let hints = words.iter().any(|word| {
        ["passw", "secret", "token", "auth"]
            .iter()
            .any(|hint| word.contains(hint))
    });
    hints.then_some(Claim::Hint)
}

/// Passwords in the ways they are written, and mistyped, and in other languages.
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

/// The words of a kebab-case, snake_case or camelCase name, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let starts_word = c.is_ascii_uppercase() && was_lower;
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        if matches!(c, '-' | '_' | '.') {
            words.push(String::new());
            continue;
        }
        if starts_word {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("password" => Some(Claim::Password))]
    #[test_case("DB_PASSWORD" => Some(Claim::Password); "variable")]
    #[test_case("userPw" => Some(Claim::Password); "camel case")]
    #[test_case("--api-key" => Some(Claim::Generated); "flag")]
    #[test_case("some_api_token_123" => Some(Claim::Generated); "numbered")]
    #[test_case("token_value" => Some(Claim::Generated); "value of")]
    #[test_case("secret_path" => Some(Claim::Hint); "has to do with one")]
    #[test_case("pageToken" => None; "of a page")]
    #[test_case("some_key" => Some(Claim::Key); "a key")]
    #[test_case("sortKey" => None; "a key that opens nothing")]
    #[test_case("public_key" => None; "public")]
    #[test_case("pattern" => None; "no word of it")]
    #[test_case("two words" => None; "no name")]
    fn names_claim(name: &str) -> Option<Claim> {
        claim(name)
    }
}
