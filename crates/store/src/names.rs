//! Conversion between enum variants and their names in events and columns, as serde spells them.

use serde::{
    Serialize,
    de::{DeserializeOwned, IntoDeserializer as _, value::Error},
};

/// Returns the name of a fieldless variant, such as `agent_to_server`.
///
/// # Panics
/// Panics if the variant has fields.
pub fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("only fieldless enums are named, this one is {other:?}"),
    }
}

/// Returns the variant with this name.
///
/// # Errors
/// Returns an error if there is none; the message lists the valid names.
pub fn parse_name<T: DeserializeOwned>(name: &str) -> Result<T, Error> {
    T::deserialize(name.into_deserializer())
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Action, Direction, Layer};

    use super::*;

    #[test]
    fn names_and_variants_are_inverse() {
        for action in [
            Action::Allow,
            Action::Audit,
            Action::WouldAsk,
            Action::WouldBlock,
            Action::Block,
        ] {
            assert_eq!(parse_name(&name(&action)), Ok(action));
            assert_eq!(name(&action), action.as_str());
        }
        for layer in [
            Layer::Kernel,
            Layer::Stdio,
            Layer::Tap,
            Layer::McpHttp,
            Layer::Llm,
            Layer::Hook,
            Layer::Agent,
        ] {
            assert_eq!(name(&layer), layer.as_str());
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = parse_name::<Direction>("sideways").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown variant `sideways`, expected one of `agent_to_server`, `server_egress`, `watch`"
        );
    }
}
