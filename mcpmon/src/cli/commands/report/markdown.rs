//! A report as Markdown. Texts of others are escaped, so that they are never markup.

use std::fmt::Write as _;

use mcpmon_store::{json as form, name};

use super::{
    contents::{MAX_ROWS, Report, StoppedUse, shown},
    seen::WatchedPart,
    timeline::{TimelineEntry, ToolChange},
};

/// A heading and its table.
struct Section {
    title: &'static str,
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The number of all rows, those that are left out included.
    count: usize,
    /// The text for an empty list.
    empty: &'static str,
}

impl Section {
    /// Sets the number of all rows, of which `rows` are the first.
    fn counted(mut self, count: usize) -> Self {
        self.count = count;
        self
    }
}

pub(super) fn markdown(report: &Report) -> String {
    let mut page = format!("# Session {}\n", markdown_text(&report.session));
    if report.is_truncated {
        writeln!(
            page,
            "\nThe session has too many events: only the newest {} are in this report.",
            super::LIMIT
        )
        .expect("writing to a String cannot fail");
    }
    for section in sections(report) {
        write!(page, "\n## {}\n\n", section.title).expect("writing to a String cannot fail");
        if section.rows.is_empty() {
            writeln!(page, "{}", section.empty).expect("writing to a String cannot fail");
            continue;
        }
        writeln!(page, "| {} |", section.headers.join(" | ")).expect("writing to a String cannot fail");
        writeln!(page, "|{}", "---|".repeat(section.headers.len())).expect("writing to a String cannot fail");
        for row in &section.rows {
            let cells: Vec<String> = row.iter().map(|cell| markdown_text(cell)).collect();
            writeln!(page, "| {} |", cells.join(" | ")).expect("writing to a String cannot fail");
        }
        let left_out = section.count.saturating_sub(section.rows.len());
        if left_out > 0 {
            writeln!(page, "\nand {left_out} more: the store has them")
                .expect("writing to a String cannot fail");
        }
    }
    page
}

fn sections(report: &Report) -> Vec<Section> {
    let uses = |blocked: &StoppedUse| {
        vec![
            blocked.time.clone(),
            blocked.server.clone(),
            blocked.what.clone(),
            blocked.rule.clone(),
            blocked.reason.clone(),
        ]
    };
    let unknown = || "unknown".to_owned();
    let pairs = |pairs: &std::collections::BTreeSet<(String, String)>| {
        pairs
            .iter()
            .take(MAX_ROWS)
            .map(|(server, tool)| vec![server.clone(), tool.clone()])
            .collect()
    };
    let coverage = match (&report.seen, report.coverage()) {
        (_, Some(percent)) => format!(
            "{} of {} launches wrapped ({percent} %)",
            report.wrapped, report.launches
        ),
        (WatchedPart::Whole, None) => "no launch seen".to_owned(),
        (WatchedPart::Partly(_), None) => format!(
            "unknown: {} of {} launches wrapped, but no daemon watched all the time",
            report.wrapped, report.launches
        ),
        (WatchedPart::Not, None) => "unknown: only a daemon sees servers that no wrapper started".to_owned(),
    };
    let unseen = match report.seen {
        WatchedPart::Whole => "None.",
        WatchedPart::Partly(_) => "None while a daemon watched, which was not all the time.",
        WatchedPart::Not => "Not recorded: only the daemon sees connections, and no trace of one is left.",
    };
    let section = |title, headers: &[&'static str], rows: Vec<Vec<String>>| Section {
        title,
        headers: headers.to_vec(),
        count: rows.len(),
        rows,
        empty: "None.",
    };
    let not_enforced = report.not_enforced();
    let changes: Vec<_> = report
        .tool_changes
        .first
        .iter()
        .flat_map(changed_fields)
        .collect();
    // A change has a row for each field; one that is left out is counted as one row.
    let changed = changes.len() + report.tool_changes.count - report.tool_changes.first.len();
    vec![
        section(
            "Overview",
            &["what", "value"],
            vec![
                vec!["agent".to_owned(), report.agent.clone().unwrap_or_else(unknown)],
                vec![
                    "started".to_owned(),
                    report.started.clone().unwrap_or_else(unknown),
                ],
                vec!["ended".to_owned(), report.ended.clone().unwrap_or_else(unknown)],
                vec!["tools seen".to_owned(), report.tools_seen.len().to_string()],
                vec!["coverage".to_owned(), coverage],
            ],
        ),
        section(
            "Servers connected",
            &["server"],
            report.servers.iter().map(|server| vec![server.clone()]).collect(),
        ),
        section("Tools seen", &["server", "tool"], pairs(&report.tools_seen))
            .counted(report.tools_seen.len()),
        section("Tools changed", &["server", "tool"], pairs(&report.tools_changed))
            .counted(report.tools_changed.len()),
        section(
            "Detections by severity",
            &["severity", "count"],
            report
                .detections
                .iter()
                .rev()
                .map(|(severity, count)| vec![severity.as_str().to_owned(), count.to_string()])
                .collect(),
        ),
        section(
            "Top detections",
            &["server", "tool", "pattern", "severity", "count"],
            report
                .top
                .iter()
                .map(|top| {
                    vec![
                        top.server.clone(),
                        top.tool.clone(),
                        top.pattern.clone(),
                        top.severity.as_str().to_owned(),
                        top.count.to_string(),
                    ]
                })
                .collect(),
        )
        .counted(report.top_count),
        section(
            "Calls by verdict",
            &["verdict", "count"],
            report
                .calls
                .iter()
                .map(|(verdict, count)| vec![(*verdict).to_owned(), count.to_string()])
                .collect(),
        ),
        section(
            "Blocked",
            &["time", "server", "what", "rule", "reason and remedy"],
            shown(&report.blocked).iter().map(uses).collect(),
        )
        .counted(report.blocked.len()),
        Section {
            title: "Connections",
            headers: vec!["remote", "action", "count"],
            empty: unseen,
            count: report.connections.len(),
            rows: report
                .connections
                .iter()
                .take(MAX_ROWS)
                .map(|((remote, action), count)| {
                    vec![remote.clone(), (*action).to_owned(), count.to_string()]
                })
                .collect(),
        },
        section(
            "Would have been blocked",
            &["time", "server", "what", "rule", "reason and remedy"],
            shown(&report.would_block).iter().map(uses).collect(),
        )
        .counted(report.would_block.len()),
        section(
            "What was not enforced",
            &["time", "what"],
            not_enforced
                .iter()
                .take(MAX_ROWS)
                .map(|gap| vec![gap.time.clone(), gap.what.clone()])
                .collect(),
        )
        .counted(not_enforced.len()),
        section(
            "Changes of tools",
            &["time", "server", "tool", "field", "before", "now"],
            changes,
        )
        .counted(changed),
        section(
            "Timeline",
            &[
                "time",
                "call",
                "layer",
                "type",
                "server",
                "what",
                "verdict",
                "severity",
                "rule",
                "reason and remedy",
                "arguments",
                "event",
            ],
            report.timeline.entries.iter().map(entry).collect(),
        )
        .counted(report.timeline.count),
    ]
}

/// Returns a row for each changed field, or one row for a definition that is gone.
fn changed_fields(change: &ToolChange) -> Vec<Vec<String>> {
    let row = |field: &str, previous: &str, new: &str| {
        let cells = [&change.time, &change.server, &change.tool, field, previous, new];
        cells.map(str::to_owned).to_vec()
    };
    let renamed = change.renamed_from.iter();
    let renamed = renamed.map(|previous| row("(renamed)", previous, &change.tool));
    let gone = (!change.is_listed).then(|| row("(no longer listed)", "", ""));
    let fields = change.fields.iter();
    let fields = fields.map(|field| row(&field.field, &field.previous, &field.new));
    renamed.chain(gone).chain(fields).collect()
}

fn entry(entry: &TimelineEntry) -> Vec<String> {
    let event = &entry.event;
    let reason = [entry.reason(), entry.text("remedy").map(str::to_owned)];
    vec![
        form::rfc3339(event.timestamp),
        entry.call.map(|call| call.to_string()).unwrap_or_default(),
        name(&event.layer),
        event.kind.clone(),
        event.server_id.clone().unwrap_or_default(),
        entry.what(),
        event.action.as_str().to_owned(),
        event.severity.as_str().to_owned(),
        event.rule.clone().unwrap_or_default(),
        reason.into_iter().flatten().collect::<Vec<_>>().join("; "),
        entry.input().unwrap_or_default(),
        event.id.to_string(),
    ]
}

/// Escapes characters that Markdown or a terminal would interpret, and puts the text on one line.
fn markdown_text(text: &str) -> String {
    let text = crate::cli::text::escape(text);
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        let is_within = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_markup = match c {
            // Within a word it is not markup.
            '_' => !(is_within(before) && is_within(letters.peek().copied())),
            other => "\\`*[]<>|#!~".contains(other),
        };
        if is_markup {
            escaped.push('\\');
        }
        escaped.push(c);
        before = Some(c);
    }
    escaped
}
