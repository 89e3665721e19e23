//! Credentials inside addresses: `scheme://user:secret@host`.

use mcpmon_model::Severity;

use super::{
    SecretHit,
    value::{self, ValueStrength},
};
use crate::tables::{self, WordList};

/// Longest authority that is read, bytes.
const MAX_BYTES: usize = 512;

/// Schemes of databases and brokers.
static STORES: WordList = tables::SECRETS.list("url", "stores");

/// Returns the credentials in the address whose `://` ends at `start`.
pub(super) fn at(text: &str, start: usize) -> Option<SecretHit> {
    let rest = text.get(start..text.floor_char_boundary(start + MAX_BYTES))?;
    let rest = &rest[..rest.find("://").unwrap_or(rest.len())];
    let ends = |c: char| c.is_whitespace() || "\"'`<>\\,;|".contains(c);
    // `{{ name }}` contains spaces, and is no secret.
    let near = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let authority = match near.find(['/', '?', '#']) {
        Some(slash) if near[..slash].contains('@') => &near[..slash],
        // A password may contain these characters where a host could not; a user's name does not.
        Some(slash)
            if near[..slash]
                .find(':')
                .is_some_and(|colon| near[colon + 1..].starts_with(|c: char| !c.is_ascii_digit())) =>
        {
            near
        }
        Some(slash) => &near[..slash],
        None => near,
    };
    let (userinfo, host) = authority.rsplit_once('@')?;
    // An address can be cut off after its secret.
    let is_cut = host.is_empty() && userinfo.contains(':');
    if host.is_empty() && !is_cut || host.starts_with('$') && userinfo.is_empty() {
        return None;
    }
    let (user, secret, offset) = match userinfo.split_once(':') {
        Some((user, secret)) => (user, secret, user.len() + 1),
        None => ("", userinfo, 0),
    };
    let severity = grade(user, secret, offset > 0)?;
    let from = start + offset;
    let hit = SecretHit::new(kind(&text[..start]), severity, from..from + secret.len());
    let is_chosen = secret.len() >= CHOSEN && !value::is_spoken(secret) && !value::is_invented(secret);
    let is_certain = value::is_generated(secret) || is_chosen && is_distant(host);
    Some(hit.only_if(is_certain))
}

/// Shortest chosen password that is certain.
const CHOSEN: usize = 6;

/// Returns whether a host is a real remote one, not that of an example or of this machine.
fn is_distant(host: &str) -> bool {
    let host = host
        .split([':', '/', '?'])
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let is_address = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let mut labels = host.split('.');
    host.contains('.')
        && !is_address
        && !labels.any(|label| {
            matches!(
                label,
                "example" | "host" | "server" | "local" | "test" | "localhost" | "domain"
            )
        })
}

fn grade(user: &str, secret: &str, has_user: bool) -> Option<Severity> {
    if secret.is_empty() || value::is_reference(secret) || value::is_reference(user) || secret.contains('/') {
        return None;
    }
    if !has_user {
        // `https://token@host`: a plain name is no secret.
        return (value::strength(secret, true) == ValueStrength::Random).then_some(Severity::High);
    }
    if value::is_placeholder(secret)
        || secret == "guest"
        || secret.eq_ignore_ascii_case(user) && value::is_wordy(secret)
    {
        return Some(Severity::Low);
    }
    (secret.len() >= 3).then_some(Severity::High)
}

fn kind(before: &str) -> &'static str {
    let scheme = before.trim_end_matches("://");
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    let name = scheme.rsplit(|c| !is_part(c)).next().unwrap_or_default();
    let name = name.split('+').next().unwrap_or_default();
    if STORES.iter().any(|store| store.eq_ignore_ascii_case(name)) {
        "database_url"
    } else {
        "basic_auth"
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("https://ann:h7Gq-2@a.example/x" => Some(("basic_auth", Severity::High)); "userinfo")]
    #[test_case("postgres://app:s3cr@t@db:5432/x" => Some(("database_url", Severity::High)); "at sign inside")]
    #[test_case("mongodb+srv://app:k2Lp9@c0.example/?w=1" => Some(("database_url", Severity::High)); "srv")]
    #[test_case("redis://:k2Lp9x@cache/0" => Some(("database_url", Severity::High)); "no user")]
    #[test_case("https://u:a/b9#c@h.example" => None; "a slash inside could be anything")]
    #[test_case("https://ann:h7Gq-2@" => Some(("basic_auth", Severity::High)); "cut off behind the secret")]
    #[test_case("https://ann@" => None; "cut off behind a name")]
    #[test_case("https://user:password@a.example" => Some(("basic_auth", Severity::Low)); "placeholder")]
    #[test_case("https://$USER:$PASS@a.example" => None; "variables")]
    #[test_case("https://${USER}:${PASS}@a.example" => None; "braces")]
    #[test_case("https://<user>:<pass>@a.example" => None; "angle brackets")]
    #[test_case("https://a.example/@scope/x" => None; "scope in a path")]
    #[test_case("https://me@a.example" => None; "a name alone")]
    #[test_case("https://a.example:8080/x?mail=a@b.example" => None; "mail in a query")]
    fn addresses(text: &str) -> Option<(&'static str, Severity)> {
        let start = text.find("://").expect("an address") + 3;
        at(text, start).map(|hit| (hit.kind, hit.severity))
    }
}
