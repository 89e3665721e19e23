//! Keys that a file sets without effect: another key switches them off, they have expired, or this version does not use
//! them yet.

use std::{collections::BTreeSet, fmt};

use jiff::civil::Date;

use super::{
    load::{KeyPath, Node, YamlValue},
    raw::{ListMode, Mcp},
};

/// A key that is set and has no effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotInForce {
    /// The key: `mcp.denied_servers`, `mcp.suppressions[0]`.
    pub key: String,
    /// The cause.
    pub cause: Cause,
}

/// The reason why a key has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The format has the key; this version does not use it.
    NotYet,
    /// The key has an effect only if another key has this value.
    Needs(&'static str),
    /// The key was valid up to this day.
    Expired(Date),
    /// A bundle is in force, and only the bundle can set the key.
    OfBundle,
}

impl fmt::Display for NotInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::NotYet => f.write_str(&self.key),
            Cause::Needs(setting) => write!(f, "{} (needs `{setting}`)", self.key),
            Cause::OfBundle => write!(f, "{} (taken from the bundle alone)", self.key),
            Cause::Expired(until) => write!(f, "{} (expired: `until: {until}`)", self.key),
        }
    }
}

/// Keys of the format, by section, that this version checks but does not use.
const NOT_YET: [(&[&str], &str); 1] = [(&["mcp", "registry"], "persistent")];

/// Keys of `mcp` that have an effect only if `enforce_policy` is on.
const POLICY: [&str; 18] = [
    "fail_closed",
    "server_policy",
    "allowed_servers",
    "denied_servers",
    "tool_policy",
    "allowed_tools",
    "denied_tools",
    "defaults",
    "blocked_tools",
    "rules",
    "blocked_resources",
    "resource_rules",
    "value_limits",
    "sampling",
    "elicitation",
    "prompts",
    "completion",
    "native_tools",
];

/// Returns the keys of `tree` without effect, in alphabetical order. A key that requests nothing (an empty list, an
/// empty text) is not included; one that repeats its default is, because the default has no effect either. `today` is
/// in UTC.
pub(super) fn not_in_force(tree: &Node, mcp: &Mcp, today: Date) -> Vec<NotInForce> {
    let mut found: BTreeSet<NotInForce> = not_yet(tree).collect();
    let lists = [
        (
            "mcp.allowed_servers",
            mcp.allowed_servers.is_empty() || mcp.server_policy == ListMode::Allowlist,
            "mcp.server_policy: allowlist",
        ),
        (
            "mcp.denied_servers",
            mcp.denied_servers.is_empty() || mcp.server_policy == ListMode::Denylist,
            "mcp.server_policy: denylist",
        ),
        (
            "mcp.allowed_tools",
            mcp.allowed_tools.is_empty() || mcp.tool_policy == ListMode::Allowlist,
            "mcp.tool_policy: allowlist",
        ),
        (
            "mcp.denied_tools",
            mcp.denied_tools.is_empty() || mcp.tool_policy == ListMode::Denylist,
            "mcp.tool_policy: denylist",
        ),
    ];
    for (key, is_read, setting) in lists {
        if !is_read {
            found.insert(NotInForce {
                key: key.to_owned(),
                cause: Cause::Needs(setting),
            });
        }
    }
    for (index, suppression) in mcp.suppressions.iter().enumerate() {
        if let Some(until) = suppression.until.as_ref().map(|until| until.0)
            && until < today
        {
            found.insert(NotInForce {
                key: format!("mcp.suppressions[{index}]"),
                cause: Cause::Expired(until),
            });
        }
    }
    if !mcp.enforce_policy {
        let section = KeyPath::root().key("mcp");
        let set = POLICY.iter().filter(|key| {
            let node = tree.find(&section.key(key));
            node.is_some_and(|node| !asks_for_nothing(node))
        });
        found.extend(set.map(|key| NotInForce {
            key: format!("mcp.{key}"),
            cause: Cause::Needs("mcp.enforce_policy: true"),
        }));
    }
    found.into_iter().collect()
}

fn not_yet(tree: &Node) -> impl Iterator<Item = NotInForce> {
    let is_set = |path: &KeyPath| tree.find(path).is_some_and(|node| !asks_for_nothing(node));
    let paths = NOT_YET.iter().map(|(sections, key)| {
        let section = sections.iter().fold(KeyPath::root(), |path, name| path.key(name));
        section.key(key)
    });
    paths.filter(is_set).map(|path| NotInForce {
        key: tree.written(&path),
        cause: Cause::NotYet,
    })
}

const fn asks_for_nothing(node: &Node) -> bool {
    match &node.value {
        YamlValue::Null => true,
        YamlValue::Text(text) => text.is_empty(),
        YamlValue::List(items) => items.is_empty(),
        YamlValue::Map(entries) => entries.is_empty(),
        YamlValue::Bool(_) | YamlValue::Integer(_) | YamlValue::Float(_) => false,
    }
}
