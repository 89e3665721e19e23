//! Signatures of posts, as the Standard Webhooks specification has them: HMAC-SHA256 over id, time and body.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

/// Header with the id of the event, the same however often it is posted.
pub(super) const ID: &str = "webhook-id";
/// Header with the time of the post, seconds since the epoch.
pub(super) const TIMESTAMP: &str = "webhook-timestamp";
/// Header with the signature.
pub(super) const SIGNATURE: &str = "webhook-signature";

/// A key that posts are signed with.
#[derive(Clone)]
pub(super) struct SigningKey(hmac::Key);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns the value of the signature header for a body posted at `seconds`.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut signed = format!("{id}.{seconds}.").into_bytes();
        signed.extend_from_slice(body);
        format!("v1,{}", STANDARD.encode(hmac::sign(&self.0, &signed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The example of the specification's reference libraries.
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = SigningKey::new(&secret).sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
