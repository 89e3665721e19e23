//! `mcpmon wrap` changes nothing until it has to intervene. Needs no root.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![cfg(test)]

mod approvals;
mod asked;
mod crossing;
mod ends;
mod faults;
mod files;
mod hooks;
mod isolation;
mod launchers;
mod limits;
mod locked;
mod logs;
mod npm_updates;
mod packages;
mod pipes;
mod policy;
mod privacy;
mod protected;
mod readers;
mod records;
mod refused;
mod rules;
mod sandbox;
mod scan;
mod scan_started;
mod sessions;
mod settings;
mod setup;
mod signals;
mod skills;
mod top;
mod updates;
