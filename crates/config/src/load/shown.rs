//! The text of a configuration as other users may see it.

use serde_json::{Map, Number, Value};

use super::{
    node::{KeyPath, Node, YamlValue},
    yaml,
};

/// The sections that only the daemon uses: exports with their addresses and secrets, storage of traffic with its keys,
/// metrics, and bundles.
const HOST_SECTIONS: [&str; 4] = ["record", "metrics", "llm_storage", "policy"];
/// The key of the proxy that names a file with a secret, and what stands for its value: whether it is set matters.
const TOKEN_FILE: [&str; 2] = ["proxy", "token_file"];
const HIDDEN_FILE: &str = "/hidden";

/// Returns the text without the sections that only the daemon uses; the text itself if it has none of them. Returns
/// `None` if it cannot be parsed.
pub(crate) fn without_host_sections(text: &str) -> Option<String> {
    let mut tree = yaml::parse(text, 0).ok()?;
    let hidden = HOST_SECTIONS.map(|section| KeyPath::root().key(section));
    let token_file = TOKEN_FILE.iter().fold(KeyPath::root(), |path, key| path.key(key));
    let names = hidden.iter().chain([&token_file]);
    if names.into_iter().all(|path| tree.find(path).is_none()) {
        return Some(text.to_owned());
    }
    for path in &hidden {
        tree.remove(path);
    }
    let mut value = json(&tree);
    if let Some(file) = value.pointer_mut("/proxy/token_file")
        && file.as_str().is_some_and(|file| !file.is_empty())
    {
        *file = HIDDEN_FILE.into();
    }
    // JSON is YAML, and keeps the kind of every value.
    serde_json::to_string(&value).ok()
}

fn json(node: &Node) -> Value {
    match &node.value {
        YamlValue::Null => Value::Null,
        YamlValue::Bool(value) => Value::Bool(*value),
        YamlValue::Integer(value) => Number::from_i128(*value).map_or(Value::Null, Value::Number),
        YamlValue::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        YamlValue::Text(text) => Value::String(text.clone()),
        YamlValue::List(items) => items.iter().map(|item| json(&item.node)).collect(),
        YamlValue::Map(entries) => {
            let entries = entries.iter().map(|entry| (entry.key.clone(), json(&entry.node)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_host_sections_stays_as_it_is() {
        let text = "version: 1 # ours\nmcp: {blocked_tools: [a]}\n";
        assert_eq!(without_host_sections(text).as_deref(), Some(text));
    }

    #[test]
    fn sinks_and_key_files_are_not_shown_and_the_rules_stay() {
        let text = "version: 1\nmode: enforce\nrecord:\n  webhook: {url: 'https://siem.example/x'}\n\
                    llm_storage: {key_file: /etc/mcpmon/key}\nmcp:\n  blocked_tools: ['0x10', \"yes\"]\n\
                    proxy: {token_file: /etc/mcpmon/token}\n";
        let shown = without_host_sections(text).expect("it parses");
        for secret in ["siem.example", "/etc/mcpmon"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let tree = yaml::parse(&shown, 0).expect("it is YAML");
        let tools = tree
            .find(&KeyPath::root().key("mcp").key("blocked_tools"))
            .expect("kept");
        assert_eq!(json(tools), serde_json::json!(["0x10", "yes"]));
    }
}
