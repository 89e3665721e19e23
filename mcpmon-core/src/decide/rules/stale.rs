//! A definition that may be another by now.

use super::{Effect, Objection, Rule, Scene, Used};
use crate::{decide::wording::command, model::Severity};

/// The server said that its list changed, and it was not listed since; or it was listed in an earlier run only.
///
/// This never blocks: what the model read is what was listed, and that is judged by itself. An honest client
/// may call before it lists again.
pub(super) struct StaleDefinition;

impl Rule for StaleDefinition {
    fn judge(&self, scene: &Scene<'_>) -> Option<Objection> {
        let Used::Offered {
            entry: Some(entry), ..
        } = scene.used
        else {
            return None;
        };
        if scene.offer()?.is_fresh(entry) {
            return None;
        }
        let why = if entry.is_listed() {
            "its server said that its list changed, and did not list it since"
        } else {
            "its server does not list it now; it is known from before"
        };
        Some(Objection {
            rule: "stale_definition",
            effect: Effect::Audit,
            severity: Severity::Low,
            reason: format!("{}: {why}", scene.subject()),
            remedy: Some(command(&["registry", "list", "--server", scene.server.as_str()])),
        })
    }
}
