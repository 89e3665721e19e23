//! What a text says beneath its spelling: characters that are not seen, look-alikes, encodings.

pub(super) mod blocks;
pub(super) mod decode;
pub(super) mod raw;
pub(super) mod skeleton;

mod confusables;
