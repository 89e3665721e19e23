//! `mcpmon pins list|reset|trust`: what servers' files are compared with.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mcpmon_core::model::{ServerId, ServerIdError};
use serde_json::{Map, Value};

use crate::{
    agent::{
        control::{Answer, Request},
        executable,
    },
    cli::{
        CliError, ErrorKind, Output,
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
    /// Forget those of a server, for every package and user, so that its next start is judged as its first; root only
    Reset(Chosen),
    /// Accept a server as it was when it was last refused, or an executable that many use, beside what is pinned;
    /// root only
    Trust(Trusted),
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

#[derive(Debug, Args)]
pub(in crate::cli) struct Trusted {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    socket: Socket,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// The server that was refused
    #[arg(long, value_name = "ID", value_parser = server_id)]
    server: Option<ServerId>,
    /// A file as it is now, for every server that is pinned with another one at its path: an upgraded interpreter
    #[arg(long, value_name = "FILE")]
    executable: Option<PathBuf>,
}

const TABLE: Table = Table::new(&[
    Column::cut("SERVER", 12),
    Column::cut("NAME", 14),
    Column::whole("UID", 5),
    Column::whole("PART", 10),
    Column::whole("SHA256", 12),
    Column::whole("PINNED (UTC)", 14),
    Column::whole("BY", 9),
    Column::cut("PATH", 10),
]);

pub(in crate::cli) fn list(options: &List, reader: &Reader, output: &mut Output<'_>) -> Result<(), CliError> {
    let mut pins = reader.pins()?;
    if let Some(wanted) = &options.server {
        pins.retain(|pin| pin.key.server.as_str() == wanted);
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
    let Answer::Done = ask(&options.socket.path, &Request::ResetPins { server })? else {
        return Err(unexpected());
    };
    Ok(output.note(&format!(
        "the next start of {} is judged as its first",
        options.server
    ))?)
}

pub(in crate::cli) fn trust(options: &Trusted, output: &mut Output<'_>) -> Result<(), CliError> {
    let socket = &options.socket.path;
    let Trusted { what, .. } = options;
    if let Some(path) = &what.executable {
        return trust_executable(path, socket, output);
    }
    let server = what.server.clone().expect("clap asks for one of the two");
    let request = Request::TrustPins {
        server: server.clone(),
    };
    let Answer::Trusted { name, uid } = ask(socket, &request)? else {
        return Err(unexpected());
    };
    Ok(output.note(&format!(
        "{server} ({name}, user {uid}) may also run as it was when it was refused",
    ))?)
}

fn trust_executable(path: &Path, socket: &Path, output: &mut Output<'_>) -> Result<(), CliError> {
    let absolute = std::path::absolute(path)?;
    let file = executable::read(&absolute).map_err(|error| CliError::new(ErrorKind::Environment, error))?;
    let request = Request::TrustExecutable {
        path: file.path.clone(),
        digest: file.digest,
    };
    let Answer::TrustedExecutable { sets } = ask(socket, &request)? else {
        return Err(unexpected());
    };
    let (path, digest) = (file.path.display(), file.digest.short(12));
    Ok(output.note(&match sets {
        0 => format!("no server is pinned with another file at {path} than {digest}: nothing to accept"),
        1 => format!("1 more set of pins is accepted, with {path} as it is now ({digest})"),
        sets => format!("{sets} more sets of pins are accepted, with {path} as it is now ({digest})"),
    })?)
}

fn server_id(text: &str) -> Result<ServerId, ServerIdError> {
    ServerId::new(text)
}

fn row(pin: &BinaryPin) -> Row {
    Row::new(
        Tone::Ordinary,
        [
            pin.key.server.to_string(),
            pin.key.name.clone(),
            pin.key.uid.to_string(),
            pin.part.as_str().to_owned(),
            pin.hash.short(12),
            time::short(pin.pinned_at),
            pin.pinned_by.clone(),
            pin.path.display().to_string(),
        ],
    )
}

fn object(pin: &BinaryPin) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("server_id".to_owned(), pin.key.server.to_string().into());
    object.insert("name".to_owned(), pin.key.name.clone().into());
    object.insert("uid".to_owned(), pin.key.uid.into());
    object.insert("set".to_owned(), pin.number.into());
    object.insert("part".to_owned(), pin.part.as_str().into());
    object.insert("path".to_owned(), pin.path.display().to_string().into());
    object.insert("sha256".to_owned(), pin.hash.to_string().into());
    object.insert("pinned_at".to_owned(), json::rfc3339(pin.pinned_at).into());
    object.insert("pinned_by".to_owned(), pin.pinned_by.clone().into());
    object
}

#[cfg(test)]
mod tests {
    use mcpmon_core::model::{Digest, PinKey, PinPart, Timestamp};

    use super::*;

    #[test]
    fn a_pin_as_json() {
        let pin = BinaryPin {
            key: PinKey {
                server: ServerId::new("files").unwrap(),
                name: "@a/files".to_owned(),
                uid: 1000,
            },
            number: 1,
            part: PinPart::Package,
            path: "/srv/files".into(),
            hash: Digest::of(b"x"),
            manifest: None,
            pinned_at: Timestamp(0),
            pinned_by: "first_use".to_owned(),
        };
        insta::assert_snapshot!(serde_json::to_string(&object(&pin)).unwrap(), @r#"{"server_id":"files","name":"@a/files","uid":1000,"set":1,"part":"package","path":"/srv/files","sha256":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","pinned_at":"1970-01-01T00:00:00.000000000Z","pinned_by":"first_use"}"#);
    }
}
