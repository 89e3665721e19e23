//! What leaves the host for monitoring systems, read back from real ones.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![cfg(test)]

mod metrics;
