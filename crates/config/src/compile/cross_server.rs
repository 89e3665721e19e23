//! Compilation of `mcp.cross_server` and `mcp.categories`: rules over calls to several servers, and categories of
//! tools.

use std::time::Duration;

use mcpmon_model::ToolCategory;
use mcpmon_policy::{Burst, Categories, CrossServer, Flow, ToolGlob};

use crate::{
    load::{KeyMistake, KeyPath},
    raw,
};

/// Longest window: the calls within it are kept in memory for each session.
const MAX_WINDOW: Duration = Duration::from_mins(10);

/// Compiles `mcp.cross_server`, except `shadow_tool.similarity_*` (see [`super::inspection::name_similarity`]).
pub(super) fn rules(raw: &raw::CrossServer, mistakes: &mut Vec<KeyMistake>) -> CrossServer {
    let section = KeyPath::root().key("mcp").key("cross_server");
    let mut window = |rule: &str, given: &raw::Text<raw::Lapse>| {
        let window = given.0.0;
        if window.is_zero() || window > MAX_WINDOW {
            mistakes.push(KeyMistake::new(
                section.key(rule).key("window"),
                "expected from `1ms` to `10m`; to switch the rule off, set its `enabled: false`",
            ));
        }
        window
    };
    let read_then_send = window("read_then_send", &raw.read_then_send.window);
    let burst = Burst {
        max_calls: raw.burst.max_calls,
        window: window("burst", &raw.burst.window),
    };
    let flow = Flow {
        same_turn_only: raw.cross_server_flow.same_turn_only,
        window: window("cross_server_flow", &raw.cross_server_flow.window),
        categories: raw.cross_server_flow.categories.iter().copied().collect(),
    };
    if burst.max_calls == 0 {
        mistakes.push(KeyMistake::new(
            section.key("burst").key("max_calls"),
            "every call would be one too many: expected at least 1; to switch the rule off, set its `enabled: false`",
        ));
    }
    if raw.cross_server_flow.enabled && flow.categories.is_empty() {
        mistakes.push(KeyMistake::new(
            section.key("cross_server_flow").key("categories"),
            "no call would count: expected some of `write`, `send`, `compute`, `unknown`; to switch the rule off, set its `enabled: false`",
        ));
    }
    CrossServer {
        stops_all: false,
        enabled: raw.enabled,
        decision: raw.decision,
        shadow_tool: raw.shadow_tool.enabled,
        read_then_send: raw.read_then_send.enabled.then_some(read_then_send),
        burst: raw.burst.enabled.then_some(burst),
        flow: raw.cross_server_flow.enabled.then_some(flow),
    }
}

/// Compiles `mcp.categories`, and the classifier for the tools that it does not list.
pub(super) fn categories(mcp: &raw::Mcp, mistakes: &mut Vec<KeyMistake>) -> Categories {
    let section = KeyPath::root().key("mcp").key("categories");
    let raw = &mcp.categories;
    // The first match decides, so the riskiest category comes first.
    let lists = [
        ("send", &raw.send, ToolCategory::Send),
        ("compute", &raw.compute, ToolCategory::Compute),
        ("write", &raw.write, ToolCategory::Write),
        ("read", &raw.read, ToolCategory::Read),
        ("unknown", &raw.unknown, ToolCategory::Unknown),
    ];
    let mut overrides = Vec::new();
    for (key, globs, category) in lists {
        for (index, glob) in globs.iter().enumerate() {
            if glob.trim().is_empty() {
                mistakes.push(KeyMistake::new(
                    section.key(key).index(index),
                    "matches no tool: expected a glob over `TOOL` or `SERVER:TOOL`",
                ));
            }
            overrides.push((category, ToolGlob::new(glob)));
        }
    }
    Categories {
        classifier: mcp.cross_server.classifier,
        overrides,
    }
}
