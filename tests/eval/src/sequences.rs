//! Sequences of calls to several servers, judged by the cross-server rules, both with the decision of the default
//! policy and with the one that blocks every match.
//!
//! Items have no results, so a call cannot repeat the content of an earlier result, and only the calls themselves are
//! evidence. Turns of the model are taken to be three seconds apart, and calls of one turn a tenth of a second.

use anyhow::Context as _;
use mcpmon_detect::{arguments::Arguments, category, fingerprint, labels};
use mcpmon_engine::cross_server::CallWindow;
use mcpmon_model::{RawJson, ServerId, SharedCall, Timestamp};
use mcpmon_policy::{CrossServerDecision, Policy};
use serde::Deserialize;
use serde_json::Value;

use super::{
    corpus::{Corpus, Item},
    engines::{Altered, Judged, Outcome, Signal},
};

const TURN: i64 = 3_000_000_000;
const CALL: i64 = 100_000_000;

/// One call of a sequence.
#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    turn: Option<i64>,
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// Judges a sequence by the default policy.
pub(super) fn judge(item: &Item, expected: bool) -> anyhow::Result<Judged> {
    let calls = calls(item)?;
    let found = run(&calls, CrossServerDecision::Evidence);
    let outcome = match found.iter().any(|(_, blocks)| *blocks) {
        true => Outcome::Acted,
        false if found.is_empty() => Outcome::Nothing,
        false => Outcome::Alerted,
    };
    let signals = found.into_iter().map(|(name, _)| Signal {
        name,
        severity: None,
        is_alarming: true,
        text: String::new(),
    });
    Ok(Judged {
        outcome,
        expected,
        altered: Altered::default(),
        text: serde_json::to_string(item.payload.as_ref().unwrap_or(&Value::Null))?,
        signals: signals.collect(),
    })
}

/// Returns the number of sequences with the label, and the number of those that the rules stop if every match
/// stops a call.
pub(super) fn stopped_by_block(corpus: &Corpus, label: &str) -> (u64, u64) {
    let of_label = corpus
        .items
        .iter()
        .filter(|item| item.kind == "sequence" && item.label == label);
    of_label
        .filter_map(|item| calls(item).ok())
        .fold((0, 0), |(all, stopped), calls| {
            let stops = run(&calls, CrossServerDecision::Block)
                .iter()
                .any(|(_, blocks)| *blocks);
            (all + 1, stopped + u64::from(stops))
        })
}

fn calls(item: &Item) -> anyhow::Result<Vec<Call>> {
    let payload = item
        .payload
        .clone()
        .context("an item of kind sequence needs `payload`")?;
    serde_json::from_value(payload).context("the payload of a sequence is a list of calls")
}

/// Returns the rules that match, each with whether it stops its call.
fn run(calls: &[Call], decision: CrossServerDecision) -> Vec<(String, bool)> {
    let mut policy = Policy::default();
    policy.cross_server.decision = decision;
    let names: std::collections::BTreeSet<_> = calls.iter().map(|call| &call.server).collect();
    let mut window = CallWindow::default();
    let mut found = Vec::new();
    let (mut now, mut turn) = (0, None);
    for call in calls {
        now += match turn == Some(call.turn) && call.turn.is_some() {
            true => CALL,
            false => TURN,
        };
        turn = Some(call.turn);
        let text = call.arguments.to_string();
        let arguments = Arguments::walk(RawJson::trusted(&text));
        let server = call.server.as_deref().unwrap_or("server");
        let shared = SharedCall {
            at: Timestamp(now),
            server: ServerId::new(server.replace(char::is_whitespace, "-")).unwrap_or_else(|_| unnamed()),
            tool: call.name.clone(),
            category: category::classify(&call.name, None),
            request: None,
            tool_call: None,
            turn: None,
            labels: labels::labels_of_call(&call.name, &arguments),
            arguments: fingerprint::of_arguments(&arguments),
            resumes: false,
            several: names.len() > 1,
        };
        let (checked, _) = window.admit(&policy, &shared);
        found.extend(
            checked
                .crossings
                .into_iter()
                .map(|crossing| (crossing.rule.as_str().to_owned(), crossing.blocks)),
        );
    }
    found
}

fn unnamed() -> ServerId {
    ServerId::new("server").expect("a plain word is an id")
}
