//! The object's maps by name, and whether pinned maps have the same layout.

use aya::maps::{MapData, MapError};
use aya_obj::Object;

use super::{kernel_log, pinned::PinnedSet};

/// The error of reading the object.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the kernel object's maps")]
pub struct LayoutError(#[source] Box<aya_obj::ParseError>);

/// The named maps of an object, each with its layout.
#[derive(Debug)]
pub(super) struct NamedMaps(Vec<(String, Layout)>);

/// The layout of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
}

impl NamedMaps {
    /// Reads the maps of `object`.
    ///
    /// # Errors
    /// Returns an error if it is not an object file.
    pub(super) fn of(object: &[u8]) -> Result<Self, LayoutError> {
        let object = Object::parse(object).map_err(|error| LayoutError(Box::new(error)))?;
        let layout = |map: &aya_obj::Map| Layout {
            kind: map.map_type(),
            key: map.key_size(),
            value: map.value_size(),
            entries: map.max_entries(),
        };
        // Sections of constants are maps too, created anew with each load; so is the log, which no release has.
        let is_kept = |name: &str| !name.starts_with('.') && name != kernel_log::MAP;
        let named = object.maps.iter().filter(|(name, _)| is_kept(name));
        let mut maps: Vec<_> = named.map(|(name, map)| (name.clone(), layout(map))).collect();
        maps.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Self(maps))
    }

    /// Returns the names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether all of them are in `set`, with the same layout.
    pub(super) fn fit(&self, set: &PinnedSet) -> bool {
        self.0.iter().all(|(name, wanted)| match pinned(set, name) {
            Ok(found) if found == *wanted => true,
            Ok(found) => {
                tracing::warn!(
                    map = name,
                    ?found,
                    ?wanted,
                    "what is pinned is made otherwise, and replaced"
                );
                false
            }
            Err(error) => {
                tracing::warn!(map = name, %error, "what is pinned is not whole, and replaced");
                false
            }
        })
    }
}

fn pinned(set: &PinnedSet, name: &str) -> Result<Layout, MapError> {
    let data = MapData::from_pin(set.map(name))?;
    let info = data.info()?;
    Ok(Layout {
        kind: info.map_type()? as u32,
        key: info.key_size(),
        value: info.value_size(),
        entries: info.max_entries(),
    })
}
