//! Posts: the forwarded ones, and the status of the answered ones.

use mcpmon_model::{Redaction, RequestId};
use test_case::test_case;

use super::*;

pub(super) const DENIED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[mcpmon] Tool 'evil' blocked by policy: it is not allowed (rule no-evil)."}],"isError":true}}"#;

#[test_case(&call("1", "good") => "on: as it came"; "a call")]
#[test_case(&call("1", "evil") => format!("200 {DENIED}"); "a blocked call")]
#[test_case(&request("1", "prompts/get", r#"{"name":"evil"}"#) => r#"200 {"jsonrpc":"2.0","id":1,"error":{"code":-32003,"message":"[mcpmon] Prompt 'evil' blocked by policy: it is not allowed (rule no-evil)."}}"#; "a blocked prompt")]
#[test_case(r#"{"jsonrpc":"2.0","method":"notifications/evil"}"# => "202 "; "a blocked notification")]
#[test_case("{\n  \"jsonrpc\" : \"2.0\",\r\n \"id\":1,\"method\":\"ping\"\n}\n" => "on: as it came"; "white space")]
#[test_case("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\u{2028}\"}}" => "on: as it came"; "what ends lines for some, where there are none")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"tools/call","params":{"name":"evil"}}"# => format!("200 {DENIED}"); "a name twice, the last one counts")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"ping"}"# => r#"on: {"jsonrpc":"2.0","id":1,"method":"ping"}"#; "a name twice goes on once")]
#[test_case("{\"jsonrpc\"" => r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"[mcpmon] unexpected end at byte 10"}}"#; "half a message")]
#[test_case("\u{feff}{}" => r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"[mcpmon] unexpected byte 0xef at byte 0"}}"#; "a byte order mark")]
#[test_case(" \n" => r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"[mcpmon] the body is empty"}}"#; "nothing")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"Method":"tools/call"}"# => r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"[mcpmon] a member's name is another spelling of a known one"}}"#; "a capital")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"ping","method\u0000":"tools/call","params":{"name":"evil"}}"# => r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"[mcpmon] NUL in a member's name at byte 47"}}"#; "a NUL behind a name")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}"# => r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"[mcpmon] unexpected byte 0x4e at byte 51"}}"#; "what cannot be read, with an id")]
#[test_case(r#"{"jsonrpc":"2.0","id":9,"result":{}}"# => "202 "; "an answer that nobody waits for")]
fn what_becomes_of_a_body(body: &str) -> String {
    told(&guarded().post(&[("mcp-protocol-version", "2025-06-18")], body).0)
}

#[test_case(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xff\"}"; "no UTF-8")]
#[test_case(b"\xff\xfe{\0}\0"; "another encoding")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#; "half a surrogate pair")]
#[test_case(br#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":NaN}}"#; "no number")]
#[test_case(b"{\"x\":1}\r{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}"; "two texts")]
fn what_servers_read_differently_is_refused(body: &[u8]) {
    let (posted, incidents) = allowed().post(&[], body);
    assert!(told(&posted).starts_with("400 "), "{posted:?}");
    assert!(
        matches!(&incidents[..], [Incident::Unparsable { .. }]),
        "{incidents:?}"
    );
}

#[test_case("application/json", true; "json")]
#[test_case("application/json; charset=UTF-8", true; "UTF-8")]
#[test_case("application/json;charset=\"utf-8\"", true; "quoted")]
#[test_case("application/json; charset=utf-7", false; "seven bits, in which a method can hide")]
#[test_case("application/json; charset=utf-16le", false; "sixteen")]
#[test_case("application/json; charset=utf-8; charset=utf-7", false; "two")]
#[test_case("application/json; charset = \"UTF-7\"", false; "spaces and quotes")]
fn a_body_is_utf8(content_type: &str, goes_on: bool) {
    let posted = told(
        &allowed()
            .post(&[("Content-Type", content_type)], call("1", "t"))
            .0,
    );
    assert_eq!(posted.starts_with("on: "), goes_on, "{posted}");
    assert!(goes_on || posted.starts_with("415 "), "{posted}");
}

#[test]
fn two_content_types_are_refused() {
    let head = [
        ("content-type", "application/json"),
        ("Content-Type", "application/json; charset=utf-7"),
    ];
    assert!(told(&allowed().post(&head, call("1", "t")).0).starts_with("415 "));
}

#[test]
fn what_is_too_long_is_refused() {
    let body = call("1", &"x".repeat(LIMITS.max_line));
    let (posted, incidents) = allowed().post(&[], body);
    assert_eq!(
        told(&posted),
        r#"413 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"[mcpmon] the message is longer than 4096 bytes"}}"#
    );
    let (side, limit) = (Side::Client, LIMITS.max_line);
    assert_eq!(incidents, [Incident::TooLong { side, limit }]);
}

#[test]
fn in_the_stateless_era_a_blocked_call_is_complete() {
    let params = format!(r#"{{"name":"evil",{}}}"#, meta(STATELESS));
    let head = [
        ("mcp-protocol-version", STATELESS),
        ("mcp-method", "tools/call"),
        ("mcp-name", "evil"),
    ];
    let (posted, _) = guarded().post(&head, request("1", "tools/call", &params));
    let told = told(&posted);
    assert!(
        told.starts_with("200 ") && told.ends_with(r#""isError":true,"resultType":"complete"}}"#),
        "{told}"
    );
}

#[test]
fn the_header_alone_can_tell_the_era() {
    let head = [
        ("mcp-protocol-version", STATELESS),
        ("mcp-method", "tools/call"),
        ("mcp-name", "evil"),
    ];
    let told = told(&guarded().post(&head, call("1", "evil")).0);
    assert!(told.ends_with(r#""resultType":"complete"}}"#), "{told}");
}

#[test]
fn an_id_waits_once_unless_it_asks_the_same_again() {
    let mut scene = allowed();
    scene.asks(call("1", "t"));
    // Its response was lost, and the client tries again.
    scene.asks(call("1", "t"));
    let (posted, incidents) = scene.post(&[], call("1", "other"));
    let told = told(&posted);
    assert!(
        told.starts_with("400 ") && told.contains("another request with this id"),
        "{told}"
    );
    assert!(matches!(
        &incidents[..],
        [Incident::Refused {
            side: Side::Client,
            ..
        }]
    ));
}

#[test]
fn arguments_are_redacted_in_headers_too() {
    let mut scene = Scene::new(|message: &Message<'_>| match &message.content {
        Content::Client(FromClient::Call(call)) => {
            let arguments = call.arguments.expect("there are some").as_str();
            let redaction = |start: usize| Redaction {
                place: start..start + "secret".len(),
                text: "***".to_owned(),
            };
            Verdict::Redact(
                arguments
                    .match_indices("secret")
                    .map(|(at, _)| redaction(at))
                    .collect(),
            )
        }
        Content::Client(_) | Content::Server(_) => Verdict::Allow,
    });
    let schema = r#"{"properties":{"k":{"type":"string","x-mcp-header":"Key"},"n":{"type":"integer","x-mcp-header":"N"}}}"#;
    let list = result(
        "1",
        &format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#),
    );
    scene.exchange(&request("1", "tools/list", "{}"), JSON, &list);
    let body = request(
        "2",
        "tools/call",
        r#"{"name":"t","arguments":{"k":"a secret é","n":1.0,"deep":[{"x":"secret"}]}}"#,
    );
    let head = [
        ("Mcp-Param-Key", "=?base64?YSBzZWNyZXQgw6k=?="),
        ("mcp-param-n", "1"),
        ("mcp-param-other", "secret"),
        ("mcp-param-free", "as it is"),
    ];
    let (posted, _) = scene.post(&head, body);
    assert_eq!(
        told(&posted),
        r#"on: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{"k":"a *** é","n":1.0,"deep":[{"x":"***"}]}}} Mcp-Param-Key: =?base64?YSAqKiogw6k=?=, Mcp-Param-n: 1, Mcp-Param-other: ***, Mcp-Param-free: as it is"#
    );
}

#[test]
fn in_the_stateless_era_clients_answer_nothing() {
    let head = [("mcp-protocol-version", STATELESS)];
    let (posted, incidents) = allowed().post(&head, result("1", "{}"));
    assert!(told(&posted).starts_with("400 "), "{posted:?}");
    assert!(matches!(&incidents[..], [Incident::Unasked { .. }]));
}

#[test]
fn what_is_redacted_in_another_request_is_in_headers_too() {
    let mut scene = Scene::new(|message: &Message<'_>| match &message.content {
        Content::Client(FromClient::Request { params, .. }) => {
            let params = params.expect("there are some").as_str();
            let start = params.find("secret").expect("it is there");
            Verdict::Redact(vec![Redaction {
                place: start..start + "secret".len(),
                text: "***".to_owned(),
            }])
        }
        Content::Client(_) | Content::Server(_) => Verdict::Allow,
    });
    let body = request(
        "1",
        "completion/complete",
        r#"{"argument":{"name":"n","value":"secret"}}"#,
    );
    let (posted, _) = scene.post(&[("Mcp-Param-Value", "secret")], body);
    let expected = request(
        "1",
        "completion/complete",
        r#"{"argument":{"name":"n","value":"***"}}"#,
    );
    assert_eq!(told(&posted), format!("on: {expected} Mcp-Param-Value: ***"));
}

#[test]
fn a_reply_is_judged_and_goes_on() {
    let mut scene = guarded();
    let ask = request("\"q\"", "elicitation/create", r#"{"message":"name?"}"#);
    let stream = HttpResponse::to_get(LIMITS, 200, EVENTS);
    assert_eq!(scene.comes(stream, [&event(&ask)]).to_client, event(&ask));
    let reply = result("\"q\"", r#"{"action":"accept","content":{"name":"evil"}}"#);
    let (posted, _) = scene.post(&[], reply);
    assert_eq!(
        told(&posted),
        format!("on: {}", result("\"q\"", r#"{"action":"decline"}"#))
    );
    let (posted, incidents) = scene.post(&[], result("\"q\"", "{}"));
    assert_eq!(told(&posted), "202 ");
    let id = RequestId::Text("q".into());
    assert_eq!(
        incidents,
        [Incident::Unasked {
            side: Side::Client,
            id
        }]
    );
}
