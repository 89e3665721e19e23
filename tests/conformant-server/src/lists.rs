//! The server's lists.

use std::sync::LazyLock;

use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::Deserialize;

/// All lists.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lists {
    pub(crate) tools: Vec<Tool>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) resource_templates: Vec<ResourceTemplate>,
}

/// The lists, which never change.
pub(crate) static LISTS: LazyLock<Lists> =
    LazyLock::new(|| serde_json::from_str(include_str!("lists.json")).expect("lists.json has all lists"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_read() {
        assert!(!LISTS.tools.is_empty() && !LISTS.prompts.is_empty());
        assert!(!LISTS.resources.is_empty() && !LISTS.resource_templates.is_empty());
    }
}
