//! Requests and responses of the model APIs, one file for each API.

pub mod anthropic;
mod fields;
pub mod openai_chat;
pub mod openai_responses;

/// An error: the data does not follow the API, so that a reader could find a call in it that mcpmon does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApiViolation(pub &'static str);
