//! Reserved addresses: only root binds a TCP socket to them, in the namespace in which they are reserved.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use anyhow::{Result, ensure};
use mcpmon_common::event::Counter;
use mcpmon_kernel::reserved::ReserveError;
use mcpmon_kernel_tests::{child::Child, lab::Lab, netns::Space};
use nix::{
    errno::Errno,
    sys::prctl,
    unistd::{Uid, setuid},
};

/// A user without a name.
const OTHER: u32 = 61_234;
const REFUSED: i32 = Errno::EPERM as i32;

/// Reserved addresses, and for each the addresses that another user is refused or allowed.
const CASES: [(&str, &[&str], &[&str]); 5] = [
    (
        "127.0.9.9:25311",
        &[
            "127.0.9.9:25311",
            "0.0.0.0:25311",
            "[::]:25311",
            "[::ffff:127.0.9.9]:25311",
        ],
        &["127.0.9.9:25312", "127.0.8.9:25311", "[::1]:25311"],
    ),
    (
        "[::1]:25311",
        &["[::1]:25311", "[::]:25311"],
        &["127.0.9.9:25311", "0.0.0.0:25311", "[::1]:25312"],
    ),
    (
        "0.0.0.0:25311",
        &[
            "127.0.9.9:25311",
            "0.0.0.0:25311",
            "[::]:25311",
            "[::ffff:127.0.9.9]:25311",
        ],
        &["127.0.9.9:25312", "[::1]:25311"],
    ),
    (
        "[::]:25311",
        &["127.0.9.9:25311", "0.0.0.0:25311", "[::]:25311", "[::1]:25311"],
        &["127.0.9.9:25312", "[::1]:0"],
    ),
    ("[::ffff:127.0.9.9]:25311", &["127.0.9.9:25311"], &["[::1]:25311"]),
];

/// The process that binds.
#[derive(Clone, Copy)]
enum Who {
    Root,
    Other,
    /// Another user who is root of a namespace of users.
    RootOfNamespace,
    /// Another user, in another network namespace.
    Elsewhere,
}

/// A reserved address, and every address that would get its connections, is left to root.
pub(crate) fn left_to_root(lab: &mut Lab) -> Result<()> {
    for (reserved, refused, allowed) in CASES {
        if !reserve(lab, &[reserved])? {
            return Ok(());
        }
        let before = lab.count(Counter::BindRefused)?;
        for address in refused {
            for who in [Who::Other, Who::RootOfNamespace] {
                let error = listen(address, who)?;
                ensure!(
                    error == REFUSED,
                    "{address} while {reserved} is reserved: {error}"
                );
            }
            let error = listen(address, Who::Root)?;
            ensure!(
                error == 0,
                "{address} while {reserved} is reserved, for root: {error}"
            );
        }
        let counted = lab.count(Counter::BindRefused)? - before;
        ensure!(
            counted == 2 * refused.len() as u64,
            "{counted} refusals were counted"
        );
        for address in allowed {
            let error = listen(address, Who::Other)?;
            ensure!(error == 0, "{address} while {reserved} is reserved: {error}");
        }
    }
    reserve(lab, &[]).map(drop)
}

/// Other namespaces, other kinds of sockets, and addresses that are reserved no longer, are open to all.
pub(crate) fn no_more_than_that(lab: &mut Lab) -> Result<()> {
    const RESERVED: &str = "127.0.9.9:25311";
    if !reserve(lab, &[RESERVED, "[::1]:25311"])? {
        return Ok(());
    }
    let error = listen(RESERVED, Who::Elsewhere)?;
    ensure!(error == 0, "in another network namespace: {error}");
    let datagrams = as_other(|| code(UdpSocket::bind(RESERVED)))?;
    ensure!(datagrams == 0, "a socket for datagrams: {datagrams}");
    ensure!(
        listen("[::1]:25311", Who::Other)? == REFUSED,
        "the second address is free"
    );
    reserve(lab, &["127.0.8.9:25311"])?;
    for free in [RESERVED, "[::1]:25311"] {
        let error = listen(free, Who::Other)?;
        ensure!(error == 0, "{free} is reserved no longer: {error}");
    }
    reserve(lab, &[])?;
    let error = listen("127.0.8.9:25311", Who::Other)?;
    ensure!(error == 0, "nothing is reserved: {error}");
    Ok(())
}

/// Returns whether this kernel can reserve addresses.
fn reserve(lab: &mut Lab, addresses: &[&str]) -> Result<bool> {
    let addresses: Vec<SocketAddr> = addresses
        .iter()
        .map(|address| address.parse())
        .collect::<Result<_, _>>()?;
    let Some(reserved) = &mut lab.sensor.reserved else {
        lab.lacks("the kernel refuses the programs for bind(2)");
        return Ok(false);
    };
    match reserved.replace(&addresses) {
        Ok(()) => Ok(true),
        Err(ReserveError::Unsupported(_)) if lab.kernel.release < (5, 14) => {
            lab.lacks("this kernel does not name network namespaces; 5.14 does");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Listens at an address in a process of its own, and returns the number of the error, or 0.
fn listen(address: &'static str, who: Who) -> Result<i32> {
    let bind = move || code(TcpListener::bind(address));
    match who {
        Who::Root => Child::start(move |_| Ok(bind()))?.join(),
        Who::Other => as_other(bind),
        Who::RootOfNamespace => Child::start(move |_| {
            become_other()?;
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?;
            std::fs::write("/proc/self/uid_map", format!("0 {OTHER} 1"))?;
            ensure!(Uid::current().is_root(), "not root of the namespace");
            Ok(bind())
        })?
        .join(),
        Who::Elsewhere => Child::start_in(Space::Network, move |_| {
            become_other()?;
            Ok(bind())
        })?
        .join(),
    }
}

fn as_other(work: impl FnOnce() -> i32) -> Result<i32> {
    Child::start(move |_| {
        become_other()?;
        Ok(work())
    })?
    .join()
}

fn become_other() -> Result<()> {
    setuid(Uid::from_raw(OTHER))?;
    // A process that changed its user may not write its own files below /proc otherwise.
    Ok(prctl::set_dumpable(true)?)
}

fn code<T>(result: std::io::Result<T>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap_or(-1))
}
