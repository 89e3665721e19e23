//! Arrays of messages: judged one by one where the revision allows them, refused where it does not.

use test_case::test_case;

use super::{posts::DENIED, *};

fn batch(version: Option<&str>, body: &str) -> (String, Vec<Incident>) {
    let head: Vec<(&str, &str)> = version
        .map(|version| ("MCP-Protocol-Version", version))
        .into_iter()
        .collect();
    let (posted, incidents) = guarded().post(&head, body);
    let answers = match &posted {
        PostDecision::Forward(forward) => forward.waiting.answers.join(" + "),
        PostDecision::Answer(_) | PostDecision::Held(_) => String::new(),
    };
    let plus = if answers.is_empty() { "" } else { " + " };
    (format!("{}{plus}{answers}", told(&posted)), incidents)
}

#[test_case(None, &format!("[{},{}]", call("1", "good"), call("2", "good")) => "on: as it came"; "all good")]
#[test_case(Some("2025-03-26"), &format!("[{},{}]", call("1", "evil"), call("2", "good")) => format!("on: [{}] + {DENIED}", call("2", "good")); "one of two")]
#[test_case(None, &format!("[{}]", call("1", "evil")) => format!("200 [{DENIED}]"); "the only one")]
#[test_case(None, &format!("[{}]", notification("evil")) => "202 "; "the only notification")]
#[test_case(None, "[]" => r#"400 [{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"[mcpmon] an empty batch"}}]"#; "empty")]
fn where_there_are_batches(version: Option<&str>, body: &str) -> String {
    batch(version, body).0
}

#[test]
fn so_many_go_together() {
    let batch_of = |count: usize| {
        let calls: Vec<String> = (0..count).map(|id| call(&id.to_string(), "good")).collect();
        format!("[{}]", calls.join(","))
    };
    let told = batch(None, &batch_of(LIMITS.max_batch + 1)).0;
    assert!(told.starts_with("400 [{"), "{told}");
    assert_eq!(
        told.matches("a batch of too many messages").count(),
        LIMITS.max_pending + 1
    );
    // Of four, three may wait.
    let told = batch(None, &batch_of(LIMITS.max_batch)).0;
    assert!(
        told.starts_with("on: [") && told.contains("too many requests wait"),
        "{told}"
    );
}

#[test_case(Some("2025-06-18"), &format!("[{}]", call("1", "good")); "the first revision without")]
#[test_case(Some("2025-11-25"), &format!("[{},{}]", call("1", "evil"), call("2", "good")); "a later one")]
#[test_case(Some(STATELESS), &format!("[{}]", call("1", "good")); "the stateless era")]
#[test_case(Some("next"), &format!("[{}]", call("1", "good")); "no date")]
#[test_case(None, &format!("[{}]", request("1", "ping", &format!("{{{}}}", meta(STATELESS)))); "a message of the stateless era")]
fn where_there_are_none(version: Option<&str>, body: &str) {
    let (told, incidents) = batch(version, body);
    assert!(
        told.starts_with(r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#),
        "{told}"
    );
    assert!(matches!(&incidents[..], [Incident::Unparsable { .. }]));
}

#[test_case("mcp-method", "tools/call"; "a method")]
#[test_case("Mcp-Name", "good"; "a name")]
#[test_case("Mcp-Param-A", "1"; "an argument")]
fn headers_are_about_one_message(name: &str, value: &str) {
    let body = format!("[{}]", call("1", "good"));
    let (posted, _) = allowed().post(&[(name, value)], body);
    assert!(told(&posted).starts_with("400 "), "{posted:?}");
}
