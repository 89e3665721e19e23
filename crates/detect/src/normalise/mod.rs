//! Normal form of a text beneath its spelling: invisible characters, look-alikes, encodings.

pub(super) mod decode;
pub(super) mod raw;
pub(super) mod runs;
pub(super) mod skeleton;

mod confusables;
