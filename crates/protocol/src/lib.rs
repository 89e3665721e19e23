//! Bytes to messages ([`decode`]) and back ([`rewrite`]), and both with a decision between for one transport ([`filter`]); the APIs of
//! models do all three, a folder for each ([`llm`]).
//!
//! Pure: no clock, file, socket, environment, task, log or randomness.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod decode;
pub mod filter;
pub mod llm;
pub mod rewrite;
