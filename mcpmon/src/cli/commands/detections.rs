//! `mcpmon detections`: findings in definitions, results and requests.

use clap::Args;
use mcpmon_model::{EventKind, Timestamp};
use mcpmon_store::{Filter, StoreReader, StoredEvent};

use crate::cli::{
    CliError, Output,
    filters::{CallScope, Range},
    listing::{self, Listing},
    summary,
    table::{Column, Row, Table},
    time,
};

/// List what was found in definitions, results, instructions and requests
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    whose: CallScope,
}

pub(super) const LISTING: Listing = Listing {
    table: Table::new(&[
        Column::whole("TIME (UTC)", 14),
        Column::cut("SERVER", 12),
        Column::cut("TOOL", 14),
        Column::cut("PATTERN", 18),
        Column::whole("SEVERITY", 8),
        Column::whole("ACTION", 11),
        Column::cut("WHERE", 12),
        Column::cut("TEXT", 12),
    ]),
    row,
};

/// The event that reports each finding in a result; `mcp_output_inspection` repeats it.
pub(super) const TYPE: &str = "mcp_detection";

pub(in crate::cli) fn run(
    options: Options,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut filter = Filter {
        types: vec![TYPE.to_owned()],
        ..options.whose.filter(reader)?
    };
    options.range.restrict(&mut filter, now);
    LISTING.show(reader, &filter, options.range.limit, output)
}

fn row(event: &StoredEvent) -> Row {
    let found = if let Some(EventKind::Detection {
        tool_name,
        detection: finding,
        count,
        ..
    }) = event.parse_kind()
    {
        let text = finding.matches.first().map(|found| found.text.clone());
        [
            tool_name.unwrap_or_default(),
            format!("{}{}", finding.pattern, summary::times(count)),
            finding.severity.as_str().to_owned(),
            event.action.as_str().to_owned(),
            finding.field.clone(),
            text.unwrap_or_default(),
        ]
    } else {
        // The event is of a later version.
        let (severity, action) = (event.severity.as_str(), event.action.as_str());
        ["", &summary::summary(event), severity, action, "", ""].map(str::to_owned)
    };
    let [tool, pattern, severity, action, field, text] = found;
    Row::new(
        listing::tone(event),
        [
            time::short(event.timestamp),
            event.server_id.clone().unwrap_or_default(),
            tool,
            pattern,
            severity,
            action,
            field,
            text,
        ],
    )
}

#[cfg(test)]
mod tests {
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::{commands::scene, output::Form};

    #[test]
    fn detections_as_a_table() {
        let events = vec![
            sample::started("files", 10),
            sample::detected("helper"),
            sample::at(1, sample::detected("another_helper")),
            // The same finding again.
            sample::at(1, sample::inspected("another_helper")),
        ];
        let filter = Filter {
            types: vec![TYPE.to_owned()],
            ..Filter::default()
        };
        let shown = scene::shown(events, Form::Table, |reader, output| {
            LISTING.show(&reader, &filter, 10, output)
        });
        insta::assert_snapshot!(shown, @"
        TIME (UTC)      SERVER  TOOL            PATTERN          SEVERITY  ACTION  WHERE        TEXT
        11-20 12:00:00  files   helper          credential_file  critical  block   description  read ~/.ssh…
        11-20 12:00:01  files   another_helper  credential_file  critical  block   description  read ~/.ssh…
        ---
        ");
    }
}
