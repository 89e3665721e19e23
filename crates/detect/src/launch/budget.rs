//! Limits of the unwrapping of commands, so that a hostile command costs no more than a long one.

/// The number of levels that may still be unwrapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    shells: u8,
    wrappers: u8,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            shells: 4,
            wrappers: 12,
        }
    }
}

impl Budget {
    /// Returns the budget with one wrapper less; `None` if there is none left.
    pub(super) fn wrapper(self) -> Option<Self> {
        let wrappers = self.wrappers.checked_sub(1)?;
        Some(Self { wrappers, ..self })
    }

    /// Returns the budget with one shell less; `None` if there is none left.
    pub(super) fn shell(self) -> Option<Self> {
        let shells = self.shells.checked_sub(1)?;
        Some(Self { shells, ..self })
    }
}
