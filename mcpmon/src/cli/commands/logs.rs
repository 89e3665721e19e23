//! `mcpmon logs`: the standard error of wrapped servers.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt as _, path::Path};

use clap::Args;
use mcpmon_model::Timestamp;
use mcpmon_store::json::rfc3339;
use serde_json::{Map, Value};

use crate::{
    app::server_log::{self, LogDirectory, LogEntry, LogTail, ReadError},
    cli::{
        CliError, ErrorKind, Output,
        listing::FOLLOW_INTERVAL,
        output::{self, Form},
        time,
    },
};

/// Most known servers and sessions that an error names.
const MAX_NAMED: usize = 20;

/// Show what a wrapped server wrote to its standard error, without secrets
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// The server's id
    server: String,
    /// Keep running, and print new lines as they are written, also those of later runs
    #[arg(long, short)]
    follow: bool,
    /// Show at most this many lines, the newest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    lines: u32,
    /// Of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub(in crate::cli) fn run(options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    let directories = match &output.globals.db {
        Some(store) => vec![LogDirectory::of(server_log::beside(store), owner(store))],
        None => server_log::directories(),
    };
    show(options, &directories, output, || {
        output::wait_for(FOLLOW_INTERVAL)
    })
}

/// Returns the owner of a store, who owns the logs beside it, too. Returns this process's user if the owner cannot be
/// read.
fn owner(store: &Path) -> u32 {
    let owner = fs::metadata(store).map(|metadata| metadata.uid());
    owner.unwrap_or_else(|_| nix::unistd::geteuid().as_raw())
}

/// Prints the newest lines, and with `--follow` each new one until `wait` or the output ends it.
fn show(
    options: &Options,
    directories: &[LogDirectory],
    output: &mut Output<'_>,
    wait: impl FnMut() -> io::Result<()>,
) -> Result<(), CliError> {
    let mut runs = chosen(options, all_runs(directories)?)?;
    let mut entries = new_entries(&mut runs)?;
    let surplus = entries.len().saturating_sub(options.lines as usize);
    if surplus > 0 && !options.follow {
        output.note(&format!(
            "only the newest {} lines are shown: --lines N shows more",
            options.lines
        ))?;
    }
    entries.drain(..surplus);
    let mut heading = None;
    print(&entries, &runs, &mut heading, output)?;
    if entries.is_empty() {
        let runs = runs.len();
        output.note(&format!(
            "{} wrote nothing to standard error ({runs} runs)",
            options.server
        ))?;
    }
    match options.follow {
        true => follow(options, directories, runs, heading, output, wait),
        false => Ok(output.flush()?),
    }
}

/// Prints new lines, also those of runs that begin meanwhile, until `wait` or the output ends it.
fn follow(
    options: &Options,
    directories: &[LogDirectory],
    mut runs: Vec<LogTail>,
    mut heading: Option<usize>,
    output: &mut Output<'_>,
    mut wait: impl FnMut() -> io::Result<()>,
) -> Result<(), CliError> {
    loop {
        output.flush()?;
        wait()?;
        let later = all_runs(directories)?.into_iter();
        for run in later.filter(|run| is_chosen(options, run)) {
            if !runs.iter().any(|known| known.is_same(&run)) {
                runs.push(run);
            }
        }
        let entries = new_entries(&mut runs)?;
        print(&entries, &runs, &mut heading, output)?;
    }
}

fn all_runs(directories: &[LogDirectory]) -> Result<Vec<LogTail>, ReadError> {
    let mut all = Vec::new();
    for directory in directories {
        match directory.runs() {
            Ok(runs) => all.extend(runs),
            // A home of another user that root cannot read (as on some network file systems) does not prevent the rest.
            Err(_) if !directory.is_own() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn is_chosen(options: &Options, run: &LogTail) -> bool {
    let session = run.run.session.as_ref().map(mcpmon_model::SessionId::as_str);
    run.run.server.as_str() == options.server
        && (options.session.is_none() || options.session.as_deref() == session)
}

/// Returns the chosen runs, or an error that names the known servers or sessions.
fn chosen(options: &Options, runs: Vec<LogTail>) -> Result<Vec<LogTail>, CliError> {
    let servers: BTreeSet<String> = runs.iter().map(|run| run.run.server.to_string()).collect();
    let of_server = |run: &&LogTail| run.run.server.as_str() == options.server;
    let sessions: BTreeSet<String> = runs
        .iter()
        .filter(of_server)
        .filter_map(|run| Some(run.run.session.as_ref()?.as_str().to_owned()))
        .collect();
    let chosen: Vec<_> = runs.into_iter().filter(|run| is_chosen(options, run)).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let refused = |text: String| CliError::new(ErrorKind::Refused, anyhow::anyhow!(text));
    let server = &options.server;
    Err(match &options.session {
        Some(session) if servers.contains(server) => {
            refused(format!("there is no log of `{server}` in a session `{session}`"))
                .with_hint(named("sessions with one", &sessions))
        }
        Some(_) | None => refused(format!("there is no log of a server `{server}`")).with_hint(match servers.is_empty() {
            true => "there are no logs at all: a server has one once it was started by `mcpmon wrap`, which `mcpmon setup` puts before it".to_owned(),
            false => named("servers with one", &servers),
        }),
    })
}

fn named(what: &str, names: &BTreeSet<String>) -> String {
    let shown: Vec<_> = names.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{what}: {}{more}", shown.join(", "))
}

/// The index of a run, and an entry of it.
type EntryOfRun = (usize, LogEntry);

/// Returns the new entries of all runs, ordered by time.
fn new_entries(runs: &mut [LogTail]) -> Result<Vec<EntryOfRun>, ReadError> {
    let mut entries = Vec::new();
    for (index, run) in runs.iter_mut().enumerate() {
        entries.extend(run.next_entries()?.into_iter().map(|entry| (index, entry)));
    }
    entries.sort_by_key(|(_, entry)| entry.at());
    Ok(entries)
}

/// Prints entries. In text form, a note names the run of the entries that follow.
fn print(
    entries: &[EntryOfRun],
    runs: &[LogTail],
    heading: &mut Option<usize>,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    for (index, entry) in entries {
        let run = &runs[*index];
        match output.form {
            Form::Json => output.json(&object(run, entry))?,
            Form::Table => {
                if heading.replace(*index) != Some(*index) {
                    output.flush()?;
                    output.note(&headed(run, nix::unistd::geteuid().as_raw()))?;
                }
                output.text(&[text(entry)])?;
            }
        }
    }
    Ok(())
}

/// Returns the heading of a run, for a reader who may see other users' runs, too.
fn headed(run: &LogTail, reader: u32) -> String {
    let session = run
        .run
        .session
        .as_ref()
        .map_or_else(String::new, |session| format!(", session {}", session.as_str()));
    let user = match run.owner() {
        owner if owner == reader => String::new(),
        owner => format!(", user {owner}"),
    };
    let state = if run.is_live() { "running" } else { "ended" };
    format!(
        "{}: process {}, started {}{session}{user}, {state}",
        run.run.server,
        run.run.pid,
        time::short(run.run.started)
    )
}

fn text(entry: &LogEntry) -> String {
    match entry {
        LogEntry::Line { at, text, is_cut } => {
            let end = if *is_cut { " […]" } else { "" };
            format!("{}  {text}{end}", time::short(*at))
        }
        LogEntry::Skipped { at, bytes } => format!("{}  [{bytes} bytes are missing]", time::short(*at)),
    }
}

fn object(run: &LogTail, entry: &LogEntry) -> Map<String, Value> {
    let stamp = |at: Timestamp| Value::from(rfc3339(at));
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("server_id", run.run.server.as_str().into());
    if let Some(session) = &run.run.session {
        put("session_id", session.as_str().into());
    }
    put("pid", run.run.pid.into());
    put("uid", run.owner().into());
    put("started", stamp(run.run.started));
    put("timestamp", stamp(entry.at()));
    match entry {
        LogEntry::Line { text, is_cut, .. } => {
            put("line", text.as_str().into());
            put("cut", (*is_cut).into());
        }
        LogEntry::Skipped { bytes, .. } => {
            put("missing_bytes", (*bytes).into());
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::scene;

    const HEADER: &str = r#"{"server":"files","session":"claude-1","pid":7,"started":1795000000000000000}"#;
    const LINES: &str = r#"{"line":{"at":1795000001000000000,"text":"up \u001b[31m"}}
{"skipped":{"at":1795000002000000000,"bytes":12}}
{"line":{"at":1795000003000000000,"text":"\u202ecut","is_cut":true}}
"#;

    fn shown(options: &Options, form: Form) -> (Result<(), CliError>, String, String) {
        let directory = tempfile::tempdir().expect("directory");
        fs::write(directory.path().join("1-7.log"), format!("{HEADER}\n{LINES}")).expect("written");
        let directories = [LogDirectory::own(directory.path().to_owned())];
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        let mut output = Output::plain(&mut data, &mut notes, form);
        let ended = || Err(io::ErrorKind::BrokenPipe.into());
        let result = show(options, &directories, &mut output, ended);
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (result, text(data), text(notes))
    }

    fn options(server: &str, lines: u32) -> Options {
        Options {
            server: server.to_owned(),
            follow: false,
            lines,
            session: None,
        }
    }

    #[test]
    fn lines_are_shown_with_what_is_missing_and_nothing_is_obeyed() {
        let (result, data, notes) = shown(&options("files", 200), Form::Table);
        result.expect("shown");
        insta::assert_snapshot!(data, @r"
        11-18 11:06:41  up \u{1b}[31m
        11-18 11:06:42  [12 bytes are missing]
        11-18 11:06:43  \u{202e}cut […]
        ");
        insta::assert_snapshot!(notes, @"files: process 7, started 11-18 11:06:40, session claude-1, ended");
    }

    #[test]
    fn runs_of_other_users_are_told_by_user() {
        let directory = tempfile::tempdir().expect("directory");
        fs::write(directory.path().join("1-7.log"), format!("{HEADER}\n{LINES}")).expect("written");
        let runs = LogDirectory::own(directory.path().to_owned())
            .runs()
            .expect("runs");
        let owner = runs[0].owner();
        assert!(!headed(&runs[0], owner).contains("user"));
        assert!(headed(&runs[0], owner + 1).contains(&format!(", user {owner}, ended")));
    }

    #[test]
    fn the_newest_lines_are_shown_where_there_are_more() {
        let (result, data, notes) = shown(&options("files", 1), Form::Table);
        result.expect("shown");
        assert_eq!(data.lines().count(), 1, "{data}");
        assert!(notes.starts_with("only the newest 1 lines are shown"), "{notes}");
    }

    #[test]
    fn a_session_that_has_no_log_is_named_with_those_that_have_one() {
        let mut options = options("files", 1);
        options.session = Some("other".to_owned());
        let error = shown(&options, Form::Table).0.expect_err("there is none");
        assert_eq!(error.hints, ["sessions with one: claude-1"]);
    }

    #[test]
    fn objects_are_as_documented() {
        let (result, data, _) = shown(&options("files", 200), Form::Json);
        result.expect("shown");
        scene::assert_documented("logs", false, &data);
    }
}
