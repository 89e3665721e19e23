//! The results of a measurement, item by item and in groups.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    breakdown::{self, Cut},
    corpus::{Corpus, Item},
    engines::{Engines, Judged, Outcome, Signal},
    signals::{self, Worth},
    summary::Summary,
};

/// The results of a measurement.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) groups: Vec<Group>,
    pub(super) summary: Summary,
    /// The same results by length, by language, and by the origin of the items.
    pub(super) breakdown: Vec<Cut>,
    /// The usefulness of each pattern and rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signals: Option<Vec<Worth>>,
    #[serde(skip)]
    pub(super) misses: Vec<Miss>,
    #[serde(skip)]
    pub(super) skipped: BTreeMap<String, u64>,
    #[serde(skip)]
    pub(super) bad_lines: Vec<String>,
}

/// An item and its judgement.
pub(super) struct Row<'c> {
    pub(super) item: &'c Item,
    pub(super) judged: Judged,
}

/// The number of items, and of items with each outcome. Each outcome includes those after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) n: u64,
    /// The items in which something was found.
    pub(super) noted: u64,
    /// The items at or above `alert_threshold`, or acted upon.
    pub(super) flagged: u64,
    /// The items that are hidden, stripped, withheld or blocked.
    pub(super) blocked: u64,
    /// The items in which a secret would be replaced, if the policy asks for that.
    pub(super) altered: u64,
}

impl Counts {
    pub(super) fn of<'r, 'c: 'r>(rows: impl IntoIterator<Item = &'r Row<'c>>) -> Self {
        let mut counts = Self::default();
        for row in rows {
            counts.count(&row.judged);
        }
        counts
    }

    pub(super) fn count(&mut self, judged: &Judged) {
        self.n += 1;
        self.noted += u64::from(judged.outcome >= Outcome::Noted);
        self.flagged += u64::from(judged.outcome >= Outcome::Alerted);
        self.blocked += u64::from(judged.outcome >= Outcome::Acted);
        self.altered += u64::from(judged.altered.anywhere());
    }

    pub(super) fn flagged(self) -> Option<f64> {
        fraction(self.flagged, self.n)
    }

    pub(super) fn blocked(self) -> Option<f64> {
        fraction(self.blocked, self.n)
    }

    pub(super) fn noted(self) -> Option<f64> {
        fraction(self.noted, self.n)
    }

    pub(super) fn altered(self) -> Option<f64> {
        fraction(self.altered, self.n)
    }
}

/// Returns the fraction, or `None` if `whole` is 0. Corpora are far smaller than 2³² items.
pub(super) fn fraction(part: u64, whole: u64) -> Option<f64> {
    let part = f64::from(u32::try_from(part).ok()?);
    let whole = f64::from(u32::try_from(whole).ok().filter(|&whole| whole > 0)?);
    Some(part / whole)
}

/// Items that share kind, corpus, tier and label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Group {
    #[serde(flatten)]
    pub(super) key: GroupKey,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct GroupKey {
    pub(super) kind: String,
    pub(super) corpus: String,
    pub(super) tier: String,
    pub(super) label: String,
}

/// A misjudged item.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) label: String,
    pub(super) text: String,
    pub(super) signals: Vec<Signal>,
}

impl Report {
    /// Judges every item.
    pub(super) fn of(corpus: &Corpus, engines: &Engines) -> Self {
        let mut report = Self {
            bad_lines: corpus.bad_lines.clone(),
            ..Self::default()
        };
        let mut rows = Vec::new();
        for (item, judged) in corpus.items.iter().zip(engines.judge(corpus)) {
            match judged {
                Some(Ok(judged)) => rows.push(Row { item, judged }),
                Some(Err(error)) => report.bad_lines.push(format!("item {}: {error:#}", item.id)),
                None => *report.skipped.entry(item.kind.clone()).or_default() += 1,
            }
        }
        report.groups = groups(&rows);
        report.summary = Summary::of(&rows);
        report.breakdown = breakdown::of(&rows);
        report.signals = Some(signals::of(&rows));
        report.misses = rows.into_iter().flat_map(misses).collect();
        report
    }
}

/// Returns the errors on an item: a wrong outcome, or a harmless text that is altered.
fn misses(row: Row<'_>) -> impl Iterator<Item = Miss> {
    let Row { item, judged } = row;
    let miss = |kind: String, text: String, signals: Vec<Signal>| Miss {
        kind,
        id: item.id.clone(),
        label: item.label.clone(),
        text,
        signals,
    };
    let is_altered = item.kind == "tool_output" && !judged.expected && judged.altered.anywhere();
    let altered = is_altered.then(|| {
        let text = judged.altered.excerpts.join(" … ");
        miss("replacement".to_owned(), text, judged.altered.in_result.clone())
    });
    let misjudged = (judged.is_flagged() != judged.expected)
        .then(|| miss(item.kind.clone(), judged.text, judged.signals));
    altered.into_iter().chain(misjudged)
}

fn groups(rows: &[Row<'_>]) -> Vec<Group> {
    let mut groups: BTreeMap<GroupKey, Counts> = BTreeMap::new();
    for Row { item, judged } in rows {
        let key = GroupKey {
            kind: item.kind.clone(),
            corpus: item.corpus().to_owned(),
            tier: item.tier().to_owned(),
            label: item.label.clone(),
        };
        groups.entry(key).or_default().count(judged);
    }
    let groups = groups.into_iter();
    groups.map(|(key, counts)| Group { key, counts }).collect()
}
