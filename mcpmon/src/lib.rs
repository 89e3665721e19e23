//! The agent: senses that feed the core, a store that keeps what it says, and a command line.

pub mod agent;
pub mod cli;
pub mod config;
pub mod intercept;
pub mod record;
