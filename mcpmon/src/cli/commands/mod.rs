//! One verb per file.

pub(super) mod connections;
pub(super) mod events;
pub(super) mod execs;
pub(super) mod policy;
pub(super) mod servers;

#[cfg(test)]
mod scene;
