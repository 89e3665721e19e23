//! Member names that a server's parser takes for other names, and answers that no strict parser accepts.

use anyhow::Result;
use mcpmon_e2e::wrapped::{Home, Wrapped};
use serde_json::Value;
use test_case::test_case;

/// A server whose JSON parser behaves like some in Go: names end at a NUL, case does not matter, and the last of two
/// equal names counts. It answers with the tool that it was asked to call.
const FOLDING: &str = r#"
import json, sys
def fold(name):
    name = name.split("\0")[0]
    return "".join({"\u017f": "s", "\u212a": "k"}.get(letter, letter.lower()) for letter in name)
def read(pairs):
    return {fold(name): value for name, value in pairs}
for line in sys.stdin:
    message = json.loads(line, object_pairs_hook=read)
    if message.get("method") == "tools/call":
        text = "executed " + message["params"]["name"]
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}), flush=True)
"#;

const POLICY: &str = "version: 1\nmcp: {blocked_tools: [wipe]}\n";

fn ask(wrapped: &mut Wrapped, line: &str) -> Result<Value> {
    wrapped.send(line)?;
    Ok(serde_json::from_str(&wrapped.line()?)?)
}

#[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"ping","method\u0000":"tools/call","params":{"name":"wipe"}}"#; "a method with a NUL")]
#[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read","name\u0000":"wipe"}}"#; "a name with a NUL")]
#[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read","name\u0000x":"wipe"}}"#; "a name with a NUL and more")]
#[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"ping","METHOD":"tools/call","params":{"name":"wipe"}}"#; "a method in capitals")]
#[test_case(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read"},"param\u017f":{"name":"wipe"}}"#; "parameters with a long s")]
fn a_blocked_tool_has_no_other_spelling(line: &str) -> Result<()> {
    let mut alone = Wrapped::start(std::process::Command::new("python3").args(["-c", FOLDING]))?;
    let executed = ask(&mut alone, line)?;
    assert_eq!(executed["result"]["content"][0]["text"], "executed wipe", "alone");

    let home = Home::new()?;
    home.configure(POLICY)?;
    let mut wrapped = home.start(&["python3", "-c", FOLDING])?;
    let refused = ask(&mut wrapped, line)?;
    assert_eq!(
        (&refused["id"], refused["error"].is_object()),
        (&7.into(), true),
        "{refused}"
    );
    let fine = r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"read"}}"#;
    let executed = ask(&mut wrapped, fine)?;
    assert_eq!(
        executed["result"]["content"][0]["text"], "executed read",
        "{executed}"
    );
    Ok(())
}

/// Returns a server whose answer is this line, with the request's id in the place of `@`.
fn answering(line: &str) -> String {
    format!(
        r#"
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    sys.stdout.buffer.write(b'''{line}'''.replace(b"@", str(number).encode()) + b"\n")
    sys.stdout.flush()
"#
    )
}

#[test_case(r#"{"jsonrpc": "2.0", "id": @, "result": {"content": [], "structuredContent": {"mean": NaN}}}"#.to_owned(); "no number")]
#[test_case(r#"{"jsonrpc":"2.0","id":@,"result":{"content":[{"type":"text","text":"caf\xe9"}]}}"#.to_owned(); "no UTF-8")]
#[test_case(format!(r#"{{"jsonrpc":"2.0","id":@,"result":{{"content":[],"structuredContent":{{"a":{}{}}}}}}}"#, "[".repeat(130), "]".repeat(130)); "nested too deeply")]
fn nobody_waits_for_an_answer_that_cannot_be_read(line: String) -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = home.start(&["python3", "-c", &answering(&line)])?;
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read"}}"#;
    let error = ask(&mut wrapped, call)?;
    let told = error["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(
        (&error["id"], &error["error"]["code"]),
        (&7.into(), &(-32_603).into()),
        "{error}"
    );
    assert!(told.starts_with("[mcpmon] the answer cannot be read: "), "{told}");
    Ok(())
}
