//! `mcpmon pins list|reset|trust`: what servers' files are compared with.

use clap::{Args, Subcommand};
use mcpmon_core::model::{ServerId, ServerIdError};
use serde_json::{Map, Value};

use crate::{
    agent::control::{Answer, Request},
    cli::{
        CliError, Output,
        daemon::{Socket, ask, unexpected},
        listing,
        output::Form,
        table::{Column, Row, Table, Tone},
        time,
    },
    record::{BinaryPin, Reader, json},
};

/// Pins of servers' executables, scripts and packages
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(List),
    /// Forget those of a server, so that its next start is judged as its first; root only
    Reset(Chosen),
    /// Pin a server as it was when it was last refused; root only
    Trust(Chosen),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only this server
    #[arg(long, value_name = "ID")]
    server: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Chosen {
    /// The server
    #[arg(long, value_name = "ID", value_parser = server_id)]
    server: ServerId,
    #[command(flatten)]
    socket: Socket,
}

const TABLE: Table = Table::new(&[
    Column::cut("SERVER", 20),
    Column::whole("PART", 10),
    Column::whole("SHA256", 16),
    Column::whole("PINNED (UTC)", 14),
    Column::whole("BY", 9),
    Column::cut("PATH", 30),
]);

pub(in crate::cli) fn list(options: &List, reader: &Reader, output: &mut Output<'_>) -> Result<(), CliError> {
    let mut pins = reader.pins()?;
    if let Some(wanted) = &options.server {
        pins.retain(|pin| pin.server_id.as_str() == wanted);
    }
    match output.form {
        Form::Json => pins.iter().try_for_each(|pin| output.json(&object(pin)))?,
        Form::Table => output.table(&TABLE, &pins.iter().map(row).collect::<Vec<_>>())?,
    }
    listing::note_extent(pins.len(), false, output)?;
    Ok(output.flush()?)
}

pub(in crate::cli) fn reset(options: &Chosen, output: &mut Output<'_>) -> Result<(), CliError> {
    let server = options.server.clone();
    done(&options.socket, &Request::ResetPins { server })?;
    Ok(output.note(&format!(
        "the next start of {} is judged as its first",
        options.server
    ))?)
}

pub(in crate::cli) fn trust(options: &Chosen, output: &mut Output<'_>) -> Result<(), CliError> {
    let server = options.server.clone();
    done(&options.socket, &Request::TrustPins { server })?;
    Ok(output.note(&format!(
        "{} is pinned as it was when it was refused",
        options.server
    ))?)
}

fn done(socket: &Socket, request: &Request) -> Result<(), CliError> {
    match ask(&socket.path, request)? {
        Answer::Done => Ok(()),
        Answer::Status(_) | Answer::Checks(_) | Answer::Error(_) => Err(unexpected()),
    }
}

fn server_id(text: &str) -> Result<ServerId, ServerIdError> {
    ServerId::new(text)
}

fn row(pin: &BinaryPin) -> Row {
    Row::new(
        Tone::Ordinary,
        [
            pin.server_id.to_string(),
            pin.part.as_str().to_owned(),
            pin.hash.short(16),
            time::short(pin.pinned_at),
            pin.pinned_by.clone(),
            pin.path.display().to_string(),
        ],
    )
}

fn object(pin: &BinaryPin) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("server_id".to_owned(), pin.server_id.to_string().into());
    object.insert("part".to_owned(), pin.part.as_str().into());
    object.insert("path".to_owned(), pin.path.display().to_string().into());
    object.insert("sha256".to_owned(), pin.hash.to_string().into());
    object.insert("pinned_at".to_owned(), json::rfc3339(pin.pinned_at).into());
    object.insert("pinned_by".to_owned(), pin.pinned_by.clone().into());
    object
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{Digest, PinPart, Timestamp};

    use super::*;

    #[test]
    fn a_pin_as_json() {
        let pin = BinaryPin {
            server_id: ServerId::new("files").unwrap(),
            part: PinPart::Package,
            path: "/srv/files".into(),
            hash: Digest::of(b"x"),
            manifest: None,
            pinned_at: Timestamp(0),
            pinned_by: "first_use".to_owned(),
        };
        insta::assert_snapshot!(serde_json::to_string(&object(&pin)).unwrap(), @r#"{"server_id":"files","part":"package","path":"/srv/files","sha256":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","pinned_at":"1970-01-01T00:00:00.000000000Z","pinned_by":"first_use"}"#);
    }
}
