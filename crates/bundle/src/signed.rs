//! Signed bundles: an archive whose last entry is a signature over all bytes of the archive without it.
//!
//! The entry has one length and one form, so that it is found and compared without parsing the archive.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use mcpmon_model::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    MAX_BUNDLE_BYTES,
    archive::{Bundle, END_BYTES, header},
    error::BundleError,
    key::{BundleKey, PublicKey, SIGNATURE_BYTES},
    manifest::Manifest,
};

/// The name of the entry.
const SIGNATURE: &str = "signature";
/// The first line of its content.
const TITLE: &str = "mcpmon bundle signature 1";
/// Bytes of a block of an archive.
const BLOCK_BYTES: usize = 512;
/// Bytes of the entry, and of the end of the archive behind it.
const TRAILER_BYTES: usize = 2 * BLOCK_BYTES + END_BYTES;

/// The identity of an accepted bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BundleId {
    /// Its serial.
    pub serial: u64,
    /// The digest of its bytes, signature included.
    pub digest: Digest,
}

/// A bundle whose signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedBundle {
    /// The content.
    pub bundle: Bundle,
    /// The key that signed it.
    pub key: PublicKey,
    /// The digest of its bytes, signature included, as `sha256sum` prints it for the file.
    pub digest: Digest,
}

/// The relation of a bundle to the last accepted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Succession {
    /// It is the same bundle.
    Same,
    /// It is newer, or there was none.
    Newer,
}

/// Signs the archive `unsigned`, as [`Bundle::to_tar`] writes it.
///
/// # Errors
/// Returns an error if it is not a valid bundle.
pub fn sign(unsigned: &[u8], key: &BundleKey) -> Result<Vec<u8>, BundleError> {
    if split(unsigned).is_ok() {
        return Err(BundleError::Signed);
    }
    Bundle::parse(unsigned)?;
    let body = &unsigned[..unsigned.len() - END_BYTES];
    let trailer = trailer(&key.public(), &key.sign(unsigned));
    Ok([body, &trailer].concat())
}

impl VerifiedBundle {
    /// Reads a signed bundle. Nothing of the archive is parsed before the signature is verified.
    ///
    /// # Errors
    /// Returns an error if none of `keys` signed it, or anything in it is invalid.
    pub fn open(bytes: &[u8], keys: &[PublicKey]) -> Result<Self, BundleError> {
        if bytes.len() > MAX_BUNDLE_BYTES {
            return Err(BundleError::TooLarge);
        }
        let (body, key, signature) = split(bytes)?;
        if !keys.contains(&key) {
            return Err(BundleError::UnknownKey { key });
        }
        let unsigned = [body, &[0; END_BYTES]].concat();
        if !key.has_signed(&unsigned, &signature) {
            return Err(BundleError::BadSignature);
        }
        Ok(Self {
            bundle: Bundle::parse(&unsigned)?,
            key,
            digest: Digest::of(bytes),
        })
    }

    /// Returns the manifest.
    pub const fn manifest(&self) -> &Manifest {
        &self.bundle.manifest
    }

    /// Returns its identity.
    pub const fn id(&self) -> BundleId {
        BundleId {
            serial: self.bundle.manifest.serial,
            digest: self.digest,
        }
    }

    /// Checks that the bundle has the name `wanted`, if the host accepts one name only.
    ///
    /// # Errors
    /// Returns an error if it has another name, or none.
    pub fn check_name(&self, wanted: Option<&str>) -> Result<(), BundleError> {
        let found = self.manifest().name.as_deref();
        match wanted {
            Some(wanted) if found != Some(wanted) => Err(BundleError::OtherName {
                found: found.map(str::to_owned),
                wanted: wanted.to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that it may replace the last accepted one.
    ///
    /// # Errors
    /// Returns an error if it is older, or has the same serial and another content.
    pub fn check_serial(&self, last: Option<BundleId>) -> Result<Succession, BundleError> {
        let id = self.id();
        match last {
            Some(last) if id.serial < last.serial => Err(BundleError::Older {
                serial: id.serial,
                last: last.serial,
            }),
            Some(last) if id == last => Ok(Succession::Same),
            Some(last) if id.serial == last.serial => Err(BundleError::SameSerial {
                serial: id.serial,
                last: last.digest,
            }),
            Some(_) | None => Ok(Succession::Newer),
        }
    }

    /// Checks that it is valid at `now`.
    ///
    /// # Errors
    /// Returns an error if it has expired.
    pub fn check_expiry(&self, now: Timestamp) -> Result<(), BundleError> {
        match self.manifest().expires {
            Some(expires) if expires <= now => Err(BundleError::Expired {
                at: expires.to_string(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the signature's entry, and the end of the archive.
pub(crate) fn trailer(key: &PublicKey, signature: &[u8; SIGNATURE_BYTES]) -> Vec<u8> {
    let content = format!("{TITLE}\n{key}\n{}\n", STANDARD.encode(signature));
    let mut trailer = header(SIGNATURE, content.len()).as_bytes().to_vec();
    trailer.extend_from_slice(content.as_bytes());
    trailer.resize(TRAILER_BYTES, 0);
    trailer
}

/// Returns the bytes before the signature's entry, the key that it names, and the signature.
fn split(bytes: &[u8]) -> Result<(&[u8], PublicKey, [u8; SIGNATURE_BYTES]), BundleError> {
    let start = bytes
        .len()
        .checked_sub(TRAILER_BYTES)
        .ok_or(BundleError::Unsigned)?;
    let (body, end) = bytes.split_at(start);
    let parsed = signature(end).ok_or(BundleError::Unsigned)?;
    // The trailer must have this one form: bytes that are not compared here could be an entry for another reader of
    // tar.
    match trailer(&parsed.0, &parsed.1) == end {
        true => Ok((body, parsed.0, parsed.1)),
        false => Err(BundleError::Unsigned),
    }
}

fn signature(trailer: &[u8]) -> Option<(PublicKey, [u8; SIGNATURE_BYTES])> {
    let content = trailer.get(BLOCK_BYTES..2 * BLOCK_BYTES)?;
    let mut lines = std::str::from_utf8(content).ok()?.lines();
    if lines.next()? != TITLE {
        return None;
    }
    let key = lines.next()?.parse().ok()?;
    let signature = STANDARD.decode(lines.next()?).ok()?;
    Some((key, signature.try_into().ok()?))
}
