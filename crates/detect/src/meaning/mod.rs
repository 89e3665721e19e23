//! Meanings of a value for its readers: of a name by its looks, of a path and a URI by their resolution, of a
//! number by its notation. A rule that refuses holds for any meaning, one that allows for all of them.

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
pub fn looks(name: &str) -> Cow<'_, str> {
    Skeleton::of(name).text
}

/// Adds a meaning, unless it is there.
fn add(meanings: &mut Vec<String>, meaning: String) {
    if !meanings.contains(&meaning) {
        meanings.push(meaning);
    }
}
