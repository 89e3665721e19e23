//! Servers that may not be used at all.

use mcpmon_model::{DefinitionKind, Severity};
use mcpmon_policy::Admission;

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::wording::{command, explaining, shown};

/// The server policy refuses the server, it is not declared, or a definition of it contains an attack.
pub(super) struct ServerAdmission;

impl Rule for ServerAdmission {
    fn about(&self) -> &'static About {
        &About {
            names: &["server_policy", "undeclared_server", "tool_poisoning"],
            keys: &[
                "mcp.server_policy",
                "mcp.allowed_servers",
                "mcp.denied_servers",
                "mcp.fail_closed",
                "mcp.servers",
            ],
            what: "a server that may not be used is blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let server = scene.server;
        let refused = |rule: &'static str, severity, reason, remedy| {
            Some(Objection {
                rule: rule.into(),
                effect: ObjectionEffect::Block,
                severity,
                reason,
                remedy: Some(remedy),
            })
        };
        match (scene.offers.admission, &scene.offers.poisoned) {
            (Admission::Denied, _) => refused(
                "server_policy",
                Severity::High,
                format!("server {server} may not be used (`mcp.server_policy`)"),
                explaining("server_policy"),
            ),
            (Admission::Undeclared, _) => refused(
                "undeclared_server",
                Severity::Medium,
                format!("server {server} is not declared, and `mcp.fail_closed` is on"),
                explaining("undeclared_server"),
            ),
            (Admission::Admitted, Some((DefinitionKind::Instructions, _))) => refused(
                "tool_poisoning",
                Severity::Critical,
                format!("server {server} is blocked for its instructions"),
                command(&["approve", &format!("{server}:")]),
            ),
            (Admission::Admitted, Some((kind, name))) => refused(
                "tool_poisoning",
                Severity::Critical,
                format!(
                    "server {server} is blocked for its {} {}",
                    kind.as_str(),
                    shown(name)
                ),
                command(&["approve", &format!("{server}:{name}")]),
            ),
            (Admission::Admitted, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::NameGlob;
    use mcpmon_policy::{OnDetection, Policy, ServerPolicy};
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case("files", false => Some(ObjectionEffect::Block); "denied")]
    #[test_case("file", false => None; "another name")]
    #[test_case("file", true => Some(ObjectionEffect::Block); "not declared, where that is needed")]
    fn servers_by_name(denied: &str, fail_closed: bool) -> Option<ObjectionEffect> {
        let server_policy = ServerPolicy::Denylist(vec![NameGlob::new(denied)]);
        Stage::new(Policy {
            server_policy,
            fail_closed,
            ..Policy::default()
        })
        .judge_server(&ServerAdmission)
    }

    #[test_case(OnDetection::Block, Severity::High => Some(ObjectionEffect::Block); "blocked for a tool")]
    #[test_case(OnDetection::Block, Severity::Medium => None; "below the threshold")]
    #[test_case(OnDetection::Hide, Severity::High => None; "where the tool alone is hidden")]
    fn servers_by_what_they_offer(on_detection: OnDetection, severity: Severity) -> Option<ObjectionEffect> {
        let mut policy = Policy::default();
        policy.inspection.on_detection = on_detection;
        let mut stage = Stage::new(policy);
        stage.list(&[("read", ""), ("write", "")]);
        stage.found("read", severity);
        stage.judge(&ServerAdmission, "write")
    }
}
