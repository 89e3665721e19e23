//! The program: senses that feed the core, a store that keeps what it says, and a command line.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

pub mod app;
pub mod cli;
