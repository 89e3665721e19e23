//! Measurement of the ways between an HTTP client and the far side: the far side, the floor, the ways, and the clients.

mod answer;
mod bare;
mod clock;
mod contender;
mod far_side;
mod measure;
mod round;
mod side;

pub use bare::serve as serve_bare;
pub use contender::{Contender, free};
pub use far_side::{Asked, Reply, Said, Script, serve};
pub use measure::{Request, ask, held, rate, stream, typical};
pub use round::{measure, streams};
pub use side::Side;

/// The number of events of a stream that carry a time stamp.
pub const EVENTS: u32 = 200;
/// The text in front of an event's time stamp.
const STAMP: &str = "left at ";
/// The number of digits of the time stamp.
const DIGITS: usize = 20;

/// Returns the text with an event's time stamp.
#[must_use]
pub fn stamp(moment: u64) -> String {
    format!("{STAMP}{moment:0DIGITS$}")
}
