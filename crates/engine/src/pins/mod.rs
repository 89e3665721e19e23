//! Pins of executables, scripts and packages, and how a start compares with them.

mod accepted;
mod book;
mod change;
mod explained;
mod launcher;
mod other_ids;
mod wording;

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use mcpmon_model::{Action, ChangeCause, Denial, Digest, FileChange, Manifest, PinPart, PinState, ServerId};
use mcpmon_policy::{FileEffect, Mode, OnChange, Pinning};

use self::{
    accepted::{accepted_change, with_launcher},
    explained::{
        PackageComparison, compare_package, explain_executable, explain_script, is_pinned_script,
        unhashed_parts,
    },
    launcher::{LauncherMatch, is_shim},
};
pub use self::{
    book::{AcceptedSets, AddedSet, PinBook, PinSet, PinsFull},
    launcher::compare_launcher,
};
pub use mcpmon_model::{LauncherFiles, Part, PinnedFile, PinnedPackage, ServerFiles, Writers};

/// One set of trusted files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// The file that runs.
    pub executable: PinnedFile,
    /// The entry script, where the server has one.
    pub script: Option<PinnedFile>,
    /// The package, where the server has one.
    pub package: Option<PackagePin>,
    /// The launcher, if the server was not started directly.
    pub launcher: Option<PinnedFile>,
}

impl Pins {
    /// Returns whether program, script and package have the digests of these files.
    fn has_digests_of(&self, files: &ServerFiles) -> bool {
        let digest = |part: &Part<PinnedFile>| part.hashed().map(|file| file.digest);
        let package = |part: &Part<PinnedPackage>| part.hashed().map(PinnedPackage::digest);
        Some(self.executable.digest) == digest(&files.executable)
            && self.script.as_ref().map(|script| Some(script.digest)) == files.script.as_ref().map(digest)
            && self.package.as_ref().map(|pin| Some(pin.digest)) == files.package.as_ref().map(package)
    }
}

/// The pinned state of a trusted package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackagePin {
    /// Its directory; shown to the user and not compared.
    pub root: PathBuf,
    /// Digest of its manifest.
    pub digest: Digest,
    /// The encoded manifest, which allows naming the files that change; `None` if it was too large to keep.
    pub manifest: Option<Arc<str>>,
}

/// A part that differs from its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinMismatch {
    /// The part.
    pub part: PinPart,
    /// Its path; the former one if it is gone.
    pub path: PathBuf,
    /// The path when it was pinned; `None` if the part is new.
    pub pinned_path: Option<PathBuf>,
    /// The pin; `None` if the part is new.
    pub expected: Option<Digest>,
    /// The current hash; `None` if the part is gone.
    pub actual: Option<Digest>,
    /// Files of a package that changed, at most [`Manifest::MAX_CHANGES`].
    pub changed_files: Vec<String>,
    /// The changes with their causes; never empty.
    pub changes: Vec<FileChange>,
    /// The ground on which this difference is accepted, if no other part differs for another reason.
    pub(super) ground: Option<AcceptanceGround>,
}

impl PinMismatch {
    /// Returns whether the part that differs is still at its pinned path.
    fn is_in_place(&self) -> bool {
        self.actual.is_some() && self.pinned_path.as_ref() == Some(&self.path)
    }
}

/// A part that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhashedPart {
    /// The part.
    pub part: PinPart,
    /// The file that could not be hashed; empty if that is not known.
    pub path: PathBuf,
    /// The cause, for the user.
    pub cause: String,
}

/// The relation of a start to its pins, and the consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinVerdict {
    /// The comparison in one word.
    pub state: PinState,
    /// Parts that differ.
    pub mismatches: Vec<PinMismatch>,
    /// Parts that could not be compared.
    pub unhashed: Vec<UnhashedPart>,
    /// The reason why a first start was not pinned although it could be.
    pub full: Option<PinsFull>,
    /// True if the server ended before its files could be compared: nothing was refused.
    pub ended: bool,
    /// The last run of a package manager that can be the reason of the change, in words; `None` if none was seen.
    pub installer: Option<String>,
    /// The action taken.
    pub action: Action,
    /// The pins accepted from now on without approval.
    pub store: Option<NewPins>,
}

/// Files that become accepted without approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPins {
    /// The files.
    pub pins: Pins,
    /// The ground of acceptance.
    pub ground: AcceptanceGround,
}

/// The ground on which files are accepted without approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptanceGround {
    /// Nothing was pinned before the launch that the files belong to.
    FirstUse,
    /// Only the interpreter or the launcher differs, and only root could change it.
    SystemUpgrade,
    /// The files are pinned, and were started by another launcher before.
    NewLauncher,
    /// The files are pinned, and run in an environment that was not used before, in which installed packages run further
    /// code at the start of the interpreter.
    NewEnvironment,
    /// The policy accepts differences of their causes (`repin`).
    Policy,
    /// The files were pinned by an earlier version of mcpmon, and are as they were.
    EarlierForm,
}

/// Compares a start with every set that is accepted for it; differences are reported against the nearest set.
///
/// | pins | files | state | action |
/// |---|---|---|---|
/// | switched off | any | `Off` | allow |
/// | none | hashed | `Pinned` with `auto_trust_first`, else `NotPinned` | allow, else `on_change` |
/// | none, no room | hashed | `Unknown` with `auto_trust_first`, else `NotPinned` | audit, else `on_change` |
/// | none | a part unknown | `Unknown`, nothing is pinned | audit with `auto_trust_first`, else `on_change` |
/// | some | equal to a set | `Match` | allow |
/// | some | a part differs, appeared, or vanished beside an executable that is there | `PinMismatch` | the strictest effect of its causes |
/// | some | a part unknown, no other differs | `Unknown` | `on_change` |
/// | some | only the interpreter, launcher or dependencies differ, by root's hand | `PinMismatch`, accepted from now on | audit; allow with `on_change: allow` |
/// | some | equal, by a launcher of another name than before | as equal, and pinned; `NotPinned` without `auto_trust_first` | allow, else `on_change` |
/// | some, first pinned by this very launch | not equal to a set | as with none | as with none |
///
/// `on_change: allow` lets a difference pass and keeps the pins as they are.
/// With [`Mode::Observe`] what would block is [`Action::WouldBlock`].
pub fn compare(accepted: AcceptedSets<'_>, actual: ServerFiles, policy: Pinning, mode: Mode) -> PinVerdict {
    if !policy.enabled {
        return PinVerdict::of(PinState::Off, Action::Allow);
    }
    match accepted {
        AcceptedSets::Nothing => first_sight(None, actual, policy, mode),
        AcceptedSets::NoRoom(full) => first_sight(Some(full), actual, policy, mode),
        AcceptedSets::Sets(sets) => {
            nearest(sets, &actual, policy, mode).unwrap_or_else(|| first_sight(None, actual, policy, mode))
        }
        AcceptedSets::OfThisLaunch(sets) => nearest(sets, &actual, policy, mode)
            .filter(|verdict| verdict.state == PinState::Match)
            .unwrap_or_else(|| first_sight(None, actual, policy, mode)),
    }
}

/// Returns the comparison with the set that differs least: whose effect is the mildest, and which differs in the fewest
/// parts; with the newest of several.
fn nearest(
    sets: &BTreeMap<u32, Pins>,
    actual: &ServerFiles,
    policy: Pinning,
    mode: Mode,
) -> Option<PinVerdict> {
    let launcher = actual.launcher.as_ref();
    let launcher = launcher.and_then(|launcher| LauncherMatch::of(sets, launcher));
    let sets_of_files = || {
        let sets = sets.values().rev();
        sets.filter(|pins| !is_shim(&pins.executable.path))
    };
    let accepted = AcceptedManifests {
        sets,
        decoded: OnceCell::new(),
    };
    // A difference takes time to explain, so no set is compared in detail beside one with the same digests.
    let is_any_same = sets_of_files().any(|pins| pins.has_digests_of(actual));
    sets_of_files()
        .filter(|pins| !is_any_same || pins.has_digests_of(actual))
        .map(|pins| against(pins, &accepted, actual, launcher, policy, mode))
        .min_by_key(|verdict| {
            let effect = match verdict.action {
                Action::Allow => 0,
                Action::Audit => 1,
                Action::WouldAsk | Action::WouldBlock | Action::Block => 2,
            };
            let is_match = verdict.state == PinState::Match;
            // A difference that is accepted is less than one that is not; an exact match needs no new set.
            let is_less = is_match == verdict.store.is_none();
            (!is_match, effect, verdict.mismatches.len(), !is_less)
        })
}

/// The manifests of all accepted sets, which are decoded once for each comparison.
struct AcceptedManifests<'s> {
    sets: &'s BTreeMap<u32, Pins>,
    decoded: OnceCell<Vec<Manifest>>,
}

impl AcceptedManifests<'_> {
    fn get(&self) -> &[Manifest] {
        self.decoded.get_or_init(|| {
            let packages = self.sets.values().filter_map(|pins| pins.package.as_ref());
            packages.filter_map(PackagePin::manifest).collect()
        })
    }
}

fn first_sight(full: Option<PinsFull>, actual: ServerFiles, policy: Pinning, mode: Mode) -> PinVerdict {
    let unhashed = unhashed_parts(&actual);
    match (Pins::try_from(actual), policy.auto_trust_first) {
        (Ok(_), true) if full.is_some() => PinVerdict {
            full,
            ..PinVerdict::of(PinState::Unknown, Action::Audit)
        },
        (Ok(pins), true) => PinVerdict {
            store: Some(NewPins {
                pins,
                ground: AcceptanceGround::FirstUse,
            }),
            ..PinVerdict::of(PinState::Pinned, Action::Allow)
        },
        (Ok(_), false) => PinVerdict::of(PinState::NotPinned, on_change(policy, mode)),
        (Err(_), true) => PinVerdict {
            unhashed,
            ..PinVerdict::of(PinState::Unknown, Action::Audit)
        },
        (Err(_), false) => PinVerdict {
            unhashed,
            ..PinVerdict::of(PinState::Unknown, on_change(policy, mode))
        },
    }
}

fn against(
    pins: &Pins,
    accepted: &AcceptedManifests<'_>,
    actual: &ServerFiles,
    launcher: Option<LauncherMatch<'_>>,
    policy: Pinning,
    mode: Mode,
) -> PinVerdict {
    // The files of a process that is gone could not be read, so its script and package are not reported as missing.
    let seen = actual.executable.hashed().is_some();
    let script = pins.script.as_ref().filter(|_| seen || actual.script.is_some());
    let package = pins.package.as_ref().filter(|_| seen || actual.package.is_some());
    let (package, is_earlier_form) = match compare_package(package, actual.package.as_ref(), accepted) {
        PackageComparison::Same => (None, is_pinned_script(script, actual)),
        PackageComparison::EarlierForm => (None, true),
        PackageComparison::Differs(mismatch) => (Some(mismatch), false),
    };
    let mut executable = file_mismatch(
        PinPart::Executable,
        Some(&pins.executable),
        Some(&actual.executable),
    );
    if let Some(executable) = &mut executable {
        explain_executable(executable, pins, actual);
    }
    let mut script = file_mismatch(PinPart::Script, script, actual.script.as_ref())
        .filter(|_| !is_pinned_script(script, actual));
    if let Some(script) = &mut script {
        explain_script(script, package.as_ref(), actual);
    }
    let launcher_mismatch = launcher.and_then(LauncherMatch::mismatch).map(|mismatch| {
        let writers = actual.launcher.as_ref().map(|launcher| launcher.writers);
        let is_by_root = mismatch.is_in_place() && writers == Some(Writers::Root);
        PinMismatch {
            ground: is_by_root.then_some(AcceptanceGround::SystemUpgrade),
            ..mismatch
        }
    });
    let mismatches: Vec<_> = [executable, script, package, launcher_mismatch]
        .into_iter()
        .flatten()
        .collect();
    let unhashed = unhashed_parts(actual);
    let (state, action) = if !mismatches.is_empty() {
        (
            PinState::Mismatch,
            effect_of(&mismatches, &unhashed, policy, mode),
        )
    } else if !unhashed.is_empty() {
        (PinState::Unknown, on_change(policy, mode))
    } else {
        (PinState::Match, Action::Allow)
    };
    let verdict = PinVerdict {
        mismatches,
        unhashed,
        ..PinVerdict::of(state, action)
    };
    if verdict.state == PinState::Match
        && let Some(LauncherMatch::New(launcher)) = launcher
    {
        return with_launcher(pins, launcher, policy, mode);
    }
    if verdict.state == PinState::Match && is_earlier_form {
        let renewed = Pins::try_from(actual.clone()).ok();
        return PinVerdict {
            store: renewed.map(|renewed| NewPins {
                pins: Pins {
                    launcher: pins.launcher.clone(),
                    ..renewed
                },
                ground: AcceptanceGround::EarlierForm,
            }),
            ..verdict
        };
    }
    match accepted_change(pins, actual, &verdict, policy) {
        Some(new) if policy.on_change != OnChange::Allow => PinVerdict {
            action: Action::Audit,
            store: Some(new),
            ..verdict
        },
        Some(_) | None => verdict,
    }
}

/// Returns the action on differences: the strictest effect of their causes.
fn effect_of(mismatches: &[PinMismatch], unhashed: &[UnhashedPart], policy: Pinning, mode: Mode) -> Action {
    let changes = mismatches.iter().flat_map(|mismatch| &mismatch.changes);
    let effects = changes.map(|change| policy.effect(change.cause));
    let unhashed = (!unhashed.is_empty()).then_some(policy.on_change.into());
    let strictest = effects.chain(unhashed).min();
    action(strictest.unwrap_or_else(|| policy.on_change.into()), mode)
}

fn file_mismatch(
    part: PinPart,
    pin: Option<&PinnedFile>,
    actual: Option<&Part<PinnedFile>>,
) -> Option<PinMismatch> {
    let actual = match actual {
        Some(Part::Unknown { .. }) => return None,
        Some(Part::Hashed(file)) => Some(file),
        None => None,
    };
    let (expected, found) = (pin.map(|file| file.digest), actual.map(|file| file.digest));
    let path = actual.or(pin)?.path.clone();
    (expected != found).then_some(PinMismatch {
        part,
        path,
        pinned_path: pin.map(|file| file.path.clone()),
        expected,
        actual: found,
        changed_files: Vec::new(),
        changes: vec![FileChange {
            cause: ChangeCause::Unknown,
            text: format!("its {} changed", part.as_str()),
        }],
        ground: None,
    })
}

fn on_change(policy: Pinning, mode: Mode) -> Action {
    action(policy.on_change.into(), mode)
}

const fn action(effect: FileEffect, mode: Mode) -> Action {
    match (effect, mode) {
        (FileEffect::Block, Mode::Enforce) => Action::Block,
        (FileEffect::Block, Mode::Observe) => Action::WouldBlock,
        (FileEffect::Alert | FileEffect::Repin, Mode::Enforce | Mode::Observe) => Action::Audit,
        (FileEffect::Allow, Mode::Enforce | Mode::Observe) => Action::Allow,
    }
}

fn settled<T>(part: Part<T>) -> Result<T, Unpinnable> {
    match part {
        Part::Hashed(value) => Ok(value),
        Part::Unknown { .. } => Err(Unpinnable),
    }
}

/// The error that a server cannot be pinned, because a part of it could not be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server cannot be pinned while a part of it could not be hashed")]
pub struct Unpinnable;

impl TryFrom<ServerFiles> for Pins {
    type Error = Unpinnable;

    /// Builds the pins of an approval: the files in their current state.
    fn try_from(files: ServerFiles) -> Result<Self, Unpinnable> {
        Ok(Self {
            executable: settled(files.executable)?,
            script: files.script.map(settled).transpose()?,
            package: files.package.map(settled).transpose()?.map(PackagePin::from),
            launcher: files
                .launcher
                .map(|launcher| settled(launcher.file))
                .transpose()?,
        })
    }
}

impl From<PinnedPackage> for PackagePin {
    fn from(package: PinnedPackage) -> Self {
        Self {
            root: package.root().to_owned(),
            digest: package.digest(),
            manifest: Some(package.manifest().encode().into()),
        }
    }
}

impl PackagePin {
    fn manifest(&self) -> Option<Manifest> {
        Manifest::decode(self.manifest.as_ref()?).ok()
    }
}

impl Pins {
    /// Returns the bytes of the manifest.
    pub(super) fn manifest_bytes(&self) -> usize {
        let manifest = self
            .package
            .as_ref()
            .and_then(|package| package.manifest.as_ref());
        manifest.map_or(0, |text| text.len())
    }

    /// Returns the pins without the manifest, if that takes more than `room` bytes.
    pub(super) fn with_manifest_within(mut self, room: usize) -> Self {
        if self.manifest_bytes() > room
            && let Some(package) = &mut self.package
        {
            package.manifest = None;
        }
        self
    }

    /// Returns whether both have the same contents, at whatever paths.
    fn same_files(&self, other: &Self) -> bool {
        let digests = |pins: &Self| {
            let script = pins.script.as_ref().map(|script| script.digest);
            let package = pins.package.as_ref().map(|package| package.digest);
            let launcher = pins.launcher.as_ref().map(|launcher| launcher.digest);
            (pins.executable.digest, script, package, launcher)
        };
        digests(self) == digests(other)
    }
}

impl PinVerdict {
    /// Returns the file that runs, if it changed and is still at its pinned path.
    pub fn executable_changed_in_place(&self) -> Option<&Path> {
        self.mismatches
            .iter()
            .find(|mismatch| mismatch.part == PinPart::Executable)
            .filter(|mismatch| mismatch.is_in_place())
            .map(|mismatch| mismatch.path.as_path())
    }

    /// Returns whether the difference is accepted from now on without approval.
    pub fn is_accepted_upgrade(&self) -> bool {
        self.state == PinState::Mismatch && self.store.is_some()
    }

    /// Returns whether the files differ from what is accepted, so that only a person can accept them.
    pub fn awaits_approval(&self) -> bool {
        self.state == PinState::Mismatch && self.store.is_none() && self.action != Action::Allow
    }

    /// Returns the verdict on a server that has ended. If its files were not compared, nothing was refused, and that is
    /// only recorded; a difference that was found is refused at the next start.
    #[must_use]
    pub fn for_ended(self) -> Self {
        if self.state != PinState::Unknown || self.unhashed.is_empty() {
            return self;
        }
        let action = if self.action == Action::Allow {
            Action::Allow
        } else {
            Action::Audit
        };
        Self {
            ended: true,
            action,
            ..self
        }
    }

    const fn of(state: PinState, action: Action) -> Self {
        Self {
            state,
            mismatches: Vec::new(),
            unhashed: Vec::new(),
            full: None,
            ended: false,
            installer: None,
            action,
            store: None,
        }
    }
}

/// Builds the denial of a server because of its files.
pub(super) fn pin_denial(reason: String, remedy: Option<String>) -> Denial {
    Denial {
        rule: "mcp.version_pinning".to_owned(),
        reason,
        remedy,
        event: None,
    }
}

/// Builds the remedy for a difference that is intended.
pub(super) fn approval(server: &ServerId) -> String {
    format!(
        "if this is expected, run `{}`, then start it again",
        trusting(server)
    )
}

/// Returns the command that accepts the files with which a server was refused.
pub(super) fn trusting(server: &ServerId) -> String {
    format!("mcpmon pins trust --server {server}")
}

#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod update_tests;
