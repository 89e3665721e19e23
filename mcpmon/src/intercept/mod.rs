//! The senses.

pub mod kernel;
