//! Signatures of posts, according to the Standard Webhooks specification: HMAC-SHA256 over id, time and body.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

use crate::bodies::{self, KeyError};

/// Header with the id of the event, the same however often it is posted.
pub(super) const ID: &str = "webhook-id";
/// Header with the time of the post, seconds since the epoch.
pub(super) const TIMESTAMP: &str = "webhook-timestamp";
/// Header with the signature.
pub(super) const SIGNATURE: &str = "webhook-signature";

/// Version of the scheme, before a signature.
const VERSION: &str = "v1,";
/// Most signatures of one post that are checked: for example of an old key and a new one.
const MAX_SIGNATURES: usize = 4;

/// A key with which posts are signed.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    /// Reads the key in the file at `path`.
    ///
    /// # Errors
    /// Returns an error if others can read the file, or it contains no key.
    pub fn at(path: &Path) -> Result<Self, KeyError> {
        bodies::secret(path).map(|secret| Self::new(&secret))
    }

    /// Creates a key from these bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns the value of the signature header for a body posted at `seconds`.
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let signed = signed(id, seconds, body);
        format!("{VERSION}{}", STANDARD.encode(hmac::sign(&self.0, &signed)))
    }

    /// Returns whether one of the signatures in the header is that of a body posted at `seconds`, in a time that does
    /// not depend on the position of a difference.
    #[must_use]
    pub fn verify(&self, id: &str, seconds: i64, body: &[u8], header: &str) -> bool {
        let signed = signed(id, seconds, body);
        let signatures = header.split(' ').take(MAX_SIGNATURES);
        let mut tags = signatures.filter_map(|text| STANDARD.decode(text.strip_prefix(VERSION)?).ok());
        tags.any(|tag| hmac::verify(&self.0, &signed, &tag).is_ok())
    }
}

fn signed(id: &str, seconds: i64, body: &[u8]) -> Vec<u8> {
    let mut signed = format!("{id}.{seconds}.").into_bytes();
    signed.extend_from_slice(body);
    signed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The example in the specification's reference libraries.
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = SigningKey::new(&secret).sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let is_valid = |body: &[u8]| {
            SigningKey::new(&secret).verify("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body, &signature)
        };
        assert!(is_valid(br#"{"test": 2432232314}"#));
        assert!(!is_valid(br#"{"test": 2432232315}"#));
    }
}
