//! The names enums have in events and columns, both ways, as serde spells them.

use serde::{
    Serialize,
    de::{DeserializeOwned, IntoDeserializer as _, value::Error},
};

/// The name of a fieldless variant, such as `agent_to_server`.
///
/// # Panics
/// Panics if the variant has fields.
#[must_use]
pub fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("only fieldless enums are named, this one is {other:?}"),
    }
}

/// The variant of that name.
///
/// # Errors
/// Returns an error if there is none; the message lists those that are.
pub fn parse_name<T: DeserializeOwned>(name: &str) -> Result<T, Error> {
    T::deserialize(name.into_deserializer())
}

/// Every `type` that an event can have.
pub const EVENT_TYPES: [&str; 28] = [
    "mcp_server_started",
    "mcp_server_exited",
    "mcp_server_binary_mismatch",
    "mcp_server_denied",
    "mcp_network_connection",
    "mcp_server_unwrapped",
    "mcp_server_name_similarity",
    "mcp_tool_seen",
    "mcp_tool_changed",
    "mcp_detection",
    "mcp_tool_call_intercepted",
    "mcp_tool_called",
    "mcp_tool_returned",
    "mcp_output_inspection",
    "mcp_resource_read",
    "mcp_request_judged",
    "mcp_dlp_redaction",
    "mcp_proxy_bypass",
    "mcp_discovery_failed",
    "mcp_tls_mismatch",
    "mcp_approval",
    "mcp_kill",
    "mcp_cross_server_blocked",
    "policy_loaded",
    "policy_rejected",
    "mcp_enforcement_degraded",
    "mcp_enforcement_restored",
    "mcp_events_lost",
];

#[cfg(test)]
mod tests {
    use mcpmon_model::{Action, Direction, EventKind, Layer};

    use super::*;

    #[test]
    fn names_and_variants_are_inverse() {
        for action in [Action::Allow, Action::Audit, Action::WouldBlock, Action::Block] {
            assert_eq!(parse_name(&name(&action)), Ok(action));
            assert_eq!(name(&action), action.as_str());
        }
        for layer in [
            Layer::Kernel,
            Layer::Stdio,
            Layer::McpHttp,
            Layer::Llm,
            Layer::Agent,
        ] {
            assert_eq!(name(&layer), layer.as_str());
        }
    }

    #[test]
    fn every_type_of_an_event_is_known() {
        let error = serde_json::from_value::<EventKind>(serde_json::json!({"type": "none"})).unwrap_err();
        let error = error.to_string();
        let types: Vec<&str> = error.split('`').skip(1).step_by(2).collect();
        assert_eq!(types[0], "none");
        assert_eq!(types[1..], EVENT_TYPES);
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
