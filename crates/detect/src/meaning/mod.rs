//! What a value can mean to whoever reads it: a name by its looks, a path and a URI by how they are resolved, a
//! number by how it is written. A rule that refuses holds for any meaning, one that allows for all of them.

mod escapes;
mod number;
mod path;
mod uri;

use std::borrow::Cow;

pub use number::{Numeral, numeral};
pub use path::paths;
pub use uri::uris;

use super::normalise::skeleton::Skeleton;

/// A name as it looks: see-through characters dropped, look-alikes as ASCII.
#[must_use]
pub fn looks(name: &str) -> Cow<'_, str> {
    Skeleton::of(name).text
}

/// Adds a meaning, unless it is there.
fn add(meanings: &mut Vec<String>, meaning: String) {
    if !meanings.contains(&meaning) {
        meanings.push(meaning);
    }
}
