//! Policy bundles: one signed archive with the policy, the suppressions and the known definitions of a fleet.
//!
//! Bytes to a [`VerifiedBundle`], and back. Nothing of a bundle is parsed before its signature was found right, and a
//! bundle in which anything is wrong is refused whole. What the files mean is for `mcpmon-config`; where bundles come from
//! and are kept is for the daemon.

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
