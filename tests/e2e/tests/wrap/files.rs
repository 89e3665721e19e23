//! The files that a server runs from, compared before it starts and before its first message passes.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program,
    servers::sha256,
    wait,
    wrapped::{Home, Wrapped, children},
};

const ASKED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// The code of a server that sends nothing before it gets a request.
const CODE: &str = "import sys\nfor line in sys.stdin: print(line.replace('method', 'result').replace('\"ping\"', '{}'), end='', flush=True)\n";

/// Returns the Python interpreter itself, because `python3` on PATH may be a script that looks for one of several.
pub(crate) fn python() -> Result<String> {
    let output = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .context("cannot run python3")?;
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

fn start(home: &Home) -> Result<Wrapped> {
    let script = home.path("server.py").display().to_string();
    Wrapped::start(&mut home.wrap(&["--server", "swapped"], &[&python()?, &script])?)
}

/// Waits until the server runs, by which time its script has been compared.
fn running(wrapped: &Wrapped) -> Result<()> {
    wait::until("the server", || {
        let relays = children(wrapped.pid().as_raw().cast_unsigned())?;
        let servers = relays.first().map(|relay| children(*relay)).transpose()?;
        Ok(servers.filter(|servers| !servers.is_empty()))
    })
    .map(drop)
}

fn pin(home: &Home) -> Result<()> {
    let mut wrapped = start(home)?;
    wrapped.send(ASKED)?;
    assert!(wrapped.line()?.contains("result"));
    let store = home.path("store.db").display().to_string();
    wait::until("its pin", || {
        let run = program::run(["events", "--json", "--type", "mcp_server_started", "--db", &store])?;
        let started = run.objects()?;
        Ok(started
            .first()
            .map(|started| assert_eq!(text(started, "pin"), "pinned")))
    })?;
    wrapped.finish()?;
    Ok(())
}

/// Returns whether only the wrapper answered, and refused the request.
fn is_refusal(output: &str) -> bool {
    output.lines().count() == 1 && output.contains("(rule mcp.version_pinning, event ")
}

/// The size of a file that takes longer to hash than the session lasts.
const LARGE: u64 = 256 << 20;

#[test]
fn a_server_that_ends_before_it_is_hashed_is_pinned_all_the_same() -> Result<()> {
    let home = Home::new()?;
    let program = home.path("large");
    // Bytes after the end of a program in its file do not affect it.
    program::copy("/bin/cat", &program)?;
    fs::OpenOptions::new()
        .write(true)
        .open(&program)?
        .set_len(LARGE)?;
    let mut wrapped =
        Wrapped::start(&mut home.wrap(&["--server", "large"], &[&program.display().to_string()])?)?;
    let (code, output, errors) = wrapped.finish()?;
    assert_eq!((code, output.as_str()), (0, ""), "{errors}");
    let store = home.path("store.db").display().to_string();
    let run = program::run(["events", "--json", "--type", "mcp_server_started", "--db", &store])?;
    let started = run.objects()?.into_iter().next().context("a start")?;
    assert_eq!(text(&started, "pin"), "pinned", "{started}");
    assert_eq!(text(&started, "exe_sha256"), sha256(&program)?);
    Ok(())
}

#[test]
fn a_script_that_was_another_one_meanwhile_does_not_speak() -> Result<()> {
    let home = Home::new()?;
    let [script, aside, other] = ["server.py", "aside.py", "other.py"].map(|name| home.path(name));
    fs::write(&script, CODE)?;
    pin(&home)?;

    // The restored file has the pinned content, but the interpreter may have read the other one.
    let mut wrapped = start(&home)?;
    running(&wrapped)?;
    fs::write(&other, "print('something else')")?;
    fs::hard_link(&script, &aside)?;
    fs::rename(&other, &script)?;
    fs::rename(&aside, &script)?;
    wrapped.send(ASKED)?;
    let (code, output, errors) = wrapped.finish()?;
    assert_eq!(code, 1, "{errors}");
    assert!(is_refusal(&output), "{output}");
    assert!(errors.contains("refused by mcp.version_pinning"), "{errors}");

    let mut wrapped = start(&home)?;
    running(&wrapped)?;
    fs::write(&script, format!("{CODE}#"))?;
    wrapped.send(ASKED)?;
    let (code, output, _) = wrapped.finish()?;
    assert_eq!(code, 1);
    assert!(is_refusal(&output), "changed for good: {output}");

    fs::write(&script, CODE)?;
    let mut wrapped = start(&home)?;
    wrapped.send(ASKED)?;
    assert!(wrapped.line()?.contains("result"), "the pinned one, untouched");
    let (code, ..) = wrapped.finish().context("it ends")?;
    assert_eq!(code, 0);
    Ok(())
}

/// Returns the recorded hash of each interpreter that ran, in the order of their starts.
fn hashes(home: &Home) -> Result<Vec<String>> {
    let store = home.path("store.db").display().to_string();
    let kind = "mcp_server_started";
    let run = program::run([
        "events", "--json", "--limit", "1000", "--type", kind, "--db", &store,
    ])?;
    let mut started = run.objects()?;
    started.sort_by_key(|event| text(event, "timestamp").to_owned());
    let hashes = started.iter().map(|event| text(event, "exe_sha256").to_owned());
    Ok(hashes.collect())
}

/// A shell serves, and says in its answer which one it is. The wrapper must have hashed that same one, although the
/// file is replaced just before and after.
#[test]
fn an_interpreter_that_is_replaced_all_the_time_runs_as_the_one_that_was_hashed() -> Result<()> {
    /// The least number of starts, and the most until both shells were hashed.
    const MIN_STARTS: usize = 24;
    const STARTS: usize = 200;
    let home = Home::new()?;
    home.configure("version: 1\nmcp: {version_pinning: {on_change: alert}}\n")?;
    let [dash, bash] = ["dash", "bash"].map(|name| home.path(name));
    program::copy("/bin/dash", &dash)?;
    program::copy("/bin/bash", &bash)?;
    let known = [(sha256(&dash)?, "dash"), (sha256(&bash)?, "bash")];
    let [interpreter, script] = ["interpreter", "server.sh"].map(|name| home.path(name));
    fs::hard_link(&dash, &interpreter)?;
    let code = r#"read -r _line; printf '{"jsonrpc":"2.0","id":1,"result":{"shell":"%s"}}\n' "${BASH:+bash}${BASH:-dash}""#;
    fs::write(&script, format!("#!{}\n{code}\n", interpreter.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let script = script.display().to_string();
    let name_of = |hash: &str| known.iter().find(|(known, _)| hash.ends_with(known.as_str()));
    // A shell whose file lost its name while it was read has no recorded hash.
    let hashed = || -> Result<Vec<Option<&str>>> {
        let hashes = hashes(&home)?;
        let names = hashes.iter().map(|hash| name_of(hash).map(|(_, name)| *name));
        Ok(names.collect())
    };
    let has_hashed_all = || -> Result<bool> {
        let seen: BTreeSet<_> = hashed()?.into_iter().flatten().collect();
        Ok(seen.len() == known.len())
    };

    let is_over = AtomicBool::new(false);
    let ran = thread::scope(|scope| -> Result<Vec<&str>> {
        let swapping = scope.spawn(|| -> Result<()> {
            let next = home.path("next");
            while !is_over.load(Ordering::Relaxed) {
                for other in [&bash, &dash] {
                    fs::hard_link(other, &next)?;
                    fs::rename(&next, &interpreter)?;
                    thread::yield_now();
                }
            }
            Ok(())
        });
        let mut ran = Vec::new();
        let outcome = (|| -> Result<()> {
            while ran.len() < MIN_STARTS || ran.len() < STARTS && !has_hashed_all()? {
                let mut wrapped = Wrapped::start(&mut home.wrap(&["--server", "swapped"], &[&script])?)?;
                wrapped.send(ASKED)?;
                let answer = wrapped.line()?;
                let (code, _, errors) = wrapped.finish()?;
                assert_eq!(code, 0, "{answer} {errors}");
                ran.push(if answer.contains("bash") { "bash" } else { "dash" });
            }
            Ok(())
        })();
        is_over.store(true, Ordering::Relaxed);
        swapping.join().expect("no panic")?;
        outcome.map(|()| ran)
    })?;

    let hashed = hashed()?;
    assert_eq!(hashed.len(), ran.len());
    for (hashed, ran) in hashed.iter().zip(&ran) {
        assert!(
            hashed.is_none_or(|hashed| hashed == *ran),
            "{hashed:?} was hashed, {ran} ran"
        );
    }
    assert!(
        has_hashed_all()?,
        "it was never swapped in time: {hashed:?} {ran:?}"
    );
    Ok(())
}
