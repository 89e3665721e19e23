//! The report as text tables.

use super::{
    breakdown::Cut,
    report::{Group, Miss, Report},
    signals::Worth,
    summary::{RealServers, Shares, Summary},
};

/// The number of misjudged items of a kind that are listed.
const NAMED_MISSES: usize = 20;
/// The number of items that an attribute needs for its row to be shown; the JSON output has all.
const MIN_SHOWN: u64 = 10;
/// The number of characters that are shown of a misjudged item.
const SHOWN: usize = 600;

/// The form in which misjudged items are listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Misses {
    Ids,
    WithText,
}

/// Returns the whole report.
pub(super) fn of(report: &Report, misses: Misses) -> String {
    let signals = report.signals.as_deref().map(signals).unwrap_or_default();
    groups(&report.groups)
        + &breakdown(&report.breakdown)
        + &signals
        + &summary(&report.summary)
        + &missed(&report.misses, misses)
}

fn groups(groups: &[Group]) -> String {
    let mut text = format!(
        "{:<16} {:<24} {:<14} {:<12} {:>7} {:>7} {:>8} {:>8} {:>8}\n",
        "KIND", "CORPUS", "TIER", "LABEL", "N", "NOTED", "FLAGGED", "BLOCKED", "ALTERED"
    );
    for Group { key, counts } in groups {
        text += &format!(
            "{:<16} {:<24} {:<14} {:<12} {:>7} {:>7} {:>8} {:>8} {:>8}\n",
            key.kind,
            key.corpus,
            key.tier,
            key.label,
            counts.n,
            counts.noted,
            counts.flagged,
            counts.blocked,
            counts.altered
        );
    }
    text
}

fn breakdown(cuts: &[Cut]) -> String {
    let mut text = format!(
        "\n{:<16} {:<13} {:<9} {:<28} {:>6} {:>9} {:>9} {:>9} {:>9}\n",
        "KIND", "OF", "BY", "VALUE", "N", "NOTED", "FLAGGED", "BLOCKED", "ALTERED"
    );
    for Cut { key, counts } in cuts.iter().filter(|cut| cut.counts.n >= MIN_SHOWN) {
        text += &format!(
            "{:<16} {:<13} {:<9} {:<28} {:>6} {:>9} {:>9} {:>9} {:>9}\n",
            key.kind,
            key.population,
            key.by,
            key.value,
            counts.n,
            percent(counts.noted()),
            percent(counts.flagged()),
            percent(counts.blocked()),
            percent(counts.altered())
        );
    }
    text
}

fn signals(worths: &[Worth]) -> String {
    let mut text = format!(
        "\n{:<16} {:<28} {:>8} {:>7} {:>9} {:>9} {:>7} {:>7}\n",
        "KIND", "SIGNAL", "ATTACKS", "ALONE", "HARMLESS", "(NOTED)", "ALONE", "ACTED"
    );
    for Worth {
        kind, signal, hits, ..
    } in worths
    {
        text += &format!(
            "{kind:<16} {signal:<28} {:>8} {:>7} {:>9} {:>9} {:>7} {:>7}\n",
            hits.attacks,
            hits.attacks_alone,
            hits.harmless,
            hits.harmless_noted,
            hits.harmless_alone,
            hits.harmless_acted
        );
    }
    text
}

fn real_servers(figures: &RealServers) -> String {
    let mut text = format!(
        "definitions of {} real servers: {}; mean per server alerted {}, acted upon {}; servers alerted {}, losing a \
         tool {}\n",
        figures.servers,
        shares(&figures.pooled),
        percent(figures.alerted_per_server),
        percent(figures.acted_per_server),
        percent(figures.servers_alerted),
        percent(figures.servers_losing),
    );
    text += &format!(
        "long ones (4,000 characters and more): {}\n",
        shares(&figures.long)
    );
    for loser in &figures.worst {
        text += &format!("  {} loses {} of {}\n", loser.server, loser.lost, loser.tools);
    }
    text
}

fn shares(shares: &Shares) -> String {
    format!(
        "n {}, noted {}, alerted {}, acted upon {}",
        shares.n,
        percent(shares.noted),
        percent(shares.alerted),
        percent(shares.acted)
    )
}

fn summary(summary: &Summary) -> String {
    let mut text = "\n".to_owned();
    if let Some(figures) = &summary.definitions {
        text += &real_servers(&figures.real_servers);
    }
    for (area, figures) in [
        ("instructions", &summary.instructions),
        ("prompts", &summary.prompts),
    ] {
        if let Some(figures) = figures {
            text += &format!("{area} of real servers: {}\n", shares(figures));
        }
    }
    let mut line = |area: &str, figures: &[(&str, String)]| {
        let figures: Vec<String> = figures
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        text += &format!("{area}: {}\n", figures.join(", "));
    };
    if let Some(figures) = &summary.definitions {
        line(
            "definitions",
            &[
                ("recall", percent(figures.recall)),
                ("mean over corpora", percent(figures.macro_recall)),
                ("acted upon", percent(figures.acted_recall)),
                ("mean over corpora", percent(figures.acted_macro_recall)),
                (
                    "false positives of real servers",
                    percent(figures.fp_real_servers),
                ),
                ("of others", percent(figures.fp_other)),
            ],
        );
    }
    if let Some(figures) = &summary.outputs {
        line(
            "outputs",
            &[
                ("recall", percent(figures.recall)),
                ("mean over corpora", percent(figures.macro_recall)),
                ("withheld", percent(figures.acted_recall)),
                ("false positives", percent(figures.fp)),
                ("harmless withheld", percent(figures.withheld)),
                ("altered", percent(figures.altered)),
                (
                    "alerts on texts that quote attacks",
                    percent(figures.fp_quotes_attacks),
                ),
                ("of them blocked", percent(figures.blocked_quotes_attacks)),
            ],
        );
    }
    for (area, rates) in [("names", &summary.names), ("launches", &summary.launches)] {
        if let Some(rates) = rates {
            line(
                area,
                &[
                    ("recall", percent(rates.recall)),
                    ("false positives", percent(rates.fp)),
                ],
            );
        }
    }
    if let Some(figures) = &summary.secrets {
        for (family, recall) in &figures.recall_by_family {
            line(
                &format!("secrets of {family}"),
                &[("recall", percent(Some(*recall)))],
            );
        }
        line(
            "secrets",
            &[
                ("false positives", percent(figures.fp)),
                ("of near misses", percent(figures.fp_near_miss)),
            ],
        );
    }
    if let Some(figures) = &summary.sequences {
        line(
            "sequences",
            &[
                ("attacks blocked", percent(figures.attacks_blocked)),
                ("benign runs blocked", percent(figures.benign_blocked)),
                (
                    "with decision block: attacks",
                    percent(figures.block.attacks_blocked),
                ),
                ("benign runs", percent(figures.block.benign_blocked)),
            ],
        );
    }
    if let Some(figures) = &summary.categories {
        line(
            "categories",
            &[
                ("tools of real servers unknown", percent(Some(figures.unknown))),
                (
                    "by the beginning of their names",
                    percent(Some(figures.unknown_by_names)),
                ),
            ],
        );
    }
    if let Some(figures) = &summary.disclosures {
        for (family, recall) in &figures.recall_by_family {
            line(
                &format!("texts with {family}"),
                &[("recall", percent(Some(*recall)))],
            );
        }
        line(
            "texts to models",
            &[
                ("other vendors", percent(figures.recall_other_vendors)),
                ("false positives", percent(figures.fp)),
                ("of near misses", percent(figures.fp_near_miss)),
                ("replaced in outputs", percent(figures.replaced_in_outputs)),
                ("replaced in results", percent(figures.replaced_in_results)),
            ],
        );
    }
    if let Some(speed) = &summary.speed {
        line(
            "speed",
            &[
                (
                    "99 of 100 definitions within",
                    number(speed.definition_p99_us, "µs"),
                ),
                ("outputs", number(speed.outputs_mb_s, "MB/s")),
                ("clean outputs", number(speed.clean_mb_s, "MB/s")),
                ("30 KB of them", number(speed.clean_30kb_us, "µs")),
            ],
        );
    }
    text
}

fn missed(missed: &[Miss], misses: Misses) -> String {
    let mut kinds: Vec<&str> = missed.iter().map(|miss| miss.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of_kind = |kind: &str| {
        let of_kind: Vec<&Miss> = missed.iter().filter(|miss| miss.kind == kind).collect();
        let named = match misses {
            Misses::Ids => NAMED_MISSES,
            Misses::WithText => of_kind.len(),
        };
        let mut text = format!("\nmisjudged {kind}: {}\n", of_kind.len());
        for miss in of_kind.iter().take(named) {
            let found = miss.signals.iter().map(|signal| match misses {
                Misses::Ids => signal.to_string(),
                Misses::WithText => format!("{signal} {:?}", signal.text),
            });
            let found = found.collect::<Vec<_>>().join(" ");
            text += &match misses {
                Misses::Ids => format!("  {} is {} [{found}]\n", miss.id, miss.label),
                Misses::WithText => format!(
                    "  {} is {} [{found}]: {}\n",
                    miss.id,
                    miss.label,
                    miss.text.chars().take(SHOWN).collect::<String>().escape_debug()
                ),
            };
        }
        if of_kind.len() > named {
            text += &format!("  and {} more\n", of_kind.len() - named);
        }
        text
    };
    kinds.into_iter().map(of_kind).collect()
}

fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(
        || "not measured".to_owned(),
        |fraction| format!("{:.2} %", fraction * 100.0),
    )
}

fn number(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.0} {unit}"))
}
