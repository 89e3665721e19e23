//! A server that may not be used at all.

use super::{Effect, Objection, Rule, Scene};
use crate::{
    decide::{
        definitions::Admission,
        wording::{command, shown},
    },
    model::{DefinitionKind, Severity},
};

/// The server policy refuses the server, nobody declared it, or what it offers has an attack in it.
pub(super) struct ServerAdmission;

impl Rule for ServerAdmission {
    fn judge(&self, scene: &Scene<'_>) -> Option<Objection> {
        let server = scene.server;
        let refused = |rule, severity, reason, remedy| {
            Some(Objection {
                rule,
                effect: Effect::Block,
                severity,
                reason,
                remedy: Some(remedy),
            })
        };
        let check = || command(&["policy", "check"]);
        match (scene.offers.admission, &scene.offers.poisoned) {
            (Admission::Denied, _) => refused(
                "server_policy",
                Severity::High,
                format!("server {server} may not be used (`mcp.server_policy`)"),
                check(),
            ),
            (Admission::Undeclared, _) => refused(
                "undeclared_server",
                Severity::Medium,
                format!("server {server} is not declared, and `mcp.fail_closed` is on"),
                check(),
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
