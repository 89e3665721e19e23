//! Gated starts are stopped before their first instruction, and a process that resumes them is reported.

use std::{
    collections::BTreeSet,
    fs,
    io::Read as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child as Process, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_common::{
    event::{Counter, ExecRecord},
    gate::{GateKind, Hold},
};
use mcpmon_kernel::{
    gate::GatedName,
    records::{Record, Resume},
};
use mcpmon_kernel_tests::{
    child::{Child, Test},
    lab::{Lab, agent_entry},
    scratch::Scratch,
};
use nix::{
    libc,
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};

const ROUNDS: usize = 50;
/// Longer than the test lasts.
pub(crate) const OPEN: Duration = Duration::from_secs(600);

fn names(of: &[(GateKind, &str)]) -> BTreeSet<GatedName> {
    let name = |(kind, name): &(GateKind, &str)| GatedName {
        uid: 0,
        kind: *kind,
        name: (*name).to_owned(),
    };
    of.iter().map(name).collect()
}

/// Gates these names while `run` runs.
fn gated<T>(lab: &mut Lab, of: &[(GateKind, &str)], run: impl FnOnce(&mut Lab) -> Result<T>) -> Result<T> {
    lab.sensor.gate.replace(&names(of))?;
    lab.sensor.gate.open_for(OPEN, true)?;
    let outcome = run(lab);
    lab.sensor.gate.close()?;
    lab.sensor.gate.replace(&BTreeSet::new())?;
    let left: Vec<u32> = lab.sensor.gate.holds().map(|(pid, _)| pid).collect();
    left.into_iter().for_each(|pid| lab.sensor.gate.release(pid));
    outcome
}

/// A start as a workload reports it: the process, and whether it was stopped.
pub(crate) type Started = (u32, bool);

/// Starts a program, and waits until it is stopped or has ended.
pub(crate) fn start(command: &mut Command) -> Result<(Process, Started)> {
    let child = command.stdout(Stdio::piped()).spawn().context("cannot start")?;
    let pid = child.id();
    // Its end remains to be waited for again.
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    let status = waitid(Id::Pid(Pid::from_raw(pid.cast_signed())), flags).context("cannot wait")?;
    Ok((
        child,
        (pid, matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP))),
    ))
}

/// Returns the program's output, and the signal that ended it.
fn finish(mut child: Process) -> Result<(String, Option<i32>)> {
    drop(child.stdin.take());
    let mut output = String::new();
    let mut stdout = child.stdout.take().context("no pipe")?;
    stdout.read_to_string(&mut output).context("cannot read")?;
    let status = child.wait().context("cannot wait")?;
    Ok((output, status.signal()))
}

/// Each start of a gated program waits, and the program runs completely once it is released.
pub(crate) fn programs(lab: &mut Lab) -> Result<()> {
    let before = lab.count(Counter::ExecHeld)?;
    gated(lab, &[(GateKind::Program, "echo")], |lab| {
        let mut workload = Child::start(|test| {
            let scratch = Scratch::mount()?;
            let program = scratch.copy("echo")?;
            for _ in 0..ROUNDS {
                let (child, started) = start(Command::new(&program).arg("ran"))?;
                test.say(&started)?;
                test.wait()?;
                test.say(&finish(child)?)?;
            }
            Ok(())
        })?;
        for _ in 0..ROUNDS {
            let (pid, is_stopped): Started = workload.hear()?;
            ensure!(is_stopped, "it ran");
            let flags: Vec<_> = lab.execs(pid)?.iter().map(|exec| exec.record.flags).collect();
            ensure!(flags == [ExecRecord::FLAG_HELD], "{flags:?}");
            ensure!(
                lab.sensor.gate.holds().any(|(held, _)| held == pid),
                "it is not noted"
            );
            lab.sensor.gate.release(pid);
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGCONT)?;
            workload.proceed()?;
            let (output, signal): (String, Option<i32>) = workload.hear()?;
            ensure!(
                (output.as_str(), signal) == ("ran\n", None),
                "{output:?} {signal:?}"
            );
        }
        workload.join()
    })?;
    let held = lab.count(Counter::ExecHeld)? - before;
    ensure!(held == ROUNDS as u64, "{held} counted");
    Ok(())
}

/// Starts are not stopped after the daemon has been silent for a while.
pub(crate) fn silence(lab: &mut Lab) -> Result<()> {
    gated(lab, &[(GateKind::Program, "echo")], |lab| {
        lab.sensor.gate.open_for(Duration::ZERO, true)?;
        let (_, is_stopped) = one(&["echo", "ran"], None)?;
        ensure!(!is_stopped, "it is stopped");
        lab.sensor.gate.open_for(OPEN, true)?;
        lab.sensor.gate.replace(&names(&[
            (GateKind::Program, "ech"),
            (GateKind::Program, "echoo"),
        ]))?;
        let (_, is_stopped) = one(&["echo", "ran"], None)?;
        ensure!(!is_stopped, "another name is stopped");
        Ok(())
    })
}

/// An interpreter waits only below an agent, and only with a gated argument.
pub(crate) fn interpreters(lab: &mut Lab) -> Result<()> {
    let names = [(GateKind::Interpreter, "echo"), (GateKind::Argument, "server.js")];
    gated(lab, &names, |lab| {
        for (argv, is_agent, expected) in [
            (["echo", "-x", "/a/b/server.js"].as_slice(), true, true),
            (&["echo", "server.js", "c"], true, true),
            (&["echo", "server.js"], false, false),
            (&["echo", "server.jsx"], true, false),
            (&["echo", "xserver.js"], true, false),
            (&["echo", "server.js/"], true, false),
            (&["cat", "/a/server.js"], true, false),
        ] {
            let lab = is_agent.then_some(&mut *lab);
            let (_, is_stopped) = one(argv, lab)?;
            ensure!(
                is_stopped == expected,
                "{argv:?} below an agent {is_agent}: {is_stopped}"
            );
        }
        Ok(())
    })
}

/// If a program is executed by descriptor, its first argument counts.
pub(crate) fn descriptors(lab: &mut Lab) -> Result<()> {
    gated(lab, &[(GateKind::First, "a-server-with-a-long-name")], |_| {
        for (name, expected) in [("/x/a-server-with-a-long-name", true), ("another", false)] {
            let name = name.to_owned();
            let started = Child::start(move |_| {
                let file = fs::File::open("/bin/echo").context("cannot open")?;
                let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
                let (mut child, started) = start(Command::new(path).arg0(name))?;
                child.kill().context("cannot kill")?;
                child.wait().context("cannot wait")?;
                Ok(started)
            })?
            .join()?;
            ensure!(started.1 == expected, "{expected}");
        }
        Ok(())
    })
}

/// Starts one program, below an agent if `agent` is given, and kills it.
fn one(argv: &[&str], agent: Option<&mut Lab>) -> Result<Started> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let mut workload = Child::start(move |test: &mut Test| {
        test.wait()?;
        let (mut child, started) = start(Command::new(&argv[0]).args(&argv[1..]))?;
        child.kill().context("cannot kill")?;
        child.wait().context("cannot wait")?;
        Ok(started)
    })?;
    if let Some(lab) = agent {
        lab.sensor.processes.set(workload.pid(), agent_entry())?;
    }
    workload.proceed()?;
    workload.join()
}

/// A process that resumes a held server is reported, and the server can start no further process.
pub(crate) fn resumed(lab: &mut Lab) -> Result<()> {
    gated(lab, &[(GateKind::Program, "sh")], |lab| {
        let mut workload = Child::start(|test| {
            let line = "echo ran; read _; /bin/echo forked";
            let (child, started) = start(Command::new("sh").args(["-c", line]).stdin(Stdio::piped()))?;
            test.say(&started)?;
            test.wait()?;
            let pid = Pid::from_raw(started.0.cast_signed());
            kill(pid, Signal::SIGCONT)?;
            finish(child)
        })?;
        let (pid, is_stopped): Started = workload.hear()?;
        ensure!(is_stopped, "it ran");
        let process = lab.execs(pid)?.first().context("no record")?.record.process;
        let hold = Hold {
            process,
            flags: Hold::FLAG_SERVER,
            reserved: 0,
        };
        ensure!(!lab.sensor.gate.hold(pid, hold)?, "nobody resumed it");
        workload.proceed()?;
        let (output, signal): (String, Option<i32>) = workload.join()?;
        ensure!(signal == Some(libc::SIGKILL), "{output:?} {signal:?}");
        ensure!(!output.contains("forked"), "{output:?}");
        let told: Vec<Resume> = lab.records(|record| match record {
            Record::Resume(resume) => Some(resume),
            Record::Exec(_)
            | Record::Fork(_)
            | Record::Exit(_)
            | Record::RefusedStart(_)
            | Record::Connect(_)
            | Record::Close(_) => None,
        })?;
        let [resume] = told.as_slice() else {
            anyhow::bail!("{told:#?}")
        };
        ensure!(resume.record.process == process, "{resume:#?}");
        Ok(())
    })
}
