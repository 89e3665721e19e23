//! Headers that repeat the body, and those that do not.

use test_case::test_case;

use super::*;

const VERSION: (&str, &str) = ("MCP-Protocol-Version", STATELESS);
const CALL: (&str, &str) = ("Mcp-Method", "tools/call");
const NAME: (&str, &str) = ("Mcp-Name", "t");

/// Returns the disagreement that is reported between headers and body, or `None` if the post is forwarded.
fn check(head: &[(&str, &str)], body: &str) -> Option<String> {
    let (posted, incidents) = allowed().post(head, body);
    verdict(&posted, &incidents)
}

fn verdict(posted: &PostDecision, incidents: &[Incident]) -> Option<String> {
    let PostDecision::Answer(ProxyResponse { status, body }) = posted else {
        assert_eq!(incidents, []);
        return None;
    };
    assert_eq!(*status, 400);
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert_eq!(answer["error"]["code"], -32020);
    let cause = answer["error"]["message"].as_str().unwrap();
    let cause = cause
        .strip_prefix("[mcpmon] header mismatch: ")
        .unwrap()
        .to_owned();
    assert_eq!(incidents, [Incident::HeaderMismatch { cause: cause.clone() }]);
    Some(cause)
}

fn stateless(method: &str, params: &str) -> String {
    request("1", method, &format!("{{{params}{}}}", meta(STATELESS)))
}

fn tool() -> String {
    stateless("tools/call", r#""name":"t","arguments":{},"#)
}

fn no(cause: &str) -> Option<String> {
    Some(cause.to_owned())
}

#[test_case(&[VERSION, CALL, NAME], &tool() => None; "all three")]
#[test_case(&[("mcp-protocol-version", STATELESS), ("mcp-method", "tools/call"), ("MCP-NAME", "t")], &tool() => None; "names in any case")]
#[test_case(&[VERSION, CALL, ("Mcp-Name", "=?base64?dA==?=")], &tool() => None; "a name in Base64")]
#[test_case(&[VERSION, ("Mcp-Method", "tools/list")], &stateless("tools/list", "") => None; "no name where none is due")]
#[test_case(&[VERSION, ("Mcp-Method", "resources/read"), ("Mcp-Name", "file:///a")], &stateless("resources/read", r#""uri":"file:///a","#) => None; "a resource")]
#[test_case(&[VERSION, ("Mcp-Method", "tasks/get"), ("Mcp-Name", "x")], &stateless("tasks/get", r#""taskId":"x","#) => None; "a task")]
#[test_case(&[VERSION, ("Mcp-Method", "tasks/get")], &stateless("tasks/get", r#""taskId":"x","#) => None; "a task that is not named")]
#[test_case(&[VERSION, ("Mcp-Method", "x/y"), ("Mcp-Name", "z")], &stateless("x/y", "") => None; "a name of something unknown")]
#[test_case(&[VERSION, CALL, NAME, ("Mcp-Param-Unknown", "1"), ("Mcp-Param-Unknown", "2")], &tool() => None; "an unknown argument")]
#[test_case(&[VERSION, CALL, NAME], &call("1", "t") => None; "no revision in the body")]
#[test_case(&[], &call("1", "t") => None; "no headers in the earlier era")]
#[test_case(&[("MCP-Protocol-Version", "2025-06-18")], &call("1", "t") => None; "a revision of the earlier era")]
#[test_case(&[CALL, NAME], &call("1", "t") => None; "headers in the earlier era")]
#[test_case(&[VERSION, ("Mcp-Method", "notifications/cancelled")], &notification("notifications/cancelled") => None; "a notification")]
#[test_case(&[], &request("1", "server/discover", "{}") => None; "a probe")]
#[test_case(&[CALL, NAME], &tool() => no("MCP-Protocol-Version is missing"); "no revision")]
#[test_case(&[VERSION, NAME], &tool() => no("Mcp-Method is missing"); "no method")]
#[test_case(&[VERSION, CALL], &tool() => no("Mcp-Name is missing"); "no name")]
#[test_case(&[VERSION, CALL], &call("1", "t") => no("Mcp-Name is missing"); "no name, the revision in the header alone")]
#[test_case(&[("MCP-Protocol-Version", "2025-11-25"), CALL, NAME], &tool() => no("MCP-Protocol-Version is not the revision that the body tells"); "another revision")]
#[test_case(&[VERSION, CALL, NAME], &request("1", "tools/call", &format!(r#"{{"name":"t",{}}}"#, meta("2025-11-25"))) => no("MCP-Protocol-Version is not the revision that the body tells"); "an earlier one in the body")]
#[test_case(&[VERSION, ("Mcp-Method", "tools/list"), NAME], &tool() => no("Mcp-Method is not what the body says"); "another method")]
#[test_case(&[VERSION, ("Mcp-Method", "Tools/Call"), NAME], &tool() => no("Mcp-Method is not what the body says"); "another case")]
#[test_case(&[VERSION, ("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?="), NAME], &tool() => no("Mcp-Method is not what the body says"); "a method in Base64")]
#[test_case(&[VERSION, CALL, ("Mcp-Name", "harmless")], &tool() => no("Mcp-Name is not what the body says"); "another name")]
#[test_case(&[VERSION, CALL, ("Mcp-Name", "=?base64?dB==?=")], &tool() => no("Mcp-Name cannot be read"); "a name in bad Base64")]
#[test_case(&[VERSION, CALL, ("Mcp-Name", "t\u{e9}")], &tool() => no("Mcp-Name cannot be read"); "a name beyond ASCII")]
#[test_case(&[VERSION, VERSION, CALL, NAME], &tool() => no("MCP-Protocol-Version is there more than once"); "the revision twice")]
#[test_case(&[VERSION, CALL, CALL, NAME], &tool() => no("Mcp-Method is there more than once"); "the method twice")]
#[test_case(&[VERSION, CALL, NAME, ("mcp-name", "t")], &tool() => no("Mcp-Name is there more than once"); "the name twice")]
#[test_case(&[VERSION, ("Mcp-Method", "resources/read"), ("Mcp-Name", "file:///a")], &stateless("resources/read", r#""uri":"file:///b","#) => no("Mcp-Name is not what the body says"); "another resource")]
#[test_case(&[VERSION, ("Mcp-Method", "tasks/get"), ("Mcp-Name", "x")], &stateless("tasks/get", r#""taskId":"y","#) => no("Mcp-Name is not what the body says"); "another task")]
#[test_case(&[("Mcp-Method", "tools/list")], &call("1", "t") => no("Mcp-Method is not what the body says"); "another method in the earlier era")]
#[test_case(&[("Mcp-Name", "harmless")], &call("1", "t") => no("Mcp-Name is not what the body says"); "another name in the earlier era")]
#[test_case(&[VERSION, ("Mcp-Method", "notifications/x")], &notification("notifications/y") => no("Mcp-Method is not what the body says"); "another notification")]
#[test_case(&[VERSION], &notification("notifications/y") => no("Mcp-Method is missing"); "a notification without a method")]
#[test_case(&[CALL], r#"{"jsonrpc":"2.0","id":1,"result":{}}"# => no("Mcp-Method is not what the body says"); "an answer with a method")]
fn headers_and_bodies(head: &[(&str, &str)], body: &str) -> Option<String> {
    check(head, body)
}

#[test]
fn of_two_members_with_one_name_the_last_is_meant() {
    let body = stateless("tools/call", r#""name":"x","name":"t","#);
    assert_eq!(check(&[VERSION, CALL, NAME], &body), None);
    let head = [VERSION, CALL, ("Mcp-Name", "x")];
    assert_eq!(check(&head, &body), no("Mcp-Name is not what the body says"));
}

#[test]
fn the_answer_has_the_id_of_the_request() {
    let (posted, _) = allowed().post(&[VERSION, NAME], tool());
    assert!(told(&posted).starts_with(r#"400 {"jsonrpc":"2.0","id":1,"#));
    let (posted, _) = allowed().post(&[VERSION], notification("x"));
    assert!(told(&posted).starts_with(r#"400 {"jsonrpc":"2.0","id":null,"#));
}

/// A session that has seen what the arguments of `t` are.
fn listed(schema: &str) -> Scene<impl FnMut(&Message<'_>) -> Verdict> {
    let mut scene = allowed();
    let list = result(
        "9",
        &format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#),
    );
    scene.exchange(&request("9", "tools/list", "{}"), JSON, &list);
    scene
}

const SCHEMA: &str = r#"{"properties":{"s":{"type":"string","x-mcp-header":"Text"},"n":{"type":"integer","x-mcp-header":"Count"},"b":{"type":"boolean","x-mcp-header":"Flag"},"o":{"properties":{"i":{"type":"string","x-mcp-header":"Inner"}}}}}"#;

#[test_case(&[("Mcp-Param-Text", "us-west1")], r#"{"s":"us-west1"}"# => None; "a text")]
#[test_case(&[("mcp-param-TEXT", "us-west1")], r#"{"s":"us-west1"}"# => None; "in another case")]
#[test_case(&[("Mcp-Param-Text", "=?base64?w6k=?=")], r#"{"s":"é"}"# => None; "in Base64")]
#[test_case(&[("Mcp-Param-Text", "")], r#"{"s":""}"# => None; "an empty one")]
#[test_case(&[("Mcp-Param-Count", "42.0")], r#"{"n":42}"# => None; "a number by its value")]
#[test_case(&[("Mcp-Param-Count", "1000")], r#"{"n":1e3}"# => None; "a number with an exponent")]
#[test_case(&[("Mcp-Param-Flag", "true")], r#"{"b":true}"# => None; "a truth")]
#[test_case(&[("Mcp-Param-Inner", "x")], r#"{"o":{"i":"x"}}"# => None; "one inside another")]
#[test_case(&[], r#"{}"# => None; "none")]
#[test_case(&[], r#"{"s":null,"o":1}"# => None; "null")]
#[test_case(&[], r#"{"s":["a"]}"# => None; "what no header can say")]
#[test_case(&[], r#"{"s":"x"}"# => no("Mcp-Param-text is missing"); "missing")]
#[test_case(&[("Mcp-Param-Text", "y")], r#"{"s":"x"}"# => no("Mcp-Param-text is not what the argument is"); "another text")]
#[test_case(&[("Mcp-Param-Text", "x")], r#"{}"# => no("Mcp-Param-text is there, and the argument is not"); "no argument")]
#[test_case(&[("Mcp-Param-Text", "x")], r#"{"s":null}"# => no("Mcp-Param-text is there, and the argument is not"); "null for a text")]
#[test_case(&[("Mcp-Param-Text", "a")], r#"{"s":["a"]}"# => no("Mcp-Param-text is not what the argument is"); "a list")]
#[test_case(&[("Mcp-Param-Text", "x"), ("mcp-param-text", "x")], r#"{"s":"x"}"# => no("Mcp-Param-text is there more than once"); "twice")]
#[test_case(&[("Mcp-Param-Text", "=?base64?w6?=")], r#"{"s":"x"}"# => no("Mcp-Param-text cannot be read"); "bad Base64")]
#[test_case(&[("Mcp-Param-Count", "43")], r#"{"n":42}"# => no("Mcp-Param-count is not what the argument is"); "another number")]
#[test_case(&[("Mcp-Param-Count", "42.0")], r#"{"n":"42"}"# => no("Mcp-Param-count is not what the argument is"); "a text for a number")]
#[test_case(&[("Mcp-Param-Flag", "True")], r#"{"b":true}"# => no("Mcp-Param-flag is not what the argument is"); "another truth")]
#[test_case(&[("Mcp-Param-Text", "x")], r#"{"s":"x","s":"y"}"# => no("Mcp-Param-text is not what the argument is"); "an argument twice")]
fn arguments_in_headers(params: &[(&str, &str)], arguments: &str) -> Option<String> {
    let mut head = vec![VERSION, CALL, NAME];
    head.extend(params);
    let body = stateless("tools/call", &format!(r#""name":"t","arguments":{arguments},"#));
    let (posted, incidents) = listed(SCHEMA).post(&head, body);
    verdict(&posted, &incidents)
}

#[test]
fn in_the_earlier_era_what_is_there_has_to_agree() {
    let body = request("1", "tools/call", r#"{"name":"t","arguments":{"s":"x"}}"#);
    let post = |head: &[(&str, &str)]| {
        let (posted, incidents) = listed(SCHEMA).post(head, &body);
        verdict(&posted, &incidents)
    };
    assert_eq!(post(&[]), None);
    assert_eq!(post(&[("mcp-param-text", "x")]), None);
    let head = [("mcp-param-text", "y")];
    assert_eq!(post(&head), no("Mcp-Param-text is not what the argument is"));
}

#[test]
fn what_a_later_list_says_counts() {
    let mut scene = listed(SCHEMA);
    let list = result("9", r#"{"tools":[{"name":"t","inputSchema":{}}]}"#);
    scene.exchange(&request("9", "tools/list", "{}"), JSON, &list);
    let head = [VERSION, CALL, NAME, ("Mcp-Param-Text", "other")];
    let body = stateless("tools/call", r#""name":"t","arguments":{"s":"x"},"#);
    let (posted, incidents) = scene.post(&head, body);
    assert_eq!(verdict(&posted, &incidents), None);
}

#[test]
fn sessions_share_what_they_learnt() {
    let scene = listed(SCHEMA);
    let mut later = Scene {
        session: HttpSession::new(LIMITS, scene.session.learned.clone()),
        judge: |_: &Message<'_>| Verdict::Allow,
    };
    let body = stateless("tools/call", r#""name":"t","arguments":{"s":"x"},"#);
    let (posted, incidents) = later.post(&[VERSION, CALL, NAME], body);
    assert_eq!(verdict(&posted, &incidents), no("Mcp-Param-text is missing"));
}
