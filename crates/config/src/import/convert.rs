//! Conversion of another tool's file: each value is put at the mcpmon key that the tables name.

use std::collections::BTreeMap;

use super::{
    ImportedTool, Note, NoteKind, ValuePlaces,
    tables::{self, Act, ImportRow, RULES},
};
use crate::{
    load::{KeyPath, ListItem, MapEntry, Node, YamlValue, merge},
    mistake::Place,
};

/// Patterns that agentsh has built in; mcpmon recognises these servers without them.
const KNOWN_SERVERS: [&str; 5] = [
    "@modelcontextprotocol/*",
    "mcp-server-*",
    "*-mcp-server",
    "mcp_server_*",
    "uvx mcp-server-*",
];
/// Lists that take effect in one mode only: the list, the key of the mode, the value it needs.
const MODES: [(&str, &str, &str); 4] = [
    ("allowed_servers", "server_policy", "allowlist"),
    ("denied_servers", "server_policy", "denylist"),
    ("allowed_tools", "tool_policy", "allowlist"),
    ("denied_tools", "tool_policy", "denylist"),
];

/// The draft of a configuration.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) tree: Node,
    pub(super) notes: Vec<Note>,
    /// The comments for the new file, by mcpmon key.
    pub(super) comments: BTreeMap<&'static str, &'static str>,
    places: ValuePlaces,
}

/// Converts a whole file.
pub(super) fn convert(from: ImportedTool, tree: Node, places: ValuePlaces) -> Draft {
    let mut draft = Draft {
        tree: made(YamlValue::Map(Vec::new())),
        notes: Vec::new(),
        comments: BTreeMap::new(),
        places,
    };
    draft.put("version", made(YamlValue::Integer(1)));
    draft.down(tables::root(from), tree);
    draft.set_cross_server_defaults_of_agentsh();
    draft.list_modes();
    draft
}

impl Draft {
    /// Puts a value at an mcpmon key, in addition to what is there already.
    fn put(&mut self, key: &str, node: Node) {
        let wrap = |node, key: &str| {
            let entry = MapEntry {
                key: key.to_owned(),
                place: Place::START,
                node,
            };
            made(YamlValue::Map(vec![entry]))
        };
        let node = key.rsplit('.').fold(node, wrap);
        let tree = std::mem::replace(&mut self.tree, Node::empty());
        self.tree = merge(tree, node);
    }

    /// Adds a note about a value, under its place in the original file, or under mcpmon's key if the original does not
    /// have it.
    pub(super) fn note(&mut self, node: &Node, kind: NoteKind, ours: &str, message: impl Into<String>) {
        let (path, line) = match self.places.of(node) {
            Some((path, line)) => (path.to_owned(), Some(line)),
            None => (ours.to_owned(), None),
        };
        self.notes.push(Note {
            path,
            line,
            kind,
            message: message.into(),
        });
    }

    /// Discards the draft, and notes the reason.
    pub(super) fn give_up(&mut self, reason: String) {
        self.tree = made(YamlValue::Map(Vec::new()));
        self.put("version", made(YamlValue::Integer(1)));
        self.notes.push(Note {
            path: "the whole file".to_owned(),
            line: None,
            kind: NoteKind::LeftOut,
            message: reason,
        });
    }

    fn left(&mut self, node: &Node, message: impl Into<String>) {
        self.note(node, NoteKind::LeftOut, "", message);
    }

    fn differs(&mut self, node: &Node, message: impl Into<String>) {
        self.note(node, NoteKind::Differs, "", message);
    }

    fn down(&mut self, rows: &'static [ImportRow], node: Node) {
        for entry in self.entries(node) {
            let Some(row) = rows.iter().find(|row| row.key == entry.key) else {
                self.left(&entry.node, "mcpmon has nothing like it");
                continue;
            };
            match row.act {
                Act::Down(rows) => self.down(rows, entry.node),
                Act::To(key) => self.put(key, entry.node),
                Act::Decisions(key) => self.put(key, in_capitals(entry.node)),
                Act::Left(reason) => self.left(&entry.node, reason),
                Act::With(act) => act(self, entry.node),
            }
        }
    }

    /// Returns the entries of a mapping. No value has none; any other value is noted as left out.
    fn entries(&mut self, node: Node) -> Vec<MapEntry> {
        match node.value {
            YamlValue::Map(entries) => entries,
            YamlValue::Null => Vec::new(),
            YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::List(_) => {
                self.left(&node, "expected a mapping");
                Vec::new()
            }
        }
    }

    /// `sandbox.mcp`, `mcp_rules`.
    pub(super) fn rules(&mut self, node: Node) {
        let enforces = matches!(&node.value, YamlValue::Map(entries) if entries.iter().any(|entry| entry.key == "enforce_policy"));
        if !enforces {
            self.differs(
                &node,
                "agentsh enforces nothing without `enforce_policy`, but mcpmon enforces by default; to only record, set `mode: observe`",
            );
        }
        self.down(RULES, node);
    }

    /// `cross_server`.
    pub(super) fn cross_server(&mut self, node: Node) {
        for entry in self.entries(node) {
            match entry.key.as_str() {
                "read_then_send" | "burst" | "cross_server_flow" | "shadow_tool" => {
                    self.cross_server_part(&entry.key, entry.node);
                }
                key => self.put(&format!("mcp.cross_server.{key}"), entry.node),
            }
        }
    }

    /// One rule of `cross_server`.
    pub(super) fn cross_server_part(&mut self, rule: &str, mut node: Node) {
        if let YamlValue::Map(entries) = &mut node.value {
            for entry in entries.iter_mut().filter(|entry| entry.key == "window") {
                if let YamlValue::Text(text) = &mut entry.node.value
                    && let Some(duration) = go_duration(text)
                {
                    *text = duration;
                }
            }
        }
        self.put(&format!("mcp.cross_server.{rule}"), node);
    }

    /// Adds what agentsh decides by itself to a configuration with rules over several servers.
    fn set_cross_server_defaults_of_agentsh(&mut self) {
        let path = KeyPath::root().key("mcp").key("cross_server");
        if self.tree.find(&path).is_none() {
            return;
        }
        for (key, value) in [("decision", "block"), ("classifier", "names")] {
            if self.tree.find(&path.key(key)).is_none() {
                self.put(
                    &format!("mcp.cross_server.{key}"),
                    made(YamlValue::Text(value.to_owned())),
                );
            }
        }
        if self
            .tree
            .find(&path.key("cross_server_flow").key("categories"))
            .is_none()
        {
            let categories = ["write", "send", "compute", "unknown"];
            let item = |(index, category): (usize, &str)| ListItem {
                index,
                node: made(YamlValue::Text(category.to_owned())),
            };
            let items = categories.into_iter().enumerate().map(item).collect();
            self.put(
                "mcp.cross_server.cross_server_flow.categories",
                made(YamlValue::List(items)),
            );
            self.comments.insert(
                "mcp.cross_server.cross_server_flow.categories",
                "As in agentsh. mcpmon's default is `write` and `send`, because most other tools compute or have no known category.",
            );
        }
        self.comments.insert(
            "mcp.cross_server.decision",
            "As in agentsh. mcpmon's default `evidence` blocks only where data that was read is sent on, so it stops fewer legitimate calls.",
        );
        self.comments.insert(
            "mcp.cross_server.classifier",
            "As in agentsh: by the beginning of tool names. mcpmon's default `evidence` classifies more tools.",
        );
    }

    /// `mcp.inspection.enabled`.
    pub(super) fn inspection(&mut self, node: Node) {
        self.differs(
            &node,
            "agentsh only alerts; mcpmon hides tools with findings. To only alert, set `mcp.detection.on_detection: alert`",
        );
        self.put("mcp.detection.enabled", node);
    }

    /// `mcp.inspection.server_patterns`: goes into `custom_servers`, because `server_patterns` of mcpmon replaces the
    /// built-in ones.
    pub(super) fn server_patterns(&mut self, mut node: Node) {
        if let YamlValue::List(items) = &mut node.value {
            items.retain(|item| {
                !matches!(&item.node.value, YamlValue::Text(text) if KNOWN_SERVERS.contains(&text.as_str()))
            });
            self.differs(
                &node,
                "patterns that come with agentsh are built in; others are added to `mcp.detection.custom_servers`",
            );
            let YamlValue::List(items) = &node.value else {
                return;
            };
            if items.is_empty() {
                return;
            }
        }
        self.put("mcp.detection.custom_servers", node);
    }

    /// `mcp.inspection.registry.alert_on_change`.
    pub(super) fn alert_on_change(&mut self, node: Node) {
        let path = KeyPath::root().key("mcp").key("version_pinning").key("on_change");
        if self.tree.find(&path).is_some() {
            self.left(&node, "`version_pinning.on_change` is already set");
            return;
        }
        let on_change = match node.value {
            YamlValue::Bool(true) => "alert",
            YamlValue::Bool(false) => "allow",
            YamlValue::Null
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => {
                self.left(&node, "expected `true` or `false`");
                return;
            }
        };
        self.put(
            "mcp.version_pinning.on_change",
            made(YamlValue::Text(on_change.to_owned())),
        );
        self.comments.insert(
            "mcp.version_pinning.on_change",
            "From `alert_on_change`. mcpmon's default `block` refuses calls to changed tools.",
        );
    }

    /// `builtin_patterns`: expressions that come with agentsh.
    pub(super) fn builtin_patterns(&mut self, node: Node) {
        for entry in self.entries(node) {
            self.differs(
                &entry.node,
                "mcpmon uses its own rules and severities for this category; add your expressions to `mcp.detection.custom_patterns`",
            );
            self.put(
                &format!("mcp.detection.builtin.{}", entry.key),
                Node {
                    value: YamlValue::Bool(true),
                    ..entry.node
                },
            );
        }
    }

    /// `proxy.mode`.
    pub(super) fn proxy_mode(&mut self, node: Node) {
        if matches!(&node.value, YamlValue::Text(mode) if mode == "mcp-only") {
            self.differs(
                &node,
                "bodies are stored only with a key: name it in `llm_storage.key_file`",
            );
        }
        self.put("proxy.mode", node);
    }

    /// `proxy.port`.
    pub(super) fn proxy_port(&mut self, mut node: Node) {
        if let YamlValue::Integer(port) = node.value {
            node.value = YamlValue::Text(format!("127.0.0.1:{port}"));
        }
        self.put("proxy.listen", node);
    }

    /// Notes each list that has no effect because its mode is set to another one.
    fn list_modes(&mut self) {
        for (list, mode, needed) in MODES {
            let mcp = KeyPath::root().key("mcp");
            let Some(node) = self.tree.find(&mcp.key(list)).cloned() else {
                continue;
            };
            let set = self.tree.find(&mcp.key(mode)).map(|node| &node.value);
            if !matches!(set, Some(YamlValue::Text(text)) if text == needed) {
                self.differs(
                    &node,
                    format!("`mcp.{list}` is read only with `{mode}: {needed}`"),
                );
            }
        }
    }
}

/// Creates a value that the original does not have.
fn made(value: YamlValue) -> Node {
    Node {
        place: Place {
            line: u32::MAX,
            ..Place::START
        },
        value,
        damaged: false,
    }
}

/// Writes the `decision` of a mapping, or of each mapping in a list, in capitals.
fn in_capitals(mut node: Node) -> Node {
    let capitals = |node: &mut Node| {
        if let YamlValue::Map(entries) = &mut node.value {
            for entry in entries.iter_mut().filter(|entry| entry.key == "decision") {
                if let YamlValue::Text(text) = &mut entry.node.value {
                    text.make_ascii_uppercase();
                }
            }
        }
    };
    match &mut node.value {
        YamlValue::List(items) => items.iter_mut().for_each(|item| capitals(&mut item.node)),
        YamlValue::Null
        | YamlValue::Bool(_)
        | YamlValue::Integer(_)
        | YamlValue::Float(_)
        | YamlValue::Text(_)
        | YamlValue::Map(_) => {
            capitals(&mut node);
        }
    }
    node
}

/// Converts a Go duration (`1m30s`) to a duration with one unit (`90s`). Returns `None` unless the text is a sequence
/// of whole numbers with the units `h`, `m`, `s` and `ms`.
fn go_duration(text: &str) -> Option<String> {
    const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let (unit, milliseconds) = UNITS.iter().find(|(unit, _)| rest[digits..].starts_with(unit))?;
        total = number.checked_mul(*milliseconds)?.checked_add(total)?;
        rest = &rest[digits + unit.len()..];
    }
    let whole = [("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let unit = whole
        .into_iter()
        .find(|(_, unit)| total > 0 && total.is_multiple_of(*unit));
    let (unit, milliseconds) = unit.unwrap_or(("ms", 1));
    Some(format!("{}{unit}", total / milliseconds))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("30s" => Some("30s".to_owned()); "seconds")]
    #[test_case("1m30s" => Some("90s".to_owned()); "two units")]
    #[test_case("1h0m0s" => Some("1h".to_owned()); "with nothing")]
    #[test_case("500ms" => Some("500ms".to_owned()); "milliseconds")]
    #[test_case("60s" => Some("1m".to_owned()); "a minute")]
    #[test_case("1.5s" => None; "a fraction")]
    #[test_case("soon" => None; "a word")]
    #[test_case("99999999999999999999h" => None; "too much")]
    fn durations_are_carried_over(text: &str) -> Option<String> {
        go_duration(text)
    }
}
