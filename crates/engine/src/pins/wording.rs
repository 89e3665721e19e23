//! Verdicts on pins in words: what differs, and what to do about it.

use mcpmon_model::{ChangeCause, Denial, FileChange, PinPart, PinState, ServerId};

use super::{
    AcceptanceGround, PinMismatch, PinVerdict, UnhashedPart, approval, change::listed, pin_denial, trusting,
};

/// Most changes that are named in a sentence.
const MAX_CAUSES: usize = 4;

/// Returns whether the text of a change says more than that a part changed.
fn is_explained(change: &FileChange) -> bool {
    match change.cause {
        ChangeCause::Tampered
        | ChangeCause::Package
        | ChangeCause::RuntimeReplaced
        | ChangeCause::Runtime
        | ChangeCause::Dependency
        | ChangeCause::OwnSource => true,
        ChangeCause::Unknown => {
            let is_told = [" was edited", " was replaced"]
                .iter()
                .any(|end| change.text.ends_with(end));
            is_told || change.text.contains('→')
        }
        ChangeCause::Launcher => false,
    }
}

impl PinVerdict {
    /// Describes the problem with the server, as a clause without its name.
    pub fn cause(&self) -> String {
        match self.state {
            PinState::Mismatch if self.is_explained() => {
                let reason = format!("it changed since it was pinned: {}", self.causes());
                match &self.installer {
                    Some(installer) => format!("{reason} ({installer})"),
                    None => reason,
                }
            }
            PinState::Mismatch => {
                let parts: Vec<String> = self.mismatches.iter().map(PinMismatch::named).collect();
                format!("its {} changed since it was pinned", parts.join(" and "))
            }
            PinState::NotPinned => "it is not pinned, and auto_trust_first is off".to_owned(),
            PinState::Unknown => "a part of it could not be hashed".to_owned(),
            PinState::Off | PinState::Pinned | PinState::Match => "its pins say so".to_owned(),
        }
    }

    /// Returns the command that accepts `server` as it is, if there is one.
    pub fn remedy(&self, server: &ServerId) -> Option<String> {
        let differs = matches!(
            self.state,
            PinState::NotPinned | PinState::Mismatch | PinState::Unknown
        );
        // A part that could not be hashed cannot be pinned either.
        let is_acceptable = differs && self.unhashed.is_empty() && !self.is_accepted_upgrade();
        is_acceptable.then(|| match self.gravest() {
            Some(FileChange {
                cause: ChangeCause::Tampered,
                ..
            }) => format!(
                "install the package again or remove the server; if you made this change, run `{}`",
                trusting(server)
            ),
            Some(_) | None => trusting(server),
        })
    }

    /// Returns whether the cause of some difference is known.
    fn is_explained(&self) -> bool {
        let mut changes = self.mismatches.iter().flat_map(|mismatch| &mismatch.changes);
        changes.any(is_explained)
    }

    /// Returns the change that a person should know about first.
    pub(crate) fn gravest(&self) -> Option<&FileChange> {
        let changes = self.mismatches.iter().flat_map(|mismatch| &mismatch.changes);
        changes.min_by_key(|change| change.cause)
    }

    /// Lists the changes in words, the gravest first.
    pub(super) fn causes(&self) -> String {
        let mut changes: Vec<&FileChange> = Vec::new();
        for change in self.mismatches.iter().flat_map(|mismatch| &mismatch.changes) {
            if !changes.iter().any(|known| known.text == change.text) {
                changes.push(change);
            }
        }
        changes.sort_by_key(|change| change.cause);
        let texts: Vec<String> = changes.iter().map(|change| change.text.clone()).collect();
        let (first, rest) = texts.split_at(MAX_CAUSES.min(texts.len()));
        match rest.len() {
            0 => first.join("; "),
            more => format!("{}; and {more} more", first.join("; ")),
        }
    }

    /// Returns what to do about changes with a known cause.
    fn advice(&self, server: &ServerId) -> String {
        let trusting = trusting(server);
        match self.gravest().map(|change| change.cause) {
            Some(ChangeCause::Tampered) => format!(
                "this looks like tampering: install the package again, or remove the server; only if you made this \
                 change, run `{trusting}`"
            ),
            Some(ChangeCause::Package) => format!(
                "read what is new in this version, and accept it with `{trusting}`, or install the former version"
            ),
            Some(ChangeCause::Dependency) => format!(
                "the files agree with the records of the package manager; accept them with `{trusting}`"
            ),
            Some(ChangeCause::OwnSource) => format!("accept it with `{trusting}`"),
            Some(
                ChangeCause::Unknown
                | ChangeCause::RuntimeReplaced
                | ChangeCause::Runtime
                | ChangeCause::Launcher,
            )
            | None => approval(server),
        }
    }

    /// Returns the denial that the client of `server` gets.
    pub fn denial(&self, server: &ServerId) -> Denial {
        pin_denial(self.cause(), self.remedy(server))
    }

    /// Returns the reason why `server` was refused or reported, with the remedy; `None` if there is no
    /// problem.
    pub fn reason(&self, server: &ServerId) -> Option<String> {
        if let Some(full) = self.full {
            return Some(format!(
                "{server}: it was not pinned: {full}; forget what is not needed with `mcpmon pins reset`"
            ));
        }
        if self.ended {
            let unhashed: Vec<_> = self.unhashed.iter().map(UnhashedPart::describe).collect();
            return Some(format!(
                "{server}: it ended before its files were compared with their pins ({}); nothing was refused",
                unhashed.join("; ")
            ));
        }
        let ground = self.store.as_ref().map(|new| new.ground);
        if self.is_accepted_upgrade() && ground == Some(AcceptanceGround::NewEnvironment) {
            return Some(format!(
                "{server}: it runs in an environment that was not used before, with code that runs at its start: {}; \
                 everything else is as it was pinned, so it is accepted from now on; if this is not expected, run \
                 `mcpmon pins reset --server {server}`",
                self.causes()
            ));
        }
        if self.is_accepted_upgrade() && ground == Some(AcceptanceGround::Policy) {
            return Some(format!(
                "{server}: {}; the policy accepts such changes (`repin` in `mcp.version_pinning.files`), so it is accepted \
                 from now on; if this is not expected, run `mcpmon pins reset --server {server}`",
                self.causes()
            ));
        }
        if self.is_accepted_upgrade() {
            let mismatches: Vec<_> = self.mismatches.iter().map(PinMismatch::describe).collect();
            return Some(format!(
                "{server}: {}; only root can have changed it, and everything else is as it was pinned, so it is \
                 accepted from now on; if this is not expected, run `mcpmon pins reset --server {server}`",
                mismatches.join("; ")
            ));
        }
        if self.state == PinState::Mismatch && self.unhashed.is_empty() && self.is_explained() {
            return Some(format!("{server}: {}; {}", self.cause(), self.advice(server)));
        }
        let what = match self.state {
            PinState::Off | PinState::Pinned | PinState::Match => return None,
            PinState::NotPinned => "it is not pinned, and auto_trust_first is off".to_owned(),
            PinState::Mismatch | PinState::Unknown => {
                let mismatches = self.mismatches.iter().map(PinMismatch::describe);
                let unhashed = self.unhashed.iter().map(UnhashedPart::describe);
                mismatches.chain(unhashed).collect::<Vec<_>>().join("; ")
            }
        };
        // A part that could not be hashed cannot be pinned either.
        let remedy = if self.unhashed.is_empty() {
            approval(server)
        } else {
            "remove the cause and start it again, or set `mcp.version_pinning.on_change: alert`".to_owned()
        };
        Some(format!("{server}: {what}; {remedy}"))
    }
}

impl PinMismatch {
    /// Names the part, with the first changed files.
    fn named(&self) -> String {
        let part = self.part.as_str();
        match self.changed_files.is_empty() {
            true => part.to_owned(),
            false => format!("{part} ({})", listed(&self.changed_files)),
        }
    }

    fn describe(&self) -> String {
        let explained: Vec<&str> = self
            .changes
            .iter()
            .filter(|change| is_explained(change))
            .map(|change| change.text.as_str())
            .collect();
        if !explained.is_empty() && self.part != PinPart::Executable {
            return explained.join("; ");
        }
        let (part, path) = (self.part.as_str(), self.path.display());
        match (self.expected, self.actual) {
            (Some(_), None) => format!("its pinned {part} {path} is gone"),
            (None, Some(_)) => format!("it has a {part} {path} that is not pinned"),
            (Some(expected), Some(actual)) => {
                format!(
                    "{part} {path} is {}, pinned is {}",
                    actual.short(12),
                    expected.short(12)
                )
            }
            (None, None) => format!("{part} {path} differs from its pin"),
        }
    }
}

impl UnhashedPart {
    fn describe(&self) -> String {
        let (part, path, cause) = (self.part.as_str(), self.path.display(), &self.cause);
        match self.path.as_os_str().is_empty() {
            true => format!("{part} could not be hashed: {cause}"),
            false => format!("{part} {path} could not be hashed: {cause}"),
        }
    }
}
