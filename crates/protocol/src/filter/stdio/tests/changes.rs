//! Lists for which a judge's verdicts have changed, and the clients to which that is reported.

use mcpmon_model::ListKind;
use test_case::test_case;

use super::*;

const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
const LISTEN: &str = r#"{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true}}}"#;
const OPENED: &str = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true}}}"#;
const CLOSED: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}"#;
const CANCELLED: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;

/// Returns the notifications the client gets when a list changes after these lines: `>` before the client's
/// lines.
fn heard(lines: &[&str], kind: ListKind) -> String {
    let mut conversation = Conversation::new(|_: &Message<'_>| Verdict::Allow);
    for line in lines {
        match line.strip_prefix('>') {
            Some(line) => conversation.client(line),
            None => conversation.server(line),
        };
    }
    let mut out = StdioOutput::default();
    conversation.filter.list_changed(kind, &mut out);
    written(out).to_client
}

fn initialised(capabilities: &str, kind: ListKind) -> String {
    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"capabilities":{capabilities}}}}}"#);
    heard(
        &[r#">{"jsonrpc":"2.0","id":1,"method":"initialize"}"#, &answer],
        kind,
    )
}

#[test_case(r#"{"tools":{"listChanged":true}}"#, ListKind::Tools => "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n"; "announced")]
#[test_case(r#"{"tools":{"listChanged":true}}"#, ListKind::Prompts => ""; "of another list")]
#[test_case(r#"{"tools":{}}"#, ListKind::Tools => ""; "not announced")]
#[test_case(r#"{"tools":{"listChanged":1}}"#, ListKind::Tools => ""; "no truth value")]
#[test_case(r#"{"resources":{"listChanged":true}}"#, ListKind::Templates => "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}\n"; "templates are resources")]
fn with_a_handshake(capabilities: &str, kind: ListKind) -> String {
    initialised(capabilities, kind)
}

#[test_case(&[], true; "open")]
#[test_case(&[CLOSED], false; "closed by the server")]
#[test_case(&[">", CANCELLED], false; "closed by the client")]
fn on_a_stream(then: &[&str], hears: bool) {
    let listen = format!(">{LISTEN}");
    let mut lines = vec![listen.as_str()];
    assert_eq!(heard(&lines, ListKind::Tools), "", "it is not open yet");
    lines.push(OPENED);
    let joined = then.concat();
    if !joined.is_empty() {
        lines.push(&joined);
    }
    let told = heard(&lines, ListKind::Tools);
    assert_eq!(
        told.contains(r#""io.modelcontextprotocol/subscriptionId":7"#),
        hears,
        "{told}"
    );
    assert_eq!(heard(&lines, ListKind::Prompts), "", "it was not asked for");
}

#[test]
fn a_stream_that_nobody_asked_for_is_none() {
    let discover = format!(">{DISCOVER}");
    assert_eq!(heard(&[&discover, OPENED], ListKind::Tools), "");
}
