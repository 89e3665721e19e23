//! The environment of the server behind a wrapper.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use mcpmon_core::{
    model::ServerId,
    policy::{EnvironmentRules, Passage, Policy},
};

/// This process's environment, without what the server may not have.
pub(super) fn passed(policy: &Policy, server: &ServerId) -> Vec<(OsString, OsString)> {
    let declared = policy.servers.iter().find(|declared| declared.id == *server);
    let rules = declared.map(EnvironmentRules::of).unwrap_or_default();
    let passes = |name: &OsStr| match rules.judge(&name.to_string_lossy()) {
        Passage::Pass => true,
        Passage::NotAllowed | Passage::Sensitive | Passage::Denied => {
            tracing::info!(variable = ?name, %server, "a variable is not passed to the server");
            false
        }
    };
    env::vars_os().filter(|(name, _)| passes(name)).collect()
}

/// Names of variables that are recorded of one start.
const MAX_NAMES: usize = 512;
/// Longest name that is.
const LONGEST_NAME: usize = 128;

/// Names of variables in their order, as far as a policy could name them; values are nobody's business.
pub(super) fn names(environment: &[(OsString, OsString)]) -> Vec<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let named = environment.iter().filter_map(|(name, _)| name.to_str());
    let mut names: Vec<String> = named
        .filter(|name| name.len() <= LONGEST_NAME && !name.is_empty() && name.bytes().all(is_part))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.truncate(MAX_NAMES);
    names
}

pub(super) fn variable<'e>(environment: &'e [(OsString, OsString)], wanted: &str) -> Option<&'e OsStr> {
    let mut variables = environment.iter();
    variables.find_map(|(name, value)| (name == wanted).then_some(value.as_os_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_told_and_no_more_than_the_limit() {
        let variable = |name: &str| (OsString::from(name), OsString::from("hush"));
        let long = "A".repeat(LONGEST_NAME + 1);
        let given = ["PATH", "B_KEY", "a b", "*", "", &long, "A1"].map(variable);
        assert_eq!(names(&given), ["A1", "B_KEY", "PATH"]);
        let many: Vec<_> = (0..MAX_NAMES + 9)
            .map(|number| variable(&format!("V{number}")))
            .collect();
        assert_eq!(names(&many).len(), MAX_NAMES);
    }
}
