//! The engine: a Monitor that turns observations into judgements, with the running servers, their pins and their
//! definitions.
//!
//! The crate is pure: it uses no clock, file, socket, environment, task, log or randomness.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod apps;
mod candidates;
mod chain;
mod checked;
pub mod cross_server;
mod definitions;
mod effect;
mod gated;
mod installers;
mod instances;
mod lineage;
mod loaders;
mod monitor;
pub mod names;
mod own_names;
pub mod pins;
mod rate_limit;
mod recognise;
mod refused;
pub mod registry;
mod rulebook;
mod rules;
pub mod sandbox;
mod skills;
mod tell;
mod traffic;
mod ways;
mod wording;

pub use admission::{admission, admission_named};
pub use candidates::CandidateName;
pub use checked::CheckedProgram;
pub use effect::{
    ConnectionCut, FileWatch, Judgement, KernelEffect, SharedOutcome, SharedQuestion, StoreEffect,
};
pub use gated::{GatedName, GatedPart};
pub use monitor::{
    Former, Monitor, MonitoredServer, Observation, ProxiedSession, ServerClient, StartNames, all_of,
    refused_by_now,
};
pub use own_names::{OwnNames, id, permitting_id, plain_id, script_name};
pub use recognise::{launch_rules, pin_name, recognise, recognise_linked};
pub use rules::{About, BESIDE, Opinion, guide, suppressible};
pub use tell::{proxied, runs_on};
pub use traffic::{NotSeen, SessionPeers, Tally, file_lookups};
