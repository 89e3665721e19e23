//! Bytes through the pipes: unchanged, at the reader's speed, with output on standard error beside them.

use std::{
    io::{BufRead as _, Read as _, Write as _},
    thread,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    wait,
    wrapped::{Home, children, own_memory},
};

/// Returns a notification of this many bytes or a few more.
fn notification(bytes: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{}"}}}}"#,
        "x".repeat(bytes)
    )
}

#[test]
fn bytes_pass_as_they_are_in_both_directions() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = home.start(&["cat"])?;
    for line in [
        notification(10),
        r#"{ "params" : {"n": 1.0e2, "t":"é\u00e9\\"} ,"jsonrpc":"2.0",  "method":"notifications/x"}"#
            .to_owned(),
        notification(100_000),
    ] {
        wrapped.send(&line)?;
        assert_eq!(wrapped.line()?, line);
    }
    assert_eq!(wrapped.finish()?.0, 0);
    Ok(())
}

#[test]
fn a_line_may_come_in_pieces() -> Result<()> {
    let home = Home::new()?;
    let mut wrapped = home.start(&["cat"])?;
    let line = notification(20);
    let stdin = wrapped.stdin.as_mut().context("the pipe is open")?;
    for byte in line.bytes() {
        stdin.write_all(&[byte])?;
    }
    stdin.write_all(b"\n")?;
    assert_eq!(wrapped.line()?, line);
    Ok(())
}

#[test]
fn a_large_line_passes_and_a_giant_one_does_not() -> Result<()> {
    let home = Home::new()?;
    let (large, giant) = (15 << 20, 17 << 20);
    let code = format!(
        "import sys\nfor n in ({large}, {giant}, 1):\n  sys.stdout.write('{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":\"' + 'x' * n + '\"}}}}\\n')\n  sys.stdout.flush()\n"
    );
    let mut wrapped = home.start(&["python3", "-c", &code])?;
    assert_eq!(wrapped.line()?, notification(large));
    let next = wait::until("the line after the giant one", || {
        let line = wrapped.line()?;
        Ok((line.len() < 1000 && line.contains("\"x\"") || line.is_empty()).then_some(line))
    })?;
    assert_eq!(next, notification(1));
    assert_eq!(wrapped.finish()?.0, 0);
    Ok(())
}

#[test]
fn a_client_that_reads_slowly_holds_up_its_server_and_fills_no_memory() -> Result<()> {
    let home = Home::new()?;
    let lines = 40_000;
    let script = format!("yes '{}' | head -n {lines}", notification(1000));
    let mut wrapped = home.start(&["sh", "-c", &script])?;
    assert_eq!(wrapped.line()?, notification(1000));
    let watcher = wrapped.pid().as_raw().cast_unsigned();
    let relay = *children(watcher)?.first().context("a process that relays")?;
    // Nothing is read meanwhile, so the server's output waits, and memory that the start took is released. Pages of the
    // binary are not counted, because the kernel decides how many of them are in memory.
    wait::until("a relay that has settled", || {
        Ok((own_memory(relay)? < 20 * 1024).then_some(()))
    })?;
    let settled = own_memory(relay)?;
    let mut stdout = wrapped.stdout.take().context("the pipe is open")?;
    let (mut count, mut line) = (1, String::new());
    while count < lines {
        line.clear();
        stdout.read_line(&mut line)?;
        count += 1;
        if count % 1000 == 0 {
            let left = lines - count;
            let own = own_memory(relay)?;
            assert!(
                own < settled + 8 * 1024,
                "{own} KiB of its own while {left} KB wait, {settled} before"
            );
        }
    }
    assert_eq!(wrapped.finish()?.0, 0);
    Ok(())
}

#[test]
fn a_server_that_reads_slowly_holds_up_its_client_and_loses_nothing() -> Result<()> {
    let home = Home::new()?;
    let lines = 10_000;
    // The server reads nothing until the test lets it, through a separate pipe.
    let gate = home.path("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU)?;
    let script = "read go < \"$0\"; echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"n/$(wc -l)\\\"}\"";
    let mut wrapped = home.start(&["sh", "-c", script, &gate.display().to_string()])?;
    let mut stdin = wrapped.stdin.take().context("the pipe is open")?;
    let writer = thread::spawn(move || -> Result<()> {
        let line = notification(1000) + "\n";
        (0..lines).try_for_each(|_| Ok(stdin.write_all(line.as_bytes())?))
    });
    std::fs::write(&gate, "go\n")?;
    assert!(wrapped.line()?.contains(&format!("n/{lines}\"")));
    let written = writer
        .join()
        .map_err(|_panic| anyhow::anyhow!("the writer panicked"))?;
    written?;
    assert_eq!(wrapped.finish()?.0, 0);
    Ok(())
}

#[test]
fn noise_goes_to_standard_error_and_messages_to_standard_output() -> Result<()> {
    let home = Home::new()?;
    let message = notification(3);
    let script = format!("echo Server started; echo '{message}'; echo 'no end'");
    let (code, output, errors) = home.start(&["sh", "-c", &script])?.finish()?;
    assert_eq!((code, output), (0, message + "\n"));
    assert!(
        errors.contains("Server started\n") && errors.contains("no end"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn standard_error_of_the_server_is_its_own() -> Result<()> {
    let home = Home::new()?;
    let (code, output, errors) = home.start(&["sh", "-c", "echo said >&2; exit 1"])?.finish()?;
    assert_eq!((code, output.as_str(), errors.as_str()), (1, "", "said\n"));
    Ok(())
}

#[test]
fn standard_input_of_a_terminal_or_file_works_too() -> Result<()> {
    let home = Home::new()?;
    let (input, output) = (home.path("input"), home.path("output"));
    let line = notification(5) + "\n";
    std::fs::write(&input, &line)?;
    let status = home
        .wrap(&[], &["cat"])?
        .stdin(std::fs::File::open(&input)?)
        .stdout(std::fs::File::create(&output)?)
        .status()?;
    assert!(status.success());
    let mut written = String::new();
    std::fs::File::open(&output)?.read_to_string(&mut written)?;
    assert_eq!(written, line);
    Ok(())
}
