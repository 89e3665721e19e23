//! Wrapping and unwrapping of the servers in clients' files: every file is planned, recorded and replaced.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use mcpmon_model::Digest;

use crate::{
    edit::WrappedText,
    file::{FileError, Original},
    ledger::{ChangedFile, Ledger, LedgerError},
    locate::{self, ClientFile, Roots},
    plan::{self, FileForm, FilePlan, PlanOutcome, PlannedServer, Wish, Wrapper},
    syntax::SyntaxMistake,
    table::{Client, Scope},
};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directories in which the paths of the table begin.
    pub roots: Roots,
    /// The directory of the ledger.
    pub state: PathBuf,
    /// The clients whose files are changed.
    pub clients: Vec<&'static Client>,
    /// Projects whose files are changed too.
    pub projects: Vec<PathBuf>,
    /// The user of this process.
    pub user: u32,
    /// The direction: servers are wrapped or unwrapped.
    pub direction: SetupDirection,
    /// The effect: files are changed, or only compared.
    pub effect: SetupEffect,
    /// Digests of the files whose changes a person has confirmed: no other file is changed, and none that changed
    /// since. `None` if no confirmation was asked for.
    pub confirmed: Option<BTreeMap<PathBuf, String>>,
}

/// The program that clients start as a wrapper, and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrapperCommand {
    /// The absolute path of the program.
    pub program: String,
    /// Options and their values: `--config` and `--db`.
    pub options: Vec<String>,
}

impl From<&str> for WrapperCommand {
    fn from(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            options: Vec::new(),
        }
    }
}

impl WrapperCommand {
    fn borrowed(&self) -> Wrapper<'_> {
        Wrapper {
            program: &self.program,
            options: &self.options,
        }
    }
}

/// The direction of a setup: servers are wrapped or unwrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupDirection {
    /// This program becomes the wrapper of every server that is started by a command.
    Wrap(WrapperCommand),
    /// This program becomes the wrapper of every server, also of those with URLs.
    WrapAll(WrapperCommand),
    /// The wrappers are removed.
    Unwrap,
}

/// The effect of a setup on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupEffect {
    /// Files are changed.
    Write,
    /// Files are not changed: the report describes the changes.
    Preview,
}

/// The outcome for one file.
#[derive(Debug)]
pub struct FileReport {
    /// The client that reads it.
    pub client: &'static Client,
    /// Its path.
    pub path: PathBuf,
    /// Digest of the content that was read; `None` if it cannot be read.
    pub digest: Option<String>,
    /// Digest of the content that was written; `None` if nothing was.
    pub written: Option<String>,
    /// Its servers, in the order of the file.
    pub servers: Vec<PlannedServer>,
    /// True if the file belongs to the host, and not to a user.
    pub is_hosts: bool,
    /// The reason why a file that should be changed was not.
    pub trouble: Option<FileTrouble>,
    /// The copy of the file before its first change.
    pub backup: Option<PathBuf>,
    /// True if the file is identical to the one before its servers were wrapped.
    pub restored: bool,
}

/// The reason why a file is left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum FileTrouble {
    /// It has a syntax error.
    #[error("{}:{}: {}", .0.line, .0.column, .0.reason)]
    Malformed(SyntaxMistake),
    /// It cannot be read or replaced.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its change cannot be recorded.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// It is unclear where something belongs in it.
    #[error("{0}")]
    Unclear(String),
    /// The new text was parsed again, and does not have the intended meaning, or could not be undone.
    #[error("its new text would not say the same: please report this")]
    Unsure,
}

/// Wraps or unwraps the servers in all files. If a file cannot be changed, the others still are.
///
/// # Errors
/// Returns a [`LedgerError`] if nothing can be recorded; nothing is changed then.
pub fn run(options: &Options) -> Result<Vec<FileReport>, LedgerError> {
    let mut ledger = match options.effect {
        SetupEffect::Write => Ledger::lock(&options.state)?,
        SetupEffect::Preview => Ledger::read(&options.state)?,
    };
    let mut projects: Vec<_> = options
        .projects
        .iter()
        .chain(ledger.projects())
        .cloned()
        .collect();
    projects.sort();
    projects.dedup();
    let files = |client: &&'static Client| locate::files(client, &options.roots, &projects);
    let found: Vec<_> = options.clients.iter().flat_map(files).collect();
    let reports = found
        .into_iter()
        .filter_map(|file| one(&file, options, &mut ledger));
    Ok(reports.collect())
}

/// Changes one file. Returns `None` if it has no server.
fn one(file: &ClientFile, options: &Options, ledger: &mut Ledger) -> Option<FileReport> {
    let mut report = FileReport {
        client: file.form.client,
        path: file.path.clone(),
        digest: None,
        written: None,
        servers: Vec::new(),
        is_hosts: file.form.file.scope == Scope::Host,
        trouble: None,
        backup: None,
        restored: false,
    };
    if let Err(trouble) = change(file, options, ledger, &mut report) {
        report.trouble = Some(trouble);
    }
    (!report.servers.is_empty() || report.trouble.is_some()).then_some(report)
}

fn change(
    file: &ClientFile,
    options: &Options,
    ledger: &mut Ledger,
    report: &mut FileReport,
) -> Result<(), FileTrouble> {
    let original = Original::read(&file.path, options.user)?;
    let read = digest(&original.bytes);
    let is_confirmed = options
        .confirmed
        .as_ref()
        .is_none_or(|confirmed| confirmed.get(&file.path) == Some(&read));
    report.digest = Some(read);
    let known = ledger.get(&file.path).cloned();
    let kept = known.as_ref().map_or(&[][..], |known| &known.servers);
    let wish = match &options.direction {
        SetupDirection::Wrap(wrapper) => Wish::Wrap(wrapper.borrowed()),
        SetupDirection::WrapAll(wrapper) => Wish::WrapAll(wrapper.borrowed()),
        SetupDirection::Unwrap => Wish::Unwrap,
    };
    let plan = settled(file.form, &original.bytes, kept, wish)?;
    report.servers.clone_from(&plan.servers);
    report.backup = known.as_ref().map(|known| ledger.backup(known));
    let is_changed = plan.text != original.bytes;
    if is_changed && !is_confirmed {
        return Err(FileError::Changed.into());
    }
    if is_changed {
        original.check_writable(options.user)?;
    }
    if options.direction == SetupDirection::Unwrap {
        report.restored = known
            .as_ref()
            .is_some_and(|known| known.original == digest(&plan.text));
    }
    match (options.effect, &options.direction) {
        (SetupEffect::Preview, SetupDirection::Wrap(_) | SetupDirection::WrapAll(_)) if is_changed => {
            undone(file.form, &original.bytes, &plan).map(drop)
        }
        (SetupEffect::Preview, _) => Ok(()),
        (SetupEffect::Write, SetupDirection::Wrap(_) | SetupDirection::WrapAll(_)) if !is_changed => Ok(()),
        (SetupEffect::Write, SetupDirection::Wrap(_) | SetupDirection::WrapAll(_)) => {
            let before = undone(file.form, &original.bytes, &plan)?;
            let backup = match &known {
                Some(known) => known.backup.clone(),
                None => ledger.back_up(&file.path, &original.bytes)?,
            };
            let changed = ChangedFile {
                client: file.form.client.id.clone(),
                project: file.project.clone(),
                original: digest(&before),
                backup,
                servers: plan.kept,
            };
            report.backup = Some(ledger.backup(&changed));
            // Recorded before the write: a recorded change that was not made is recognised by the form of the file.
            ledger.set(file.path.clone(), changed)?;
            original.replace(&plan.text, options.user)?;
            report.written = Some(digest(&plan.text));
            Ok(())
        }
        (SetupEffect::Write, SetupDirection::Unwrap) => {
            if is_changed {
                original.replace(&plan.text, options.user)?;
                report.written = Some(digest(&plan.text));
            }
            if let Some(known) = known {
                ledger.forget(&file.path)?;
                if report.restored {
                    ledger.remove_backup(&known)?;
                    report.backup = None;
                }
            }
            Ok(())
        }
    }
}

/// Plans a file, and checks the plan by planning its result, which must need no further change.
pub(crate) fn settled(
    form: FileForm,
    bytes: &[u8],
    kept: &[WrappedText],
    wish: Wish<'_>,
) -> Result<FilePlan, FileTrouble> {
    let plan = plan::plan(bytes, form, kept, wish).map_err(FileTrouble::Malformed)?;
    let again = match plan::plan(&plan.text, form, &plan.kept, wish) {
        Ok(again) if again.text == plan.text => again,
        Ok(_) | Err(_) => return Err(FileTrouble::Unsure),
    };
    let is_meant = |(planned, now): (&PlannedServer, &PlannedServer)| {
        let expected = match planned.outcome.changes() {
            true => &planned.after,
            false => &planned.before,
        };
        planned.path == now.path && planned.url == now.url && *expected == now.before
    };
    let are_meant =
        plan.servers.len() == again.servers.len() && plan.servers.iter().zip(&again.servers).all(is_meant);
    are_meant.then_some(plan).ok_or(FileTrouble::Unsure)
}

/// Returns the text after undoing a plan. It must be identical to the original if this plan wrapped all wrapped servers
/// of the file.
pub(crate) fn undone(form: FileForm, original: &[u8], plan: &FilePlan) -> Result<Vec<u8>, FileTrouble> {
    let before = settled(form, &plan.text, &plan.kept, Wish::Unwrap)?;
    let is_first = plan
        .servers
        .iter()
        .all(|server| !matches!(server.outcome, PlanOutcome::Update | PlanOutcome::Wrapped));
    match is_first && before.text != original {
        true => Err(FileTrouble::Unsure),
        false => Ok(before.text),
    }
}

/// Lists the files of these clients in a project, with and without servers.
pub fn project_files(clients: &[&'static Client], roots: &Roots, project: &Path) -> Vec<PathBuf> {
    let projects = [project.to_owned()];
    let files = clients
        .iter()
        .flat_map(|client| locate::files(client, roots, &projects));
    let files = files.filter(|file| file.project.is_some());
    files.map(|file| file.path).collect()
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}
