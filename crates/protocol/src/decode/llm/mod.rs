//! What requests and responses of the APIs to models say, one file an API.

pub mod anthropic;
mod fields;
pub mod openai_chat;
pub mod openai_responses;

/// What is said is not what the API says: whoever reads it could find a call in it that mcpmon does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub &'static str);
