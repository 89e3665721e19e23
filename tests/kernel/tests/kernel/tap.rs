//! The tap: it records the bytes that a process reads and writes by any call, through pipes and sockets, and counts
//! lost bytes.

use std::{
    fs::File,
    io::{IoSlice, IoSliceMut, Read as _, Write as _},
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use mcpmon_common::tap::TAP_SHARE;
use mcpmon_kernel::tap::{self, StandardStreams, StreamKind, TapRing, TapSide, TappedProcesses};
use mcpmon_kernel_tests::{
    child::Child,
    lab::Lab,
    sys::{Fork, fork},
};
use nix::{
    sys::{
        memfd::{MFdFlags, memfd_create},
        signal::{Signal, kill},
        socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair},
        stat::fstat,
        uio::{readv, writev},
        wait::waitpid,
    },
    unistd::{dup2_stdin, dup2_stdout, pause, pipe, read, write},
};

const INSTANCE: u32 = 7;
const OWNER: u32 = 1000;
/// Processes in excess of their user's share.
const BEYOND: u64 = 3;
/// More than a pipe holds, more than one record takes, and more than all small records of one call take.
const LARGE: usize = 300_000;
const FLOODS: usize = 24;
const FLOOD: usize = 1 << 20;

/// The transport of the workload's standard streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Pipes,
    Sockets,
}

/// Both ends of a stream: the reader's and the writer's.
type Ends = (OwnedFd, OwnedFd);

impl Transport {
    fn ends(self) -> Result<Ends> {
        let ends = match self {
            Self::Pipes => pipe(),
            Self::Sockets => socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::empty()),
        };
        ends.context("cannot make a stream")
    }
}

/// A tap, and the workload that it records.
struct Tapped {
    ring: TapRing,
    processes: TappedProcesses,
    child: Child<()>,
    input: File,
    output: JoinHandle<Result<Vec<u8>>>,
}

/// The recorded bytes of the workload by direction, and the number of lost ones.
#[derive(Debug, Default, PartialEq, Eq)]
struct Copies {
    input: Vec<u8>,
    output: Vec<u8>,
    lost: u64,
}

impl Tapped {
    /// Starts `work` with its standard streams, and taps it before it begins.
    fn start(transport: Transport, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let (stdin, input) = transport.ends()?;
        let (output, stdout) = transport.ends()?;
        let mut ours = Some((input, output));
        let parents_ends = &mut ours;
        let mut theirs = Some((stdin, stdout));
        let workloads_ends = &mut theirs;
        let mut child = Child::start(move |test| {
            drop(parents_ends.take());
            let (stdin, stdout) = workloads_ends.take().context("taken once")?;
            dup2_stdin(&stdin)?;
            dup2_stdout(&stdout)?;
            drop((stdin, stdout));
            test.say(&())?;
            test.wait()?;
            work()
        })?;
        drop(theirs);
        let (input, output) = ours.context("taken by the child only")?;
        child.hear::<()>()?;
        let (ring, processes) = tap::start()?;
        let streams = StandardStreams::of(child.pid()).context("the workload has no streams")?;
        processes.tap(INSTANCE, OWNER, streams, &[child.pid()])?;
        let output = thread::spawn(move || {
            let mut all = Vec::new();
            File::from(output).read_to_end(&mut all)?;
            Ok(all)
        });
        child.proceed()?;
        Ok(Self {
            ring,
            processes,
            child,
            input: File::from(input),
            output,
        })
    }
}

/// Takes the records out of the ring.
fn copies(ring: &mut TapRing) -> Copies {
    let mut copies = Copies::default();
    while !ring.drain(1000, |part| {
        match part.side {
            TapSide::Input => copies.input.extend_from_slice(part.bytes),
            TapSide::Output => copies.output.extend_from_slice(part.bytes),
        }
        copies.lost = part.lost;
    }) {}
    copies
}

/// Reads and writes by each call, echoing what was read, and writes some more.
fn every_call(transport: Transport) -> Result<()> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let mut buffer = vec![0; LARGE];
    let mut all = Vec::new();
    let length = read(&stdin, &mut buffer[..10])?;
    all.extend_from_slice(&buffer[..length]);
    let (mut first, mut second, mut third) = ([0; 3], [0; 0], [0; 9]);
    let mut parts = [&mut first[..], &mut second, &mut third].map(IoSliceMut::new);
    let length = readv(&stdin, &mut parts)?;
    all.extend_from_slice(&[&first[..], &third].concat()[..length]);
    if transport == Transport::Sockets {
        recv(stdin.as_raw_fd(), &mut buffer[..20], MsgFlags::MSG_PEEK)?;
        let length = recv(stdin.as_raw_fd(), &mut buffer[..20], MsgFlags::empty())?;
        all.extend_from_slice(&buffer[..length]);
    }
    loop {
        match read(&stdin, &mut buffer)? {
            0 => break,
            length => all.extend_from_slice(&buffer[..length]),
        }
    }
    write(&stdout, &all[..5])?;
    let parts = [&all[5..6], &[], &all[6..40], &all[40..]].map(IoSlice::new);
    let mut sent = writev(&stdout, &parts)? + 5;
    while sent < all.len() {
        sent += write(&stdout, &all[sent..])?;
    }
    if transport == Transport::Sockets {
        send(stdout.as_raw_fd(), b"sent\n", MsgFlags::empty())?;
    }
    // Other pipes and sockets of the same process are not the server's messages.
    let (_other, elsewhere) = transport.ends()?;
    write(&elsewhere, b"elsewhere\n")?;
    let child = fork(Fork::Plain, || {
        let Ok((_other, own)) = transport.ends() else {
            return 1;
        };
        let written = write(&own, b"of the child's own\n").and_then(|_| write(std::io::stdout(), b"child\n"));
        i32::from(written.is_err())
    })?;
    waitpid(child, None)?;
    Ok(())
}

fn copied(transport: Transport) -> Result<()> {
    let mut tapped = Tapped::start(transport, move || every_call(transport))?;
    let sent: Vec<u8> = (0..LARGE).map(|at| b'a' + (at % 23) as u8).collect();
    tapped.input.write_all(&sent)?;
    drop(tapped.input);
    tapped.child.join()?;
    let output = tapped
        .output
        .join()
        .map_err(|_panic| anyhow!("the reader died"))??;
    let copies = copies(&mut tapped.ring);
    ensure!(
        copies.input == sent,
        "{} bytes of {LARGE} that were read came, or others",
        copies.input.len()
    );
    ensure!(
        copies.output == output,
        "{} bytes of {} that were written came, or others",
        copies.output.len(),
        output.len()
    );
    ensure!(output.ends_with(b"child\n"), "the child wrote nothing");
    ensure!(copies.lost == 0, "{} bytes were lost", copies.lost);
    for (side, bytes) in [(TapSide::Input, sent.len()), (TapSide::Output, output.len())] {
        let counted = tapped.processes.counted(INSTANCE, side);
        ensure!(counted == (bytes as u64, 0), "{side:?}: {counted:?} were counted");
    }
    ensure!(tapped.ring.malformed() == 0, "a record could not be read");
    Ok(())
}

pub(crate) fn pipes(_lab: &mut Lab) -> Result<()> {
    copied(Transport::Pipes)
}

pub(crate) fn sockets(_lab: &mut Lab) -> Result<()> {
    copied(Transport::Sockets)
}

/// More data than the ring holds without a reader: the counts are right, and later records say how much is missing.
pub(crate) fn flood(_lab: &mut Lab) -> Result<()> {
    too_much()?;
    too_many()
}

fn too_much() -> Result<()> {
    let mut tapped = Tapped::start(Transport::Pipes, || {
        let block = vec![b'x'; FLOOD];
        for _ in 0..FLOODS {
            std::io::stdout().write_all(&block)?;
        }
        std::io::stdout().flush()?;
        read(std::io::stdin(), &mut [0])?;
        write(std::io::stdout(), b"after\n")?;
        Ok(())
    })?;
    let all = (FLOODS * FLOOD) as u64;
    while tapped.processes.counted(INSTANCE, TapSide::Output).0 < all {
        thread::yield_now();
    }
    let (bytes, lost) = tapped.processes.counted(INSTANCE, TapSide::Output);
    let early = copies(&mut tapped.ring);
    ensure!(bytes == all, "{bytes} bytes were counted");
    ensure!(lost > 0, "the ring held everything: this is no flood");
    ensure!(
        early.output.len() as u64 + lost == all,
        "{lost} bytes lost, and yet {} came",
        early.output.len()
    );
    tapped.input.write_all(b"!")?;
    tapped.child.join()?;
    let late = copies(&mut tapped.ring);
    ensure!(
        (late.output.as_slice(), late.lost, late.input.as_slice()) == (&b"after\n"[..], lost, &b"!"[..]),
        "after the flood came {late:?}"
    );
    Ok(())
}

/// One user's servers start more processes than the user's share: the excess processes are not tapped and are counted,
/// and a process that ends frees its place.
fn too_many() -> Result<()> {
    let mut tapped = Tapped::start(Transport::Pipes, || {
        let mut crowd = Vec::new();
        for _ in 0..TAP_SHARE + BEYOND {
            crowd.push(fork(Fork::Plain, || {
                pause();
                0
            })?);
        }
        let last = write(std::io::stdout(), b"all\n");
        read(std::io::stdin(), &mut [0])?;
        for pid in crowd {
            kill(pid, Signal::SIGKILL)?;
            waitpid(pid, None)?;
        }
        last?;
        let late = fork(Fork::Plain, || {
            i32::from(write(std::io::stdout(), b"late\n").is_err())
        })?;
        waitpid(late, None)?;
        Ok(())
    })?;
    while tapped.processes.counted(INSTANCE, TapSide::Output).0 < 4 {
        thread::yield_now();
    }
    let left_out = tapped.processes.left_out(INSTANCE);
    tapped.input.write_all(b"!")?;
    tapped.child.join()?;
    ensure!(
        left_out == BEYOND,
        "{left_out} were left out of {BEYOND} too many"
    );
    let copies = copies(&mut tapped.ring);
    ensure!(copies.output == b"all\nlate\n", "{copies:?} came");
    ensure!(
        tapped.processes.left_out(INSTANCE) == BEYOND,
        "one was left out though all others had ended"
    );
    Ok(())
}

/// A file on another file system with the inode number of a tapped pipe is not taken for the pipe.
fn namesakes() -> Result<()> {
    let file = memfd_create(c"namesake", MFdFlags::MFD_CLOEXEC)?;
    let inode = fstat(&file)?.st_ino;
    let mut tapped = Tapped::start(Transport::Pipes, move || {
        read(std::io::stdin(), &mut [0])?;
        write(&file, b"a file's\n")?;
        write(std::io::stdout(), b"a pipe's\n")?;
        Ok(())
    })?;
    let streams = StandardStreams::new(StreamKind::Pipe, inode, inode).context("no pipe can be made")?;
    let pid = tapped.child.pid();
    tapped.processes.tap(INSTANCE, OWNER, streams, &[pid])?;
    tapped.input.write_all(b"!")?;
    tapped.child.join()?;
    let copies = copies(&mut tapped.ring);
    ensure!(copies == Copies::default(), "{copies:?} came of a file");
    Ok(())
}

/// Other processes are not tapped, nor is a released one, and nothing is attached once the ring is gone.
pub(crate) fn others(_lab: &mut Lab) -> Result<()> {
    namesakes()?;
    let mut tapped = Tapped::start(Transport::Pipes, || {
        for _ in 0..3 {
            read(std::io::stdin(), &mut [0])?;
        }
        Ok(())
    })?;
    let own = tapped.input.as_fd().try_clone_to_owned()?;
    write(&own, b"1")?;
    while tapped.processes.counted(INSTANCE, TapSide::Input).0 < 1 {
        thread::yield_now();
    }
    let streams = StandardStreams::of(tapped.child.pid()).context("the workload has no streams")?;
    tapped.processes.release(INSTANCE);
    write(&own, b"2")?;
    // The workload reads the third byte after the second one.
    let other = Tapped::start(Transport::Pipes, || Ok(()))?;
    other.child.join()?;
    let copies = copies(&mut tapped.ring);
    ensure!(copies.input == b"1", "{copies:?} came");
    ensure!(
        copies.output.is_empty(),
        "what a test wrote was taken: {copies:?}"
    );
    tapped
        .processes
        .tap(INSTANCE, OWNER, streams, &[tapped.child.pid()])?;
    drop(tapped.ring);
    write(&own, b"3")?;
    tapped.child.join()?;
    let counted = tapped.processes.counted(INSTANCE, TapSide::Input);
    ensure!(
        counted == (0, 0),
        "{counted:?} were counted by programs that are gone"
    );
    Ok(())
}
