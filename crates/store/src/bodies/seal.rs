//! Sealing of one body with ChaCha20-Poly1305 under a random nonce, bound to its label.

use mcpmon_model::{SessionId, Timestamp};
use ring::{
    aead::{Aad, NONCE_LEN, Nonce},
    rand::{SecureRandom as _, SystemRandom},
};

use super::BodyKey;

/// The prefix of the authenticated text; each layout has its own version.
const VERSION: &[u8] = b"mcpmon body 1";

/// The direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySide {
    /// The body sent to a model, as it was forwarded.
    Request,
    /// The body sent to an agent, as it was forwarded.
    Response,
}

/// The identity of a body. It is stored unencrypted next to the body, and is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLabel {
    /// Id of the exchange, as in events.
    pub request: String,
    /// The direction.
    pub side: BodySide,
    /// The session, if known.
    pub session: Option<SessionId>,
    /// The API.
    pub dialect: String,
    /// The time at which it began.
    pub at: Timestamp,
    /// Length of the whole body, bytes.
    pub length: u64,
    /// Bytes that are stored; fewer if it was cut.
    pub kept: u64,
}

/// A sealed body as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBody {
    /// Its label.
    pub label: BodyLabel,
    /// Name of its key.
    pub key: String,
    /// The time at which it is to be removed.
    pub expires: Timestamp,
    pub(super) nonce: [u8; NONCE_LEN],
    pub(super) sealed: Vec<u8>,
}

/// The reason why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    /// The body was sealed with another key.
    #[error("it was sealed with the key {sealed}, and the one given is {given}")]
    OtherKey {
        /// Name of its key.
        sealed: String,
        /// Name of the given key.
        given: String,
    },
    /// The body or its label was changed.
    #[error("it was changed since it was written: its seal is broken")]
    Broken,
    /// The system returns no random bytes.
    #[error("the system gives no random bytes")]
    Chance,
}

impl BodySide {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Request, Self::Response]
            .into_iter()
            .find(|side| side.as_str() == text)
    }
}

impl BodyLabel {
    /// Returns whether only a part of the body is stored.
    pub const fn is_cut(&self) -> bool {
        self.kept < self.length
    }

    /// Returns the authenticated text, which is unique for each label.
    fn bound(&self) -> Vec<u8> {
        let session = self.session.as_ref().map_or("", SessionId::as_str);
        let mut bound = VERSION.to_vec();
        for part in [self.request.as_str(), self.side.as_str(), session, &self.dialect] {
            bound.extend((part.len() as u64).to_be_bytes());
            bound.extend(part.as_bytes());
        }
        bound.extend(self.at.0.to_be_bytes());
        bound.extend(self.length.to_be_bytes());
        bound.extend(self.kept.to_be_bytes());
        bound
    }
}

impl SealedBody {
    /// Seals `body`, to be removed when it `expires`.
    ///
    /// # Errors
    /// Returns an error if there are no random bytes.
    pub fn seal(
        key: &BodyKey,
        label: BodyLabel,
        expires: Timestamp,
        body: Vec<u8>,
    ) -> Result<Self, UnsealError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_unspecified| UnsealError::Chance)?;
        let mut sealed = body;
        key.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(label.bound()),
                &mut sealed,
            )
            .map_err(|_unspecified| UnsealError::Broken)?;
        Ok(Self {
            label,
            key: key.name().to_owned(),
            expires,
            nonce,
            sealed,
        })
    }

    /// Decrypts the body.
    ///
    /// # Errors
    /// Returns an error if the key is another one, or the body or its label was changed.
    pub fn open(&self, key: &BodyKey) -> Result<Vec<u8>, UnsealError> {
        if self.key != key.name() {
            return Err(UnsealError::OtherKey {
                sealed: self.key.clone(),
                given: key.name().to_owned(),
            });
        }
        let mut body = self.sealed.clone();
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let opened = key
            .key
            .open_in_place(nonce, Aad::from(self.label.bound()), &mut body)
            .map_err(|_unspecified| UnsealError::Broken)?;
        let length = opened.len();
        body.truncate(length);
        Ok(body)
    }

    /// Returns the number of sealed bytes.
    pub(crate) const fn size(&self) -> u64 {
        self.sealed.len() as u64
    }
}
