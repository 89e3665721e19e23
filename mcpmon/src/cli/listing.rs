//! Listings of events: the newest as a table or as JSON, and with `--follow` later ones.

use std::{io, time::Duration};

use mcpmon_model::{Action, Severity};
use mcpmon_store::{Filter, Follow, StoreReader, StoredEvent, json};
use uuid::Uuid;

use super::{
    CliError, ErrorKind,
    output::{Form, Output},
    table::{Row, Table, Tone},
};

/// The interval at which a listing with `--follow` reads again.
pub(super) const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// The conversion of events to rows.
#[derive(Clone, Copy)]
pub(super) struct Listing {
    pub(super) table: Table,
    pub(super) row: fn(&StoredEvent) -> Row,
}

/// Returns the newest `limit` entries that `load` finds, oldest first, and whether there are more.
pub(super) fn newest<T, E>(
    limit: u32,
    load: impl FnOnce(u32) -> Result<Vec<T>, E>,
) -> Result<(Vec<T>, bool), E> {
    let mut found = load(limit.saturating_add(1))?;
    let more = found.len() > limit as usize;
    if more {
        found.remove(0);
    }
    Ok((found, more))
}

impl Listing {
    /// Prints the newest `limit` events that match.
    pub(super) fn show(
        self,
        reader: &StoreReader,
        filter: &Filter,
        limit: u32,
        output: &mut Output<'_>,
    ) -> Result<(), CliError> {
        self.show_completed(reader, filter, limit, output, |_| Ok(()))
    }

    /// Does the same, but completes each event before it is printed, oldest first.
    pub(super) fn show_completed(
        self,
        reader: &StoreReader,
        filter: &Filter,
        limit: u32,
        output: &mut Output<'_>,
        mut complete: impl FnMut(&mut StoredEvent) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let mut found = reader.find(filter, limit.saturating_add(1))?;
        let more = found.keep_newest(limit);
        found.sort_by_time();
        match output.form {
            Form::Json => reader.each(&found, |mut event| {
                complete(&mut event)?;
                Ok::<_, CliError>(output.json(&json::to_json(&event))?)
            })?,
            Form::Table => {
                let mut rows = Rows::new(&self.table, found.len(), output)?;
                reader.each(&found, |mut event| {
                    complete(&mut event)?;
                    rows.add((self.row)(&event), output)
                })?;
                rows.finish(output)?;
            }
        }
        note_extent(found.len(), more, output)?;
        Ok(output.flush()?)
    }

    /// Prints one event.
    pub(super) fn show_one(self, event: StoredEvent, output: &mut Output<'_>) -> Result<(), CliError> {
        let events = [event];
        match output.form {
            Form::Json => self.json(&events, output)?,
            Form::Table => output.table(&self.table, &self.rows(&events))?,
        }
        Ok(output.flush()?)
    }

    /// Prints the newest `limit` events that match and then each new one, until `wait` or the output ends it.
    pub(super) fn follow(
        self,
        reader: StoreReader,
        filter: Filter,
        limit: u32,
        output: &mut Output<'_>,
        mut wait: impl FnMut() -> io::Result<()>,
    ) -> Result<(), CliError> {
        let (mut follow, events) = Follow::start(reader, filter, limit)?;
        match output.form {
            Form::Json => self.json(&events, output)?,
            Form::Table => output.growing_table(&self.table, &self.rows(&events))?,
        }
        loop {
            output.flush()?;
            wait()?;
            let events = follow.next_events()?;
            match output.form {
                Form::Json => self.json(&events, output)?,
                Form::Table => output.more_rows(&self.table, &self.rows(&events))?,
            }
        }
    }

    fn rows(self, events: &[StoredEvent]) -> Vec<Row> {
        events.iter().map(self.row).collect()
    }

    fn json(self, events: &[StoredEvent], output: &mut Output<'_>) -> io::Result<()> {
        events
            .iter()
            .try_for_each(|event| output.json(&json::to_json(event)))
    }
}

/// Returns the event with this id, or an error that explains why there is none.
pub(super) fn named(reader: &StoreReader, id: Uuid) -> Result<StoredEvent, CliError> {
    reader.event(id)?.ok_or_else(|| {
        let error = anyhow::anyhow!("there is no event {id} in {}", reader.path().display());
        CliError::new(ErrorKind::Refused, error)
            .with_hint("a text that names it imitates mcpmon, unless the event is in another store (--db FILE) or older than the record")
    })
}

/// Rows of a table that is printed. A table whose widths depend on the content is printed when all rows are known; a
/// long one is printed row by row, in columns of fixed widths.
pub(super) struct Rows<'t> {
    table: &'t Table,
    /// The rows that are held until all are known; `None` if rows are printed at once.
    held: Option<Vec<Row>>,
}

/// Most rows that are held.
const MAX_HELD_ROWS: usize = 10_000;

impl<'t> Rows<'t> {
    pub(super) fn new(table: &'t Table, count: usize, output: &mut Output<'_>) -> Result<Self, CliError> {
        let held = (count <= MAX_HELD_ROWS).then(|| Vec::with_capacity(count));
        if held.is_none() {
            output.growing_table(table, &[])?;
        }
        Ok(Self { table, held })
    }

    pub(super) fn add(&mut self, row: Row, output: &mut Output<'_>) -> Result<(), CliError> {
        match &mut self.held {
            Some(held) => held.push(row),
            None => output.more_rows(self.table, &[row])?,
        }
        Ok(())
    }

    pub(super) fn finish(self, output: &mut Output<'_>) -> Result<(), CliError> {
        match self.held {
            Some(held) => Ok(output.table(self.table, &held)?),
            None => Ok(()),
        }
    }
}

/// Notes on standard error that a listing is empty, or not complete.
pub(super) fn note_extent(shown: usize, more: bool, output: &mut Output<'_>) -> io::Result<()> {
    if more {
        return output.note(&format!(
            "only the newest {shown} are shown: --limit N shows more"
        ));
    }
    if shown == 0 {
        return output.note("nothing matches");
    }
    Ok(())
}

/// Returns the tone for an event's action and severity.
pub(super) fn tone(event: &StoredEvent) -> Tone {
    let by_action = match event.action {
        Action::Allow => Tone::Ordinary,
        Action::Audit | Action::WouldAsk | Action::WouldBlock => Tone::Notable,
        Action::Block => Tone::Alarming,
    };
    let by_severity = match event.severity {
        Severity::Info | Severity::Low => Tone::Ordinary,
        Severity::Medium => Tone::Notable,
        Severity::High | Severity::Critical => Tone::Alarming,
    };
    by_action.max(by_severity)
}
