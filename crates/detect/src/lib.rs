//! Findings in texts, arguments, names and launches; knows no policy and no registry.
//!
//! Pure: no clock, file, socket, environment, task, log or randomness.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agents;
pub mod arguments;
pub mod category;
pub mod fingerprint;
pub mod instructions;
pub mod inventory;
pub mod labels;
pub mod launch;
pub mod mask;
pub mod meaning;
pub mod protected_paths;
pub mod scan;
pub mod secrets;
pub mod session;
pub mod similarity;
pub mod starter;
pub mod tool_names;

mod minima;
mod normalise;
mod shell;
mod tables;
mod walk;
