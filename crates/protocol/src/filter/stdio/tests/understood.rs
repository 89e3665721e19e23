//! The meaning of messages: by their method, and of answers by their request.

use mcpmon_model::{AnswerOutcome, Content, FromClient, FromServer, Listing, RawJson};
use test_case::test_case;

use super::*;

/// Returns the judged messages of these lines: `>` before the client's, `<` before the server's.
fn judged(lines: &[&str]) -> Vec<String> {
    let mut judged = Vec::new();
    let mut conversation = Conversation::new(|message| {
        judged.push(shown(message));
        Verdict::Allow
    });
    for line in lines {
        let (side, line) = match line.split_at(1) {
            (">", line) => (Side::Client, line),
            ("<", line) => (Side::Server, line),
            other => panic!("neither side says {other:?}"),
        };
        let written = conversation.writes(side, format!("{line}\n"));
        let on = match side {
            Side::Client => written.to_server,
            Side::Server => written.to_client,
        };
        assert_eq!(on, format!("{line}\n"), "{:?}", written.incidents);
    }
    judged
}

/// A message on one line, without what all have.
fn shown(message: &Message<'_>) -> String {
    let content = match &message.content {
        Content::Client(FromClient::Call(call)) => {
            let raw = |json: Option<RawJson<'_>>| json.map(|json| json.as_str().to_owned());
            format!(
                "call {} {:?} resumes {:?}",
                call.tool,
                raw(call.arguments),
                raw(call.resumes)
            )
        }
        Content::Client(FromClient::Read { uri }) => format!("read {uri}"),
        Content::Client(FromClient::Prompt { name, arguments }) => {
            format!(
                "prompt {name} {:?}",
                arguments.map(|json| json.as_str().to_owned())
            )
        }
        Content::Client(FromClient::Request { method, .. }) => format!("request {method}"),
        Content::Client(FromClient::Reply { to, body }) => format!("reply to {to:?} {}", body.as_str()),
        Content::Client(FromClient::Notice { method, .. }) => format!("notice {method}"),
        Content::Server(FromServer::Listing(listing)) => {
            let names: Vec<&str> = listing.items.iter().map(|item| &*item.name).collect();
            let Listing {
                kind,
                continued,
                more,
                is_part,
                ..
            } = listing;
            let part = if *is_part { "part of " } else { "" };
            format!("{part}{kind:?} {names:?} continued {continued} more {more}")
        }
        Content::Server(FromServer::Introduction(introduction)) => {
            format!(
                "introduction {:?} {:?}",
                introduction.name, introduction.instructions
            )
        }
        Content::Server(FromServer::Answer(answer)) => {
            let outcome = match &answer.outcome {
                AnswerOutcome::Result { kind, .. } => format!("{kind:?}"),
                AnswerOutcome::Error { code, message, .. } => format!("{code} {message}"),
            };
            assert_eq!(answer.to.at, Timestamp(7));
            format!("answer to {:?}: {outcome}", answer.to.what)
        }
        Content::Server(FromServer::Ask { ask, method, .. }) => format!("ask {ask:?} {method}"),
        Content::Server(FromServer::ListChanged(kind)) => format!("changed {kind:?}"),
        Content::Server(FromServer::Notice { method, .. }) => format!("notice {method}"),
    };
    format!("{:?} {content}", message.era)
}

#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1e2}}}"#],
    &["Handshake call a Some(\"{\\\"x\\\":1e2}\") resumes None"]; "a call")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\u002db"}}"#],
    &["Handshake call a-b None resumes None"]; "a call without arguments, its name escaped")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#],
    &["Stateless call a None resumes None"]; "a call of the stateless era")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}"#],
    &["Handshake call a None resumes None"]; "a version before it")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","inputResponses":{"q":{"action":"accept"}},"requestState":"s"}}"#],
    &["Handshake call a None resumes Some(\"{\\\"q\\\":{\\\"action\\\":\\\"accept\\\"}}\")"]; "a call that goes on with answers")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","requestState":"s"}}"#],
    &["Handshake call a None resumes Some(\"\\\"s\\\"\")"]; "a call that goes on with a state")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}"#, r#">{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"file:///b"}}"#],
    &["Handshake read file:///a", "Handshake read file:///b"]; "resources")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":{"x":"y"}}}"#],
    &["Handshake prompt p Some(\"{\\\"x\\\":\\\"y\\\"}\")"]; "a prompt")]
#[test_case(&[r#">{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{}}"#, r#">{"jsonrpc":"2.0","method":"notifications/initialized"}"#, r#">{"jsonrpc":"2.0","id":2,"method":"x/y"}"#],
    &["Handshake request completion/complete", "Handshake notice notifications/initialized", "Handshake request x/y"]; "other requests and notifications")]
fn what_a_client_says(lines: &[&str], expected: &[&str]) {
    assert_eq!(judged(lines), expected);
}

/// The second line's meaning, once the first was asked.
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"x":1,"name":"b"}]}}"#,
    "Handshake Tools [\"a\", \"b\"] continued false more false"; "tools")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"nextCursor":"y","tools":[]}}"#,
    "Handshake Tools [] continued true more true"; "a later page of tools, empty")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":null}}"#,
    "Handshake Tools [] continued false more false"; "a cursor that is none")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"tools":[],"next_cursor":null}}"#,
    "Handshake Tools [] continued false more false"; "a cursor in snake case that is none")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"content":[],"is_error":false}}"#,
    "Handshake answer to Call { tool: Some(\"a\") }: Complete"; "no error in snake case")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"p"}]}}"#,
    "Handshake Prompts [\"p\"] continued false more false"; "prompts")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"resources":[{"name":"n","uri":"u:"}]}}"#,
    "Handshake Resources [\"u:\"] continued false more false"; "resources by their URI")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"resourceTemplates":[{"uriTemplate":"u:{x}"}]}}"#,
    "Handshake Templates [\"u:{x}\"] continued false more false"; "templates")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"skills/list"}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"skills":[{"uri":"skill://a/SKILL.md","frontmatter":{},"resources":"dynamic"}]}}"#,
    "Handshake Skills [\"skill://a/SKILL.md\"] continued false more false"; "skills")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":"skill://a/SKILL.md"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"skill":{"uri":"skill://a/SKILL.md"}}}"#,
    "Handshake part of Skills [\"skill://a/SKILL.md\"] continued false more false"; "a skill")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":"skill://a/SKILL.md"}}"#, r#"<{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#,
    "Handshake answer to Part { of: Skills, uri: \"skill://a/SKILL.md\" }: -32602 no"; "no skill")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"resources/directory/read","params":{"uri":"skill://a"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"skill://a/b.md","name":"b.md"}]}}"#,
    "Handshake part of Resources [\"skill://a/b.md\"] continued false more false"; "a directory")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, r#"<{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no tools"}}"#,
    "Handshake answer to List(Tools): -32601 no tools"; "an error instead of a list")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"s"},"instructions":"do"}}"#,
    "Handshake introduction Some(\"s\") Some(\"do\")"; "an introduction")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}"#,
    "Stateless introduction Some(\"s\") None"; "an introduction of the stateless era")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"fake"}],"content":[]}}"#,
    "Handshake answer to Call { tool: Some(\"a\") }: Complete"; "a result that looks like a list")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#,
    "Handshake answer to Call { tool: Some(\"a\") }: Failed"; "a call that failed")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{},"requestState":"s"}}"#,
    "Stateless answer to Call { tool: Some(\"a\") }: InputRequired"; "a call that needs input")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t"},"content":[]}}"#,
    "Handshake answer to Call { tool: Some(\"a\") }: Complete"; "a task that was not asked for is a result")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{"q":{}}}}"#,
    "Handshake answer to Call { tool: Some(\"a\") }: InputRequired"; "a call that needs input and does not say so")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","status":"input_required","inputRequests":{"q":{}}}}"#,
    "Handshake answer to Call { tool: None }: InputRequired"; "a task that needs input")]
#[test_case(r#">{"jsonrpc":"2.0","id":"1","method":"resources/read","params":{"uri":"u:"}}"#, r#"<{"jsonrpc":"2.0","id":"1","result":{"contents":[]}}"#,
    "Handshake answer to Read { uri: \"u:\" }: Complete"; "a resource, by a text id")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"u:"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{}}"#,
    "Handshake answer to Other { method: \"resources/subscribe\" }: Complete"; "a subscription")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{}}"#, r#"<{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
    "Handshake answer to Other { method: \"resources/subscribe\" }: -32601 no"; "a subscription to nothing")]
#[test_case(r#">{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}"#, r#"<{"jsonrpc":"2.0","id":1,"result":{"messages":[]}}"#,
    "Handshake answer to Prompt { name: \"p\" }: Complete"; "a prompt")]
#[test_case(r#"<{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#, r#">{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"}}"#,
    "Handshake reply to Sampling {\"role\":\"assistant\"}"; "a reply to sampling")]
#[test_case(r#"<{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#, r#">{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
    "Handshake reply to Elicitation {\"code\":-1,\"message\":\"no\"}"; "a question turned down")]
#[test_case(r#"<{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, r#">{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#,
    "Handshake reply to Roots {\"roots\":[]}"; "roots")]
fn what_an_answer_is(asked: &str, answered: &str, expected: &str) {
    assert_eq!(judged(&[asked, answered])[1], expected);
}

#[test_case(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#, "changed Tools"; "tools")]
#[test_case(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#, "changed Prompts"; "prompts")]
#[test_case(r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#, "changed Resources"; "resources")]
#[test_case(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}"#, "notice notifications/progress"; "progress")]
#[test_case(r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t"}}"#, "notice notifications/tasks/status"; "the status of a task")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#, "ask Sampling sampling/createMessage"; "sampling")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#, "ask Elicitation elicitation/create"; "a question")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, "ask Roots roots/list"; "roots")]
#[test_case(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "ask Other ping"; "ping")]
fn what_a_server_says_unasked(line: &str, expected: &str) {
    assert_eq!(judged(&[&format!("<{line}")]), [format!("Handshake {expected}")]);
}

#[test]
fn tasks_of_2025_are_results_of_their_calls() {
    let said = judged(&[
        r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","task":{"ttl":60000}}}"#,
        r#"<{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1","status":"working"}}}"#,
        r#">{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}"#,
        r#"<{"jsonrpc":"2.0","id":2,"result":{"taskId":"t1","status":"completed"}}"#,
        r#">{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"t1"}}"#,
        r#"<{"jsonrpc":"2.0","id":3,"result":{"content":[],"isError":true}}"#,
        r#">{"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":"t2"}}"#,
        r#"<{"jsonrpc":"2.0","id":4,"result":{"content":[]}}"#,
    ]);
    assert_eq!(
        said[1..],
        [
            "Handshake answer to Call { tool: Some(\"slow\") }: Task",
            "Handshake request tasks/get",
            "Handshake answer to Call { tool: Some(\"slow\") }: Complete",
            "Handshake request tasks/result",
            "Handshake answer to Call { tool: Some(\"slow\") }: Failed",
            "Handshake request tasks/result",
            "Handshake answer to Call { tool: None }: Complete",
        ]
    );
}

#[test]
fn tasks_of_2026_bring_the_result_with_their_status() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let said = judged(&[
        &format!(r#">{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"slow",{meta}}}}}"#),
        r#"<{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t1","status":"working"}}"#,
        &format!(r#">{{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{{"taskId":"t1",{meta}}}}}"#),
        r#"<{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","taskId":"t1","status":"completed","result":{"content":[],"isError":true}}}"#,
    ]);
    assert_eq!(
        said[1..],
        [
            "Stateless answer to Call { tool: Some(\"slow\") }: Task",
            "Stateless request tasks/get",
            "Stateless answer to Call { tool: Some(\"slow\") }: Failed",
        ]
    );
}

#[test]
fn two_eras_share_one_channel() {
    let said = judged(&[
        r#">{"jsonrpc":"2.0","id":0,"method":"server/discover"}"#,
        r#"<{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"unknown"}}"#,
        r#">{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#,
        r#">{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        r#"<{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#,
        r#"<{"jsonrpc":"2.0","id":0,"result":{}}"#,
    ]);
    assert_eq!(
        said,
        [
            "Stateless request server/discover",
            "Stateless answer to Other { method: \"server/discover\" }: -32601 unknown",
            "Handshake request initialize",
            "Stateless request tools/list",
            "Stateless Tools [] continued false more false",
            "Handshake introduction None None",
        ]
    );
}

#[test_case(r#"{"claudecode/toolUseId":"toolu_1","callId":"no"}"#, Some("toolu_1"), None; "Claude Code")]
#[test_case(r#"{"callId":"call_1"}"#, Some("call_1"), None; "Codex")]
#[test_case(r#"{"traceparent":"00-a-b-01","progressToken":3}"#, None, Some("00-a-b-01"); "a trace")]
#[test_case(r#"{"callId":7}"#, None, None; "no text")]
fn other_layers_ids_are_those_of_the_answer_too(meta: &str, tool_call: Option<&str>, parent: Option<&str>) {
    let mut traces = Vec::new();
    let mut conversation = Conversation::new(|message| {
        traces.push((
            message.trace.tool_call.as_deref().map(str::to_owned),
            message.trace.parent.as_deref().map(str::to_owned),
        ));
        Verdict::Allow
    });
    conversation.client(&request(
        "1",
        "tools/call",
        &format!(r#"{{"name":"a","_meta":{meta}}}"#),
    ));
    conversation.server(&result("1", "{}"));
    let expected = (tool_call.map(str::to_owned), parent.map(str::to_owned));
    assert_eq!(traces, [expected.clone(), expected]);
}

#[test]
fn a_message_tells_its_length() {
    let mut sizes = Vec::new();
    let mut conversation = Conversation::new(|message| {
        sizes.push(message.size);
        Verdict::Allow
    });
    let (one, two) = (call("1", "a"), call("2", "bcd"));
    conversation.client(&one);
    conversation.client(&format!("[{two}, {one}]"));
    // The third has the first one's id, and is refused.
    assert_eq!(sizes, [one.len(), two.len()]);
}

/// Answers that a less strict client would take for the skill it asked for.
#[test_case(r#"{"skill":{"uri":"skill://b/SKILL.md"}}"#; "another skill")]
#[test_case(r#"{"skill":{"URI":"skill://a/SKILL.md","uri":"skill://a/SKILL.md"}}"#; "two spellings of its uri")]
#[test_case(r#"{"skill":{"uri":"skill://a/SKILL.md","Resources":"dynamic"}}"#; "another spelling of its files")]
#[test_case(r#"{"skill":null}"#; "none")]
#[test_case(r#"{"Skill":{"uri":"skill://a/SKILL.md"}}"#; "another spelling")]
#[test_case("{}"; "nothing")]
fn an_answer_that_is_not_the_skill_does_not_go_on(result: &str) {
    let mut conversation = Conversation::new(|_: &Message<'_>| Verdict::Allow);
    let asked = r#"{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":"skill://a/SKILL.md"}}"#;
    conversation.writes(Side::Client, format!("{asked}\n"));
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
    let written = conversation.writes(Side::Server, answer);
    assert!(written.to_client.contains("\"error\""), "{}", written.to_client);
    assert!(!written.to_client.contains("skill://"), "{}", written.to_client);
}

#[test_case("skills/get", "{}"; "a skill without a URI")]
#[test_case("skills/get", r#"{"uri":"skill://a/SKILL.md","Uri":"skill://b/SKILL.md"}"#; "two spellings")]
#[test_case("resources/directory/read", r#"{"uri":1}"#; "no text")]
fn what_is_asked_for_by_its_uri_has_one(method: &str, params: &str) {
    let mut conversation = Conversation::new(|_: &Message<'_>| Verdict::Allow);
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}\n");
    let written = conversation.writes(Side::Client, line);
    assert!(written.to_server.is_empty(), "{}", written.to_server);
    assert_eq!(written.incidents.len(), 1);
}
