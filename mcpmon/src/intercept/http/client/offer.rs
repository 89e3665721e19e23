//! What a server offers: what it was asked and answered, and what that says.

use std::time::Instant;

use mcpmon_core::model::ListKind;
use serde_json::Value;

/// One request and its answer, as they stood on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When it was asked: the answer is no younger than that, however late it is read.
    pub asked: Instant,
    /// The request.
    pub request: String,
    /// The answer, on one line.
    pub answer: Vec<u8>,
}

/// What a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// The revision that was spoken.
    pub version: String,
    /// What the server calls itself.
    pub name: Option<String>,
    /// Its own version.
    pub release: Option<String>,
    /// What it tells models about itself.
    pub instructions: Option<String>,
    /// What is on its lists, in their order.
    pub items: Vec<(ListKind, Value)>,
    /// What was said: the introduction first, then every page.
    pub turns: Vec<Turn>,
}

impl Offer {
    /// What is on one list.
    pub fn of(&self, kind: ListKind) -> impl Iterator<Item = &Value> {
        let items = self.items.iter();
        items.filter_map(move |(found, item)| (*found == kind).then_some(item))
    }

    /// Takes in the result of `initialize` or `server/discover`.
    pub(super) fn introduce(&mut self, result: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let own = &result["serverInfo"];
        let meta = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        let info = if own.is_object() { own } else { meta };
        self.name = text(&info["name"]);
        self.release = text(&info["version"]);
        self.instructions = text(&result["instructions"]).filter(|text| !text.trim().is_empty());
    }
}

/// The method that asks for a list, the member of its result that holds the items, and the capability that announces it.
pub(super) const LISTS: [(ListKind, &str, &str, &str); 4] = [
    (ListKind::Tools, "tools/list", "tools", "tools"),
    (ListKind::Prompts, "prompts/list", "prompts", "prompts"),
    (ListKind::Resources, "resources/list", "resources", "resources"),
    (
        ListKind::Templates,
        "resources/templates/list",
        "resourceTemplates",
        "resources",
    ),
];
