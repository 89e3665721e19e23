//! Records of execs, for every way in which a program can be executed, and of process ends.

use std::{
    convert::Infallible,
    env,
    ffi::CString,
    fs::{self, File},
    io::Write as _,
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::fs::MetadataExt as _,
    },
    path::Path,
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use mcpmon_common::{
    event::ExitRecord,
    limits::ARGV_MAX,
    process::{FileKey, ProcessEntry},
};
use mcpmon_kernel::records::{ExecReport, Record};
use mcpmon_kernel_tests::{
    child::Child,
    lab::{Lab, agent_entry},
    scratch::{Cgroup, Scratch, facts},
    sys::{Fork, fork},
};
use nix::{
    errno::Errno,
    sys::{
        memfd::{MFdFlags, memfd_create},
        signal::{Signal, raise},
        wait::{WaitStatus, waitpid},
    },
    unistd::{execve, fexecve},
};
use serde::{Deserialize, Serialize};

/// Facts that the workload knows about an exec that it made.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    /// The process that executed.
    pid: u32,
    /// Inode number, size, change time and device of the executed files, by stat(2), in the order of the records.
    files: Vec<(u64, u64, u64, u32)>,
    /// The link count of the last file.
    links: u64,
    /// The path given to execve(2).
    filename: String,
    /// The arguments that the last program gets.
    argv: Vec<String>,
    /// The number of bytes of all arguments.
    argv_total: usize,
}

/// The base of the exit status of a process whose exec failed: the error number is added to it. No program here ends
/// with a larger one.
const CAME_BACK: i32 = 128;

pub(crate) fn plain_file(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        let program = scratch.copy("true")?;
        by_path(&program, &["true", "one", "", "three"], &[&program])
    })
}

pub(crate) fn hard_link(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        let program = scratch.copy("true")?;
        let link = scratch.join("link");
        fs::hard_link(&program, &link).context("cannot link")?;
        by_path(&link, &["true"], &[&program])
    })
}

pub(crate) fn script(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        let script = scratch.script("script", "#!/bin/sh\nexit 0\n")?;
        let mut known = by_path(&script, &["ignored", "argument"], &[Path::new("/bin/sh")])?;
        known.see(&["/bin/sh", text(&script)?, "argument"]);
        Ok(known)
    })
}

/// `env` executes the program that it finds in the same process, so there are two records.
pub(crate) fn script_by_env(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        let script = scratch.script("script", "#!/usr/bin/env payload\n")?;
        // Not a program that busybox contains, because its `env` would run such a program without a look-up.
        let payload = scratch.join("payload");
        fs::rename(scratch.copy("true")?, &payload).context("cannot rename")?;
        let mut known = by_path(&script, &["ignored"], &[Path::new("/usr/bin/env"), &payload])?;
        known.filename = text(&payload)?.to_owned();
        known.see(&["payload", text(&script)?]);
        Ok(known)
    })
}

pub(crate) fn open_file(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        by_descriptor(&File::open(scratch.copy("true")?).context("cannot open")?)
    })
}

pub(crate) fn deleted_file(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        let program = scratch.copy("true")?;
        let file = File::open(&program).context("cannot open")?;
        fs::remove_file(&program).context("cannot delete")?;
        let known = by_descriptor(&file)?;
        ensure!(known.links == 0, "the file is still there");
        Ok(known)
    })
}

pub(crate) fn anonymous_file(lab: &mut Lab) -> Result<()> {
    recorded(lab, |_| {
        let memory = memfd_create(c"payload", MFdFlags::empty()).context("cannot make an anonymous file")?;
        let mut memory = File::from(memory);
        memory
            .write_all(&fs::read("/bin/true").context("cannot read a program")?)
            .context("cannot write")?;
        // A file open for writing cannot be executed, so a second descriptor is opened.
        let again = File::open(format!("/proc/self/fd/{}", memory.as_raw_fd())).context("cannot open")?;
        drop(memory);
        by_descriptor(&again)
    })
}

/// If a second thread executes, the record names the process.
pub(crate) fn second_thread(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        let program = scratch.copy("true")?;
        let stat = fs::metadata(&program).context("cannot stat")?;
        let started = program.clone();
        let pid = executed(move || {
            let execs = thread::spawn(move || execute(&started, &["true".to_owned()]));
            execs.join().unwrap_or(Errno::UnknownErrno)
        })?;
        Known::new(pid, &[stat], text(&program)?, &["true"])
    })
}

/// 100 kB of arguments are truncated, and the record has their true length.
pub(crate) fn long_arguments(lab: &mut Lab) -> Result<()> {
    recorded(lab, |scratch| {
        let program = scratch.copy("true")?;
        let argument = "x".repeat(99);
        let argv: Vec<_> = [["true"].as_slice(), &[argument.as_str(); 1000]].concat();
        let known = by_path(&program, &argv, &[&program])?;
        ensure!(known.argv_total > 100_000);
        Ok(known)
    })
}

/// A file that cannot be executed leaves no record.
pub(crate) fn failed_exec(lab: &mut Lab) -> Result<()> {
    let attempts = Child::start(|_| {
        let scratch = Scratch::mount()?;
        let garbage = scratch.script("garbage", "\u{1}\u{2}\u{3}")?;
        [scratch.join("absent"), garbage]
            .map(|path| attempted(|| execute(&path, &[])))
            .into_iter()
            .collect()
    })?
    .join();
    let attempts: Vec<(u32, i32)> = attempts?;
    let errors: Vec<_> = attempts.iter().map(|(_, error)| *error).collect();
    ensure!(
        errors == [Errno::ENOENT as i32, Errno::ENOEXEC as i32],
        "{errors:?}"
    );
    let records = lab.records(|record| match record {
        Record::Exec(exec) => attempts
            .iter()
            .any(|(pid, _)| *pid == exec.record.process.pid)
            .then_some(exec),
        Record::Fork(_)
        | Record::Exit(_)
        | Record::RefusedStart(_)
        | Record::Resume(_)
        | Record::Connect(_)
        | Record::Close(_) => None,
    })?;
    ensure!(records.is_empty(), "{records:#?}");
    Ok(())
}

pub(crate) fn in_a_cgroup(lab: &mut Lab) -> Result<()> {
    let cgroup = Cgroup::make(&lab.sensor.attached.root().path)?;
    let pid = Child::start(|_| {
        cgroup.enter()?;
        executed(|| execute(Path::new("/bin/true"), &["true".to_owned()]))
    })?
    .join()?;
    let records = lab.execs(pid)?;
    let found: Vec<_> = records.iter().map(|exec| exec.record.cgroup).collect();
    ensure!(found == [cgroup.id()?], "{found:?}, not {}", cgroup.id()?);
    Ok(())
}

/// The end of a tracked process is reported with its status, and only when its last thread ends.
pub(crate) fn ends(lab: &mut Lab) -> Result<()> {
    let mut workload = Child::start(|test| {
        test.wait()?;
        let killed = || raise(Signal::SIGKILL).map_or(1, |()| 1);
        let threaded = || thread::spawn(|| 5).join().unwrap_or(6);
        let (exits, killed, threaded) = (
            fork(Fork::Plain, || 7)?,
            fork(Fork::Plain, killed)?,
            fork(Fork::Plain, threaded)?,
        );
        let pids = [exits, killed, threaded];
        for pid in pids {
            waitpid(pid, None).context("cannot wait")?;
        }
        Ok(pids.map(|pid| pid.as_raw().cast_unsigned()))
    })?;
    let parent = workload.pid();
    let of_server = ProcessEntry {
        instance: 9,
        ..ProcessEntry::default()
    };
    lab.sensor.processes.set(parent, of_server)?;
    workload.proceed()?;
    let children = workload.join()?;
    let (mut forks, mut exits) = (Vec::new(), Vec::new());
    lab.records(|record| {
        match record {
            Record::Fork(fork) if fork.entry.instance == 9 => forks.push(fork),
            Record::Exit(exit) if exit.entry.instance == 9 => exits.push(exit),
            Record::Exec(_)
            | Record::Fork(_)
            | Record::Exit(_)
            | Record::RefusedStart(_)
            | Record::Resume(_)
            | Record::Connect(_)
            | Record::Close(_) => {}
        }
        None::<()>
    })?;
    for (child, status) in children.into_iter().zip([7 << 8, Signal::SIGKILL as u32, 5 << 8]) {
        let made: Vec<_> = forks.iter().filter(|fork| fork.process.pid == child).collect();
        let ended: Vec<&ExitRecord> = exits.iter().filter(|exit| exit.process.pid == child).collect();
        ensure!(
            made.len() == 1 && ended.len() == 1,
            "{child}: {made:#?} {ended:#?}"
        );
        ensure!(made[0].parent.pid == parent, "{:#?}", made[0]);
        ensure!(
            made[0].process == ended[0].process,
            "{:#?} {:#?}",
            made[0],
            ended[0]
        );
        ensure!(ended[0].status == status, "{:#?}, not {status}", ended[0]);
    }
    ensure!(
        exits.iter().filter(|exit| exit.process.pid == parent).count() == 1,
        "{exits:#?}"
    );
    Ok(())
}

/// A process that an agent starts is reported at once, because it may fork and end before its exec is judged.
pub(crate) fn agents_forks(lab: &mut Lab) -> Result<()> {
    let mut workload = Child::start(|test| {
        test.wait()?;
        let child = fork(Fork::Plain, || 0)?;
        waitpid(child, None).context("cannot wait")?;
        Ok(child.as_raw().cast_unsigned())
    })?;
    let parent = workload.pid();
    lab.sensor.processes.set(parent, agent_entry())?;
    workload.proceed()?;
    let child = workload.join()?;
    let mut forks = Vec::new();
    lab.records(|record| {
        if let Record::Fork(fork) = record
            && fork.parent.pid == parent
        {
            forks.push((fork.process.pid, fork.entry));
        }
        None::<()>
    })?;
    ensure!(forks == [(child, agent_entry())], "{forks:#?}");
    Ok(())
}

/// Runs `work` in a workload, and compares its facts with the records.
fn recorded(lab: &mut Lab, work: impl FnOnce(&Scratch) -> Result<Known>) -> Result<()> {
    let workload = Child::start(|_| work(&Scratch::mount()?))?;
    let parent = workload.pid();
    let known = workload.join()?;
    let records = lab.execs(known.pid)?;
    ensure!(
        records.len() == known.files.len(),
        "{} records of {known:?}: {records:#?}",
        records.len()
    );
    for (exec, (inode, size, ctime, device)) in records.iter().zip(&known.files) {
        let file = FileKey {
            inode: *inode,
            size: *size,
            ctime: *ctime,
            device: *device,
            reserved: 0,
        };
        ensure!(
            exec.record.file == file,
            "{:?} is recorded, {file:?} runs",
            exec.record.file
        );
        let (by, uid) = (exec.record.parent.pid, exec.record.uid);
        ensure!(
            (by, uid) == (parent, 0),
            "executed by {by} of user {uid}, not by {parent}"
        );
    }
    compare(records.last().context("no record")?, &known)
}

/// Compares the last record of a process with the facts about its exec.
fn compare(exec: &ExecReport, known: &Known) -> Result<()> {
    ensure!(
        u64::from(exec.record.links) == known.links,
        "{} links, not {}",
        exec.record.links,
        known.links
    );
    ensure!(
        exec.filename == known.filename,
        "filename {:?}, not {:?}",
        exec.filename,
        known.filename
    );
    ensure!(
        exec.record.argv_total as usize == known.argv_total,
        "{} bytes",
        exec.record.argv_total
    );
    let copied = known.argv_total.min(ARGV_MAX);
    ensure!(
        exec.record.argv_copied as usize == copied,
        "{} bytes copied",
        exec.record.argv_copied
    );
    ensure!(
        exec.is_cut() == (copied < known.argv_total),
        "cut: {}",
        exec.is_cut()
    );
    let whole = if exec.is_cut() {
        exec.argv.len() - 1
    } else {
        known.argv.len()
    };
    ensure!(
        exec.argv.get(..whole) == known.argv.get(..whole),
        "{:?}, not {:?}",
        exec.argv,
        known.argv
    );
    let cut = exec.argv.get(whole).map_or("", String::as_str);
    ensure!(
        known
            .argv
            .get(whole)
            .is_none_or(|argument| argument.starts_with(cut)),
        "{cut:?} at the end"
    );
    Ok(())
}

impl Known {
    fn new(pid: u32, files: &[fs::Metadata], filename: &str, argv: &[&str]) -> Result<Self> {
        let facts = |stat| facts(stat).map(|key| (key.inode, key.size, key.ctime, key.device));
        let links = files.last().context("no file")?.nlink();
        let files = files.iter().map(facts).collect::<Result<_>>()?;
        let mut known = Self {
            pid,
            files,
            links,
            filename: filename.to_owned(),
            argv: Vec::new(),
            argv_total: 0,
        };
        known.see(argv);
        Ok(known)
    }

    fn see(&mut self, argv: &[&str]) {
        self.argv = argv.iter().map(|argument| (*argument).to_owned()).collect();
        self.argv_total = argv.iter().map(|argument| argument.len() + 1).sum();
    }
}

/// Executes a path, which results in running `files` one after the other.
fn by_path(path: &Path, argv: &[&str], files: &[&Path]) -> Result<Known> {
    let stat = |file: &&Path| fs::metadata(file).with_context(|| format!("cannot stat {}", file.display()));
    let stats = files.iter().map(stat).collect::<Result<Vec<_>>>()?;
    let arguments: Vec<_> = argv.iter().map(|argument| (*argument).to_owned()).collect();
    let pid = executed(|| execute(path, &arguments))?;
    Known::new(pid, &stats, text(path)?, argv)
}

fn by_descriptor(file: &File) -> Result<Known> {
    let stat = file.metadata().context("cannot stat")?;
    let pid = executed(|| came_back(fexecve(file.as_fd(), &[c"true"], &environment())))?;
    Known::new(pid, &[stat], &format!("/dev/fd/{}", file.as_raw_fd()), &["true"])
}

/// Runs `execute` in a new process, in which it must succeed, and waits for the end of the process.
fn executed(execute: impl FnOnce() -> Errno) -> Result<u32> {
    let (pid, error) = attempted(execute)?;
    ensure!(error == 0, "the exec failed: {}", Errno::from_raw(error));
    Ok(pid)
}

/// Runs `execute` in a new process and waits for its end. Returns the process, and the error number of the exec, 0 if
/// it succeeded.
fn attempted(execute: impl FnOnce() -> Errno) -> Result<(u32, i32)> {
    let child = fork(Fork::Plain, || CAME_BACK + execute() as i32).context("cannot fork")?;
    let status = waitpid(child, None).context("cannot wait")?;
    let WaitStatus::Exited(_, code) = status else {
        bail!("the program ended with {status:?}");
    };
    let error = if code >= CAME_BACK { code - CAME_BACK } else { 0 };
    Ok((child.as_raw().cast_unsigned(), error))
}

fn execute(path: &Path, argv: &[String]) -> Errno {
    let path = c_string(path.to_str().expect("the tests' own paths"));
    let argv: Vec<_> = argv.iter().map(|argument| c_string(argument)).collect();
    came_back(execve(&path, &argv, &environment()))
}

fn came_back(Err(error): nix::Result<Infallible>) -> Errno {
    error
}

fn environment() -> [CString; 1] {
    [c_string(&format!(
        "PATH={}:/usr/bin:/bin",
        env::temp_dir().display()
    ))]
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("no NUL in these tests")
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("an odd path")
}
