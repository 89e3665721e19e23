//! The figures that have targets, each a fraction of the core tier unless its name says otherwise.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    categories::{self, Categories},
    corpus::Corpus,
    disclosures::{self, Disclosures},
    report::{Group, Share},
    sequences,
};

/// The figures that have targets; `None` where nothing was there to measure. Areas without an engine are `None`.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) definitions: Option<Definitions>,
    pub(super) outputs: Option<Outputs>,
    pub(super) secrets: Option<Secrets>,
    pub(super) names: Option<Rates>,
    pub(super) sequences: Option<Sequences>,
    pub(super) launches: Option<Rates>,
    pub(super) categories: Option<Categories>,
    pub(super) disclosures: Option<Disclosures>,
    pub(super) speed: Option<Speed>,
}

/// Sequences that are stopped, by the default policy (`cross_server.decision: evidence`) unless a name says otherwise.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Sequences {
    pub(super) attacks_blocked: Option<f64>,
    pub(super) benign_blocked: Option<f64>,
    /// With `cross_server.decision: block`.
    pub(super) block: Blocked,
}

/// Sequences that are stopped.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Blocked {
    pub(super) attacks_blocked: Option<f64>,
    pub(super) benign_blocked: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Definitions {
    pub(super) recall: Option<f64>,
    pub(super) macro_recall: Option<f64>,
    pub(super) fp_real_servers: Option<f64>,
    pub(super) fp_other: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Outputs {
    pub(super) recall: Option<f64>,
    pub(super) macro_recall: Option<f64>,
    pub(super) fp: Option<f64>,
    pub(super) fp_quotes_attacks: Option<f64>,
    pub(super) blocked_quotes_attacks: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Secrets {
    /// Of the items that say which family their secret is of.
    pub(super) recall_by_family: BTreeMap<String, f64>,
    pub(super) fp: Option<f64>,
    pub(super) fp_near_miss: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) recall: Option<f64>,
    pub(super) fp: Option<f64>,
}

/// How fast the engines are, on one thread.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Speed {
    /// Of 100 definitions 99 take at most this long, microseconds.
    pub(super) definition_p99_us: Option<f64>,
    /// Outputs, all of them, megabytes a second.
    pub(super) outputs_mb_s: Option<f64>,
    /// Benign outputs in which nothing is found, megabytes a second.
    pub(super) clean_mb_s: Option<f64>,
}

/// Items of some groups, and how many of them were flagged or blocked.
#[derive(Clone, Copy, Default)]
struct Tally {
    part: u64,
    whole: u64,
}

impl Tally {
    fn of<'a>(
        groups: impl IntoIterator<Item = &'a Group>,
        part: fn(&Group) -> u64,
        whole: fn(&Group) -> u64,
    ) -> Self {
        groups.into_iter().fold(Self::default(), |sum, group| Self {
            part: sum.part + part(group),
            whole: sum.whole + whole(group),
        })
    }

    fn fraction(self) -> Option<f64> {
        Share {
            n: self.whole,
            flagged: self.part,
        }
        .fraction()
    }
}

impl Summary {
    pub(super) fn of(groups: &[Group]) -> Self {
        let area = Area(groups);
        Self {
            definitions: area.definitions(),
            outputs: area.outputs(),
            secrets: area.secrets(),
            names: area.rates("server_name", "malicious", "benign"),
            sequences: area.sequences(),
            launches: area.rates("launch", "mcp_server", "other"),
            categories: None,
            disclosures: None,
            speed: None,
        }
    }

    /// What is measured on the items beside judging each.
    pub(super) fn take(&mut self, corpus: &Corpus) {
        self.categories = categories::measure(corpus);
        self.disclosures = disclosures::measure(corpus);
        if let Some(figures) = &mut self.sequences {
            let stopped = |label| {
                let (whole, part) = sequences::stopped_by_block(corpus, label);
                Tally { part, whole }.fraction()
            };
            figures.block = Blocked {
                attacks_blocked: stopped("malicious"),
                benign_blocked: stopped("benign"),
            };
        }
    }
}

/// Groups to choose from.
struct Area<'a>(&'a [Group]);

impl<'a> Area<'a> {
    fn groups(&self, kinds: &[&str], tier: &str, label: &str) -> Vec<&'a Group> {
        let fits = |group: &&Group| {
            kinds.contains(&group.key.kind.as_str()) && group.key.tier == tier && group.key.label == label
        };
        self.0.iter().filter(fits).collect()
    }

    fn flagged(&self, kinds: &[&str], tier: &str, label: &str) -> Option<f64> {
        Tally::of(
            self.groups(kinds, tier, label),
            |group| group.flagged,
            |group| group.n,
        )
        .fraction()
    }

    fn definitions(&self) -> Option<Definitions> {
        let kinds = &["tool_definition", "instructions"];
        let benign = self.groups(kinds, "core", "benign");
        let malicious = self.groups(kinds, "core", "malicious");
        let measured = !(benign.is_empty() && malicious.is_empty());
        measured.then(|| Definitions {
            recall: self.flagged(kinds, "core", "malicious"),
            macro_recall: macro_recall(&malicious),
            fp_real_servers: Tally::of(
                benign.iter().copied(),
                |group| group.real.flagged,
                |group| group.real.n,
            )
            .fraction(),
            fp_other: Tally::of(
                benign,
                |group| group.flagged - group.real.flagged,
                |group| group.n - group.real.n,
            )
            .fraction(),
        })
    }

    fn outputs(&self) -> Option<Outputs> {
        let kinds = &["tool_output"];
        self.0
            .iter()
            .any(|group| group.key.kind == "tool_output")
            .then(|| Outputs {
                recall: self.flagged(kinds, "core", "malicious"),
                macro_recall: macro_recall(&self.groups(kinds, "core", "malicious")),
                fp: self.flagged(kinds, "core", "benign"),
                fp_quotes_attacks: self.flagged(kinds, "quotes_attacks", "benign"),
                blocked_quotes_attacks: Tally::of(
                    self.groups(kinds, "quotes_attacks", "benign"),
                    |group| group.blocked,
                    |group| group.n,
                )
                .fraction(),
            })
    }

    fn secrets(&self) -> Option<Secrets> {
        let kinds = &["argument"];
        let mut families: BTreeMap<String, Tally> = BTreeMap::new();
        for group in self.groups(kinds, "core", "malicious") {
            for (family, share) in &group.families {
                let tally = families.entry(family.clone()).or_default();
                tally.part += share.flagged;
                tally.whole += share.n;
            }
        }
        let recall = families
            .into_iter()
            .filter_map(|(family, tally)| Some((family, tally.fraction()?)));
        self.0
            .iter()
            .any(|group| group.key.kind == "argument")
            .then(|| Secrets {
                recall_by_family: recall.collect(),
                fp: self.flagged(kinds, "core", "benign"),
                fp_near_miss: self.flagged(kinds, "near_miss", "benign"),
            })
    }

    fn sequences(&self) -> Option<Sequences> {
        let blocked = |label| {
            let groups = self.groups(&["sequence"], "core", label);
            Tally::of(groups, |group| group.blocked, |group| group.n).fraction()
        };
        let (attacks_blocked, benign_blocked) = (blocked("malicious"), blocked("benign"));
        (attacks_blocked.is_some() || benign_blocked.is_some()).then(|| Sequences {
            attacks_blocked,
            benign_blocked,
            block: Blocked::default(),
        })
    }

    fn rates(&self, kind: &str, positive: &str, negative: &str) -> Option<Rates> {
        let (recall, fp) = (
            self.flagged(&[kind], "core", positive),
            self.flagged(&[kind], "core", negative),
        );
        (recall.is_some() || fp.is_some()).then_some(Rates { recall, fp })
    }
}

/// The mean of the corpora's own fractions.
fn macro_recall(groups: &[&Group]) -> Option<f64> {
    let mut corpora: BTreeMap<&str, Vec<&Group>> = BTreeMap::new();
    for group in groups {
        corpora.entry(&group.key.corpus).or_default().push(group);
    }
    let fractions: Vec<f64> = corpora
        .into_values()
        .filter_map(|groups| Tally::of(groups, |group| group.flagged, |group| group.n).fraction())
        .collect();
    let count = u32::try_from(fractions.len()).ok().filter(|&count| count > 0)?;
    Some(fractions.iter().sum::<f64>() / f64::from(count))
}
