//! Starts of checked programs are refused unless their digest is accepted, where the kernel calls the program for it.
//! Elsewhere the reason is that of this kernel, and nothing is refused.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::{fs::symlink, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use mcpmon_common::{
    event::{Counter, ExecRecord},
    gate::GateKind,
};
use mcpmon_kernel::{
    gate::GatedName,
    records::{Record, RefusedStart},
    starts::{AcceptedProgram, Unproved},
};
use mcpmon_kernel_tests::{
    child::{Child, Test},
    lab::Lab,
    scratch::Scratch,
};
use mcpmon_model::Digest;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::{
        signal::Signal,
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

const ROUNDS: usize = 20;
/// Threads that start a program at once.
const CROWD: usize = 4;
/// Longer than the test lasts.
const OPEN: Duration = Duration::from_secs(600);
/// Any script with an interpreter that is everywhere.
const CANARY: &str = "#!/bin/true\n";

/// The outcome of a start.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Start {
    Refused,
    Stopped(u32),
    Ran(u32),
}

/// The canary tells whether starts are checked, and it is right.
pub(crate) fn proof(lab: &mut Lab) -> Result<()> {
    lab.sensor.gate.open_for(OPEN, true)?;
    let proof = proved(lab);
    let is_absent = matches!(proof, Err(Unproved::Absent(_)));
    let proof = proof.map_err(|cause| cause.to_string());
    ensure!(proof.is_ok() || is_absent, "it fails: {proof:?}");
    lab.sensor.gate.close()?;
    // Where the list cannot be read, the kernel has to say so itself.
    let modules = fs::read_to_string("/sys/kernel/security/lsm").ok();
    let is_listed = |modules: &str| modules.trim().split(',').any(|name| name == "bpf");
    let may = lab.kernel.release >= (5, 18) && modules.as_deref().is_none_or(is_listed);
    match proof {
        Ok(()) => {
            ensure!(may, "starts are checked, with the security modules {modules:?}");
            let closed = lab
                .sensor
                .attached
                .start_canary()
                .map(|mut canary| canary.prove(CANARY));
            ensure!(
                matches!(&closed, Ok(Err(Unproved::Absent(cause))) if cause.contains("gate is closed")),
                "{closed:?}"
            );
        }
        Err(cause) if lab.kernel.release < (5, 18) => {
            ensure!(cause.contains("is older than 5.18"), "{cause}");
            lab.lacks("no digest of IMA for programs before 5.18");
        }
        Err(cause) if !may => {
            ensure!(
                cause.contains("`bpf` is not among the active security modules"),
                "{cause}"
            );
            lab.lacks("`bpf` is not among the security modules");
        }
        Err(cause) => {
            let is_locked_out = cause.contains("failed to load") && cause.contains("Operation not permitted");
            ensure!(is_locked_out, "{cause}");
            lab.lacks("the kernel takes no program for BPF LSM");
        }
    }
    Ok(())
}

fn proved(lab: &Lab) -> Result<(), Unproved> {
    lab.sensor.attached.start_canary()?.prove(CANARY)
}

/// A changed program is refused and does not run, and one with an accepted digest is not stopped.
pub(crate) fn digests(lab: &mut Lab) -> Result<()> {
    lab.sensor.gate.open_for(OPEN, true)?;
    let name = GatedName {
        uid: 0,
        kind: GateKind::Program,
        name: "echo".to_owned(),
    };
    lab.sensor.gate.replace(&BTreeSet::from([name]))?;
    let is_checked = proved(lab).is_ok();
    if !is_checked {
        lab.lacks("nothing checks starts; they are stopped");
    }
    let outcome = judged(lab, is_checked);
    lab.sensor.starts.replace(&BTreeSet::new())?;
    lab.sensor.gate.close()?;
    lab.sensor.gate.replace(&BTreeSet::new())?;
    let left: Vec<u32> = lab.sensor.gate.holds().map(|(pid, _)| pid).collect();
    left.into_iter().for_each(|pid| lab.sensor.gate.release(pid));
    outcome
}

fn judged(lab: &mut Lab, is_checked: bool) -> Result<()> {
    let mut workload = Child::start(starts)?;
    let (path, digest, changed): (PathBuf, [u8; 32], [u8; 32]) = workload.hear()?;
    let accepted = |digest, is_whole| AcceptedProgram {
        uid: 0,
        path: path.clone(),
        digest: Digest::from_bytes(digest),
        is_whole,
    };
    let mut next = |lab: &mut Lab, accepted: &[AcceptedProgram]| -> Result<Start> {
        lab.sensor.starts.replace(&accepted.iter().cloned().collect())?;
        workload.proceed()?;
        workload.hear()
    };

    // As it was pinned: all of it, or with other files.
    let whole = next(lab, &[accepted(digest, true)])?;
    let flags = match whole {
        Start::Ran(pid) if is_checked => lab.execs(pid)?,
        Start::Stopped(_) if !is_checked => Vec::new(),
        Start::Refused | Start::Stopped(_) | Start::Ran(_) => bail!("{whole:?}"),
    };
    ensure!(
        flags
            .iter()
            .all(|exec| exec.record.flags == ExecRecord::FLAG_VERIFIED),
        "{flags:#?}"
    );
    let part = next(lab, &[accepted(digest, false)])?;
    ensure!(matches!(part, Start::Stopped(_)), "{part:?}");

    let by_link = next(lab, &[accepted(digest, false)])?;
    ensure!(
        matches!(by_link, Start::Stopped(_)) == is_checked,
        "under a name that the gate does not know: {by_link:?}"
    );

    // Another file, which is not the pinned one, is changed.
    lab.records(|_| None::<()>)?;
    let before = lab.count(Counter::StartRefused)?;
    for round in 0..ROUNDS {
        let start = next(lab, &[accepted(digest, true)])?;
        ensure!(
            matches!(start, Start::Refused) == is_checked,
            "{round}: {start:?}"
        );
    }
    let by_descriptor = next(lab, &[accepted(digest, true)])?;
    ensure!(
        matches!(by_descriptor, Start::Refused) == is_checked,
        "{by_descriptor:?}"
    );
    let told: Vec<RefusedStart> = lab.records(|record| match record {
        Record::RefusedStart(start) => Some(*start),
        Record::Exec(_)
        | Record::Fork(_)
        | Record::Exit(_)
        | Record::Resume(_)
        | Record::Connect(_)
        | Record::Close(_) => None,
    })?;
    let expected = if is_checked { ROUNDS + 1 } else { 0 };
    ensure!(told.len() == expected, "{told:#?}");
    ensure!(
        told.iter()
            .all(|start| start.path == path && start.record.digest == changed && start.record.uid == 0),
        "{told:#?}"
    );
    ensure!(
        lab.count(Counter::StartRefused)? - before == expected as u64,
        "miscounted"
    );

    // The same program elsewhere, and the changed one once it is accepted.
    let copy = next(lab, &[accepted(digest, true)])?;
    ensure!(matches!(copy, Start::Stopped(_)), "{copy:?}");
    let approved = next(lab, &[accepted(digest, true), accepted(changed, true)])?;
    ensure!(matches!(approved, Start::Ran(_)) == is_checked, "{approved:?}");

    // A daemon that is silent refuses nothing.
    lab.sensor.gate.open_for(Duration::ZERO, true)?;
    let in_silence = next(lab, &[accepted(digest, true)])?;
    ensure!(matches!(in_silence, Start::Ran(_)), "{in_silence:?}");

    // Many at once: each is told, and no record counts as missing.
    let missing = lab.sensor.rings.missing();
    lab.sensor.gate.open_for(OPEN, true)?;
    workload.proceed()?;
    let refused: usize = workload.hear()?;
    let told = lab.records(|record| matches!(record, Record::RefusedStart(_)).then_some(()))?;
    let expected = if is_checked { CROWD * ROUNDS } else { 0 };
    ensure!(
        refused == expected && told.len() == expected,
        "{refused} refused, {} told",
        told.len()
    );
    ensure!(
        lab.sensor.rings.missing() == missing,
        "{} are missing",
        lab.sensor.rings.missing()
    );
    workload.join()
}

/// Starts a program again and again, each time when the test says so.
fn starts(test: &mut Test) -> Result<()> {
    let scratch = Scratch::mount()?;
    let program = scratch.copy("echo")?;
    let digest = |path: &Path| fs::read(path).map(|bytes| *Digest::of(&bytes).as_bytes());
    let pinned = digest(&program)?;
    let spare = scratch.join("spare");
    fs::copy(&program, &spare)?;
    let mut file = OpenOptions::new().append(true).open(&spare)?;
    file.write_all(b"\0")?;
    drop(file);
    test.say(&(&program, pinned, digest(&spare)?))?;
    for _ in 0..2 {
        next(test, &mut Command::new(&program))?;
    }
    let link = scratch.join("of-another-name");
    symlink(&program, &link)?;
    next(test, Command::new(&link).arg0(&program))?;
    // What follows is the changed program.
    let replace = |from: &Path, to: &Path| fs::rename(from, to);
    replace(&spare, &program)?;
    for _ in 0..ROUNDS {
        next(test, &mut Command::new(&program))?;
    }
    let open = fs::File::open(&program)?;
    fcntl(&open, FcntlArg::F_SETFD(FdFlag::empty()))?;
    next(
        test,
        Command::new(format!("/dev/fd/{}", open.as_raw_fd())).arg0(&program),
    )?;
    drop(open);
    let directory = scratch.join("elsewhere");
    fs::create_dir(&directory)?;
    fs::copy(&program, directory.join("echo"))?;
    next(test, &mut Command::new(directory.join("echo")))?;
    for _ in 0..2 {
        next(test, &mut Command::new(&program))?;
    }
    test.wait()?;
    test.say(&refused_at_once(&program)?)?;
    Ok(())
}

/// Starts a program from several threads at once; returns how many starts were refused.
fn refused_at_once(program: &Path) -> Result<usize> {
    thread::scope(|scope| {
        let several = || -> Result<usize> {
            let starts = (0..ROUNDS).map(|_| start(&mut Command::new(program)));
            let outcomes = starts.collect::<Result<Vec<_>>>()?;
            Ok(outcomes
                .iter()
                .filter(|start| matches!(start, Start::Refused))
                .count())
        };
        let threads: Vec<_> = (0..CROWD).map(|_| scope.spawn(several)).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|panic| anyhow!("a thread panicked: {panic:?}"))?
            })
            .sum()
    })
}

fn next(test: &mut Test, command: &mut Command) -> Result<()> {
    test.wait()?;
    test.say(&start(command)?)
}

fn start(command: &mut Command) -> Result<Start> {
    let mut child = match command.arg("ran").stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => return Ok(Start::Refused),
        Err(error) => return Err(error).context("cannot start"),
    };
    let pid = child.id();
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    let status = waitid(Id::Pid(Pid::from_raw(pid.cast_signed())), flags).context("cannot wait")?;
    if matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP)) {
        child.kill().context("cannot kill")?;
        child.wait().context("cannot wait")?;
        return Ok(Start::Stopped(pid));
    }
    let output = child
        .stdout
        .take()
        .context("no pipe")
        .and_then(|pipe| Ok(io::read_to_string(pipe)?))?;
    child.wait().context("cannot wait")?;
    ensure!(output == "ran\n", "{output:?}");
    Ok(Start::Ran(pid))
}
