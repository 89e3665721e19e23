//! Floors: programs that show the minimum cost of anything between a client and a server.

use std::{
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd},
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use anyhow::{Context as _, Result};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{read, write},
};

const BUFFER: usize = 64 * 1024;

fn start(command: &[String]) -> Result<Child> {
    let (program, arguments) = command.split_first().context("a command")?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    child.with_context(|| format!("cannot start {program}"))
}

/// Relays in one thread, which polls both directions.
pub(crate) fn relay(command: &[String]) -> Result<ExitCode> {
    let mut child = start(command)?;
    let mut to_server = child.stdin.take();
    let from_server = child.stdout.take().context("a pipe")?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let mut buffer = vec![0; BUFFER];
    loop {
        let mut ports = vec![PollFd::new(from_server.as_fd(), PollFlags::POLLIN)];
        if to_server.is_some() {
            ports.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        poll(&mut ports, PollTimeout::NONE)?;
        let ready: Vec<bool> = ports.iter().map(|port| port.any().unwrap_or(false)).collect();
        if ready.get(1) == Some(&true)
            && let Some(sink) = &to_server
            && !pass(stdin.as_fd(), sink.as_fd(), &mut buffer)?
        {
            to_server = None;
        }
        if ready.first() == Some(&true) && !pass(from_server.as_fd(), stdout.as_fd(), &mut buffer)? {
            break;
        }
    }
    child.wait()?;
    Ok(ExitCode::SUCCESS)
}

/// Passes on the available bytes, and returns whether there were any.
fn pass(from: BorrowedFd<'_>, to: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<bool> {
    let count = read(from, buffer)?;
    let mut rest = &buffer[..count];
    while !rest.is_empty() {
        let written = write(to, rest)?;
        rest = &rest[written..];
    }
    Ok(count > 0)
}

/// Relays with a thread for each direction.
pub(crate) fn threads(command: &[String]) -> Result<ExitCode> {
    let mut child = start(command)?;
    let mut to_server = child.stdin.take().context("a pipe")?;
    let mut from_server = child.stdout.take().context("a pipe")?;
    thread::spawn(move || -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut buffer)? {
                0 => return Ok(()),
                count => to_server.write_all(&buffer[..count])?,
            }
        }
    });
    let mut buffer = vec![0; BUFFER];
    let mut stdout = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    loop {
        match from_server.read(&mut buffer)? {
            0 => break,
            count => stdout.write_all(&buffer[..count])?,
        }
    }
    child.wait()?;
    Ok(ExitCode::SUCCESS)
}
