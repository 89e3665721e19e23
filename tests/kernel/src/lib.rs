//! The parts of the kernel tests: workloads that try every path to an address, the namespaces they run in,
//! and a sensor to try them against. The tests themselves are in `tests/kernel/`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]

pub mod attempt;
pub mod child;
pub mod kernel;
pub mod lab;
pub mod netns;
pub mod probe;
pub mod runner;
pub mod scratch;
pub mod sys;
