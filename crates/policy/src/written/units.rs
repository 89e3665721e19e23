//! Durations (`30s`), sizes (`16MiB`) and ports.

use std::{fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A duration: a whole number and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapse(pub Duration);

/// A number of bytes: a whole number and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A TCP or UDP port that can be connected to: not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Port(pub u16);

/// Milliseconds of each unit, largest first.
const DURATIONS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Bytes of each unit, largest first.
const SIZES: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// The reason why a text is not a valid quantity.
#[expect(missing_docs, reason = "the fields are the parts of the message")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No whole number in front.
    #[error("`{text}` is no {kind}: expected a whole number and one of {units}")]
    Number {
        text: String,
        kind: &'static str,
        units: String,
    },
    /// The number has no unit, or an unknown one.
    #[error("`{unit}` is no unit of a {kind}: expected one of {units}")]
    Unit {
        unit: String,
        kind: &'static str,
        units: String,
    },
    /// The number has no unit.
    #[error("`{text}` has no unit: expected one of {units} behind the number")]
    NoUnit { text: String, units: String },
    /// The number has more than 64 bits.
    #[error("`{text}` is too large")]
    TooLarge { text: String },
}

impl FromStr for Lapse {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        quantity(text, "duration", &DURATIONS).map(|milliseconds| Self(Duration::from_millis(milliseconds)))
    }
}

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        quantity(text, "size", &SIZES).map(Self)
    }
}

fn quantity(text: &str, kind: &'static str, units: &[(&str, u64)]) -> Result<u64, QuantityError> {
    let known = || {
        let names: Vec<_> = units.iter().rev().map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(QuantityError::Number {
            text: text.to_owned(),
            kind,
            units: known(),
        });
    }
    let unit = unit.trim_start();
    if unit.is_empty() {
        return Err(QuantityError::NoUnit {
            text: text.to_owned(),
            units: known(),
        });
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(QuantityError::Unit {
            unit: unit.to_owned(),
            kind,
            units: known(),
        });
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(*factor))
        .ok_or_else(|| QuantityError::TooLarge {
            text: text.to_owned(),
        })
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if milliseconds == 0 {
            return f.write_str("0s");
        }
        write_largest(f, milliseconds, &DURATIONS)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0B");
        }
        write_largest(f, self.0, &SIZES)
    }
}

/// Writes `value` in the largest unit that leaves no fraction.
fn write_largest(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (name, factor) = units
        .iter()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .expect("the smallest unit is 1");
    write!(f, "{}{name}", value / factor)
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PortVisitor;

        impl de::Visitor<'_> for PortVisitor {
            type Value = Port;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port from 1 to 65535")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Port, E> {
                Err(E::invalid_value(de::Unexpected::Signed(number), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Port, E> {
                match u16::try_from(number) {
                    Ok(port) if port != 0 => Ok(Port(port)),
                    Ok(_) | Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }
        }

        deserializer.deserialize_any(PortVisitor)
    }
}

impl JsonSchema for Port {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Port".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1, "maximum": 65535})
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("30s" => "30s")]
    #[test_case("60s" => "1m"; "largest unit")]
    #[test_case("1500ms" => "1500ms")]
    #[test_case("7 d" => "7d"; "space before the unit")]
    #[test_case("0s" => "0s")]
    #[test_case("30" => "`30` has no unit: expected one of ms, s, m, h, d behind the number")]
    #[test_case("s" => "`s` is no duration: expected a whole number and one of ms, s, m, h, d")]
    #[test_case("1.5h" => "`.5h` is no unit of a duration: expected one of ms, s, m, h, d")]
    #[test_case("-1s" => "`-1s` is no duration: expected a whole number and one of ms, s, m, h, d")]
    #[test_case("5min" => "`min` is no unit of a duration: expected one of ms, s, m, h, d")]
    #[test_case("18446744073709551615d" => "`18446744073709551615d` is too large")]
    #[test_case("99999999999999999999s" => "`99999999999999999999s` is too large")]
    fn durations(text: &str) -> String {
        text.parse::<Lapse>()
            .map_or_else(|error| error.to_string(), |lapse| lapse.to_string())
    }

    #[test_case("16MiB" => "16MiB")]
    #[test_case("1024MiB" => "1GiB")]
    #[test_case("1000B" => "1000B")]
    #[test_case("0B" => "0B")]
    #[test_case("16MB" => "`MB` is no unit of a size: expected one of B, KiB, MiB, GiB, TiB")]
    #[test_case("16" => "`16` has no unit: expected one of B, KiB, MiB, GiB, TiB behind the number")]
    #[test_case("16777216TiB" => "`16777216TiB` is too large"; "one more than 64 bits hold")]
    fn sizes(text: &str) -> String {
        text.parse::<Size>()
            .map_or_else(|error| error.to_string(), |size| size.to_string())
    }
}
