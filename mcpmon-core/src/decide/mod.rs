//! What follows: the running servers and their pins, what servers offer and say, and the Monitor every layer asks.

mod definitions;
mod instances;
mod lineage;
mod monitor;
pub mod names;
mod order;
pub mod pins;
mod recognise;
pub mod registry;
mod rulebook;
mod rules;
mod tell;
mod traffic;
mod wording;

pub use monitor::{Monitor, Observation, Running};
pub use order::{Judgement, Order};
pub use recognise::{launch_rules, recognise};
pub use rules::Opinion;
pub use traffic::NotSeen;
