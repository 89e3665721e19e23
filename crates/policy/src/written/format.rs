//! Values written as text in a format of their own: addresses, digests, dates, durations, sizes.

use std::{borrow::Cow, fmt, marker::PhantomData, net::SocketAddr};

use jiff::civil::Date;
use mcpmon_model::{Digest, ServerId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{
    HttpUrl,
    units::{Lapse, Size},
};
use crate::{Cidr, EgressDestination, HostName, SandboxPath};

/// A value that is written as text and parsed on the way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<T>(pub T);

/// A textual format.
pub trait Format: fmt::Display + Sized {
    /// The expected form, with its article.
    const EXPECTED: &'static str;
    /// A text that is one.
    const EXAMPLE: &'static str;

    /// Parses `text`.
    ///
    /// # Errors
    /// Returns an error that describes the mistake.
    fn read(text: &str) -> Result<Self, String>;
}

impl<T: Format> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: Format> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor<T>(PhantomData<T>);

        impl<T: Format> de::Visitor<'_> for TextVisitor<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} such as `{}`", T::EXPECTED, T::EXAMPLE)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::read(text).map(Text).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(TextVisitor(PhantomData))
    }
}

impl<T: Format> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed(T::EXPECTED)
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "examples": [T::EXAMPLE]})
    }
}

/// Implements `Format` for types whose own parser describes mistakes.
macro_rules! formats {
    ($($type:ty, $expected:literal, $example:literal, $parse:expr;)*) => {
        $(impl Format for $type {
            const EXPECTED: &'static str = $expected;
            const EXAMPLE: &'static str = $example;

            fn read(text: &str) -> Result<Self, String> {
                $parse(text).map_err(|error| error.to_string())
            }
        })*
    };
}

formats! {
    Cidr, "a range of addresses", "203.0.113.0/24", str::parse::<Self>;
    Digest, "a SHA-256 digest", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", str::parse::<Self>;
    EgressDestination, "a destination", "api.example.com:443", str::parse::<Self>;
    HostName, "a host name", "api.example.com", str::parse::<Self>;
    HttpUrl, "a URL", "https://mcp.example.com/mcp", str::parse::<Self>;
    Lapse, "a duration", "30s", str::parse::<Self>;
    SandboxPath, "a path", "~/projects", str::parse::<Self>;
    ServerId, "a server id", "filesystem", Self::new;
    Size, "a size", "16MiB", str::parse::<Self>;
}

impl Format for Date {
    const EXPECTED: &'static str = "a date";
    const EXAMPLE: &'static str = "2027-01-01";

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: jiff::Error| format!("`{text}` is no date such as `{}`: {error}", Self::EXAMPLE))
    }
}

impl Format for SocketAddr {
    const EXPECTED: &'static str = "an IP address with a port";
    const EXAMPLE: &'static str = "127.0.0.1:9484";

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: std::net::AddrParseError| {
            format!("`{text}` is no address such as `{}`: {error}", Self::EXAMPLE)
        })
    }
}
