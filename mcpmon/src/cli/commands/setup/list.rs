//! `mcpmon setup --list`: the clients, their files and the state of the servers in them.

use mcpmon_clients::{Client, FileReport, PlanOutcome, PlannedServer, Roots, SetupDirection, SetupEffect};
use serde_json::{Map, Value, json};

use super::{Options, chosen, projects, servers::told, state};
use crate::cli::{
    CliError, ErrorKind,
    output::{Form, Output},
    table::{Column, Row, Table, Tone},
};

const CLIENT_TABLE: Table = Table::new(&[
    Column::whole("CLIENT", 14),
    Column::cut("NAME", 14),
    Column::cut_start("FILE", 40),
    Column::cut("SERVERS", 30),
]);

/// Prints the clients, and the servers in their files. Nothing is changed.
pub(super) fn run(
    options: &Options,
    roots: Roots,
    user: u32,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let preview = mcpmon_clients::Options {
        state: state()?,
        clients: chosen(&options.clients),
        projects: projects(&options.projects)?,
        user,
        roots,
        direction: SetupDirection::Unwrap,
        effect: SetupEffect::Preview,
        confirmed: None,
    };
    let reports =
        mcpmon_clients::run(&preview).map_err(|error| CliError::new(ErrorKind::Environment, error))?;
    let of = |client: &Client| {
        reports
            .iter()
            .filter(|report| report.client.id == client.id)
            .collect()
    };
    match output.form {
        Form::Table => {
            let rows: Vec<_> = preview
                .clients
                .iter()
                .flat_map(|client| client_rows(client, of(client)))
                .collect();
            output.table(&CLIENT_TABLE, &rows)?;
        }
        Form::Json => preview
            .clients
            .iter()
            .try_for_each(|client| output.json(&client_object(client, &of(client))))?,
    }
    Ok(output.flush()?)
}

fn client_rows(client: &Client, reports: Vec<&FileReport>) -> Vec<Row> {
    let row = |tone, file: String, servers: String| {
        Row::new(tone, [client.id.clone(), client.name.clone(), file, servers])
    };
    if reports.is_empty() {
        return vec![row(Tone::Ordinary, "-".to_owned(), "-".to_owned())];
    }
    let file = |report: &&FileReport| {
        let path = report.path.display().to_string();
        match &report.trouble {
            Some(trouble) => row(Tone::Alarming, path, format!("left: {}", told(trouble))),
            None if report
                .servers
                .iter()
                .any(|server| server.outcome == PlanOutcome::Bare) =>
            {
                row(Tone::Notable, path, states(report))
            }
            None => row(Tone::Ordinary, path, states(report)),
        }
    };
    reports.iter().map(file).collect()
}

/// Counts the servers of a file by their state: `2 wrapped, 1 not wrapped`.
fn states(report: &FileReport) -> String {
    let counted = ["wrapped", "wrapped by hand", "not wrapped", "remote", "unclear"].map(|name| {
        let servers = report.servers.iter();
        (
            servers
                .filter(|server| server_state(server.outcome) == name)
                .count(),
            name,
        )
    });
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    counted
        .map(|(count, name)| format!("{count} {name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the state of a server, from what unwrapping it would do.
const fn server_state(outcome: PlanOutcome) -> &'static str {
    match outcome {
        PlanOutcome::Unwrap | PlanOutcome::Wrap | PlanOutcome::Update | PlanOutcome::Wrapped => "wrapped",
        PlanOutcome::ByHand => "wrapped by hand",
        PlanOutcome::Bare => "not wrapped",
        PlanOutcome::Remote => "remote",
        PlanOutcome::Unclear(_) => "unclear",
    }
}

fn client_object(client: &Client, reports: &[&FileReport]) -> Map<String, Value> {
    let server = |server: &PlannedServer| {
        json!({
            "server": server.path.last(),
            "path": server.path,
            "line": server.line,
            "state": server_state(server.outcome),
        })
    };
    let file = |report: &&FileReport| {
        json!({
            "file": report.path,
            "servers": report.servers.iter().map(server).collect::<Vec<_>>(),
            "error": report.trouble.as_ref().map(told),
        })
    };
    let paths: Vec<_> = client.files.iter().flat_map(|file| &file.paths).collect();
    let object = json!({
        "client": client.id,
        "name": client.name,
        "files": reports.iter().map(file).collect::<Vec<_>>(),
        "paths": paths,
        "processes": client.processes,
        "tools": client.tools,
        "proxy_variables": client.proxy_variables,
    });
    object.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use mcpmon_clients::CLIENTS;

    use super::*;

    #[test]
    fn the_list_has_every_client_and_the_state_of_its_servers() {
        let home = tempfile::tempdir().expect("directory");
        let path = home.path().join(".cursor/mcp.json");
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(&path, super::super::tests::FILES[1].1).expect("written");
        let options = mcpmon_clients::Options {
            roots: Roots {
                home: home.path().to_owned(),
                variables: std::collections::BTreeMap::new(),
                host: home.path().join("host"),
            },
            state: home.path().join("state"),
            clients: CLIENTS.iter().collect(),
            projects: Vec::new(),
            user: nix::unistd::geteuid().as_raw(),
            direction: SetupDirection::Unwrap,
            effect: SetupEffect::Preview,
            confirmed: None,
        };
        let reports = mcpmon_clients::run(&options).expect("read");
        let cursor = &reports[0];
        assert_eq!(
            states(cursor),
            "1 wrapped by hand, 2 not wrapped, 1 remote, 1 unclear"
        );
        let object = Value::Object(client_object(cursor.client, &[cursor]));
        assert_eq!(object["files"][0]["servers"][0]["state"], "not wrapped");
        assert_eq!(object["tools"], "mcp_{server}_{tool}");
        let goose = mcpmon_clients::client("goose").expect("a client");
        let rows = client_rows(goose, Vec::new());
        assert_eq!(
            rows,
            [Row::new(
                Tone::Ordinary,
                ["goose", "goose", "-", "-"].map(str::to_owned)
            )]
        );
    }
}
