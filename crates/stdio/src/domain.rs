//! The Landlock domain that a server starts in: its processes reach into one another, and into no process outside.
//!
//! A process in a domain may trace those of that domain alone, so that it can neither open the descriptors nor read the
//! memory of others through `/proc`, whoever its user is. Every domain has that effect. This one restricts nothing on
//! files; rules on files are to be added to its ruleset.

use std::os::fd::OwnedFd;

use landlock::{
    AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError,
};

/// The right that the domain handles, and grants everywhere: a domain needs one, and takes away this one unless it is
/// handled. Without it no file moves from one directory to another.
const HANDLED: AccessFs = AccessFs::Refer;

/// A domain that a process can enter.
#[derive(Debug)]
pub struct Domain(pub(super) OwnedFd);

/// The reason why there is no domain.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The kernel has none that lets files be moved.
    #[error(
        "this kernel has no Landlock of Linux 5.19 or later, or has it switched off (`lsm=` at boot, a seccomp filter)"
    )]
    Unsupported(#[from] RulesetError),
    /// The system reported a domain and made none.
    #[error("the kernel made no Landlock ruleset")]
    NotMade,
    /// The root directory.
    #[error("the root directory cannot be opened")]
    Root(#[from] PathFdError),
}

impl Domain {
    /// A new one.
    ///
    /// # Errors
    /// [`DomainError`].
    pub fn new() -> Result<Self, DomainError> {
        let everywhere = PathBeneath::new(PathFd::new("/")?, HANDLED);
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(HANDLED)?
            .create()?
            .add_rule(everywhere)?;
        Option::from(ruleset).map(Self).ok_or(DomainError::NotMade)
    }
}
