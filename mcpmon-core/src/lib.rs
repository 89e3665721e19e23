//! mcpmon's pure core: what things are ([`model`]), how bytes become messages ([`decode`]) and back
//! ([`rewrite`]), what they look like ([`inspect`]), what holds ([`policy`]), what follows ([`decide`]), and all
//! of it for one transport ([`filter`]).
//!
//! No clock, file, socket, environment, task, log or randomness: every function takes values and `now`.

#![warn(missing_docs)]

pub mod decide;
pub mod decode;
pub mod filter;
pub mod inspect;
pub mod model;
pub mod policy;
pub mod rewrite;
