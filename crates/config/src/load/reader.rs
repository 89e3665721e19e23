//! A serde deserializer over a [`Node`] whose errors know the way to what they are about.

use std::fmt;

use serde::{
    Deserializer,
    de::{self, IntoDeserializer as _, Unexpected, Visitor},
    forward_to_deserialize_any,
};

use super::{
    node::{Entry, Item, KeyPath, Node, Step, Value},
    suggest::{closest, listing},
};

/// Something serde refused.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The way to it.
    pub(crate) path: KeyPath,
    /// The subject of the fault.
    pub(crate) subject: Subject,
    /// The message.
    pub(crate) message: String,
}

/// The part of a path that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The key itself.
    Key,
    /// Its value.
    Value,
    /// Something the value should have.
    Absent,
}

impl Fault {
    fn new(subject: Subject, message: String) -> Self {
        Self {
            path: KeyPath::root(),
            subject,
            message,
        }
    }

    fn under(self, step: Step) -> Self {
        Self {
            path: self.path.under(step),
            ..self
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Subject::Value, message.to_string())
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
        Self::new(Subject::Value, format!("expected {expected}, found {found}"))
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
            Subject::Value,
            format!("unknown value `{variant}`: expected {}{meant}", listing(expected)),
        )
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = match closest(field, expected) {
            Some(meant) => format!("unknown key: did you mean `{meant}`?"),
            None => format!("unknown key: expected {}", listing(expected)),
        };
        Self::new(Subject::Key, message)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Subject::Absent, format!("`{field}` is missing"))
    }
}

impl Node {
    fn refuse(&self, expected: &str) -> Fault {
        de::Error::invalid_type(self.unexpected(), &expected)
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Integer(number) => match i64::try_from(*number) {
                Ok(number) => Unexpected::Signed(number),
                Err(_) => Unexpected::Other("a number that is too large"),
            },
            Value::Float(number) => Unexpected::Float(*number),
            Value::Text(text) => Unexpected::Str(text),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        }
    }

    /// The list; nothing counts as an empty one, so that a key may lose its last element.
    fn list(&self) -> Result<&[Item], Fault> {
        match &self.value {
            Value::List(items) => Ok(items),
            Value::Null => Ok(&[]),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) | Value::Map(_) => {
                Err(self.refuse("a list"))
            }
        }
    }

    /// The mapping; nothing counts as an empty one.
    fn map(&self) -> Result<&[Entry], Fault> {
        match &self.value {
            Value::Map(entries) => Ok(entries),
            Value::Null => Ok(&[]),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) | Value::List(_) => {
                Err(self.refuse("a mapping"))
            }
        }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (Err(_), Ok(number)) => visitor.visit_i64(number),
                (Err(_), Err(_)) => visitor.visit_i128(*number),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visit_list(items, visitor),
            Value::Map(entries) => visit_map(entries, visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Null
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => Err(self.refuse("`true` or `false`")),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let number = match self.value {
            Value::Integer(number) => u32::try_from(number).ok(),
            Value::Null
            | Value::Bool(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => None,
        };
        match number {
            Some(number) => visitor.visit_u32(number),
            None => Err(self.refuse("a whole number from 0 to 4294967295")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value {
            Value::Float(_) | Value::Integer(_) => self.deserialize_any(visitor),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
                Err(self.refuse("a number"))
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
                Err(self.refuse("text (put it in quotes)"))
            }
            Value::Null | Value::List(_) | Value::Map(_) => Err(self.refuse("text")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value {
            Value::Null => visitor.visit_none(),
            Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit_list(self.list()?, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visit_map(self.map()?, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visit_map(self.map()?, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.value {
            Value::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::List(_)
            | Value::Map(_) => Err(self.refuse(&listing(variants))),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 char str bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

fn visit_list<'de, V: Visitor<'de>>(items: &'de [Item], visitor: V) -> Result<V::Value, Fault> {
    visitor.visit_seq(Items {
        items: items.iter().enumerate(),
    })
}

fn visit_map<'de, V: Visitor<'de>>(entries: &'de [Entry], visitor: V) -> Result<V::Value, Fault> {
    visitor.visit_map(Entries {
        entries: entries.iter(),
        current: None,
    })
}

struct Items<'de> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Item>>,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((position, item)) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(&item.node)
            .map(Some)
            .map_err(|fault| fault.under(Step::Index(position)))
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, Entry>,
    current: Option<&'de Entry>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.current = self.entries.next();
        let Some(entry) = self.current else {
            return Ok(None);
        };
        seed.deserialize(de::value::BorrowedStrDeserializer::new(&entry.key))
            .map(Some)
            .map_err(|fault: Fault| fault.under(Step::Key(entry.key.clone())))
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let entry = self.current.expect("serde asks for a value after its key");
        seed.deserialize(&entry.node)
            .map_err(|fault| fault.under(Step::Key(entry.key.clone())))
    }
}
