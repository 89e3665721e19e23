//! What has been measured, item by item and in groups.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    corpus::{Corpus, Item},
    engines::{Engines, Found, Judged, Judgement},
    summary::Summary,
};

/// What has been measured.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) groups: Vec<Group>,
    pub(super) summary: Summary,
    #[serde(skip)]
    pub(super) misses: Vec<Miss>,
    #[serde(skip)]
    pub(super) skipped: BTreeMap<String, u64>,
    #[serde(skip)]
    pub(super) bad_lines: Vec<String>,
}

/// Items that share kind, corpus, tier and label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Group {
    #[serde(flatten)]
    pub(super) key: GroupKey,
    pub(super) n: u64,
    pub(super) flagged: u64,
    pub(super) blocked: u64,
    /// Tools of servers that exist have a target of their own: how many of the items they are, and are flagged.
    #[serde(skip)]
    pub(super) real: Real,
}

/// Items that come from real servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Real {
    pub(super) n: u64,
    pub(super) flagged: u64,
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
    pub(super) found: Vec<Found>,
}

impl Report {
    /// Judges every item.
    pub(super) fn of(corpus: &Corpus, engines: &Engines) -> Self {
        let mut report = Self {
            bad_lines: corpus.bad_lines.clone(),
            ..Self::default()
        };
        let mut groups = BTreeMap::new();
        for item in &corpus.items {
            match engines.judge(corpus, item) {
                Ok(Judgement::Judged(judged)) => report.count(&mut groups, item, judged),
                Ok(Judgement::NoEngine) => *report.skipped.entry(item.kind.clone()).or_default() += 1,
                Err(error) => report.bad_lines.push(format!("item {}: {error:#}", item.id)),
            }
        }
        report.groups = groups.into_values().collect();
        report.summary = Summary::of(&report.groups);
        report
    }

    fn count(&mut self, groups: &mut BTreeMap<GroupKey, Group>, item: &Item, judged: Judged) {
        let key = key(item);
        let group = groups.entry(key.clone()).or_insert(Group {
            key,
            n: 0,
            flagged: 0,
            blocked: 0,
            real: Real::default(),
        });
        group.n += 1;
        group.flagged += u64::from(judged.flagged);
        group.blocked += u64::from(judged.blocked);
        if item
            .category
            .as_deref()
            .is_some_and(|category| category.starts_with("real_server"))
        {
            group.real.n += 1;
            group.real.flagged += u64::from(judged.flagged);
        }
        if judged.flagged != judged.expected {
            self.misses.push(Miss {
                kind: item.kind.clone(),
                id: item.id.clone(),
                label: item.label.clone(),
                text: judged.text,
                found: judged.found,
            });
        }
    }
}

fn key(item: &Item) -> GroupKey {
    GroupKey {
        kind: item.kind.clone(),
        corpus: item.corpus.clone().unwrap_or_default(),
        tier: item.tier.clone().unwrap_or_else(|| "core".to_owned()),
        label: item.label.clone(),
    }
}
