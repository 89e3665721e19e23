//! Refused executables are killed before their first instruction.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::event::{Counter, ExecRecord};
use mcpmon_kernel_tests::{
    child::{Child, Test},
    lab::Lab,
    scratch::Scratch,
};
use nix::libc;

const ROUNDS: u64 = 50;

/// The result of a run: process number, output, and signal.
type Run = (u32, Vec<u8>, Option<i32>);

pub(crate) fn no_output(lab: &mut Lab) -> Result<()> {
    let killed_before = lab.count(Counter::ExecKilled)?;
    let mut workload = Child::start(runs)?;
    let (pid, output, signal): Run = workload.hear()?;
    ensure!(
        (output.as_slice(), signal) == (b"ran\n".as_slice(), None),
        "the program does not work here"
    );
    let file = lab
        .execs(pid)?
        .first()
        .context("no record of the first run")?
        .record
        .file;

    lab.sensor.refused.refuse(file, 1)?;
    for _ in 0..ROUNDS {
        workload.proceed()?;
        let (pid, output, signal): Run = workload.hear()?;
        ensure!(
            (output.as_slice(), signal) == (b"".as_slice(), Some(libc::SIGKILL)),
            "{output:?} {signal:?}"
        );
        let flags: Vec<_> = lab.execs(pid)?.iter().map(|exec| exec.record.flags).collect();
        ensure!(flags == [ExecRecord::FLAG_KILLED], "{flags:?}");
    }
    let killed = lab.count(Counter::ExecKilled)? - killed_before;
    ensure!(killed == ROUNDS, "{killed} counted");

    workload.proceed()?;
    let (pid, output, signal): Run = workload.hear()?;
    ensure!(
        (output.as_slice(), signal) == (b"ran\n".as_slice(), None),
        "the changed file is another one"
    );
    let changed = lab
        .execs(pid)?
        .first()
        .context("no record of the changed file")?
        .record
        .file;
    ensure!(changed.inode == file.inode && changed != file, "{changed:?}");
    lab.sensor.refused.accept(&file);
    workload.join()
}

/// Runs a program once, many times while it is refused, and once after it was changed.
fn runs(test: &mut Test) -> Result<()> {
    let scratch = Scratch::mount()?;
    let program = scratch.copy("echo")?;
    let run = || -> Result<Run> {
        let mut command = Command::new(&program);
        let child = command
            .arg("ran")
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start")?;
        let pid = child.id();
        let output = child.wait_with_output().context("cannot wait")?;
        Ok((pid, output.stdout, output.status.signal()))
    };
    test.say(&run()?)?;
    for _ in 0..ROUNDS {
        test.wait()?;
        test.say(&run()?)?;
    }
    test.wait()?;
    // Bytes after the end of an ELF file change only its size and change time.
    let mut file = OpenOptions::new()
        .append(true)
        .open(&program)
        .context("cannot open")?;
    file.write_all(b"\0").context("cannot append")?;
    drop(file);
    test.say(&run()?)
}
