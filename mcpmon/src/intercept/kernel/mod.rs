//! The kernel sense: load and attach, rings to observations, lists to maps.

pub mod container;
pub mod hash;
pub mod resolve;
