//! The subcommands, one in each file.

mod apply;
pub(super) mod approve;
pub(super) mod bodies;
pub(super) mod bundle;
pub(super) mod callback;
pub(super) mod calls;
pub(super) mod check;
pub(super) mod completions;
pub(super) mod connections;
pub(super) mod daemon;
pub(super) mod detach;
pub(super) mod detections;
pub(super) mod doctor;
pub(super) mod events;
pub(super) mod execs;
pub(super) mod explain;
pub(super) mod held_calls;
pub(super) mod hook;
pub(super) mod inspect;
pub(super) mod kill;
pub(super) mod logs;
pub(super) mod man;
pub(super) mod mcp;
pub(super) mod pins;
pub(super) mod policy;
pub(super) mod proxy;
pub(super) mod registry;
pub(super) mod report;
pub(super) mod run;
mod running;
pub(super) mod scan;
pub(super) mod servers;
pub(super) mod setup;
pub(super) mod shim;
pub(super) mod status;
pub(super) mod top;
pub(super) mod wrap;

#[cfg(test)]
mod scene;
