//! Decode, judge and rewrite for one transport, as one function over chunks of bytes.

mod called;
pub mod mcp_http;
mod message;
mod own;
pub mod stdio;

pub use self::message::Arbiter;
