//! The result of a scan for a person: a table for each file and each skill, and the next steps.

use std::{collections::BTreeMap, path::Path};

use mcpmon_model::Severity;

use crate::{
    app::scan::{
        AppliedConfinement, Definitions, Scan, ScanFinding, ScannedServer, ScannedSkill, SkillState,
    },
    cli::{
        CliError, Output,
        table::{Column, Row, Table, Tone},
    },
};

const SERVERS: Table = Table::new(&[
    Column::whole("SERVER", 16),
    Column::whole("SEVERITY", 8),
    Column::whole("RULE", 24),
    Column::whole("AT", 5),
    Column::whole("WHAT", 40),
]);

const SKILLS: Table = Table::new(&[
    Column::whole("FILE", 20),
    Column::whole("SEVERITY", 8),
    Column::whole("RULE", 24),
    Column::whole("AT", 5),
    Column::whole("WHAT", 40),
]);

/// Most characters of a name that are shown; names are chosen by others.
const MAX_NAME: usize = 60;

/// Prints every file with its servers, then every skill.
pub(super) fn show(scanned: &Scan, output: &mut Output<'_>) -> Result<(), CliError> {
    let mut is_first = true;
    let mut heading = |line: String, output: &mut Output<'_>| {
        let lines = if is_first {
            vec![line]
        } else {
            vec![String::new(), line]
        };
        is_first = false;
        output.text(&lines)
    };
    for file in &scanned.files {
        heading(format!("{}: {}", file.client.name, file.path.display()), output)?;
        let of_file = file.findings.iter().map(|finding| row("", finding));
        let of_servers = file.servers.iter().flat_map(server_rows);
        let rows: Vec<Row> = of_file.chain(of_servers).collect();
        output.table(&SERVERS, &rows)?;
    }
    for skill in &scanned.skills {
        heading(skill_heading(skill), output)?;
        if !skill.findings.is_empty() {
            let rows: Vec<Row> = skill
                .findings
                .iter()
                .map(|finding| row(&relative(&finding.file, &skill.path), finding))
                .collect();
            output.table(&SKILLS, &rows)?;
        }
    }
    Ok(())
}

fn relative(file: &Path, root: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

fn skill_heading(skill: &ScannedSkill) -> String {
    let clients: Vec<&str> = skill.clients.iter().map(|client| client.name.as_str()).collect();
    let read_by = match clients.is_empty() {
        true => String::new(),
        false => format!(" ({})", clients.join(", ")),
    };
    let state = match &skill.state {
        SkillState::New => "seen for the first time",
        SkillState::Unchanged => "as it was pinned",
        SkillState::Changed(_) => "CHANGED",
    };
    let findings = match skill.findings.is_empty() {
        true => ", nothing was found",
        false => "",
    };
    format!(
        "skill {}{read_by}: {}, {state}{findings}",
        skill.name,
        skill.path.display()
    )
}

/// Returns a long name cut at its end.
fn cut(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// Returns the state of a server and its findings; whether it is wrapped is part of the state.
fn server_rows(server: &ScannedServer) -> Vec<Row> {
    let configured = &server.configured;
    let wrapped = if configured.is_wrapped {
        "wrapped"
    } else {
        "not wrapped"
    };
    let definitions = match &server.definitions {
        Definitions::Unknown => "not started, and no wrapper saw its definitions".to_owned(),
        Definitions::Registry(count) => format!("not started; {count} definitions as a wrapper saw them"),
        Definitions::Listed(count) => format!("lists {count} definitions{}", started(server)),
        Definitions::Failed(fault) => format!("its definitions are not known: {fault}"),
    };
    let state = Row::new(
        Tone::Ordinary,
        [
            cut(configured.name()),
            "-".to_owned(),
            "-".to_owned(),
            format!("{}:{}", configured.place.line, configured.place.column),
            format!("{wrapped}, {definitions}"),
        ],
    );
    let told = server
        .findings
        .iter()
        .filter(|finding| finding.finding.severity > Severity::Info);
    let found = told.map(|finding| row(configured.name(), finding));
    std::iter::once(state).chain(found).collect()
}

/// Returns the words for the confinement in which a server was started.
fn started(server: &ScannedServer) -> &'static str {
    match server.started {
        None => "",
        Some(AppliedConfinement {
            has_sandbox: true,
            has_network: false,
        }) => ", in the sandbox without a network",
        Some(AppliedConfinement {
            has_sandbox: true,
            has_network: true,
        }) => ", in the sandbox with the network",
        Some(AppliedConfinement {
            has_sandbox: false, ..
        }) => ", NOT in the sandbox",
    }
}

fn row(name: &str, found: &ScanFinding) -> Row {
    let finding = &found.finding;
    let place = finding.place.map_or_else(
        || "-".to_owned(),
        |place| format!("{}:{}", place.line, place.column),
    );
    let accepted = if found.is_accepted { " (accepted)" } else { "" };
    Row::new(
        match found.is_accepted {
            true => Tone::Ordinary,
            false => tone(finding.severity),
        },
        [
            cut(name),
            finding.severity.as_str().to_owned(),
            finding.rule.clone(),
            place,
            format!("{}{accepted}", finding.message),
        ],
    )
}

const fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Info | Severity::Low => Tone::Ordinary,
        Severity::Medium => Tone::Notable,
        Severity::High | Severity::Critical => Tone::Alarming,
    }
}

/// Returns the last lines of a scan.
pub(super) fn summary(scanned: &Scan) -> Vec<String> {
    let servers: Vec<_> = scanned.files.iter().flat_map(|file| &file.servers).collect();
    let count = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let mut by_severity: BTreeMap<Severity, usize> = BTreeMap::new();
    for finding in scanned.open_findings() {
        *by_severity.entry(finding.finding.severity).or_default() += 1;
    }
    let found: Vec<_> = by_severity
        .iter()
        .rev()
        .map(|(severity, count)| format!("{count} {}", severity.as_str()))
        .collect();
    let found = match found.is_empty() {
        true => "nothing was found".to_owned(),
        false => format!("found {}", found.join(", ")),
    };
    let mut lines = vec![format!(
        "{}, {}, {}: {found}",
        count(scanned.files.len(), "file"),
        count(servers.len(), "server"),
        count(scanned.skills.len(), "skill"),
    )];
    let unknown = servers
        .iter()
        .filter(|server| server.definitions == Definitions::Unknown)
        .count();
    if unknown > 0 {
        lines.push(format!(
            "the definitions of {} are not known: `mcpmon scan --start` starts and asks them, after a question",
            count(unknown, "server")
        ));
    }
    if scanned
        .skills
        .iter()
        .any(|skill| matches!(skill.state, SkillState::Changed(_)))
    {
        lines.push("to pin changed skills as they are now: mcpmon scan --accept".to_owned());
    }
    if scanned
        .open_findings()
        .any(|finding| finding.finding.severity > Severity::Info)
    {
        lines.push(
            "what a rule means: docs/rules; to accept what is right: mcpmon policy accept RULE --server NAME"
                .to_owned(),
        );
    }
    lines
}
