//! Bodies of requests to models and of their answers, sealed before they reach the disk.
//!
//! The label with the exchange of a body is stored next to it unencrypted, and is authenticated with it: neither can be
//! changed or exchanged without breaking the seal.

mod exchange;
mod keeper;
mod key;
mod seal;
pub(super) mod table;

#[cfg(test)]
mod tests;

pub use exchange::KeptBodies;
pub use keeper::{BodySettings, BodyStorage, Keeper, PassingBody};
pub(super) use key::secret;
pub use key::{BodyKey, KeyError};
pub use seal::{BodyLabel, BodySide, SealedBody, UnsealError};
