//! The kernel sensor: it loads and attaches the programs, converts rings to records, and writes lists to maps.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

pub mod addresses;
pub mod btf;
pub mod cgroup;
pub mod children;
pub mod container;
mod counters;
pub mod dns;
pub mod gate;
pub mod kernel_log;
pub mod layout;
pub mod links;
pub mod notes;
pub mod others;
pub mod pinned;
pub mod preflight;
pub mod processes;
pub mod programs;
pub mod records;
pub mod reserved;
pub mod resolve;
pub mod rings;
pub mod sensor;
mod sensor_error;
pub mod sockets;
pub mod starts;
mod sys;
pub mod tap;
