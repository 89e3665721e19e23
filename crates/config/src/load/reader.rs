//! A serde deserializer over a [`Node`], whose errors have the path of the value that they are about.

use std::fmt;

use serde::{
    Deserializer,
    de::{self, IntoDeserializer as _, Unexpected, Visitor},
    forward_to_deserialize_any,
};

use super::{
    node::{KeyPath, ListItem, MapEntry, Node, PathStep, YamlValue},
    suggest::{closest, listing},
};

/// An error of serde.
#[derive(Debug)]
pub(crate) struct SerdeFault {
    /// The path of the value.
    pub(crate) path: KeyPath,
    /// The subject of the fault.
    pub(crate) subject: PathSubject,
    /// The message.
    pub(crate) message: String,
}

/// The part of the value that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathSubject {
    /// The key itself.
    Key,
    /// Its value.
    Value,
    /// A key that the value lacks.
    Absent,
}

impl SerdeFault {
    fn new(subject: PathSubject, message: String) -> Self {
        Self {
            path: KeyPath::root(),
            subject,
            message,
        }
    }

    fn under(self, step: PathStep) -> Self {
        Self {
            path: self.path.under(step),
            ..self
        }
    }
}

impl fmt::Display for SerdeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SerdeFault {}

impl de::Error for SerdeFault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(PathSubject::Value, message.to_string())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "serde names what no YAML value is")]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Bool(value) => format!("`{value}`"),
            Unexpected::Unsigned(number) => format!("the number {number}"),
            Unexpected::Signed(number) => format!("the number {number}"),
            Unexpected::Float(number) => format!("the number {number}"),
            Unexpected::Str(text) => format!("the text `{text}`"),
            Unexpected::Unit => "nothing".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a mapping".to_owned(),
            other => other.to_string(),
        };
        Self::new(PathSubject::Value, format!("expected {expected}, found {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let meant = match closest(variant, expected) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None => String::new(),
        };
        Self::new(
            PathSubject::Value,
            format!("unknown value `{variant}`: expected {}{meant}", listing(expected)),
        )
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = match closest(field, expected) {
            Some(meant) => format!("unknown key: did you mean `{meant}`?"),
            None => format!("unknown key: expected {}", listing(expected)),
        };
        Self::new(PathSubject::Key, message)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(PathSubject::Absent, format!("`{field}` is missing"))
    }
}

impl Node {
    fn refuse(&self, expected: &str) -> SerdeFault {
        de::Error::invalid_type(self.unexpected(), &expected)
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            YamlValue::Null => Unexpected::Unit,
            YamlValue::Bool(value) => Unexpected::Bool(*value),
            YamlValue::Integer(number) => match i64::try_from(*number) {
                Ok(number) => Unexpected::Signed(number),
                Err(_) => Unexpected::Other("a number that is too large"),
            },
            YamlValue::Float(number) => Unexpected::Float(*number),
            YamlValue::Text(text) => Unexpected::Str(text),
            YamlValue::List(_) => Unexpected::Seq,
            YamlValue::Map(_) => Unexpected::Map,
        }
    }

    /// Returns the list. No value counts as an empty list, so that a key may lose its last element.
    fn list(&self) -> Result<&[ListItem], SerdeFault> {
        match &self.value {
            YamlValue::List(items) => Ok(items),
            YamlValue::Null => Ok(&[]),
            YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::Map(_) => Err(self.refuse("a list")),
        }
    }

    /// Returns the mapping. No value counts as an empty one.
    fn map(&self) -> Result<&[MapEntry], SerdeFault> {
        match &self.value {
            YamlValue::Map(entries) => Ok(entries),
            YamlValue::Null => Ok(&[]),
            YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::List(_) => Err(self.refuse("a mapping")),
        }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = SerdeFault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        match &self.value {
            YamlValue::Null => visitor.visit_unit(),
            YamlValue::Bool(value) => visitor.visit_bool(*value),
            YamlValue::Integer(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (Err(_), Ok(number)) => visitor.visit_i64(number),
                (Err(_), Err(_)) => visitor.visit_i128(*number),
            },
            YamlValue::Float(number) => visitor.visit_f64(*number),
            YamlValue::Text(text) => visitor.visit_borrowed_str(text),
            YamlValue::List(items) => visit_list(items, visitor),
            YamlValue::Map(entries) => visit_map(entries, visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        match &self.value {
            YamlValue::Bool(value) => visitor.visit_bool(*value),
            YamlValue::Null
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => Err(self.refuse("`true` or `false`")),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        let number = match self.value {
            YamlValue::Integer(number) => u32::try_from(number).ok(),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => None,
        };
        match number {
            Some(number) => visitor.visit_u32(number),
            None => Err(self.refuse("a whole number from 0 to 4294967295")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        match self.value {
            YamlValue::Float(_) | YamlValue::Integer(_) => self.deserialize_any(visitor),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Text(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => Err(self.refuse("a number")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        match &self.value {
            YamlValue::Text(text) => visitor.visit_borrowed_str(text),
            YamlValue::Bool(_) | YamlValue::Integer(_) | YamlValue::Float(_) => {
                Err(self.refuse("text (put it in quotes)"))
            }
            YamlValue::Null | YamlValue::List(_) | YamlValue::Map(_) => Err(self.refuse("text")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        match self.value {
            YamlValue::Null => visitor.visit_none(),
            YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeFault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        visit_list(self.list()?, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeFault> {
        visit_map(self.map()?, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeFault> {
        visit_map(self.map()?, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeFault> {
        match &self.value {
            YamlValue::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => Err(self.refuse(&listing(variants))),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 char str bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

fn visit_list<'de, V: Visitor<'de>>(items: &'de [ListItem], visitor: V) -> Result<V::Value, SerdeFault> {
    visitor.visit_seq(ItemReader {
        items: items.iter().enumerate(),
    })
}

fn visit_map<'de, V: Visitor<'de>>(entries: &'de [MapEntry], visitor: V) -> Result<V::Value, SerdeFault> {
    visitor.visit_map(Entries {
        entries: entries.iter(),
        current: None,
    })
}

struct ItemReader<'de> {
    items: std::iter::Enumerate<std::slice::Iter<'de, ListItem>>,
}

impl<'de> de::SeqAccess<'de> for ItemReader<'de> {
    type Error = SerdeFault;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SerdeFault> {
        let Some((position, item)) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(&item.node)
            .map(Some)
            .map_err(|fault| fault.under(PathStep::Index(position)))
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, MapEntry>,
    current: Option<&'de MapEntry>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = SerdeFault;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, SerdeFault> {
        self.current = self.entries.next();
        let Some(entry) = self.current else {
            return Ok(None);
        };
        seed.deserialize(de::value::BorrowedStrDeserializer::new(&entry.key))
            .map(Some)
            .map_err(|fault: SerdeFault| fault.under(PathStep::Key(entry.key.clone())))
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, SerdeFault> {
        let entry = self.current.expect("serde asks for a value after its key");
        seed.deserialize(&entry.node)
            .map_err(|fault| fault.under(PathStep::Key(entry.key.clone())))
    }
}
