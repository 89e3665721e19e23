//! Addresses of pages that are opened for a user, and whether they are what they seem to be.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::instructions::lists::QUESTIONS;

use crate::normalise::skeleton::Skeleton;

/// Bytes of the longest host with a port that is read (RFC 1035: 253 characters, each of up to four bytes).
const MAX_AUTHORITY: usize = 1024;
/// Shortest name of a company that another one can be taken for.
const MIN_NAME: usize = 5;

/// Hosts at which people log in.
fn hosts() -> impl Iterator<Item = &'static str> {
    QUESTIONS["hosts"].each()
}

/// Returns the reason why an address leads elsewhere than it seems to, or to no page at all.
pub(super) fn misleads(url: &str) -> Option<&'static str> {
    if url
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || c == '\\')
    {
        return Some("readers differ on where it leads");
    }
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return Some("it is no page of the web");
    }
    let Some(rest) = rest.strip_prefix("//") else {
        return Some("readers differ on where it leads");
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') {
        return Some("it names a user before its host, which reads like a host");
    }
    if authority.len() > MAX_AUTHORITY {
        return Some("its host is longer than a host can be");
    }
    // Browsers take these for the dot between labels.
    let host = without_port(authority)
        .to_lowercase()
        .replace(['\u{3002}', '\u{ff0e}', '\u{ff61}'], ".");
    if host.is_empty() || host.contains('%') || host.split('.').any(|label| decoded(label).contains(is_sign))
    {
        return Some("readers differ on where it leads");
    }
    numeric(&host).unwrap_or_else(|| named(&host))
}

fn without_port(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        Some(_) | None => authority,
    }
}

/// Returns the objection to an address with a number for a host; `None` if it has a name.
fn numeric(host: &str) -> Option<Option<&'static str>> {
    const NO_NAME: Option<&str> = Some("its host is a number and no name");
    if let Some(inside) = host.strip_prefix('[') {
        let address = inside
            .strip_suffix(']')
            .and_then(|six| six.parse::<Ipv6Addr>().ok());
        return Some(match address {
            Some(six) if six.is_loopback() || six.is_unique_local() => None,
            Some(_) | None => NO_NAME,
        });
    }
    if let Ok(four) = host.parse::<Ipv4Addr>() {
        return Some(if four.is_loopback() || four.is_private() {
            None
        } else {
            NO_NAME
        });
    }
    // `0x7f.1` and `2130706433` are numbers, too.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_number.then_some(NO_NAME)
}

/// Returns the objection to a name.
fn named(host: &str) -> Option<&'static str> {
    const LOOKS_LIKE: &str = "its host looks like another one";
    let host = host.trim_end_matches('.');
    if host.split('.').any(|label| is_disguised(&decoded(label))) {
        return Some(LOOKS_LIKE);
    }
    // `github.com.example.net`, `login-github-com.example.net`
    let is_at = |known: &str| host == known || host.ends_with(&format!(".{known}"));
    let is_known = hosts().any(is_at);
    let dotted = format!(".{}", host.replace('-', "."));
    let holds = |known: &&str| {
        let plain = format!(".{host}");
        // `amazon.com.br` is the company's own host in a country.
        let is_of_country =
            |behind: &str| behind.len() == 2 && behind.bytes().all(|byte| byte.is_ascii_lowercase());
        let plain = plain
            .split_once(&format!(".{known}."))
            .is_some_and(|(_, behind)| !is_of_country(behind));
        let is_telling = known.len() > MIN_NAME + ".com".len();
        plain || is_telling && host.contains('-') && dotted.contains(&format!(".{known}."))
    };
    if !is_known && hosts().any(|known| holds(&known)) {
        return Some(LOOKS_LIKE);
    }
    // `g1thub.com`, `rnicrosoft.com`, `gıthub.com`
    let name = decoded(host.rsplit('.').nth(1).unwrap_or(host));
    let seen = look(&Skeleton::of(&name).text);
    let is_like = |known: &str| {
        let known = known.rsplit('.').nth(1).unwrap_or(known);
        known.len() >= MIN_NAME && known != name && look(known) == seen
    };
    hosts().any(is_like).then_some(LOOKS_LIKE)
}

/// Returns a label of a host as people see it: `xn--…` encodes other letters.
fn decoded(label: &str) -> String {
    let unicode = label
        .strip_prefix("xn--")
        .and_then(idna::punycode::decode_to_string);
    unicode.unwrap_or_else(|| label.to_owned())
}

/// Returns whether a character is a sign beyond ASCII, such as those that look like a slash or a dot.
const fn is_sign(c: char) -> bool {
    matches!(c, '\u{2000}'..='\u{2bff}' | '\u{a789}' | '\u{fe10}'..='\u{fe1f}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff0f}')
}

/// Returns whether letters of other scripts make a label look like one of ASCII; letters with accents do not.
fn is_disguised(label: &str) -> bool {
    /// The first character after the Latin letters.
    const OTHER_SCRIPTS: char = '\u{370}';
    label.chars().any(|c| c >= OTHER_SCRIPTS) && Skeleton::of(label).text.is_ascii()
}

/// Returns a name in which look-alikes are equal.
fn look(name: &str) -> String {
    let folded = name.replace("rn", "m").replace("vv", "w");
    let letter = |c| match c {
        '0' => 'o',
        '1' | 'i' => 'l',
        '3' => 'e',
        '5' => 's',
        _ => c,
    };
    folded.chars().filter(|c| *c != '-').map(letter).collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("javascript:alert(1)"; "a script")]
    #[test_case("JavaScript:alert(1)"; "a script in other case")]
    #[test_case("file:///etc/passwd"; "a file")]
    #[test_case("data:text/html,x"; "data")]
    #[test_case("vscode://x/y"; "a program")]
    #[test_case("/login"; "no scheme")]
    #[test_case("https:/github.com"; "one slash")]
    #[test_case("https://github.com@evil.example/login"; "a user that looks like a host")]
    #[test_case("https://github.com\\@evil.example"; "a backslash")]
    #[test_case("https://a.example/\nx"; "a line break")]
    #[test_case(" https://a.example"; "a space")]
    #[test_case("https://203.0.113.7/login"; "a number")]
    #[test_case("http://169.254.169.254/latest"; "a number of the link")]
    #[test_case("https://3405803783/"; "one number")]
    #[test_case("https://0xcb007107/"; "in hexadecimal")]
    #[test_case("https://[2001:db8::7]/"; "six")]
    #[test_case("https://gіthub.com/login"; "letters of another script")]
    #[test_case("https://xn--gthub-n2e.com/login"; "the same, encoded")]
    #[test_case("https://github.com.evil.example/login"; "a host within a host")]
    #[test_case("https://github.com\u{3002}evil.example/login"; "a host within a host, with an ideographic full stop")]
    #[test_case("https://login-github-com.evil.example/"; "the same with hyphens")]
    #[test_case("https://github.com\u{2044}login.evil.example/"; "a sign that looks like a slash")]
    #[test_case("https://github.xn--comlogin-g03d.evil.example/"; "the same, encoded")]
    #[test_case("https://gıthub.com/"; "an i without a dot")]
    #[test_case("https://xn--gthub-n4a.com/"; "an i without a dot, encoded")]
    #[test_case("https://g1thub.com/"; "a digit")]
    #[test_case("https://rnicrosoft.com/"; "two letters for one")]
    #[test_case("https://%67ithub.com/"; "an escape")]
    fn leads_elsewhere(url: &str) {
        assert!(misleads(url).is_some());
    }

    #[test_case("https://github.com/login/oauth/authorize?client_id=x&redirect_uri=http%3A%2F%2Flocalhost"; "a login")]
    #[test_case("https://gist.github.com/x"; "a host of a company")]
    #[test_case("https://github.corp.example/login"; "a company's own")]
    #[test_case("https://login.microsoftonline.com/common"; "a long one")]
    #[test_case("http://localhost:8080/cb"; "this host")]
    #[test_case("http://127.0.0.1:8080/cb"; "this host by number")]
    #[test_case("http://[::1]:8080/cb"; "this host by a long number")]
    #[test_case("http://192.168.1.10:8123/auth"; "the same network")]
    #[test_case("https://müller.example/"; "an accent")]
    #[test_case("https://xn--mller-kva.example/"; "an accent, encoded")]
    #[test_case("https://пример.example/"; "another language")]
    #[test_case("https://a.example/profile/@me?next=user@host"; "a sign in a path")]
    #[test_case("https://a.example:8443/x"; "a port")]
    #[test_case("https://strides.com/"; "another word")]
    #[test_case("https://kapı.example/"; "a word with an i without a dot")]
    fn is_what_it_seems(url: &str) {
        assert_eq!(misleads(url), None);
    }
}
