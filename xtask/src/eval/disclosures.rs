//! Secrets in texts on their way to a model: prompts, and results of tools.

use std::collections::BTreeMap;

use mcpmon_core::inspect::secrets;
use serde::Serialize;
use serde_json::Value;

use super::{
    corpus::{Corpus, Item},
    report::Share,
};

/// Items of which something would be replaced before a model reads them, each a fraction of the core tier unless its
/// name says otherwise.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Disclosures {
    /// Of the arguments that say which family their secret is of, each as a text.
    pub(super) recall_by_family: BTreeMap<String, f64>,
    /// Of the tier of vendors whose patterns nobody else has.
    pub(super) recall_other_vendors: Option<f64>,
    /// Of the arguments in which no secret is.
    pub(super) fp: Option<f64>,
    pub(super) fp_near_miss: Option<f64>,
    /// Of benign results of tools: some of them have secrets in them all the same.
    pub(super) replaced_in_outputs: Option<f64>,
}

/// Reads every text; `None` where there is none.
pub(super) fn measure(corpus: &Corpus) -> Option<Disclosures> {
    let mut families: BTreeMap<String, Share> = BTreeMap::new();
    let mut groups: BTreeMap<[&str; 3], Share> = BTreeMap::new();
    for item in &corpus.items {
        let (true, Some(payload)) = (["argument", "tool_output"].contains(&&*item.kind), &item.payload)
        else {
            continue;
        };
        let is_found = has_secret(payload.get("arguments").unwrap_or(payload));
        let [_, tier, label] = key(item);
        if let (Some(family), "core", "malicious") = (&item.secret_family, tier, label) {
            families.entry(family.clone()).or_default().count(is_found);
        }
        groups.entry(key(item)).or_default().count(is_found);
    }
    let of = |key: [&str; 3]| groups.get(&key).and_then(|share| share.fraction());
    let recall = families.into_iter();
    (!groups.is_empty()).then(|| Disclosures {
        recall_by_family: recall
            .filter_map(|(family, share)| Some((family, share.fraction()?)))
            .collect(),
        recall_other_vendors: of(["argument", "other_vendor", "malicious"]),
        fp: of(["argument", "core", "benign"]),
        fp_near_miss: of(["argument", "near_miss", "benign"]),
        replaced_in_outputs: of(["tool_output", "core", "benign"]),
    })
}

fn key(item: &Item) -> [&str; 3] {
    [&item.kind, item.tier.as_deref().unwrap_or("core"), &item.label]
}

/// Whether a secret is in one of the texts of a value.
fn has_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => !secrets::in_text(text).is_empty(),
        Value::Array(items) => items.iter().any(has_secret),
        Value::Object(members) => members.values().any(has_secret),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_which_something_is_replaced() {
        let item = |label: &str, tier: &str, body: &str| -> Item {
            let item = serde_json::json!({"id": "a", "kind": "argument", "label": label, "tier": tier,
                "secret_family": "pair", "payload": {"name": "x", "arguments": {"in": [body]}}});
            serde_json::from_value(item).expect("an item")
        };
        let pair = concat!("pass", "word = \"q7Lx9vTz2mKp\"");
        let mut corpus = Corpus::default();
        assert_eq!(measure(&corpus), None);
        corpus.items.extend([
            item("malicious", "core", pair),
            item("malicious", "core", "open sesame"),
            item("malicious", "other_vendor", "open sesame"),
            item("benign", "core", "open sesame"),
        ]);
        let measured = measure(&corpus).expect("texts");
        assert_eq!(measured.recall_by_family["pair"], 0.5);
        assert_eq!(measured.recall_other_vendors, Some(0.0));
        assert_eq!((measured.fp, measured.fp_near_miss), (Some(0.0), None));
    }
}
