//! Starts of files that are pinned for another way to start them, under another id, or in another place.

use mcpmon_model::{
    PackageRole, PinKey,
    RecordState::{Consistent, Contradicts},
};
use test_case::test_case;

use super::{
    update_tests::{Installed, SITE, dependency, installed, own_script},
    *,
};

/// A package can be started by its command and as a module.
#[test_case("1.30.0", "weather" => (PinState::Pinned, Action::Allow); "as it is pinned")]
#[test_case("evil", "weather" => (PinState::Mismatch, Action::Block); "changed")]
#[test_case("evil", "other" => (PinState::Mismatch, Action::Block); "changed, under another id")]
fn a_package_that_is_started_in_another_way(content: &str, server: &str) -> (PinState, Action) {
    let key = |server: &str, name: &str| PinKey {
        server: ServerId::new(server).expect("an id"),
        name: name.to_owned(),
        uid: 1000,
    };
    let mut book = PinBook::default();
    book.add(key("weather", "mcp-weather"), installed().pins());
    let by_module = key(server, "mcp_weather.server");
    assert_eq!(book.knows(&by_module), server == "weather");
    let now = installed().file(&format!("{SITE}/mcp/__init__.py"), content);
    let actual = ServerFiles {
        script: None,
        ..now.files()
    };
    let verdict = book.compare(
        &by_module,
        book.accepted(&by_module),
        actual,
        Pinning::default(),
        Mode::Enforce,
    );
    (verdict.state, verdict.action)
}

/// A client can give a server a new name, and whoever can write a directory can name a package there.
#[test_case("pypi:weather", &installed() => (PinState::Pinned, String::new()); "the same files")]
#[test_case("pypi:weather", &installed().package("weather", "1.3.0", PackageRole::Own, Consistent) =>
    (PinState::Mismatch, "package weather 1.2.0 → 1.3.0".to_owned()); "another version")]
#[test_case("pypi:weather", &installed().package("weather", "1.2.0", PackageRole::Own, Contradicts).file(&format!("{SITE}/weather/__init__.py"), "evil") =>
    (PinState::Mismatch, "files of weather 1.2.0 contradict the record of its package manager (changed lib/python3.11/site-packages/weather/__init__.py)".to_owned()); "an imitation")]
#[test_case("pypi:weather", &dependency("mcp", "1.31.0", Consistent) => (PinState::Pinned, String::new()); "with another dependency")]
#[test_case("pypi:other", &installed().package("weather", "1.3.0", PackageRole::Own, Consistent) => (PinState::Pinned, String::new()); "another package")]
#[test_case("program:weather", &installed().package("weather", "1.3.0", PackageRole::Own, Consistent) => (PinState::Pinned, String::new()); "no package of a registry")]
fn a_package_in_another_place_under_another_id(package: &str, now: &Installed) -> (PinState, String) {
    let key = |server: &str, package: &str| PinKey {
        server: ServerId::new(server).expect("an id"),
        name: package.to_owned(),
        uid: 1000,
    };
    let in_place = |files: ServerFiles, place: &str| ServerFiles {
        script: None,
        package: files.package.map(|package| match package {
            Part::Hashed(package) => Part::Hashed(PinnedPackage::new(
                PathBuf::from(place),
                package.manifest().clone(),
            )),
            unknown @ Part::Unknown { .. } => unknown,
        }),
        ..files
    };
    let pinned = Pins::try_from(in_place(installed().files(), "/venv")).expect("everything is hashed");
    let mut book = PinBook::default();
    let known = match package {
        "program:weather" => package,
        _ => "pypi:weather",
    };
    book.add(key("weather", known), pinned);
    let new = key("new", package);
    let verdict = book.compare(
        &new,
        book.accepted(&new),
        in_place(now.files(), "/tmp/evil"),
        Pinning::default(),
        Mode::Enforce,
    );
    (verdict.state, verdict.causes())
}

/// A package that is pinned by its command is started as a module, from a copy elsewhere, under its own id.
#[test_case(&installed() => PinState::Pinned; "the same code")]
#[test_case(&installed().file(&format!("{SITE}/weather/__init__.py"), "evil") => PinState::Mismatch; "other code")]
fn a_copy_that_is_started_in_another_way(now: &Installed) -> PinState {
    let key = PinKey {
        server: ServerId::new("weather").expect("an id"),
        name: "pypi:weather".to_owned(),
        uid: 1000,
    };
    let mut book = PinBook::default();
    book.add(key.clone(), installed().pins());
    let actual = ServerFiles {
        script: None,
        package: Some(Part::Hashed(PinnedPackage::new(
            PathBuf::from("/tmp/copy"),
            now.manifest(),
        ))),
        ..now.files()
    };
    let verdict = book.compare(
        &key,
        book.accepted(&key),
        actual,
        Pinning::default(),
        Mode::Enforce,
    );
    verdict.state
}

#[test]
fn two_scripts_of_one_directory_are_two_servers() {
    let key = |name: &str| PinKey {
        server: ServerId::new("a").expect("an id"),
        name: name.to_owned(),
        uid: 1000,
    };
    let plain = |content: &str| own_script(content, None);
    let mut book = PinBook::default();
    book.add(key("/srv/other.py"), plain("one").pins());
    let actual = plain("two").files();
    let actual = ServerFiles {
        script: Some(Part::Hashed(PinnedFile {
            path: "/srv/second.py".into(),
            digest: Digest::of(b"two"),
        })),
        ..actual
    };
    let second = key("/srv/second.py");
    let verdict = book.compare(
        &second,
        book.accepted(&second),
        actual,
        Pinning::default(),
        Mode::Enforce,
    );
    assert_eq!(verdict.state, PinState::Pinned);
}
