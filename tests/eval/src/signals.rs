//! The usefulness of each pattern and rule: the attacks that it finds, and the harmless texts that it hits.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    engines::{Outcome, Signal},
    report::Row,
};

/// The usefulness of one pattern or rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Worth {
    pub(super) kind: String,
    pub(super) signal: String,
    /// In the core tier.
    #[serde(flatten)]
    pub(super) hits: Hits,
    /// By corpus, and by tier for tiers other than the core tier.
    pub(super) by_source: BTreeMap<String, Hits>,
}

/// Numbers of items in which a signal was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Hits {
    /// Attacks in which it is at or above `alert_threshold`.
    pub(super) attacks: u64,
    /// Attacks that no other signal finds.
    pub(super) attacks_alone: u64,
    /// Harmless texts in which it was found, at any severity.
    pub(super) harmless_noted: u64,
    /// Harmless texts in which it is at or above `alert_threshold`.
    pub(super) harmless: u64,
    /// Harmless texts that no other signal flags.
    pub(super) harmless_alone: u64,
    /// Harmless texts of the former that are acted upon.
    pub(super) harmless_acted: u64,
}

/// Returns every signal, with the most harmful one first.
pub(super) fn of(rows: &[Row<'_>]) -> Vec<Worth> {
    let mut worths: BTreeMap<(String, String), Worth> = BTreeMap::new();
    for Row { item, judged } in rows {
        let is_core = item.tier() == "core";
        let source = match is_core {
            true => item.corpus().to_owned(),
            false => format!("{} ({})", item.corpus(), item.tier()),
        };
        let mut count = |kind: &str, signals: &[Signal], is_attack: bool, is_acted: bool| {
            let alarming: BTreeSet<&str> = signals
                .iter()
                .filter(|signal| signal.is_alarming)
                .map(|signal| signal.name.as_str())
                .collect();
            let all: BTreeSet<&str> = signals.iter().map(|signal| signal.name.as_str()).collect();
            for name in all {
                let worth = worths.entry((kind.to_owned(), name.to_owned())).or_default();
                let is_alarming = alarming.contains(name);
                let is_alone = is_alarming && alarming.len() == 1;
                let of_source = worth.by_source.entry(source.clone()).or_default();
                of_source.count(is_attack, is_alarming, is_alone, is_acted);
                if is_core {
                    worth.hits.count(is_attack, is_alarming, is_alone, is_acted);
                }
            }
        };
        let is_acted = judged.outcome == Outcome::Acted;
        count(&item.kind, &judged.signals, judged.expected, is_acted);
        count(
            "redaction",
            &judged.altered.in_result,
            judged.expected,
            judged.altered.anywhere(),
        );
    }
    let mut worths: Vec<Worth> = worths
        .into_iter()
        .map(|((kind, signal), worth)| Worth {
            kind,
            signal,
            ..worth
        })
        .collect();
    worths.sort_by(|a, b| {
        let key = |worth: &Worth| (worth.hits.harmless_acted, worth.hits.harmless, worth.hits.attacks);
        a.kind.cmp(&b.kind).then(key(b).cmp(&key(a)))
    });
    worths
}

impl Hits {
    fn count(&mut self, is_attack: bool, is_alarming: bool, is_alone: bool, is_acted: bool) {
        if is_attack {
            self.attacks += u64::from(is_alarming);
            self.attacks_alone += u64::from(is_alone);
        } else {
            self.harmless_noted += 1;
            self.harmless += u64::from(is_alarming);
            self.harmless_alone += u64::from(is_alone);
            self.harmless_acted += u64::from(is_alarming && is_acted);
        }
    }
}
