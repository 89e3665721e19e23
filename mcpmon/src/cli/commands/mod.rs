//! One verb per file.

pub mod policy;
