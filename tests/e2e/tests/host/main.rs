//! Runs the built program on this host, with real servers, real connections and the real kernel. Needs root.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![cfg(test)]

mod access;
mod answered;
mod asked;
mod bundle;
mod candidates;
mod claimed;
mod contained;
mod crowded;
mod cut;
mod followed;
mod full;
mod gate;
mod health;
mod kept;
mod killed;
mod launches;
mod metrics;
mod network;
mod ocsf;
mod orphans;
mod own_policy;
mod pins;
mod policy;
mod proxied;
mod real;
mod refusals;
mod remote;
mod sandboxed;
mod swaps;
mod tapped;
mod usage;
mod users;
mod ways;
mod wrapped;
