//! Calls with secrets in them, and calls that only look like it. Secrets are put together here so that no file of the
//! repository contains what a secret scanner would report.

mod families;

use mcpmon_model::redacted;
use proptest::prelude::*;
use test_case::test_case;

use super::*;

/// Characters as generators make them, of length `length`.
fn random(length: usize) -> String {
    "k9Xw2Lm4Qz7PbV3nR8tYc5Jh1Gs6DfAe0UvWiOpBxNqTrMyKlZjHgFdSaE"
        .chars()
        .cycle()
        .take(length)
        .collect()
}

fn hex(length: usize) -> String {
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        .chars()
        .cycle()
        .take(length)
        .collect()
}

fn found(arguments: &str) -> Vec<Secret> {
    let json = RawJson::trusted(arguments);
    inspect(json, &Arguments::walk(json))
}

/// The patterns found in a text that is the value of a member.
fn kinds(text: &str) -> Vec<String> {
    let json = serde_json::json!({ "body": text }).to_string();
    let found = found(&json);
    let told = format!("{found:?}");
    found
        .into_iter()
        .map(|secret| {
            assert!(!told.contains(&random(16)) && !told.contains(&hex(16)), "{told}");
            format!("{} {}", secret.finding.pattern, secret.finding.severity.as_str())
        })
        .collect()
}

fn holds(text: &str, expected: &str) {
    let kinds = kinds(text);
    assert!(
        kinds.iter().any(|kind| kind == expected),
        "{expected}: {kinds:?} in {text}"
    );
}

fn armoured(label: &str, lines: usize) -> String {
    let body = vec![random(64); lines].join("\n");
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----")
}

#[test_case("RSA PRIVATE KEY"; "rsa")]
#[test_case("OPENSSH PRIVATE KEY"; "openssh")]
#[test_case("PRIVATE KEY"; "pkcs 8")]
#[test_case("ENCRYPTED PRIVATE KEY"; "encrypted")]
#[test_case("PGP PRIVATE KEY BLOCK"; "pgp")]
fn private_keys(label: &str) {
    let key = armoured(label, 3);
    holds(&format!("here: {key} ok"), "private_key critical");
    holds(&key.replace('\n', "\\n"), "private_key critical");
    holds(&key.replace('\n', "\" +\n  \""), "private_key critical");
    holds(
        &key.lines().map(|line| format!(" * {line}\n")).collect::<String>(),
        "private_key critical",
    );
    holds(
        &format!("-----BEGIN {label}-----\n...\n-----END {label}-----"),
        "private_key low",
    );
}

/// Random bytes as encoded by python's `base64.b85encode`, `a85encode` and ZeroMQ, and any characters.
#[test_case("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"; "base85")]
#[test_case("!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu"; "ascii85")]
#[test_case("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"; "z85")]
fn random_stretches_with_signs(alphabet: &str) {
    for length in [120, 300, 1000] {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(alphabet.as_bytes()[usize::try_from(state % alphabet.len() as u64).expect("small")])
        };
        let blob: String = (0..length).map(|_| next()).collect();
        holds(&blob, "high_entropy high");
        holds(&format!("note: {blob} end"), "high_entropy high");
    }
}

#[test_case("!function(e,t){\"object\"==typeof exports?module.exports=t():\"function\"==typeof define&&define.amd?define([],t):e.X=t()}(this,function(){return{a:1}});"; "code")]
#[test_case(r"^(?:[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*|[\x01-\x08])@(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$"; "a pattern")]
#[test_case("|a|b|c|d|e|f|g|h|:--|:--|:--|:--|:--|:--|:--|:--|1|2|3|4|5|6|7|8|a1|b2|c3|d4|e5|f6|g7|h8|i9|j10|k11|l12|m13|"; "a table")]
#[test_case("!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~!\"#$%&'()*+,-./0123456789"; "an alphabet")]
#[test_case("%D0%9F%D1%80%D0%B8%D0%B2%D0%B5%D1%82%2C%20%D0%BC%D0%B8%D1%80%21%20%D0%9A%D0%B0%D0%BA%20%D0%B4%D0%B5%D0%BB%D0%B0%3F"; "a text in escapes")]
#[test_case("body{margin:0;padding:0}.a>.b+.c~.d{color:#1a2B3c;background:url(x.png)}@media(max-width:600px){#e:not(.f)::after{content:'\\201C'}}"; "a style sheet")]
#[test_case("ENC[AES256_GCM,data:k9Xw2Lm4Qz==,iv:7PbV3nR8tYc5Jh1Gs6DfAe0UvWiOpBxNqTrMyKlZjHg=,tag:FdSaEk9Xw2Lm4Qz7PbV3nR==,type:str]"; "what is encrypted")]
fn long_texts_that_are_not_random(text: &str) {
    assert_eq!(kinds(text), Vec::<String>::new());
}

#[test_case("AKIA", 16, "aws_credential"; "aws")]
#[test_case("ghp_", 36, "github_token"; "github")]
#[test_case("github_pat_", 40, "github_token"; "github fine grained")]
#[test_case("glpat-", 20, "gitlab_token"; "gitlab")]
#[test_case("xoxb-123456789012-", 24, "slack_token"; "slack")]
#[test_case("https://hooks.slack.com/services/T02AB3CD4/B05EF6GH7/", 24, "slack_token"; "slack webhook")]
#[test_case("sk_live_", 24, "stripe_key"; "stripe")]
#[test_case("rk_test_", 24, "stripe_key"; "stripe restricted")]
#[test_case("key=AIzaSy", 33, "google_key"; "google")]
#[test_case("GOCSPX-", 28, "google_key"; "google client secret")]
#[test_case("sk-", 48, "llm_key"; "openai")]
#[test_case("sk-ant-api03-", 90, "llm_key"; "anthropic")]
#[test_case("hf_", 34, "llm_key"; "hugging face")]
#[test_case("npm_", 36, "npm_token"; "npm")]
#[test_case("pypi-AgEIcHlwaS5vcmc", 80, "pypi_token"; "pypi")]
#[test_case("dop_v1_", 0, "digitalocean_token"; "digitalocean")]
#[test_case("hvs.", 90, "vault_token"; "vault")]
#[test_case("123456789:AA", 33, "telegram_token"; "telegram")]
#[test_case("https://discord.com/api/webhooks/123456789012345678/", 68, "webhook"; "discord webhook")]
#[test_case("DefaultEndpointsProtocol=https;AccountName=x;AccountKey=", 86, "azure_credential"; "azure storage")]
#[test_case("https://x.blob.core.windows.net/c?sv=2024-01-01&sr=c&sig=", 44, "azure_credential"; "azure signature")]
fn formats_of_issuers(prefix: &str, length: usize, kind: &str) {
    let body = match (prefix, length) {
        ("AKIA", _) => random(60).to_uppercase().replace(['0', '1', '8', '9'], "7"),
        (_, 0) => hex(64),
        _ => random(length),
    };
    let token = format!("{prefix}{}", &body[..if length == 0 { 64 } else { length }]);
    let expected = format!("{kind} high");
    holds(&token, &expected);
    holds(&format!("use \"{token}\", please."), &expected);
    holds(&format!("TOKEN={token}\nX=1"), &expected);
    let made_up = format!(
        "{prefix}{}",
        "X".repeat(length.max(64))
            .get(..if length == 0 { 64 } else { length })
            .unwrap_or_default()
    );
    assert!(
        !kinds(&made_up).iter().any(|kind| kind.ends_with("high")),
        "{made_up}"
    );
}

#[test]
fn checksums_make_certain() {
    let (body, checksum) = ("0".repeat(30), "2C8GjS");
    holds(&format!("{}p_{body}{checksum}", "gh"), "github_token critical");
    holds(&format!("np{}{body}{checksum}", "m_"), "npm_token critical");
    assert_eq!(kinds(&format!("{}p_{body}2C8GjT", "gh")), ["github_token low"]);
}

#[test]
fn web_tokens() {
    let header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
    let token = format!("{header}.eyJzdWIiOiJhbm4ifQ.{}", random(43));
    holds(&token, "bearer_token high");
    holds(&format!("Authorization: Bearer {token}"), "bearer_token high");
    holds(&format!("https://a.example/x?t={token}"), "bearer_token high");
    holds(&format!("Bearer {}", random(40)), "bearer_token high");
    holds("Authorization: Basic YW5uOmg3R3EyLXBx", "basic_auth high");
    assert_eq!(
        kinds(&format!("Bearer {header}.<payload>.<signature>")),
        ["bearer_token low"]
    );
    holds(
        &format!(
            "Bearer {}",
            base64(r#"{"alg":"HS256","typ":"JWT","k":"h7Gq2pqW4xKm3T"}"#)
        ),
        "bearer_token high",
    );
    assert_eq!(kinds("the bearer of good news, basic English"), [""; 0]);
    assert_eq!(kinds("Authorization: Bearer <token>"), [""; 0]);
}

#[test_case("postgres://app:{}@db.internal:5432/app", "database_url high"; "database")]
#[test_case("mongodb+srv://app:{}@c0.example.net/?w=1", "database_url high"; "srv")]
#[test_case("https://ann:{}@git.example/x.git", "basic_auth high"; "web")]
#[test_case("Server=db;User Id=sa;Password={};", "database_url high"; "connection string")]
#[test_case("curl -u ann:{} https://a.example", "basic_auth high"; "curl")]
#[test_case("password={}", "generic_secret high"; "assignment")]
#[test_case("\"apiKey\": \"{}\"", "generic_secret high"; "member")]
#[test_case("{{\\\"client_secret\\\":\\\"{}\\\"}}", "generic_secret high"; "escaped member")]
#[test_case("mytool --password {} run", "generic_secret high"; "flag")]
#[test_case("CREATE USER x IDENTIFIED BY '{}';", "generic_secret high"; "sql")]
#[test_case("ALTER ROLE x PASSWORD '{}'", "generic_secret high"; "sql of postgres")]
#[test_case("<password>{}</password>", "generic_secret high"; "tag")]
#[test_case("<add key=\"DbPassword\" value=\"{}\" />", "generic_secret high"; "attributes")]
#[test_case("the password is {}", "generic_secret high"; "sentence")]
#[test_case("setOption(PASSWORD, \"{}\")", "generic_secret high"; "argument of a function")]
#[test_case("passwd: str = \"{}\"", "generic_secret high"; "annotated")]
#[test_case("пароль: {}", "generic_secret high"; "another language")]
#[test_case("machine a.example login ann password {}", "credential_file high"; "netrc")]
#[test_case("login(user, password, \"{}\")", "generic_secret high"; "behind a comma")]
#[test_case("[(\"password\", \"{}\")]", "generic_secret high"; "a pair")]
#[test_case("setPassword(\"{}\")", "generic_secret high"; "given to a function")]
#[test_case("headers.add('Cookie', 'session={}')", "generic_secret high"; "cookie")]
#[test_case("use `token={}` there", "generic_secret high"; "assignment in a sentence")]
fn named(text: &str, expected: &str) {
    let text = text.replace("{{", "{").replace("}}", "}");
    holds(&text.replace("{}", "h7Gq2pqW4xKm3T"), expected);
    for reference in ["${PASSWORD}", "{{ password }}", "<password>", "$PASSWORD"] {
        let kinds = kinds(&text.replace("{}", reference));
        assert!(
            !kinds.iter().any(|kind| kind.ends_with("high")),
            "{reference}: {kinds:?}"
        );
    }
}

#[test]
fn files() {
    holds(
        "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh",
        "credential_file high",
    );
    holds(
        &format!("ann:$6$saltsalt${}:19000:0:99999:7:::", random(86)),
        "password_hash high",
    );
    holds(
        &format!("users:\n- name: a\n  user:\n    client-key-data: {}", random(200)),
        "credential_file critical",
    );
    holds(
        "{\"auths\":{\"r.example\":{\"auth\":\"YW5uOmg3R3EyLXBx\"}}}",
        "credential_file high",
    );
    holds(
        "A=1\nDB_PASSWORD=h7Gq2pqW\nAPI_TOKEN=k9Xw2Lm4Qz7P",
        "env_file_content high",
    );
    holds(
        &format!("//npm.example/:_authToken={}", random(36)),
        "credential_file high",
    );
    holds(
        &format!("AWS_SECRET_ACCESS_KEY={}", random(40)),
        "aws_credential high",
    );
}

#[test]
fn numbers() {
    holds("pay with 4111 1111 1111 1111", "credit_card high");
    assert_eq!(
        found(r#"{"card":4111111111111111}"#)[0].finding.pattern,
        "credit_card"
    );
    holds("to GB82 WEST 1234 5698 7654 32", "bank_account medium");
    holds(
        "https://a.example/?to=GB82WEST12345698765432",
        "bank_account high",
    );
    assert_eq!(
        kinds("4111 1111 1111 1112, 1732183200000, 0.4111111111111111"),
        [""; 0]
    );
}

#[test]
fn what_says_nothing() {
    let bytes = |length: usize| -> String { random(length).chars().rev().collect() };
    assert!(kinds(&bytes(300)).iter().any(|kind| kind.ends_with("high")));
    let image = format!("iVBORw0KGgo{}", random(300));
    assert_eq!(kinds(&image), [""; 0]);
    assert_eq!(kinds(&format!("data:image/webp;base64,{}", random(300))), [""; 0]);
    let declared =
        serde_json::json!({"file": {"mimeType": "application/pdf", "data": random(300)}}).to_string();
    assert_eq!(found(&declared), []);
}

#[test_case("67e55044-10b1-426f-9247-bb680e5fe0c8"; "uuid")]
#[test_case("commit 9c1185a5c5e9fc54612808977ee8f548b2258d31"; "git sha")]
#[test_case("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; "digest")]
#[test_case("\"integrity\": \"sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==\""; "lock file")]
#[test_case("h1:y0fUlFfIZhPF1W537XOLg0/fcx6zcHCJwooC2xJA040="; "go sum")]
#[test_case("api_key = os.getenv('API_KEY')"; "look up")]
#[test_case("password = input('Password: ')"; "question")]
#[test_case("GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}"; "workflow")]
#[test_case("export TOKEN=$(cat /run/secrets/token)"; "command")]
#[test_case("let token = parser.next_token();"; "parser")]
#[test_case("nextPageToken=CAUQAA9x8y7z6w5v4u3t2s1r0q"; "page")]
#[test_case("max_tokens: 4096, tokenizer: fast"; "counts")]
#[test_case("use argon2::{PasswordHash, PasswordHasher};"; "types")]
#[test_case("primaryKey: 'id', foreignKey: 'user_id_2'"; "keys of tables")]
#[test_case("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DPMRD6OIh65tjkxCNOtAAAAAAAAAAAA me@host"; "public key")]
#[test_case("task-runner-with-a-long-name-2 and risk-based-authentication-method-1"; "words with prefixes in them")]
#[test_case("https://example.com/docs/how-to-rotate-tokens?page=2#keys"; "address")]
#[test_case("git@github.com:owner/repo.git"; "ssh remote")]
#[test_case("docker run -u 1000:1000 -e NODE_ENV=production image"; "user of a container")]
#[test_case(".token { color: #fff0f0; background: url(data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP) }"; "style sheet")]
#[test_case("pass `include=members` to list them; pass token=NAME, or `spec=True`"; "assignments in sentences")]
#[test_case("('', Token, '#pop'), (r'[a-z]+', bygroups(token), \"#pop:2\")"; "a lexer")]
#[test_case("# token          = 1*tchar\n# cookie-header  = *cookie-octet"; "a grammar")]
#[test_case("styles = {Token: '#ABB2BF', Token.String: \"#d8dee9\"}"; "colours")]
#[test_case("(ECDSA_P256_CLIENT_KEY, \"ecdsa-p256\", \"client.key\")"; "names of what is listed")]
#[test_case("['triggerToken', 'sfntCMapEncoding'], ['crc-16-buypass', 'Crc16Buypass']"; "lists of names")]
#[test_case("pub const IFLA_INET6_TOKEN: _bindgen_ty_7 = 4; fn f(password: Uint8Array, salt: Uint8Array)"; "types")]
#[test_case("const UNAUTHENTICATED_KEY = 0b10000000000000000;"; "a number")]
#[test_case("self.hide_cookie2 = hide_cookie2"; "a variable of the same name")]
#[test_case("getAccessToken(\"context7\")"; "a question for a token")]
#[test_case("t.pass(\"tests/pass/*.rs\"); --- PASS: TestE2E/Initialize (0.09s)"; "results of tests")]
#[test_case("NOTION_TOKEN=ntn_..., --token ghp_…, `key := \"sk-ant-\" + rest`"; "prefixes alone")]
#[test_case("headers.add('Set-Cookie', 'foo=bar'); Set-Cookie: keebler=\"E=everybody\""; "cookies that say nothing")]
#[test_case("Release GPG key: DD8F2338BAE7501E3DD5AC78C273792F7D83545D"; "a fingerprint")]
#[test_case("[with a Bearer Token](#test-5-cross-gateway-invocation-with-bearer-token)"; "a link")]
#[test_case("Authorization: Bearer github_test_token_123"; "a token that is made up")]
#[test_case("Please reset my password and send the key to reception."; "sentence")]
fn near_misses(text: &str) {
    let kinds = kinds(text);
    assert!(kinds.iter().all(|kind| kind.ends_with("low")), "{kinds:?}");
}

#[test]
fn certificates_are_public() {
    for label in ["CERTIFICATE", "PUBLIC KEY", "PGP SIGNATURE"] {
        assert_eq!(kinds(&armoured(label, 6)), [""; 0], "{label}");
    }
}

#[test_case("YOUR_API_KEY"; "yours")]
#[test_case("xxxxxxxxxxxxxxxxxxxxxxxx"; "x")]
#[test_case("00000000-0000-0000-0000-000000000000"; "nil")]
#[test_case("abcdefghijklmnopqrstuvwxyz123456"; "alphabet")]
fn placeholders_are_told_and_nothing_follows(value: &str) {
    assert_eq!(kinds(&format!("api_key = \"{value}\"")), ["generic_secret low"]);
}

fn secret() -> String {
    format!("{}{}", concat!("gl", "pat-"), random(20))
}

#[test]
fn secrets_are_found_however_they_are_encoded() {
    let secret = secret();
    let encodings: [fn(&str) -> String; 9] = [
        |text| text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        |text| text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        |text| text.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        |text| text.bytes().map(|byte| format!("\\u{byte:04x}")).collect(),
        |text| text.bytes().map(|byte| format!("&#{byte};")).collect(),
        |text| {
            text.bytes()
                .map(|byte| format!("{byte:02x}"))
                .collect::<Vec<_>>()
                .join("-")
        },
        |text| text.chars().flat_map(|c| [c, '\u{200b}']).collect(),
        |text| {
            text.chars()
                .map(|c| char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c))
                .collect()
        },
        base64,
    ];
    for encode in encodings {
        let encoded = encode(&secret);
        holds(&encoded, "gitlab_token high");
        holds(&format!("q={encoded}&x=1"), "gitlab_token high");
        holds(&base64(&encoded), "gitlab_token high");
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * index) & 63];
            out.push(if index <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}

#[test]
fn secrets_are_found_in_json_within_json_and_in_keys() {
    let secret = secret();
    let inner = serde_json::json!({"headers": {"X-Token": secret}}).to_string();
    holds(
        &serde_json::to_string(&inner).expect("a string"),
        "gitlab_token high",
    );
    let key = serde_json::json!({"a": {secret.clone(): {"b": "c"}, "other": secret.clone()}}).to_string();
    let found = found(&key);
    assert_eq!(found.len(), 2);
    assert!(
        found
            .iter()
            .any(|secret| matches!(secret.place, SecretPlace::Key(_)))
    );
    let told = format!("{found:?}");
    assert!(
        !told.contains(&secret) && told.contains("a.[mcpmon:gitlab_token]"),
        "{told}"
    );
    assert_eq!(Secret::redactions(&found), None);
    assert!(!redacted(&key, &Secret::masks(&found)).contains(&secret));
}

#[test]
fn secrets_are_found_in_pieces() {
    let secret = secret();
    let (head, tail) = secret.split_at(9);
    for json in [
        serde_json::json!({"parts": [head, tail]}),
        serde_json::json!({"a": head, "b": tail}),
        serde_json::json!({"parts": secret.chars().map(String::from).collect::<Vec<_>>()}),
        serde_json::json!({"rows": {head: 1, tail: 2}}),
    ] {
        let text = json.to_string();
        let found = found(&text);
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].finding.pattern, "gitlab_token");
        let masked = redacted(&text, &Secret::masks(&found));
        assert!(!masked.contains(head) || !masked.contains(tail), "{masked}");
    }
    let key: Vec<String> = armoured("RSA PRIVATE KEY", 3)
        .lines()
        .map(str::to_owned)
        .collect();
    let found = found(&serde_json::json!({ "lines": key }).to_string());
    assert!(found.iter().any(
        |secret| secret.finding.pattern == "private_key" && secret.finding.severity == Severity::Critical
    ));
}

#[test]
fn values_are_known_by_what_names_them() {
    let high = |json: serde_json::Value| {
        found(&json.to_string())
            .iter()
            .map(|secret| secret.finding.severity)
            .max()
    };
    let password = "h7Gq2pqW4xKm3T";
    assert_eq!(
        high(serde_json::json!({"user": "ann", "password": password})),
        Some(Severity::Medium),
        "a parameter"
    );
    assert_eq!(
        high(serde_json::json!({"env": {"DB_PASSWORD": password}})),
        Some(Severity::High),
        "a member"
    );
    assert_eq!(
        high(serde_json::json!({"env": [{"name": "DB_PASSWORD", "value": password}]})),
        Some(Severity::High),
        "an entry"
    );
    assert_eq!(
        high(serde_json::json!({"args": ["x", "--password", password]})),
        Some(Severity::High),
        "a flag"
    );
    assert_eq!(
        high(serde_json::json!({"api_key": random(32)})),
        Some(Severity::High),
        "generated"
    );
    assert_eq!(
        high(serde_json::json!({"cursor": random(32), "pageToken": random(32)})),
        None,
        "of a page"
    );
}

#[test]
fn only_the_secret_is_replaced() {
    let secret = secret();
    let json = format!(r#"{{"n": 1.50, "body":"é \"{secret}\" \u00e9 ","card" : 4111111111111111 }}"#);
    let found = found(&json);
    let redactions = Secret::redactions(&found).expect("values");
    let expected =
        r#"{"n": 1.50, "body":"é \"[mcpmon:gitlab_token]\" \u00e9 ","card" : "[mcpmon:credit_card]" }"#;
    assert_eq!(redacted(&json, &redactions), expected);
}

#[test]
fn what_is_encoded_is_replaced_whole() {
    let json = serde_json::json!({"body": format!("x {} y", base64(&secret()))}).to_string();
    let redactions = Secret::redactions(&found(&json)).expect("values");
    assert_eq!(
        redacted(&json, &redactions),
        r#"{"body":"[mcpmon:gitlab_token]"}"#
    );
}

#[test]
fn no_more_are_told_than_the_limit() {
    let many = vec![secret(); MAX_SECRETS * 2];
    assert_eq!(
        found(&serde_json::json!({ "a": many }).to_string()).len(),
        MAX_SECRETS
    );
}

/// Texts that make a careless matcher look again and again.
#[test]
#[expect(clippy::disallowed_methods, reason = "what is tested is how long it takes")]
fn long_texts_take_linear_time() {
    const LONG: usize = 1 << 15;
    let prefixes = issued::ISSUED.iter().map(|row| row.prefix).chain([
        "-----BEGIN ",
        "password",
        "key=",
        "eyJ",
        "bearer ",
        "basic ",
        "://a:",
        "%41",
        "\\u0041",
        "4111 ",
        "GB82",
        "A=1\n",
        "-u a:",
        "a1-",
        "{\"auth\":",
        "kty\"",
        "token is ",
        "secret: x = \"",
        "://",
        "-----BEGIN PRIVATE KEY-----",
    ]);
    for prefix in prefixes {
        let long = prefix.repeat(LONG / prefix.len());
        let start = std::time::Instant::now();
        let hits = text::hits(&long);
        assert!(hits.len() <= 2 * 256, "{prefix}");
        assert!(
            start.elapsed().as_secs() < 5,
            "{prefix} took {:?}",
            start.elapsed()
        );
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_what_is_replaced_stays_json(
        values in proptest::collection::vec(r#"(?s)[\PC"\\\n]{0,40}|(password|token|key)[=: "']{1,3}[a-zA-Z0-9$]{0,30}|gl(pat)-[a-zA-Z0-9]{20}"#, 0..5),
        number in any::<u64>(),
    ) {
        let json = serde_json::json!({"values": values, "number": number}).to_string();
        let found = found(&json);
        let redactions = Secret::redactions(&found).expect("no key holds a secret");
        let once = redacted(&json, &redactions);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&once).is_ok(), "{}", once);
        // Nothing but the places differs.
        let (mut at, mut rest) = (0, once.as_str());
        for redaction in &redactions {
            let kept = &json[at..redaction.place.start];
            rest = rest.strip_prefix(kept).and_then(|rest| rest.strip_prefix(redaction.text.as_str())).expect("kept, then replaced");
            at = redaction.place.end;
        }
        prop_assert_eq!(rest, &json[at..]);
    }

    #[test]
    fn what_holds_nothing_finds_nothing(text in r"\PC{0,120}") {
        let json = serde_json::json!({ "a": text }).to_string();
        if !may_hold(&json) {
            let hits = text::hits(&text);
            prop_assert!(hits.is_empty(), "{:?}", hits);
        }
    }
}

/// A token that is one beyond doubt.
fn token() -> String {
    format!(
        "{}{}",
        concat!("gh", "p_"),
        "0000000000000000000000000000002C8GjS"
    )
}

#[test]
fn the_worst_are_told_however_many_there_are() {
    let filler = "api_key=YOUR_API_KEY ".repeat(2000);
    let items = vec![r#""api_key=YOUR_API_KEY""#; 500].join(",");
    for json in [
        format!(r#"{{"content":"{filler}{}"}}"#, token()),
        format!(r#"{{"items":[{items},"{}"]}}"#, token()),
        format!(r#"{{"items":[{items}],"content":"{filler}{}"}}"#, token()),
    ] {
        let json = RawJson::trusted(&json);
        let found = inspect(json, &Arguments::walk(json));
        assert!(found.len() <= MAX_SECRETS);
        assert!(
            found
                .iter()
                .any(|secret| secret.finding.severity >= Severity::High)
        );
    }
}

#[test]
fn names_within_values_do_not_end_the_search() {
    let json = format!(r#"{{"content":"{} {}"}}"#, "password:".repeat(20_000), token());
    let json = RawJson::trusted(&json);
    let found = inspect(json, &Arguments::walk(json));
    assert!(
        found
            .iter()
            .any(|secret| secret.finding.severity >= Severity::High)
    );
}
