//! Scripts of the model's output.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The model's output, turn by turn. The turn of a request follows from the number of turns in its
/// conversation that called tools, so that any number of clients can share a script, and a repeated request
/// gets the same answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The turns; the last one is repeated.
    pub turns: Vec<Vec<Item>>,
    /// True if a request without tools is answered with `ok`, because agents also ask for titles and summaries.
    #[serde(default)]
    pub only_with_tools: bool,
    /// The longest piece of a text or of arguments in a stream, in characters.
    #[serde(default = "piece")]
    pub piece: usize,
}

const fn piece() -> usize {
    8
}

/// A part of the model's output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Item {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning with its signature.
    Thinking {
        /// The model's reasoning.
        thinking: String,
        /// The signature of the reasoning.
        signature: String,
    },
    /// A tool call.
    Tool {
        /// The tool, as the client named it.
        tool: String,
        /// The namespace of the tool; Responses only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The id of the call.
        id: String,
        /// The arguments.
        input: Value,
    },
    /// A pause.
    Pause {
        /// The duration in milliseconds.
        pause_ms: u64,
    },
}

impl Script {
    /// Returns the model's output after tools were called `calls` times.
    #[must_use]
    pub fn turn(&self, calls: usize, has_tools: bool) -> Vec<Item> {
        if self.only_with_tools && !has_tools {
            return vec![Item::Text {
                text: "ok".to_owned(),
            }];
        }
        let turn = self.turns.get(calls).or_else(|| self.turns.last());
        turn.cloned().unwrap_or_default()
    }

    /// Splits `text` into the pieces of a stream.
    pub fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest
                .char_indices()
                .nth(self.piece.max(1))
                .map_or(rest.len(), |(at, _)| at);
            let (piece, after) = rest.split_at(end);
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

impl Item {
    /// Returns whether the client is to call a tool.
    #[must_use]
    pub const fn is_tool(&self) -> bool {
        matches!(self, Self::Tool { .. })
    }
}
