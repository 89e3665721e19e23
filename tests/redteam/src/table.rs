//! The table of cases.

use comfy_table::{Table, presets};

use crate::{case::Case, play::Report};

/// Returns a table of cases, expectations and outcomes of each way of running them; cases that fail are marked.
#[must_use]
pub fn table(rows: &[(Case, Vec<(&'static str, Report)>)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let ways = rows
        .first()
        .map(|(_, reports)| reports.as_slice())
        .unwrap_or_default();
    let mut header = vec!["CASE".to_owned(), "EXPECTED".to_owned()];
    header.extend(ways.iter().map(|(way, _)| way.to_uppercase()));
    header.push(String::new());
    table.set_header(header);
    for (case, reports) in rows {
        let mut row = vec![case.id.clone(), case.expect.to_string()];
        row.extend(reports.iter().map(|(_, report)| report.got.to_string()));
        let against = reports.iter().flat_map(|(way, report)| {
            let tell = move |what: &String| format!("{way}: {what}");
            report.against.iter().map(tell)
        });
        row.push(against.collect::<Vec<_>>().join("\n"));
        table.add_row(row);
    }
    table.to_string()
}

/// Returns a case and its reports as one JSON object.
#[must_use]
pub fn json(case: &Case, reports: &[(&'static str, Report)]) -> String {
    let got = reports.iter().map(|(way, report)| {
        let told = serde_json::json!({"got": report.got.to_string(), "against": report.against});
        ((*way).to_owned(), told)
    });
    let mut told = serde_json::json!({"case": case.id, "expected": case.expect.to_string(), "why": case.why});
    told["got"] = serde_json::Value::Object(got.collect());
    told.to_string()
}
