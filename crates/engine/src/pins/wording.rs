//! Verdicts on pins in words: what differs, and what to do about it.

use mcpmon_model::{Denial, PinState, ServerId};

use super::{PinMismatch, PinVerdict, UnhashedPart, approval, pin_denial, trusting};

/// Most changed files that are named in a sentence.
const NAMED: usize = 3;

impl PinVerdict {
    /// Describes the problem with the server, as a clause without its name.
    pub fn cause(&self) -> String {
        match self.state {
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
        is_acceptable.then(|| trusting(server))
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
        if self.is_accepted_upgrade() {
            let mismatches: Vec<_> = self.mismatches.iter().map(PinMismatch::describe).collect();
            return Some(format!(
                "{server}: {}; only root can have changed it, and everything else is as it was pinned, so it is \
                 accepted from now on; if this is not expected, run `mcpmon pins reset --server {server}`",
                mismatches.join("; ")
            ));
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
        let (first, rest) = self.changed_files.split_at(NAMED.min(self.changed_files.len()));
        match (first, rest.len()) {
            ([], _) => part.to_owned(),
            (files, 0) => format!("{part} ({})", files.join(", ")),
            (files, more) => format!("{part} ({} and {more} more)", files.join(", ")),
        }
    }

    fn describe(&self) -> String {
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
