//! `mcpmon bodies`: the stored bodies of requests to models and of their answers.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{Args, Subcommand};
use mcpmon_model::Timestamp;
use mcpmon_store::{BodyKey, BodyLabel, KeyError, StoreReader, json::rfc3339};
use serde_json::{Map, Value};

use crate::cli::{
    CliError, ErrorKind, Output, listing,
    output::Form,
    table::{Column, Row, Table, Tone},
    time,
};

/// Show bodies that the LLM proxy kept (`llm_storage`)
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what is kept, without a key
    List {
        /// Show at most this many, the newest
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: u32,
    },
    /// Show the bodies of one request
    Show {
        /// Its id, as in `bodies list` and in events
        request: String,
        /// File with the key they were sealed with
        #[arg(long, value_name = "FILE")]
        key_file: PathBuf,
    },
}

const TABLE: Table = Table::new(&[
    Column::whole("TIME (UTC)", 14),
    Column::whole("REQUEST", 36),
    Column::whole("SIDE", 8),
    Column::whole("API", 16),
    Column::whole("BYTES", 9),
    Column::whole("KEPT", 9),
    Column::whole("KEY", 16),
]);

pub(in crate::cli) fn run(
    options: &Options,
    reader: &StoreReader,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    match &options.command {
        Command::List { limit } => list(reader, now, *limit, output),
        Command::Show { request, key_file } => {
            let key = BodyKey::at(key_file).map_err(|error| no_key(&error))?;
            show(reader, now, request, &key, output)
        }
    }
}

fn no_key(error: &KeyError) -> CliError {
    CliError::new(ErrorKind::Environment, anyhow::anyhow!("{error}"))
}

fn list(reader: &StoreReader, now: Timestamp, limit: u32, output: &mut Output<'_>) -> Result<(), CliError> {
    let (labels, more) = listing::newest(limit, |limit| reader.bodies(now, limit))?;
    match output.form {
        Form::Json => labels
            .iter()
            .try_for_each(|(label, key)| output.json(&object(label, key)))?,
        Form::Table => {
            let rows: Vec<Row> = labels.iter().map(|(label, key)| row(label, key)).collect();
            output.table(&TABLE, &rows)?;
        }
    }
    listing::note_extent(labels.len(), more, output)?;
    Ok(output.flush()?)
}

fn show(
    reader: &StoreReader,
    now: Timestamp,
    request: &str,
    key: &BodyKey,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let bodies = reader.bodies_of(now, request)?;
    if bodies.is_empty() {
        let missing = anyhow::anyhow!("no body of `{request}` is kept");
        return Err(
            CliError::new(ErrorKind::Refused, missing).with_hint("`mcpmon bodies list` shows what is")
        );
    }
    for body in bodies {
        let label = &body.label;
        let opened = body.open(key).map_err(|error| {
            let side = label.side.as_str();
            let source = anyhow::anyhow!("the {side} of `{request}` cannot be read: {error}");
            CliError::new(ErrorKind::Refused, source)
        })?;
        match output.form {
            Form::Json => {
                let mut object = object(label, &body.key);
                match String::from_utf8(opened) {
                    Ok(text) => object.insert("body".to_owned(), text.into()),
                    Err(error) => {
                        object.insert("body_base64".to_owned(), STANDARD.encode(error.as_bytes()).into())
                    }
                };
                output.json(&object)?;
            }
            Form::Table => {
                let text = String::from_utf8_lossy(&opened);
                let lines: Vec<String> = std::iter::once(head(label))
                    .chain(text.lines().map(str::to_owned))
                    .chain([String::new()])
                    .collect();
                output.text(&lines)?;
            }
        }
    }
    Ok(output.flush()?)
}

fn head(label: &BodyLabel) -> String {
    let cut = match label.is_cut() {
        true => format!(", cut to {}", label.kept),
        false => String::new(),
    };
    format!(
        "{}  {}  {}  {} bytes{cut}",
        time::short(label.at),
        label.side.as_str(),
        label.dialect,
        label.length
    )
}

fn row(label: &BodyLabel, key: &str) -> Row {
    Row::new(
        Tone::Ordinary,
        [
            time::short(label.at),
            label.request.clone(),
            label.side.as_str().to_owned(),
            label.dialect.clone(),
            label.length.to_string(),
            label.kept.to_string(),
            key.to_owned(),
        ],
    )
}

fn object(label: &BodyLabel, key: &str) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("request_id", label.request.clone().into());
    put("side", label.side.as_str().into());
    put(
        "session_id",
        label.session.as_ref().map(|session| session.as_str()).into(),
    );
    put("dialect", label.dialect.clone().into());
    put("timestamp", rfc3339(label.at).into());
    put("bytes", label.length.into());
    put("kept", label.kept.into());
    put("cut", label.is_cut().into());
    put("key", key.into());
    object
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcpmon_store::{BodySide, Recorder, RecorderSettings, SealedBody, StoreEntry};

    use super::*;

    const AT: i64 = 1_763_640_000_000_000_000;

    /// Returns the shown part of a request that was cut, and the error if there is one.
    fn shown(form: Form, key: &BodyKey) -> (String, Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcpmon.db");
        let label = BodyLabel {
            request: "req-1".to_owned(),
            side: BodySide::Request,
            session: None,
            dialect: "anthropic".to_owned(),
            at: Timestamp(AT),
            length: 9,
            kept: 5,
        };
        let sealing = BodyKey::new(&[1; 32]);
        let body = SealedBody::seal(&sealing, label, Timestamp(i64::MAX), b"hello".to_vec()).unwrap();
        let recorder = Recorder::start(RecorderSettings::new(&path)).unwrap();
        let entries = vec![StoreEntry::Body(Box::new(body))];
        recorder.put_all(entries, Duration::from_secs(10)).unwrap();
        recorder.close();
        let reader = StoreReader::open(&path).unwrap();
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        let mut output = Output::plain(&mut data, &mut notes, form);
        let outcome = show(&reader, Timestamp(AT), "req-1", key, &mut output);
        let error = outcome.err().map(|error| error.source.to_string());
        (String::from_utf8(data).unwrap(), error)
    }

    #[test]
    fn a_body_is_shown_with_what_it_is_of() {
        let (text, error) = shown(Form::Table, &BodyKey::new(&[1; 32]));
        assert_eq!(error, None);
        assert!(
            text.contains("request  anthropic  9 bytes, cut to 5\nhello\n"),
            "{text}"
        );
        let (json, _) = shown(Form::Json, &BodyKey::new(&[1; 32]));
        crate::cli::commands::scene::assert_documented("bodies", false, &json);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["body"], &json["cut"]), (&"hello".into(), &true.into()));
    }

    #[test]
    fn another_key_shows_nothing_and_is_told() {
        let (text, error) = shown(Form::Table, &BodyKey::new(&[2; 32]));
        assert_eq!(text, "");
        let error = error.expect("it cannot be read");
        assert!(
            error.starts_with("the request of `req-1` cannot be read: it was sealed with the key "),
            "{error}"
        );
    }
}
