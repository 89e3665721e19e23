//! Rules for names of servers that resemble others.

/// The names of servers that are reported as similar to known ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NameSimilarity {
    /// True if the built-in rule applies.
    pub built_in: bool,
    /// The least similarity, from 0 to 1: 1 minus the edit distance by the longer name's length.
    pub ratio: Option<f64>,
}

impl NameSimilarity {
    /// Returns whether names are compared at all.
    pub const fn is_on(&self) -> bool {
        self.built_in || self.ratio.is_some()
    }
}
