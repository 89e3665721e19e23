//! Properties of any message, however it is cut and its blocks are mixed.

use mcpmon_model::Dialect;
use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::json;

use super::script::*;
use crate::llm::{
    Framing, HoldLimits,
    harness::{FilterOutcome, all, evil, held, none, run},
};

/// A block without its index.
#[derive(Clone, Debug)]
enum Part {
    Text(Vec<String>),
    Thinking,
    Call(bool, Vec<String>),
    Called(Vec<String>),
}

impl Part {
    fn events(&self, index: usize) -> Vec<String> {
        fn strs(parts: &[String]) -> Vec<&str> {
            parts.iter().map(String::as_str).collect()
        }
        match self {
            Self::Text(parts) => text(index, &strs(parts)),
            Self::Thinking => thinking(index),
            Self::Call(true, input) => call(index, "evil", &strs(input)),
            Self::Call(false, input) => call(index, "good", &strs(input)),
            Self::Called(input) => uses("server_tool_use", index, "search", &strs(input)),
        }
    }
}

/// An input in pieces.
fn inputs() -> impl Strategy<Value = Vec<String>> {
    let value = prop_oneof![
        Just(json!({})),
        "[a-z\u{e9}\"\\\\\n ]{0,9}".prop_map(|text| json!({"a": text, "b": [1, 2.5, null]})),
    ];
    (value, vec(any::<Index>(), 0..4)).prop_map(|(value, cuts)| {
        let text = value.to_string();
        let characters: Vec<char> = text.chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(characters.len())).collect();
        cuts.extend([0, characters.len()]);
        cuts.sort_unstable();
        cuts.windows(2)
            .map(|cut| characters[cut[0]..cut[1]].iter().collect())
            .collect()
    })
}

fn parts() -> impl Strategy<Value = Part> {
    prop_oneof![
        vec("[a-z\u{1f600}\"\n]{0,5}", 0..4).prop_map(Part::Text),
        Just(Part::Thinking),
        (any::<bool>(), inputs()).prop_map(|(is_evil, input)| Part::Call(is_evil, input)),
        inputs().prop_map(Part::Called),
    ]
}

/// A message, its blocks one after the other or mixed.
fn messages(is_mixed: bool) -> impl Strategy<Value = String> {
    (vec(parts(), 0..6), vec(any::<Index>(), 64)).prop_map(move |(parts, order)| {
        let mut blocks: Vec<std::vec::IntoIter<String>> = parts
            .iter()
            .enumerate()
            .map(|(index, part)| part.events(index).into_iter())
            .collect();
        let mut whole = start();
        let (mut started, mut order) = (0, order.iter().cycle());
        loop {
            // One that has started, or the next one that has not.
            let some: Vec<usize> = (0..blocks.len().min(started + 1))
                .filter(|at| !blocks[*at].as_slice().is_empty())
                .collect();
            let Some(first) = some.first() else { break };
            let at = if is_mixed {
                *order.next().unwrap().get(&some)
            } else {
                *first
            };
            started = started.max(at + 1);
            whole.extend(blocks[at].next());
        }
        whole + &end("tool_use")
    })
}

fn filter<'c>(chunks: impl IntoIterator<Item = &'c [u8]>, is_blocked: fn(&str) -> bool) -> FilterOutcome {
    run(
        Dialect::Anthropic,
        Framing::Events,
        HoldLimits::default(),
        chunks,
        is_blocked,
    )
}

fn chunks<'c>(mut stream: &'c [u8], sizes: &[usize]) -> Vec<&'c [u8]> {
    let mut chunks = Vec::new();
    for size in sizes.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (chunk, rest) = stream.split_at((*size).min(stream.len()));
        chunks.push(chunk);
        stream = rest;
    }
    chunks
}

/// Filters the whole message that a stream adds up to.
fn buffered(stream: &str, is_blocked: fn(&str) -> bool) -> FilterOutcome {
    let body = accumulate(stream.as_bytes()).to_string();
    run(
        Dialect::Anthropic,
        Framing::Whole,
        HoldLimits::default(),
        [body.as_bytes()],
        is_blocked,
    )
}

proptest! {
    #[test]
    fn chunks_do_not_matter(whole in messages(true), sizes in vec(1_usize..60, 1..8)) {
        for is_blocked in [none, evil, all] {
            let at_once = filter([whole.as_bytes()], is_blocked);
            prop_assert_eq!(filter(chunks(whole.as_bytes(), &sizes), is_blocked), at_once);
        }
    }

    #[test]
    fn what_is_allowed_stays_as_it_came(whole in messages(false)) {
        prop_assert_eq!(filter([whole.as_bytes()], none).text(), whole);
    }

    #[test]
    fn what_is_mixed_and_allowed_comes_to_the_same(whole in messages(true)) {
        let told = filter([whole.as_bytes()], none);
        prop_assert_eq!(accumulate(&told.out), accumulate(whole.as_bytes()));
        let events = |stream: &str| {
            let mut events: Vec<String> = stream.split("\n\n").map(str::to_owned).collect();
            events.sort();
            events
        };
        prop_assert_eq!(events(&told.text()), events(&whole));
    }

    #[test]
    fn streamed_equals_buffered(whole in messages(true)) {
        for is_blocked in [none, evil, all] {
            let (streamed, buffered) = (filter([whole.as_bytes()], is_blocked), buffered(&whole, is_blocked));
            prop_assert_eq!(streamed.fault, None);
            let body: serde_json::Value = serde_json::from_slice(&buffered.out).unwrap();
            prop_assert_eq!(accumulate(&streamed.out), body);
            let calls = |told: Vec<String>| told.into_iter().filter(|said| said.starts_with("call ")).collect::<Vec<_>>();
            prop_assert_eq!(calls(streamed.said), calls(buffered.said));
        }
    }

    #[test]
    fn no_text_is_held(whole in messages(false)) {
        let mut so_far = String::new();
        let mut is_call = false;
        for event in whole.split_inclusive("\n\n") {
            so_far.push_str(event);
            is_call |= event.contains("\"type\":\"tool_use\"");
            is_call &= !event.contains("content_block_stop");
            let held = held(Dialect::Anthropic, Framing::Events, so_far.as_bytes());
            prop_assert_eq!(held > 0, is_call, "{}", event);
        }
    }

    #[test]
    fn a_stream_may_end_anywhere(whole in messages(true), at in any::<Index>()) {
        let whole = &whole.as_bytes()[..at.index(whole.len())];
        let told = filter([whole], evil);
        prop_assert!(!told.text().contains("\"name\":\"evil\""));
        let calls = |text: &str| text.matches("\"type\":\"tool_use\"").count();
        let judged = told.said.iter().filter(|said| said.starts_with("call good")).count();
        prop_assert!(calls(&told.text()) <= judged);
    }
}
