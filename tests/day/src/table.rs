//! The table of results, and its forms as JSON and as a page.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use serde_json::json;

use crate::{
    action::{Action, Config, Outcome},
    suite::Row,
};

/// Returns a table of results, with the texts of those that differ below it.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["ACTION", "CONFIGURATION", "EXPECTED", "GOT", "SECONDS", ""]);
    let mut texts = String::new();
    for row in rows {
        let mark = match (row.is_as_expected(), row.action.known) {
            (true, _) => "",
            (false, None) => "DIFFERS",
            (false, Some(_)) => "KNOWN",
        };
        if !mark.is_empty() || matches!(row.outcome, Outcome::Skipped(_)) {
            let reason = row.action.known.unwrap_or_default();
            let (name, config, text) = (row.action.name, row.config.name(), row.outcome.text());
            let _cannot_fail = writeln!(
                texts,
                "{name}, {config}: {} {mark} {reason}\n    {text}",
                row.outcome
            );
        }
        table.add_row([
            row.action.name.to_owned(),
            row.config.name().to_owned(),
            row.action.expected(row.config).to_string(),
            row.outcome.to_string(),
            format!("{:.1}", row.took.as_secs_f64()),
            mark.to_owned(),
        ]);
    }
    format!("{table}\n\n{texts}")
}

/// Returns the counts of all results.
#[must_use]
pub fn summary(rows: &[Row]) -> String {
    let count = |wanted: &dyn Fn(&&Row) -> bool| rows.iter().filter(wanted).count();
    let is_known = |row: &Row| row.action.known.is_some();
    format!(
        "{} actions performed: {} as expected, {} skipped, {} false stops, {} known false stops, {} other differences",
        rows.len(),
        count(&|row| row.is_as_expected() && !matches!(row.outcome, Outcome::Skipped(_))),
        count(&|row| matches!(row.outcome, Outcome::Skipped(_))),
        count(&|row| row.is_false_stop() && !is_known(row)),
        count(&|row| row.is_false_stop() && is_known(row)),
        count(&|row| !row.is_as_expected() && !row.is_false_stop()),
    )
}

/// Returns a result as one JSON object.
#[must_use]
pub fn json(row: &Row) -> String {
    json!({
        "action": row.action.name,
        "description": row.action.description,
        "config": row.config.name(),
        "expected": row.action.expected(row.config).to_string(),
        "got": row.outcome.to_string(),
        "text": row.outcome.text(),
        "as_expected": row.is_as_expected(),
        "known": row.action.known,
        "seconds": row.took.as_secs_f64(),
    })
    .to_string()
}

/// Returns the rows of the page in the documentation: each action with its expected results.
#[must_use]
pub fn page(groups: &[(&str, &[Action])]) -> String {
    let mut page = String::new();
    for (group, actions) in groups {
        let _cannot_fail = write!(
            page,
            "\n## {group}\n\n| action | without a daemon | with a daemon |\n|---|---|---|\n"
        );
        for action in *actions {
            let [alone, with] = [Config::ALL[0], Config::ALL[2]].map(|config| action.expected(config));
            let description = action.description;
            let known = action
                .known
                .map(|reason| format!(" (today refused: {reason})"))
                .unwrap_or_default();
            let _cannot_fail = writeln!(page, "| {description}{known} | {alone} | {with} |");
        }
    }
    page
}
