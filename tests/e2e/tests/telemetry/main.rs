//! What leaves the host for monitoring systems, read back from real ones.

#![cfg(test)]

mod metrics;
mod otlp;
