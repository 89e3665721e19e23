//! Secrets on their way to a model.

use mcpmon_model::{EventKind, NameGlob, redacted};
use mcpmon_policy::{DlpMode, ProxyMode, Suppression};
use test_case::test_case;

use super::*;
use crate::Tally;

const TOKEN: &str = concat!("gh", "p_", "0000000000000000000000000000002C8GjS");

/// Returns a text as the model gets it, and the events about it.
fn sent(policy: Policy, text: &str) -> (String, Vec<String>) {
    let mut world = World::new(policy);
    let mut tally = Tally::default();
    let redactions = world.monitor.redact_text(world.now, text, &mut tally);
    let judgement = world
        .monitor
        .observe(world.now, Observation::Redacted(&exchange(None), &tally));
    let told = judgement.events.iter().map(|event| {
        assert_eq!((event.layer, event.action), (Layer::Llm, Action::Audit));
        let EventKind::DlpRedaction {
            kind,
            count,
            request_id,
            ..
        } = &event.kind
        else {
            panic!("a redaction");
        };
        assert_eq!(request_id, "req_1");
        format!("{kind} {count}")
    });
    (redacted(text, &redactions), told.collect())
}

#[test]
fn secrets_become_placeholders() {
    let text = format!("I exported {TOKEN}, and again {TOKEN}:\nwhy does it fail?");
    let (sent, told) = sent(policy(), &text);
    assert_eq!(
        sent,
        "I exported [mcpmon:github_token], and again [mcpmon:github_token]:\nwhy does it fail?"
    );
    assert_eq!(told, ["github_token 2"]);
}

#[test_case(|policy: &mut Policy| policy.llm.dlp = DlpMode::Disabled; "switched off")]
#[test_case(|policy: &mut Policy| policy.llm.mode = ProxyMode::McpOnly; "tool calls only")]
#[test_case(|policy: &mut Policy| policy.suppressions = vec![accepted("github_token")]; "accepted by its kind")]
#[test_case(|policy: &mut Policy| policy.suppressions = vec![accepted("dlp")]; "accepted as a whole")]
fn nothing_is_replaced(edit: impl FnOnce(&mut Policy)) {
    let mut policy = policy();
    edit(&mut policy);
    assert_eq!(sent(policy, TOKEN), (TOKEN.to_owned(), vec![]));
}

fn accepted(rule: &str) -> Suppression {
    Suppression {
        rule: NameGlob::new(rule),
        server: NameGlob::new("*"),
        tool: NameGlob::new("*"),
        until: None,
        reason: String::new(),
    }
}

#[test]
fn observing_tells_and_replaces_nothing() {
    let (sent, told) = sent(observing(policy()), TOKEN);
    assert_eq!((sent.as_str(), told), (TOKEN, vec!["github_token 1".to_owned()]));
}

/// Secrets as they come in prompts and in what tools return.
#[test_case(&format!("{{\"env\":{{\"GITHUB_TOKEN\":\"{TOKEN}\"}}}}"), "github_token"; "in configuration")]
#[test_case(&format!("+export GH={TOKEN}\n-export GH=\n"), "github_token"; "in a diff")]
#[test_case(&format!("curl -H 'Authorization: token {TOKEN}' https://api.github.com/user"), "github_token"; "in a command")]
#[test_case(concat!("aws_secret_access_key = ", "wJalrXUtnFEMI7MDENG", "bPxRfiCYzzKq0LmNo4Pz1"), "aws_credential"; "in a file of credentials")]
#[test_case(concat!("-----BEGIN OPENSSH ", "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz\nc2gtZWQyNTUxOQAAACDfqNQ3mYV5m0p3m3k5v6q7n8Y3zQx1a2s3d4f5g6h7j8k9l0\n-----END OPENSSH ", "PRIVATE KEY-----\n"), "private_key"; "a key")]
#[test_case(concat!("DATABASE_URL=postgres://app:", "t9Kq2vX7pLw4", "@db.internal:5432/app"), "database_url"; "in an address")]
fn secrets_in_what_agents_send(text: &str, kind: &str) {
    let (sent, told) = sent(policy(), text);
    assert_ne!(sent, text, "{told:?}");
    assert!(told.iter().any(|told| told.starts_with(kind)), "{told:?}");
}

/// Ordinary texts of agents contain no secret.
#[test_case("You are a coding agent. Use the API key from the environment; never print the password or the token."; "instructions")]
#[test_case("let api_key = std::env::var(\"OPENAI_API_KEY\")?;\nlet client = Client::new(api_key);"; "code that reads a key")]
#[test_case("password: str = field(default=\"\", metadata={\"help\": \"Password of the user\"})"; "code that declares a password")]
#[test_case("def login(self, username: str, password: str) -> Token:\n    token = self.client.post(password=password)\n    return token"; "code with a password")]
#[test_case("const token = await getAccessToken(session.user.id);\nheaders: { Authorization: `Bearer ${token}` }"; "code with a token")]
#[test_case("RegEnumKey = win32api.RegEnumKey"; "code with a name for a value")]
#[test_case("Failure { may_pass: !is_final, key: Self::key_of }"; "code with an expression for a value")]
#[test_case("toolskey = \"VS%0.f0COMNTOOLS\" % version\nUSER_PASSWD = \"%s:%s\""; "code with a form for a value")]
#[test_case("name = \"serde\"\nversion = \"1.0.228\"\nchecksum = \"9a8e94ea7f378bd32cbbd37198a4a91436180c5bb472411e48b5ec2e2124ae9e\""; "a lock file of Rust")]
#[test_case("\"node_modules/zod\": {\"version\": \"3.25.76\", \"resolved\": \"https://registry.example/zod/-/zod-3.25.76.tgz\", \"integrity\": \"sha512-gzUt/qt81nXsFGKIFcC3YnfEAx5NkunCfnDlvuBSSFS02bcXu4Lmea0AFIUwbLWxWPx3d9p8S5QoaujKcNQxcQ==\"}"; "a lock file of npm")]
#[test_case("index 83db48f..bf269f4 100644\n--- a/src/auth.rs\n+++ b/src/auth.rs\n@@ -1,4 +1,4 @@\n-    secret: String,\n+    secret: SecretString,"; "a diff")]
#[test_case("commit 3f2a9c1e5b7d8f0a1c2e3d4b5a69788796a5b4c3\nAuthor: Ann <ann@example.com>\n\n    token: rotate keys daily"; "a log")]
#[test_case("request_id=550e8400-e29b-41d4-a716-446655440000 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span=00f067aa0ba902b7"; "ids")]
#[test_case("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="; "an image")]
#[test_case("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  dist/app.tar.gz"; "a hash")]
#[test_case("API_KEY=\nDB_PASSWORD=changeme\nTOKEN=<your token here>\nSECRET_KEY=${SECRET_KEY}"; "an example of an environment")]
#[test_case("test result: ok. 2612 passed; 0 failed; finished in 12.94s\n   Compiling mcpmon v0.1.0 (/home/me/mcpmon)"; "output of a build")]
#[test_case("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGb5d3m2mYk9w5v6q7n8Y3zQx1a2s3d4f5g6h7j8k9l0 me@laptop"; "a public key")]
#[test_case("The quick brown fox: 4111 is a port, 2026-11-22T02:57:00Z a time, v1.2.3-rc.4+build.5 a version."; "prose")]
#[test_case("{\"id\":\"toolu_01A09q90qw90lq917835lq9\",\"type\":\"tool_use\",\"name\":\"Bash\",\"input\":{\"command\":\"git status\"}}"; "a call")]
#[test_case("\"signature\":\"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds0vZy8Ud3mGGV9M3kFQ2Zz5T6o5k6Y0vB1c2D3e4F5g6H7i8J9k0\""; "a signature of a model's")]
fn what_agents_send_all_day(text: &str) {
    assert_eq!(sent(policy(), text), (text.to_owned(), vec![]));
}
