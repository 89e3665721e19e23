//! mcpmon's pure core: what things are ([`model`]), what they look like ([`inspect`]), what holds
//! ([`policy`]) and what follows ([`decide`]).
//!
//! No clock, file, socket, environment, task, log or randomness: every function takes values and `now`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod decide;
pub mod inspect;
pub mod model;
pub mod policy;
