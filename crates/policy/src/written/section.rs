//! Sections of a configuration file whose keys are declared in several places.

use std::{fmt, marker::PhantomData};

use serde::{Deserializer, de};

/// Keys of one section, alone or together with the keys of other sets.
pub trait SectionKeys: Default {
    /// Returns the names of the keys.
    fn names() -> &'static [&'static str];

    /// Reads the value of `key`. Returns whether the key is one of these.
    ///
    /// # Errors
    /// Returns an error if the value is refused.
    fn read<'de, A: de::MapAccess<'de>>(&mut self, key: &str, values: &mut A) -> Result<bool, A::Error>;
}

/// Declares a struct of keys, each with its description, type and default.
#[macro_export]
macro_rules! section_keys {
    (
        $(#[$doc:meta])*
        $visibility:vis struct $name:ident { $($(#[$field_doc:meta])* $field_visibility:vis $field:ident: $type:ty = $default:expr,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::schemars::JsonSchema)]
        #[schemars(default)]
        $visibility struct $name {
            $($(#[$field_doc])* $field_visibility $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::written::SectionKeys for $name {
            fn names() -> &'static [&'static str] {
                &[$(stringify!($field)),*]
            }

            fn read<'de, A: ::serde::de::MapAccess<'de>>(
                &mut self,
                key: &str,
                values: &mut A,
            ) -> Result<bool, A::Error> {
                $(if key == stringify!($field) {
                    self.$field = values.next_value()?;
                    return Ok(true);
                })*
                Ok(false)
            }
        }
    };
}

/// Reads a section; keys that are absent have their defaults.
///
/// # Errors
/// Returns an error if a key is unknown or a value refused.
pub fn read_section<'de, T: SectionKeys, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_struct("Section", T::names(), SectionVisitor(PhantomData))
}

struct SectionVisitor<T>(PhantomData<T>);

impl<'de, T: SectionKeys> de::Visitor<'de> for SectionVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut values: A) -> Result<T, A::Error> {
        let mut keys = T::default();
        while let Some(key) = values.next_key_seed(KnownKey(T::names()))? {
            keys.read(key, &mut values)?;
        }
        Ok(keys)
    }
}

/// A key with one of these names.
struct KnownKey(&'static [&'static str]);

impl<'de> de::DeserializeSeed<'de> for KnownKey {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl de::Visitor<'_> for KnownKey {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|name| **name == key);
        known.copied().ok_or_else(|| E::unknown_field(key, self.0))
    }
}
