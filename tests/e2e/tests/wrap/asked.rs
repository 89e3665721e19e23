//! Calls that wait for a person, in the user's own store.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program::{self, Run},
    servers::ToolServer,
    wait,
    wrapped::{Home, Wrapped},
};
use serde_json::{Value, json};

const POLICY: &str = "version: 1\nmcp:\n  approvals: {timeout: 25s}\n  rules:\n    - {id: ask-pay, match: {tool_name: pay}, decision: ASK, reason: it is dear}\n";

/// A wrapped server whose tool `pay` needs an approval, and its store.
struct Asking {
    home: Home,
    wrapped: Wrapped,
    server: String,
}

impl Asking {
    fn start(policy: &str) -> Result<Self> {
        let home = Home::new()?;
        home.configure(policy)?;
        let server = ToolServer::write(&home.path(""))?;
        server.offer(&[("pay", "Pays a bill."), ("show", "Shows a bill.")])?;
        let words = server.words();
        let mut asking = Self {
            wrapped: home.start(&[&words[0], &words[1]])?,
            server: server.name,
            home,
        };
        asking.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
        asking.heard()?;
        Ok(asking)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.wrapped.send(&message.to_string())
    }

    fn call(&mut self, id: u32, tool: &str, arguments: &Value) -> Result<()> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}))
    }

    fn heard(&mut self) -> Result<Value> {
        let line = self.wrapped.line()?;
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    fn run(&self, arguments: &[&str]) -> Result<Run> {
        let store = self.home.path("store.db").display().to_string();
        program::run(arguments.iter().copied().chain(["--db", &store]))
    }

    /// Waits until this many calls are held, and returns them.
    fn waiting(&self, count: usize) -> Result<Vec<Value>> {
        wait::until("held calls", || {
            let list = self
                .run(&["approvals", "list", "--pending", "--json"])?
                .objects()?;
            let calls: Vec<Value> = list
                .into_iter()
                .map(|mut event| event["waiting"].take())
                .collect();
            Ok((calls.len() == count && calls.iter().all(Value::is_object)).then_some(calls))
        })
    }

    /// Waits until the last recorded state of an approval is `last`, and returns all of them.
    fn states(&self, last: &str) -> Result<Vec<String>> {
        wait::until(last, || {
            let events = self
                .run(&["events", "--type", "mcp_approval", "--json"])?
                .objects()?;
            let states: Vec<String> = events
                .iter()
                .map(|event| text(event, "state").to_owned())
                .collect();
            Ok((states.last().is_some_and(|state| state == last)).then_some(states))
        })
    }
}

fn refusal(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

#[test]
fn a_call_waits_for_a_person_and_goes_on() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({"to": "ann\n\u{202e}bob", "amount": 7}))?;
    let held = asking.waiting(1)?.remove(0);
    assert_eq!(
        text(&held, "arguments"),
        "{\"amount\":7,\"to\":\"ann\\n\u{202e}bob\"}"
    );
    assert_eq!(
        (text(&held, "tool_name"), text(&held, "rule")),
        ("pay", "ask-pay")
    );
    assert_eq!(text(&held, "server_id"), asking.server);
    let id = text(&held, "id");
    let shown = asking.run(&["approvals", "show", &id[..6]])?;
    assert!(
        shown.stdout.contains(r#""to": "ann\n\u202ebob""#) && shown.stdout.contains("it is dear"),
        "{shown:?}"
    );
    asking.call(3, "show", &json!({}))?;
    assert_eq!(asking.heard()?["id"], 3, "another call does not wait");
    let allowed = asking.run(&["approvals", "allow", id])?;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let answer = asking.heard()?;
    assert_eq!(answer["result"]["content"][0]["text"], "called pay", "{answer}");
    assert_eq!(asking.states("granted")?, ["requested", "granted"]);
    let again = asking.run(&["approvals", "deny", id])?;
    assert_eq!(again.code, Some(1), "it is over: {again:?}");
    let calls = wait::until("the call", || {
        let calls = asking
            .run(&["events", "--type", "mcp_tool_call_intercepted", "--json"])?
            .objects()?;
        Ok((!calls.is_empty()).then_some(calls))
    })?;
    assert_eq!(
        (text(&calls[0], "action"), text(&calls[0], "rule")),
        ("audit", "ask-pay")
    );
    assert!(text(&calls[0], "reason").contains("allowed by user"), "{calls:?}");
    Ok(())
}

#[test]
fn a_denied_call_says_who_and_why() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({}))?;
    let held = asking.waiting(1)?.remove(0);
    let denied = asking.run(&["approvals", "deny", text(&held, "id")])?;
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let answer = asking.heard()?;
    let said = refusal(&answer);
    for part in ["it is dear", "denied by user", "rule ask-pay", "mcpmon explain"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(asking.states("denied")?, ["requested", "denied"]);
    Ok(())
}

#[test]
fn silence_denies() -> Result<()> {
    let mut asking = Asking::start(&POLICY.replace("25s", "2s"))?;
    asking.call(2, "pay", &json!({}))?;
    let answer = asking.heard()?;
    assert!(
        refusal(&answer).contains("no person answered in time"),
        "{answer}"
    );
    assert_eq!(asking.states("timed_out")?, ["requested", "timed_out"]);
    Ok(())
}

#[test]
fn a_call_that_is_taken_back_is_answered_by_nobody() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({}))?;
    let held = asking.waiting(1)?.remove(0);
    asking
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))?;
    assert_eq!(asking.states("withdrawn")?, ["requested", "withdrawn"]);
    assert_eq!(asking.waiting(0)?, [] as [Value; 0]);
    let late = asking.run(&["approvals", "allow", text(&held, "id")])?;
    assert_eq!(late.code, Some(1), "{late:?}");
    asking.call(3, "show", &json!({}))?;
    assert_eq!(asking.heard()?["id"], 3, "nothing else was said");
    Ok(())
}

#[test]
fn two_calls_are_answered_each_for_itself_and_a_session_for_all() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({"amount": 1}))?;
    asking.call(3, "pay", &json!({"amount": 2}))?;
    let held = asking.waiting(2)?;
    let of = |amount: &str| -> Result<String> {
        let call = held.iter().find(|call| text(call, "arguments").contains(amount));
        Ok(text(call.context("a call")?, "id").to_owned())
    };
    assert_eq!(asking.run(&["approvals", "deny", &of("2")?])?.code, Some(0));
    let answer = asking.heard()?;
    assert_eq!(answer["id"], 3, "{answer}");
    refusal(&answer);
    assert_eq!(
        asking.run(&["approvals", "allow", &of("1")?, "--session"])?.code,
        Some(0)
    );
    assert_eq!(asking.heard()?["id"], 2);
    asking.call(4, "pay", &json!({"amount": 9}))?;
    let answer = asking.heard()?;
    assert_eq!(answer["result"]["content"][0]["text"], "called pay", "{answer}");
    Ok(())
}

#[test]
fn a_rule_answers_from_then_on() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({}))?;
    let held = asking.waiting(1)?.remove(0);
    let path = asking
        .home
        .path("config/mcpmon/mcpmon.yaml")
        .display()
        .to_string();
    let allowed = asking.run(&[
        "approvals",
        "allow",
        text(&held, "id"),
        "--rule",
        "--config",
        &path,
    ])?;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert_eq!(asking.heard()?["id"], 2);
    let written = fs::read_to_string(Path::new(&path))?;
    assert!(
        written.contains("decision: ALLOW") && written.contains("id: ask-pay"),
        "{written}"
    );
    wait::until("the rule", || {
        let policy = asking
            .run(&["events", "--type", "policy_loaded", "--json"])?
            .objects()?;
        Ok((!policy.is_empty()).then_some(()))
    })?;
    asking.call(3, "pay", &json!({}))?;
    let answer = asking.heard()?;
    assert_eq!(answer["result"]["content"][0]["text"], "called pay", "{answer}");
    Ok(())
}

#[test]
fn who_wants_to_hear_of_progress_does() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "pay", "arguments": {}, "_meta": {"progressToken": 17}}}))?;
    let progress = asking.heard()?;
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(progress["params"]["progressToken"], 17);
    let held = asking.waiting(1)?.remove(0);
    assert!(
        progress["params"]["message"]
            .as_str()
            .is_some_and(|said| said.contains(text(&held, "id"))),
        "{progress}"
    );
    Ok(())
}

#[test]
fn answers_to_nothing_are_refused() -> Result<()> {
    let asking = Asking::start(POLICY)?;
    for (arguments, code, part) in [
        (
            &["approvals", "allow", "abcdef"][..],
            1,
            "no call waits with the id abcdef",
        ),
        (&["approvals", "show", "abcdef"], 1, "no call waits"),
        (
            &["approvals", "allow", "pay"],
            2,
            "neither the id of a held call nor SERVER:TOOL",
        ),
        (&["approvals", "deny", ""], 2, "neither the id"),
        (
            &["approvals", "allow", "x:pay", "--session"],
            2,
            "is a definition",
        ),
        (
            &["approvals", "allow", "abcdef", "--session", "--once"],
            2,
            "cannot be used with",
        ),
    ] {
        let run = asking.run(arguments)?;
        assert_eq!(run.code, Some(code), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(part), "{part} in {run:?}");
    }
    Ok(())
}

/// A listener for signed answers; it is ended with its test.
struct Listener {
    process: Child,
    url: String,
}

impl Drop for Listener {
    /// Kills the listener; it is no failure if it has ended already.
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const OTHER_KEY: &str = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A script that posts a body signed with a key, with a time stamp this many seconds from now, and prints status and
/// answer.
const POST: &str = r"
import base64, hashlib, hmac, sys, time, urllib.error, urllib.request
url, key, body, off = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3].encode(), int(sys.argv[4])
at = str(int(time.time()) + off)
tag = hmac.new(key, b'msg_1.' + at.encode() + b'.' + body, hashlib.sha256).digest()
headers = {'webhook-id': 'msg_1', 'webhook-timestamp': at, 'webhook-signature': 'v1,' + base64.b64encode(tag).decode()}
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, body, headers))
    print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
";

impl Asking {
    fn listen(&self) -> Result<Listener> {
        let key = self.home.path("callback.key");
        fs::write(&key, KEY)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let mut process = Command::new(program::path()?)
            .args(["approvals", "listen", "--listen", "127.0.0.1:0", "--key-file"])
            .arg(&key)
            .arg("--db")
            .arg(self.home.path("store.db"))
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdout = BufReader::new(process.stdout.take().context("a pipe")?);
        wait::readable("the address", stdout.get_ref())?;
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let url = line
            .trim()
            .strip_prefix("listening: ")
            .context("an address")?
            .to_owned();
        Ok(Listener { process, url })
    }
}

impl Listener {
    /// Posts an answer, and returns the status and the response.
    fn post(&self, key: &str, body: &Value, off: i32) -> Result<(u16, Value)> {
        let output = Command::new("python3")
            .args(["-c", POST, &self.url, key, &body.to_string(), &off.to_string()])
            .env_remove("http_proxy")
            .output()?;
        let said = String::from_utf8(output.stdout)?;
        let (status, answer) = said
            .trim()
            .split_once(' ')
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        Ok((status.parse()?, serde_json::from_str(answer)?))
    }
}

#[test]
fn a_signed_answer_lets_this_very_call_go_on_and_is_taken_once() -> Result<()> {
    let mut asking = Asking::start(POLICY)?;
    asking.call(2, "pay", &json!({"to": "ann", "amount": 7}))?;
    let held = asking.waiting(1)?.remove(0);
    let listener = asking.listen()?;
    let question = json!({"held_call": text(&held, "id")});
    let (status, shown) = listener.post(KEY, &question, 0)?;
    assert_eq!(
        (status, text(&shown, "arguments")),
        (200, r#"{"amount":7,"to":"ann"}"#),
        "{shown}"
    );
    let answer = |word: &str| {
        json!({
            "held_call": shown["id"],
            "answer": word,
            "arguments_sha256": shown["arguments_sha256"],
            "expires": shown["expires"],
        })
    };
    let mut other = answer("once");
    other["arguments_sha256"] = format!("sha256:{}", "0".repeat(64)).into();
    for (key, body, off, expected) in [
        (OTHER_KEY, answer("once"), 0, 401),
        (KEY, answer("once"), -3600, 401),
        (KEY, other, 0, 409),
        (KEY, json!({"held_call": shown["id"], "answer": "once"}), 0, 409),
        (KEY, json!({"held_call": "abcdef"}), 0, 404),
    ] {
        let (status, said) = listener.post(key, &body, off)?;
        assert_eq!(status, expected, "{body}: {said}");
    }
    assert_eq!(asking.waiting(1)?.len(), 1, "it waits still");
    let (status, said) = listener.post(KEY, &answer("once"), 0)?;
    assert_eq!(status, 200, "{said}");
    let went_on = asking.heard()?;
    assert_eq!(went_on["result"]["content"][0]["text"], "called pay", "{went_on}");
    let (status, said) = listener.post(KEY, &answer("once"), 0)?;
    assert_eq!(status, 404, "{said}");
    // The next call of the same tool is a separate question.
    asking.call(3, "pay", &json!({"to": "ann", "amount": 7}))?;
    let next = asking.waiting(1)?.remove(0);
    assert_ne!(text(&next, "id"), text(&held, "id"));
    let (status, said) = listener.post(KEY, &answer("once"), 0)?;
    assert_eq!(status, 404, "{said}");
    let (_, shown) = listener.post(KEY, &json!({"held_call": next["id"]}), 0)?;
    let denied = json!({"held_call": next["id"], "answer": "deny", "arguments_sha256": shown["arguments_sha256"], "expires": shown["expires"]});
    assert_eq!(listener.post(KEY, &denied, 0)?.0, 200);
    let answered = asking.heard()?;
    assert!(refusal(&answered).contains("pay"), "{answered}");
    Ok(())
}

#[test]
fn a_listener_with_a_key_that_others_read_or_an_address_that_they_reach_does_not_start() -> Result<()> {
    let home = Home::new()?;
    let key = home.path("callback.key").display().to_string();
    fs::write(&key, KEY)?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644))?;
    let public = program::run(["approvals", "listen", "--key-file", &key])?;
    assert_eq!(public.code, Some(3), "{public:?}");
    assert!(public.stderr.contains("chmod 600"), "{public:?}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
    let open = program::run(["approvals", "listen", "--key-file", &key, "--listen", "0.0.0.0:0"])?;
    assert_eq!(open.code, Some(2), "{open:?}");
    assert!(open.stderr.contains("no loopback address"), "{open:?}");
    Ok(())
}
