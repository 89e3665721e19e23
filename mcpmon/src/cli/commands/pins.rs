//! `mcpmon pins list|trust|diff|reset`: pins of servers' files and definitions.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mcpmon_model::{
    DefinitionRecord, FieldChange, Manifest, ManifestEntry, ServerId, ServerIdError, Timestamp,
};
use mcpmon_store::{BinaryPin, Selection, StoreReader, json, name};
use serde_json::{Map, Value};

use crate::{
    app::{
        approval::{self, ApprovalDecision, ApprovalSubject},
        control::{DaemonAnswer, DaemonRequest},
        executable,
    },
    cli::{
        CliError, ErrorKind, Output,
        change::ChangePlace,
        commands::approve::told,
        daemon::{Socket, ask, unexpected},
        definition, listing,
        output::Form,
        table::{Column, Row, Table, Tone},
        time,
    },
};

/// Pins of servers' executables, scripts and packages, and of what they list
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(List),
    /// Show what differs between a definition as it is listed and as it is pinned; exit 1 where anything does
    Diff(One),
    /// Forget those of a server, for every package and user, so that its next start, or its next list, is judged as
    /// its first; with a daemon root only
    Reset(Reset),
    /// Accept a server's files as they were when they were last refused, an executable that many use, or with --tool
    /// a definition as it is listed; with a daemon root only
    Trust(Trust),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only this server
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Only definitions of this name
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The files of each package too, by their paths from where it is
    #[arg(long)]
    files: bool,
}

/// One definition.
#[derive(Debug, Args)]
pub(in crate::cli) struct One {
    /// The server
    #[arg(long, value_name = "ID", value_parser = server_id)]
    server: ServerId,
    /// Tool, prompt or resource
    #[arg(long, value_name = "NAME")]
    tool: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Reset {
    /// The server
    #[arg(long, value_name = "ID", value_parser = server_id)]
    server: ServerId,
    /// Only definitions of this name, and none of its files
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    #[command(flatten)]
    socket: Socket,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Trust {
    #[command(flatten)]
    what: What,
    /// Definitions of this name instead of the server's files
    #[arg(long, value_name = "NAME", requires = "server")]
    tool: Option<String>,
    /// Only if this is its hash; the first digits are enough
    #[arg(long, value_name = "HASH", requires = "tool")]
    hash: Option<String>,
    #[command(flatten)]
    socket: Socket,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// The server
    #[arg(long, value_name = "ID", value_parser = server_id)]
    server: Option<ServerId>,
    /// A file as it is now, for every server that is pinned with another one at its path: an upgraded interpreter
    #[arg(long, value_name = "FILE")]
    executable: Option<PathBuf>,
}

const TABLE: Table = Table::new(&[
    Column::cut("SERVER", 10),
    Column::cut("NAME", 8),
    Column::whole("UID", 5),
    Column::whole("PART", 12),
    Column::whole("SHA256", 12),
    Column::whole("PINNED (UTC)", 14),
    Column::whole("BY", 9),
    Column::cut_start("PATH OR TOOL", 20),
]);

pub(in crate::cli) fn list(
    options: &List,
    reader: &StoreReader,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let mut files = reader.pins()?;
    files.retain(|pin| {
        let wanted = options.server.as_deref();
        options.tool.is_none() && wanted.is_none_or(|wanted| pin.key.server.as_str() == wanted)
    });
    let mut definitions = reader.definitions(&Selection {
        server: options.server.clone(),
        item: options.tool.clone(),
        ..Selection::default()
    })?;
    definitions.retain(|record| record.pinned.is_some());
    match output.form {
        Form::Json => {
            for pin in &files {
                let mut object = object(pin);
                if let Some(manifest) = manifest(pin).filter(|_| options.files) {
                    let paths = manifest.paths().map(Value::from).collect();
                    object.insert("files".to_owned(), Value::Array(paths));
                }
                output.json(&object)?;
            }
            definitions
                .iter()
                .try_for_each(|record| output.json(&definition::object(record)))?;
        }
        Form::Table => {
            let of_package = |pin: &BinaryPin| match options.files {
                true => file_rows(pin),
                false => Vec::new(),
            };
            let rows: Vec<Row> = files
                .iter()
                .flat_map(|pin| std::iter::once(row(pin)).chain(of_package(pin)))
                .chain(definitions.iter().map(definition_row))
                .collect();
            output.table(&TABLE, &rows)?;
        }
    }
    listing::note_extent(files.len() + definitions.len(), false, output)?;
    Ok(output.flush()?)
}

pub(in crate::cli) fn diff(one: &One, reader: &StoreReader, output: &mut Output<'_>) -> Result<(), CliError> {
    let records = reader.definitions(&Selection {
        server: Some(one.server.to_string()),
        item: Some(one.tool.clone()),
        ..Selection::default()
    })?;
    if records.is_empty() {
        let error = anyhow::anyhow!(
            "{}:{} is not in the registry: it was never listed, or not since its pin was reset",
            one.server,
            one.tool
        );
        return Err(CliError::new(ErrorKind::Refused, error).with_hint("see `mcpmon registry list`"));
    }
    let mut differ = false;
    for record in &records {
        differ |= record.is_changed();
        show_changes(record, output)?;
    }
    output.flush()?;
    match differ {
        true => Err(CliError::new(
            ErrorKind::Refused,
            anyhow::anyhow!("{}:{} differs from its pin", one.server, one.tool),
        )
        .with_hint(format!(
            "to accept it: `mcpmon approve {}:{}`",
            one.server, one.tool
        ))),
        false => Ok(()),
    }
}

pub(in crate::cli) fn reset(
    options: &Reset,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let place = ChangePlace::find(output.globals, &options.socket)?;
    let subject = ApprovalSubject {
        server: options.server.clone(),
        name: options.tool.clone(),
    };
    if options.tool.is_some() {
        let done = place.decide(now, subject, ApprovalDecision::Forget)?;
        return told(&done, "is judged as new when it is listed next", output);
    }
    let had_files = place.forget_files(&options.server)?;
    match place.decide(now, subject, ApprovalDecision::Forget) {
        Ok(_) => {}
        // A server without definitions can have pinned files.
        Err(error) if error.kind == ErrorKind::Refused && had_files => {}
        Err(error) => return Err(error),
    }
    Ok(output.note(&format!(
        "the next start of {} is judged as its first",
        options.server
    ))?)
}

pub(in crate::cli) fn trust(
    options: &Trust,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    if let Some(path) = &options.what.executable {
        return trust_executable(path, &options.socket.path, output);
    }
    let server = options.what.server.clone().expect("clap asks for one of the two");
    let place = ChangePlace::find(output.globals, &options.socket)?;
    if options.tool.is_some() {
        let subject = ApprovalSubject {
            server,
            name: options.tool.clone(),
        };
        let word = ApprovalDecision::Approve {
            hash: options.hash.clone(),
        };
        let done = place.decide(now, subject, word)?;
        return told(&done, "is accepted as it is listed", output);
    }
    let whose = place.trust_files(&server)?;
    Ok(output.note(&format!(
        "trusted: the files with which {server} ({whose}) was last refused; it may start again"
    ))?)
}

fn trust_executable(path: &Path, socket: &Path, output: &mut Output<'_>) -> Result<(), CliError> {
    let absolute = std::path::absolute(path)?;
    let file = executable::read(&absolute).map_err(|error| CliError::new(ErrorKind::Environment, error))?;
    let request = DaemonRequest::TrustExecutable {
        path: file.path.clone(),
        digest: file.digest,
    };
    let DaemonAnswer::TrustedExecutable { sets } = ask(socket, &request)? else {
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

fn show_changes(record: &DefinitionRecord, output: &mut Output<'_>) -> Result<(), CliError> {
    let changes = record
        .pinned
        .as_ref()
        .map_or_else(Vec::new, |pinned| pinned.changes(&record.seen));
    match output.form {
        Form::Json => {
            let mut object = definition::object(record);
            let changes = serde_json::to_value(&changes).expect("changes are plain values");
            object.insert("changes".to_owned(), changes);
            output.json(&object)?;
        }
        Form::Table => {
            let pinned = record.pinned.as_ref();
            output.text(&[format!(
                "{}: pinned {}, listed {}",
                approval::name(&record.key),
                pinned.map_or_else(|| "nothing".to_owned(), |pinned| pinned.hash.short(12)),
                record.seen.hash.short(12)
            )])?;
            for FieldChange { field, previous, new } in &changes {
                output.text(&[
                    format!("  {field}"),
                    format!("    - {previous}"),
                    format!("    + {new}"),
                ])?;
            }
        }
    }
    Ok(())
}

fn definition_row(record: &DefinitionRecord) -> Row {
    let identity = &record.key.identity;
    let pinned = record.pinned.as_ref();
    Row::new(
        definition::StatusWord::of(record).tone(),
        [
            identity.server.to_string(),
            identity.name.clone(),
            identity.uid.to_string(),
            name(&record.key.kind),
            pinned.map_or_else(String::new, |pinned| pinned.hash.short(12)),
            time::short(record.first_seen),
            record
                .approved_by
                .clone()
                .unwrap_or_else(|| "first_use".to_owned()),
            record.key.name.clone(),
        ],
    )
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

/// Returns the files of a package; `None` if they are not stored.
fn manifest(pin: &BinaryPin) -> Option<Manifest> {
    let text = std::str::from_utf8(pin.manifest.as_ref()?).ok()?;
    Manifest::decode(text).ok()
}

fn file_rows(pin: &BinaryPin) -> Vec<Row> {
    let Some(manifest) = manifest(pin) else {
        return Vec::new();
    };
    let of_file = |(path, entry): (&str, &ManifestEntry)| {
        let hash = match entry {
            ManifestEntry::File { digest, .. } => digest.short(12),
            ManifestEntry::Link(_) => "link".to_owned(),
            ManifestEntry::Special(_) => String::new(),
        };
        Row::new(
            Tone::Ordinary,
            [
                pin.key.server.to_string(),
                pin.key.name.clone(),
                pin.key.uid.to_string(),
                "file".to_owned(),
                hash,
                time::short(pin.pinned_at),
                pin.pinned_by.clone(),
                path.to_owned(),
            ],
        )
    };
    manifest.entries().map(of_file).collect()
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
    use clap::Parser as _;
    use mcpmon_model::{Digest, PinKey, PinPart};
    use mcpmon_store::sample;

    use super::*;
    use crate::cli::commands::scene;

    fn changed() -> DefinitionRecord {
        let text = |description: &str| format!(r#"{{"description":"{description}","name":"read_file"}}"#);
        let mut record = sample::definition("files", "read_file", &text("Reads a file"));
        record.seen = sample::definition("files", "read_file", &text("Reads any file")).seen;
        record
    }

    #[test]
    fn pins_of_definitions_are_listed() {
        let options = List {
            server: None,
            tool: None,
            files: false,
        };
        let shown = scene::shown_definitions(vec![changed()], Form::Table, |reader, output| {
            list(&options, &reader, output)
        });
        insta::assert_snapshot!(shown, @"
        SERVER  NAME      UID   PART  SHA256        PINNED (UTC)    BY         PATH OR TOOL
        files   @a/files  1000  tool  9cbea9906e3e  11-20 12:00:00  first_use  read_file
        ---
        ");
    }

    #[test]
    fn a_difference_is_shown_by_field_and_makes_the_command_fail() {
        let one = One {
            server: ServerId::new("files").unwrap(),
            tool: "read_file".to_owned(),
        };
        let mut kind = None;
        let shown = scene::shown_definitions(vec![changed()], Form::Table, |reader, output| {
            kind = diff(&one, &reader, output).err().map(|error| error.kind);
            Ok(())
        });
        assert_eq!(kind, Some(ErrorKind::Refused));
        insta::assert_snapshot!(shown, @"
        files:read_file: pinned 9cbea9906e3e, listed 9fc9a0751ce9
          description
            - Reads a file
            + Reads any file
        ---
        ");
    }

    fn after_a_reset(words: &[&str]) -> String {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            options: Reset,
        }
        let line = std::iter::once("reset").chain(words.iter().copied());
        let options = CommandLine::try_parse_from(line).expect("a command line").options;
        let policy = "version: 1\n";
        scene::shown_under(policy, vec![changed()], Vec::new(), Form::Table, |output| {
            reset(&options, Timestamp(sample::NOON), output).map(|()| 0)
        })
    }

    #[test]
    fn what_has_pins_is_reset() {
        insta::assert_snapshot!(after_a_reset(&["--server", "files"]), @"
        ---
        the next start of files is judged as its first
        exit 0
        ");
        for words in [
            &["--server", "nope"][..],
            &["--server", "nope", "--tool", "x"],
            &["--server", "files", "--tool", "x"],
        ] {
            let shown = after_a_reset(words);
            assert!(
                shown.contains("error: ") && shown.ends_with("ExitCode(unix_exit_status(1))"),
                "{words:?}: {shown}"
            );
        }
    }

    #[test]
    fn files_of_a_package_are_rows() {
        let mut manifest = Manifest::default();
        let digest = Digest::of(b"x");
        manifest.insert(b"helper.py", ManifestEntry::File { mode: 0o644, digest });
        manifest.insert(b"server.py", ManifestEntry::File { mode: 0o644, digest });
        let pin = BinaryPin {
            key: PinKey {
                server: ServerId::new("files").unwrap(),
                name: "server.py".to_owned(),
                uid: 1000,
            },
            number: 1,
            part: PinPart::Package,
            path: "/srv".into(),
            hash: manifest.digest(),
            manifest: Some(manifest.encode().into_bytes()),
            pinned_at: Timestamp(0),
            pinned_by: "first_use".to_owned(),
        };
        assert_eq!(file_rows(&pin).len(), 2);
        let listed = super::manifest(&pin).expect("it is kept");
        assert_eq!(listed.paths().collect::<Vec<_>>(), ["helper.py", "server.py"]);
    }

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
        scene::assert_documented("pins list", false, &serde_json::to_string(&object(&pin)).unwrap());
        insta::assert_snapshot!(serde_json::to_string(&object(&pin)).unwrap(), @r#"{"server_id":"files","name":"@a/files","uid":1000,"set":1,"part":"package","path":"/srv/files","sha256":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","pinned_at":"1970-01-01T00:00:00.000000000Z","pinned_by":"first_use"}"#);
    }
}
