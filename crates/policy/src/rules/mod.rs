//! Rules over calls and reads: lists of tools, rules, and limits of numbers. Everything is compiled when it
//! is loaded.

mod argument;
mod names;
mod pattern;

pub use argument::{ArgumentPath, ArgumentPathError};
pub use names::{SpellingGlob, Spellings};
pub use pattern::{PathGlob, Pattern, PatternError};

use mcpmon_model::{Decimal, Digest, NameGlob};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lists and rules over calls and resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The tools that may be called.
    pub tools: ToolPolicy,
    /// The decision about a call or a read that no rule matches.
    pub default: Decision,
    /// Tools that may never be called.
    pub blocked_tools: Vec<SpellingGlob>,
    /// Rules over calls, in the order of the file.
    pub calls: Vec<CallRule>,
    /// Resources that may never be read.
    pub blocked_resources: Vec<UriGlob>,
    /// Rules over resources, in the order of the file.
    pub resources: Vec<ResourceRule>,
    /// Bounds of numbers in arguments, in the order of the file.
    pub limits: Vec<ValueLimit>,
    /// The rules of a second policy, which must also allow a use: see [`Rules::tightened_by`].
    pub on_top: Option<Box<Self>>,
}

/// The decision of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    /// Lets it through.
    Allow,
    /// Lets it through and records it as notable.
    #[default]
    Audit,
    /// Holds it until a person answers.
    Ask,
    /// Stops it.
    Block,
}

/// `mcp.tool_policy` with its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolPolicy {
    /// Every tool.
    #[default]
    None,
    /// Only those that match.
    Allowlist(Vec<ToolEntry>),
    /// All but those that match.
    Denylist(Vec<ToolEntry>),
}

/// Tools, by server and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolEntry {
    /// Their servers.
    pub server: SpellingGlob,
    /// Their names.
    pub tool: SpellingGlob,
    /// Their definition, if the entry is for one definition only.
    pub content_hash: Option<Digest>,
}

/// A rule over calls.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRule {
    /// The name of the rule in events; unique.
    pub id: String,
    /// The tools that the rule applies to.
    pub tool: ToolMatch,
    /// The servers that the rule applies to; `None` for all.
    pub server: Option<SpellingGlob>,
    /// The conditions on arguments; all must hold.
    pub arguments: Vec<(ArgumentPath, PathGlob)>,
    /// The decision of the rule.
    pub decision: Decision,
    /// The reason, without a full stop; may be empty.
    pub reason: String,
}

/// Conditions on a tool's name, all of which must be met. Without any condition every name matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolMatch {
    /// A glob for the whole name.
    pub name: Option<SpellingGlob>,
    /// Globs for the whole name, one of which must match; empty for any name.
    pub any: Vec<SpellingGlob>,
    /// A regular expression that must match somewhere in the name.
    pub regex: Option<Pattern>,
}

/// A rule over resources.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRule {
    /// The name of the rule in events; unique.
    pub id: String,
    /// A glob for the whole URI.
    pub uri: Option<UriGlob>,
    /// A regular expression that must match somewhere in the URI.
    pub regex: Option<Pattern>,
    /// Its scheme, in lower case.
    pub scheme: Option<String>,
    /// The decision of the rule.
    pub decision: Decision,
    /// The reason, without a full stop; may be empty.
    pub reason: String,
}

/// Bounds of a number in a call's arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueLimit {
    /// The name of the rule in events; unique.
    pub id: String,
    /// The tools that the limit applies to.
    pub tool: ToolMatch,
    /// The argument it limits.
    pub argument: ArgumentPath,
    /// Smallest value.
    pub min: Option<Decimal>,
    /// Largest value.
    pub max: Option<Decimal>,
    /// The decision outside the bounds; not [`Decision::Allow`].
    pub decision: Decision,
    /// The reason, without a full stop; may be empty.
    pub reason: String,
}

/// A glob over URIs, in which `*` also matches `/`. The case of scheme and host is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriGlob {
    written: NameGlob,
    lowered: NameGlob,
}

/// The strictness of a condition: for a refusing rule every doubt is a match, for an allowing rule none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionReading {
    /// A value that matches in any of its meanings is a match.
    Wide,
    /// A value is a match only if every one of its meanings is.
    Narrow,
}

impl Rules {
    /// Combines these rules with `others`: both must allow a use, each by its own lists, rules and default.
    #[must_use]
    pub fn tightened_by(mut self, others: Self) -> Self {
        self.on_top = Some(Box::new(match self.on_top {
            Some(above) => above.tightened_by(others),
            None => others,
        }));
        self
    }

    /// Returns each set of rules, all of which must allow a use.
    pub fn layers(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rules| rules.on_top.as_deref())
    }
}

impl Decision {
    /// Returns the name used in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Audit => "audit",
            Self::Ask => "ask",
            Self::Block => "block",
        }
    }

    /// Returns the reading of the conditions of a rule with this decision.
    pub const fn reading(self) -> ConditionReading {
        match self {
            Self::Allow => ConditionReading::Narrow,
            Self::Audit | Self::Ask | Self::Block => ConditionReading::Wide,
        }
    }
}

impl ConditionReading {
    /// Returns whether something with these meanings matches.
    pub fn holds<T>(self, meanings: impl IntoIterator<Item = T>, matches: impl FnMut(T) -> bool) -> bool {
        let mut meanings = meanings.into_iter();
        match self {
            Self::Wide => meanings.any(matches),
            Self::Narrow => meanings.all(matches),
        }
    }
}

impl ToolMatch {
    /// Returns whether no condition is given.
    pub const fn is_empty(&self) -> bool {
        self.name.is_none() && self.any.is_empty() && self.regex.is_none()
    }

    /// Returns whether `name` meets every condition.
    pub fn matches(&self, name: &Spellings<'_>, reading: ConditionReading) -> bool {
        let is_named = |glob: &SpellingGlob| glob.is_meant(name, reading);
        let is_found = |pattern: &Pattern| match reading {
            ConditionReading::Wide => name.texts().into_iter().any(|text| pattern.is_in(text)),
            ConditionReading::Narrow => pattern.is_in(name.written()),
        };
        self.name.as_ref().is_none_or(is_named)
            && (self.any.is_empty() || self.any.iter().any(is_named))
            && self.regex.as_ref().is_none_or(is_found)
    }
}

impl SpellingGlob {
    /// Returns whether the glob matches a server of this `name`. Clients name servers, in many spellings of one name.
    pub fn serves(&self, name: &Spellings<'_>, reading: ConditionReading) -> bool {
        match reading {
            ConditionReading::Wide => self.resembles(name),
            ConditionReading::Narrow => self.names(name),
        }
    }

    /// Returns whether the glob matches a tool of this `name`. Servers name tools, so a rule that allows a tool matches
    /// no other spelling.
    pub fn is_meant(&self, name: &Spellings<'_>, reading: ConditionReading) -> bool {
        match reading {
            ConditionReading::Wide => self.resembles(name),
            ConditionReading::Narrow => self.is_exactly(name),
        }
    }
}

impl ResourceRule {
    /// Returns whether a resource whose URI can be written in these `forms` meets every condition.
    pub fn matches(&self, forms: &[String]) -> bool {
        self.is_met(forms, self.decision.reading())
    }

    /// Returns whether each of these forms meets every condition.
    pub fn is_beyond_doubt(&self, forms: &[String]) -> bool {
        self.is_met(forms, ConditionReading::Narrow)
    }

    fn is_met(&self, forms: &[String], reading: ConditionReading) -> bool {
        self.uri
            .as_ref()
            .is_none_or(|glob| reading.holds(forms, |form| glob.matches(form)))
            && self
                .regex
                .as_ref()
                .is_none_or(|regex| reading.holds(forms, |form| regex.is_in(form)))
            && self.scheme.as_ref().is_none_or(|scheme| {
                reading.holds(forms, |form| {
                    form.split_once(':')
                        .is_some_and(|(of, _)| of.eq_ignore_ascii_case(scheme))
                })
            })
    }
}

impl UriGlob {
    /// Builds a glob from `pattern`, which is used as it is.
    pub fn new(pattern: &str) -> Self {
        let origin = match pattern.split_once("://") {
            Some((scheme, rest)) => scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()),
            None => pattern.find(':').unwrap_or(0),
        };
        let (origin, rest) = pattern.split_at(origin);
        Self {
            written: NameGlob::new(pattern),
            lowered: NameGlob::new(origin.to_lowercase() + rest),
        }
    }

    /// Returns the glob as it is written.
    pub fn as_str(&self) -> &str {
        self.written.as_str()
    }

    /// Returns whether the whole of `uri` matches.
    pub fn matches(&self, uri: &str) -> bool {
        self.written.matches(uri) || self.lowered.matches(uri)
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("Secret://*", "secret://a/B" => true; "scheme in any case")]
    #[test_case("https://Example.com/A*", "https://example.com/Abc" => true; "host in any case")]
    #[test_case("https://Example.com/A*", "https://example.com/abc" => false; "path as written")]
    #[test_case("*", "anything:at/all" => true; "everything")]
    fn uri_globs(pattern: &str, uri: &str) -> bool {
        UriGlob::new(pattern).matches(uri)
    }

    #[test]
    fn conditions_on_a_name_must_all_be_met() {
        let name = |name| Spellings::new(name, name);
        let rule = ToolMatch {
            name: Some(SpellingGlob::new("send_*")),
            any: vec![SpellingGlob::new("*_mail"), SpellingGlob::new("*_money")],
            regex: Pattern::new("^send").ok(),
        };
        assert!(rule.matches(&name("send_mail"), ConditionReading::Narrow));
        assert!(!rule.matches(&name("send_note"), ConditionReading::Narrow));
        assert!(rule.matches(&name("Send-Mail"), ConditionReading::Wide));
        assert!(!rule.matches(&name("Send-Mail"), ConditionReading::Narrow));
        assert!(ToolMatch::default().matches(&name("anything"), ConditionReading::Narrow));
    }
}
