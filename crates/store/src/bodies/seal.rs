//! One body: sealed by ChaCha20-Poly1305 under a nonce of chance, bound to what it is of.

use mcpmon_model::{SessionId, Timestamp};
use ring::{
    aead::{Aad, NONCE_LEN, Nonce},
    rand::{SecureRandom as _, SystemRandom},
};

use super::BodyKey;

/// The prefix of the authenticated text; another layout of it is another version.
const VERSION: &[u8] = b"mcpmon body 1";

/// The direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySide {
    /// To a model, as it was sent on.
    Request,
    /// To an agent, as it got it.
    Response,
}

/// Of what a body is. Stands beside it in clear, and is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLabel {
    /// Id of the exchange, as in events.
    pub request: String,
    /// The direction.
    pub side: BodySide,
    /// The session, where known.
    pub session: Option<SessionId>,
    /// The API.
    pub dialect: String,
    /// The time it began.
    pub at: Timestamp,
    /// Bytes that went by.
    pub length: u64,
    /// Bytes of them that are kept; fewer where it was cut.
    pub kept: u64,
}

/// A body as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBody {
    /// Of what it is.
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
    /// The key is another.
    #[error("it was sealed with the key {sealed}, and the one given is {given}")]
    OtherKey {
        /// Name of its key.
        sealed: String,
        /// Name of the one that was tried.
        given: String,
    },
    /// The body is not as it was written.
    #[error("it was changed since it was written: its seal is broken")]
    Broken,
    /// There is no chance to be had.
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
    /// Returns whether there was more than is kept.
    pub const fn is_cut(&self) -> bool {
        self.kept < self.length
    }

    /// One text for each label, and none for two.
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

    /// The body.
    ///
    /// # Errors
    /// Returns an error if the key is another, or anything about it was changed.
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

    /// Bytes that it takes.
    pub(crate) const fn size(&self) -> u64 {
        self.sealed.len() as u64
    }
}
