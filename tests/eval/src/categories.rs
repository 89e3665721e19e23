//! Counts of the tools of real servers that the classifier cannot assign to a category.

use mcpmon_detect::category;
use mcpmon_model::{RawJson, ToolCategory};
use serde::Serialize;

use super::corpus::Corpus;

/// Fractions of the tools of real servers that are of unknown category.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Categories {
    /// By words, annotations, schema and description.
    pub(super) unknown: f64,
    /// By the beginnings of names (`classifier: names`).
    pub(super) unknown_by_names: f64,
}

/// Classifies every tool of real servers; returns `None` if there are none.
pub(super) fn measure(corpus: &Corpus) -> Option<Categories> {
    let (mut all, mut unknown, mut unknown_by_names) = (0_u32, 0_u32, 0_u32);
    for item in &corpus.items {
        let (true, "tool_definition", "benign", Some(name), Some(payload)) = (
            item.is_real_server(),
            item.kind.as_str(),
            item.label.as_str(),
            item.name(),
            &item.payload,
        ) else {
            continue;
        };
        let text = payload.to_string();
        let told = category::classify(name, Some(RawJson::trusted(&text)));
        all += 1;
        unknown += u32::from(told == ToolCategory::Unknown);
        unknown_by_names += u32::from(category::by_prefix(name) == ToolCategory::Unknown);
    }
    (all > 0).then(|| Categories {
        unknown: f64::from(unknown) / f64::from(all),
        unknown_by_names: f64::from(unknown_by_names) / f64::from(all),
    })
}
