//! Strict JSON (RFC 8259) over one line: what every reader understands alike, and as it was written.
//!
//! Readers differ: some take bytes that are no UTF-8, lone surrogates, `NaN`, a carriage return as the end of a
//! line, the first or the last of two members with one name. A text on whose reading they could differ is either
//! refused or rewritten to one that leaves no choice, never passed on as it came.

mod canonical;
mod members;
mod number;
mod scan;
mod string;
#[cfg(test)]
mod tests;

pub use canonical::canonical;
pub use mcpmon_model::{
    is_spelled_like,
    json::{Document, Items, Member, Members, Value, ValueKind},
};
pub use scan::{Doubt, LoneSurrogate, Scan, Scanner, TextForm};
pub use string::quote_into;

/// Deepest nesting that can be allowed: what is deeper other readers in this program refuse.
pub const MAX_DEPTH: usize = 128;

/// The reason why a text is not strict JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{defect} at byte {position}")]
pub struct Malformed {
    /// Offset of the first byte that does not fit.
    pub position: usize,
    /// The defect.
    pub defect: Defect,
}

/// The defects that a text can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// Bytes that are no UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// A byte that cannot stand where it does.
    #[error("unexpected byte 0x{0:02x}")]
    Unexpected(u8),
    /// The text ends inside a value.
    #[error("unexpected end")]
    End,
    /// A control character inside a string.
    #[error("unescaped control character 0x{0:02x} in a string")]
    Control(u8),
    /// A backslash with something after it that JSON does not know.
    #[error("invalid escape")]
    Escape,
    /// Half of a surrogate pair.
    #[error("lone surrogate")]
    Surrogate,
    /// A NUL in the name of a member: some readers end the name there, or read it without.
    #[error("NUL in a member's name")]
    NulInName,
    /// A number that is none in JSON's grammar.
    #[error("invalid number")]
    Number,
    /// A number that no double can hold; readers take it for infinity, or fail.
    #[error("number out of range")]
    Range,
    /// Nested deeper than allowed.
    #[error("nested too deeply")]
    Depth,
    /// Something follows the value.
    #[error("more than one value")]
    Trailing,
    /// Longer than offsets can say.
    #[error("too long")]
    Length,
}
