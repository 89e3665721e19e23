//! Keys: Ed25519; the private key is PKCS#8 in PEM, as `openssl genpkey -algorithm ed25519` writes it.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

/// The prefix of a public key in text form.
const PREFIX: &str = "ed25519:";
/// Bytes of a public key, and of a seed.
const KEY_BYTES: usize = 32;
/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = 64;
/// DER of a PKCS#8 private key up to its seed (RFC 8410, section 7).
const PKCS8_START: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A public key: `ed25519:` and 32 bytes in base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY_BYTES]);

/// The reason why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not a public key.
    #[error("no public key: expected `ed25519:` and 32 bytes in base64, as `mcpmon bundle keygen` prints it")]
    Public,
    /// The text is not a private key.
    #[error(
        "no Ed25519 private key in PEM: make one with `mcpmon bundle keygen FILE` or `openssl genpkey -algorithm ed25519`"
    )]
    Private,
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    Random,
}

impl PublicKey {
    /// Returns whether `signature` is a signature of `message` by this key.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = text
            .strip_prefix(PREFIX)
            .and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(KeyError::Public)
    }
}

/// A private key, which signs bundles.
pub struct BundleKey(Ed25519KeyPair);

impl BundleKey {
    /// Generates a new key; returns its text in PEM.
    ///
    /// # Errors
    /// Returns an error if the system gives no random bytes.
    pub fn generate() -> Result<String, KeyError> {
        let mut seed = [0; KEY_BYTES];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_unspecified| KeyError::Random)?;
        let der: Vec<u8> = PKCS8_START.into_iter().chain(seed).collect();
        let text = STANDARD.encode(der);
        Ok(format!(
            "-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"
        ))
    }

    /// Reads a key in PEM.
    ///
    /// # Errors
    /// Returns an error if it is not a key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_no_pem| KeyError::Private)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
        pair.map(Self).map_err(|_rejected| KeyError::Private)
    }

    /// Returns its public key.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs `message`.
    pub(crate) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes.copy_from_slice(self.0.sign(message).as_ref());
        bytes
    }
}

impl fmt::Debug for BundleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BundleKey({})", self.public())
    }
}
