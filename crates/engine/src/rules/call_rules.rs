//! The configured rules over calls.

use std::cell::OnceCell;

use mcpmon_detect::{
    arguments::{Argument, ArgumentKind},
    meaning::{looks, paths},
};
use mcpmon_policy::{
    Decision,
    rules::{ArgumentPath, CallRule, ConditionReading, PathGlob, Rules, Spellings},
};

use super::{About, CallContext, Objection, Rule, RuleContext, stated};

/// Rules over calls that match and do not allow. Each gives its own objection; the first that blocks decides.
pub(super) struct CallRules;

impl Rule for CallRules {
    fn about(&self) -> &'static About {
        &About {
            names: &[],
            keys: &["mcp.rules"],
            what: "configured rules over calls: of those that match the most restrictive holds, but one that allows answers those that ask",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        self.every(scene)
            .into_iter()
            .max_by_key(|objection| objection.effect)
    }

    fn every(&self, scene: &RuleContext<'_>) -> Vec<Objection> {
        let mut said = Vec::new();
        for rules in scene.policy.rules.layers() {
            let Some(matcher) = Matcher::of(scene, rules) else {
                continue;
            };
            let is_answered = OnceCell::new();
            let is_answered = || *is_answered.get_or_init(|| matcher.is_allowed(rules));
            said.extend(rules.calls.iter().filter_map(|rule| {
                // A list shows what cannot be called at all.
                let is_meant = match rule.decision {
                    Decision::Block => true,
                    Decision::Ask => scene.call.is_some() && !is_answered(),
                    Decision::Allow | Decision::Audit => scene.call.is_some(),
                };
                let is_met = is_meant && matcher.is_met(rule, rule.decision.reading());
                is_met.then(|| stated(scene, &rule.id, rule.decision, &rule.reason))?
            }));
        }
        said.sort_by_key(|objection| objection.effect);
        said
    }
}

/// Returns the rules that certainly match: with one of them, the default does not apply. For a tool that is only
/// listed, those that may match its calls.
pub(super) fn beyond_doubt<'a>(scene: &RuleContext<'a>, rules: &'a Rules) -> Vec<&'a CallRule> {
    let Some(matcher) = Matcher::of(scene, rules) else {
        return Vec::new();
    };
    let rules = rules.calls.iter();
    rules
        .filter(|rule| match scene.call {
            Some(_) => matcher.is_met(rule, ConditionReading::Narrow),
            None => matcher.is_named(rule, ConditionReading::Narrow),
        })
        .collect()
}

/// A call, or a tool that is listed, in the forms that rules look at.
struct Matcher<'a> {
    tool: Spellings<'a>,
    server: Spellings<'a>,
    values: Option<Vec<ArgumentValue<'a>>>,
}

/// A value of an argument.
struct ArgumentValue<'a> {
    argument: Argument<'a>,
    meanings: OnceCell<Vec<String>>,
}

impl<'a> Matcher<'a> {
    /// Returns the matcher; `None` if no tool is used, or there is no rule.
    fn of(scene: &RuleContext<'a>, rules: &Rules) -> Option<Self> {
        let tool = scene.tool()?;
        let rules = &rules.calls;
        if rules.is_empty() {
            return None;
        }
        let server = scene.server.as_str();
        Some(Self {
            tool: Spellings::new(tool, &looks(tool)),
            server: Spellings::new(server, &looks(server)),
            values: scene
                .call
                .map(|call| match rules.iter().all(|rule| rule.arguments.is_empty()) {
                    true => Vec::new(),
                    false => values(call),
                }),
        })
    }

    fn is_named(&self, rule: &CallRule, reading: ConditionReading) -> bool {
        let is_served = |server: &mcpmon_policy::rules::SpellingGlob| server.serves(&self.server, reading);
        rule.tool.matches(&self.tool, reading) && rule.server.as_ref().is_none_or(is_served)
    }

    /// Returns whether one of `rules` allows the call beyond doubt: then the others do not ask about it.
    fn is_allowed(&self, rules: &Rules) -> bool {
        let mut rules = rules.calls.iter();
        rules.any(|rule| rule.decision == Decision::Allow && self.is_met(rule, ConditionReading::Narrow))
    }

    fn is_met(&self, rule: &CallRule, reading: ConditionReading) -> bool {
        let is_argued = |values: &Vec<ArgumentValue<'_>>| {
            let mut conditions = rule.arguments.iter();
            conditions.all(|(path, glob)| is_argued(values, path, glob, reading))
        };
        self.is_named(rule, reading) && self.values.as_ref().map_or(rule.arguments.is_empty(), is_argued)
    }
}

fn values(call: CallContext<'_>) -> Vec<ArgumentValue<'_>> {
    let arguments = call.arguments.iter();
    arguments
        .filter(|argument| argument.kind() != ArgumentKind::Key)
        .map(|argument| ArgumentValue {
            argument,
            meanings: OnceCell::new(),
        })
        .collect()
}

/// Returns whether an argument is as a condition wants it. Of several values one is enough for a rule that
/// refuses; one that allows needs all of them, and one right where the condition names it.
fn is_argued(
    values: &[ArgumentValue<'_>],
    path: &ArgumentPath,
    glob: &PathGlob,
    reading: ConditionReading,
) -> bool {
    let mut meant = values.iter().filter(|value| covers(path, &value.argument));
    let matches =
        |value: &ArgumentValue<'_>| reading.holds(value.meanings(), |meaning| glob.matches(meaning));
    match reading {
        ConditionReading::Wide => meant.any(matches),
        ConditionReading::Narrow => {
            let is_there = values.iter().any(|value| path.is_at(value.argument.members()));
            is_there && meant.all(matches)
        }
    }
}

/// Returns whether a path names an argument, by its name or by the form in which the name looks.
pub(super) fn covers(path: &ArgumentPath, argument: &Argument<'_>) -> bool {
    if path.covers(argument.members()) {
        return true;
    }
    if argument.members().all(str::is_ascii) {
        return false;
    }
    let looks: Vec<_> = argument.members().map(looks).collect();
    path.covers(looks.iter().map(AsRef::as_ref))
}

impl ArgumentValue<'_> {
    fn meanings(&self) -> &[String] {
        self.meanings.get_or_init(|| paths(self.argument.text()))
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::{
        Policy,
        rules::{Pattern, SpellingGlob, ToolMatch},
    };
    use test_case::test_case;

    use super::*;
    use crate::rules::{ObjectionEffect, fixture::Stage};

    fn rule(id: &str, decision: Decision, arguments: &[(&str, &str)]) -> CallRule {
        let condition = |(path, glob): &(&str, &str)| {
            (
                ArgumentPath::new(path).expect("a way"),
                PathGlob::new(glob).expect("a glob"),
            )
        };
        CallRule {
            id: id.to_owned(),
            tool: ToolMatch::default(),
            server: None,
            arguments: arguments.iter().map(condition).collect(),
            decision,
            reason: String::new(),
        }
    }

    fn stage(rules: Vec<CallRule>) -> Stage {
        let mut policy = Policy::default();
        policy.rules.calls = rules;
        Stage::new(policy)
    }

    #[test_case(r#"{"path":"/home/me/.ssh/id_rsa"}"#, true; "as written")]
    #[test_case(r#"{"path":"/home/me/.ssh"}"#, true; "the directory")]
    #[test_case(r#"{"path":"/home/me/x/../.ssh/id_rsa"}"#, true; "a step back")]
    #[test_case(r#"{"path":"/home/me//.ssh//id_rsa"}"#, true; "empty parts")]
    #[test_case(r#"{"path":"~/.ssh/id_rsa"}"#, true; "home")]
    #[test_case(r#"{"path":"file:///home/me/.ssh/id_rsa"}"#, true; "file uri")]
    #[test_case(r#"{"path":"/home/me/%2essh/id_rsa"}"#, true; "percent")]
    #[test_case(r#"{"path":"/home/me/%252essh/id_rsa"}"#, true; "percent twice")]
    #[test_case(r#"{"path":"C:\\Users\\me\\.ssh\\id_rsa"}"#, true; "backslashes")]
    #[test_case(r#"{"path":["/tmp/a","/home/me/.ssh/id_rsa"]}"#, true; "one of several")]
    #[test_case(r#"{"options":{"path":"/home/me/.ssh/id_rsa"}}"#, true; "further down")]
    #[test_case(r#"{"path":{"value":"/home/me/.ssh/id_rsa"}}"#, true; "within")]
    #[test_case(r#"{"PATH":"/home/me/.ssh/id_rsa"}"#, true; "in another case")]
    #[test_case(r#"{"рath":"/home/me/.ssh/id_rsa"}"#, true; "a name that looks like it")]
    #[test_case("{\"pa\u{200b}th\":\"/home/me/.ssh/id_rsa\"}", true; "a name with a character that takes no place")]
    #[test_case(r#"{"путь":"/home/me/.ssh/id_rsa"}"#, false; "another name in another script")]
    #[test_case(r#"{"path":"/home/me/.sshd/x"}"#, false; "another directory")]
    #[test_case(r#"{"path":"/home/me/.ssh/../notes"}"#, true; "out of it again, as written")]
    #[test_case(r#"{"text":"/home/me/.ssh/id_rsa"}"#, false; "another argument")]
    #[test_case(r#"{"/home/me/.ssh/id_rsa":"path"}"#, false; "a key")]
    #[test_case("{}", false; "no argument")]
    fn what_refuses_holds_for_any_meaning(arguments: &str, blocks: bool) {
        let mut stage = stage(vec![rule("ssh", Decision::Block, &[("path", "**/.ssh/**")])]);
        let objection = stage.judge_call(&CallRules, "read", arguments);
        assert_eq!(
            objection.is_some_and(|objection| objection.effect == ObjectionEffect::Block),
            blocks
        );
    }

    #[test_case(r#"{"path":"/home/me/notes"}"#, true; "as written")]
    #[test_case(r#"{"path":["/home/me/a","/home/me/b"]}"#, true; "all of several")]
    #[test_case(r#"{"path":"/home/me/../../etc/shadow"}"#, false; "a step back")]
    #[test_case(r#"{"path":"/home/me/%2e%2e/you/notes"}"#, false; "percent")]
    #[test_case(r#"{"path":["/home/me/a","/etc/shadow"]}"#, false; "one of several")]
    #[test_case(r#"{"path":"/home/me/a","Path":"/etc/shadow"}"#, false; "another in another case")]
    #[test_case(r#"{"path":"/home/me/a","more":{"path":"/etc/shadow"}}"#, false; "another further down")]
    #[test_case(r#"{"path":"/home/me/a","рath":"/etc/shadow"}"#, false; "another that looks like it")]
    #[test_case(r#"{"PATH":"/home/me/a"}"#, false; "in another case alone")]
    #[test_case(r#"{"рath":"/home/me/a"}"#, false; "what looks like it alone")]
    #[test_case(r#"{"more":{"path":"/home/me/a"}}"#, false; "further down alone")]
    #[test_case("{}", false; "no argument")]
    fn what_allows_holds_for_every_meaning(arguments: &str, allows: bool) {
        let mut stage = stage(vec![rule("mine", Decision::Allow, &[("path", "/home/me/**")])]);
        assert_eq!(stage.judge_call(&CallRules, "read", arguments), None);
        assert_eq!(stage.is_beyond_doubt("read", arguments), allows);
    }

    #[test]
    fn blocks_come_last_and_audits_add_up() {
        let rules = vec![
            rule("stop", Decision::Block, &[]),
            rule("note", Decision::Audit, &[]),
            rule("let", Decision::Allow, &[]),
            rule("stop-too", Decision::Block, &[]),
        ];
        let mut stage = stage(rules);
        let said = stage.every(&CallRules, "read", "{}");
        let said: Vec<_> = said
            .iter()
            .map(|objection| (&*objection.rule, objection.effect))
            .collect();
        assert_eq!(
            said,
            [
                ("note", ObjectionEffect::Audit),
                ("stop", ObjectionEffect::Block),
                ("stop-too", ObjectionEffect::Block)
            ]
        );
    }

    #[test_case("send_mail", "files" => true; "all conditions")]
    #[test_case("Send-Mail", "files" => true; "another spelling")]
    #[test_case("ѕend_mail", "files" => true; "a look-alike")]
    #[test_case("resend_mail", "files" => false; "another name")]
    #[test_case("send_mail", "other" => false; "another server")]
    fn conditions_on_names(tool: &str, server: &str) -> bool {
        let mut rule = rule("send", Decision::Block, &[]);
        rule.tool.regex = Pattern::new("^send_").ok();
        rule.server = Some(SpellingGlob::new(server));
        stage(vec![rule]).judge_call(&CallRules, tool, "{}").is_some()
    }

    #[test_case(Decision::Block, &[] => Some(ObjectionEffect::Block); "what cannot be called")]
    #[test_case(Decision::Block, &[("path", "/etc/**")] => None; "what can be called with other arguments")]
    #[test_case(Decision::Audit, &[] => None; "what is noted when it is called")]
    fn of_a_list(decision: Decision, arguments: &[(&str, &str)]) -> Option<ObjectionEffect> {
        stage(vec![rule("id", decision, arguments)]).judge(&CallRules, "read")
    }
}
