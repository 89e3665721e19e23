//! The reasons why a bundle is refused.

use mcpmon_model::Digest;

use crate::{
    MAX_BUNDLE_BYTES, MAX_FILE_BYTES,
    key::PublicKey,
    manifest::{FORMAT, MAX_SERIAL},
};

/// The reason why a bundle is refused, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The bundle is larger than the limit.
    #[error("the bundle is too large: it may have {MAX_BUNDLE_BYTES} bytes at most")]
    TooLarge,
    /// The bundle does not end with a signature.
    #[error(
        "there is no signature at its end: it is cut short, no bundle, or was not signed with `mcpmon bundle sign`"
    )]
    Unsigned,
    /// The bundle to be signed has a signature.
    #[error("it is signed already: sign the file that `mcpmon bundle build` wrote")]
    Signed,
    /// The bundle is signed with a key that is not trusted.
    #[error(
        "it is signed with another key, {key}: sign it with the key of this host, or add this one to `policy.bundle` if it is yours"
    )]
    UnknownKey {
        /// The key that the signature names.
        key: PublicKey,
    },
    /// The signature does not match the content.
    #[error(
        "the signature does not fit the content: it was changed after it was signed; fetch or build it anew"
    )]
    BadSignature,
    /// The bytes are not an archive.
    #[error("it is no tar archive: {0}")]
    Archive(String),
    /// An entry of the archive is not a regular file.
    #[error(
        "the entry `{name}` is {kind}: a bundle holds regular files only; build it with `mcpmon bundle build`"
    )]
    NotAFile {
        /// The entry.
        name: String,
        /// The kind, with its article.
        kind: String,
    },
    /// The name of an entry contains a path.
    #[error(
        "the entry `{name}` has a path: the files of a bundle have plain names; build it with `mcpmon bundle build`"
    )]
    Path {
        /// The entry.
        name: String,
    },
    /// The name of an entry is not that of a bundle's file.
    #[error(
        "the entry `{name}` is unknown: a bundle holds `policy.yaml`, `suppressions.yaml` and `pins.yaml`"
    )]
    UnknownEntry {
        /// The entry.
        name: String,
    },
    /// Two entries have the same name.
    #[error("the entry `{name}` is there twice")]
    Twice {
        /// The entry.
        name: String,
    },
    /// A file is larger than the limit.
    #[error("`{name}` is too large: a file of a bundle may have {MAX_FILE_BYTES} bytes at most")]
    FileTooLarge {
        /// The entry.
        name: String,
    },
    /// A file is not text.
    #[error("`{name}` is no UTF-8 text")]
    NotText {
        /// The entry.
        name: String,
    },
    /// A file is missing.
    #[error("`{name}` is missing")]
    Missing {
        /// The entry.
        name: &'static str,
    },
    /// The bundle has a later format.
    #[error("it has the format {format}, and this mcpmon reads {FORMAT}: update mcpmon")]
    Format {
        /// The format.
        format: u64,
    },
    /// The manifest is invalid.
    #[error("manifest.json is wrong: {0}")]
    Manifest(String),
    /// The serial is out of range.
    #[error("the serial {serial} is not from 1 to {MAX_SERIAL}")]
    Serial {
        /// The serial.
        serial: u64,
    },
    /// A file does not match the manifest.
    #[error("`{name}` is not the file that manifest.json names")]
    Digest {
        /// The entry.
        name: String,
    },
    /// The archive is not written in the only allowed form.
    #[error("the archive holds more than its files: build it with `mcpmon bundle build`")]
    NotCanonical,
    /// The bundle has another name than the one that the host accepts.
    #[error("it is the bundle {}, and this host takes `{wanted}` (`policy.bundle.name`)", found.as_ref().map_or_else(|| "without a name".to_owned(), |name| format!("`{name}`")))]
    OtherName {
        /// The name in the manifest.
        found: Option<String>,
        /// The name that the host accepts.
        wanted: String,
    },
    /// The serial is lower than the last one.
    #[error(
        "it has the serial {serial}, and the serial {last} was in force on this host: an older bundle is never taken again; build it anew with a higher serial"
    )]
    Older {
        /// The serial.
        serial: u64,
        /// The highest one that was accepted.
        last: u64,
    },
    /// The accepted bundle has the same serial and another content.
    #[error("it has the serial {serial} of another bundle, {last}: build it anew with a higher serial")]
    SameSerial {
        /// The serial.
        serial: u64,
        /// The digest of the accepted bundle.
        last: Digest,
    },
    /// The bundle has expired.
    #[error("it expired at {at}: build a new one")]
    Expired {
        /// The time, RFC 3339.
        at: String,
    },
}
