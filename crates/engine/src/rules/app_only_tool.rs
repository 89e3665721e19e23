//! A tool for apps alone that is called without one.

use mcpmon_model::{DefinitionKind, Severity};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::{apps, wording::command};

/// The server offers the tool to its pages alone, and the model calls it, or no page of the server was read.
pub(super) struct AppOnlyTool;

impl Rule for AppOnlyTool {
    fn about(&self) -> &'static About {
        &About {
            names: &["app_only_tool"],
            keys: &[],
            what: "a tool that its server offers to apps alone is noted where a model calls it, or no app is open",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let call = scene.call?;
        scene.tool()?;
        if !apps::is_for_apps_alone(&scene.entry()?.record) {
            return None;
        }
        let mut pages = scene.offers.of(DefinitionKind::App).entries();
        let (severity, why) = match call.is_by_model {
            true => (Severity::High, "and a model calls it"),
            false if !pages.any(|page| page.is_listed()) => (Severity::Medium, "and none was opened"),
            false => return None,
        };
        Some(Objection {
            rule: "app_only_tool".into(),
            effect: ObjectionEffect::Audit,
            severity,
            reason: format!(
                "{} is for apps alone (`_meta.ui.visibility`), {why}",
                scene.subject()
            ),
            remedy: Some(command(&["registry", "list", "--server", scene.server.as_str()])),
        })
    }
}
