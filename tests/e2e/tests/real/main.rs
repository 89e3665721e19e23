//! The wrapper between real clients and real servers, and around servers that misbehave. Needs no root.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![cfg(test)]

mod asked;
mod attacks;
mod clients;
mod differentials;
mod first_day;
mod go;
mod hooked;
mod listings;
mod packages;
mod remote;
mod report;
mod sandboxes;
mod scan;
mod shims;
mod tasks;
mod traffic;
