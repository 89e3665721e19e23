//! `mcpmon setup`: adds the wrapper to the servers in clients' files, or removes it.

pub(in crate::cli::commands) mod confirm;
mod list;
mod policy;
mod servers;
mod settings;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::{Args, builder::PossibleValuesParser};
use mcpmon_clients::{
    CLIENTS, Client, FileError, FileReport, FileTrouble, Roots, SettingKind, SettingReport, SettingWish,
    SetupDirection, SetupEffect, shown_digests,
};
use mcpmon_config::{LocalConfig, Search, Trust};
use mcpmon_policy::Mode;

use self::policy::{policy, tell_policy};
use crate::{
    app::setup::{PolicyChange, PolicyReport, PolicyWish, Program, SHIPPED_POLICIES, wrapper_options},
    cli::{
        CliError, ErrorKind, Globals,
        output::{Form, Output},
    },
};

/// Put the wrapper before the MCP servers in clients' configuration files, or take it away
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// Only this client; may be given more than once
    #[arg(long = "client", value_name = "NAME", num_args = 1.., value_parser = names())]
    clients: Vec<String>,
    /// The files of the project in this directory as well; may be given more than once
    #[arg(long = "project", value_name = "DIR")]
    projects: Vec<PathBuf>,
    /// Take the wrapper away, and hooks and addresses of models: files are, byte for byte, what they were, but for later
    /// edits. With --hooks or --llm these alone
    #[arg(long, conflicts_with_all = ["enforce", "observe"])]
    disable: bool,
    /// Let mcpmon speak to remote servers, too: it is started in the place of their URLs
    #[arg(long, conflicts_with = "disable")]
    remote: bool,
    /// Let the clients that have hooks ask mcpmon before they run tools of their own; with --disable, take these hooks away
    #[arg(long)]
    hooks: bool,
    /// Lead the clients' models through the LLM proxy, where a file of theirs can say so; with --disable, take that away
    #[arg(long)]
    llm: bool,
    /// Block what the policy forbids: write a first policy that enforces, or switch one that observes
    #[arg(long, conflicts_with = "observe")]
    enforce: bool,
    /// Record what the policy forbids and block nothing, as a first policy does: switch one that enforces
    #[arg(long)]
    observe: bool,
    /// Write this shipped policy as the first one, in observe mode unless --enforce is given
    #[arg(long, value_name = "NAME", conflicts_with = "disable", value_parser = SHIPPED_POLICIES)]
    policy: Option<String>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Ask nothing: on a terminal the changes are shown, and made after one confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// List the clients that are known, their files on this host, and whether their servers are wrapped
    #[arg(long, conflicts_with_all = ["disable", "enforce", "observe", "dry_run", "yes", "remote", "hooks", "llm", "policy"])]
    list: bool,
}

impl Options {
    /// Returns the mode that the options ask for.
    const fn mode(&self) -> Option<Mode> {
        match (self.enforce, self.observe) {
            (true, _) => Some(Mode::Enforce),
            (false, true) => Some(Mode::Observe),
            (false, false) => None,
        }
    }
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(CLIENTS.iter().map(|client| client.id.as_str()))
}

pub(in crate::cli) fn run(options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    let user = nix::unistd::geteuid().as_raw();
    let roots = roots(user)?;
    if options.list {
        return list::run(options, roots, user, output);
    }
    let direction = match options.disable {
        true => SetupDirection::Unwrap,
        false if options.remote => SetupDirection::WrapAll(program(output)?.as_str().into()),
        false => SetupDirection::Wrap(program(output)?.as_str().into()),
    };
    let wish = wish(options, &direction, output)?;
    let is_asked = !options.dry_run && !options.yes && output.form == Form::Table && confirm::is_possible();
    let mut run = SetupRun {
        setup: mcpmon_clients::Options {
            state: state()?,
            clients: chosen(&options.clients),
            projects: projects(&options.projects)?,
            user,
            roots,
            direction,
            effect: match options.dry_run || is_asked {
                true => SetupEffect::Preview,
                false => SetupEffect::Write,
            },
            confirmed: None,
        },
        globals: output.globals,
        wish: PolicyWish {
            name: options.policy.clone(),
            mode: options.mode(),
        },
        has_servers: !(options.disable && (options.hooks || options.llm)),
        settings: wish,
        settings_confirmed: None,
    };
    let done = run.perform()?;
    done.tell(output)?;
    if run.has_servers {
        left_out(&run.setup, &done.files, output)?;
    }
    if !options.disable {
        let are_named = !options.clients.is_empty();
        for note in settings::left_out(&run.setup, options.hooks, options.llm, are_named) {
            output.note(&note)?;
        }
    }
    done.tell_policy(output)?;
    if !is_asked || !done.has_changes() {
        return done.failure();
    }
    let refusal = "nothing was changed";
    if !confirm::ask(&done.question(), refusal, &mut std::io::stdin().lock(), output)? {
        return Ok(());
    }
    run.setup.confirmed = Some(done.digests());
    run.settings_confirmed = Some(shown_digests(&done.settings));
    run.setup.effect = SetupEffect::Write;
    let done = run.perform()?;
    // The differences were shown before the question.
    done.tell_notes(output)?;
    done.tell_policy(output)?;
    done.failure()
}

/// Returns the wanted change of other settings than servers; `None` if the options ask for none.
fn wish(
    options: &Options,
    direction: &SetupDirection,
    output: &mut Output<'_>,
) -> Result<Option<SettingWish>, CliError> {
    let program = match direction {
        SetupDirection::Wrap(wrapper) | SetupDirection::WrapAll(wrapper) => &wrapper.program,
        SetupDirection::Unwrap => {
            let named = [
                (options.hooks, SettingKind::Hook),
                (options.llm, SettingKind::Model),
            ];
            let all = !options.hooks && !options.llm;
            let kinds = named.into_iter().filter(|(is_named, _)| *is_named || all);
            return Ok(Some(SettingWish::Remove(kinds.map(|(_, kind)| kind).collect())));
        }
    };
    if !options.hooks && !options.llm {
        return Ok(None);
    }
    let hooks = options.hooks.then(|| shlex::try_quote(program)).transpose();
    let hooks = hooks.map_err(|error| CliError::new(ErrorKind::Environment, error))?;
    let models = match options.llm {
        false => None,
        true => {
            let (url, warning) = settings::proxy_url(output.globals)?;
            if let Some(warning) = warning {
                output.note(&warning)?;
            }
            Some(url)
        }
    };
    Ok(Some(SettingWish::Add {
        hooks: hooks.map(std::borrow::Cow::into_owned),
        models,
    }))
}

/// A run over the files of clients and the policy.
#[derive(Debug)]
struct SetupRun<'g> {
    setup: mcpmon_clients::Options,
    globals: &'g Globals,
    /// The policy that the options ask for.
    wish: PolicyWish,
    /// True if servers are wrapped or unwrapped.
    has_servers: bool,
    settings: Option<SettingWish>,
    /// Digests of the files whose settings a person has confirmed.
    settings_confirmed: Option<BTreeMap<PathBuf, String>>,
}

/// A file, and the digest of what this run wrote to it.
type WrittenFile<'r> = (&'r PathBuf, &'r Option<String>);

/// Adds the digests of what this run wrote to the confirmed ones.
fn with_written(
    confirmed: Option<BTreeMap<PathBuf, String>>,
    written: &[WrittenFile<'_>],
) -> Option<BTreeMap<PathBuf, String>> {
    let written = written
        .iter()
        .filter_map(|(path, digest)| Some(((*path).clone(), (*digest).clone()?)));
    confirmed.map(|mut confirmed| {
        confirmed.extend(written);
        confirmed
    })
}

/// The outcome of a run, or of its preview.
#[derive(Debug)]
struct SetupReport {
    effect: SetupEffect,
    files: Vec<FileReport>,
    settings: Vec<SettingReport>,
    /// `None` if servers are unwrapped, because the policy is not changed then.
    policy: Option<PolicyReport>,
}

impl SetupRun<'_> {
    fn perform(&self) -> Result<SetupReport, CliError> {
        let effect = self.setup.effect;
        let policy = match self.setup.direction {
            SetupDirection::Wrap(_) | SetupDirection::WrapAll(_) => {
                Some(policy(self.globals, &self.wish, effect)?)
            }
            SetupDirection::Unwrap => None,
        };
        let direction = self.direction(policy.as_ref());
        // The last change is undone first, so that each step finds the file as it left it.
        let (files, settings) = match self.setup.direction {
            SetupDirection::Wrap(_) | SetupDirection::WrapAll(_) => {
                let files = self.perform_servers(&direction, &[])?;
                let written: Vec<_> = files.iter().map(|file| (&file.path, &file.written)).collect();
                let settings = self.perform_settings(&written)?;
                (files, settings)
            }
            SetupDirection::Unwrap => {
                let settings = self.perform_settings(&[])?;
                let written: Vec<_> = settings.iter().map(|file| (&file.path, &file.written)).collect();
                let files = self.perform_servers(&direction, &written)?;
                (files, settings)
            }
        };
        Ok(SetupReport {
            effect,
            files,
            settings,
            policy,
        })
    }

    /// Returns the direction, with options that lead wrappers to the policy and the store of this user.
    fn direction(&self, policy: Option<&PolicyReport>) -> SetupDirection {
        let mut direction = self.setup.direction.clone();
        if let SetupDirection::Wrap(wrapper) | SetupDirection::WrapAll(wrapper) = &mut direction {
            let search = Search::of_process(self.globals.config.clone(), LocalConfig::Ignore);
            let trust = Trust::for_user(self.setup.user);
            let policy = policy.and_then(|policy| policy.path.as_deref());
            wrapper.options = wrapper_options(&search, trust, &self.setup.roots.home, policy);
        }
        direction
    }

    fn perform_servers(
        &self,
        direction: &SetupDirection,
        written: &[WrittenFile<'_>],
    ) -> Result<Vec<FileReport>, CliError> {
        if !self.has_servers {
            return Ok(Vec::new());
        }
        let mut setup = self.setup.clone();
        setup.direction = direction.clone();
        setup.confirmed = with_written(setup.confirmed, written);
        mcpmon_clients::run(&setup).map_err(|error| CliError::new(ErrorKind::Environment, error))
    }

    fn perform_settings(&self, written: &[WrittenFile<'_>]) -> Result<Vec<SettingReport>, CliError> {
        let Some(wish) = &self.settings else {
            return Ok(Vec::new());
        };
        let setup = mcpmon_clients::Options {
            confirmed: with_written(self.settings_confirmed.clone(), written),
            ..self.setup.clone()
        };
        mcpmon_clients::run_settings(&setup, wish)
            .map_err(|error| CliError::new(ErrorKind::Environment, error))
    }
}

impl SetupReport {
    fn tell(&self, output: &mut Output<'_>) -> Result<(), CliError> {
        for report in &self.files {
            match output.form {
                Form::Table => output.page(&servers::difference(report))?,
                Form::Json => servers::objects(report, self.effect)
                    .iter()
                    .try_for_each(|object| output.json(object))?,
            }
        }
        for report in &self.settings {
            match output.form {
                Form::Table => output.page(&settings::difference(report))?,
                Form::Json => settings::objects(report, self.effect)
                    .iter()
                    .try_for_each(|object| output.json(object))?,
            }
        }
        self.tell_notes(output)
    }

    fn tell_notes(&self, output: &mut Output<'_>) -> Result<(), CliError> {
        // The differences come first if both streams go to the same terminal.
        output.flush()?;
        for note in self
            .files
            .iter()
            .flat_map(|report| servers::notes(report, self.effect))
        {
            output.note(&note)?;
        }
        let settings = self.settings.iter();
        for note in settings.flat_map(|report| settings::notes(report, self.effect)) {
            output.note(&note)?;
        }
        if self.files.is_empty() && self.settings.is_empty() {
            output.note("no client's configuration file has an MCP server")?;
        }
        Ok(output.flush()?)
    }

    fn tell_policy(&self, output: &mut Output<'_>) -> Result<(), CliError> {
        match &self.policy {
            Some(policy) => tell_policy(policy, self.effect, output),
            None => Ok(()),
        }
    }

    fn changed_files(&self) -> usize {
        let settings = self.settings.iter().filter(|report| report.is_changed());
        let files = self.files.iter().filter(|report| is_changed(report));
        let paths = files
            .map(|report| &report.path)
            .chain(settings.map(|report| &report.path));
        paths.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Returns the error for the exit status; the files themselves were reported before.
    fn failure(&self) -> Result<(), CliError> {
        let failed = self.settings.iter().filter_map(|report| report.trouble.as_ref());
        failure(
            &self.files,
            failed.collect(),
            self.files.len() + self.settings.len(),
        )
    }

    fn changes_policy(&self) -> bool {
        self.policy
            .as_ref()
            .is_some_and(|policy| policy.change != PolicyChange::None)
    }

    fn has_changes(&self) -> bool {
        self.changed_files() > 0 || self.changes_policy()
    }

    fn question(&self) -> String {
        let files = match self.changed_files() {
            0 => None,
            1 => Some("1 file of a client".to_owned()),
            count => Some(format!("{count} files of clients")),
        };
        let policy = self.changes_policy().then(|| "the policy".to_owned());
        let parts: Vec<_> = files.into_iter().chain(policy).collect();
        format!("Change {}?", parts.join(" and "))
    }

    fn digests(&self) -> BTreeMap<PathBuf, String> {
        let read = self.files.iter();
        read.filter_map(|report| Some((report.path.clone(), report.digest.clone()?)))
            .collect()
    }
}

/// Returns whether the run changes this file.
fn is_changed(report: &FileReport) -> bool {
    report.trouble.is_none() && report.servers.iter().any(|server| server.outcome.changes())
}

/// Returns the user's directories. The home of another user, which `sudo` may leave to root, is refused.
fn roots(user: u32) -> Result<Roots, CliError> {
    let refused = |error| CliError::new(ErrorKind::Environment, error);
    let Some(roots) = Roots::of_process() else {
        let error = "HOME is not set to an absolute path: there are no files of clients";
        return Err(refused(anyhow::anyhow!(error)));
    };
    let Some(owner) = roots.owner_other_than(user) else {
        return Ok(roots);
    };
    let home = roots.home.display();
    let error = anyhow::anyhow!("HOME is {home}, which belongs to user {owner}, and this is user {user}");
    Err(refused(error)
        .with_hint(format!(
            "for that user's clients: `sudo -u '#{owner}' mcpmon setup`"
        ))
        .with_hint("for root's own, and the host's: `sudo -H mcpmon setup`"))
}

/// Returns the path of the running program; a note warns if it may soon be gone.
fn program(output: &mut Output<'_>) -> Result<String, CliError> {
    let program = Program::running().map_err(|error| CliError::new(ErrorKind::Environment, error))?;
    if program.is_fleeting {
        output.note(&format!(
            "warning: clients will start {}, which may not stay: install mcpmon, and run `mcpmon setup` again",
            program.path
        ))?;
    }
    Ok(program.path)
}

/// Returns the directory of the user's own store.
fn state() -> Result<PathBuf, CliError> {
    let store = mcpmon_store::users_store(|name| std::env::var_os(name).map(PathBuf::from));
    let directory = store.as_deref().and_then(Path::parent).map(Path::to_owned);
    directory.ok_or_else(|| {
        let error = anyhow::anyhow!("neither XDG_STATE_HOME nor HOME is an absolute path");
        CliError::new(ErrorKind::Environment, error)
    })
}

fn chosen(names: &[String]) -> Vec<&'static Client> {
    match names {
        [] => CLIENTS.iter().collect(),
        names => CLIENTS
            .iter()
            .filter(|client| names.contains(&client.id))
            .collect(),
    }
}

/// Returns the real paths of projects, under which they are remembered.
fn projects(directories: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let real = |directory: &PathBuf| {
        directory.canonicalize().map_err(|error| {
            let error = anyhow::Error::from(error).context(format!("cannot find {}", directory.display()));
            CliError::new(ErrorKind::Usage, error)
        })
    };
    directories.iter().map(real).collect()
}

/// Notes the files of a project that were not changed: they are often shared with others, so the user has to ask for
/// that.
fn left_out(
    options: &mcpmon_clients::Options,
    done: &[FileReport],
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let here = std::env::current_dir().unwrap_or_default();
    if options.roots.home.canonicalize().is_ok_and(|home| home == here) {
        // The files in the home are the user's own.
        return Ok(output.flush()?);
    }
    let files = mcpmon_clients::project_files(&options.clients, &options.roots, &here);
    for file in files
        .iter()
        .filter(|file| done.iter().all(|report| report.path != **file))
    {
        output.note(&format!(
            "{}: not looked at; `--project .` adds it",
            file.display()
        ))?;
    }
    Ok(output.flush()?)
}

/// Returns an error about the files that could not be changed. A file that only root can change is no failure of a
/// user.
fn failure<'a>(
    done: &'a [FileReport],
    mut failed: Vec<&'a FileTrouble>,
    count: usize,
) -> Result<(), CliError> {
    let of_servers = done.iter().filter(|report| !is_roots(report));
    failed.extend(of_servers.filter_map(|report| report.trouble.as_ref()));
    let kind = match failed.first() {
        None => return Ok(()),
        Some(FileTrouble::Malformed(_) | FileTrouble::Unclear(_)) => ErrorKind::Usage,
        Some(FileTrouble::File(_) | FileTrouble::Ledger(_) | FileTrouble::Unsure) => ErrorKind::Environment,
    };
    let error = anyhow::anyhow!("{} of {count} files could not be changed", failed.len());
    Err(CliError::new(kind, error))
}

fn is_roots(report: &FileReport) -> bool {
    let foreign = matches!(
        &report.trouble,
        Some(FileTrouble::File(FileError::Foreign { owner: 0 }))
    );
    report.is_hosts && foreign
}
