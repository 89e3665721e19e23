//! Network namespaces for tests; nothing here touches the machine's network.

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sched::{CloneFlags, unshare},
    sys::wait::{WaitStatus, waitpid},
    unistd::{getgid, getuid},
};

use crate::sys::{Fork, add_loopback_address, fork, raise_loopback};

/// The namespace that isolates a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// A new network namespace.
    Network,
    /// New user, network, mount and process namespaces, as a sandbox makes them.
    Everything,
}

/// The longest time until an address becomes usable, on a slow emulated machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// IPv6 addresses that every namespace answers on, beside `::1`. All of 127.0.0.0/8 is local anyway.
const ADDRESSES: [Ipv6Addr; 6] = [
    DENIED6,
    ALLOWED6,
    // The NAT64 and 6to4 forms of the IPv4 addresses below.
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0x7f00, 0x0909),
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0x7f00, 0x0809),
    Ipv6Addr::new(0x2002, 0x7f00, 0x0909, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2002, 0x7f00, 0x0809, 0, 0, 0, 0, 1),
];

/// The IPv4 address that tests refuse.
pub const DENIED4: Ipv4Addr = Ipv4Addr::new(127, 0, 9, 9);
/// An IPv4 address outside every range that tests refuse.
pub const ALLOWED4: Ipv4Addr = Ipv4Addr::new(127, 0, 8, 9);
/// The IPv6 address that tests refuse.
pub const DENIED6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 9);
/// An IPv6 address outside every range that tests refuse.
pub const ALLOWED6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x98, 0, 0, 0, 0, 0, 9);

/// Settings of a network namespace: TCP fast open without a cookie on both sides, and ping sockets for root.
const SETTINGS: [(&str, &str); 2] = [
    ("/proc/sys/net/ipv4/tcp_fastopen", "1543"),
    ("/proc/sys/net/ipv4/ping_group_range", "0 0"),
];

/// Moves this process, which must have one thread only, into a new space.
///
/// # Errors
/// Returns an error if the space cannot be made.
pub fn enter(space: Space) -> Result<()> {
    match space {
        Space::Network => unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?,
        Space::Everything => unshare_everything()?,
    }
    raise_loopback().context("cannot raise the loopback interface")?;
    ADDRESSES.into_iter().try_for_each(add_loopback)?;
    SETTINGS
        .into_iter()
        .try_for_each(|(path, value)| fs::write(path, value).with_context(|| format!("cannot write {path}")))
}

/// Adds an address to the loopback interface of the current namespace.
///
/// # Errors
/// Returns an error if the kernel refuses the address.
pub fn add_loopback(address: Ipv6Addr) -> Result<()> {
    add_loopback_address(address).with_context(|| format!("cannot add {address}"))?;
    // A kernel worker makes the address usable a moment later.
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = UdpSocket::bind((address, 0)) {
        ensure!(Instant::now() < deadline, "{address} is not usable: {error}");
        thread::yield_now();
    }
    Ok(())
}

/// Runs `work` as the first process of the process namespace that was made last, and returns its exit status.
#[must_use]
pub fn as_first_process(work: impl FnOnce() -> i32) -> i32 {
    match fork(Fork::Plain, work).and_then(|child| waitpid(child, None)) {
        Ok(WaitStatus::Exited(_, status)) => status,
        _ => 1,
    }
}

fn unshare_everything() -> Result<()> {
    let (user, group) = (getuid(), getgid());
    let all = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID;
    unshare(all).context("cannot make namespaces")?;
    for (path, content) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        fs::write(path, content).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}
