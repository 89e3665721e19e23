//! Exports to monitoring systems, read back from real ones.

#![expect(clippy::disallowed_methods, reason = "tests of the system")]
#![cfg(test)]

mod metrics;
mod ocsf;
mod otlp;
mod tls;
