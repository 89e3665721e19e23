//! Secrets in requests other than the arguments of calls.

use mcpmon_model::EventKind;
use mcpmon_policy::OnSecret;
use test_case::test_case;

use super::*;

const TOKEN: &str = concat!("gl", "pat-k9Xw2Lm4Qz7PbV3nR8tY");

/// Returns a client message with the token at `{}`.
fn said<'a>(kind: &str, json: &'a str) -> FromClient<'a> {
    let raw = RawJson::trusted(json);
    match kind {
        "read" => FromClient::Read { uri: json.into() },
        "prompt" => FromClient::Prompt {
            name: "review".into(),
            arguments: Some(raw),
        },
        "sampled" => FromClient::Reply {
            to: ServerRequestKind::Sampling,
            body: raw,
        },
        "elicited" => FromClient::Reply {
            to: ServerRequestKind::Elicitation,
            body: raw,
        },
        "resumed" => FromClient::Call(Call {
            tool: "read".into(),
            arguments: None,
            resumes: Some(raw),
        }),
        method => FromClient::Request {
            method: method.to_owned().into(),
            params: Some(raw),
        },
    }
}

fn judged(on_detection: OnSecret, kind: &str, json: &str) -> Judgement {
    let mut policy = policy();
    policy.arguments.on_detection = on_detection;
    let mut world = World::new(policy);
    drop(world.tools(&[("read", "a")]));
    drop(world.page(
        ListKind::Resources,
        &[("db://app:h7Gq2pqW4x@db/listed", "a")],
        false,
        false,
    ));
    let judgement = world.say(Content::Client(said(kind, json)));
    let told = format!("{judgement:?}");
    assert!(!told.contains(TOKEN) && !told.contains("h7Gq2pqW4x"), "{told}");
    judgement
}

const PROMPT: &str = r#"{"notes":"use {}, please"}"#;
const COMPLETION: &str = r#"{"ref":{"name":"review"},"argument":{"name":"a","value":"{}"}}"#;
const TEMPLATE: &str = r#"{"ref":{"uri":"x://{}/{a}"},"argument":{"name":"a","value":"b"}}"#;
const SAMPLED: &str = r#"{"role":"assistant","content":{"type":"text","text":"it is {}."}}"#;
const ELICITED: &str = r#"{"action":"accept","content":{"note":"{}"}}"#;
const KEY: &str = r#"{"action":"accept","content":{"{}":1}}"#;
const RESUMED: &str = r#"{"q":{"action":"accept","content":{"note":"{}"}}}"#;
const LISTEN: &str = r#"{"notifications":{"resourceSubscriptions":["x://{}"]}}"#;

#[test_case("prompt", PROMPT, true; "argument of a prompt")]
#[test_case("read", "https://a.example/?q={}", false; "address")]
#[test_case("read", "db://app:h7Gq2pqW4x@db/other", false; "address with a password")]
#[test_case("completion/complete", COMPLETION, true; "completion")]
#[test_case("completion/complete", TEMPLATE, false; "completion of a template")]
#[test_case("subscriptions/listen", LISTEN, false; "subscription")]
#[test_case("sampled", SAMPLED, true; "answer of a model")]
#[test_case("elicited", ELICITED, true; "answer of a user")]
#[test_case("elicited", KEY, false; "key in an answer")]
#[test_case("resumed", RESUMED, false; "answer with a call")]
fn a_secret_is_found(kind: &str, text: &str, is_replaceable: bool) {
    let json = text.replace("{}", TOKEN);
    let detected = |judgement: &Judgement| {
        judgement.events.iter().any(|event| {
            let is_found = matches!(&event.kind, EventKind::Detection { detection, .. } if detection.category == Category::Secret);
            is_found && event.rule.as_deref() == Some("argument_inspection")
        })
    };
    let blocked = judged(OnSecret::Block, kind, &json);
    assert_eq!(blocked_by(&blocked), Some("argument_inspection"), "{blocked:?}");
    assert!(detected(&blocked));
    let alerted = judged(OnSecret::Alert, kind, &json);
    assert_eq!(alerted.verdict, Verdict::Allow);
    assert!(detected(&alerted));
    let redacted = judged(OnSecret::Redact, kind, &json);
    match redacted.verdict {
        Verdict::Redact(redactions) => {
            assert!(is_replaceable);
            let left = mcpmon_model::redacted(&json, &redactions);
            assert_eq!(left, text.replace("{}", "[mcpmon:gitlab_token]"));
        }
        Verdict::Block(denial) => assert_eq!(
            (denial.rule.as_str(), is_replaceable),
            ("argument_inspection", false)
        ),
        verdict @ (Verdict::Allow | Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Ask(_)) => {
            panic!("{verdict:?}")
        }
    }
}

#[test_case("prompt", r#"{"notes":"use $TOKEN, please"}"#; "reference")]
#[test_case("read", "file:///srv/app/src/token.rs"; "path")]
#[test_case("read", "db://app:h7Gq2pqW4x@db/listed"; "address that the server lists itself")]
#[test_case("completion/complete", r#"{"ref":{"name":"review"},"argument":{"name":"token","value":"GITHUB_"}}"#; "half a name")]
#[test_case("sampled", r#"{"role":"assistant","content":{"type":"text","text":"The password was changed."}}"#; "prose")]
#[test_case("elicited", r#"{"action":"decline"}"#; "nothing")]
#[test_case("resumed", r#"{"q":{"action":"accept","content":{"note":"thanks"}}}"#; "thanks")]
fn what_is_no_secret_goes_on(kind: &str, json: &str) {
    let judgement = judged(OnSecret::Block, kind, json);
    assert_eq!(judgement.verdict, Verdict::Allow, "{judgement:?}");
    assert!(!format!("{judgement:?}").contains("argument_inspection"));
}

#[test]
fn the_servers_own_state_comes_back_as_it_is() {
    let state = format!("\"{TOKEN}\"");
    let call = said("resumed", &state);
    let mut world = World::new(policy());
    drop(world.tools(&[("read", "a")]));
    assert_eq!(world.say(Content::Client(call)).verdict, Verdict::Allow);
}

#[test]
fn what_is_switched_off_is_not_looked_at() {
    let mut policy = policy();
    policy.arguments.enabled = false;
    let mut world = World::new(policy);
    let answer = ELICITED.replace("{}", TOKEN);
    let judgement = world.say(Content::Client(said("elicited", &answer)));
    assert_eq!(judgement.verdict, Verdict::Allow);
    assert!(judgement.events.is_empty());
}

#[test]
fn what_is_beyond_what_is_looked_at_does_not_go_on() {
    let many = format!("[{}1]", "1,".repeat(1 << 17));
    let judgement = judged(OnSecret::Block, "elicited", &many);
    assert_eq!(blocked_by(&judgement), Some("arguments_too_large"));
}
