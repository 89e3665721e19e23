//! `mcpmon setup`: puts the wrapper before the servers in clients' files, and takes it away again.
//!
//! `clients` and `places` know which files there are; `jsonc`, `servers`, `edit` and `plan` say what one becomes, and
//! touch none; `file` and `ledger` read, replace and remember.

mod clients;
mod edit;
mod file;
mod jsonc;
mod ledger;
mod places;
mod plan;
mod policy;
mod program;
mod servers;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use mcpmon_detect::mask::mask_arguments;
use mcpmon_model::Digest;

pub(in crate::agent) use self::jsonc::without_comments;
pub use self::{
    clients::{CLIENTS, Client, client},
    file::FileError,
    jsonc::Mistake,
    ledger::LedgerError,
    places::Roots,
    plan::{Outcome, Planned},
    policy::{PolicyChange, PolicyError, PolicyReport, provide_policy, write_policy},
    program::{Program, ProgramError},
};
use self::{
    file::Original,
    ledger::{Changed, Ledger},
    places::Found,
    plan::{Plan, Wish},
};

/// The changes to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// The roots of the user's files.
    pub roots: Roots,
    /// The directory of the ledger.
    pub state: PathBuf,
    /// The clients whose files are examined.
    pub clients: Vec<&'static Client>,
    /// Projects whose files are looked at as well.
    pub projects: Vec<PathBuf>,
    /// The user that this process is.
    pub user: u32,
    /// The direction.
    pub direction: Direction,
    /// The effect: change files or only report.
    pub effect: Effect,
}

/// The direction of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// This program is put before every server.
    Wrap(String),
    /// The wrapper is taken away.
    Unwrap,
}

/// The effect of a run: change files or only report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Yes.
    Write,
    /// No: only what would be.
    Preview,
}

/// The outcome for one file.
#[derive(Debug)]
pub struct FileReport {
    /// The client it belongs to.
    pub client: &'static Client,
    /// The path.
    pub path: PathBuf,
    /// Its servers, in its order.
    pub servers: Vec<Planned>,
    /// True if it is the host's, and no user's.
    pub is_hosts: bool,
    /// The trouble because of which the file is left as it is, if it should be changed.
    pub trouble: Option<Trouble>,
    /// The copy from before the first change.
    pub backup: Option<PathBuf>,
    /// True if it is, to the byte, what it was before its servers were wrapped.
    pub restored: bool,
}

/// The reason why a file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The file cannot be parsed strictly.
    #[error("{}:{}: {}", .0.line, .0.column, .0.reason)]
    Malformed(Mistake),
    /// The file cannot be read or replaced.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change cannot be recorded in the ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The new text was read once more, and is not what it should be.
    #[error("its new text would not say the same: please report this")]
    Unsure,
}

/// Wraps or unwraps the servers in all files. A file that cannot be changed does not keep others from it.
///
/// # Errors
/// Returns an error if nothing can be remembered: then nothing is changed.
pub fn run(options: &Options) -> Result<Vec<FileReport>, LedgerError> {
    let mut ledger = match options.effect {
        Effect::Write => Ledger::lock(&options.state)?,
        Effect::Preview => Ledger::read(&options.state)?,
    };
    let mut projects: Vec<_> = options
        .projects
        .iter()
        .chain(ledger.projects())
        .cloned()
        .collect();
    projects.sort();
    projects.dedup();
    let files = |client: &&'static Client| places::files(client, &options.roots, &projects);
    let found: Vec<_> = options.clients.iter().flat_map(files).collect();
    let done = found
        .into_iter()
        .filter_map(|found| one(found, options, &mut ledger));
    Ok(done.collect())
}

/// One file; `None` where no server stands in it.
fn one(found: Found, options: &Options, ledger: &mut Ledger) -> Option<FileReport> {
    let mut report = FileReport {
        client: found.client,
        path: found.path.clone(),
        servers: Vec::new(),
        is_hosts: found.is_hosts,
        trouble: None,
        backup: None,
        restored: false,
    };
    if let Err(trouble) = change(&found, options, ledger, &mut report) {
        report.trouble = Some(trouble);
    }
    (!report.servers.is_empty() || report.trouble.is_some()).then_some(report)
}

fn change(
    found: &Found,
    options: &Options,
    ledger: &mut Ledger,
    report: &mut FileReport,
) -> Result<(), Trouble> {
    let original = Original::read(&found.path, options.user)?;
    let known = ledger.get(&found.path).cloned();
    let kept = known.as_ref().map_or(&[][..], |known| &known.servers);
    let wish = match &options.direction {
        Direction::Wrap(program) => Wish::Wrap(program),
        Direction::Unwrap => Wish::Unwrap,
    };
    let plan = settled(found, &original.bytes, kept, wish)?;
    report.servers.clone_from(&plan.servers);
    report.backup = known.as_ref().map(|known| ledger.backup(known));
    let is_changed = plan.text != original.bytes;
    if is_changed && original.owner != options.user {
        return Err(FileError::Foreign {
            owner: original.owner,
        }
        .into());
    }
    if options.direction == Direction::Unwrap {
        report.restored = known
            .as_ref()
            .is_some_and(|known| known.original == digest(&plan.text));
    }
    match (options.effect, &options.direction) {
        (Effect::Preview, Direction::Wrap(_) | Direction::Unwrap) => Ok(()),
        (Effect::Write, Direction::Wrap(_)) if !is_changed => Ok(()),
        (Effect::Write, Direction::Wrap(_)) => {
            let backup = match &known {
                Some(known) => known.backup.clone(),
                None => ledger.back_up(&found.path, &original.bytes)?,
            };
            let before = settled(found, &plan.text, &plan.kept, Wish::Unwrap)?;
            let changed = Changed {
                client: found.client.name.to_owned(),
                project: found.project.clone(),
                original: digest(&before.text),
                backup,
                servers: plan.kept,
            };
            report.backup = Some(ledger.backup(&changed));
            // Remembered first: what is remembered and was not done is recognised by its form.
            ledger.set(found.path.clone(), changed)?;
            Ok(original.replace(&plan.text, options.user)?)
        }
        (Effect::Write, Direction::Unwrap) => {
            if is_changed {
                original.replace(&plan.text, options.user)?;
            }
            if let Some(known) = known {
                ledger.forget(&found.path)?;
                if report.restored {
                    ledger.remove_backup(&known)?;
                    report.backup = None;
                }
            }
            Ok(())
        }
    }
}

/// A plan whose text needs no further change, so that it can be read again and says what was meant.
fn settled(found: &Found, bytes: &[u8], kept: &[edit::Wrapped], wish: Wish<'_>) -> Result<Plan, Trouble> {
    let plan = plan::plan(bytes, found.form, kept, wish).map_err(Trouble::Malformed)?;
    match plan::plan(&plan.text, found.form, &plan.kept, wish) {
        Ok(again) if again.text == plan.text => Ok(plan),
        Ok(_) | Err(_) => Err(Trouble::Unsure),
    }
}

/// The files of these clients in a project, whether or not servers stand in them.
#[must_use]
pub fn project_files(clients: &[&'static Client], roots: &Roots, project: &Path) -> Vec<PathBuf> {
    let projects = [project.to_owned()];
    let files = clients
        .iter()
        .flat_map(|client| places::files(client, roots, &projects));
    let files = files.filter(|found| found.project.is_some());
    files.map(|found| found.path).collect()
}

/// A command line as it may be shown: what looks like a secret is masked.
#[must_use]
pub fn shown(words: &[String]) -> Vec<String> {
    mask_arguments(words)
}

fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}
