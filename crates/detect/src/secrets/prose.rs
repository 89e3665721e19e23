//! Secrets in text that people, tools and models wrote: prompts, files, output of commands.

use mcpmon_model::{Redaction, Severity};

use super::{SecretHit, code, found::placeholder, layers, makeup, text, value};

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disclosure {
    /// The kind: the name of a pattern.
    pub kind: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The redaction that removes it from the text.
    pub redaction: Redaction,
}

/// Returns the secrets in `text` that form and context leave no doubt of, in their order, without overlaps: a reader
/// gets another text without them. Text that only looks random is not among them, because lock files, hashes, ids and
/// images look so too; neither are placeholders in code and examples, nor passwords of words and a number.
pub fn in_text(text: &str) -> Vec<Disclosure> {
    hits(text)
        .into_iter()
        .filter(|hit| hit.certain && hit.severity >= Severity::High)
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

/// Returns the possible secrets in such a text.
pub(super) fn hits(text: &str) -> Vec<SecretHit> {
    if !makeup::may_hold(text) {
        return Vec::new();
    }
    let mut hits = text::values(text);
    hits.retain(|hit| is_secret(hit, text));
    hits
}

/// Returns whether a match in such a text is a secret there.
pub(super) fn is_secret(hit: &SecretHit, text: &str) -> bool {
    match hit.kind {
        "high_entropy" | "base64_blob" => false,
        "generic_secret" | "bearer_token" => {
            let value = layers::unescape(&text[hit.span.clone()]);
            // No named secret contains words: an address writes spaces as escapes.
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
    #[test_case(concat!("client", "Secret: prod-db-token-2024") => 0; "words and a year, as people choose them and examples have them")]
    #[test_case(concat!("api", "_key=q7Lx9vTz2mKpW4sR8nYd") => 1; "a key")]
    #[test_case(concat!("clientSecret: q7Lx9vTz", "-2mKpW4sR-token") => 1; "a secret with a word in it")]
    #[test_case(concat!("Authorization: Bear", "er q7Lx9vTz2mKpW4sR8nYd") => 1; "a token")]
    fn secrets(text: &str) -> usize {
        in_text(text).len()
    }

    /// Ordinary contents of documents, pages and configuration are not secrets: changing them would cost the
    /// reader more than it protects.
    #[test_case("<link href=\"https://fonts.example.org/css2?family=Lato:wght@300;400;700&display=swap\">"; "weights of a font")]
    #[test_case("Output must pass `markdownlint-cli2`, and users may pass `plan-id=<dirname>`."; "a verb")]
    #[test_case(concat!("{\"app_", "token\": \"KxWfbTTuRq8mLzQ2VhYcnDpsJaa\", \"table_id\": \"tblQ9x2\"}"); "a handle of a document")]
    #[test_case(concat!("next step: token: `", "Rw7LxQv2NpTz9KmYdAcHjBsWnEg`"); "a token of nothing")]
    #[test_case(concat!("NEO4J_PASS", "WORD=password2\nNEO4J_USER=neo4j\nLOG=debug\nTIMEOUT=30"); "an environment as documents show it")]
    #[test_case(concat!("\"Pass", "word\": \"Autumn@2031\""); "a word and a year")]
    #[test_case(concat!("'Pass", "word': 'ann.b.123', 'First Name': 'Ann'"); "a name and a number")]
    #[test_case(concat!("'Pass", "word': 'SailingBoat4711'"); "words without a space, and a number")]
    #[test_case(concat!("'Pass", "word': 'G4rdenPath'"); "words with a number for a letter")]
    #[test_case(concat!("\"pass", "word\": \"77GreenRiver\""); "a number and words")]
    #[test_case(concat!("\"db.env\": [{\"hashed_", "secret\": \"8d5e957f297893487bd98fa830fa6413bc0a1c22\", \"aws\": true}]"); "what a scanner keeps of a secret")]
    #[test_case("{\"card_number\": \"4111 1111 1111 1111\", \"expiry_date\": \"10/31\"}"; "a card for tests")]
    #[test_case(concat!("A private key opens with `-----BEGIN ... PRIV", "ATE KEY-----` in most files. The documentation of each implementation has more characteristics, and responsibilities."); "a mention of armour without a kind")]
    #[test_case(concat!("| armour | opens with `-----BEGIN EC PRIV", "ATE KEY-----` |\n| identifier | names of accounts in a cloud, as they are told | `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789` |"); "a mention of armour in a table")]
    #[test_case(concat!("const KEY = \"sk_", "live_abc123xyz789\";"); "a key that counts")]
    #[test_case(concat!("JWT_SECRET", "_KEY=shared-test-secret-98765"); "words that say what it is for")]
    #[test_case(concat!("postgres://shop:", "shop2024@localhost:5432/shop"); "a password of this machine")]
    #[test_case(concat!("postgres://app:", "r7Kx2Q@db.example.com/app"); "a host of documents")]
    #[test_case(concat!("sess_cookie=", "k3Jx9Qw2Zt7Lp5Vn8Rb1"); "a cookie")]
    #[test_case("order 4539578763621486 was shipped"; "a number with the check digit of a card")]
    #[test_case(concat!("Authorization: Bear", "er eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"); "the token of the documentation")]
    fn what_texts_have_all_day(text: &str) {
        assert_eq!(in_text(text), []);
    }

    /// The same forms, with what is a secret beyond doubt.
    #[test_case(concat!("api_", "token = \"KxWfbTTuRq8mLzQ2VhYcnDpsJaa\"") => "generic_secret"; "a token that opens something")]
    #[test_case(concat!("INFLUX_", "TOKEN=Rw7LxQv2NpTz9KmYdAcHjBsWnEg") => "generic_secret"; "a variable")]
    #[test_case(concat!("NEO4J_PASS", "WORD=q7Lx9vTz2mKp\nNEO4J_USER=neo4j\nLOG=debug\nTIMEOUT=30") => "generic_secret"; "an environment: nothing but the value")]
    #[test_case(concat!("const KEY = \"sk_", "live_4eC39HqLyjWDarjtT1zdp7dc\";") => "stripe_key"; "a key of an issuer")]
    #[test_case(concat!("xoxb-", "730191371696-1413868247813-IG7Z6nYevC2hdviE3aJhb5kY") => "slack_token"; "an issuer's, with numbers")]
    #[test_case(concat!("postgres://app:", "t9Kq2vX7pLw4@localhost:5432/app") => "database_url"; "a generated password of this machine")]
    #[test_case(concat!("postgres://app:", "Xk9mQ2@db.acme.io/app") => "database_url"; "a chosen password of a host")]
    #[test_case(concat!("-----BEGIN RSA PRIV", "ATE KEY-----\\nProc-Type: 4,ENCRYPTED\\nMIIEpAIBAAKCAQEAt7Kx2Qv9Lw4m8Zr5Tn1Yp6Hs3Jd0Gf\\nbK4mN8vQ2xW6zR1tY5uI9oP3aS7dF0gH4jK8lZ2xC6vB1n\\n") => "private_key"; "a key that was cut")]
    #[test_case("Visa card: 4539578763621486" => "credit_card"; "a number that is called a card")]
    #[test_case(concat!("Authorization: Bear", "er eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1c3JfOTkxIiwiZXhwIjoxOTg3NjU0MzIxfQ.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U") => "bearer_token"; "a token of a server")]
    fn what_is_one_beyond_doubt(text: &str) -> &'static str {
        let found = in_text(text);
        let [secret] = &found[..] else {
            panic!("one secret: {found:?}");
        };
        assert!(!text[secret.redaction.place.clone()].contains('\n'), "{secret:?}");
        secret.kind
    }
}
