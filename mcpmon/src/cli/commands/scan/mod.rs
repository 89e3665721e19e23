//! `mcpmon scan`: judges every configured server and every skill of every client; starts servers only if a person
//! agrees.

mod objects;
mod sarif;
mod tables;
#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use mcpmon_clients::{CLIENTS, Roots};
use mcpmon_config::{LoadedConfiguration, LocalConfig, Search};
use mcpmon_detect::mask::{mask_arguments, mask_text};
use mcpmon_model::{Severity, Timestamp};
use mcpmon_store::{Access, DAEMON_STORE, SkillPin, Store, StoreError, StoreReader, own_store};

use crate::{
    app::{
        group,
        scan::{
            self, Scan, ScanOptions, SkillState, StartConfinement, StartPlan, StartTarget, chosen_clients,
            confined::OwnFiles,
        },
    },
    cli::{
        CliError, ErrorKind, Output, commands::setup::confirm, filters::parse_severity, output::Form, store,
    },
};

/// Inspect what is configured and installed: every server and every skill of every client; exit 1 on findings
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// Directories with projects and skills, instead of the current one
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The homes of all users; for root
    #[arg(long)]
    all: bool,
    /// Only this client; may be given more than once
    #[arg(long = "client", value_name = "NAME", num_args = 1, value_parser = names())]
    clients: Vec<String>,
    /// Start the servers, and ask the remote ones, to inspect what they offer: asks first
    #[arg(long)]
    start: bool,
    /// Let started servers reach the network
    #[arg(long, requires = "start")]
    network: bool,
    /// Start without a question
    #[arg(long, short, requires = "start")]
    yes: bool,
    /// Start also those that this host cannot keep in the whole sandbox
    #[arg(long, requires = "start")]
    degraded: bool,
    /// Pin changed skills as they are now
    #[arg(long)]
    accept: bool,
    /// From which severity on findings make the command fail; that of the policy unless given
    #[arg(long, value_name = "SEVERITY", value_parser = parse_severity)]
    fail_on: Option<Severity>,
    /// The form of the result
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    format: ScanFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ScanFormat {
    /// For a person.
    #[default]
    Table,
    /// One object a line.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.id.as_str()))
}

pub(in crate::cli) fn run(
    options: &Options,
    loaded: &LoadedConfiguration,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let wanted = scan_options(options, now)?;
    let place = output.globals.db.clone().or_else(own_store);
    let pins = match place.as_deref().filter(|place| place.exists()) {
        Some(place) => pins(place).map_err(environment)?,
        None => Vec::new(),
    };
    let registry = match store::open(output.globals) {
        Ok(registry) => Some(registry),
        Err(error) if output.globals.db.as_ref().is_some_and(|db| db.exists()) => return Err(error),
        // Without a store, no definitions are known.
        Err(_) => None,
    };
    let mut scanned = {
        let mut progress = |what: &str| report_progress(what, output);
        scan::read(&wanted, loaded, registry.as_ref(), &mut progress).map_err(environment)?
    };
    end_progress(output)?;
    if options.start {
        start(&mut scanned, &wanted, options, loaded, output)?;
    }
    {
        let mut progress = |what: &str| report_progress(what, output);
        scanned
            .judge(&wanted, loaded, pins, &mut progress)
            .map_err(environment)?;
    }
    end_progress(output)?;
    show(&scanned, options, output)?;
    pin(&scanned, options, place.as_deref(), output)?;
    let threshold = options
        .fail_on
        .unwrap_or(loaded.policy.inspection.alert_threshold);
    let count = scanned
        .open_findings()
        .filter(|finding| finding.finding.severity >= threshold)
        .count();
    match count {
        0 => Ok(()),
        1 => Err(refused(&format!(
            "1 finding of severity {} or worse",
            threshold.as_str()
        ))),
        _ => Err(refused(&format!(
            "{count} findings of severity {} or worse",
            threshold.as_str()
        ))),
    }
}

/// Shows on a terminal what is being read or started.
fn report_progress(what: &str, output: &mut Output<'_>) {
    if io::stderr().is_terminal() {
        // If progress cannot be shown, the scan continues.
        drop(output.progress(&format!("scanning {what}")));
    }
}

fn end_progress(output: &mut Output<'_>) -> io::Result<()> {
    match io::stderr().is_terminal() {
        true => output.progress(""),
        false => Ok(()),
    }
}

/// Lists what would be started and how, asks, and starts it.
fn start(
    scanned: &mut Scan,
    wanted: &ScanOptions,
    options: &Options,
    loaded: &LoadedConfiguration,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let plans = scanned.start_plans(wanted);
    if plans.is_empty() {
        output.note("there is no server that can be started or asked")?;
        return Ok(());
    }
    let search = Search::of_process(output.globals.config.clone(), LocalConfig::Ignore);
    let own = OwnFiles {
        config: search.explicit.or(search.variable),
        store: output.globals.db.clone().or_else(own_store),
    };
    let confinement = StartConfinement::find(options.network, own);
    describe(&plans, &confinement, output)?;
    let agreed = agreed(&plans, &confinement, options, output)?;
    {
        let mut progress = |what: &str| report_progress(what, output);
        scanned
            .start(&agreed, &confinement, loaded, &mut progress)
            .map_err(environment)?;
    }
    end_progress(output)?;
    Ok(())
}

/// Lists what would be started, and the restrictions.
fn describe(
    plans: &[StartPlan],
    confinement: &StartConfinement,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    output.note(match confinement.has_network {
        false => "servers start in a sandbox, without a network and without the files of your home:",
        true => "servers start in a sandbox, with the network and without the files of your home:",
    })?;
    for plan in plans {
        let line = match &plan.target {
            StartTarget::Command(words) => mask_arguments(words).join(" "),
            StartTarget::Url(url) => format!("asks {}, over the network", mask_text(url)),
        };
        output.note(&format!("  {}: {line}", plan.name))?;
        if let Some(reason) = &plan.outside {
            output.note(&format!("    NOT IN THE SANDBOX: {reason}"))?;
        }
    }
    for gap in confinement.gaps() {
        let weight = if gap.is_serious { "WARNING" } else { "note" };
        output.note(&format!("{weight}: {}", gap.text))?;
    }
    Ok(())
}

/// Asks which servers to start. Those with gaps in their confinement need a separate consent.
fn agreed<'p>(
    plans: &'p [StartPlan],
    confinement: &StartConfinement,
    options: &Options,
    output: &mut Output<'_>,
) -> Result<Vec<&'p StartPlan>, CliError> {
    let (mut agreed, degraded): (Vec<_>, Vec<_>) =
        plans.iter().partition(|plan| plan.is_confined(confinement));
    let names = |plans: &[&StartPlan]| {
        let names = plans.iter().map(|plan| plan.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    if options.yes {
        match (options.degraded, degraded.is_empty()) {
            (true, _) => agreed.extend(degraded),
            (false, true) => {}
            (false, false) => output.note(&format!(
                "not started, because they would not be in the whole sandbox: {}; `--degraded` starts them too",
                names(&degraded)
            ))?,
        }
        return Ok(agreed);
    }
    if !confirm::is_possible() {
        let error = anyhow::anyhow!("`--start` asks before it starts servers, and nobody can answer here");
        return Err(
            CliError::new(ErrorKind::Usage, error).with_hint("add `--yes` to start what is listed above")
        );
    }
    let mut ask =
        |question: &str| confirm::ask(question, "they are not started", &mut io::stdin().lock(), output);
    if !agreed.is_empty() && !ask("Start and ask them?")? {
        agreed.clear();
    }
    let question = format!("Start what is NOT in the whole sandbox ({})?", names(&degraded));
    if !degraded.is_empty() && ask(&question)? {
        agreed.extend(degraded);
    }
    Ok(agreed)
}

fn environment(error: impl Into<anyhow::Error>) -> CliError {
    CliError::new(ErrorKind::Environment, error)
}

fn refused(message: &str) -> CliError {
    CliError::new(ErrorKind::Refused, anyhow::anyhow!("{message}"))
}

fn scan_options(options: &Options, now: Timestamp) -> Result<ScanOptions, CliError> {
    let is_root = nix::unistd::geteuid().is_root();
    if options.all && !is_root {
        let error = anyhow::anyhow!("the homes of all users are readable for root only");
        return Err(environment(error)
            .with_hint("`sudo -H mcpmon scan --all`")
            .with_hint("your own clients, all of them: `mcpmon scan`"));
    }
    let roots = Roots::of_process().ok_or_else(|| {
        environment(anyhow::anyhow!(
            "HOME is not set to an absolute path: there are no files of clients"
        ))
    })?;
    let directory = |path: &PathBuf| {
        let found = path.canonicalize().map_err(|error| {
            let error = anyhow::Error::from(error).context(format!("cannot find {}", path.display()));
            CliError::new(ErrorKind::Usage, error)
        })?;
        match found.is_dir() {
            true => Ok(found),
            false => {
                let error = anyhow::anyhow!("{} is no directory", path.display());
                Err(CliError::new(ErrorKind::Usage, error)
                    .with_hint("name the project, or the directory of the skill; `mcpmon inspect FILE` reads definitions"))
            }
        }
    };
    Ok(ScanOptions {
        roots,
        all_users: options.all,
        clients: chosen_clients(&options.clients),
        paths: options.paths.iter().map(directory).collect::<Result<_, _>>()?,
        now,
    })
}

fn show(scanned: &Scan, options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    match (options.format, output.form) {
        (ScanFormat::Sarif, _) => output.page(&format!("{:#}\n", sarif::log(scanned)))?,
        (ScanFormat::Json, _) | (ScanFormat::Table, Form::Json) => {
            objects::all(scanned)
                .iter()
                .try_for_each(|object| output.json(object))?;
        }
        (ScanFormat::Table, Form::Table) => tables::show(scanned, output)?,
    }
    output.flush()?;
    for line in tables::summary(scanned) {
        output.note(&line)?;
    }
    Ok(())
}

/// Pins new skills, and changed ones if that is accepted.
fn pin(
    scanned: &Scan,
    options: &Options,
    place: Option<&Path>,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let is_wanted = |state: &SkillState| match state {
        SkillState::New => true,
        SkillState::Changed(_) => options.accept,
        SkillState::Unchanged => false,
    };
    if !scanned.skills.iter().any(|skill| is_wanted(&skill.state)) {
        return Ok(());
    }
    let by = format!("user {}", nix::unistd::getuid());
    let pinned = match place {
        Some(place) => open(place).and_then(|mut store| scanned.pin_skills(&mut store, options.accept, &by)),
        None => {
            output.note("skills are not pinned: there is no place for a store of your own")?;
            return Ok(());
        }
    };
    match pinned {
        Ok(count) => output.note(&format!(
            "pinned {count} {}: a later change of one is a finding",
            if count == 1 { "skill" } else { "skills" }
        ))?,
        // A host whose store cannot be written is scanned all the same.
        Err(error) if !options.accept => {
            output.note(&format!(
                "skills are not pinned: {:#}",
                anyhow::Error::from(error)
            ))?;
        }
        Err(error) => return Err(environment(error)),
    }
    Ok(())
}

fn pins(place: &Path) -> Result<Vec<SkillPin>, StoreError> {
    open(place)?.read(StoreReader::skill_pins)
}

fn open(place: &Path) -> Result<Store, StoreError> {
    let group = match place == Path::new(DAEMON_STORE) {
        true => group::find(),
        false => None,
    };
    Store::open(place, Access { group })
}
