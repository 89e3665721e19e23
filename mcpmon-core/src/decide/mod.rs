//! What follows: the running servers, their pins, and the Monitor every layer asks.

mod instances;
mod lineage;
mod monitor;
mod order;
pub mod pins;
mod rulebook;
mod tell;

pub use monitor::{Monitor, Running};
pub use order::{Judgement, Order};
