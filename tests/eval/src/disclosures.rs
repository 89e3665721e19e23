//! Secrets in texts on their way to a model: prompts, and results of tools.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::{Row, fraction};

/// Fractions of items in which something would be replaced before a model reads them (`dlp.mode: redact`), each of the
/// core tier unless its name says otherwise.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Disclosures {
    /// Of the arguments that name the family of their secret, each as a text.
    pub(super) recall_by_family: BTreeMap<String, f64>,
    /// Of the tier of vendors for which no other scanner has patterns.
    pub(super) recall_other_vendors: Option<f64>,
    /// Of the arguments without a secret.
    pub(super) fp: Option<f64>,
    pub(super) fp_near_miss: Option<f64>,
    /// Of benign results of tools. Some of them have secrets nevertheless.
    pub(super) replaced_in_outputs: Option<f64>,
    /// Of the same results before a client gets them, with `output_inspection.secrets: redact`.
    pub(super) replaced_in_results: Option<f64>,
}

/// Sums up the judgements; returns `None` if no text was judged.
pub(super) fn measure(rows: &[Row<'_>]) -> Option<Disclosures> {
    let texts = || {
        rows.iter()
            .filter(|row| ["argument", "tool_output"].contains(&&*row.item.kind))
    };
    texts().next()?;
    let replaced = |kind: &str, tier: &str, is_attack: bool, is: fn(&Row<'_>) -> bool| {
        let fits = |row: &&Row<'_>| {
            row.item.kind == kind && row.item.tier() == tier && row.judged.expected == is_attack
        };
        share(texts().filter(fits), is)
    };
    let families = texts().filter_map(|row| {
        let is_counted = row.item.kind == "argument" && row.item.tier() == "core" && row.judged.expected;
        Some((row.item.secret_family.as_ref().filter(|_| is_counted)?, row))
    });
    let mut by_family: BTreeMap<&str, Vec<&Row<'_>>> = BTreeMap::new();
    for (family, row) in families {
        by_family.entry(family).or_default().push(row);
    }
    let recall = by_family.into_iter();
    Some(Disclosures {
        recall_by_family: recall
            .filter_map(|(family, rows)| Some((family.to_owned(), share(rows.into_iter(), to_model)?)))
            .collect(),
        recall_other_vendors: replaced("argument", "other_vendor", true, to_model),
        fp: replaced("argument", "core", false, to_model),
        fp_near_miss: replaced("argument", "near_miss", false, to_model),
        replaced_in_outputs: replaced("tool_output", "core", false, to_model),
        replaced_in_results: replaced("tool_output", "core", false, |row| {
            !row.judged.altered.in_result.is_empty()
        }),
    })
}

fn to_model(row: &Row<'_>) -> bool {
    row.judged.altered.to_model
}

fn share<'r, 'c: 'r>(rows: impl Iterator<Item = &'r Row<'c>>, is: fn(&Row<'_>) -> bool) -> Option<f64> {
    let (mut part, mut whole) = (0, 0);
    for row in rows {
        whole += 1;
        part += u64::from(is(row));
    }
    fraction(part, whole)
}
