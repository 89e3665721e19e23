//! The outline of a configuration for people: the place, the meaning and the default of each key.

use serde_json::Value as Json;

use super::{
    LoadedConfiguration,
    load::{self, KeyPath, Node, YamlValue, closest},
    written::{YamlWriter, flow, scalar},
};

/// Lists whose elements are rules with an id.
const RULES: [&str; 3] = ["mcp.rules", "mcp.resource_rules", "mcp.value_limits"];

/// A configuration, for queries about its keys.
#[derive(Clone, Debug)]
pub struct Outline {
    tree: Node,
    files: Vec<String>,
    schema: Json,
}

/// A key that a file sets, or an element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedKey {
    /// The key: `mcp.rules[0]`.
    pub key: String,
    /// The id, if the element is a rule.
    pub id: Option<String>,
    /// The place: `mcpmon.yaml:7`.
    pub place: String,
    /// Its value in one line.
    pub value: String,
    /// Key and value as block YAML.
    pub text: String,
}

/// The meaning of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMeaning {
    /// The meaning, in a sentence or two.
    pub what: String,
    /// The default in one line; `None` if there is none.
    pub default: Option<String>,
}

impl Outline {
    /// Creates the outline of a configuration.
    pub fn of(loaded: &LoadedConfiguration) -> Self {
        Self {
            tree: load::read(loaded.text.origins()).tree,
            files: loaded.sources.iter().map(ToString::to_string).collect(),
            schema: serde_json::from_str(&super::schema()).expect("the schema is JSON"),
        }
    }

    /// Returns the setting at `key`, if it is set.
    pub fn key(&self, key: &str) -> Option<StatedKey> {
        let path = path(key)?;
        self.tree.find(&path)?;
        self.stated(&path)
    }

    /// Returns the elements of the list at `key`; none if it is not a list.
    pub fn elements(&self, key: &str) -> Vec<StatedKey> {
        let Some(path) = path(key) else {
            return Vec::new();
        };
        match self.tree.find(&path).map(|node| &node.value) {
            Some(YamlValue::List(items)) => {
                let positions = 0..items.len();
                positions
                    .filter_map(|position| self.stated(&path.index(position)))
                    .collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Returns the configured rule with this id.
    pub fn rule(&self, id: &str) -> Option<StatedKey> {
        let mut rules = RULES.iter().flat_map(|list| self.elements(list));
        rules.find(|stated| stated.id.as_deref() == Some(id))
    }

    /// Returns every key that is set, of all sections, in the order of the files.
    pub fn set(&self) -> Vec<StatedKey> {
        let mut found = Vec::new();
        let root = KeyPath::root();
        for section in keys(&self.tree) {
            let path = root.key(section);
            match self.tree.find(&path) {
                Some(node) if matches!(node.value, YamlValue::Map(_)) => {
                    found.extend(keys(node).filter_map(|key| self.stated(&path.key(key))));
                }
                Some(_) | None => found.extend(self.stated(&path)),
            }
        }
        found
    }

    /// Returns the meaning of `key`, whether it is set or not; `None` if the format has no such key.
    pub fn meaning(&self, key: &str) -> Option<KeyMeaning> {
        let mut schema = &self.schema;
        for name in names(key)? {
            schema = self.below(schema, name)?;
        }
        let text = |schema: &Json| schema["description"].as_str().map(str::to_owned);
        let what = text(schema).or_else(|| text(self.resolve(schema)))?;
        Some(KeyMeaning {
            what: what.replace('\n', " "),
            default: self.default_of(schema).as_ref().map(plain),
        })
    }

    /// Returns a key of the format that resembles `key`.
    pub fn resembling(&self, key: &str) -> Option<String> {
        let (mut schema, mut way) = (&self.schema, String::new());
        for name in names(key)? {
            let known = match self.below(schema, name) {
                Some(below) => {
                    schema = below;
                    name
                }
                None => {
                    let properties = self.resolve(schema)["properties"].as_object()?;
                    let candidates: Vec<&str> = properties.keys().map(String::as_str).collect();
                    let meant = closest(bare(name), &candidates)?;
                    schema = &properties[meant];
                    meant
                }
            };
            if !way.is_empty() {
                way.push('.');
            }
            way.push_str(known);
        }
        Some(way)
    }

    fn stated(&self, path: &KeyPath) -> Option<StatedKey> {
        let node = self.tree.find(path)?;
        let place = self.tree.key_place(path).unwrap_or(node.place);
        let key = self.tree.written(path);
        let none = std::collections::BTreeMap::new();
        let mut writer = YamlWriter::after(String::new(), &none);
        match key.rsplit('.').next() {
            Some(name) if !name.ends_with(']') => writer.entry(name, node, 0, ""),
            Some(_) | None => writer.item(node, 0, ""),
        }
        let id = node.find(&KeyPath::root().key("id")).map(|id| &id.value);
        Some(StatedKey {
            id: match id {
                Some(YamlValue::Text(id)) => Some(id.clone()),
                Some(_) | None => None,
            },
            place: format!("{}:{}", self.files.get(place.origin)?, place.line),
            value: flow(node),
            text: writer.finish(),
            key,
        })
    }

    /// Returns the schema of the value at `name` in a value of `schema`.
    fn below<'s>(&'s self, schema: &'s Json, name: &str) -> Option<&'s Json> {
        let mut found = self.resolve(schema).get("properties")?.get(bare(name))?;
        for _ in 0..name.matches('[').count() {
            found = self.resolve(found).get("items")?;
        }
        Some(found)
    }

    /// Returns the default of a key; of a section, the defaults of its keys.
    fn default_of(&self, schema: &Json) -> Option<Json> {
        if let Some(default) = schema.get("default") {
            return Some(default.clone());
        }
        let keys = self.resolve(schema).get("properties")?.as_object()?.iter();
        let defaults = keys.filter_map(|(key, below)| Some((key.clone(), self.default_of(below)?)));
        let defaults: serde_json::Map<String, Json> = defaults.collect();
        (!defaults.is_empty()).then_some(Json::Object(defaults))
    }

    /// Returns the schema that is the target of a reference, directly or as one of several choices.
    fn resolve<'s>(&'s self, schema: &'s Json) -> &'s Json {
        let choice = schema["anyOf"].as_array().and_then(|choices| choices.first());
        let reference = choice.unwrap_or(schema)["$ref"].as_str();
        let target = reference.and_then(|reference| self.schema.pointer(reference.strip_prefix('#')?));
        target.unwrap_or(schema)
    }
}

fn keys(node: &Node) -> impl Iterator<Item = &str> {
    let entries = match &node.value {
        YamlValue::Map(entries) => entries.as_slice(),
        YamlValue::Null
        | YamlValue::Bool(_)
        | YamlValue::Integer(_)
        | YamlValue::Float(_)
        | YamlValue::Text(_)
        | YamlValue::List(_) => &[],
    };
    entries.iter().map(|entry| entry.key.as_str())
}

/// Returns a default in one line.
fn plain(value: &Json) -> String {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::String(text) => scalar(text),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Object(members) => {
            let member = |(key, value): (&String, &Json)| format!("{}: {}", scalar(key), plain(value));
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

/// Returns the steps of a key, each with its positions: `mcp`, `rules[0]`. Returns `None` if it is not a key.
fn names(key: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = key.split('.').collect();
    names.iter().all(|name| !bare(name).is_empty()).then_some(names)
}

/// Returns a step without its positions.
fn bare(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}

fn path(key: &str) -> Option<KeyPath> {
    let mut path = KeyPath::root();
    for name in names(key)? {
        path = path.key(bare(name));
        for position in name.split('[').skip(1) {
            path = path.index(position.strip_suffix(']')?.parse().ok()?);
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::{Sources, load_sources};

    fn outline() -> Outline {
        let main = "version: 1\nmcp:\n  tool_policy: allowlist\n  allowed_tools:\n    - {server: a, tool: x}\n  rules:\n    - id: no-keys\n      match: {argument_patterns: {path: \"**/.ssh/**\"}}\n      decision: BLOCK\n";
        let more = "mcp:\n  allowed_tools: [{server: b, tool: \"y: z\"}]\n  rules: [{id: more, match: {tool_name: m}, decision: AUDIT}]\n";
        let sources = Sources::of_texts(&[("main.yaml", main), ("more.yaml", more)]);
        Outline::of(&load_sources(&sources).expect("valid"))
    }

    #[test]
    fn keys_and_elements_have_their_places() {
        let outline = outline();
        let shown = |stated: &StatedKey| format!("{} {} {}", stated.key, stated.place, stated.value);
        assert_eq!(
            outline.key("mcp.tool_policy").as_ref().map(shown).as_deref(),
            Some("mcp.tool_policy main.yaml:3 allowlist")
        );
        assert_eq!(
            outline
                .elements("mcp.allowed_tools")
                .iter()
                .map(shown)
                .collect::<Vec<_>>(),
            [
                "mcp.allowed_tools[0] main.yaml:5 {server: a, tool: x}",
                "mcp.allowed_tools[0] more.yaml:2 {server: b, tool: \"y: z\"}",
            ]
        );
        let rule = outline.rule("no-keys").expect("a rule");
        assert_eq!(
            (rule.key.as_str(), rule.place.as_str()),
            ("mcp.rules[0]", "main.yaml:7")
        );
        assert_eq!(
            rule.text,
            "- id: no-keys\n  match:\n    argument_patterns:\n      path: \"**/.ssh/**\"\n  decision: BLOCK\n"
        );
        assert_eq!(outline.rule("more").expect("a rule").place, "more.yaml:3");
        let set: Vec<String> = outline.set().into_iter().map(|stated| stated.key).collect();
        assert_eq!(
            set,
            ["version", "mcp.tool_policy", "mcp.allowed_tools", "mcp.rules"]
        );
    }

    #[test_case("mcp.version_pinning.on_change" => Some(("The effect of a difference from a pin.".to_owned(), Some("block".to_owned()))); "a key")]
    #[test_case("mcp.rules[3].match.server" => Some(("Glob over the server's id.".to_owned(), None)); "a key of an element")]
    #[test_case("mcp.rules" => Some(("Rules over calls. Of those that match the most restrictive holds.".to_owned(), Some("[]".to_owned()))); "a list")]
    #[test_case("mcp.servers[0].egress.default" => Some(("The decision if no entry matches.".to_owned(), Some("allow".to_owned()))); "a key that may be missing")]
    #[test_case("mcp.defaults" => Some(("The decision about calls and reads that no rule matches and no list allows.".to_owned(), Some("{decision: AUDIT}".to_owned()))); "a section")]
    #[test_case("mcp.nothing" => None; "no key")]
    #[test_case("" => None; "nothing")]
    fn meanings(key: &str) -> Option<(String, Option<String>)> {
        outline()
            .meaning(key)
            .map(|meaning| (meaning.what, meaning.default))
    }

    #[test_case("mcp.toolpolicy" => Some("mcp.tool_policy".to_owned()))]
    #[test_case("mpc.rules" => Some("mcp.rules".to_owned()))]
    #[test_case("mcp.elephant" => None)]
    fn meant(key: &str) -> Option<String> {
        outline().resembling(key)
    }
}
