//! Composition root: wires config, senses, core and store together; control socket and self-test.

pub mod approval;
pub(crate) mod clock;
pub mod control;
pub mod daemon;
mod describe;
pub mod doctor;
mod engine;
pub mod executable;
pub mod group;
mod hashing;
mod health;
mod host;
mod inbox;
pub mod inspection;
pub mod kill;
mod names;
pub mod notify;
pub(crate) mod probe;
pub mod profile;
pub mod proxy;
pub mod question;
pub mod run;
pub mod selftest;
pub mod setup;
pub mod status;
pub mod wrap;
pub(crate) mod wrappers;
