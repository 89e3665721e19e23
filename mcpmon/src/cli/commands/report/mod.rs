//! `mcpmon report SESSION`: a report on a session that can be passed on.

mod contents;
mod markdown;
mod page;
mod seen;
mod stopped;
mod timeline;

use clap::{Args, ValueEnum};
use mcpmon_store::{Filter, StoreReader};

use self::{contents::Report, seen::WatchedPart};
use crate::cli::{CliError, Output, output::Form, session};

/// Report on a session: servers, tools, detections, calls, connections, and what was not enforced
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The session, as `mcpmon events --json` calls it
    #[arg(value_name = "SESSION")]
    session: String,
    /// The form of the report; with `--json` it is that
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Format>,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Markdown.
    #[default]
    Md,
    /// One JSON object.
    Json,
    /// A page for a browser that needs nothing else.
    Html,
}

/// Most events of a session that are read; the report says if there are more.
const LIMIT: u32 = 200_000;

pub(in crate::cli) fn run(
    options: &Options,
    reader: &StoreReader,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let id = session::id(reader, &options.session)?;
    let ids = session::ids(reader, Some(&options.session))?;
    let of_session = Filter {
        sessions: ids.clone(),
        ..Filter::default()
    };
    let events = reader.events(&of_session, LIMIT)?;
    let mut known = reader.sessions(u32::MAX)?.into_iter();
    let summary = known.find(|summary| ids.contains(&summary.id));
    if events.is_empty() && summary.is_none() {
        return Err(session::unknown(reader, &id)?);
    }
    let surroundings = contents::surroundings(reader, &events)?;
    let mut report = Report::of(&id, summary.as_ref(), &events, &surroundings);
    report.seen = WatchedPart::of(reader, summary.as_ref(), &events)?;
    report.is_truncated = events.len().max(surroundings.len()) >= LIMIT as usize;
    let usual = match output.form {
        Form::Json => Format::Json,
        Form::Table => Format::default(),
    };
    match options.format.unwrap_or(usual) {
        Format::Json => output.json(&report.object())?,
        Format::Md => output.page(&markdown::markdown(&report))?,
        Format::Html => output.page(&page::html(&report))?,
    }
    if report.is_truncated {
        output.note(&format!(
            "the session has too many events: only the newest {LIMIT} are in the report"
        ))?;
    }
    Ok(output.flush()?)
}

/// Returns a line about a session: the numbers of calls, of stopped uses and of findings.
pub(in crate::cli) fn line(reader: &StoreReader, session: &str) -> Result<String, CliError> {
    let filter = Filter {
        sessions: session::ids(reader, Some(session))?,
        ..Filter::default()
    };
    let events = reader.events(&filter, LIMIT)?;
    let report = Report::of(session, None, &events, &[]);
    Ok(report.line())
}

#[cfg(test)]
mod tests;
