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
    code: OwnedFd,
    held: Mutex<Attachment>,
}

/// The attachment of a program. It is detached while nothing needs it.
#[derive(Debug)]
struct Attachment {
    link: Option<OwnedFd>,
    needs: u32,
    /// The link could not be pinned, so what is pinned, if anything, is an earlier one.
    is_unpinned: bool,
}

/// The hook of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// A raw tracepoint, by its name.
    Tracepoint(&'static str),
    /// A hook of the root cgroup, by its number in `enum bpf_attach_type`.
    Cgroup(u32),
    /// A hook of BPF LSM, by its name.
    Security(&'static str),
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
    /// The kernel refused to attach it; [`Links::mend`] tries again.
    NotAttached,
    /// It is detached because nothing needs it.
    NotNeeded,
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
    /// Another process detached it.
    Detached,
    /// The kernel had refused to attach it.
    NotAttached,
    /// It was no longer pinned.
    Unpinned,
    /// It could not be pinned before.
    NotPinned,
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

    /// Returns each program of a cgroup, with the state of its link. The link of a tracepoint can only be ended by the
    /// process that holds it.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, LinkState)> {
        let of_cgroup = |link: &&Link| matches!(link.hook, Hook::Cgroup(_));
        let links = self.0.links.iter().filter(of_cgroup);
        links.map(|link| (link.program, link.held().state()))
    }

    /// Attaches `program` until [`Links::release`] was called as often as this. If the kernel refuses, each
    /// [`Links::mend`] tries again, and returns the error. A program that the kernel did not load is none of the links.
    pub fn require(&self, program: &str) {
        let Some(link) = self.find(program) else { return };
        let mut held = link.held();
        held.needs += 1;
        if held.link.is_none()
            && let Err(error) = self.attach(link, &mut held)
        {
            tracing::warn!(program, %error, "a kernel program could not be attached");
        }
    }

    /// Ends a need for `program`, and detaches it after the last one.
    ///
    /// # Errors
    /// Returns an error if the pinned link cannot be removed: the program stays attached.
    pub fn release(&self, program: &str) -> Result<(), PinError> {
        let Some(link) = self.find(program) else {
            return Ok(());
        };
        let mut held = link.held();
        held.needs = held.needs.saturating_sub(1);
        if held.needs == 0 {
            if let Some(set) = self.0.pinned.get() {
                set.remove_link(link.program)?;
            }
            held.link = None;
            held.is_unpinned = false;
        }
        Ok(())
    }

    /// Returns whether something needs `program`.
    pub(super) fn is_required(&self, program: &str) -> bool {
        self.find(program).is_some_and(|link| link.held().needs > 0)
    }

    fn find(&self, program: &str) -> Option<&Link> {
        self.0.links.iter().find(|link| link.program == program)
    }

    /// Attaches a program, and pins the link if links are pinned.
    fn attach(&self, link: &Link, held: &mut Attachment) -> Result<(), MendError> {
        let program = link.program;
        let attached = link
            .hook
            .attach(link.code.as_fd(), &self.0.cgroup)
            .map_err(|source| MendError::Attach { program, source })?;
        held.link = Some(attached);
        self.pin(program, held)
    }

    /// Pins the link of a program, if links are pinned.
    fn pin(&self, program: &str, held: &mut Attachment) -> Result<(), MendError> {
        if let (Some(set), Some(link)) = (self.0.pinned.get(), &held.link) {
            held.is_unpinned = true;
            set.replace_link(program, link.as_fd())?;
            held.is_unpinned = false;
        }
        Ok(())
    }

    /// Calls `pin` with the descriptor of each link that is attached.
    pub(super) fn each<E>(
        &self,
        mut pin: impl FnMut(&'static str, BorrowedFd<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.links.iter().try_for_each(|link| match &link.held().link {
            Some(held) => pin(link.program, held.as_fd()),
            None => Ok(()),
        })
    }

    /// Records where the links are pinned.
    pub(super) fn are_pinned_in(&self, set: PinnedSet) {
        drop(self.0.pinned.set(set));
    }

    /// Attaches again what was detached, and pins again what was unpinned. For a program that is attached again and
    /// cannot be pinned both are returned; the next call pins it.
    pub fn mend(&self) -> Vec<Result<Mended, MendError>> {
        self.0.links.iter().flat_map(|link| self.mend_one(link)).collect()
    }

    fn mend_one(&self, link: &Link) -> Vec<Result<Mended, MendError>> {
        let mut held = link.held();
        let program = link.program;
        let Some(fault) = self.fault(link, &held) else {
            return Vec::new();
        };
        let outcome = match fault {
            Fault::Detached | Fault::NotAttached => self.attach(link, &mut held),
            Fault::Unpinned | Fault::NotPinned => self.pin(program, &mut held),
        };
        let is_mended = match fault {
            Fault::Detached | Fault::NotAttached => !matches!(outcome, Err(MendError::Attach { .. })),
            Fault::Unpinned | Fault::NotPinned => outcome.is_ok(),
        };
        let mended = is_mended.then_some(Ok(Mended { program, fault }));
        mended.into_iter().chain(outcome.err().map(Err)).collect()
    }

    /// Returns the fault of a link; `None` if it has none, or nothing needs it.
    fn fault(&self, link: &Link, held: &Attachment) -> Option<Fault> {
        if held.needs == 0 {
            return None;
        }
        match (link.hook, &held.link) {
            (_, None) => return Some(Fault::NotAttached),
            (Hook::Cgroup(_), Some(_)) if held.state() == LinkState::Detached => {
                return Some(Fault::Detached);
            }
            (Hook::Cgroup(_) | Hook::Tracepoint(_) | Hook::Security(_), Some(_)) => {}
        }
        let set = self.0.pinned.get()?;
        if held.is_unpinned {
            return Some(Fault::NotPinned);
        }
        (!set.has_link(link.program)).then_some(Fault::Unpinned)
    }
}

impl Hook {
    pub(super) fn attach(self, program: BorrowedFd<'_>, cgroup: &File) -> io::Result<OwnedFd> {
        match self {
            Self::Tracepoint(name) => sys::link_to_tracepoint(program, Some(name)),
            // The program itself says which hook.
            Self::Security(_) => sys::link_to_tracepoint(program, None),
            Self::Cgroup(number) => sys::link_to_cgroup(program, cgroup.as_fd(), number),
        }
    }
}

impl Link {
    /// Returns an attached program.
    pub(super) const fn attached(program: &'static str, hook: Hook, code: OwnedFd, link: OwnedFd) -> Self {
        Self::new(program, hook, code, Some(link))
    }

    /// Returns a loaded program that is attached when something needs it.
    pub(super) const fn detached(program: &'static str, hook: Hook, code: OwnedFd) -> Self {
        Self::new(program, hook, code, None)
    }

    const fn new(program: &'static str, hook: Hook, code: OwnedFd, link: Option<OwnedFd>) -> Self {
        let needs = link.is_some() as u32;
        Self {
            program,
            hook,
            code,
            held: Mutex::new(Attachment {
                link,
                needs,
                is_unpinned: false,
            }),
        }
    }

    fn held(&self) -> MutexGuard<'_, Attachment> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attachment {
    fn state(&self) -> LinkState {
        match &self.link {
            Some(link) => {
                let path = format!("/proc/self/fdinfo/{}", link.as_raw_fd());
                fs::read_to_string(path).map_or(LinkState::Unknown, |text| state(&text))
            }
            None if self.needs > 0 => LinkState::NotAttached,
            None => LinkState::NotNeeded,
        }
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
