//! A report as a page: Markdown, or HTML that needs nothing else. What others wrote is never markup.

use std::fmt::Write as _;

use super::{
    contents::{Blocked, Report, shown},
    seen::Seen,
};

/// A heading and the table beneath it.
struct Section {
    title: &'static str,
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The text for an empty list.
    empty: &'static str,
}

pub(super) fn markdown(report: &Report) -> String {
    let mut page = format!("# Session {}\n", markdown_text(&report.session));
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
    }
    page
}

pub(super) fn html(report: &Report) -> String {
    let title = html_text(&report.session);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Session {title}</title>\n<style>body{{font:14px/1.4 sans-serif;margin:2em}}\
         table{{border-collapse:collapse}}td,th{{border:1px solid #ccc;padding:.2em .5em;text-align:left}}</style>\
         </head><body>\n<h1>Session {title}</h1>\n"
    );
    for section in sections(report) {
        writeln!(page, "<h2>{}</h2>", section.title).expect("writing to a String cannot fail");
        if section.rows.is_empty() {
            writeln!(page, "<p>{}</p>", section.empty).expect("writing to a String cannot fail");
            continue;
        }
        let row = |cells: &[String], tag: &str| {
            let cells: String = cells
                .iter()
                .map(|cell| format!("<{tag}>{cell}</{tag}>"))
                .collect();
            format!("<tr>{cells}</tr>\n")
        };
        let headers: Vec<String> = section
            .headers
            .iter()
            .map(|header| (*header).to_owned())
            .collect();
        page.push_str("<table>\n");
        page.push_str(&row(&headers, "th"));
        for cells in &section.rows {
            let cells: Vec<String> = cells.iter().map(|cell| html_text(cell)).collect();
            page.push_str(&row(&cells, "td"));
        }
        page.push_str("</table>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn sections(report: &Report) -> Vec<Section> {
    let uses = |blocked: &Blocked| {
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
            .map(|(server, tool)| vec![server.clone(), tool.clone()])
            .collect()
    };
    let coverage = match (&report.seen, report.coverage()) {
        (_, Some(percent)) => format!(
            "{} of {} launches wrapped ({percent} %)",
            report.wrapped, report.launches
        ),
        (Seen::Whole, None) => "no launch seen".to_owned(),
        (Seen::Partly(_), None) => format!(
            "unknown: {} of {} launches wrapped, but no daemon watched all the time",
            report.wrapped, report.launches
        ),
        (Seen::Not, None) => "unknown: only a daemon sees servers that no wrapper started".to_owned(),
    };
    let unseen = match report.seen {
        Seen::Whole => "None.",
        Seen::Partly(_) => "None while a daemon watched, which was not all the time.",
        Seen::Not => "Not seen: only a daemon sees connections, and none watched.",
    };
    let section = |title, headers: &[&'static str], rows| Section {
        title,
        headers: headers.to_vec(),
        rows,
        empty: "None.",
    };
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
        section("Tools changed", &["server", "tool"], pairs(&report.tools_changed)),
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
        ),
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
        ),
        Section {
            title: "Connections",
            headers: vec!["remote", "action", "count"],
            empty: unseen,
            rows: report
                .connections
                .iter()
                .map(|((remote, action), count)| {
                    vec![remote.clone(), (*action).to_owned(), count.to_string()]
                })
                .collect(),
        },
        section(
            "Would have been blocked",
            &["time", "server", "what", "rule", "reason and remedy"],
            shown(&report.would_block).iter().map(uses).collect(),
        ),
        section(
            "What was not enforced",
            &["time", "what"],
            report
                .not_enforced()
                .into_iter()
                .map(|gap| vec![gap.time, gap.what])
                .collect(),
        ),
    ]
}

/// Characters that Markdown or a terminal would act on are escaped; a cell is one line.
fn markdown_text(text: &str) -> String {
    let text = crate::cli::text::escape(text);
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        let is_within = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_markup = match c {
            // Within a word it is none.
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

fn html_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in crate::cli::text::escape(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}
