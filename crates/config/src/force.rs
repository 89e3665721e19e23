//! Keys that a file sets without effect in this version.

use std::{collections::BTreeSet, fmt};

use jiff::civil::Date;

use super::{
    load::{KeyPath, Node, Value},
    raw::{ListMode, Mcp},
};

/// A key that is set and has no effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotInForce {
    /// The key, `[]` standing for any element of a list: `mcp.servers[].env_deny`.
    pub key: String,
    /// The cause.
    pub cause: Cause,
}

/// The reason why a key has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// This version does not enforce it yet.
    NotYet,
    /// The key is read only if another key has this value.
    Needs(&'static str),
    /// The key was valid up to this day.
    Expired(Date),
}

impl fmt::Display for NotInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::NotYet => f.write_str(&self.key),
            Cause::Needs(setting) => write!(f, "{} (needs `{setting}`)", self.key),
            Cause::Expired(until) => write!(f, "{} (expired: `until: {until}`)", self.key),
        }
    }
}

/// Keys whose whole value is in force.
const IN_FORCE: &[&str] = &[
    "version",
    "mode",
    "mcp.servers[].id",
    "mcp.servers[].type",
    "mcp.servers[].command",
    "mcp.servers[].args",
    "mcp.servers[].url",
    "mcp.servers[].tls_fingerprint",
    "mcp.servers[].egress",
    "mcp.servers[].env_allow",
    "mcp.servers[].env_deny",
    "mcp.servers[].sandbox",
    "mcp.enforce_policy",
    "mcp.fail_closed",
    "mcp.server_policy",
    "mcp.allowed_servers",
    "mcp.denied_servers",
    "mcp.tool_policy",
    "mcp.allowed_tools",
    "mcp.denied_tools",
    "mcp.defaults",
    "mcp.blocked_tools",
    "mcp.rules",
    "mcp.blocked_resources",
    "mcp.resource_rules",
    "mcp.value_limits",
    "mcp.version_pinning",
    "mcp.detection.enabled",
    "mcp.detection.server_patterns",
    "mcp.detection.custom_servers",
    "mcp.detection.exclude_servers",
    "mcp.detection.builtin",
    "mcp.detection.custom_patterns",
    "mcp.detection.alert_threshold",
    "mcp.detection.act_threshold",
    "mcp.detection.on_detection",
    "mcp.detection.on_new_tool",
    "mcp.rate_limits",
    "mcp.cross_server",
    "mcp.categories",
    "mcp.output_inspection",
    "mcp.config_guard",
    "mcp.argument_inspection",
    "mcp.suppressions",
    "mcp.sampling",
    "mcp.elicitation",
    "mcp.prompts",
    "mcp.completion",
    "mcp.native_tools",
    "mcp.discovery",
    "mcp.registry.pin_on_first_use",
    "mcp.limits",
    "mcp.approvals",
    "network.enforce",
    "network.watch",
    "network.deny",
    "network.agents",
    "network.resolve_interval",
    "network.proxy_bypass",
    "exec.gate",
    "exec.unwrapped",
    "proxy.mode",
    "proxy.listen",
    "proxy.listen_unix",
    "proxy.token_file",
    "proxy.providers",
    "dlp.mode",
    "llm_storage",
    "record.path",
    "record.jsonl",
    "record.webhook_url",
    "record.webhook_key_file",
    "record.webhook_min_severity",
    "record.retention",
    "record.max_size",
];

/// Keys of `mcp` that are read only where `enforce_policy` is on.
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

/// The keys of `tree` without effect, in alphabetical order. One that asks for nothing (an empty list, an empty
/// text) is none of them; one that repeats its default is, because the default has no effect either. `today` is in UTC.
pub(super) fn not_in_force(tree: &Node, mcp: &Mcp, today: Date) -> Vec<NotInForce> {
    let mut found = BTreeSet::new();
    collect(tree, "", &mut found);
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

fn collect(node: &Node, path: &str, found: &mut BTreeSet<NotInForce>) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                let key = match path {
                    "" => entry.key.clone(),
                    _ => format!("{path}.{}", entry.key),
                };
                visit(&entry.node, key, found);
            }
        }
        Value::List(items) => {
            let key = format!("{path}[]");
            for item in items {
                collect(&item.node, &key, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::Text(_) => {}
    }
}

fn visit(node: &Node, key: String, found: &mut BTreeSet<NotInForce>) {
    if IN_FORCE.contains(&key.as_str()) || asks_for_nothing(node) {
        return;
    }
    let partly = |known: &str| {
        known
            .strip_prefix(key.as_str())
            .is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    if IN_FORCE.iter().copied().any(partly) {
        return collect(node, &key, found);
    }
    found.insert(NotInForce {
        key,
        cause: Cause::NotYet,
    });
}

const fn asks_for_nothing(node: &Node) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Text(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => false,
    }
}
