//! The environment of the server behind a wrapper.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use mcpmon_model::ServerId;
use mcpmon_policy::{EnvironmentRules, Policy, VariableVerdict};

/// Returns this process's environment without the variables that the server may not have.
pub(super) fn passed(policy: &Policy, server: &ServerId) -> Vec<(OsString, OsString)> {
    let declared = policy.servers.iter().find(|declared| declared.id == *server);
    let rules = declared.map(EnvironmentRules::of).unwrap_or_default();
    let passes = |name: &OsStr| match rules.judge(&name.to_string_lossy()) {
        VariableVerdict::Pass => true,
        VariableVerdict::NotAllowed | VariableVerdict::Sensitive | VariableVerdict::Denied => {
            tracing::info!(variable = ?name, %server, "a variable is not passed to the server");
            false
        }
    };
    env::vars_os().filter(|(name, _)| passes(name)).collect()
}
