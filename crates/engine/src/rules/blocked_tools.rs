//! Tools that may never be called.

use mcpmon_detect::meaning::looks;
use mcpmon_model::Severity;
use mcpmon_policy::{Policy, rules::Spellings};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::wording::explaining;

/// The tool's name, or one that it looks like, is blocked; nothing allows it again.
pub(super) struct BlockedTools;

impl Rule for BlockedTools {
    fn about(&self) -> &'static About {
        &About {
            names: &["blocked_tools"],
            keys: &["mcp.blocked_tools"],
            what: "a tool that may never be called is blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        blocked(scene.policy, scene.tool()?, || scene.subject())
    }
}

/// Returns the objection to a tool that a model knows by `name`, whichever server it belongs to.
pub(crate) fn blocked(policy: &Policy, name: &str, subject: impl Fn() -> String) -> Option<Objection> {
    let mut blocked = policy
        .rules
        .layers()
        .flat_map(|rules| &rules.blocked_tools)
        .peekable();
    blocked.peek()?;
    let name = Spellings::new(name, &looks(name));
    let glob = blocked.find(|glob| glob.resembles(&name))?;
    let how = if glob.names(&name) {
        "is on"
    } else {
        "looks like one on"
    };
    Some(Objection {
        rule: "blocked_tools".into(),
        effect: ObjectionEffect::Block,
        severity: Severity::High,
        reason: format!(
            "{} {how} the blocked list (`mcp.blocked_tools`: {})",
            subject(),
            glob.as_str()
        ),
        remedy: Some(explaining("blocked_tools")),
    })
}

#[cfg(test)]
mod tests {
    use mcpmon_model::DefinitionKind;
    use mcpmon_policy::rules::SpellingGlob;
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    #[test_case("execute_command", DefinitionKind::Tool => Some(ObjectionEffect::Block); "the name")]
    #[test_case("Execute-Command", DefinitionKind::Tool => Some(ObjectionEffect::Block); "another spelling")]
    #[test_case("ехecute_command", DefinitionKind::Tool => Some(ObjectionEffect::Block); "look-alikes")]
    #[test_case("execute\u{200b}_command", DefinitionKind::Tool => Some(ObjectionEffect::Block); "zero width")]
    #[test_case("ｅｘｅｃｕｔｅ_command", DefinitionKind::Tool => Some(ObjectionEffect::Block); "full width")]
    #[test_case(" execute_command\n", DefinitionKind::Tool => Some(ObjectionEffect::Block); "white space around it")]
    #[test_case("run_it", DefinitionKind::Tool => Some(ObjectionEffect::Block); "a glob")]
    #[test_case("execute_commands", DefinitionKind::Tool => None; "a longer name")]
    #[test_case("rerun_it", DefinitionKind::Tool => None; "another beginning")]
    #[test_case("execute_command", DefinitionKind::Prompt => None; "a prompt of that name")]
    fn tools_that_are_blocked(name: &str, kind: DefinitionKind) -> Option<ObjectionEffect> {
        let mut policy = Policy::default();
        policy.rules.blocked_tools = ["execute_command", "run_*"].map(SpellingGlob::new).into();
        Stage::new(policy).judge_kind(&BlockedTools, kind, name)
    }
}
