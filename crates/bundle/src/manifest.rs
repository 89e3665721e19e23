//! The manifest: a bundle's description, and the digest of each of its files.

use jiff::Timestamp;
use mcpmon_model::Digest;
use serde::{Deserialize, Serialize};

use crate::{archive::BundleFile, error::BundleError};

/// The format that this program writes and reads.
pub const FORMAT: u64 = 1;
/// Largest serial: every JSON parser represents it exactly.
pub const MAX_SERIAL: u64 = (1 << 53) - 1;
/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The manifest of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format.
    pub format: u64,
    /// The number of the bundle: each new bundle of a fleet has a higher one.
    pub serial: u64,
    /// The name, if a fleet has several series of bundles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The time at which it was built.
    #[serde(with = "rfc3339")]
    pub created: Timestamp,
    /// The time from which on no host accepts the bundle.
    #[serde(default, with = "optional_rfc3339", skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Its files, in the order of the archive.
    pub files: Vec<ManifestFile>,
}

/// A file in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestFile {
    /// The name.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
    /// The digest of the content.
    pub sha256: Digest,
}

/// Returns whether `name` is valid as the name of a bundle.
pub fn is_bundle_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
}

impl Manifest {
    /// Returns its JSON text.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a manifest is plain JSON");
        text.push(b'\n');
        text
    }

    /// Reads and checks a manifest.
    pub(crate) fn parse(text: &str) -> Result<Self, BundleError> {
        #[derive(Deserialize)]
        struct Version {
            format: u64,
        }
        let wrong = |error: serde_json::Error| BundleError::Manifest(error.to_string());
        // The format is checked first: another format would only give unknown fields.
        let Version { format } = serde_json::from_str(text).map_err(wrong)?;
        if format != FORMAT {
            return Err(BundleError::Format { format });
        }
        let manifest: Self = serde_json::from_str(text).map_err(wrong)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks what the types do not express.
    pub(crate) fn check(&self) -> Result<(), BundleError> {
        if !(1..=MAX_SERIAL).contains(&self.serial) {
            return Err(BundleError::Serial { serial: self.serial });
        }
        if self.name.as_deref().is_some_and(|name| !is_bundle_name(name)) {
            let message = "`name` has letters, digits, `.`, `_` and `-`, 64 at most";
            return Err(BundleError::Manifest(message.to_owned()));
        }
        Ok(())
    }

    /// Checks that the manifest names these files and no others, in this order.
    pub(crate) fn check_files(&self, files: &[(BundleFile, String)]) -> Result<(), BundleError> {
        for (file, text) in files {
            let named = self.files.iter().find(|named| named.name == file.name());
            let is_same = named.is_some_and(|named| {
                named.size == text.len() as u64 && named.sha256 == Digest::of(text.as_bytes())
            });
            if !is_same {
                return Err(BundleError::Digest {
                    name: file.name().to_owned(),
                });
            }
        }
        let names = files.iter().map(|(file, _)| file.name());
        if !names.eq(self.files.iter().map(|named| named.name.as_str())) {
            let message = "`files` names others than those of the archive";
            return Err(BundleError::Manifest(message.to_owned()));
        }
        Ok(())
    }
}

/// Serialisation of times as text.
mod rfc3339 {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Serialisation of optional times as text.
mod optional_rfc3339 {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    #[expect(clippy::ref_option, reason = "serde gives it so")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(time),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let time = text.map(|text| text.parse().map_err(de::Error::custom));
        time.transpose()
    }
}
