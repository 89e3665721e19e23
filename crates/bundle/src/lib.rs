//! Policy bundles: one signed archive with the policy, the suppressions and the known definitions of a fleet.
//!
//! Parses and verifies bundles ([`VerifiedBundle`]), and writes and signs them ([`sign`]). No entry is parsed before
//! the signature is verified, and a bundle with any mistake is refused as a whole. `mcpmon-config` compiles the files;
//! the daemon fetches and keeps bundles.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod archive;
mod error;
mod key;
mod manifest;
mod signed;

#[cfg(test)]
mod tests;

pub use self::{
    archive::{Bundle, BundleFile},
    error::BundleError,
    key::{BundleKey, KeyError, PublicKey},
    manifest::{FORMAT, MAX_SERIAL, Manifest, ManifestFile, is_bundle_name},
    signed::{BundleId, Succession, VerifiedBundle, sign},
};

/// Largest bundle, in bytes.
pub const MAX_BUNDLE_BYTES: usize = 4 << 20;
/// Largest file in a bundle, in bytes: that of a configuration file.
pub const MAX_FILE_BYTES: usize = 1 << 20;
