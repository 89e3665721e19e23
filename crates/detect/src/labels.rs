//! Labels: the sensitive aspects of a call or its result. They are decided only here.

use std::sync::LazyLock;

use mcpmon_model::{RawJson, SensitivityLabel, Severity};

use super::{
    arguments::{ArgumentKind, Arguments},
    category,
    scan::literals::Literals,
    secrets,
};
use crate::tables::{self, WordList};

/// Bytes of an argument in which paths are looked for.
const MAX_ARGUMENT: usize = 64 << 10;

/// Returns the labels of a call of `tool`, before it is made.
pub fn labels_of_call(tool: &str, arguments: &Arguments<'_>) -> Vec<SensitivityLabel> {
    let mut labels = Vec::new();
    let mut texts = arguments
        .iter()
        .filter(|argument| argument.kind() == ArgumentKind::Text)
        .map(|argument| argument.text());
    if texts.any(names_secret_file) {
        labels.push(SensitivityLabel::SensitivePath);
    }
    if hands_out_secrets(tool) {
        labels.push(SensitivityLabel::SecretTool);
    }
    labels
}

/// Returns the labels of a resource, from its URI.
pub fn labels_of_resource(uri: &str) -> Vec<SensitivityLabel> {
    match names_secret_file(uri) {
        true => vec![SensitivityLabel::SensitivePath],
        false => Vec::new(),
    }
}

/// Returns the labels of a result, which may be cut off: a secret whose form leaves no doubt.
pub fn labels_of_output(result: RawJson<'_>) -> Vec<SensitivityLabel> {
    let found = secrets::inspect(result, &Arguments::walk(result));
    match found
        .iter()
        .any(|secret| secret.finding.severity >= Severity::High)
    {
        true => vec![SensitivityLabel::Secret],
        false => Vec::new(),
    }
}

/// Returns whether a text names a file that holds secrets: a path, a URI, or a command with one in it.
pub(super) fn names_secret_file(text: &str) -> bool {
    let text = &text[..text.floor_char_boundary(MAX_ARGUMENT)];
    let bytes = text.as_bytes();
    // Every path has one of these characters, and every path of a secret file has a part of such a name, possibly
    // encoded.
    let may_be_path =
        memchr::memchr3(b'.', b'_', b'/', bytes).is_some() || memchr::memchr(b'\\', bytes).is_some();
    if !may_be_path || memchr::memchr(b'%', bytes).is_none() && !TELLING.is_in(bytes) {
        return false;
    }
    let is_end = |c: char| c.is_whitespace() || "\"'`;|&<>()=,?#".contains(c);
    text.split(is_end).any(is_secret_file)
}

/// The literals of which every path of a secret file has one.
static TELLING: LazyLock<Literals> = LazyLock::new(|| {
    let names = SECRET_FILES.iter().copied().chain(
        SECRET_PLACES
            .iter()
            .filter_map(|place| Some(place.split_once('/')?.1)),
    );
    let endings = [
        ".p12",
        ".pfx",
        ".kdbx",
        ".jks",
        ".keystore",
        ".ppk",
        ".pem",
        ".key",
    ];
    let others = [
        ".ssh",
        "private-keys-v1.d",
        ".env",
        "environ",
        "password-store",
        "keychains",
    ];
    Literals::new(names.chain(endings).chain(others))
});

/// Returns whether a path is that of a file with secrets. Public keys are no secrets.
fn is_secret_file(path: &str) -> bool {
    if path.len() < 4 || !TELLING.is_in(path.as_bytes()) && !path.contains('%') {
        return false;
    }
    let mut path = path.to_ascii_lowercase();
    for (spelled, meant) in [("\\", "/"), ("%2e", "."), ("%2f", "/")] {
        if path.contains(spelled) {
            path = path.replace(spelled, meant);
        }
    }
    let mut parts = path
        .split(['/', ':'])
        .filter(|part| !matches!(*part, "" | "." | ".."));
    let Some(name) = parts.next_back() else {
        return false;
    };
    let parent = parts.next_back().unwrap_or_default();
    if name.ends_with(".pub") {
        return false;
    }
    let is_template = || {
        let mut words = ["example", "sample", "template", "dist", "defaults"].into_iter();
        words.any(|word| name.ends_with(word))
    };
    SECRET_FILES.contains(&name)
        || SECRET_PLACES
            .iter()
            .any(|place| place.split_once('/') == Some((parent, name)))
        || parent == ".ssh" && !PUBLIC_IN_SSH.contains(&name)
        || parent == "private-keys-v1.d"
        || (name == ".env" || name.starts_with(".env.")) && !is_template()
        || is_key_store(name)
        || parent.bytes().all(|byte| byte.is_ascii_digit()) && name == "environ" && path.contains("/proc/")
        || path.contains("/.password-store/")
        || path.contains("/library/keychains/")
}

/// Returns whether the ending of a name is that of a key store. A certificate is public, so `.pem` alone is no
/// evidence.
fn is_key_store(name: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else {
        return false;
    };
    match ending {
        "p12" | "pfx" | "kdbx" | "jks" | "keystore" | "ppk" => true,
        "pem" | "key" => ["key", "priv", "server", "client", "id_"]
            .into_iter()
            .any(|word| stem.contains(word)),
        _ => false,
    }
}

static SECRET_FILES: WordList = tables::LABELS.list("labels", "secret_files");

/// Directory and name.
static SECRET_PLACES: WordList = tables::LABELS.list("labels", "secret_places");

static PUBLIC_IN_SSH: WordList = tables::LABELS.list("labels", "public_in_ssh");

/// The literals of which every name of a tool that returns secrets has one.
static HANDED_OUT: LazyLock<Literals> =
    LazyLock::new(|| Literals::new(["secret", "passw", "credential", "vault", "key", "env", "token"]));

/// Returns whether the name of a tool shows that it returns secrets. Services list public keys as `ssh_keys`; a private
/// one is recognised by its file and its content.
fn hands_out_secrets(tool: &str) -> bool {
    if !HANDED_OUT.is_in(tool.as_bytes()) {
        return false;
    }
    let words = category::words(tool);
    let is_taken_in = words.first().is_some_and(|verb| {
        matches!(
            verb.as_str(),
            "verify" | "validate" | "revoke" | "delete" | "rotate" | "count"
        )
    });
    if is_taken_in {
        return false;
    }
    words.iter().enumerate().any(|(index, word)| {
        let before = index
            .checked_sub(1)
            .and_then(|index| words.get(index))
            .map(String::as_str);
        match word.as_str() {
            "secret" | "secrets" | "password" | "passwords" | "credential" | "credentials" | "passwd"
            | "vault" | "keychain" | "keyring" | "env" | "environ" | "getenv" | "printenv" | "apikey"
            | "apikeys" => true,
            "token" | "tokens" => before.is_some_and(|word| {
                matches!(word, "access" | "api" | "auth" | "bearer" | "refresh" | "session")
            }),
            "key" | "keys" => before.is_some_and(|word| {
                matches!(
                    word,
                    "api" | "private" | "secret" | "access" | "signing" | "master"
                )
            }),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    fn labels(tool: &str, argument: &str) -> Vec<SensitivityLabel> {
        let json = serde_json::json!({"a": [argument]}).to_string();
        labels_of_call(tool, &Arguments::walk(RawJson::trusted(&json)))
    }

    #[test_case("/home/me/.ssh/id_rsa" => true; "key")]
    #[test_case("~/.ssh/work_key" => true; "key of another name")]
    #[test_case(r"C:\Users\me\.aws\credentials" => true; "backslashes")]
    #[test_case("file:///srv/app/.env" => true; "uri")]
    #[test_case("/srv/app/%2eenv" => true; "percent")]
    #[test_case("cat /etc/shadow | head" => true; "within a command")]
    #[test_case("--file=../.NETRC" => true; "capitals and a flag")]
    #[test_case("/proc/1234/environ" => true; "environment of a process")]
    #[test_case("tls/server-key.pem" => true; "private key of a server")]
    #[test_case("/home/me/.ssh/id_rsa.pub" => false; "public half")]
    #[test_case("/home/me/.ssh/known_hosts" => false; "public by nature")]
    #[test_case("/home/me/.ssh/" => false; "directory")]
    #[test_case("app/.env.example" => false; "template")]
    #[test_case("certs/ca.pem" => false; "certificate")]
    #[test_case("src/environ" => false; "another environ")]
    #[test_case("how do I read credentials" => false; "a sentence")]
    #[test_case("docs/environment.md" => false; "a word alike")]
    #[test_case("shadow" => false; "a word")]
    fn paths(argument: &str) -> bool {
        labels("read_file", argument) == [SensitivityLabel::SensitivePath]
    }

    #[test_case("get_secret" => true)]
    #[test_case("vault-read" => true)]
    #[test_case("listApiKeys" => true)]
    #[test_case("get_env" => true)]
    #[test_case("aws.get_access_token" => true; "dots")]
    #[test_case("list_ssh_keys" => false; "public keys")]
    #[test_case("count_tokens" => false; "words of a text")]
    #[test_case("delete_secret" => false; "takes it away")]
    #[test_case("list_environments" => false; "a word alike")]
    #[test_case("search_keyboards" => false; "a word with key")]
    fn tools(name: &str) -> bool {
        labels(name, "x") == [SensitivityLabel::SecretTool]
    }

    fn is_secret(text: &str) -> bool {
        let result = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
        labels_of_output(RawJson::trusted(&result)) == [SensitivityLabel::Secret]
    }

    #[test]
    fn secrets_in_results() {
        let body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ";
        let header = concat!("-----BEGIN OPENSSH PRIV", "ATE KEY-----");
        let token = format!("{}{}", "gh", "p_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        for (text, expected) in [
            (format!("{header}\n{body}"), true),
            (format!("{header}\r\nProc-Type: 4,ENCRYPTED\r\n{body}"), true),
            (header.to_owned(), false),
            (format!("{header}\n..."), false),
            (format!("the token is {token}."), true),
            (token.replace("p_a1", "x_a1"), false),
            (format!("{}{}", "AKIA", "IOSFODNN7EXAMPLE"), false),
            (format!("postgres://app:{}@db/x", "n0tToBeTold"), true),
            ("postgres://user:password@localhost/x".to_owned(), false),
            ("https://me:whatever1@host/".to_owned(), true),
            ("https://me@host/".to_owned(), false),
            ("sk-is-a-prefix-of-words-only-here".to_owned(), false),
        ] {
            assert_eq!(is_secret(&text), expected, "{}", text.len());
        }
    }

    #[test]
    fn a_resource_is_known_by_its_uri() {
        assert_eq!(
            labels_of_resource("file:///home/me/.netrc"),
            [SensitivityLabel::SensitivePath]
        );
        assert_eq!(labels_of_resource("file:///home/me/notes"), []);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            labels(&text, &text);
            is_secret(&text);
        }
    }
}
