//! `mcpmon top`: the current sessions, servers, calls, connections, findings and questions.

mod pane;
mod rates;
mod snapshot;
mod source;
mod state;
mod terminal;
mod view;
mod worker;
mod wrap;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};

use anyhow::anyhow;
use clap::Args;

use self::{pane::Pane, snapshot::Snapshot, source::Source, state::ViewState, worker::Worker};
use crate::cli::{CliError, ErrorKind, Output, daemon::Socket, output::Form, table::Row};

/// Watch sessions, servers, calls, connections and findings live, and answer what waits for a person
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// Print everything once and end, which needs no terminal; so does --json
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    socket: Socket,
}

pub(in crate::cli) fn run(options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    let is_once = options.once || output.form == Form::Json;
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !is_once && !is_terminal {
        let error = anyhow!("`mcpmon top` draws on a terminal, and this is none");
        return Err(CliError::new(ErrorKind::Usage, error)
            .with_hint(
                "`mcpmon top --once` prints everything once, and `mcpmon top --json` as one JSON object",
            )
            .with_hint("`mcpmon events --follow` goes on with what comes"));
    }
    let mut source = Source::open(output.globals, options.socket.clone())?;
    let snapshot = source.look()?;
    if is_once {
        return print(&snapshot, output);
    }
    terminal::prepare()?;
    let paint = output.paint;
    let worker = Worker::start(source, output.globals.clone(), options.socket.clone());
    terminal::show(ViewState::new(snapshot, 0, 0), worker, paint)
}

/// Prints every list once.
fn print(snapshot: &Snapshot, output: &mut Output<'_>) -> Result<(), CliError> {
    if output.form == Form::Json {
        output.json(&snapshot.object())?;
        return Ok(output.flush()?);
    }
    for note in &snapshot.notes {
        output.note(note)?;
    }
    for pane in Pane::ALL {
        let list = snapshot.list(pane);
        let rows: Vec<Row> = list
            .shown("", 0)
            .into_iter()
            .map(|entry| entry.row.clone())
            .collect();
        output.text(&[format!("{}:", pane.title())])?;
        match rows.is_empty() {
            true => output.text(&[format!("  {}", pane.when_empty())])?,
            false => output.table(&list.table, &rows)?,
        }
        output.text(&[String::new()])?;
    }
    Ok(output.flush()?)
}
