//! Comparison with the pins of the same files under another id or name of their server.

use std::collections::BTreeMap;

use mcpmon_model::{ManifestNotes, PackageKind, PackageRole, PinKey, PinPart, PinState};
use mcpmon_policy::{Mode, Pinning};

use super::{
    AcceptanceGround, AcceptedSets, PackagePin, Part, PinBook, PinMismatch, PinVerdict, PinnedPackage, Pins,
    ServerFiles, compare, effect_of, nearest,
};

/// Most sets of one package that a start in another place is compared with.
const MAX_ELSEWHERE: usize = 64;

/// The relation of pins to the files of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The script or the program is the same file.
    Same,
    /// The package is the same directory, and is started in another way: by its command, or as a module.
    Package,
    /// They are elsewhere. An installed package is the same package wherever it is.
    Other,
}

impl PinBook {
    /// Compares a start with what is accepted for `key`. If nothing is, the same files may be known under another id or
    /// name of the server: a client can call it by any name, and a package can be started in several ways. Files that
    /// changed there are no first use here, and neither are other files of an installed package that this user has elsewhere.
    pub fn compare(
        &self,
        key: &PinKey,
        accepted: AcceptedSets<'_>,
        actual: ServerFiles,
        policy: Pinning,
        mode: Mode,
    ) -> PinVerdict {
        let own = match accepted {
            AcceptedSets::Sets(sets) if is_started_otherwise(sets, &actual) => Some(sets),
            AcceptedSets::Nothing
            | AcceptedSets::NoRoom(_)
            | AcceptedSets::Sets(_)
            | AcceptedSets::OfThisLaunch(_) => None,
        };
        let is_first = own.is_some() || matches!(accepted, AcceptedSets::Nothing | AcceptedSets::NoRoom(_));
        let accepted = if own.is_some() {
            AcceptedSets::Nothing
        } else {
            accepted
        };
        if is_first && policy.enabled {
            for place in [Place::Same, Place::Package] {
                let own = own.into_iter().flatten().map(|(_, pins)| (key, pins));
                let elsewhere = self.elsewhere(key).chain(own).filter(|(other, pins)| {
                    // One program can be several servers.
                    let is_alone = pins.script.is_none() && pins.package.is_none();
                    (!is_alone || other.name == key.name) && pins.place(&actual) == place
                });
                let elsewhere: BTreeMap<u32, Pins> = (0..)
                    .zip(elsewhere.map(|(_, pins)| pins.as_started(place)))
                    .collect();
                let own = ServerFiles {
                    script: actual.script.clone().filter(|_| place == Place::Same),
                    launcher: None,
                    ..actual.clone()
                };
                if let Some(changed) = nearest(&elsewhere, &own, policy, mode)
                    && changed
                        .mismatches
                        .iter()
                        .any(|mismatch| mismatch.is_of_the_server(&actual))
                {
                    return PinVerdict {
                        store: None,
                        ..changed
                    };
                }
            }
        }
        if is_first
            && policy.enabled
            && let Some(changed) = self.compare_elsewhere(key, own, &actual, policy, mode)
        {
            return changed;
        }
        let verdict = compare(accepted, actual, policy, mode);
        match key.uid {
            0 => verdict.for_root(policy, mode),
            _ => verdict,
        }
    }
}

impl PinBook {
    /// Compares the own code of an installed package with that of the packages of this name that the user has pinned elsewhere.
    /// Returns the difference from the nearest one, if the code is that of none.
    fn compare_elsewhere(
        &self,
        key: &PinKey,
        own: Option<&BTreeMap<u32, Pins>>,
        actual: &ServerFiles,
        policy: Pinning,
        mode: Mode,
    ) -> Option<PinVerdict> {
        let package = is_of_registry(key).then_some(actual.package.as_ref()?.hashed()?)?;
        let code = package.manifest().own_code()?;
        let elsewhere = self.elsewhere(key).filter(|(other, _)| other.name == key.name);
        let own = own.into_iter().flatten().map(|(_, pins)| (key, pins));
        let elsewhere = own.chain(elsewhere);
        let mut known: BTreeMap<u32, Pins> = BTreeMap::new();
        for ((_, pins), number) in elsewhere.take(MAX_ELSEWHERE).zip(0..) {
            let manifest = pins.package.as_ref().and_then(PackagePin::manifest);
            let Some(pinned) = manifest.and_then(|manifest| manifest.own_code()) else {
                continue;
            };
            if pinned == code {
                return None;
            }
            known.insert(number, pins.as_started(Place::Other));
        }
        let started = ServerFiles {
            script: None,
            launcher: None,
            ..actual.clone()
        };
        let changed = nearest(&known, &started, policy, mode)?;
        (changed.state == PinState::Mismatch).then_some(PinVerdict {
            store: None,
            ..changed
        })
    }
}

impl PinVerdict {
    /// Returns the verdict on a server that root runs: it can write all of the system's files itself. Only an interpreter or
    /// launcher in its place is accepted as an upgrade.
    fn for_root(self, policy: Pinning, mode: Mode) -> Self {
        let ground = self.store.as_ref().map(|new| new.ground);
        let is_beyond = |mismatch: &PinMismatch| mismatch.part == PinPart::Package || !mismatch.is_in_place();
        if ground != Some(AcceptanceGround::SystemUpgrade) || !self.mismatches.iter().any(is_beyond) {
            return self;
        }
        Self {
            action: effect_of(&self.mismatches, &self.unhashed, policy, mode),
            store: None,
            ..self
        }
    }
}

impl PinMismatch {
    /// Returns whether the part is the server itself, and not the interpreter of its script or package.
    fn is_of_the_server(&self, files: &ServerFiles) -> bool {
        match self.part {
            // What is pinned elsewhere may be a shell that leads to an interpreter: it has no package.
            PinPart::Script | PinPart::Package => self.ground.is_none() && self.expected.is_some(),
            PinPart::Executable => files.script.is_none() && files.package.is_none(),
            PinPart::Launcher => false,
        }
    }
}

impl Pins {
    /// Returns where these files are pinned, in relation to the others.
    fn place(&self, actual: &ServerFiles) -> Place {
        let script = actual.script.as_ref().and_then(Part::hashed);
        let script = script.map(|script| &script.path);
        let package = actual.package.as_ref().and_then(Part::hashed);
        let pinned_script = self.script.as_ref().map(|script| &script.path);
        if pinned_script.is_some() && pinned_script == script {
            return Place::Same;
        }
        let is_package = |pinned: &PackagePin| {
            package.map(PinnedPackage::root) == Some(pinned.root.as_path())
                && package.is_some_and(|package| is_installed(package.manifest().notes()))
                && pinned
                    .manifest()
                    .is_none_or(|manifest| is_installed(manifest.notes().or_else(|| package.and_then(notes))))
        };
        match &self.package {
            Some(pinned) if pinned_script.is_none() && script.is_none() => {
                match package.map(PinnedPackage::root) == Some(pinned.root.as_path()) {
                    true => Place::Same,
                    false => Place::Other,
                }
            }
            Some(pinned) if is_package(pinned) => Place::Package,
            Some(_) => Place::Other,
            None => {
                let program = actual.executable.hashed().map(|program| &program.path);
                let is_program = pinned_script.is_none()
                    && script.is_none()
                    && package.is_none()
                    && program == Some(&self.executable.path);
                match is_program {
                    true => Place::Same,
                    false => Place::Other,
                }
            }
        }
    }

    /// Returns what is compared with a start under another id or name. Another interpreter or launcher may belong to that.
    fn as_started(&self, place: Place) -> Self {
        Self {
            script: self.script.clone().filter(|_| place == Place::Same),
            launcher: None,
            ..self.clone()
        }
    }
}

/// Returns whether an installed package is started in another way than in each of these sets: as a module, or by its command.
fn is_started_otherwise(sets: &BTreeMap<u32, Pins>, actual: &ServerFiles) -> bool {
    let is_module = actual.script.is_none();
    let package = actual.package.as_ref().and_then(Part::hashed);
    let is_package = package.is_some_and(|package| is_installed(notes(package)));
    is_package
        && sets
            .values()
            .all(|pins| pins.package.is_some() && pins.script.is_none() != is_module)
}

/// Returns whether the server is a package of a registry. Whoever can write a directory can name a package there, so such a
/// package is not trusted because it is the first one at its place or under its id.
fn is_of_registry(key: &PinKey) -> bool {
    key.package().is_some_and(|package| match package.kind() {
        PackageKind::Npm | PackageKind::Pypi => true,
        PackageKind::Oci | PackageKind::Script | PackageKind::Program => false,
    })
}

fn notes(package: &PinnedPackage) -> Option<&ManifestNotes> {
    package.manifest().notes()
}

/// Returns whether the server is an installed package, which has one directory however it is started. Two scripts of one
/// project can be two servers.
fn is_installed(notes: Option<&ManifestNotes>) -> bool {
    let packages = notes.into_iter().flat_map(|notes| &notes.packages);
    packages
        .into_iter()
        .any(|package| package.role == PackageRole::Own)
}
