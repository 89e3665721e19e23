//! The list of tools that may, or may not, be called.

use mcpmon_detect::meaning::looks;
use mcpmon_model::{Digest, ServerId, Severity};
use mcpmon_policy::{
    Policy,
    rules::{ConditionReading, Rules, Spellings, ToolEntry, ToolPolicy},
};

use super::{About, Objection, ObjectionEffect, Rule, RuleContext};
use crate::definitions::Offers;
use crate::wording::{command, explaining};

/// The rule's name in events.
const RULE: &str = "tool_policy";

/// The tool is denied, or is not among the allowed ones, or is listed with a definition other than the allowed one.
pub(super) struct ToolLists;

impl Rule for ToolLists {
    fn about(&self) -> &'static About {
        &About {
            names: &["tool_policy"],
            keys: &["mcp.tool_policy", "mcp.allowed_tools", "mcp.denied_tools"],
            what: "a tool that is denied, not allowed, or allowed with another definition is blocked",
        }
    }

    fn judge(&self, scene: &RuleContext<'_>) -> Option<Objection> {
        let tool = scene.tool()?;
        let mut lists = scene.policy.rules.layers().map(|rules| &rules.tools);
        lists.find_map(|list| Self::refuses(scene, tool, list))
    }
}

impl ToolLists {
    fn refuses(scene: &RuleContext<'_>, tool: &str, list: &ToolPolicy) -> Option<Objection> {
        let seen = scene.entry().map(|entry| entry.record.seen.hash);
        match list {
            ToolPolicy::None => None,
            ToolPolicy::Denylist(denied) => {
                let names = Names::of(scene, tool);
                let mut entries = denied
                    .iter()
                    .filter(|entry| names.are_meant(entry, ConditionReading::Wide));
                // An unknown definition may be the denied one.
                let is_denied = entries.any(|entry| {
                    entry
                        .content_hash
                        .is_none_or(|hash| seen.is_none_or(|seen| seen == hash))
                });
                is_denied.then(|| refused(scene, "is denied (`mcp.denied_tools`)", explaining(RULE)))
            }
            ToolPolicy::Allowlist(allowed) => match standing(scene, tool, allowed, seen) {
                ListStanding::Allowed => None,
                ListStanding::Unlisted => {
                    let mut why = "is not among the allowed ones (`mcp.allowed_tools`)".to_owned();
                    if Names::of(scene, tool).are_listed_as_given(allowed) {
                        why.push_str(&only_given(scene));
                    }
                    Some(refused(scene, &why, explaining(RULE)))
                }
                ListStanding::Differs(listed) => {
                    let is = seen.map_or_else(|| "not known".to_owned(), |seen| seen.to_string());
                    let why =
                        format!("is allowed with the definition {listed} alone, and its definition is {is}");
                    let subject = format!("{}:{tool}", scene.server);
                    Some(refused(scene, &why, command(&["registry", "show", &subject])))
                }
            },
        }
    }
}

/// Returns the objection to a tool by the name that a model uses; `server` is `None` for a tool without a server, to
/// which an entry for every server applies too. An entry for one definition applies to that definition only.
pub(crate) fn denied(
    policy: &Policy,
    server: Option<&ServerId>,
    name: &str,
    subject: impl Fn() -> String,
) -> Option<Objection> {
    let tool = Spellings::new(name, &looks(name));
    let server = server.map(|server| Spellings::new(server.as_str(), &looks(server.as_str())));
    let is_meant = |entry: &&ToolEntry| {
        let is_served = match &server {
            Some(server) => entry.server.is_meant(server, ConditionReading::Wide),
            None => entry.server.as_str().chars().all(|c| c == '*'),
        };
        entry.content_hash.is_none() && is_served && entry.tool.is_meant(&tool, ConditionReading::Wide)
    };
    let mut denied = policy.rules.layers().flat_map(|rules| match &rules.tools {
        ToolPolicy::Denylist(denied) => denied.as_slice(),
        ToolPolicy::None | ToolPolicy::Allowlist(_) => &[],
    });
    let entry = denied.find(is_meant)?;
    Some(Objection {
        rule: RULE.into(),
        effect: ObjectionEffect::Block,
        severity: Severity::High,
        reason: format!(
            "{} is {}, which is denied (`mcp.denied_tools`)",
            subject(),
            entry.tool.as_str()
        ),
        remedy: Some(explaining(RULE)),
    })
}

/// Returns whether `rules` allow the tool, with its definition.
pub(super) fn is_allowed(scene: &RuleContext<'_>, rules: &Rules) -> bool {
    let ToolPolicy::Allowlist(allowed) = &rules.tools else {
        return false;
    };
    let seen = scene.entry().map(|entry| entry.record.seen.hash);
    scene
        .tool()
        .is_some_and(|tool| standing(scene, tool, allowed, seen) == ListStanding::Allowed)
}

/// The standing of a tool on the list of allowed tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListStanding {
    Allowed,
    /// The tool is listed with another definition.
    Differs(Digest),
    Unlisted,
}

fn standing(
    scene: &RuleContext<'_>,
    tool: &str,
    allowed: &[ToolEntry],
    seen: Option<Digest>,
) -> ListStanding {
    let names = Names::of(scene, tool);
    let mut standing = ListStanding::Unlisted;
    for entry in allowed
        .iter()
        .filter(|entry| names.are_meant(entry, ConditionReading::Narrow))
    {
        match entry.content_hash {
            None => return ListStanding::Allowed,
            Some(hash) if seen == Some(hash) => return ListStanding::Allowed,
            Some(hash) => standing = ListStanding::Differs(hash),
        }
    }
    standing
}

/// The names of a tool and of its server.
struct Names<'a> {
    offers: &'a Offers,
    given: &'a ServerId,
    server: Spellings<'a>,
    tool: Spellings<'a>,
}

impl<'a> Names<'a> {
    fn of(scene: &RuleContext<'a>, tool: &'a str) -> Self {
        let server = scene.server.as_str();
        Self {
            offers: scene.offers,
            given: scene.server,
            server: Spellings::new(server, &looks(server)),
            tool: Spellings::new(tool, &looks(tool)),
        }
    }

    /// Returns whether an entry means the tool. The name that a client gives its server permits nothing.
    fn are_meant(&self, entry: &ToolEntry, reading: ConditionReading) -> bool {
        let is_served = match reading {
            ConditionReading::Wide => {
                entry.server.serves(&self.server, reading)
                    || self.offers.is_permitted_by(&entry.server, self.given)
            }
            ConditionReading::Narrow => self.offers.is_permitted_by(&entry.server, self.given),
        };
        is_served && entry.tool.is_meant(&self.tool, reading)
    }

    /// Returns whether an entry would permit the tool if the name that a client gives its server permitted anything.
    fn are_listed_as_given(&self, allowed: &[ToolEntry]) -> bool {
        let reading = ConditionReading::Narrow;
        allowed.iter().any(|entry| {
            entry.server.serves(&self.server, reading) && entry.tool.is_meant(&self.tool, reading)
        })
    }
}

/// Returns the explanation that only the name which a client gives is listed.
fn only_given(scene: &RuleContext<'_>) -> String {
    let own = scene.offers.own.as_ref();
    let own = own.map_or_else(String::new, |own| match &own.package {
        Some(package) => package.to_string(),
        None => own.derived.to_string(),
    });
    format!(
        "; only its client calls it `{}`: name `{own}`, or declare it in `mcp.servers`",
        scene.server
    )
}

fn refused(scene: &RuleContext<'_>, why: &str, remedy: String) -> Objection {
    Objection {
        rule: RULE.into(),
        effect: ObjectionEffect::Block,
        severity: Severity::High,
        reason: format!("{} {why}", scene.subject()),
        remedy: Some(remedy),
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_policy::{Policy, rules::SpellingGlob};
    use test_case::test_case;

    use super::*;
    use crate::rules::fixture::Stage;

    fn entry(server: &str, tool: &str, content_hash: Option<Digest>) -> ToolEntry {
        ToolEntry {
            server: SpellingGlob::new(server),
            tool: SpellingGlob::new(tool),
            content_hash,
        }
    }

    fn stage(tools: ToolPolicy) -> Stage {
        let mut policy = Policy::default();
        policy.rules.tools = tools;
        let mut stage = Stage::new(policy);
        stage.list(&[("read_file", "a"), ("Exec-Now", "b"), ("exеc_it", "c")]);
        stage
    }

    #[test_case("*", "read_*", "read_file" => None; "allowed")]
    #[test_case("FILES", "read_file", "read_file" => None; "the server in another spelling")]
    #[test_case("*", "READ_FILE", "read_file" => Some(ObjectionEffect::Block); "another case")]
    #[test_case("*", "read-file", "read_file" => Some(ObjectionEffect::Block); "another spelling")]
    #[test_case("*", "read_file", "reаd_file" => Some(ObjectionEffect::Block); "a look-alike")]
    #[test_case("*", "read_file", "read\u{200b}_file" => Some(ObjectionEffect::Block); "a character that takes no place")]
    #[test_case("*", "write_*", "read_file" => Some(ObjectionEffect::Block); "another tool is")]
    #[test_case("other", "read_*", "read_file" => Some(ObjectionEffect::Block); "on another server")]
    #[test_case("*", "exec_*", "exеc_it" => Some(ObjectionEffect::Block); "what looks allowed is not")]
    #[test_case("*", "*", "unknown" => None; "unknown ones too")]
    fn allowed_tools(server: &str, tool: &str, called: &str) -> Option<ObjectionEffect> {
        stage(ToolPolicy::Allowlist(vec![entry(server, tool, None)])).judge(&ToolLists, called)
    }

    #[test_case("*", "exec_*", "Exec-Now" => Some(ObjectionEffect::Block); "denied in another spelling")]
    #[test_case("*", "exec_*", "exеc_it" => Some(ObjectionEffect::Block); "what looks denied is denied")]
    #[test_case("*", "exec_*", "read_file" => None; "another tool is")]
    #[test_case("other", "*", "read_file" => None; "on another server")]
    #[test_case("f?les", "*", "read_file" => Some(ObjectionEffect::Block); "by its server")]
    fn denied_tools(server: &str, tool: &str, called: &str) -> Option<ObjectionEffect> {
        stage(ToolPolicy::Denylist(vec![entry(server, tool, None)])).judge(&ToolLists, called)
    }

    fn hash(stage: &mut Stage, tool: &str) -> Digest {
        let mut hash = None;
        stage.with(tool, |entry| hash = Some(entry.record.seen.hash));
        hash.expect("it was listed")
    }

    #[test]
    fn a_definition_that_is_not_the_allowed_one_is_named() {
        let other = Digest::of(b"another definition");
        let mut stage = stage(ToolPolicy::Allowlist(vec![entry("*", "read_file", Some(other))]));
        let seen = hash(&mut stage, "read_file");
        let objection = stage
            .judge_call(&ToolLists, "read_file", "{}")
            .expect("it differs");
        assert_eq!(
            objection.reason,
            format!(
                "tool read_file of files is allowed with the definition {other} alone, and its definition is {seen}"
            )
        );
        assert_eq!(
            objection.remedy.as_deref(),
            Some("mcpmon registry show files:read_file")
        );
        stage.policy.rules.tools = ToolPolicy::Allowlist(vec![
            entry("*", "read_file", Some(other)),
            entry("*", "read_file", Some(seen)),
        ]);
        assert_eq!(stage.judge(&ToolLists, "read_file"), None);
    }

    #[test]
    fn a_definition_alone_can_be_denied() {
        let mut stage = stage(ToolPolicy::None);
        let seen = hash(&mut stage, "read_file");
        stage.policy.rules.tools = ToolPolicy::Denylist(vec![entry("*", "*", Some(seen))]);
        assert_eq!(stage.judge(&ToolLists, "read_file"), Some(ObjectionEffect::Block));
        assert_eq!(stage.judge(&ToolLists, "Exec-Now"), None);
        assert_eq!(
            stage.judge(&ToolLists, "unknown"),
            Some(ObjectionEffect::Block),
            "its definition may be that one"
        );
    }
}
