//! The causes of a difference between two manifests, by the notes about their packages.
//!
//! Names of files are compared by their place in a module directory of Python, so that neither the version of Python nor
//! the environment is a difference.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_model::{
    ChangeCause, Ecosystem, FileChange, InstalledPackage, Manifest, ManifestEntry, ManifestNotes,
    PackageRole, RecordState, Writers,
};

/// Most files that are named in a sentence.
const NAMED: usize = 3;
/// The names of modules that Python imports at every start.
const START_UP: [&str; 2] = ["sitecustomize", "usercustomize"];

/// A change of files, and whether only root can have made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) change: FileChange,
    pub(super) is_by_root: bool,
}

impl Change {
    pub(super) fn new(cause: ChangeCause, text: impl Into<String>) -> Self {
        Self {
            change: FileChange {
                cause,
                text: text.into(),
            },
            is_by_root: false,
        }
    }
}

/// A difference between two manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// Nothing that counts.
    Nothing {
        /// True if the pinned manifest is of an earlier version, without notes.
        is_earlier_form: bool,
    },
    /// Another environment has further code that runs at every start, of an installed package.
    NewEnvironment(Vec<Change>),
    /// Changes; never empty.
    Changes(Vec<Change>),
}

/// Returns how `actual` differs from `pinned`. `accepted` are all accepted manifests of the server.
pub(super) fn difference(pinned: &Manifest, actual: &Manifest, accepted: &[Manifest]) -> Difference {
    let Some(now) = actual.notes() else {
        return Difference::Changes(vec![unexplained(pinned, actual)]);
    };
    let Some(before) = pinned.notes() else {
        return match is_earlier_form(pinned, actual, now) {
            true => Difference::Nothing {
                is_earlier_form: true,
            },
            false => Difference::Changes(vec![unexplained(pinned, actual)]),
        };
    };
    let comparison = Comparison::new(before, now, pinned, actual);
    if comparison.changed.is_empty() {
        return Difference::Nothing {
            is_earlier_form: false,
        };
    }
    comparison.explain(accepted)
}

/// Returns whether everything that is compared now was pinned by an earlier version, and is as it was. Earlier versions
/// pinned more, but nothing else of the packages.
fn is_earlier_form(pinned: &Manifest, actual: &Manifest, now: &ManifestNotes) -> bool {
    actual
        .entries()
        .all(|(path, entry)| pinned.entry(path) == Some(entry))
        && pinned
            .paths()
            .all(|path| actual.entry(path).is_some() || now.package_of(path).is_none())
}

fn unexplained(pinned: &Manifest, actual: &Manifest) -> Change {
    let files = Manifest::changes(pinned, actual);
    Change::new(ChangeCause::Unknown, format!("changed files: {}", listed(&files)))
}

/// A file of one manifest.
#[derive(Clone, Copy)]
struct NotedFile<'m> {
    /// Its name in the manifest.
    path: &'m str,
    entry: &'m ManifestEntry,
}

/// A file that differs.
struct ChangedFile<'m> {
    before: Option<NotedFile<'m>>,
    now: Option<NotedFile<'m>>,
}

impl ChangedFile<'_> {
    fn describe(&self) -> String {
        let (change, file) = match (&self.before, &self.now) {
            (None, Some(file)) => ("added", file),
            (Some(file), None) => ("removed", file),
            (Some(_), Some(file)) => ("changed", file),
            (None, None) => return String::new(),
        };
        format!("{change} {}", file.path)
    }

    /// Returns the last component of its name.
    fn name(&self) -> &str {
        let path = self.now.or(self.before).map_or("", |file| file.path);
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// The identity of a package in two manifests: a place for npm, where one package can be there in several versions.
type PackageId = (u8, String);

struct Comparison<'m> {
    before: &'m ManifestNotes,
    now: &'m ManifestNotes,
    changed: Vec<ChangedFile<'m>>,
}

impl<'m> Comparison<'m> {
    fn new(
        before: &'m ManifestNotes,
        now: &'m ManifestNotes,
        pinned: &'m Manifest,
        actual: &'m Manifest,
    ) -> Self {
        let (old, new) = (by_place(before, pinned), by_place(now, actual));
        let places: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let changed = places.into_iter().filter_map(|place| {
            let (before, now) = (old.get(place).copied(), new.get(place).copied());
            let is_same = match (before, now) {
                (Some(before), Some(now)) => has_same_content(before.entry, now.entry),
                (before, now) => before.is_none() && now.is_none(),
            };
            (!is_same).then_some(ChangedFile { before, now })
        });
        Self {
            before,
            now,
            changed: changed.collect(),
        }
    }

    fn explain(&self, accepted: &[Manifest]) -> Difference {
        let old = packages(self.before);
        let new = packages(self.now);
        let mut tampered: BTreeMap<PackageId, Vec<String>> = BTreeMap::new();
        let (mut updated, mut rebuilt) = (BTreeSet::<PackageId>::new(), BTreeSet::<PackageId>::new());
        let mut loose: Vec<&ChangedFile<'_>> = Vec::new();
        for file in &self.changed {
            let before = file
                .before
                .map_or_else(Vec::new, |file| owners(self.before, file.path));
            // A file that appears in the place of a package belongs to it, whatever else claims it.
            let appeared = file.now.filter(|_| file.before.is_none());
            let former = appeared.map_or_else(Vec::new, |file| owners(self.before, file.path));
            // One package of npm can be installed in the directory of another.
            let former = former
                .into_iter()
                .filter(|package| package.ecosystem == Ecosystem::Pypi);
            let former: Vec<&InstalledPackage> = former.collect();
            let now = file.now.map_or_else(Vec::new, |file| owners(self.now, file.path));
            let ids: BTreeSet<PackageId> = before
                .iter()
                .chain(&former)
                .chain(&now)
                .map(|package| id(package))
                .collect();
            let same_version = |id: &&PackageId| {
                let versions = (old.get(*id), new.get(*id));
                matches!(versions, (Some(before), Some(now)) if before.version == now.version)
            };
            match ids.iter().find(same_version) {
                Some(id) if self.is_built_for_another_python(&new, id) => _ = rebuilt.insert(id.clone()),
                Some(id) => tampered.entry(id.clone()).or_default().push(file.describe()),
                None if ids.is_empty() => loose.push(file),
                None => updated.extend(ids),
            }
        }
        let mut changes = Vec::new();
        let (mut only_start_up, mut brings_start_up) = (true, false);
        for (id, files) in &tampered {
            only_start_up = false;
            changes.extend(new.get(id).map(|package| contradicting(package, files)));
        }
        for id in rebuilt.difference(&tampered.keys().cloned().collect()) {
            only_start_up = false;
            changes.extend(new.get(id).map(|package| {
                let (kind, cause) = match package.role {
                    PackageRole::Own => ("package", ChangeCause::Package),
                    PackageRole::Dependency | PackageRole::StartUp => ("dependency", ChangeCause::Dependency),
                };
                let InstalledPackage { name, version, .. } = package;
                Change {
                    is_by_root: is_by_root(package),
                    ..Change::new(
                        cause,
                        format!("{kind} {name} {version} is built for another Python"),
                    )
                }
            }));
        }
        for (before, now) in pairs(&updated, &old, &new) {
            let role = now.or(before).map(|package| package.role);
            if let (Some(before), Some(now)) = (before, now)
                && before.version == now.version
                && !is_known_otherwise(now, self.now, accepted, &self.changed)
            {
                // npm moved it.
                continue;
            }
            let mut change = updated_package(before, now);
            if let Some(now) = now
                && is_known_otherwise(now, self.now, accepted, &self.changed)
            {
                change = Change::new(
                    ChangeCause::Tampered,
                    format!(
                        "{} {} has other files than when this version was accepted",
                        now.name, now.version
                    ),
                );
            }
            only_start_up &=
                role == Some(PackageRole::StartUp) && change.change.cause == ChangeCause::Dependency;
            brings_start_up |= now.is_some();
            changes.push(change);
        }
        changes.extend(self.explain_loose(&loose, self.is_another_environment(accepted)));
        if changes.is_empty() {
            return Difference::Nothing {
                is_earlier_form: false,
            };
        }
        only_start_up &= loose.is_empty();
        changes.sort_by(|a, b| (a.change.cause, &a.change.text).cmp(&(b.change.cause, &b.change.text)));
        if only_start_up && self.is_another_environment(accepted) {
            return match brings_start_up {
                true => Difference::NewEnvironment(changes),
                false => Difference::Nothing {
                    is_earlier_form: false,
                },
            };
        }
        Difference::Changes(changes)
    }

    /// Returns whether a package of the same version has other files because they are built for another version of Python.
    fn is_built_for_another_python(
        &self,
        packages: &BTreeMap<PackageId, &InstalledPackage>,
        id: &PackageId,
    ) -> bool {
        let version = |notes: &ManifestNotes| {
            let mut parts = notes
                .sites
                .first()
                .into_iter()
                .flat_map(|site| site.path.split('/'));
            parts.find(|part| part.starts_with("python3")).map(str::to_owned)
        };
        let is_consistent = packages.get(id).is_some_and(|package| {
            package.ecosystem == Ecosystem::Pypi && package.record == RecordState::Consistent
        });
        is_consistent && version(self.before) != version(self.now)
    }

    /// Returns whether no accepted set was started in this environment.
    fn is_another_environment(&self, accepted: &[Manifest]) -> bool {
        let known = accepted
            .iter()
            .filter_map(Manifest::notes)
            .flat_map(|notes| &notes.sites);
        let known: BTreeSet<&str> = known.map(|site| site.path.as_str()).collect();
        !self
            .now
            .sites
            .iter()
            .any(|site| known.contains(site.path.as_str()))
    }

    /// Explains files that belong to no package. Another environment need not have the start-up code of the former one.
    fn explain_loose(&self, files: &[&ChangedFile<'_>], is_elsewhere: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        let (mut own, mut others) = (BTreeSet::new(), Vec::new());
        for file in files {
            if is_elsewhere && self.is_start_up_left_behind(file) {
                continue;
            }
            if let Some(kind) = self.start_up_change(file) {
                changes.push(kind);
            } else if self.is_own_source(file) {
                own.insert(file.name().to_owned());
            } else {
                others.push(file.describe());
            }
        }
        if !own.is_empty() {
            let names: Vec<String> = own.into_iter().collect();
            changes.push(Change::new(ChangeCause::OwnSource, edited(&names)));
        }
        if !others.is_empty() {
            changes.push(Change::new(
                ChangeCause::Unknown,
                format!("changed files: {}", listed(&others)),
            ));
        }
        changes
    }

    /// Returns whether a file ran at every start of the interpreter, and is not there any more.
    fn is_start_up_left_behind(&self, file: &ChangedFile<'_>) -> bool {
        file.now.is_none() && file.before.is_some_and(|before| is_start_up(self.before, before))
    }

    /// Returns the change of a file that runs at every start of the interpreter, if it is one.
    fn start_up_change(&self, file: &ChangedFile<'_>) -> Option<Change> {
        match (file.before, file.now) {
            (_, Some(now)) if is_start_up(self.now, now) => Some(Change::new(
                ChangeCause::Tampered,
                format!("start-up code that no package recorded ({})", file.describe()),
            )),
            (_, Some(_) | None) => None,
        }
    }

    /// Returns whether a file is a source of the user's own: in a work tree that existed when it was pinned, and outside
    /// of everything that a package manager installed.
    fn is_own_source(&self, file: &ChangedFile<'_>) -> bool {
        let tree = |notes: &'m ManifestNotes, file: NotedFile<'_>| {
            let is_installed = notes.sites.iter().any(|site| site.contains(file.path))
                || file.path.split('/').any(|part| part == "node_modules");
            let mut trees = notes.work_trees.iter().filter(|_| !is_installed);
            trees.find(|tree| tree.contains(file.path)).map(|tree| &tree.path)
        };
        let pinned = |path: &String| self.before.work_trees.iter().any(|tree| tree.path == *path);
        let is_of_pinned = |notes, file| tree(notes, file).is_some_and(pinned);
        let (before, now) = (file.before, file.now);
        before.is_none_or(|before| is_of_pinned(self.before, before))
            && now.is_none_or(|now| is_of_pinned(self.now, now))
    }
}

/// Returns the files by their place in a module directory; a file that another one hides is kept by its name.
fn by_place<'m>(notes: &ManifestNotes, manifest: &'m Manifest) -> BTreeMap<String, NotedFile<'m>> {
    let mut files = BTreeMap::new();
    for (path, entry) in manifest.entries() {
        let file = NotedFile { path, entry };
        let relative = notes.sites.iter().find_map(|site| site.relative(path));
        match relative.map(|path| format!("/site/{path}")) {
            Some(place) if !files.contains_key(&place) => _ = files.insert(place, file),
            Some(_) | None => _ = files.insert(path.to_owned(), file),
        }
    }
    files
}

/// A package before and after a change.
type Update<'n> = (Option<&'n InstalledPackage>, Option<&'n InstalledPackage>);

/// Returns the packages before and after the change. A package of npm that is gone from one place and is new in another
/// one was moved, if there is only one of each.
fn pairs<'n>(
    ids: &BTreeSet<PackageId>,
    old: &BTreeMap<PackageId, &'n InstalledPackage>,
    new: &BTreeMap<PackageId, &'n InstalledPackage>,
) -> Vec<Update<'n>> {
    let all = ids.iter().map(|id| (old.get(id).copied(), new.get(id).copied()));
    let (mut pairs, single): (Vec<Update<'n>>, Vec<Update<'n>>) =
        all.partition(|(before, now)| before.is_some() && now.is_some());
    let removed = || single.iter().filter_map(|(before, _)| *before);
    let added = || single.iter().filter_map(|(_, now)| *now);
    let only = |packages: Vec<&'n InstalledPackage>| match packages[..] {
        [one] => Some(one),
        _ => None,
    };
    let named = |name: &str| {
        let is_it = |package: &&InstalledPackage| package.ecosystem == Ecosystem::Npm && package.name == name;
        let (removed, added) = (removed().filter(is_it).collect(), added().filter(is_it).collect());
        Some((only(removed)?, only(added)?))
    };
    for (before, now) in &single {
        let pair = before.or(*now).and_then(|package| named(&package.name));
        match (pair, before) {
            (Some((before, now)), Some(_)) => pairs.push((Some(before), Some(now))),
            (Some(_), None) => {}
            (None, _) => pairs.push((*before, *now)),
        }
    }
    pairs
}

fn packages(notes: &ManifestNotes) -> BTreeMap<PackageId, &InstalledPackage> {
    notes
        .packages
        .iter()
        .map(|package| (id(package), package))
        .collect()
}

fn id(package: &InstalledPackage) -> PackageId {
    match package.ecosystem {
        Ecosystem::Pypi => (0, package.name.clone()),
        Ecosystem::Npm => (1, package.places.first().cloned().unwrap_or_default()),
    }
}

/// Returns the packages that a file belongs to: for npm the innermost.
fn owners<'n>(notes: &'n ManifestNotes, path: &str) -> Vec<&'n InstalledPackage> {
    let covering: Vec<&InstalledPackage> = notes
        .packages
        .iter()
        .filter(|package| package.covers(path).is_some())
        .collect();
    let is_python = |package: &&InstalledPackage| package.ecosystem == Ecosystem::Pypi;
    match covering.iter().any(is_python) {
        true => covering
            .into_iter()
            .filter(|package| is_python(package))
            .collect(),
        false => notes.package_of(path).into_iter().collect(),
    }
}

/// Returns whether a version of a package is accepted, but only with other files: an update to it is none. A package of npm
/// is compared wherever it was installed.
fn is_known_otherwise(
    package: &InstalledPackage,
    notes: &ManifestNotes,
    accepted: &[Manifest],
    changed: &[ChangedFile<'_>],
) -> bool {
    let now = changed.iter().filter_map(|file| file.now);
    let own: BTreeMap<String, &ManifestEntry> = now
        .filter_map(|file| Some((relative(package, notes, file.path)?, file.entry)))
        .collect();
    let mut is_known = false;
    for manifest in accepted {
        let Some(notes) = manifest.notes() else { continue };
        let of_version = notes.packages.iter().filter(|known| {
            known.ecosystem == package.ecosystem
                && (&known.name, &known.version) == (&package.name, &package.version)
        });
        for known in of_version {
            is_known = true;
            let entries = manifest.entries();
            let files: BTreeMap<String, &ManifestEntry> = entries
                .filter_map(|(path, entry)| Some((relative(known, notes, path)?, entry)))
                .collect();
            if own.iter().all(|(path, entry)| files.get(path) == Some(entry)) {
                return false;
            }
        }
    }
    is_known
}

/// Returns the path of a file of a package, relative to where it is installed; `None` if it is not one of its files.
fn relative(package: &InstalledPackage, notes: &ManifestNotes, path: &str) -> Option<String> {
    package.covers(path)?;
    let place = match package.ecosystem {
        Ecosystem::Pypi => notes.sites.iter().find_map(|site| site.relative(path)),
        Ecosystem::Npm => package
            .places
            .first()
            .and_then(|place| path.strip_prefix(place.as_str())),
    };
    Some(place.unwrap_or(path).to_owned())
}

/// Returns whether two files differ in nothing but who may read, write or execute them: a `chmod` changes no code.
pub(super) fn has_same_content(before: &ManifestEntry, now: &ManifestEntry) -> bool {
    const SET_ID: u16 = 0o7000;
    match (before, now) {
        (
            ManifestEntry::File { mode, digest },
            ManifestEntry::File {
                mode: mode_now,
                digest: digest_now,
            },
        ) => digest == digest_now && (mode ^ mode_now) & SET_ID == 0,
        (before, now) => before == now,
    }
}

/// Returns whether Python runs a file at every start.
fn is_start_up(notes: &ManifestNotes, file: NotedFile<'_>) -> bool {
    let mut relative = notes.sites.iter().filter_map(|site| site.relative(file.path));
    relative.any(|path| {
        let module = path.split(['.', '/']).next().unwrap_or(path);
        START_UP.contains(&module) || path.ends_with(".pth") && !path.contains('/')
    })
}

fn contradicting(package: &InstalledPackage, files: &[String]) -> Change {
    let InstalledPackage { name, version, .. } = package;
    let files = listed(files);
    let text = match package.record {
        RecordState::Contradicts => {
            format!("files of {name} {version} contradict the record of its package manager ({files})")
        }
        RecordState::Consistent | RecordState::Missing => {
            format!("files of {name} {version} are not those of this version ({files})")
        }
    };
    Change {
        is_by_root: is_by_root(package),
        ..Change::new(ChangeCause::Tampered, text)
    }
}

/// Returns whether only root can have changed a dependency: the operating system's packages.
fn is_by_root(package: &InstalledPackage) -> bool {
    package.role != PackageRole::Own && package.writers == Writers::Root
}

fn updated_package(before: Option<&InstalledPackage>, now: Option<&InstalledPackage>) -> Change {
    let role = |package: &InstalledPackage| package.role == PackageRole::Own;
    let is_own = before.is_some_and(role) || now.is_some_and(role);
    let (kind, cause) = match is_own {
        true => ("package", ChangeCause::Package),
        false => ("dependency", ChangeCause::Dependency),
    };
    let Some(now) = now else {
        let text = before.map(|package| format!("{kind} {} {} was removed", package.name, package.version));
        return Change::new(cause, text.unwrap_or_default());
    };
    let InstalledPackage { name, version, .. } = now;
    let text = match before {
        Some(before) => format!("{kind} {name} {} → {version}", before.version),
        None => format!("{kind} {name} {version} was added"),
    };
    let archive = |package: &InstalledPackage| package.integrity.clone();
    // Another version has another archive.
    let is_same_archive = before
        .and_then(archive)
        .is_some_and(|before| archive(now) == Some(before));
    let change = match now.record {
        RecordState::Consistent if !is_same_archive => Change::new(cause, text),
        RecordState::Consistent | RecordState::Contradicts => Change::new(
            ChangeCause::Tampered,
            format!("{text}, whose files contradict the record of its package manager"),
        ),
        RecordState::Missing => Change::new(
            ChangeCause::Unknown,
            format!("{text}, which no package manager recorded"),
        ),
    };
    Change {
        is_by_root: is_by_root(now),
        ..change
    }
}

fn edited(names: &[String]) -> String {
    match names {
        [one] => format!("{one} was edited"),
        names => format!("{} were edited", listed(names)),
    }
}

/// Lists the first files, and counts the rest.
pub(super) fn listed(files: &[String]) -> String {
    let (first, rest) = files.split_at(NAMED.min(files.len()));
    match rest.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
