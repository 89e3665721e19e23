//! Skills with an invalid manifest, and files that the manifest of their skill does not name.

use mcpmon_model::{DefinitionKind, RawJson, Severity};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext, UseTarget};
use crate::{
    skills::{Skill, SkillError},
    wording::{command, shown},
};

/// Blocks skills whose entry is no manifest, and files that differ from the manifest: a client may load neither.
pub(super) struct SkillManifest;

/// Its name in events.
pub(crate) const RULE: &str = "skill_manifest";

impl Rule for SkillManifest {
    fn about(&self) -> &'static About {
        &About {
            names: &[RULE],
            keys: &["mcp.suppressions"],
            what: "a skill without a valid manifest, and a file that is not as its manifest says, are blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let UseTarget::Offered { kind, name, entry } = scene.used else {
            return None;
        };
        match kind {
            DefinitionKind::Skill => {
                let text = RawJson::trusted(&entry?.record.seen.canonical);
                let error = Skill::parse(text).err()?;
                objection(scene, &scene.subject(), name, &error)
            }
            // A list only has names; the resources are judged when they are read.
            DefinitionKind::Resource if !scene.is_listing => {
                let skills = scene.offers.of(DefinitionKind::Skill);
                let error = skills
                    .around(name)
                    .find_map(|skill| Skill::parse(RawJson::trusted(skill)).ok()?.admits(name).err())?;
                objection(scene, &scene.subject(), name, &error)
            }
            DefinitionKind::Tool
            | DefinitionKind::Prompt
            | DefinitionKind::Resource
            | DefinitionKind::Template
            | DefinitionKind::Instructions
            | DefinitionKind::App => None,
        }
    }
}

/// Returns the objection to `subject`, unless that is suppressed for `name`.
pub(crate) fn objection(
    scene: &RuleContext<'_>,
    subject: &str,
    name: &str,
    error: &SkillError,
) -> Option<Objection> {
    if scene.policy.suppresses(&[RULE], scene.server, name, scene.now) {
        return None;
    }
    Some(Objection {
        rule: RULE.into(),
        effect: ObjectionEffect::Block,
        severity: Severity::High,
        reason: format!(
            "{subject} is not what its skill says: {}",
            shown(&error.to_string())
        ),
        remedy: Some(command(&["registry", "list", "--server", scene.server.as_str()])),
    })
}
