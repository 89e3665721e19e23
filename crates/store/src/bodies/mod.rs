//! Bodies of requests to models and of their answers, sealed before they reach the disk.
//!
//! What says of which exchange a body is stands beside it in clear, and is bound to it: neither can be changed or put
//! beside another without the seal breaking.

mod exchange;
mod keeper;
mod key;
mod seal;
pub(super) mod table;

#[cfg(test)]
mod tests;

pub use exchange::KeptBodies;
pub use keeper::{BodySettings, BodyStorage, Gathered, Keeper};
pub(super) use key::secret;
pub use key::{BodyKey, KeyError};
pub use seal::{Label, SealedBody, Side, Unsealed};
