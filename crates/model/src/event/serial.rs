//! Defaults of fields, and their forms for every sink.

use std::path::{Path, PathBuf};

use serde::{Serialize as _, Serializer};

pub(super) const fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
pub(super) const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(super) const fn is_one(count: &u64) -> bool {
    *count == 1
}

/// Serialises a path with U+FFFD for bytes that are no UTF-8: a hostile file name must not cost the event.
pub(super) fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

pub(super) fn lossy_option<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(serializer)
}
