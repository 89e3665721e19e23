//! Secrets in argument vectors and in the arguments of calls, masked before they are kept.
//!
//! A secret is recognised by the name in front of it, by its issuer's prefix, or because it looks random. In doubt it
//! is masked; paths, package names, UUIDs and hexadecimal digests are kept, except in the path of a URL.

mod json;

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

pub use self::json::mask_json;
use super::secrets::{self, is_name, names_a_secret};
pub use mcpmon_model::MASK;

/// Returns `arguments` with every value that looks like a secret replaced by [`MASK`].
pub fn mask_arguments(arguments: &[String]) -> Vec<String> {
    let mut context = MaskContext::default();
    arguments
        .iter()
        .map(|argument| mask_argument(&mask_members(&without_secrets(argument)), &mut context))
        .collect()
}

/// Masks one text, a command line or a sentence, word by word.
pub fn mask_text(text: &str) -> String {
    mask_words(&mask_members(&without_secrets(text)), &mut MaskContext::default())
}

/// Returns `text` without the secrets that are recognised by more than their own word: keys, tokens of issuers, encoded
/// secrets. A word that only might be a secret stays, because the result is used as a name.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let spans = secrets::spans(text);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        masked.push_str(&text[done..span.start]);
        masked.push_str(MASK);
        done = span.end;
    }
    masked.push_str(&text[done..]);
    Cow::Owned(masked)
}

/// The expectation from earlier words for the next ones.
#[derive(Default)]
struct MaskContext {
    expected: Expected,
    /// The flag by which the named program takes a password.
    password_flag: Option<&'static str>,
}

impl MaskContext {
    /// Notes a word that may name a program.
    fn note(&mut self, program: &str) {
        if let Some(flag) = password_flag(program) {
            self.password_flag = Some(flag);
        }
    }
}

/// The expectation for the next word.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Expected {
    #[default]
    Anything,
    Secret,
    /// `user:secret`
    Credentials,
}

/// Returns the flag by which a program takes a password, if its name does not show it.
fn password_flag(program: &str) -> Option<&'static str> {
    match program {
        "mariadb" | "mariadb-dump" | "mongosh" | "mysql" | "mysqladmin" | "mysqldump" | "sshpass" => {
            Some("-p")
        }
        "redis-cli" => Some("-a"),
        "sqlcmd" => Some("-P"),
        _ => None,
    }
}

fn mask_argument(argument: &str, context: &mut MaskContext) -> String {
    if !argument.contains(char::is_whitespace) {
        return mask_word(argument, context).into_owned();
    }
    if context.expected == Expected::Secret && !starts_with_scheme(argument) {
        context.expected = Expected::Anything;
        return MASK.to_owned();
    }
    let masked = mask_labelled(argument).unwrap_or_else(|| mask_words(argument, context));
    context.expected = Expected::Anything;
    masked
}

/// Masks `Name: value` and `NAME=value` of several words: all of the value is secret, not only its first word.
fn mask_labelled(argument: &str) -> Option<String> {
    let at = argument.find(['=', ':'])?;
    let (label, value) = argument.split_at(at + 1);
    if !names_a_secret(&label[..at]) {
        return None;
    }
    let start = value.len() - value.trim_start().len();
    let kept = match value[start..].split_once(char::is_whitespace) {
        Some((scheme, _)) if starts_with_scheme(scheme) => start + scheme.len() + 1,
        Some(_) | None => start,
    };
    Some(format!("{label}{}{}", &value[..kept], mask_value(&value[kept..])))
}

fn mask_words(text: &str, context: &mut MaskContext) -> String {
    let mut masked = String::with_capacity(text.len());
    // Where the text begins that was not copied yet: nearly all of it stays unchanged.
    let mut kept = 0;
    let mut place = 0;
    while let Some(rest) = text.get(place..).filter(|rest| !rest.is_empty()) {
        let plain = rest.bytes().take_while(|byte| is_of_sentence(*byte)).count();
        let ends = rest.as_bytes().get(plain).is_none_or(is_ascii_space);
        if ends && plain < MIN_RUN && context.expected == Expected::Anything {
            context.note(&rest[..plain]);
            place += plain + 1;
            continue;
        }
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        if !word.is_empty()
            && let Cow::Owned(word) = mask_word(word, context)
        {
            masked.push_str(&text[kept..place]);
            masked.push_str(&word);
            kept = place + length;
        }
        place += length + behind.chars().next().map_or(0, char::len_utf8);
    }
    masked.push_str(&text[kept..]);
    masked
}

/// Returns whether a byte is white space of ASCII, as [`char::is_whitespace`] defines it.
const fn is_ascii_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Masks a word; most words stay unchanged.
fn mask_word<'w>(word: &'w str, context: &mut MaskContext) -> Cow<'w, str> {
    match std::mem::take(&mut context.expected) {
        Expected::Secret if starts_with_scheme(word) => {
            context.expected = Expected::Secret;
            return Cow::Borrowed(word);
        }
        // Another flag follows: the previous one was a switch.
        Expected::Secret if !word.starts_with("--") => return mask_value(word).into(),
        Expected::Credentials if !word.starts_with('-') => return mask_credentials(word).into(),
        Expected::Anything | Expected::Secret | Expected::Credentials => {}
    }
    if is_plain(word) {
        context.note(word);
        return Cow::Borrowed(word);
    }
    if let Some(masked) = mask_password_flag(word, context) {
        return masked.into();
    }
    let separator = word.bytes().position(|byte| matches!(byte, b'=' | b':'));
    let Some((at, separator)) = separator.map(|at| (at, char::from(word.as_bytes()[at]))) else {
        if word.starts_with('-') && names_a_secret(word) {
            context.expected = Expected::Secret;
        } else if names_credentials(word) {
            context.expected = Expected::Credentials;
        }
        return mask_shapes(word);
    };
    let (name, value) = (&word[..at], &word[at + 1..]);
    if names_a_secret(name) {
        if value.is_empty() {
            context.expected = Expected::Secret;
            return Cow::Borrowed(word);
        }
        return format!("{name}{separator}{}", mask_value(value)).into();
    }
    if separator == '=' && names_credentials(name) {
        return format!("{name}={}", mask_credentials(value)).into();
    }
    if separator == '=' && is_name(name) {
        // `--env=API_KEY=…`: the value may be an assignment too.
        return format!("{name}={}", mask_word(value, context)).into();
    }
    mask_shapes(word)
}

/// Masks `-pSECRET` and `-p SECRET` of programs with a [`password_flag`].
fn mask_password_flag(word: &str, context: &mut MaskContext) -> Option<String> {
    if let Some(flag) = context.password_flag
        && let Some(attached) = word.strip_prefix(flag)
    {
        if attached.is_empty() {
            context.expected = Expected::Secret;
            return Some(word.to_owned());
        }
        return Some(format!("{flag}{}", mask_value(attached)));
    }
    context.note(word.rsplit('/').next().unwrap_or(word));
    None
}

/// Returns whether a word is one of a sentence: no flag, no name with a value, no address, and too short to be random.
fn is_plain(word: &str) -> bool {
    word.len() < MIN_RUN && word.bytes().all(is_of_sentence)
}

const fn is_of_sentence(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b',' | b';')
}

/// Masks `user:secret`, of which the user may stay. A URL is no such value.
fn mask_credentials(value: &str) -> String {
    match value.split_once(':') {
        Some((user, secret)) if !secret.is_empty() && !secret.starts_with("//") => {
            format!("{user}:{}", mask_value(secret))
        }
        Some(_) | None => mask_shapes(value).into_owned(),
    }
}

/// Returns whether a flag of this name takes `user:secret`.
fn names_credentials(flag: &str) -> bool {
    matches!(
        flag,
        "-u" | "--user" | "--userpwd" | "--auth" | "--basic-auth" | "--http-auth" | "--proxy-user"
    )
}

/// Masks members of JSON objects with names of secrets, also if the quotes are escaped.
fn mask_members(text: &str) -> Cow<'_, str> {
    static MEMBER: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"("([A-Za-z0-9_.-]+)"\s*:\s*")((?:[^"\\]|\\.)+)"#));
    static ESCAPED: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"(\\"([A-Za-z0-9_.-]+)\\"\s*:\s*\\")([^"\\]+)"#));
    let member = |found: &Captures<'_>| match names_a_secret(&found[2]) {
        true => format!("{}{}", &found[1], mask_value(&found[3])),
        false => found[0].to_owned(),
    };
    // Most texts are searched for one byte only, and no pattern is compiled before it may match.
    if !text.contains('"') {
        return Cow::Borrowed(text);
    }
    let text = replace(&MEMBER, Cow::Borrowed(text), member);
    replace(&ESCAPED, text, member)
}

/// Masks a value that is a secret by its name. A reference to a variable is none, and a scheme may stay.
fn mask_value(value: &str) -> String {
    let bare = value.trim_matches(['"', '\'']);
    if bare.starts_with("${") || bare.starts_with('$') && is_name(&bare[1..]) {
        return value.to_owned();
    }
    MASK.to_owned()
}

fn starts_with_scheme(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or(text);
    ["bearer", "basic", "token"]
        .iter()
        .any(|scheme| word.trim_start_matches(['"', '\'']).eq_ignore_ascii_case(scheme))
}

/// Masks secrets of a known form, anywhere in `text`.
fn mask_shapes(text: &str) -> Cow<'_, str> {
    static USERINFO: LazyLock<Regex> = LazyLock::new(|| pattern(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s@]+@"));
    static PARAMETER: LazyLock<Regex> = LazyLock::new(|| pattern(r"([?&;])([A-Za-z0-9_.-]+)=([^&;#\s]+)"));
    static PATH: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"((?:https?|wss?)://[^/?#\s"']+)(/[^?#\s"']*)"#));
    static RUN: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z0-9+_=-]{32,}"));

    // Each pattern is compiled and run only if the text contains what it requires.
    let mut text = Cow::Borrowed(text);
    let has_address = text.contains("://");
    if has_address && text.contains('@') {
        text = replace(&USERINFO, text, |found| format!("{}{MASK}@", &found[1]));
    }
    if text.contains('=') {
        text = replace(&PARAMETER, text, |found| {
            match names_a_secret(&found[2]) || matches!(&found[2], "key" | "sig" | "signature") {
                true => format!("{}{}={MASK}", &found[1], &found[2]),
                false => found[0].to_owned(),
            }
        });
    }
    if has_address {
        text = replace(&PATH, text, |found| {
            let segments: Vec<&str> = found[2]
                .split('/')
                .map(|segment| if is_path_token(segment) { MASK } else { segment })
                .collect();
            format!("{}{}", &found[1], segments.join("/"))
        });
    }
    if has_run(&text) {
        text = replace(&RUN, text, |found| match looks_random(&found[0]) {
            true => MASK.to_owned(),
            false => found[0].to_owned(),
        });
    }
    text
}

fn replace<'t>(
    pattern: &Regex,
    text: Cow<'t, str>,
    with: impl FnMut(&Captures<'_>) -> String,
) -> Cow<'t, str> {
    match pattern.replace_all(&text, with) {
        Cow::Borrowed(_) => text,
        Cow::Owned(replaced) => Cow::Owned(replaced),
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a literal and a test compiles it")
}

/// Returns whether a run is long enough to be random, whatever its characters.
fn has_run(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+_=-".contains(&byte);
    text.as_bytes()
        .split(|byte| !is_part(*byte))
        .any(|run| run.len() >= MIN_RUN)
}

/// Shortest run that can be random.
const MIN_RUN: usize = 32;

/// Returns whether a segment of a URL's path is a secret: services issue links that contain a token, a UUID or a number
/// in hexadecimal digits.
fn is_path_token(segment: &str) -> bool {
    let classes = classes(segment);
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '=' | '+' | '~');
    segment.len() >= 20
        && segment.chars().all(is_word)
        && classes.contains(&Class::Digit)
        && changes(&classes) * 4 >= classes.len()
}

/// Returns whether a run looks random: random base62 changes between lower case, upper case and digits at 62 % of its
/// steps, names at about 30 %.
fn looks_random(run: &str) -> bool {
    let classes = classes(run);
    let has_all = [Class::Lower, Class::Upper, Class::Digit]
        .iter()
        .all(|class| classes.contains(class));
    has_all && changes(&classes) * 5 >= classes.len() * 2
}

#[derive(PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
}

fn classes(text: &str) -> Vec<Class> {
    text.chars()
        .filter_map(|c| match c {
            'a'..='z' => Some(Class::Lower),
            'A'..='Z' => Some(Class::Upper),
            '0'..='9' => Some(Class::Digit),
            _ => None,
        })
        .collect()
}

fn changes(classes: &[Class]) -> usize {
    classes.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    // Put together here so that no file of the repository contains what a secret scanner would report.
    fn issued(prefix: &str, length: usize) -> String {
        format!("{prefix}{}", "a1B2c3D4e5".repeat(10).split_at(length).0)
    }

    fn masked(arguments: &[&str]) -> String {
        let owned: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        mask_arguments(&owned).join(" | ")
    }

    #[test_case(&["--token", "x"] => "--token | ***"; "flag and value")]
    #[test_case(&["--api-key=x"] => "--api-key=***"; "flag with equals")]
    #[test_case(&["--apiKey", "x", "serve"] => "--apiKey | *** | serve"; "camel case")]
    #[test_case(&["-e", "GITHUB_TOKEN=x"] => "-e | GITHUB_TOKEN=***"; "assignment")]
    #[test_case(&["--env=DB_PASSWORD=x"] => "--env=DB_PASSWORD=***"; "assignment in a flag")]
    #[test_case(&["-H", "Authorization: Bearer x"] => "-H | Authorization: Bearer ***"; "header with scheme")]
    #[test_case(&["-H", "Authorization:x"] => "-H | Authorization:***"; "header without space")]
    #[test_case(&["-H", "X-Api-Key: x"] => "-H | X-Api-Key: ***"; "header by name")]
    #[test_case(&["--header", "Cookie: a=b; c=d"] => "--header | Cookie: ***"; "cookie")]
    #[test_case(&["--password=two words"] => "--password=***"; "assignment of two words")]
    #[test_case(&["--password", "two words"] => "--password | ***"; "value with a space")]
    #[test_case(&["sh", "-c", "npx s --token x --port 1"] => "sh | -c | npx s --token *** --port 1"; "inside a shell line")]
    #[test_case(&["postgres://me:x@db/app"] => "postgres://***@db/app"; "userinfo")]
    #[test_case(&["--url=postgres://me:x@db/app"] => "--url=postgres://***@db/app"; "userinfo in a flag")]
    #[test_case(&["https://h/mcp?a=1&api_key=x#f"] => "https://h/mcp?a=1&api_key=***#f"; "query parameter")]
    #[test_case(&["--pat", "x"] => "--pat | ***"; "personal access token")]
    #[test_case(&["mysql", "-px", "-uroot"] => "mysql | -p*** | -uroot"; "password in a flag")]
    #[test_case(&["/usr/bin/sshpass", "-p", "x", "ssh"] => "/usr/bin/sshpass | -p | *** | ssh"; "password after a flag")]
    #[test_case(&["sh", "-c", "redis-cli -a x ping"] => "sh | -c | redis-cli -a *** ping"; "password in a shell line")]
    #[test_case(&["--auth", "me:x"] => "--auth | me:***"; "credentials")]
    #[test_case(&["--auth=me:x"] => "--auth=me:***"; "credentials with equals")]
    #[test_case(&["curl", "-u", "me:x"] => "curl | -u | me:***"; "credentials of curl")]
    #[test_case(&[r#"{"apiKey":"x","a":1}"#] => r#"{"apiKey":"***","a":1}"#; "member")]
    #[test_case(&[r#"{"a": {"api_key": "x y\"z"}, "b": "c"}"#] => r#"{"a": {"api_key": "***"}, "b": "c"}"#; "member with spaces")]
    #[test_case(&[r#"{\"token\":\"x\"}"#] => r#"{\"token\":\"***\"}"#; "escaped member")]
    #[test_case(&[r#"{"token":"x"#] => r#"{"token":"***"#; "member cut off")]
    #[test_case(&["https://h/s/a1b2c3d4e5a1b2c3d4e5/mcp"] => "https://h/s/***/mcp"; "token in a path")]
    #[test_case(&["--url=https://h/67e55044-10b1-426f-9247-bb680e5fe0c8"] => "--url=https://h/***"; "uuid in the path of a URL")]
    #[test_case(&["--secret", "-x"] => "--secret | ***"; "a value may start with a dash")]
    fn secrets_are_masked(arguments: &[&str]) -> String {
        masked(arguments)
    }

    #[test_case("sk-", 40; "openai")]
    #[test_case("sk-ant-api03-", 40; "anthropic")]
    #[test_case("ghp_", 36; "github")]
    #[test_case("github_pat_", 40; "github fine grained")]
    #[test_case("glpat-", 20; "gitlab")]
    #[test_case("xoxb-", 30; "slack")]
    #[test_case("npm_", 36; "npm")]
    #[test_case("hf_", 34; "hugging face")]
    #[test_case("", 48; "no prefix but random")]
    fn issued_secrets_are_masked_wherever_they_stand(prefix: &str, length: usize) {
        let secret = issued(prefix, length);
        assert_eq!(masked(&[&secret]), "***");
        assert_eq!(masked(&["x", &format!("--value={secret}")]), "x | --value=***");
        assert_eq!(
            mask_text(&format!("ran with {secret} and failed")),
            "ran with *** and failed"
        );
    }

    #[test]
    fn an_access_key_id_and_a_web_token_are_masked() {
        assert_eq!(masked(&[&format!("AKIA{}", "A1B2C3D4".repeat(2))]), "***");
        assert_eq!(masked(&[&format!("eyJ{0}.eyJ{0}.{0}", "hbGciOiJ1")]), "***");
    }

    #[test_case("--max-tokens=100"; "a count of tokens")]
    #[test_case("--tokenizer=fast"; "tokenizer")]
    #[test_case("--token-file=/run/secrets/token"; "where a token is")]
    #[test_case("--keyboard=us"; "a key on a board")]
    #[test_case("--key=id"; "key of no kind")]
    #[test_case("/home/me/projects/My-Token/node_modules/.bin/mcp-server-filesystem"; "path")]
    #[test_case("/nix/store/0c3h9m8x2v1b7n6k5j4l3q2w1z0y9s8d-nodejs-22.11.0/bin/node"; "nix store")]
    #[test_case("@modelcontextprotocol/server-sequential-thinking@2025.7.1"; "npm package")]
    #[test_case("mcp-server-for-MyCompany-Internal-Tools-2024-edition"; "long name")]
    #[test_case("AbstractSingletonProxyFactoryBeanServer2Implementation"; "camel case name")]
    #[test_case("9c1185a5c5e9fc54612808977ee8f548b2258d31"; "git sha")]
    #[test_case("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; "digest")]
    #[test_case("67e55044-10b1-426f-9247-bb680e5fe0c8"; "uuid")]
    #[test_case("task-runner-with-a-long-name-2"; "sk- inside a word")]
    #[test_case("--header=Authorization:${AUTH_HEADER}"; "reference to a variable")]
    #[test_case("https://api.example.com:8443/mcp?session=1"; "url")]
    #[test_case("https://example.com/docs/how-to-write-an-mcp-server-in-2024"; "url of words")]
    #[test_case("https://h/archive-2024-12/notes-1.2.3-linux-x86_64.tar.gz"; "url of a release")]
    #[test_case(r#"{"tokens":"100","name":"x"}"#; "members of no secret")]
    #[test_case("--pattern=x"; "pattern")]
    #[test_case("git@github.com:owner/repo.git"; "ssh remote")]
    #[test_case("127.0.0.1:8080"; "address")]
    #[test_case(""; "nothing")]
    fn what_is_no_secret_survives(argument: &str) {
        assert_eq!(masked(&[argument]), argument);
    }

    #[test]
    fn a_flag_after_a_switch_survives() {
        assert_eq!(masked(&["--token", "--verbose"]), "--token | --verbose");
    }

    #[test_case(&["mkdir", "-p", "/srv/data"]; "the same flag of another program")]
    #[test_case(&["--auth", "oauth"]; "a kind of authentication")]
    #[test_case(&["-u", "https://h/mcp"]; "a url after u")]
    #[test_case(&["python", "-u", "-m", "x:y"]; "a switch")]
    fn flags_of_no_secret_survive(arguments: &[&str]) {
        assert_eq!(masked(arguments), arguments.join(" | "));
    }

    /// Word by word, each copied.
    fn mask_each_word(text: &str) -> String {
        let mut context = MaskContext::default();
        let pieces = text.split_inclusive(char::is_whitespace);
        let masked = pieces.map(|piece| {
            let word = piece.trim_end();
            match word.is_empty() {
                true => piece.to_owned(),
                false => format!("{}{}", mask_word(word, &mut context), &piece[word.len()..]),
            }
        });
        masked.collect()
    }

    proptest! {
        #[test]
        fn words_are_masked_as_if_each_were_copied(
            words in proptest::collection::vec(
                prop_oneof![
                    ".{0,8}", "[a-z.,;_]{0,12}", "[a-zA-Z0-9]{28,40}", "[ \t\n\u{b}\u{1c}\u{85}\u{a0}\u{2003}]{0,3}",
                    Just("--token".to_owned()), Just("mysql".to_owned()), Just("-pabc".to_owned()), Just("Bearer".to_owned()),
                    Just("--user".to_owned()), Just("me:word".to_owned()), Just("api_key=".to_owned()), Just("é".to_owned()),
                ],
                0..12,
            ),
            between in prop_oneof![Just(" "), Just("\n"), Just("\u{a0}"), Just("")],
        ) {
            let text = words.join(between);
            prop_assert_eq!(mask_words(&text, &mut MaskContext::default()), mask_each_word(&text));
        }

        #[test]
        fn number_of_arguments_is_kept_and_masking_twice_changes_nothing(
            arguments in proptest::collection::vec(".{0,40}", 0..6),
        ) {
            let once = mask_arguments(&arguments);
            prop_assert_eq!(once.len(), arguments.len());
            prop_assert_eq!(&mask_arguments(&once), &once);
        }
    }
}
