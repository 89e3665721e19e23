//! Takes kernel programs away from a daemon, or stops one of its threads, as an accident or an intruder could.

use std::{fs, io};

use anyhow::{Context as _, Result};
use nix::{
    libc,
    sys::{
        ptrace,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::wait;

/// Commands of bpf(2).
const LINK_GET_FD_BY_ID: libc::c_long = 30;
const LINK_DETACH: libc::c_long = 34;

/// A hook of cgroups, by its number in `enum bpf_attach_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupHook {
    /// Outgoing packets.
    Egress = 1,
    /// New sockets.
    SocketCreate = 2,
    /// Connections over IPv6.
    Connect6 = 11,
}

/// Detaches every program that the process `pid` has attached to a cgroup, and returns the number of them.
///
/// # Errors
/// Returns an error if `/proc` does not list them, or the kernel refuses.
pub fn detach_cgroup_programs(pid: u32) -> Result<usize> {
    detach(&cgroup_links(pid)?)
}

/// Detaches the program that the process `pid` has attached to one hook of a cgroup.
///
/// # Errors
/// Returns an error if no program is attached there, or the kernel refuses.
pub fn detach_cgroup_program(pid: u32, hook: CgroupHook) -> Result<()> {
    let mut links = cgroup_links(pid)?;
    links.retain(|(_, attached)| *attached == hook as u32);
    anyhow::ensure!(detach(&links)? == 1, "one program is attached to {hook:?}");
    Ok(())
}

fn detach(links: &[(u32, u32)]) -> Result<usize> {
    for (link, _) in links {
        let descriptor = bpf(LINK_GET_FD_BY_ID, *link).with_context(|| format!("cannot open link {link}"))?;
        let outcome = bpf(LINK_DETACH, descriptor);
        nix::unistd::close(descriptor.cast_signed())?;
        outcome.with_context(|| format!("cannot detach link {link}"))?;
    }
    Ok(links.len())
}

/// Returns the numbers of a process's cgroup links, each with the number of its hook.
fn cgroup_links(pid: u32) -> Result<Vec<(u32, u32)>> {
    let mut links = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // The daemon closes descriptors while they are listed.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        if field(&text, "link_type") == Some("cgroup") {
            let link = field(&text, "link_id").context("a link has a number")?.parse()?;
            let hook = field(&text, "attach_type")
                .context("a link has a hook")?
                .parse()?;
            links.push((link, hook));
        }
    }
    Ok(links)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| (key == name).then(|| value.trim()))
}

/// Calls bpf(2) with a command whose attributes begin with one number; all other attributes are zero.
fn bpf(command: libc::c_long, number: u32) -> io::Result<u32> {
    let mut attributes = [0_u32; 4];
    attributes[0] = number;
    #[expect(unsafe_code, reason = "no crate in use knows these commands of bpf(2)")]
    // SAFETY: the kernel reads as many bytes as the size argument says, and the array has that many.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    let Ok(outcome) = u32::try_from(outcome) else {
        return Err(io::Error::last_os_error());
    };
    Ok(outcome)
}

/// A thread that stays stopped until this value is dropped, which the thread that created it must do.
#[derive(Debug)]
pub struct StoppedThread(Pid);

impl StoppedThread {
    /// Stops the thread with this name of the process `pid`, and no other.
    ///
    /// # Errors
    /// Returns an error if there is no such thread, or it cannot be traced.
    pub fn stop(pid: u32, name: &str) -> Result<Self> {
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = entry?.path();
            if fs::read_to_string(path.join("comm"))?.trim_end() != name {
                continue;
            }
            let number = path.file_name().and_then(|number| number.to_str());
            let thread = Pid::from_raw(number.context("a number")?.parse()?);
            ptrace::seize(thread, ptrace::Options::empty())?;
            ptrace::interrupt(thread)?;
            waitpid(thread, Some(WaitPidFlag::__WALL))?;
            return Ok(Self(thread));
        }
        anyhow::bail!("process {pid} has no thread `{name}`")
    }

    /// Waits until the thread, stopped as it is, ends with its process.
    ///
    /// # Errors
    /// Returns an error if the thread does not end.
    pub fn ended(self) -> Result<()> {
        wait::until("the stopped thread's end", || {
            let status = waitpid(self.0, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG))?;
            Ok(matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)).then_some(()))
        })
    }
}

impl Drop for StoppedThread {
    /// Detaches from the thread. It is no failure if the thread has ended already; its end is then collected, because
    /// its process would stay otherwise.
    fn drop(&mut self) {
        if ptrace::detach(self.0, None).is_err() {
            let _status = waitpid(self.0, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG));
        }
    }
}
