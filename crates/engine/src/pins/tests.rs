//! The matrix of pins and files, every cell.

use std::collections::BTreeMap;

use mcpmon_model::{ManifestEntry, PinKey};
use mcpmon_policy::FileChanges;
use test_case::{test_case, test_matrix};

use super::*;

fn file(content: &str) -> PinnedFile {
    PinnedFile {
        path: PathBuf::from("/srv").join(content),
        digest: Digest::of(content.as_bytes()),
    }
}

fn package(content: &str) -> PinnedPackage {
    let mut manifest = Manifest::default();
    manifest.insert(
        b"index.js",
        ManifestEntry::File {
            mode: 0o644,
            digest: Digest::of(content.as_bytes()),
        },
    );
    PinnedPackage::new(PathBuf::from("/srv/package"), manifest)
}

fn unknown<T>() -> Part<T> {
    Part::Unknown {
        path: PathBuf::from("/srv/huge"),
        cause: "over 50000 files".to_owned(),
    }
}

fn pins() -> Pins {
    Pins {
        executable: file("node"),
        script: Some(file("main")),
        package: Some(package("one").into()),
        launcher: None,
    }
}

/// The verdict where these sets are accepted, the newest last.
fn judge(sets: &[Pins], actual: ServerFiles, policy: Pinning, mode: Mode) -> PinVerdict {
    let sets: BTreeMap<u32, Pins> = (1..).zip(sets.iter().cloned()).collect();
    let accepted = if sets.is_empty() {
        AcceptedSets::Nothing
    } else {
        AcceptedSets::Sets(&sets)
    };
    compare(accepted, actual, policy, mode)
}

fn files() -> ServerFiles {
    ServerFiles {
        executable: Part::Hashed(file("node")),
        executable_writers: Writers::Root,
        script: Some(Part::Hashed(file("main"))),
        package: Some(Part::Hashed(package("one"))),
        launcher: None,
        generated_script: None,
    }
}

fn policy(on_change: OnChange, auto_trust_first: bool) -> Pinning {
    Pinning {
        enabled: true,
        on_change,
        auto_trust_first,
        files: FileChanges::default(),
    }
}

fn expected_on_change(on_change: OnChange, mode: Mode) -> Action {
    match (on_change, mode) {
        (OnChange::Block, Mode::Enforce) => Action::Block,
        (OnChange::Block, Mode::Observe) => Action::WouldBlock,
        (OnChange::Alert, _) => Action::Audit,
        (OnChange::Allow, _) => Action::Allow,
    }
}

/// The files of one row of the matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Files {
    Same,
    Changed,
    Unknown,
    ChangedAndUnknown,
}

impl Files {
    fn build(self) -> ServerFiles {
        match self {
            Self::Same => files(),
            Self::Changed => ServerFiles {
                executable: Part::Hashed(file("other")),
                ..files()
            },
            Self::Unknown => ServerFiles {
                package: Some(unknown()),
                ..files()
            },
            Self::ChangedAndUnknown => ServerFiles {
                executable: Part::Hashed(file("other")),
                ..Self::Unknown.build()
            },
        }
    }
}

#[test_matrix(
    [None, Some(pins())],
    [Files::Same, Files::Changed, Files::Unknown, Files::ChangedAndUnknown],
    [OnChange::Block, OnChange::Alert, OnChange::Allow],
    [true, false],
    [Mode::Enforce, Mode::Observe]
)]
fn the_whole_matrix(
    pins: Option<Pins>,
    files: Files,
    on_change: OnChange,
    auto_trust_first: bool,
    mode: Mode,
) {
    let verdict = judge(
        pins.as_slice(),
        files.build(),
        policy(on_change, auto_trust_first),
        mode,
    );
    let unknown = matches!(files, Files::Unknown | Files::ChangedAndUnknown);
    let refused = expected_on_change(on_change, mode);
    let expected = match (pins.is_some(), files) {
        (false, _) if unknown && auto_trust_first => (PinState::Unknown, Action::Audit),
        (false, _) if unknown => (PinState::Unknown, refused),
        (false, _) if auto_trust_first => (PinState::Pinned, Action::Allow),
        (false, _) => (PinState::NotPinned, refused),
        (true, Files::Same) => (PinState::Match, Action::Allow),
        (true, Files::Unknown) => (PinState::Unknown, refused),
        (true, Files::Changed | Files::ChangedAndUnknown) => (PinState::Mismatch, refused),
    };
    assert_eq!((verdict.state, verdict.action), expected);
    assert_eq!(verdict.store.is_some(), verdict.state == PinState::Pinned);
    assert_eq!(verdict.mismatches.is_empty(), verdict.state != PinState::Mismatch);
    assert_eq!(verdict.unhashed.is_empty(), !unknown);
}

#[test_matrix([None, Some(pins())], [OnChange::Block, OnChange::Alert, OnChange::Allow])]
fn switched_off_compares_nothing(pins: Option<Pins>, on_change: OnChange) {
    let policy = Pinning {
        enabled: false,
        ..policy(on_change, true)
    };
    let verdict = judge(
        pins.as_slice(),
        Files::ChangedAndUnknown.build(),
        policy,
        Mode::Enforce,
    );
    assert_eq!(verdict, PinVerdict::of(PinState::Off, Action::Allow));
}

#[test]
fn first_sight_pins_what_was_seen() {
    let verdict = judge(&[], files(), Pinning::default(), Mode::Enforce);
    let new = NewPins {
        pins: pins(),
        ground: AcceptanceGround::FirstUse,
    };
    assert_eq!(verdict.store, Some(new));
    let again = judge(&[pins()], files(), Pinning::default(), Mode::Enforce);
    assert_eq!(again.state, PinState::Match);
}

#[test]
fn a_move_is_no_difference() {
    let moved = PinnedFile {
        path: PathBuf::from("/elsewhere/node"),
        ..file("node")
    };
    let actual = ServerFiles {
        executable: Part::Hashed(moved),
        ..files()
    };
    assert_eq!(
        judge(&[pins()], actual, Pinning::default(), Mode::Enforce).state,
        PinState::Match
    );
}

#[test_case(Pins { executable: file("old"), ..pins() }, files() => vec![(PinPart::Executable, true, true)]; "executable changed")]
#[test_case(Pins { script: Some(file("old")), ..pins() }, files() => vec![(PinPart::Script, true, true)]; "script changed")]
#[test_case(Pins { script: None, ..pins() }, files() => vec![(PinPart::Script, false, true)]; "script appeared")]
#[test_case(pins(), ServerFiles { script: None, ..files() } => vec![(PinPart::Script, true, false)]; "script vanished")]
#[test_case(Pins { package: Some(package("two").into()), ..pins() }, files() => vec![(PinPart::Package, true, true)]; "package changed")]
#[test_case(Pins { package: None, ..pins() }, files() => vec![(PinPart::Package, false, true)]; "package appeared")]
#[test_case(pins(), ServerFiles { package: None, ..files() } => vec![(PinPart::Package, true, false)]; "package vanished")]
#[test_case(Pins { script: None, package: None, ..pins() }, ServerFiles { script: None, package: None, ..files() } => vec![]; "a plain binary")]
fn the_part_is_named(pins: Pins, actual: ServerFiles) -> Vec<(PinPart, bool, bool)> {
    judge(&[pins], actual, Pinning::default(), Mode::Enforce)
        .mismatches
        .into_iter()
        .map(|mismatch| {
            (
                mismatch.part,
                mismatch.expected.is_some(),
                mismatch.actual.is_some(),
            )
        })
        .collect()
}

#[test]
fn a_changed_package_names_its_files() {
    let actual = ServerFiles {
        package: Some(Part::Hashed(package("two"))),
        ..files()
    };
    let verdict = judge(&[pins()], actual, Pinning::default(), Mode::Enforce);
    assert_eq!(
        verdict.mismatches,
        [PinMismatch {
            part: PinPart::Package,
            path: PathBuf::from("/srv/package"),
            pinned_path: Some(PathBuf::from("/srv/package")),
            expected: Some(package("one").digest()),
            actual: Some(package("two").digest()),
            changed_files: vec!["changed index.js".to_owned()],
            changes: vec![FileChange {
                cause: ChangeCause::Unknown,
                text: "changed files: changed index.js".to_owned(),
            }],
            ground: None,
        }]
    );
    assert_eq!(
        verdict.cause(),
        "its package (changed index.js) changed since it was pinned"
    );
}

#[test_case(ServerFiles { executable: Part::Hashed(file("other")), ..files() } => Some("weather: executable /srv/other is d9298a10d1b0, pinned is 545ea5384610; if this is expected, run `mcpmon pins trust --server weather`, then start it again".to_owned()); "changed")]
#[test_case(ServerFiles { script: None, ..files() } => Some("weather: its pinned script /srv/main is gone; if this is expected, run `mcpmon pins trust --server weather`, then start it again".to_owned()); "gone")]
#[test_case(ServerFiles { package: Some(unknown()), ..files() } => Some("weather: package /srv/huge could not be hashed: over 50000 files; remove the cause and start it again, or set `mcp.version_pinning.on_change: alert`".to_owned()); "unknown")]
#[test_case(ServerFiles { executable: Part::Unknown { path: "".into(), cause: "the process is gone".to_owned() }, ..files() } => Some("weather: executable could not be hashed: the process is gone; remove the cause and start it again, or set `mcp.version_pinning.on_change: alert`".to_owned()); "nothing known")]
#[test_case(Files::ChangedAndUnknown.build() => Some("weather: executable /srv/other is d9298a10d1b0, pinned is 545ea5384610; package /srv/huge could not be hashed: over 50000 files; remove the cause and start it again, or set `mcp.version_pinning.on_change: alert`".to_owned()); "changed and unknown")]
#[test_case(files() => None; "equal")]
fn the_reason_says_what_and_how_to_go_on(actual: ServerFiles) -> Option<String> {
    let server = ServerId::new("weather").expect("a valid id");
    judge(&[pins()], actual, Pinning::default(), Mode::Enforce).reason(&server)
}

#[test]
fn any_accepted_set_matches_and_a_difference_is_told_against_the_nearest() {
    let minor = |content: &str| Pins {
        executable: file(content),
        ..pins()
    };
    let far = Pins {
        executable: file("far"),
        script: Some(file("far")),
        package: Some(package("far").into()),
        launcher: None,
    };
    let verdict = |sets: &[Pins]| judge(sets, files(), Pinning::default(), Mode::Enforce);
    assert_eq!(
        verdict(&[pins(), far.clone(), minor("3.13")]).state,
        PinState::Match
    );
    let nearest = verdict(&[minor("3.12"), minor("3.13"), far]);
    let expected: Vec<_> = nearest
        .mismatches
        .iter()
        .map(|mismatch| mismatch.expected)
        .collect();
    assert_eq!(
        expected,
        [Some(file("3.13").digest)],
        "the newest of the two that differ in one part"
    );
}

#[test_case(true => (PinState::Unknown, Action::Audit); "trusting")]
#[test_case(false => (PinState::NotPinned, Action::Block); "not trusting")]
fn without_room_nothing_is_pinned(auto_trust_first: bool) -> (PinState, Action) {
    let policy = policy(OnChange::Block, auto_trust_first);
    let verdict = compare(
        AcceptedSets::NoRoom(PinsFull::Host),
        files(),
        policy,
        Mode::Enforce,
    );
    assert_eq!(verdict.store, None);
    (verdict.state, verdict.action)
}

#[test]
fn without_its_manifest_a_package_is_still_compared() {
    let changed = ServerFiles {
        package: Some(Part::Hashed(package("two"))),
        ..files()
    };
    let verdict = judge(
        &[pins().with_manifest_within(0)],
        changed,
        Pinning::default(),
        Mode::Enforce,
    );
    assert_eq!(verdict.state, PinState::Mismatch);
    assert_eq!(verdict.mismatches[0].changed_files, [""; 0]);
}

/// A start whose interpreter differs from its pin.
#[derive(Clone, Copy)]
struct Upgrade {
    path: &'static str,
    writers: Writers,
    script: Option<&'static str>,
    package: Option<&'static str>,
    on_change: OnChange,
    mode: Mode,
}

const UPGRADE: Upgrade = Upgrade {
    path: "/usr/bin/node",
    writers: Writers::Root,
    script: Some("main"),
    package: Some("one"),
    on_change: OnChange::Block,
    mode: Mode::Enforce,
};

impl Upgrade {
    /// The verdict; what is pinned has a part exactly where the start has one.
    fn judge(self) -> PinVerdict {
        let interpreter = |path: &str, content: &str| PinnedFile {
            path: PathBuf::from(path),
            digest: Digest::of(content.as_bytes()),
        };
        let pinned = Pins {
            executable: interpreter("/usr/bin/node", "node 18"),
            script: self.script.map(|_| file("main")),
            package: self.package.map(|_| package("one").into()),
            launcher: None,
        };
        let actual = ServerFiles {
            executable: Part::Hashed(interpreter(self.path, "node 20")),
            executable_writers: self.writers,
            script: self.script.map(|content| Part::Hashed(file(content))),
            package: self.package.map(|content| match content {
                "unknown" => unknown(),
                content => Part::Hashed(package(content)),
            }),
            ..files()
        };
        judge(&[pinned], actual, policy(self.on_change, true), self.mode)
    }
}

#[test_case(UPGRADE => (Action::Audit, true); "script and package are as pinned")]
#[test_case(Upgrade { package: None, ..UPGRADE } => (Action::Audit, true); "a script alone")]
#[test_case(Upgrade { script: None, ..UPGRADE } => (Action::Audit, true); "a package alone")]
#[test_case(Upgrade { mode: Mode::Observe, ..UPGRADE } => (Action::Audit, true); "observing")]
#[test_case(Upgrade { on_change: OnChange::Alert, ..UPGRADE } => (Action::Audit, true); "alerting")]
#[test_case(Upgrade { on_change: OnChange::Allow, ..UPGRADE } => (Action::Allow, false); "allowing keeps the pins")]
#[test_case(Upgrade { writers: Writers::Others, ..UPGRADE } => (Action::Block, false); "others can write it")]
#[test_case(Upgrade { path: "/opt/node/bin/node", ..UPGRADE } => (Action::Block, false); "another file")]
#[test_case(Upgrade { script: None, package: None, ..UPGRADE } => (Action::Block, false); "a program of its own")]
#[test_case(Upgrade { script: Some("other"), ..UPGRADE } => (Action::Block, false); "the script differs too")]
#[test_case(Upgrade { package: Some("two"), ..UPGRADE } => (Action::Block, false); "the package differs too")]
#[test_case(Upgrade { package: Some("unknown"), ..UPGRADE } => (Action::Block, false); "the package is not known")]
fn an_upgraded_interpreter(upgrade: Upgrade) -> (Action, bool) {
    let verdict = upgrade.judge();
    assert_eq!(verdict.state, PinState::Mismatch);
    assert_eq!(verdict.is_accepted_upgrade(), verdict.store.is_some());
    (verdict.action, verdict.store.is_some())
}

#[test]
fn an_upgrade_is_accepted_with_everything_else_as_it_was_pinned() {
    let new = UPGRADE.judge().store.expect("accepted");
    let executable = PinnedFile {
        path: PathBuf::from("/usr/bin/node"),
        digest: Digest::of(b"node 20"),
    };
    assert_eq!(
        new,
        NewPins {
            pins: Pins { executable, ..pins() },
            ground: AcceptanceGround::SystemUpgrade,
        }
    );
    let server = ServerId::new("weather").expect("a valid id");
    let reason = UPGRADE.judge().reason(&server).expect("it is told");
    assert!(
        reason.contains("only root can have changed it") && reason.contains("pins reset --server weather"),
        "{reason}"
    );
}

#[test_case(files(), true => (PinState::Match, false); "a known set")]
#[test_case(Files::Changed.build(), true => (PinState::Pinned, true); "another set")]
#[test_case(Files::Unknown.build(), true => (PinState::Unknown, false); "a part unknown")]
#[test_case(Files::Changed.build(), false => (PinState::NotPinned, false); "without trust on first use")]
fn the_launch_that_pinned_first_may_add_sets(actual: ServerFiles, trusting: bool) -> (PinState, bool) {
    let sets = BTreeMap::from([(1, pins())]);
    let accepted = AcceptedSets::Sets(&sets).for_first_launch();
    let verdict = compare(accepted, actual, policy(OnChange::Block, trusting), Mode::Enforce);
    (verdict.state, verdict.store.is_some())
}

#[test]
fn the_launch_that_pinned_first_fills_no_more_than_the_room() {
    let last = u32::try_from(PinBook::MAX_SETS).expect("small");
    let sets: BTreeMap<u32, Pins> = (1..=last).map(|number| (number, pins())).collect();
    let accepted = AcceptedSets::Sets(&sets).for_first_launch();
    let verdict = compare(
        accepted,
        Files::Changed.build(),
        Pinning::default(),
        Mode::Enforce,
    );
    assert_eq!(
        (verdict.state, verdict.action),
        (PinState::Mismatch, Action::Block)
    );
}

/// A start by a launcher, or by none.
fn started_by(path: Option<&str>, content: &str, writers: Writers) -> ServerFiles {
    ServerFiles {
        launcher: path.map(|path| LauncherFiles {
            file: Part::Hashed(launcher(path, content)),
            writers,
            is_known: path.ends_with("npx") || path.ends_with("bunx"),
        }),
        ..files()
    }
}

fn launcher(path: &str, content: &str) -> PinnedFile {
    PinnedFile {
        path: PathBuf::from(path),
        digest: Digest::of(content.as_bytes()),
    }
}

/// The pinned files, started by npx before, or by no launcher.
fn by_npx(is_by_npx: bool) -> Pins {
    Pins {
        launcher: is_by_npx.then(|| launcher("/usr/bin/npx", "npx")),
        ..pins()
    }
}

#[test_case(true, Some("/usr/bin/npx"), "npx", Writers::Others => (PinState::Match, Action::Allow, None); "the pinned one")]
#[test_case(true, Some("/opt/npx"), "npx", Writers::Others => (PinState::Match, Action::Allow, None); "the same elsewhere")]
#[test_case(true, None, "", Writers::Others => (PinState::Match, Action::Allow, None); "none")]
#[test_case(true, Some("/usr/bin/npx"), "other", Writers::Others => (PinState::Mismatch, Action::Block, None); "it changed")]
#[test_case(true, Some("/usr/bin/npx"), "other", Writers::Root => (PinState::Mismatch, Action::Audit, Some(AcceptanceGround::SystemUpgrade)); "root changed it")]
#[test_case(true, Some("/home/me/bin/npx"), "planted", Writers::Root => (PinState::Mismatch, Action::Block, None); "one before it on PATH")]
#[test_case(true, Some("/usr/bin/bunx"), "bunx", Writers::Others => (PinState::Match, Action::Allow, Some(AcceptanceGround::NewLauncher)); "another launcher")]
#[test_case(false, Some("/usr/bin/npx"), "npx", Writers::Others => (PinState::Match, Action::Allow, Some(AcceptanceGround::NewLauncher)); "a first launcher")]
#[test_case(false, Some("/home/me/bin/python3"), "#!/bin/sh", Writers::Root => (PinState::Mismatch, Action::Block, None); "a script in the place of the interpreter")]
#[test_case(false, Some("/home/me/bin/server"), "#!/bin/sh", Writers::Others => (PinState::Mismatch, Action::Block, None); "a script in the place of the server")]
fn launchers(
    is_by_npx: bool,
    path: Option<&str>,
    content: &str,
    writers: Writers,
) -> (PinState, Action, Option<AcceptanceGround>) {
    let actual = started_by(path, content, writers);
    let verdict = judge(
        &[by_npx(is_by_npx)],
        actual.clone(),
        Pinning::default(),
        Mode::Enforce,
    );
    if let Some(launcher) = &actual.launcher {
        let sets = BTreeMap::from([(1, by_npx(is_by_npx))]);
        let before = compare_launcher(
            AcceptedSets::Sets(&sets),
            launcher,
            Pinning::default(),
            Mode::Enforce,
        );
        assert_eq!((before.state, before.action), (verdict.state, verdict.action));
        assert_eq!(before.mismatches, verdict.mismatches);
    }
    (verdict.state, verdict.action, verdict.store.map(|new| new.ground))
}

/// Earlier versions pinned mcpmon's shims.
#[test_case("/run/user/1000/mcpmon-shims-15742-0/npx"; "of a session")]
#[test_case("/home/me/.local/share/mcpmon/shims/npx"; "installed")]
fn a_pinned_shim_is_no_launcher(shim: &str) {
    let by_shim = |shim| Pins {
        launcher: Some(launcher(shim, "mcpmon")),
        ..pins()
    };
    let actual = started_by(Some("/usr/bin/npx"), "npx", Writers::Others);
    let compared = |pins: Pins| judge(&[pins], actual.clone(), Pinning::default(), Mode::Enforce);
    let verdict = compared(by_shim(shim));
    assert_eq!(
        (verdict.state, verdict.store.map(|new| new.ground)),
        (PinState::Match, Some(AcceptanceGround::NewLauncher))
    );
    let other = compared(by_shim("/home/me/mcpmon-shims-x/npx"));
    assert_eq!((other.state, other.action), (PinState::Mismatch, Action::Block));
    let program = Pins {
        executable: launcher(shim, "mcpmon"),
        ..pins()
    };
    assert_eq!(compared(program).state, PinState::Pinned);
}

#[test_case(Files::Same => (PinState::Match, Action::Allow, false))]
#[test_case(Files::Changed => (PinState::Mismatch, Action::Block, false))]
#[test_case(Files::Unknown => (PinState::Unknown, Action::Audit, true))]
#[test_case(Files::ChangedAndUnknown => (PinState::Mismatch, Action::Block, false))]
fn a_server_that_ended_uncompared_was_not_refused(files: Files) -> (PinState, Action, bool) {
    let verdict = judge(&[pins()], files.build(), Pinning::default(), Mode::Enforce).for_ended();
    (verdict.state, verdict.action, verdict.ended)
}

#[test]
fn a_launcher_excuses_no_other_difference() {
    let actual = ServerFiles {
        script: Some(Part::Hashed(file("other"))),
        ..started_by(Some("/usr/bin/npx"), "npx", Writers::Root)
    };
    let verdict = judge(&[by_npx(false)], actual, Pinning::default(), Mode::Enforce);
    assert_eq!((verdict.action, verdict.store), (Action::Block, None));
}

#[test]
fn without_trust_at_first_use_another_launcher_is_not_pinned() {
    let actual = started_by(Some("/usr/bin/npx"), "npx", Writers::Root);
    let verdict = judge(
        &[by_npx(false)],
        actual,
        policy(OnChange::Block, false),
        Mode::Enforce,
    );
    assert_eq!(
        (verdict.state, verdict.action),
        (PinState::NotPinned, Action::Block)
    );
}

#[test]
fn a_launcher_that_is_not_pinned_is_named() {
    let actual = started_by(Some("/home/me/bin/python3"), "#!/bin/sh", Writers::Others);
    let server = ServerId::new("weather").expect("a valid id");
    let reason = judge(&[pins()], actual, Pinning::default(), Mode::Enforce).reason(&server);
    let reason = reason.expect("it is refused");
    assert!(
        reason.contains("it has a launcher /home/me/bin/python3 that is not pinned"),
        "{reason}"
    );
}

/// A client can call a server by any name, so files that changed under one id are no first use under another.
#[test_case("one", "/srv" => (PinState::Pinned, Action::Allow); "the same files")]
#[test_case("two", "/srv" => (PinState::Mismatch, Action::Block); "changed files")]
#[test_case("two", "/home" => (PinState::Pinned, Action::Allow); "another server elsewhere")]
fn files_that_are_pinned_under_another_id(content: &str, place: &str) -> (PinState, Action) {
    let key = |server: &str| PinKey {
        server: ServerId::new(server).expect("an id"),
        name: "@a/notes".to_owned(),
        uid: 1000,
    };
    let mut pinned = pins();
    pinned.script = pinned.script.map(|script| PinnedFile {
        path: PathBuf::from(place).join("main"),
        ..script
    });
    let mut book = PinBook::default();
    book.add(key("notes"), pinned);
    let other = key("other");
    let accepted = book.accepted(&other);
    let actual = ServerFiles {
        package: Some(Part::Hashed(package(content))),
        ..files()
    };
    let verdict = book.compare(
        &other,
        accepted,
        actual,
        policy(OnChange::Block, true),
        Mode::Enforce,
    );
    (verdict.state, verdict.action)
}

#[test]
fn another_interpreter_or_launcher_under_another_id_is_no_change() {
    let key = |server: &str| PinKey {
        server: ServerId::new(server).expect("an id"),
        name: "@a/notes".to_owned(),
        uid: 1000,
    };
    let mut book = PinBook::default();
    book.add(
        key("notes"),
        Pins {
            executable: file("python3.11"),
            launcher: Some(file("uvx")),
            ..pins()
        },
    );
    let other = key("other");
    let accepted = book.accepted(&other);
    let verdict = book.compare(
        &other,
        accepted,
        files(),
        policy(OnChange::Block, true),
        Mode::Enforce,
    );
    assert_eq!((verdict.state, verdict.action), (PinState::Pinned, Action::Allow));
}
