//! JSON text that was checked and is kept as it came.

/// A JSON value as it was written: valid, and never re-encoded, so that numbers and ids stay exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawJson<'a>(&'a str);

impl<'a> RawJson<'a> {
    /// Wraps text that a strict parser accepted. What is built on it relies on that.
    #[must_use]
    pub const fn trusted(text: &'a str) -> Self {
        Self(text)
    }

    /// The text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}
