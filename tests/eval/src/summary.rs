//! The figures that have targets, each a fraction of the core tier unless its name says otherwise.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    categories::{self, Categories},
    corpus::Corpus,
    disclosures::{self, Disclosures},
    report::{Counts, Row, fraction},
    sequences,
};

/// The figures that have targets. A figure is `None` if there was nothing to measure, or the area has no engine.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) definitions: Option<Definitions>,
    pub(super) outputs: Option<Outputs>,
    /// Of the instructions of real servers.
    pub(super) instructions: Option<Shares>,
    /// Of the prompts that real servers define.
    pub(super) prompts: Option<Shares>,
    pub(super) secrets: Option<Secrets>,
    pub(super) names: Option<Rates>,
    pub(super) sequences: Option<Sequences>,
    pub(super) launches: Option<Rates>,
    pub(super) categories: Option<Categories>,
    pub(super) disclosures: Option<Disclosures>,
    pub(super) speed: Option<Speed>,
}

/// Fractions of some items. Each fraction includes those after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Shares {
    pub(super) n: u64,
    /// The share of items in which something was found.
    pub(super) noted: Option<f64>,
    /// The share of items at or above `alert_threshold`, or acted upon.
    pub(super) alerted: Option<f64>,
    /// The share of items that the default policy hides, strips or withholds.
    pub(super) acted: Option<f64>,
}

impl From<Counts> for Shares {
    fn from(counts: Counts) -> Self {
        Self {
            n: counts.n,
            noted: counts.noted(),
            alerted: counts.flagged(),
            acted: counts.blocked(),
        }
    }
}

/// Fractions of sequences that are stopped, by the default policy (`cross_server.decision: evidence`) unless a name
/// says otherwise.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Sequences {
    pub(super) attacks_blocked: Option<f64>,
    pub(super) benign_blocked: Option<f64>,
    /// The same with `cross_server.decision: block`.
    pub(super) block: Blocked,
}

/// Fractions of sequences that are stopped.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Blocked {
    pub(super) attacks_blocked: Option<f64>,
    pub(super) benign_blocked: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Definitions {
    /// The share that is alerted or acted upon.
    pub(super) recall: Option<f64>,
    pub(super) macro_recall: Option<f64>,
    pub(super) acted_recall: Option<f64>,
    pub(super) acted_macro_recall: Option<f64>,
    /// The share that is alerted or acted upon.
    pub(super) fp_real_servers: Option<f64>,
    pub(super) fp_other: Option<f64>,
    pub(super) real_servers: RealServers,
}

/// Definitions of real servers, pooled and by server.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct RealServers {
    pub(super) pooled: Shares,
    pub(super) servers: u64,
    /// The mean of each server's fraction.
    pub(super) alerted_per_server: Option<f64>,
    pub(super) acted_per_server: Option<f64>,
    /// The share of servers that lose at least one tool.
    pub(super) servers_losing: Option<f64>,
    /// The share of servers with at least one alert.
    pub(super) servers_alerted: Option<f64>,
    /// Definitions of at least 4,000 characters.
    pub(super) long: Shares,
    /// The servers that lose the most tools.
    pub(super) worst: Vec<Loser>,
}

/// A server that loses tools.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Loser {
    pub(super) server: String,
    pub(super) tools: u64,
    pub(super) lost: u64,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Outputs {
    /// The share that is alerted or withheld.
    pub(super) recall: Option<f64>,
    pub(super) macro_recall: Option<f64>,
    pub(super) acted_recall: Option<f64>,
    /// The share that is alerted or withheld.
    pub(super) fp: Option<f64>,
    pub(super) withheld: Option<f64>,
    /// The share that is altered with `output_inspection.secrets: redact`, or on the way to a model.
    pub(super) altered: Option<f64>,
    pub(super) fp_quotes_attacks: Option<f64>,
    pub(super) blocked_quotes_attacks: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Secrets {
    /// Of the items that name the family of their secret.
    pub(super) recall_by_family: BTreeMap<String, f64>,
    pub(super) fp: Option<f64>,
    pub(super) fp_near_miss: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Rates {
    pub(super) recall: Option<f64>,
    pub(super) fp: Option<f64>,
}

/// The speed of the engines, on one thread.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Speed {
    /// The time that 99 of 100 definitions do not exceed, in microseconds.
    pub(super) definition_p99_us: Option<f64>,
    /// The speed for all outputs, in megabytes per second.
    pub(super) outputs_mb_s: Option<f64>,
    /// The speed for benign outputs in which nothing is found, in megabytes per second.
    pub(super) clean_mb_s: Option<f64>,
    /// The time for 30 KB of such outputs, in microseconds.
    pub(super) clean_30kb_us: Option<f64>,
}

impl Summary {
    pub(super) fn of(rows: &[Row<'_>]) -> Self {
        let area = Area(rows);
        Self {
            definitions: area.definitions(),
            outputs: area.outputs(),
            instructions: area.shares("instructions"),
            prompts: area.shares("prompt"),
            secrets: area.secrets(),
            names: area.rates("server_name"),
            sequences: area.sequences(),
            launches: area.rates("launch"),
            categories: None,
            disclosures: disclosures::measure(rows),
            speed: None,
        }
    }

    /// Makes the measurements that need more than one judgement of each item.
    pub(super) fn take(&mut self, corpus: &Corpus) {
        self.categories = categories::measure(corpus);
        if let Some(figures) = &mut self.sequences {
            let stopped = |label| {
                let (whole, part) = sequences::stopped_by_block(corpus, label);
                fraction(part, whole)
            };
            figures.block = Blocked {
                attacks_blocked: stopped("malicious"),
                benign_blocked: stopped("benign"),
            };
        }
    }
}

/// The items from which an area of the summary selects.
#[derive(Clone, Copy)]
struct Area<'r, 'c>(&'r [Row<'c>]);

impl<'r, 'c> Area<'r, 'c> {
    fn rows(self, kind: &str, tier: &str, is_attack: bool) -> Vec<&'r Row<'c>> {
        let fits = |row: &&Row<'_>| {
            row.item.kind == kind && row.item.tier() == tier && row.judged.expected == is_attack
        };
        self.0.iter().filter(fits).collect()
    }

    fn counts(self, kind: &str, tier: &str, is_attack: bool) -> Counts {
        Counts::of(self.rows(kind, tier, is_attack))
    }

    fn has(self, kind: &str) -> bool {
        self.0.iter().any(|row| row.item.kind == kind)
    }

    fn shares(self, kind: &str) -> Option<Shares> {
        let counts = self.counts(kind, "core", false);
        (counts.n > 0).then(|| counts.into())
    }

    fn definitions(self) -> Option<Definitions> {
        let attacks = self.rows("tool_definition", "core", true);
        let harmless = self.rows("tool_definition", "core", false);
        if attacks.is_empty() && harmless.is_empty() {
            return None;
        }
        let found = Counts::of(attacks.iter().copied());
        let (real, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) =
            harmless.into_iter().partition(|row| row.item.is_real_server());
        let real_servers = RealServers::of(&real);
        Some(Definitions {
            recall: found.flagged(),
            macro_recall: macro_recall(&attacks, Counts::flagged),
            acted_recall: found.blocked(),
            acted_macro_recall: macro_recall(&attacks, Counts::blocked),
            fp_real_servers: real_servers.pooled.alerted,
            fp_other: Counts::of(others).flagged(),
            real_servers,
        })
    }

    fn outputs(self) -> Option<Outputs> {
        let kind = "tool_output";
        let attacks = self.rows(kind, "core", true);
        let found = Counts::of(attacks.iter().copied());
        let harmless = self.counts(kind, "core", false);
        let quotes = self.counts(kind, "quotes_attacks", false);
        self.has(kind).then(|| Outputs {
            recall: found.flagged(),
            macro_recall: macro_recall(&attacks, Counts::flagged),
            acted_recall: found.blocked(),
            fp: harmless.flagged(),
            withheld: harmless.blocked(),
            altered: harmless.altered(),
            fp_quotes_attacks: quotes.flagged(),
            blocked_quotes_attacks: quotes.blocked(),
        })
    }

    fn secrets(self) -> Option<Secrets> {
        let kind = "argument";
        let mut families: BTreeMap<String, Counts> = BTreeMap::new();
        for row in self.rows(kind, "core", true) {
            if let Some(family) = &row.item.secret_family {
                families.entry(family.clone()).or_default().count(&row.judged);
            }
        }
        let recall = families.into_iter();
        self.has(kind).then(|| Secrets {
            recall_by_family: recall
                .filter_map(|(family, counts)| Some((family, counts.flagged()?)))
                .collect(),
            fp: self.counts(kind, "core", false).flagged(),
            fp_near_miss: self.counts(kind, "near_miss", false).flagged(),
        })
    }

    fn sequences(self) -> Option<Sequences> {
        self.has("sequence").then(|| Sequences {
            attacks_blocked: self.counts("sequence", "core", true).blocked(),
            benign_blocked: self.counts("sequence", "core", false).blocked(),
            block: Blocked::default(),
        })
    }

    fn rates(self, kind: &str) -> Option<Rates> {
        self.has(kind).then(|| Rates {
            recall: self.counts(kind, "core", true).flagged(),
            fp: self.counts(kind, "core", false).flagged(),
        })
    }
}

impl RealServers {
    /// Sums up definitions by server. A server that is in several lists counts as several servers, because the texts
    /// differ.
    fn of(rows: &[&Row<'_>]) -> Self {
        let mut servers: BTreeMap<[&str; 3], Counts> = BTreeMap::new();
        for Row { item, judged } in rows {
            let server = item.server.as_deref().unwrap_or_default();
            let key = [&item.folder, item.corpus(), server];
            servers.entry(key).or_default().count(judged);
        }
        let count = |fits: fn(&Counts) -> bool| {
            let fitting = servers.values().filter(|counts| fits(counts)).count();
            fraction(whole(fitting), whole(servers.len()))
        };
        let long = rows.iter().filter(|row| row.judged.text.chars().count() >= LONG);
        let mut losers: Vec<Loser> = servers
            .iter()
            .filter(|(_, counts)| counts.blocked > 0)
            .map(|([_, _, server], counts)| Loser {
                server: (*server).to_owned(),
                tools: counts.n,
                lost: counts.blocked,
            })
            .collect();
        losers.sort_by_key(|loser| std::cmp::Reverse(loser.lost));
        losers.truncate(MAX_LOSERS);
        Self {
            pooled: Counts::of(rows.iter().copied()).into(),
            servers: whole(servers.len()),
            alerted_per_server: mean(servers.values().filter_map(|counts| counts.flagged())),
            acted_per_server: mean(servers.values().filter_map(|counts| counts.blocked())),
            servers_losing: count(|counts| counts.blocked > 0),
            servers_alerted: count(|counts| counts.flagged > 0),
            long: Counts::of(long.copied()).into(),
            worst: losers,
        }
    }
}

/// The number of characters from which a definition is long.
const LONG: usize = 4000;
/// The number of servers that are named as losing the most tools.
const MAX_LOSERS: usize = 20;

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Returns the mean of each corpus's fraction.
fn macro_recall(rows: &[&Row<'_>], fraction: fn(Counts) -> Option<f64>) -> Option<f64> {
    let mut corpora: BTreeMap<&str, Counts> = BTreeMap::new();
    for row in rows {
        corpora.entry(row.item.corpus()).or_default().count(&row.judged);
    }
    mean(corpora.into_values().filter_map(fraction))
}

fn mean(fractions: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = fractions.fold((0_u32, 0.0), |(count, sum), one| (count + 1, sum + one));
    (count > 0).then(|| sum / f64::from(count))
}
