//! Faults of mcpmon itself: a policy that observes takes nothing away, and one that enforces answers what it cannot judge.
//! The table in SECURITY.md has one row for each group of tests.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{fs::chown, net::UnixListener},
    process::Command,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    program, wait,
    wrapped::{Home, Wrapped},
};
use serde_json::Value;
use test_case::test_case;

const OBSERVE: &str = "version: 1\nmode: observe\nmcp: {blocked_tools: [forbidden]}\n";
const ENFORCE: &str = "version: 1\nmcp: {blocked_tools: [forbidden]}\n";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"forbidden","arguments":{}}}"#;
/// A server that answers every request.
const SERVER: &str = r#"while IFS= read -r line; do
id=${line#*'"id":'}
printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "${id%%,*}"
done"#;
/// The treatment of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Everything passes but what cannot be parsed.
    Observed,
    /// The policy is applied.
    Judged,
    /// Every request is answered with the reason.
    Answered,
}

fn start(home: &Home, options: &[&str]) -> Result<Wrapped> {
    Wrapped::start(&mut home.wrap(options, &["sh", "-c", SERVER])?)
}

fn answer(wrapped: &mut Wrapped, line: &str) -> Result<Value> {
    wrapped.send(line)?;
    let answer = wrapped.line()?;
    serde_json::from_str(&answer).with_context(|| format!("an answer to {line}: {answer:?}"))
}

/// Sends two requests and a line that is no message. Returns the treatment and the text of the first error.
fn treatment(wrapped: &mut Wrapped) -> Result<(Use, String)> {
    let first = answer(wrapped, INITIALIZE)?;
    assert_eq!(first["id"], 1, "{first}");
    let call = answer(wrapped, CALL)?;
    assert_eq!(call["id"], 2, "{call}");
    let garbage = answer(wrapped, "{no json")?;
    assert_eq!(garbage["error"]["code"], -32_700, "invariant 2: {garbage}");
    let text = first["error"]["message"].as_str().unwrap_or_default().to_owned();
    let is_refused = call["result"]["isError"] == true;
    let treatment = match (first.get("result").is_some(), is_refused) {
        (true, false) => Use::Observed,
        (true, true) => Use::Judged,
        (false, _) => Use::Answered,
    };
    Ok((treatment, text))
}

/// Checks a wrapper: the treatment of its client, its status, and texts on standard error. A refusal has the same reason
/// in the answers.
fn check(home: &Home, options: &[&str], expected: Use, status: i32, parts: &[&str]) -> Result<()> {
    let mut wrapped = start(home, options)?;
    let (treatment, text) = treatment(&mut wrapped)?;
    let (code, output, errors) = wrapped.finish()?;
    assert_eq!(
        (treatment, code, output.as_str()),
        (expected, status, ""),
        "{errors}"
    );
    for part in parts {
        assert!(errors.contains(part), "{part} in {errors}");
        assert!(
            treatment != Use::Answered || text.contains(part),
            "{part} in {text}"
        );
    }
    Ok(())
}

fn events(home: &Home, kind: &str) -> Result<Vec<Value>> {
    let store = home.path("store.db").display().to_string();
    program::run(["events", "--json", "--type", kind, "--db", &store])?.objects()
}

#[test]
fn invalid_policy_that_observed_still_observes() -> Result<()> {
    let home = Home::new()?;
    home.configure(OBSERVE)?;
    check(&home, &[], Use::Observed, 0, &[])?;
    for broken in ["version: 1\nmode: observ\n", "version: 1\nmode: [\n", ""] {
        let broken = if broken.is_empty() {
            "mode: enforce\nbogus: 1\n"
        } else {
            broken
        };
        home.configure(broken)?;
        let reasons = [
            "the policy cannot be used",
            "mcpmon.yaml:",
            "the built-in rules observe",
        ];
        check(&home, &[], Use::Observed, 0, &reasons)?;
    }
    let degraded = events(&home, "mcp_enforcement_degraded")?;
    assert!(
        degraded.iter().all(|event| event["component"] == "policy"),
        "{degraded:?}"
    );
    assert_eq!(degraded.len(), 3, "one for each start");
    assert_eq!(events(&home, "policy_rejected")?.len(), 3);
    Ok(())
}

#[test]
fn repaired_policy_takes_effect_in_a_running_wrapper() -> Result<()> {
    let home = Home::new()?;
    home.configure(OBSERVE)?;
    check(&home, &[], Use::Observed, 0, &[])?;
    home.configure("version: 1\nmode: observ\n")?;
    let mut wrapped = start(&home, &[])?;
    assert_eq!(treatment(&mut wrapped)?.0, Use::Observed);
    home.configure(ENFORCE)?;
    wait::until("the repaired policy", || {
        let call = answer(&mut wrapped, &CALL.replace("\"id\":2", "\"id\":3"))?;
        Ok((call["result"]["isError"] == true).then_some(()))
    })?;
    assert_eq!(wrapped.finish()?.0, 0);
    let restored = events(&home, "mcp_enforcement_restored")?;
    assert_eq!(restored.first().context("an event")?["component"], "policy");
    Ok(())
}

#[test_case(&[ENFORCE, "version: 1\nmode: observ\n"], "mcpmon.yaml:2:7"; "a typo does not turn enforcement off")]
#[test_case(&["version: 1\nmode: observ\n"], "mcpmon.yaml:2:7"; "a typo from the start")]
#[test_case(&["version: 1\nbogus: 1\n"], "mcpmon.yaml:2:1"; "no mode")]
#[test_case(&["mode: observe\nmode: enforce\n"], "mcpmon.yaml:2:1"; "two modes")]
fn invalid_policy_that_enforces_answers(texts: &[&str], place: &str) -> Result<()> {
    let home = Home::new()?;
    for (number, text) in texts.iter().enumerate() {
        home.configure(text)?;
        if number + 1 < texts.len() {
            check(&home, &[], Use::Judged, 0, &[])?;
        }
    }
    check(
        &home,
        &[],
        Use::Answered,
        4,
        &["the policy cannot be used", place],
    )?;
    let denied = events(&home, "mcp_server_denied")?;
    assert_eq!(denied.len(), 1, "the refusal is recorded: {denied:?}");
    Ok(())
}

#[test]
fn mode_is_read_alone_from_an_invalid_policy() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmode: observe\nmcp: {\n")?;
    check(&home, &[], Use::Observed, 0, &["the policy cannot be used"])
}

#[test]
fn missing_policy_keeps_its_mode() -> Result<()> {
    let home = Home::new()?;
    home.configure(OBSERVE)?;
    check(&home, &[], Use::Observed, 0, &[])?;
    fs::remove_file(home.path("config/mcpmon/mcpmon.yaml"))?;
    check(
        &home,
        &[],
        Use::Observed,
        0,
        &["the policy cannot be used", "mcpmon.yaml"],
    )?;
    let named = home.path("nowhere.yaml").display().to_string();
    check(
        &home,
        &["--config", &named],
        Use::Answered,
        4,
        &["the policy cannot be used", "nowhere.yaml"],
    )
}

#[test]
fn status_shows_a_policy_that_cannot_be_used() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmode: observe\nbogus: 1\n")?;
    let config = home.path("config/mcpmon/mcpmon.yaml").display().to_string();
    let store = home.path("file/store.db").display().to_string();
    fs::write(home.path("file"), "")?;
    let socket = home.path("no-daemon").display().to_string();
    let shown = program::run(["status", "--socket", &socket, "--config", &config, "--db", &store])?.stdout;
    for part in [
        "wrappers",
        "the policy cannot be used",
        "the built-in rules observe",
        "nothing is recorded",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    Ok(())
}

/// A store below a file cannot be made, whoever the user is.
#[test_case(OBSERVE, Use::Observed; "observe")]
#[test_case(ENFORCE, Use::Judged; "enforce")]
fn store_that_cannot_be_written_takes_no_server_away(policy: &str, expected: Use) -> Result<()> {
    let home = Home::new()?;
    home.configure(policy)?;
    fs::write(home.path("file"), "")?;
    let wrap = home.wrap(&[], &["sh", "-c", SERVER])?;
    let mut arguments: Vec<_> = wrap.get_args().map(ToOwned::to_owned).collect();
    let db = arguments.iter().position(|argument| argument == "--db");
    arguments[db.context("--db")? + 1] = home.path("file/store.db").into();
    let mut command = Command::new(wrap.get_program());
    command.args(arguments).envs(environment(&wrap));
    let mut wrapped = Wrapped::start(&mut command)?;
    assert_eq!(treatment(&mut wrapped)?.0, expected);
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0, "{errors}");
    for reason in ["nothing is recorded", "not everything was recorded"] {
        assert!(errors.contains(reason), "{reason} in {errors}");
    }
    Ok(())
}

/// Returns the variables that are set for a command.
fn environment(command: &Command) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
}

#[test]
fn record_resumes_once_the_store_can_be_written() -> Result<()> {
    let home = Home::new()?;
    home.configure(OBSERVE)?;
    // A directory is no store.
    fs::create_dir(home.path("store.db"))?;
    fs::write(home.path("store.db/file"), "")?;
    let mut wrapped = start(&home, &[])?;
    assert_eq!(treatment(&mut wrapped)?.0, Use::Observed);
    fs::remove_dir_all(home.path("store.db"))?;
    wait::until("the record", || {
        let is_there = home.path("store.db").exists();
        Ok((is_there && !events(&home, "mcp_tool_call_intercepted")?.is_empty()).then_some(()))
    })?;
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0, "{errors}");
    assert!(!errors.contains("not everything was recorded"), "{errors}");
    let degraded = events(&home, "mcp_enforcement_degraded")?;
    assert_eq!(degraded.first().context("an event")?["component"], "store");
    Ok(())
}

#[test_case(OBSERVE, Use::Observed, 0; "observe")]
#[test_case(ENFORCE, Use::Answered, 4; "enforce")]
fn store_that_cannot_be_read(policy: &str, expected: Use, status: i32) -> Result<()> {
    let home = Home::new()?;
    home.configure(policy)?;
    fs::write(
        home.path("store.db"),
        "no database, but some other file of the user",
    )?;
    let reasons = ["the pins and approvals in", "store.db cannot be read"];
    check(&home, &[], expected, status, &reasons)
}

#[test_case(OBSERVE, Use::Observed; "observe")]
#[test_case(ENFORCE, Use::Judged; "enforce")]
fn daemon_that_is_away_or_hangs_takes_no_server_away(policy: &str, expected: Use) -> Result<()> {
    let home = Home::new()?;
    home.configure(policy)?;
    check(&home, &[], expected, 0, &[])?;
    let _hangs = UnixListener::bind(home.path("no-daemon"))?;
    check(&home, &[], expected, 0, &[])?;
    let degraded = events(&home, "mcp_enforcement_degraded")?;
    assert!(!degraded.is_empty(), "a daemon that hangs is reported");
    Ok(())
}

/// Starts a wrapper under a limit.
fn limited(home: &Home, limit: &str) -> Result<Wrapped> {
    let wrap = home.wrap(&[], &["sh", "-c", SERVER])?;
    let mut limited = Command::new("prlimit");
    limited.arg(limit).arg(wrap.get_program()).args(wrap.get_args());
    limited.envs(environment(&wrap));
    Wrapped::start(&mut limited)
}

/// Checks that a client gets an answer whatever the limit is: from the server, or the reason why there is none.
fn is_answered(wrapped: &mut Wrapped, limit: &str) -> Result<bool> {
    let first = answer(wrapped, INITIALIZE).context(limit.to_owned())?;
    let (code, _, errors) = wrapped.finish()?;
    if first.get("result").is_some() {
        assert_eq!(code, 0, "{limit}: {errors}");
        return Ok(true);
    }
    let text = first["error"]["message"].as_str().unwrap_or_default();
    assert!(
        text.contains("could not be started") || text.contains("cannot be used"),
        "{limit}: {text}"
    );
    assert!([3, 4].contains(&code), "{limit}: {code} {errors}");
    assert!(errors.contains("error: "), "{limit}: {errors}");
    Ok(false)
}

#[test_case(OBSERVE; "observe")]
#[test_case(ENFORCE; "enforce")]
fn limit_of_descriptors_is_answered(policy: &str) -> Result<()> {
    let home = Home::new()?;
    home.configure(policy)?;
    let mut served = 0;
    for files in [4, 8, 12, 16, 20, 32] {
        let limit = format!("--nofile={files}");
        served += usize::from(is_answered(&mut limited(&home, &limit)?, &limit)?);
    }
    assert!(served > 0, "32 descriptors are enough");
    Ok(())
}

/// The limit does not hold for root, so root becomes another user. The user has no other processes, because the limit
/// counts them.
#[test_case(OBSERVE, 61_234; "observe")]
#[test_case(ENFORCE, 61_235; "enforce")]
fn limit_of_threads_is_answered(policy: &str, user: u32) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let home = Home::new()?;
    home.configure(policy)?;
    let copy = home.path("mcpmon");
    program::copy(program::path()?, &copy)?;
    for path in [
        "",
        "config",
        "config/mcpmon",
        "config/mcpmon/mcpmon.yaml",
        "mcpmon",
    ] {
        chown(home.path(path), Some(user), Some(user))?;
    }
    let mut served = 0;
    // One process watches, one relays, and one serves.
    for processes in 1..=5 {
        let limit = format!("--nproc={processes}");
        let wrap = home.wrap(&[], &["sh", "-c", SERVER])?;
        let user = user.to_string();
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "prlimit",
            &limit,
        ]);
        command.arg(&copy).args(wrap.get_args());
        command.envs(environment(&wrap));
        served += usize::from(is_answered(&mut Wrapped::start(&mut command)?, &limit)?);
    }
    assert!(served >= 2, "a server runs without threads for records: {served}");
    Ok(())
}

/// The limits leave little more than the program needs to be loaded. Nothing that is started later is certain to get
/// memory.
#[test_case(OBSERVE; "observe")]
#[test_case(ENFORCE; "enforce")]
fn limit_of_memory_is_answered(policy: &str) -> Result<()> {
    const STEP: u64 = 8 << 20;
    let home = Home::new()?;
    home.configure(policy)?;
    let loads = |limit: u64| {
        let run = Command::new("prlimit")
            .arg(format!("--as={limit}"))
            .arg(program::path()?)
            .arg("--version")
            .output()?;
        anyhow::Ok(run.status.success())
    };
    let mut least = STEP;
    while !loads(least)? {
        least += STEP;
    }
    for more in 3..=5 {
        let limit = format!("--as={}", least + more * STEP);
        is_answered(&mut limited(&home, &limit)?, &limit)?;
    }
    Ok(())
}

#[test_case(&["sh", "-c", "exit 7"], &[], 7; "of the server")]
#[test_case(&["mcpmon-e2e-no-such-program"], &[], 3; "no such program")]
#[test_case(&["true"], &["--no-such-option"], 2; "a wrong command line")]
fn exit_status(command: &[&str], options: &[&str], expected: i32) -> Result<()> {
    let home = Home::new()?;
    let (code, _, errors) = Wrapped::start(&mut home.wrap(options, command)?)?.finish()?;
    assert_eq!(code, expected, "{errors}");
    Ok(())
}

#[test]
fn server_that_cannot_start_is_answered() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped =
        Wrapped::start(&mut home.wrap(&["--server", "notes"], &["mcpmon-e2e-no-such-program"])?)?;
    let first = answer(&mut wrapped, INITIALIZE)?;
    let text = first["error"]["message"].as_str().unwrap_or_default();
    for part in [
        "the MCP server notes could not be started",
        "there is no program",
        "PATH",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("blocked by policy"), "{text}");
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 3);
    assert!(errors.contains("there is no program"), "{errors}");
    Ok(())
}

#[test]
fn reason_is_on_standard_error_while_the_client_still_waits() -> Result<()> {
    use std::io::Read as _;
    let home = Home::new()?;
    home.configure("version: 1\nmcp: {server_policy: denylist, denied_servers: [{id: notes}]}\n")?;
    let mut command = home.wrap(&["--server", "notes"], &["true"])?;
    let log = home.path("stderr");
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(fs::File::create(&log)?)
        .spawn()?;
    wait::until("the reason", || {
        let mut text = String::new();
        fs::File::open(&log)?.read_to_string(&mut text)?;
        Ok(text.contains("the MCP server notes was refused").then_some(()))
    })?;
    drop(child.stdin.take());
    assert_eq!(child.wait()?.code(), Some(1));
    Ok(())
}
