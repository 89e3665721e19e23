//! Records of a wrapper that outlive it.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    json::text,
    program,
    wrapped::{Home, children},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// A process that keeps others from writing to a store.
struct Busy(Child);

impl Busy {
    fn hold(store: &Path) -> Result<Self> {
        let code = "import sqlite3, sys\n\
                    store = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                    store.execute('BEGIN IMMEDIATE')\n\
                    print('held', flush=True)\n\
                    sys.stdin.read()\n";
        let mut child = Command::new("python3")
            .args(["-c", code])
            .arg(store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start python3")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut line)?;
        anyhow::ensure!(line == "held\n", "the store cannot be held");
        Ok(Self(child))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn blocks(home: &Home) -> Result<Vec<Value>> {
    let store = home.path("store.db").display().to_string();
    program::run(["events", "--json", "--action", "block", "--db", &store])?.objects()
}

#[test]
fn a_block_is_recorded_even_if_the_wrapper_is_killed_before_it_is_written() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = home.start(&["cat"])?;
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    wrapped.send(notice)?;
    assert_eq!(wrapped.line()?, notice);
    let busy = Busy::hold(&home.path("store.db"))?;
    wrapped.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":NaN}"#)?;
    assert!(wrapped.line()?.contains("-32700"), "it is refused");
    let relay = children(wrapped.pid().as_raw().cast_unsigned())?;
    kill(
        Pid::from_raw(relay.first().context("a process that relays")?.cast_signed()),
        Signal::SIGKILL,
    )?;
    wrapped.ended()?;
    drop(busy);
    assert!(blocks(&home)?.is_empty(), "nobody has written it");

    // The next process that opens the store takes over the record.
    home.start(&["true"])?.finish()?;
    let blocks = blocks(&home)?;
    assert_eq!(blocks.len(), 1, "{blocks:?}");
    assert_eq!(text(&blocks[0], "rule"), "strict_json", "{blocks:?}");
    Ok(())
}

#[test]
fn a_wrapper_that_stepped_aside_is_told() -> Result<()> {
    let home = Home::new()?;
    let program = program::path()?.display().to_string();
    let [socket, store] = ["no-daemon", "store.db"].map(|name| home.path(name).display().to_string());
    let inner = [
        &program, "wrap", "--server", "inner", "--socket", &socket, "--db", &store, "--", "true",
    ];
    let (code, _, errors) = home.start(&inner)?.finish()?;
    assert_eq!(code, 0, "{errors}");
    let arguments = ["events", "--json", "--server", "inner", "--db", &store];
    let events = program::run(arguments)?.objects()?;
    let [told] = events.as_slice() else {
        panic!("one event of the inner wrapper: {events:?}");
    };
    assert_eq!(text(told, "component"), "wrapper", "{told}");
    assert!(text(told, "cause").contains("wrapped already"), "{told}");
    assert!(!text(told, "session_id").is_empty(), "{told}");
    Ok(())
}
