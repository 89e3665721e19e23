//! Measurement of the ways between an HTTP client and its far side: the far side, the floor, the ways, and
//! the clients.

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

/// Events of a stream that say when they left.
pub const EVENTS: u32 = 200;
/// The text in front of the time at which an event left.
const STAMP: &str = "left at ";
/// Digits of that moment.
const DIGITS: usize = 20;

/// Words that say when an event left.
#[must_use]
pub fn stamp(moment: u64) -> String {
    format!("{STAMP}{moment:0DIGITS$}")
}
