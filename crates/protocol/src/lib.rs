//! Bytes to messages ([`decode`]) and back ([`rewrite`]), and both with a decision between for one transport ([`filter`]).
//!
//! Pure: no clock, file, socket, environment, task, log or randomness.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod decode;
pub mod filter;
pub mod rewrite;
