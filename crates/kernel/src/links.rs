//! The links that hold programs in the kernel: any process that may use bpf(2) can detach one, and the owner is not
//! notified.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use super::{
    pinned::{PinError, PinnedSet},
    sys,
};

/// The links that hold the programs in the kernel. Clones share them.
#[derive(Clone, Debug)]
pub struct Links(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    links: Vec<Link>,
    cgroup: File,
    /// The set in which the links are pinned, once they are.
    pinned: OnceLock<PinnedSet>,
}

/// One program with its link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) program: &'static str,
    pub(super) hook: Hook,
    /// The loaded program.
    pub(super) code: OwnedFd,
    pub(super) held: Mutex<OwnedFd>,
}

/// The hook of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// A raw tracepoint, by its name.
    Tracepoint(&'static str),
    /// A hook of the root cgroup, by its number in `enum bpf_attach_type`.
    Cgroup(u32),
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The program is attached.
    Attached,
    /// Another process detached it.
    Detached,
    /// The kernel does not report it.
    Unknown,
}

/// A change that another process made to a link, and that was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The program.
    pub program: &'static str,
    /// The former state.
    pub fault: Fault,
}

/// The fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was detached.
    Detached,
    /// It was no longer pinned.
    Unpinned,
}

/// The reason why a link could not be mended.
#[derive(Debug, thiserror::Error)]
pub enum MendError {
    /// The program cannot be attached.
    #[error("failed to attach `{program}` again")]
    Attach {
        /// The program.
        program: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The link cannot be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
}

impl Links {
    pub(super) fn new(links: Vec<Link>, cgroup: File) -> Self {
        Self(Arc::new(Inner {
            links,
            cgroup,
            pinned: OnceLock::new(),
        }))
    }

    /// Returns each program that is attached to a cgroup, with the state of its link. The link of a tracepoint can only
    /// be ended by the process that holds it.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, LinkState)> {
        let of_cgroup = |link: &&Link| matches!(link.hook, Hook::Cgroup(_));
        let links = self.0.links.iter().filter(of_cgroup);
        links.map(|link| (link.program, link.state()))
    }

    /// Calls `pin` with the descriptor of each link.
    pub(super) fn each<E>(
        &self,
        mut pin: impl FnMut(&'static str, BorrowedFd<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0
            .links
            .iter()
            .try_for_each(|link| pin(link.program, link.held().as_fd()))
    }

    /// Records where the links are pinned.
    pub(super) fn are_pinned_in(&self, set: PinnedSet) {
        drop(self.0.pinned.set(set));
    }

    /// Attaches again what was detached, and pins again what was unpinned.
    pub fn mend(&self) -> Vec<Result<Mended, MendError>> {
        let mend = |link| self.mend_one(link).transpose();
        self.0.links.iter().filter_map(mend).collect()
    }

    fn mend_one(&self, link: &Link) -> Result<Option<Mended>, MendError> {
        let is_detached = matches!(link.hook, Hook::Cgroup(_)) && link.state() == LinkState::Detached;
        let set = self.0.pinned.get();
        let is_unpinned = set.is_some_and(|set| !set.has_link(link.program));
        if !is_detached && !is_unpinned {
            return Ok(None);
        }
        let program = link.program;
        if is_detached {
            let again = link
                .hook
                .attach(link.code.as_fd(), &self.0.cgroup)
                .map_err(|source| MendError::Attach { program, source })?;
            *link.held() = again;
        }
        if let Some(set) = set {
            set.replace_link(program, link.held().as_fd())?;
        }
        let fault = if is_detached {
            Fault::Detached
        } else {
            Fault::Unpinned
        };
        Ok(Some(Mended { program, fault }))
    }
}

impl Hook {
    pub(super) fn attach(self, program: BorrowedFd<'_>, cgroup: &File) -> io::Result<OwnedFd> {
        match self {
            Self::Tracepoint(name) => sys::link_to_tracepoint(program, name),
            Self::Cgroup(number) => sys::link_to_cgroup(program, cgroup.as_fd(), number),
        }
    }
}

impl Link {
    fn state(&self) -> LinkState {
        let path = format!("/proc/self/fdinfo/{}", self.held().as_raw_fd());
        fs::read_to_string(path).map_or(LinkState::Unknown, |text| state(&text))
    }

    fn held(&self) -> MutexGuard<'_, OwnedFd> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the state in the text about a link: a link without a cgroup is detached.
fn state(text: &str) -> LinkState {
    match number(text, "cgroup_id") {
        Some(0) => LinkState::Detached,
        Some(_) if is_cgroup_link(text) => LinkState::Attached,
        Some(_) | None => LinkState::Unknown,
    }
}

fn is_cgroup_link(text: &str) -> bool {
    field(text, "link_type") == Some("cgroup")
}

fn number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.parse().ok()
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(key, _)| *key == name)?;
    Some(value.trim())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// Such a text of Linux 6.18.
    const LINK: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t1057\nlink_type:\tcgroup\nlink_id:\t7\nprog_tag:\ta04f5eef06a7f555\nprog_id:\t42\ncgroup_id:\t1\nattach_type:\t1\n";

    #[test_case(LINK => LinkState::Attached)]
    #[test_case(&LINK.replace("cgroup_id:\t1", "cgroup_id:\t0") => LinkState::Detached)]
    #[test_case(&LINK.replace("link_type:\tcgroup", "link_type:\txdp") => LinkState::Unknown; "of another kind")]
    #[test_case("pos:\t0\n" => LinkState::Unknown; "another file")]
    fn states(text: &str) -> LinkState {
        state(text)
    }
}
