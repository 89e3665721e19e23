//! Launchers of a server, compared with those of its accepted sets.
//!
//! A server can be started in several ways: by npx, by its script, or as a scan found it. A start without a launcher
//! has nothing to compare. A known launcher whose name no set has is trusted as a first use. A program of any other
//! name started the server directly when that was pinned, so it is reported as a difference.

use std::{collections::BTreeMap, ffi::OsStr, path::Path};

use mcpmon_model::{Action, ChangeCause, FileChange, PinPart, PinState};
use mcpmon_policy::{Mode, OnChange, Pinning};

use super::{
    AcceptanceGround, AcceptedSets, LauncherFiles, PinBook, PinMismatch, PinVerdict, PinnedFile, Pins,
    Writers, on_change,
};

/// The relation of a launcher to those of the accepted sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum LauncherMatch<'a> {
    /// A set has this launcher.
    Same,
    /// No set has a launcher of this name, and it is the name of a known launcher.
    New(&'a PinnedFile),
    /// The launcher is not the pinned one, or missing.
    Differs {
        actual: &'a PinnedFile,
        pinned: Option<&'a PinnedFile>,
    },
}

impl<'a> LauncherMatch<'a> {
    /// Compares `launcher` with the sets; `None` if it could not be hashed.
    pub(super) fn of(sets: &'a BTreeMap<u32, Pins>, launcher: &'a LauncherFiles) -> Option<Self> {
        let actual = launcher.file.hashed()?;
        let launchers = || sets.values().rev().filter_map(|pins| pins.launcher.as_ref());
        let pinned = || launchers().filter(|launcher| !is_shim(&launcher.path));
        let name = actual.path.file_name();
        if pinned().any(|pinned| pinned.digest == actual.digest) {
            return Some(Self::Same);
        }
        let before = pinned().find(|pinned| pinned.path.file_name() == name);
        Some(match before {
            None if launcher.is_known && sets.len() < PinBook::MAX_SETS => Self::New(actual),
            pinned => Self::Differs { actual, pinned },
        })
    }

    pub(super) fn mismatch(self) -> Option<PinMismatch> {
        let Self::Differs { actual, pinned } = self else {
            return None;
        };
        Some(PinMismatch {
            part: PinPart::Launcher,
            path: actual.path.clone(),
            pinned_path: pinned.map(|pinned| pinned.path.clone()),
            expected: pinned.map(|pinned| pinned.digest),
            actual: Some(actual.digest),
            changed_files: Vec::new(),
            changes: vec![FileChange {
                cause: ChangeCause::Launcher,
                text: "its launcher changed".to_owned(),
            }],
            ground: None,
        })
    }
}

/// Returns whether a path is that of a shim: earlier versions pinned these as launchers, or as programs. A file found
/// now is never judged by its path.
pub(super) fn is_shim(path: &Path) -> bool {
    let Some(directory) = path.parent() else {
        return false;
    };
    let name = directory.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_session = name
        .strip_prefix("mcpmon-shims-")
        .and_then(|numbers| numbers.split_once('-'));
    of_session.is_some_and(|(pid, number)| is_number(pid) && is_number(number))
        || directory.ends_with("mcpmon/shims")
}

/// Compares a launcher before it runs. The program that it starts is compared when it runs.
pub fn compare_launcher(
    accepted: AcceptedSets<'_>,
    launcher: &LauncherFiles,
    policy: Pinning,
    mode: Mode,
) -> PinVerdict {
    let (AcceptedSets::Sets(sets) | AcceptedSets::OfThisLaunch(sets)) = accepted else {
        return PinVerdict::of(PinState::NotPinned, Action::Allow);
    };
    let mismatch = match policy.enabled {
        true => LauncherMatch::of(sets, launcher).and_then(LauncherMatch::mismatch),
        false => None,
    };
    let Some(mismatch) = mismatch else {
        return PinVerdict::of(PinState::Match, Action::Allow);
    };
    let is_upgrade =
        mismatch.is_in_place() && launcher.writers == Writers::Root && policy.on_change != OnChange::Allow;
    let action = match is_upgrade {
        true => Action::Audit,
        false => on_change(policy, mode),
    };
    let mismatch = PinMismatch {
        ground: is_upgrade.then_some(AcceptanceGround::SystemUpgrade),
        ..mismatch
    };
    PinVerdict {
        mismatches: vec![mismatch],
        ..PinVerdict::of(PinState::Mismatch, action)
    }
}
