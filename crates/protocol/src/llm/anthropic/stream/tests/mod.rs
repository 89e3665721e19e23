//! Streams and messages of Anthropic Messages.

mod properties;
mod script;
mod streams;
mod wholes;

use mcpmon_model::Dialect;

use crate::llm::{Framing, harness};

fn stream(stream: &str, is_blocked: fn(&str) -> bool) -> harness::FilterOutcome {
    harness::run_anyhow(Dialect::Anthropic, Framing::Events, stream.as_bytes(), is_blocked)
}

fn whole(body: &str, is_blocked: fn(&str) -> bool) -> harness::FilterOutcome {
    harness::run_anyhow(Dialect::Anthropic, Framing::Whole, body.as_bytes(), is_blocked)
}
