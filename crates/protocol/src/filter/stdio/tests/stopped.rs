//! Replacements for messages that a policy stops.

use mcpmon_model::{AnswerOutcome, Content, FromClient, FromServer, Redaction, RequestId, ResultKind};
use test_case::test_case;

use super::*;

const WHY: &str = "shells are not allowed (rule no-shell).";

const STATELESS: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

fn from_server(message: &Message<'_>) -> bool {
    matches!(message.content, Content::Server(_))
}

/// Only the client gets something: this line.
fn answered(written: &Written, line: &str) {
    assert_eq!(*written, on_to_client(line));
}

fn error(id: &str, code: i32, what: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"[mcpmon] {what} blocked by policy: {WHY}"}}}}"#
    )
}

fn failed(what: &str, more: &str) -> String {
    format!(
        r#"{{"content":[{{"type":"text","text":"[mcpmon] {what} blocked by policy: {WHY}"}}],"isError":true{more}}}"#
    )
}

#[test]
fn a_call_fails_and_says_why() {
    let written = blocking(|_| true).client(&call("1", "sh"));
    answered(&written, &result("1", &failed("Tool 'sh'", "")));
}

#[test]
fn a_call_of_the_stateless_era_is_complete() {
    let line = request("\"x\"", "tools/call", &format!(r#"{{"name":"sh",{STATELESS}}}"#));
    let expected = failed("Tool 'sh'", r#","resultType":"complete""#);
    answered(&blocking(|_| true).client(&line), &result("\"x\"", &expected));
}

/// Official clients take a result that is no task for a defect of the server, and do not show it.
#[test]
fn a_call_that_is_to_become_a_task_gets_an_error() {
    let line = request("1", "tools/call", r#"{"name":"slow","task":{"ttl":60000}}"#);
    answered(
        &blocking(|_| true).client(&line),
        &error("1", -32_003, "Tool 'slow'"),
    );
    let mut conversation = blocking(from_server);
    conversation.client(&line);
    let written = conversation.server(&result("1", r#"{"task":{"taskId":"t","status":"working"}}"#));
    answered(&written, &error("1", -32_003, "Result of tool 'slow'"));
}

#[test]
fn a_name_is_quoted_and_cut() {
    let written = blocking(|_| true).client(&call("1", r#"a\"b\n"#)).to_client;
    assert!(written.contains(r#"Tool 'a\"b\n' blocked"#), "{written}");
    let written = blocking(|_| true)
        .client(&call("1", &"\u{e9}".repeat(200)))
        .to_client;
    let name = "\u{e9}".repeat(128);
    assert!(written.contains(&format!("Tool '{name}' blocked")), "{written}");
}

#[test_case("resources/read", r#"{"uri":"secret://a"}"#, "Resource 'secret://a'"; "a resource")]
#[test_case("resources/subscribe", r#"{"uri":"secret://a"}"#, "Resource 'secret://a'"; "a subscription")]
#[test_case("prompts/get", r#"{"name":"p"}"#, "Prompt 'p'"; "a prompt")]
#[test_case("completion/complete", "{}", "Request 'completion/complete'"; "another request")]
fn other_requests_get_an_error(method: &str, params: &str, what: &str) {
    let written = blocking(|_| true).client(&request("5", method, params));
    answered(&written, &error("5", -32_003, what));
}

#[test]
fn what_was_stopped_does_not_wait() {
    let mut conversation = blocking(|message| matches!(message.content, Content::Client(_)));
    conversation.client(&call("1", "sh"));
    let written = conversation.server(&result("1", "{}"));
    assert_eq!(written.to_client, "");
    assert_eq!(
        written.incidents,
        [Incident::Unasked {
            side: Side::Server,
            id: RequestId::Number("1".into())
        }]
    );
}

#[test]
fn notifications_are_dropped() {
    let line = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#;
    assert_eq!(blocking(|_| true).client(line), Written::default());
    assert_eq!(blocking(|_| true).server(line), Written::default());
    let line = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    assert_eq!(blocking(|_| true).server(line), Written::default());
}

#[test_case("sampling/createMessage", error("9", -1, "Request 'sampling/createMessage'"); "sampling")]
#[test_case("elicitation/create", r#"{"jsonrpc":"2.0","id":9,"result":{"action":"decline"}}"#.to_owned(); "a question is declined")]
#[test_case("roots/list", error("9", -32_003, "Request 'roots/list'"); "roots")]
fn a_server_gets_its_answer(method: &str, answer: String) {
    let mut conversation = blocking(from_server);
    let written = conversation.server(&request("9", method, "{}"));
    assert_eq!(written, on_to_server(&answer));
    // It does not wait for the client.
    let written = conversation.client(&result("9", "{}"));
    assert_eq!((written.to_server.as_str(), written.incidents.len()), ("", 1));
}

#[test_case("elicitation/create", r#"{"jsonrpc":"2.0","id":9,"result":{"action":"decline"}}"#.to_owned(); "an answer to a question")]
#[test_case("sampling/createMessage", error("9", -1, "Reply"); "an answer to sampling")]
fn a_reply_is_replaced(method: &str, replaced: String) {
    let mut conversation =
        blocking(|message| matches!(message.content, Content::Client(FromClient::Reply { .. })));
    conversation.server(&request("9", method, "{}"));
    let written = conversation.client(&result("9", r#"{"action":"accept","content":{"password":"x"}}"#));
    assert_eq!(written, on_to_server(&replaced));
}

#[test]
fn only_the_result_of_a_call_is_replaced() {
    let mut conversation = blocking(from_server);
    conversation.client(&call("12345678901234567890123", "sh"));
    let written = conversation.server(
        r#"{ "result" : {"content":[{"type":"text","text":"poison"}],"n":1.0} , "id":12345678901234567890123,"x":1.50,"jsonrpc":"2.0"}"#,
    );
    let expected = failed("Result of tool 'sh'", "");
    answered(
        &written,
        &format!(r#"{{ "result" : {expected} , "id":12345678901234567890123,"x":1.50,"jsonrpc":"2.0"}}"#),
    );
}

#[test]
fn the_result_of_a_task_is_replaced_in_its_own_shape() {
    let mut conversation = blocking(|message| {
        matches!(&message.content, Content::Server(FromServer::Answer(answer))
            if !matches!(answer.outcome, AnswerOutcome::Result { kind: ResultKind::Task, .. }))
    });
    conversation.client(&request(
        "1",
        "tools/call",
        &format!(r#"{{"name":"slow",{STATELESS}}}"#),
    ));
    conversation.server(&result("1", r#"{"resultType":"task","taskId":"t"}"#));
    conversation.client(&request(
        "2",
        "tasks/get",
        &format!(r#"{{"taskId":"t",{STATELESS}}}"#),
    ));
    let written = conversation.server(&result("2", r#"{"taskId":"t","result":{"content":[]}}"#));
    answered(&written, &error("2", -32_003, "Result of tool 'slow'"));
    conversation.client(&request("3", "tasks/result", r#"{"taskId":"t"}"#));
    let written = conversation.server(&result("3", r#"{"content":[]}"#));
    answered(&written, &result("3", &failed("Result of tool 'slow'", "")));
}

#[test_case("resources/read", r#"{"uri":"u:"}"#, "Content of resource 'u:'"; "a resource")]
#[test_case("prompts/get", r#"{"name":"p"}"#, "Content of prompt 'p'"; "a prompt")]
#[test_case("initialize", "{}", "Server"; "an introduction")]
#[test_case("completion/complete", "{}", "Answer to 'completion/complete'"; "another answer")]
fn other_results_become_errors(method: &str, params: &str, what: &str) {
    let mut conversation = blocking(from_server);
    conversation.client(&request("1", method, params));
    answered(
        &conversation.server(&result("1", "{}")),
        &error("1", -32_003, what),
    );
}

#[test]
fn a_list_becomes_an_error() {
    let mut conversation = blocking(from_server);
    conversation.client(&request("1", "tools/list", "{}"));
    let written = conversation.server(&result("1", r#"{"tools":[]}"#));
    answered(&written, &error("1", -32_003, "List"));
}

#[test]
fn an_error_keeps_its_code_and_loses_its_text() {
    let mut conversation = blocking(from_server);
    conversation.client(&call("1", "sh"));
    let written = conversation.server(
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"poison","data":{"a":"poison"}}}"#,
    );
    answered(&written, &error("1", -32_042, "Result of tool 'sh'"));
}

fn hiding(positions: &[usize]) -> Conversation<impl FnMut(&Message<'_>) -> Verdict> {
    Conversation::new(move |message| match message.content {
        Content::Client(_) => Verdict::Allow,
        Content::Server(_) => Verdict::Hide(positions.to_vec()),
    })
}

#[test_case("tools/list", "tools", "name"; "tools")]
#[test_case("prompts/list", "prompts", "name"; "prompts")]
#[test_case("resources/list", "resources", "uri"; "resources")]
#[test_case("resources/templates/list", "resourceTemplates", "uriTemplate"; "templates")]
fn hidden_items_are_left_out(method: &str, list: &str, key: &str) {
    let mut conversation = hiding(&[0, 2]);
    conversation.client(&request("1", method, "{}"));
    let item = |name: &str| format!(r#"{{ "{key}":"{name}","x":1.0}}"#);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(item);
    let page = |items: &str| {
        result(
            "1",
            &format!(r#"{{"_meta":{{"y":2e0}},"{list}":{items}, "nextCursor":"z"}}"#),
        )
    };
    let written = conversation.server(&page(&format!("[ {a}, {b} ,{c},{d} ]")));
    answered(&written, &page(&format!("[{b},{d}]")));
}

#[test_case(r#"{"tools":[{"name":"a"}],"ttlMs":60000,"x":1,"cacheScope":"public","resultType":"complete"}"#,
    r#"{"tools":[],"ttlMs":0,"x":1,"cacheScope":"private","resultType":"complete"}"#; "both are there")]
#[test_case(r#"{"ttlMs":60000,"tools":[{"name":"a"}]}"#, r#"{"ttlMs":0,"tools":[],"cacheScope":"private"}"#; "no scope")]
#[test_case(r#"{"cacheScope":"public","tools":[{"name":"a"}] }"#, r#"{"cacheScope":"private","tools":[] ,"ttlMs":0}"#; "no time")]
#[test_case(r#"{"tools":[{"name":"a"}]}"#, r#"{"tools":[],"ttlMs":0,"cacheScope":"private"}"#; "neither")]
fn what_is_left_of_a_list_is_not_to_be_kept(list: &str, expected: &str) {
    let mut conversation = hiding(&[0]);
    conversation.client(&request("1", "tools/list", &format!("{{{STATELESS}}}")));
    answered(&conversation.server(&result("1", list)), &result("1", expected));
}

#[test]
fn a_list_of_the_handshake_era_gets_no_new_members() {
    let mut conversation = hiding(&[0]);
    conversation.client(&request("1", "tools/list", "{}"));
    let written = conversation.server(&result("1", r#"{"tools":[{"name":"a"}],"ttlMs":5}"#));
    answered(&written, &result("1", r#"{"tools":[],"ttlMs":5}"#));
}

#[test]
fn hiding_nothing_changes_nothing() {
    let mut conversation = hiding(&[]);
    conversation.client(&request("1", "tools/list", &format!("{{{STATELESS}}}")));
    let page = result("1", r#"{"tools":[ {"name":"a"} ],"ttlMs":5}"#);
    answered(&conversation.server(&page), &page);
}

#[test_case(r#"{"instructions":"poison"}"#, "{}"; "alone")]
#[test_case(r#"{"a":1, "instructions":"poison" , "b":2}"#, r#"{"a":1, "b":2}"#; "in the middle")]
#[test_case(r#"{ "instructions":"poison","b":2}"#, r#"{ "b":2}"#; "first")]
#[test_case(r#"{"a":1 ,"instructions":"poison" }"#, r#"{"a":1 }"#; "last")]
fn instructions_are_left_out(introduction: &str, expected: &str) {
    let mut conversation = Conversation::new(|message| match message.content {
        Content::Client(_) => Verdict::Allow,
        Content::Server(_) => Verdict::StripInstructions,
    });
    conversation.client(&request("1", "initialize", "{}"));
    answered(
        &conversation.server(&result("1", introduction)),
        &result("1", expected),
    );
}

#[test_case(Verdict::StripInstructions; "instructions of a call")]
#[test_case(Verdict::Hide(vec![0]); "items of a call")]
fn a_verdict_that_does_not_fit_stops(verdict: Verdict) {
    let mut conversation = Conversation::new(|_| verdict.clone());
    let written = conversation.client(&call("1", "sh"));
    assert_eq!(written.to_server, "");
    assert!(written.to_client.contains("(rule internal)"), "{written:?}");
}

#[test]
fn the_items_of_a_batch_are_stopped_one_by_one() {
    let mut conversation = blocking(|message| match &message.content {
        Content::Client(FromClient::Call(call)) => call.tool == "sh",
        Content::Server(FromServer::Answer(answer)) => {
            matches!(&answer.outcome, AnswerOutcome::Result { result, .. } if result.as_str().contains("poison"))
        }
        Content::Client(_) | Content::Server(_) => false,
    });
    let (a, b, sh) = (call("1", "a"), call("2", "b"), call("3", "sh"));
    let written = conversation.client(&format!("[{a}, {sh} ,{b}]"));
    assert_eq!(written.to_server, format!("[{a},{b}]\n"));
    assert_eq!(written.to_client, result("3", &failed("Tool 'sh'", "")) + "\n");
    let (good, bad) = (
        result("1", r#"{"content":[]}"#),
        result("2", r#"{"content":["poison"]}"#),
    );
    let written = conversation.server(&format!("[{bad}, {good}]"));
    let replaced = result("2", &failed("Result of tool 'b'", ""));
    answered(&written, &format!("[{replaced},{good}]"));
    let written = conversation.client(&format!("[{sh}]"));
    assert_eq!(written.to_server, "");
}

#[test]
fn what_waits_is_answered_when_the_server_is_given_up() {
    let mut conversation = allowed();
    for id in ["1", "2", "\"x\""] {
        conversation.client(&request(id, "ping", "{}"));
    }
    conversation.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    let mut out = StdioOutput::default();
    conversation.filter.turn_away(Timestamp(8), &denial(), &mut out);
    let expected = format!(
        "{}\n{}\n",
        error("1", -32_003, "Request"),
        error("\"x\"", -32_003, "Request")
    );
    assert_eq!(written(out).to_client, expected);
    assert_eq!(
        conversation.server(&result("1", "{}")).to_client,
        "",
        "it is answered already"
    );
}

#[test]
fn what_a_server_answers_goes_on_with_parts_of_it_replaced() {
    let mut conversation = Conversation::new(|message: &Message<'_>| match &message.content {
        Content::Server(FromServer::Answer(answer)) => {
            let (AnswerOutcome::Result { result: body, .. } | AnswerOutcome::Error { error: body, .. }) =
                answer.outcome;
            let at = body.as_str().find("SECRET").expect("it is there");
            Verdict::Redact(vec![Redaction {
                place: at..at + "SECRET".len(),
                text: "***".to_owned(),
            }])
        }
        Content::Client(_) | Content::Server(_) => Verdict::Allow,
    });
    conversation.client(&call("1", "sh"));
    let written = conversation
        .server(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a SECRET b"}]}}"#);
    answered(
        &written,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a *** b"}]}}"#,
    );
    conversation.client(&call("2", "sh"));
    let written = conversation.server(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"SECRET"}}"#);
    answered(
        &written,
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"***"}}"#,
    );
}
