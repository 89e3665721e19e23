//! How a response is cut into pieces.

/// How a response is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not at all: one JSON text.
    Whole,
    /// Server-sent events.
    Events,
    /// A JSON text a line.
    Lines,
}
