//! The user at the other end of a connection, as the kernel reports it.

#![expect(unsafe_code, reason = "no safe wrapper of SO_PEERGROUPS exists")]

use std::{io, os::fd::AsRawFd as _};

use nix::libc::{self, c_int, gid_t, socklen_t};
use tokio::net::UnixStream;

use super::rights::Rank;
use crate::app::owners;

/// Most supplementary groups of a process (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;
/// Usual number of supplementary groups.
const USUAL_GROUPS: usize = 64;

/// The user at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) rank: Rank,
    /// The user to whom the connection is counted.
    pub(crate) owner: u32,
}

impl Peer {
    /// Returns the peer of `stream`; `members` is the group whose members see the whole host.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report it.
    pub(crate) fn new(stream: &UnixStream, members: Option<u32>) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        let uid = credentials.uid();
        let is_member = |group: u32| {
            credentials.gid() == group
                || groups(stream.as_raw_fd()).is_ok_and(|groups| groups.contains(&group))
        };
        let rank = if uid == 0 {
            Rank::Root
        } else if members.is_some_and(is_member) {
            Rank::Member
        } else {
            Rank::User
        };
        Ok(Self {
            uid,
            rank,
            owner: owners::owner(uid),
        })
    }
}

/// Returns the supplementary groups that the peer had when it connected.
fn groups(socket: c_int) -> io::Result<Vec<gid_t>> {
    let mut groups: Vec<gid_t> = vec![0; USUAL_GROUPS];
    loop {
        let size = groups.len() * size_of::<gid_t>();
        let mut length = socklen_t::try_from(size).map_err(io::Error::other)?;
        // SAFETY: `groups` has room for `length` bytes, and the kernel writes at most that many.
        let outcome = unsafe {
            libc::getsockopt(
                socket,
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if outcome == 0 {
            groups.truncate(length as usize / size_of::<gid_t>());
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // The kernel reports the needed size.
        let needed = length as usize / size_of::<gid_t>();
        if error.raw_os_error() != Some(libc::ERANGE) || needed <= groups.len() || needed > MAX_GROUPS {
            return Err(error);
        }
        groups.resize(needed, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_reports_the_groups_of_the_peer() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let own: Vec<u32> = nix::unistd::getgroups()
            .expect("groups")
            .into_iter()
            .map(nix::unistd::Gid::as_raw)
            .collect();
        let mut reported = groups(ours.as_raw_fd()).expect("the kernel reports them");
        let mut own = own;
        own.sort_unstable();
        reported.sort_unstable();
        assert_eq!(reported, own);
    }
}
