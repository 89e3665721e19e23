//! Rewriting of Anthropic Messages: text in place of blocks, and a stop reason that fits the remaining blocks.
//!
//! A block is never left out, because SDKs count blocks and use their index.

use std::ops::Range;

use crate::{
    decode::json::{Value, quote_into},
    llm::reframe::write_event,
    rewrite::edit::MessageEdit,
};

/// The stop reason of a message in which no call is left.
const END_TURN: &str = "\"end_turn\"";

/// Returns a value with text blocks in place of the blocks at these ranges, and with the stop reason `end_turn`, if the
/// range of a stop reason is given.
pub(super) fn with_texts(
    whole: Value<'_>,
    blocked: &[(Range<usize>, String)],
    stop_reason: Option<Value<'_>>,
) -> String {
    let blocks = blocked
        .iter()
        .map(|(place, text)| (place.clone(), text_block(text)));
    let reason = stop_reason.map(|reason| (reason.range(), END_TURN.to_owned()));
    let mut changes: Vec<(Range<usize>, String)> = blocks.chain(reason).collect();
    changes.sort_by_key(|(place, _)| place.start);
    let mut edit = MessageEdit::of(whole);
    for (place, new) in changes {
        edit.replace(place, &new);
    }
    edit.finish()
}

/// Appends the events of a text block; they have names if the events of the stream have names.
pub(super) fn write_text_block(index: usize, text: &str, is_named: bool, out: &mut Vec<u8>) {
    let start = format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{}}}"#,
        text_block("")
    );
    let mut delta =
        format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"#);
    quote_into(text, &mut delta);
    delta.push_str("}}");
    write_event(is_named.then_some("content_block_start"), &start, out);
    write_event(is_named.then_some("content_block_delta"), &delta, out);
    write_stop(index, is_named, out);
}

/// Appends the events that give a block its input, after its start was written.
pub(super) fn write_input(index: usize, input: &str, is_named: bool, out: &mut Vec<u8>) {
    let mut delta = format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":"#
    );
    quote_into(input, &mut delta);
    delta.push_str("}}");
    write_event(is_named.then_some("content_block_delta"), &delta, out);
    write_stop(index, is_named, out);
}

fn write_stop(index: usize, is_named: bool, out: &mut Vec<u8>) {
    let stop = format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    write_event(is_named.then_some("content_block_stop"), &stop, out);
}

fn text_block(text: &str) -> String {
    let mut block = r#"{"type":"text","text":"#.to_owned();
    quote_into(text, &mut block);
    block.push('}');
    block
}
