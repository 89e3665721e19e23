//! The causes of differences, each with the attack that looks like it.

use std::collections::BTreeMap;

use mcpmon_model::{
    Ecosystem, InstalledPackage, ManifestEntry, ManifestNotes, NotedDirectory, PackageRole, PinKey,
    RecordState::{self, Consistent, Contradicts, Missing},
    Timestamp,
};
use mcpmon_policy::{FileChanges, FileEffect};
use test_case::test_case;

use super::*;
use crate::installers::InstallerRuns;

/// A Python server of the package `weather`, which needs `mcp`, with a script of the user's own.
#[derive(Clone, Debug)]
pub(super) struct Installed {
    python: &'static str,
    environment: &'static str,
    packages: Vec<InstalledPackage>,
    files: BTreeMap<String, String>,
    tree: Option<&'static str>,
    noted: bool,
}

pub(super) const SITE: &str = "lib/python3.11/site-packages";

pub(super) fn installed() -> Installed {
    Installed {
        python: "/usr/bin/python3.11",
        environment: "/venv/lib/python3.11/site-packages",
        packages: Vec::new(),
        files: BTreeMap::new(),
        tree: None,
        noted: true,
    }
    .package("weather", "1.2.0", PackageRole::Own, Consistent)
    .package("mcp", "1.30.0", PackageRole::Dependency, Consistent)
    .file("server.py", "one")
}

impl Installed {
    /// Installs a version of a package in the place of another one; its content follows from the version.
    pub(super) fn package(
        mut self,
        name: &str,
        version: &str,
        role: PackageRole,
        record: RecordState,
    ) -> Self {
        self = self.without(name);
        let places = [
            format!("{SITE}/{name}-{version}.dist-info"),
            format!("{SITE}/{name}"),
        ];
        let [info, code] = places.clone();
        self.packages.push(InstalledPackage {
            ecosystem: Ecosystem::Pypi,
            name: name.to_owned(),
            version: version.to_owned(),
            role,
            record,
            writers: Writers::Others,
            integrity: None,
            places: places.to_vec(),
        });
        self.file(&format!("{info}/METADATA"), version)
            .file(&format!("{code}/__init__.py"), version)
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.packages.retain(|package| package.name != name);
        let prefix = format!("{SITE}/{name}");
        self.files.retain(|path, _| !path.starts_with(&prefix));
        self
    }

    pub(super) fn file(mut self, path: &str, content: &str) -> Self {
        self.files.insert(path.to_owned(), content.to_owned());
        self
    }

    pub(super) fn tree(self, tree: Option<&'static str>) -> Self {
        Self { tree, ..self }
    }

    pub(super) fn manifest(&self) -> Manifest {
        let mut manifest = Manifest::default();
        for (path, content) in &self.files {
            let digest = Digest::of(content.as_bytes());
            manifest.insert(path.as_bytes(), ManifestEntry::File { mode: 0o644, digest });
        }
        let directory = |path: &str, prefix: &str| NotedDirectory {
            prefix: prefix.to_owned(),
            path: path.to_owned(),
        };
        let notes = ManifestNotes {
            packages: self.packages.clone(),
            sites: vec![directory(self.environment, SITE)],
            work_trees: self.tree.iter().map(|tree| directory(tree, "")).collect(),
        };
        match self.noted {
            true => manifest.with_notes(notes),
            false => manifest,
        }
    }

    pub(super) fn files(&self) -> ServerFiles {
        let file = |path: &str, content: &str| PinnedFile {
            path: PathBuf::from(path),
            digest: Digest::of(content.as_bytes()),
        };
        ServerFiles {
            executable: Part::Hashed(file(self.python, self.python)),
            executable_writers: Writers::Root,
            script: Some(Part::Hashed(file("/srv/server.py", &self.files["server.py"]))),
            package: Some(Part::Hashed(PinnedPackage::new(
                PathBuf::from("/srv"),
                self.manifest(),
            ))),
            launcher: None,
            generated_script: None,
        }
    }

    pub(super) fn pins(&self) -> Pins {
        Pins::try_from(self.files()).expect("everything is hashed")
    }
}

pub(super) fn judge(pinned: &[Installed], now: &Installed, policy: Pinning) -> PinVerdict {
    let sets: BTreeMap<u32, Pins> = (1..).zip(pinned.iter().map(Installed::pins)).collect();
    compare(AcceptedSets::Sets(&sets), now.files(), policy, Mode::Enforce)
}

/// Returns the effect and the changes in words.
fn told(pinned: &[Installed], now: &Installed) -> (Action, String) {
    let verdict = judge(pinned, now, Pinning::default());
    (verdict.action, verdict.causes())
}

pub(super) fn dependency(name: &str, version: &str, record: RecordState) -> Installed {
    installed().package(name, version, PackageRole::Dependency, record)
}

#[test_case(&installed() => (Action::Allow, String::new()); "nothing")]
#[test_case(&installed().package("weather", "1.3.0", PackageRole::Own, Consistent) => (Action::Block, "package weather 1.2.0 → 1.3.0".to_owned()); "the package itself")]
#[test_case(&dependency("mcp", "1.31.0", Consistent) => (Action::Audit, "dependency mcp 1.30.0 → 1.31.0".to_owned()); "a dependency")]
#[test_case(&dependency("mcp", "1.31.0", Contradicts) => (Action::Block, "dependency mcp 1.30.0 → 1.31.0, whose files contradict the record of its package manager".to_owned()); "a dependency that contradicts its record")]
#[test_case(&dependency("mcp", "1.31.0", Missing) => (Action::Block, "dependency mcp 1.30.0 → 1.31.0, which no package manager recorded".to_owned()); "a dependency without a record")]
#[test_case(&dependency("anyio", "4.0", Consistent) => (Action::Audit, "dependency anyio 4.0 was added".to_owned()); "a further dependency")]
#[test_case(&dependency("anyio", "4.0", Contradicts) => (Action::Block, "dependency anyio 4.0 was added, whose files contradict the record of its package manager".to_owned()); "a further dependency that contradicts its record")]
#[test_case(&installed().without("mcp") => (Action::Audit, "dependency mcp 1.30.0 was removed".to_owned()); "a dependency is gone")]
#[test_case(&installed().file(&format!("{SITE}/mcp/__init__.py"), "evil") => (Action::Block, format!("files of mcp 1.30.0 are not those of this version (changed {SITE}/mcp/__init__.py)")); "the record was written to match")]
#[test_case(&dependency("mcp", "1.30.0", Contradicts).file(&format!("{SITE}/mcp/evil.py"), "evil") => (Action::Block, format!("files of mcp 1.30.0 contradict the record of its package manager (added {SITE}/mcp/evil.py)")); "a file that no record has")]
#[test_case(&installed().file(&format!("{SITE}/x.pth"), "import evil") => (Action::Block, format!("start-up code that no package recorded (added {SITE}/x.pth)")); "a path file")]
#[test_case(&installed().file(&format!("{SITE}/sitecustomize.py"), "evil") => (Action::Block, format!("start-up code that no package recorded (added {SITE}/sitecustomize.py)")); "a customisation module")]
fn changes(now: &Installed) -> (Action, String) {
    told(&[installed()], now)
}

#[test]
fn a_package_that_claims_a_file_in_another_ones_place_is_tampering() {
    let mut now = dependency("evil", "1.0", Consistent).file(&format!("{SITE}/mcp/fast.so"), "evil");
    let evil = now.packages.last_mut().expect("a package");
    evil.places.push(format!("{SITE}/mcp/fast.so"));
    let (action, text) = told(&[installed()], &now);
    assert_eq!(action, Action::Block);
    assert!(text.starts_with("files of mcp 1.30.0 "), "{text}");
}

#[test]
fn a_version_that_was_accepted_with_other_files_is_no_update() {
    let newer = dependency("mcp", "1.31.0", Consistent);
    let forged = newer.clone().file(&format!("{SITE}/mcp/__init__.py"), "evil");
    let accepted = [newer, dependency("mcp", "1.32.0", Consistent)];
    let (action, text) = told(&accepted, &forged);
    assert_eq!(action, Action::Block, "{text}");
    let (action, _) = told(&accepted, &dependency("mcp", "1.33.0", Consistent));
    assert_eq!(action, Action::Audit);
}

/// A script of the user's own in a work tree, without an installed package beside it.
pub(super) fn own_script(content: &str, tree: Option<&'static str>) -> Installed {
    installed()
        .without("weather")
        .file("server.py", content)
        .tree(tree)
}

#[test_case(Some("/srv"), Some("/srv") => (Action::Audit, "server.py was edited".to_owned()); "in its work tree")]
#[test_case(None, Some("/srv") => (Action::Block, "server.py was edited; changed files: changed server.py".to_owned()); "the work tree was made later")]
#[test_case(Some("/srv"), None => (Action::Block, "server.py was edited; changed files: changed server.py".to_owned()); "the work tree is gone")]
#[test_case(Some("/srv"), Some("/other") => (Action::Block, "server.py was edited; changed files: changed server.py".to_owned()); "another work tree")]
fn edited_sources(before: Option<&'static str>, now: Option<&'static str>) -> (Action, String) {
    told(&[own_script("one", before)], &own_script("two", now))
}

#[test]
fn an_installed_package_in_a_work_tree_is_no_own_source() {
    let before = own_script("one", Some("/srv"));
    let now = before.clone().file(&format!("{SITE}/loose.py"), "x");
    let (action, text) = told(&[before], &now);
    assert_eq!(
        (action, text),
        (Action::Block, format!("changed files: added {SITE}/loose.py"))
    );
}

fn start_up(version: &str, record: RecordState) -> Installed {
    installed().package("setuptools", version, PackageRole::StartUp, record)
}

#[test_case("/other/lib/python3.11/site-packages", Consistent => (Action::Audit, Some(AcceptanceGround::NewEnvironment)); "in another environment")]
#[test_case("/other/lib/python3.11/site-packages", Contradicts => (Action::Block, None); "in another environment, and no record agrees")]
#[test_case("/venv/lib/python3.11/site-packages", Consistent => (Action::Audit, None); "in the same environment")]
fn code_at_the_start(environment: &'static str, record: RecordState) -> (Action, Option<AcceptanceGround>) {
    let now = Installed {
        environment,
        ..start_up("65.5.1", record)
    };
    let verdict = judge(&[installed()], &now, Pinning::default());
    let without = Installed {
        environment: "/third/lib/python3.11/site-packages",
        ..installed()
    };
    let less = judge(&[start_up("65.5.1", Consistent)], &without, Pinning::default());
    assert_eq!(less.state, PinState::Match, "less code at the start");
    (verdict.action, verdict.store.map(|new| new.ground))
}

/// Returns the same packages in the environment of Python 3.12.
fn on_python_3_12(python: &'static str) -> Installed {
    let before = installed();
    let moved = |path: &String| path.replace("python3.11", "python3.12");
    let packages = before.packages.iter().map(|package| InstalledPackage {
        places: package.places.iter().map(moved).collect(),
        ..package.clone()
    });
    Installed {
        python,
        packages: packages.collect(),
        files: before
            .files
            .iter()
            .map(|(path, content)| (moved(path), content.clone()))
            .collect(),
        environment: "/venv/lib/python3.12/site-packages",
        ..before
    }
}

impl Installed {
    fn files_on_python_3_12(&self) -> ServerFiles {
        let mut notes = self.manifest().notes().expect("notes").clone();
        notes.sites[0].prefix = "lib/python3.12/site-packages".to_owned();
        let manifest = self.manifest().with_notes(notes);
        ServerFiles {
            package: Some(Part::Hashed(PinnedPackage::new("/srv".into(), manifest))),
            ..self.files()
        }
    }
}

#[test_case("/usr/bin/python3.12" => (Action::Audit, true, "another Python (3.11 → 3.12)".to_owned()); "of the system")]
#[test_case("/home/me/bin/python3.12" => (Action::Audit, false, "another Python (3.11 → 3.12)".to_owned()); "of a user")]
#[test_case("/home/me/bin/python3.11" => (Action::Block, false, "another Python (/usr/bin/python3.11 → /home/me/bin/python3.11)".to_owned()); "of a user, of the same version")]
#[test_case("/usr/bin/perl" => (Action::Block, false, "its executable changed".to_owned()); "another program")]
fn another_interpreter(python: &'static str) -> (Action, bool, String) {
    let sets = BTreeMap::from([(1, installed().pins())]);
    let verdict = compare(
        AcceptedSets::Sets(&sets),
        on_python_3_12(python).files_on_python_3_12(),
        Pinning::default(),
        Mode::Enforce,
    );
    (verdict.action, verdict.store.is_some(), verdict.causes())
}

#[test_case(Writers::Others => (Action::Block, Some("Python at /usr/bin/python3.11 was replaced".to_owned())); "by a user")]
#[test_case(Writers::Root => (Action::Audit, Some("Python at /usr/bin/python3.11 was replaced".to_owned())); "by root")]
fn an_interpreter_that_is_replaced_in_its_place(executable_writers: Writers) -> (Action, Option<String>) {
    let sets = BTreeMap::from([(1, installed().pins())]);
    let files = installed().files();
    let replaced = ServerFiles {
        executable: Part::Hashed(PinnedFile {
            path: "/usr/bin/python3.11".into(),
            digest: Digest::of(b"another"),
        }),
        executable_writers,
        ..files
    };
    let verdict = compare(
        AcceptedSets::Sets(&sets),
        replaced,
        Pinning::default(),
        Mode::Enforce,
    );
    let told = verdict.gravest().map(|change| change.text.clone());
    (verdict.action, told)
}

#[test]
fn a_pin_of_an_earlier_version_is_compared_and_renewed() {
    // Earlier versions pinned all of a virtual environment.
    let earlier = Installed {
        noted: false,
        ..installed()
            .package("unrelated", "1.0", PackageRole::Dependency, Consistent)
            .file(&format!("{SITE}/distutils-precedence.pth"), "x")
    };
    let verdict = judge(std::slice::from_ref(&earlier), &installed(), Pinning::default());
    let ground = verdict.store.as_ref().map(|new| new.ground);
    assert_eq!(
        (verdict.state, ground),
        (PinState::Match, Some(AcceptanceGround::EarlierForm))
    );
    let renewed = verdict.store.expect("renewed").pins;
    let sets = BTreeMap::from([(1, earlier.pins()), (2, renewed)]);
    let again = compare(
        AcceptedSets::Sets(&sets),
        installed().files(),
        Pinning::default(),
        Mode::Enforce,
    );
    assert_eq!((again.state, again.store), (PinState::Match, None));

    let changed = installed().file(&format!("{SITE}/mcp/__init__.py"), "evil");
    let verdict = judge(std::slice::from_ref(&earlier), &changed, Pinning::default());
    assert_eq!(verdict.action, Action::Block);
    let fewer = Installed {
        files: installed()
            .files
            .into_iter()
            .filter(|(path, _)| !path.ends_with("mcp/__init__.py"))
            .collect(),
        ..installed()
    };
    assert_eq!(
        judge(&[earlier], &fewer, Pinning::default()).action,
        Action::Block
    );
}

#[test]
fn a_script_that_an_installer_wrote_is_compared_by_what_it_starts() {
    let now = ServerFiles {
        generated_script: Some(Digest::of(b"one")),
        script: Some(Part::Hashed(PinnedFile {
            path: "/venv/bin/weather".into(),
            digest: Digest::of(b"weather:main"),
        })),
        ..installed().files()
    };
    let sets = BTreeMap::from([(1, installed().pins())]);
    let verdict = compare(
        AcceptedSets::Sets(&sets),
        now.clone(),
        Pinning::default(),
        Mode::Enforce,
    );
    assert_eq!(verdict.state, PinState::Match, "{verdict:?}");
    let other = ServerFiles {
        generated_script: Some(Digest::of(b"two")),
        ..now
    };
    let verdict = compare(
        AcceptedSets::Sets(&sets),
        other,
        Pinning::default(),
        Mode::Enforce,
    );
    assert_eq!(
        (verdict.action, verdict.causes().as_str()),
        (
            Action::Block,
            "weather is not the command that the installer of weather 1.2.0 wrote"
        )
    );
}

const fn with(files: FileChanges) -> Pinning {
    Pinning {
        enabled: true,
        on_change: OnChange::Block,
        auto_trust_first: true,
        files,
    }
}

const NONE: FileChanges = FileChanges {
    package: None,
    dependency: None,
    runtime: None,
    own_source: None,
};

#[test_case(FileChanges { dependency: Some(FileEffect::Block), ..NONE }, &dependency("mcp", "1.31.0", Consistent) => Action::Block; "strict dependencies")]
#[test_case(FileChanges { dependency: Some(FileEffect::Allow), ..NONE }, &dependency("mcp", "1.31.0", Consistent) => Action::Allow; "allowed dependencies")]
#[test_case(FileChanges { dependency: Some(FileEffect::Allow), ..NONE }, &dependency("mcp", "1.31.0", Contradicts) => Action::Block; "tampered dependencies")]
#[test_case(FileChanges { package: Some(FileEffect::Alert), ..NONE }, &installed().package("weather", "1.3.0", PackageRole::Own, Consistent) => Action::Audit; "alerting of packages")]
#[test_case(FileChanges { dependency: Some(FileEffect::Repin), ..NONE }, &dependency("mcp", "1.31.0", Consistent) => Action::Audit; "accepted dependencies")]
#[test_case(FileChanges { dependency: Some(FileEffect::Repin), ..NONE }, &dependency("mcp", "1.31.0", Contradicts) => Action::Block; "accepted dependencies that are tampered")]
fn effects_are_set_by_cause(files: FileChanges, now: &Installed) -> Action {
    judge(&[installed()], now, with(files)).action
}

#[test]
fn what_the_policy_accepts_is_pinned_and_told_once() {
    let policy = with(FileChanges {
        dependency: Some(FileEffect::Repin),
        ..NONE
    });
    let server = ServerId::new("weather").expect("an id");
    let now = dependency("mcp", "1.31.0", Consistent);
    let verdict = judge(&[installed()], &now, policy);
    assert_eq!(
        verdict.reason(&server).as_deref(),
        Some(
            "weather: dependency mcp 1.30.0 → 1.31.0; the policy accepts such changes (`repin` in \
             `mcp.version_pinning.files`), so it is accepted from now on; if this is not expected, run `mcpmon pins reset \
             --server weather`"
        )
    );
    assert!(!verdict.awaits_approval());
    let new = verdict.store.expect("it is pinned");
    assert_eq!(new.ground, AcceptanceGround::Policy);
    let sets = BTreeMap::from([(1, new.pins)]);
    let again = compare(AcceptedSets::Sets(&sets), now.files(), policy, Mode::Enforce);
    assert_eq!((again.state, again.action), (PinState::Match, Action::Allow));

    // Nothing is accepted together with a change that blocks.
    let both = now.package("weather", "1.3.0", PackageRole::Own, Consistent);
    let verdict = judge(&[installed()], &both, policy);
    assert_eq!((verdict.action, verdict.store), (Action::Block, None));
}

#[test_case(&dependency("mcp", "1.31.0", Consistent), "mcpmon pins trust --server weather" => "weather: it changed since it was pinned: dependency mcp 1.30.0 → 1.31.0; the files agree with the records of the package manager; accept them with `mcpmon pins trust --server weather`"; "a dependency")]
#[test_case(&installed().package("weather", "1.3.0", PackageRole::Own, Consistent), "mcpmon pins trust --server weather" => "weather: it changed since it was pinned: package weather 1.2.0 → 1.3.0; read what is new in this version, and accept it with `mcpmon pins trust --server weather`, or install the former version"; "the package itself")]
#[test_case(&dependency("mcp", "1.31.0", Contradicts), "install the package again or remove the server; if you made this change, run `mcpmon pins trust --server weather`" => "weather: it changed since it was pinned: dependency mcp 1.30.0 → 1.31.0, whose files contradict the record of its package manager; this looks like tampering: install the package again, or remove the server; only if you made this change, run `mcpmon pins trust --server weather`"; "tampering")]
fn reasons(now: &Installed, remedy: &str) -> String {
    let server = ServerId::new("weather").expect("an id");
    let verdict = judge(&[installed()], now, Pinning::default());
    assert_eq!(verdict.remedy(&server).as_deref(), Some(remedy));
    assert!(verdict.awaits_approval());
    verdict.reason(&server).expect("it is reported")
}

/// A package of npm, with the versions of its dependency by place.
fn npm(own: &str, parts: &[(&str, &str, &str)]) -> Manifest {
    let mut manifest = Manifest::default();
    let mut notes = ManifestNotes::default();
    let mut add = |place: &str, name: &str, version: &str, content: &str, role: PackageRole| {
        let digest = Digest::of(content.as_bytes());
        let path = format!("{place}/index.js");
        manifest.insert(path.as_bytes(), ManifestEntry::File { mode: 0o644, digest });
        notes.packages.push(InstalledPackage {
            ecosystem: Ecosystem::Npm,
            name: name.to_owned(),
            version: version.to_owned(),
            role,
            record: Consistent,
            writers: Writers::Others,
            integrity: Some(format!("sha512-{name}-{version}")),
            places: vec![place.to_owned()],
        });
    };
    add("node_modules/own", "own", own, own, PackageRole::Own);
    for (place, version, content) in parts {
        add(place, "part", version, content, PackageRole::Dependency);
    }
    manifest.with_notes(notes)
}

const TOP: &str = "node_modules/part";
const NESTED: &str = "node_modules/own/node_modules/part";

#[test_case("1.0", &[(NESTED, "1.0", "one")] => None; "moved")]
#[test_case("1.0", &[(NESTED, "1.0", "evil")] => Some((ChangeCause::Tampered, "part 1.0 has other files than when this version was accepted".to_owned())); "moved and changed")]
#[test_case("1.0", &[(NESTED, "1.1", "two")] => Some((ChangeCause::Dependency, "dependency part 1.0 → 1.1".to_owned())); "moved and updated")]
#[test_case("1.0", &[(TOP, "1.0", "one"), (NESTED, "1.1", "two")] => Some((ChangeCause::Dependency, "dependency part 1.1 was added".to_owned())); "a second one")]
#[test_case("1.0", &[(TOP, "1.0", "one"), (NESTED, "1.0", "evil")] => Some((ChangeCause::Tampered, "part 1.0 has other files than when this version was accepted".to_owned())); "a second one that is another")]
#[test_case("1.1", &[(TOP, "1.0", "one")] => Some((ChangeCause::Package, "package own 1.0 → 1.1".to_owned())); "the package itself")]
fn packages_of_npm(own: &str, parts: &[(&str, &str, &str)]) -> Option<(ChangeCause, String)> {
    let pinned = npm("1.0", &[(TOP, "1.0", "one")]);
    let accepted = std::slice::from_ref(&pinned);
    match change::difference(&pinned, &npm(own, parts), accepted) {
        change::Difference::Nothing { .. } => None,
        change::Difference::NewEnvironment(changes) | change::Difference::Changes(changes) => {
            let [change] = &changes[..] else {
                panic!("{changes:?}")
            };
            Some((change.change.cause, change.change.text.clone()))
        }
    }
}

/// Root can write the system's files itself.
#[test_case(1000 => (Action::Audit, true); "of a user")]
#[test_case(0 => (Action::Block, false); "of root")]
fn a_dependency_that_only_root_can_have_changed(uid: u32) -> (Action, bool) {
    let key = PinKey {
        server: ServerId::new("weather").expect("an id"),
        name: "weather".to_owned(),
        uid,
    };
    let mut book = PinBook::default();
    book.add(key.clone(), installed().pins());
    let mut now = installed().file(&format!("{SITE}/mcp/__init__.py"), "patched");
    for package in &mut now.packages {
        package.writers = Writers::Root;
    }
    let verdict = book.compare(
        &key,
        book.accepted(&key),
        now.files(),
        Pinning::default(),
        Mode::Enforce,
    );
    (verdict.action, verdict.is_accepted_upgrade())
}

#[test_case(0o644, "one", 0o755, "one" => true; "executable now")]
#[test_case(0o644, "one", 0o600, "one" => true; "readable by its owner alone")]
#[test_case(0o755, "one", 0o4755, "one" => false; "with the rights of its owner")]
#[test_case(0o644, "one", 0o644, "two" => false; "another content")]
fn permissions(before: u16, content: &str, now: u16, content_now: &str) -> bool {
    let file = |mode, content: &str| ManifestEntry::File {
        mode,
        digest: Digest::of(content.as_bytes()),
    };
    change::has_same_content(&file(before, content), &file(now, content_now))
}

/// The daemon names the package manager that it saw run.
#[test_case(7, "pip install mcp", &dependency("mcp", "1.31.0", Consistent) => "it changed since it was pinned: dependency mcp 1.30.0 → 1.31.0 (`pip install` ran 3 min before)"; "by the user")]
#[test_case(0, "uv pip sync x", &dependency("mcp", "1.31.0", Consistent) => "it changed since it was pinned: dependency mcp 1.30.0 → 1.31.0 (`uv pip sync` ran 3 min before)"; "by root")]
#[test_case(8, "pip install mcp", &dependency("mcp", "1.31.0", Consistent) => "it changed since it was pinned: dependency mcp 1.30.0 → 1.31.0"; "by another user")]
#[test_case(7, "npm install mcp", &dependency("mcp", "1.31.0", Consistent) => "it changed since it was pinned: dependency mcp 1.30.0 → 1.31.0"; "of other packages")]
#[test_case(7, "pip install mcp", &dependency("mcp", "1.30.0", Contradicts).file(&format!("{SITE}/mcp/__init__.py"), "evil") =>
    "it changed since it was pinned: files of mcp 1.30.0 contradict the record of its package manager (changed lib/python3.11/site-packages/mcp/__init__.py)"; "of tampered files")]
fn a_package_manager_that_ran(uid: u32, line: &str, now: &Installed) -> String {
    const MINUTE: i64 = 60_000_000_000;
    let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let mut runs = InstallerRuns::default();
    runs.note(Timestamp(0), uid, &argv);
    let mut verdict = judge(&[installed()], now, Pinning::default());
    verdict.installer = runs.explain(Timestamp(3 * MINUTE), 7, &verdict, &now.files());
    verdict.cause()
}
