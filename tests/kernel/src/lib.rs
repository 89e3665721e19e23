//! The parts of the kernel tests: workloads that try every path to an address, the namespaces that they run in, and the
//! sensor under test. The tests themselves are in `tests/kernel/`.

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
