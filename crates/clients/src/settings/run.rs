//! Settings in the files of clients: every file is planned, recorded and replaced; a missing one is created.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    SettingFormat, SettingKind,
    plan::{
        self, PlannedSetting, RecordedSetting, SettingError, SettingOutcome, SettingPosition, SettingsPlan,
        WantedSetting,
    },
};
use crate::{
    edit::quoted,
    file::{self, FileError, Original},
    ledger::{ChangedSettings, Ledger, LedgerError},
    locate::{self, Roots},
    setup::{FileTrouble, Options, SetupEffect, digest},
    table::Client,
};

/// The state that is wanted for settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingWish {
    /// They are added.
    Add {
        /// The shell command of mcpmon, which is followed by `hook CLIENT`; `None` if no hooks are wanted.
        hooks: Option<String>,
        /// The URL of the proxy; `None` if the addresses of models are not changed.
        models: Option<String>,
    },
    /// Settings of these kinds are removed.
    Remove(Vec<SettingKind>),
}

/// The outcome for one file.
#[derive(Debug)]
pub struct SettingReport {
    /// The client that reads it.
    pub client: &'static Client,
    /// Its path.
    pub path: PathBuf,
    /// Digest of the content that was read; `None` if the file cannot be read, or does not exist.
    pub digest: Option<String>,
    /// Digest of the content that was written; `None` if nothing was.
    pub written: Option<String>,
    /// Its settings.
    pub settings: Vec<PlannedSetting>,
    /// True if the file is created, or removed because setup created it.
    pub is_made: bool,
    /// The reason why a file that should be changed was not.
    pub trouble: Option<FileTrouble>,
    /// The copy of the file before its first change.
    pub backup: Option<PathBuf>,
    /// True if the file is identical to the one before the first change.
    pub is_restored: bool,
}

impl SettingReport {
    /// Returns whether this run changes the file.
    pub fn is_changed(&self) -> bool {
        self.trouble.is_none() && self.settings.iter().any(|setting| setting.outcome.changes())
    }

    /// Returns whether this run removes the file, which setup created.
    pub fn is_removed(&self) -> bool {
        self.is_made && self.is_restored
    }
}

/// A file for settings.
struct SettingsFile {
    client: &'static Client,
    path: PathBuf,
    format: SettingFormat,
    wanted: Vec<WantedSetting>,
    /// The text with which a new file begins.
    empty: String,
}

/// Adds or removes settings. If a file cannot be changed, the others still are. `confirmed` in the options has the
/// digests of the files whose changes a person has confirmed; for a file that does not exist the digest is an empty
/// text.
///
/// # Errors
/// Returns a [`LedgerError`] if nothing can be recorded; nothing is changed then.
pub fn run_settings(options: &Options, wish: &SettingWish) -> Result<Vec<SettingReport>, LedgerError> {
    let mut ledger = match options.effect {
        SetupEffect::Write => Ledger::lock(&options.state)?,
        SetupEffect::Preview => Ledger::read(&options.state)?,
    };
    let files = match wish {
        SettingWish::Add { hooks, models } => {
            let of_client = |client: &&'static Client| {
                wanted_files(client, &options.roots, hooks.as_deref(), models.as_deref())
            };
            options.clients.iter().flat_map(of_client).collect()
        }
        SettingWish::Remove(_) => known_files(options, &ledger),
    };
    let reports = files.into_iter().map(|file| {
        let mut report = SettingReport {
            client: file.client,
            path: file.path.clone(),
            digest: None,
            written: None,
            settings: Vec::new(),
            is_made: false,
            trouble: None,
            backup: None,
            is_restored: false,
        };
        if let Err(trouble) = change(&file, options, wish, &mut ledger, &mut report) {
            report.trouble = Some(trouble);
        }
        report
    });
    let reports: Vec<_> = reports.collect();
    Ok(reports
        .into_iter()
        .filter(|report| !report.settings.is_empty() || report.trouble.is_some())
        .collect())
}

/// Returns the files for such settings of a client that is on this host.
fn wanted_files(
    client: &'static Client,
    roots: &Roots,
    hooks: Option<&str>,
    models: Option<&str>,
) -> Vec<SettingsFile> {
    let mut files: Vec<SettingsFile> = Vec::new();
    let mut put = |path: PathBuf, format, wanted: Vec<WantedSetting>, empty: &str| match files
        .iter_mut()
        .find(|file| file.path == path)
    {
        Some(file) => file.wanted.extend(wanted),
        None => files.push(SettingsFile {
            client,
            path,
            format,
            wanted,
            empty: empty.to_owned(),
        }),
    };
    if let (Some(program), Some(hooks)) = (hooks, &client.hooks)
        && let Some(path) = present(std::slice::from_ref(&hooks.path), roots)
    {
        let words = format!(" hook {}", hooks.name);
        let command = quoted(&format!("{program}{words}"));
        let text = match &hooks.matcher {
            Some(matcher) => format!(
                "{{\"matcher\": {}, \"hooks\": [{{\"type\": \"command\", \"command\": {command}}}]}}",
                quoted(matcher)
            ),
            None => format!("{{\"command\": {command}}}"),
        };
        let wanted = hooks.events.iter().map(|event| WantedSetting {
            kind: SettingKind::Hook,
            path: vec!["hooks".to_owned(), event.clone()],
            leaf: SettingPosition::Item { words: words.clone() },
            text: text.clone(),
            overruled_by: None,
        });
        let empty = match hooks.version {
            Some(version) => format!("{{\"version\": {version}}}\n"),
            None => empty(hooks.format).to_owned(),
        };
        put(path, hooks.format, wanted.collect(), &empty);
    }
    for address in models.iter().flat_map(|_| &client.models) {
        let (Some(path), Some(base)) = (present(&address.paths, roots), models) else {
            continue;
        };
        let wanted = WantedSetting {
            kind: SettingKind::Model,
            path: address.member.clone(),
            leaf: SettingPosition::Value,
            text: quoted(&format!("{base}{}", address.route)),
            overruled_by: address.overruled_by.as_deref(),
        };
        put(path, address.format, vec![wanted], empty(address.format));
    }
    files
}

/// Returns the first of these files that exists; else the first, if its directory exists.
fn present(paths: &[String], roots: &Roots) -> Option<PathBuf> {
    let paths: Vec<_> = paths
        .iter()
        .filter_map(|path| locate::setting_path(path, roots))
        .collect();
    let there = paths.iter().find(|path| fs::symlink_metadata(path).is_ok());
    let can_be = |path: &&PathBuf| path.parent().is_some_and(Path::is_dir);
    there.or_else(|| paths.first().filter(can_be)).cloned()
}

const fn empty(format: SettingFormat) -> &'static str {
    match format {
        SettingFormat::Json | SettingFormat::Jsonc => "{}\n",
        SettingFormat::Toml | SettingFormat::Env => "",
    }
}

/// Returns the files of these clients with recorded settings.
fn known_files(options: &Options, ledger: &Ledger) -> Vec<SettingsFile> {
    let known = ledger.settings().filter_map(|(path, changed)| {
        let client = options
            .clients
            .iter()
            .find(|client| client.id == changed.client)?;
        let formats = client.hooks.iter().map(|hooks| hooks.format);
        let mut formats = formats.chain(client.models.iter().map(|address| address.format));
        let end = path.extension().and_then(|end| end.to_str());
        let format = formats.find(|format| match format {
            SettingFormat::Json | SettingFormat::Jsonc => matches!(end, Some("json" | "jsonc")),
            SettingFormat::Toml => end == Some("toml"),
            SettingFormat::Env => end.is_none(),
        })?;
        Some(SettingsFile {
            client,
            path: path.clone(),
            format,
            wanted: Vec::new(),
            empty: String::new(),
        })
    });
    known.collect()
}

fn change(
    file: &SettingsFile,
    options: &Options,
    wish: &SettingWish,
    ledger: &mut Ledger,
    report: &mut SettingReport,
) -> Result<(), FileTrouble> {
    let mut known = ledger.get_settings(&file.path).cloned();
    let original = match Original::read(&file.path, options.user) {
        Err(FileError::Read(error)) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read?),
    };
    let bytes = original
        .as_ref()
        .map_or(file.empty.as_bytes(), |original| &original.bytes);
    report.digest = original.as_ref().map(|original| digest(&original.bytes));
    if let (Some(recorded), Some(original)) = (&known, &original)
        && recorded.backup.is_none()
        && matches!(wish, SettingWish::Add { .. })
        && is_anothers(&original.bytes, file.format, &recorded.settings)?
    {
        // The file that setup created was rewritten by another program, so it is not to be removed any longer.
        known = None;
    }
    let read = report.digest.clone().unwrap_or_default();
    let is_confirmed = options
        .confirmed
        .as_ref()
        .is_none_or(|confirmed| confirmed.get(&file.path) == Some(&read));
    let kept = known.as_ref().map_or(&[][..], |known| &known.settings);
    let plan = planned(file, bytes, kept, wish)?;
    report.settings.clone_from(&plan.settings);
    report.backup = known.as_ref().and_then(|known| ledger.settings_backup(known));
    let is_changed = plan.text != bytes;
    if is_changed && !is_confirmed {
        return Err(FileError::Changed.into());
    }
    match wish {
        SettingWish::Add { .. } if is_changed => {
            let all = [SettingKind::Hook, SettingKind::Model];
            let before = plan::remove(&plan.text, file.format, &all, &plan.kept).map_err(trouble)?;
            if kept.is_empty() && before.text != bytes {
                return Err(FileTrouble::Unsure);
            }
            report.is_made = original.is_none();
            if let Some(original) = &original {
                original.check_writable(options.user)?;
            }
            if options.effect == SetupEffect::Preview {
                return Ok(());
            }
            let changed = match known {
                Some(known) => ChangedSettings {
                    settings: plan.kept,
                    ..known
                },
                None => ChangedSettings {
                    client: file.client.id.clone(),
                    original: digest(&before.text),
                    backup: original
                        .as_ref()
                        .map(|original| ledger.back_up(&file.path, &original.bytes))
                        .transpose()?,
                    settings: plan.kept,
                },
            };
            report.backup = ledger.settings_backup(&changed);
            // Recorded before the write: a recorded change that was not made is not found later, and its record is
            // removed.
            ledger.set_settings(file.path.clone(), changed)?;
            match &original {
                Some(original) => original.replace(&plan.text, options.user)?,
                None => file::create_private(&file.path, &plan.text, options.user)?,
            }
            report.written = Some(digest(&plan.text));
        }
        SettingWish::Add { .. } => {}
        SettingWish::Remove(_) => {
            let Some(known) = known else {
                return Ok(());
            };
            let was_made = known.backup.is_none();
            let is_as_before = plan.kept.is_empty() && known.original == digest(&plan.text);
            report.is_restored = is_as_before;
            report.is_made = was_made && is_as_before && original.is_some();
            if let Some(original) = original.as_ref().filter(|_| is_changed) {
                original.check_writable(options.user)?;
            }
            if options.effect == SetupEffect::Preview {
                return Ok(());
            }
            match original.as_ref().filter(|_| is_changed) {
                Some(original) if report.is_made => original.remove(options.user)?,
                Some(original) => {
                    original.replace(&plan.text, options.user)?;
                    report.written = Some(digest(&plan.text));
                }
                None => {}
            }
            match plan.kept.is_empty() {
                true => {
                    ledger.forget_settings(&file.path)?;
                    if is_as_before {
                        ledger.remove_settings_backup(&known)?;
                        report.backup = None;
                    }
                }
                false => ledger.set_settings(
                    file.path.clone(),
                    ChangedSettings {
                        settings: plan.kept,
                        ..known
                    },
                )?,
            }
        }
    }
    Ok(())
}

/// Returns whether none of the added settings is left.
fn is_anothers(bytes: &[u8], format: SettingFormat, kept: &[RecordedSetting]) -> Result<bool, FileTrouble> {
    let plan =
        plan::remove(bytes, format, &[SettingKind::Hook, SettingKind::Model], kept).map_err(trouble)?;
    Ok(plan
        .settings
        .iter()
        .all(|setting| setting.outcome == SettingOutcome::Absent))
}

/// Plans a file, and checks that the result needs no further change.
fn planned(
    file: &SettingsFile,
    bytes: &[u8],
    kept: &[RecordedSetting],
    wish: &SettingWish,
) -> Result<SettingsPlan, FileTrouble> {
    let plan = |bytes: &[u8], kept: &[RecordedSetting]| match wish {
        SettingWish::Add { .. } => plan::add(bytes, file.format, &file.wanted, kept),
        SettingWish::Remove(kinds) => plan::remove(bytes, file.format, kinds, kept),
    };
    let first = plan(bytes, kept).map_err(trouble)?;
    let again = plan(&first.text, &first.kept).map_err(|_later| FileTrouble::Unsure)?;
    let is_settled = again.text == first.text
        && first
            .settings
            .iter()
            .zip(&again.settings)
            .all(|(first, again)| !first.outcome.changes() || again.outcome == SettingOutcome::Present);
    is_settled.then_some(first).ok_or(FileTrouble::Unsure)
}

fn trouble(obstacle: SettingError) -> FileTrouble {
    match obstacle {
        SettingError::Malformed(mistake) => FileTrouble::Malformed(mistake),
        SettingError::Unclear(reason) => FileTrouble::Unclear(reason),
    }
}

/// Returns the digests for a confirmation of the shown changes.
pub fn shown_digests(reports: &[SettingReport]) -> BTreeMap<PathBuf, String> {
    reports
        .iter()
        .map(|report| (report.path.clone(), report.digest.clone().unwrap_or_default()))
        .collect()
}
