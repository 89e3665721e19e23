//! Every way in which Node packages are installed, built by hand.

use std::fs;

use mcpmon_model::{PackageRole, RecordState};
use test_case::test_case;

use super::*;
use crate::fixture::{Fixture, paths};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// An npx cache: the server depends on `a` and `b`; `b` has its own older `a`; nothing depends on `stray`.
fn npx_cache(home: &str) -> std::io::Result<(Fixture, String)> {
    let modules = format!("{home}/.npm/_npx/0a1b/node_modules");
    let fixture = Fixture::new()?;
    for (path, content) in [
        (
            "@scope/server/package.json",
            r#"{"name": "@scope/server", "dependencies": {"a": "2", "b": "1"}}"#,
        ),
        ("@scope/server/dist/index.js", "main"),
        ("a/package.json", r#"{"name": "a", "version": "2.0.0"}"#),
        ("a/index.js", "a two"),
        (
            "b/package.json",
            r#"{"name": "b", "dependencies": {"a": "1"}, "optionalDependencies": {"fsevents": "2"}}"#,
        ),
        ("b/index.js", "b"),
        (
            "b/node_modules/a/package.json",
            r#"{"name": "a", "version": "1.0.0"}"#,
        ),
        ("b/node_modules/a/index.js", "a one"),
        ("stray/index.js", "stray"),
    ] {
        fixture.write(&format!("{modules}/{path}"), content)?;
    }
    fixture.link(
        "../@scope/server/dist/index.js",
        &format!("{modules}/.bin/server"),
    )?;
    Ok((fixture, modules))
}

#[test]
fn npx_two_versions_of_one_package() -> Outcome {
    let (fixture, modules) = npx_cache("/home/me")?;
    let (root, manifest) = fixture.node_package(&format!("{modules}/.bin/server"))?;
    assert_eq!(root, Path::new(&format!("{modules}/@scope/server")));
    assert_eq!(
        paths(&manifest),
        [
            "node_modules/@scope/server/dist/index.js",
            "node_modules/@scope/server/package.json",
            "node_modules/a/index.js",
            "node_modules/a/package.json",
            "node_modules/b/index.js",
            "node_modules/b/node_modules/a/index.js",
            "node_modules/b/node_modules/a/package.json",
            "node_modules/b/package.json",
        ]
    );
    Ok(())
}

#[test]
fn two_clean_installations_are_equal() -> Outcome {
    let (one, modules_one) = npx_cache("/home/me")?;
    let (two, modules_two) = npx_cache("/srv/another/home")?;
    two.write(&format!("{modules_two}/.package-lock.json"), "{}")?;
    let digest = |fixture: &Fixture, modules: &str| {
        fixture
            .node_package(&format!("{modules}/.bin/server"))
            .map(|(_, manifest)| manifest.digest())
    };
    assert_eq!(digest(&one, &modules_one)?, digest(&two, &modules_two)?);
    Ok(())
}

#[test_case("a/index.js", "a twp" => vec!["changed node_modules/a/index.js"]; "a dependency edited")]
#[test_case("b/node_modules/a/index.js", "a onf" => vec!["changed node_modules/b/node_modules/a/index.js"]; "a nested one edited")]
#[test_case("@scope/server/node_modules/a/index.js", "planted" => vec!["added node_modules/@scope/server/node_modules/a/index.js", "removed node_modules/a/index.js", "removed node_modules/a/package.json"]; "a nearer copy takes over")]
#[test_case("fsevents/index.js", "planted" => vec!["added node_modules/fsevents/index.js"]; "an optional one appears")]
#[test_case("stray/index.js", "strax" => Vec::<&str>::new(); "another's package")]
fn edits_are_seen(path: &str, content: &str) -> Vec<String> {
    let (fixture, modules) = npx_cache("/home/me").expect("a temporary tree");
    let script = format!("{modules}/.bin/server");
    let (_, before) = fixture.node_package(&script).expect("a small package");
    fixture
        .write(&format!("{modules}/{path}"), content)
        .expect("a temporary file");
    let (_, after) = fixture.node_package(&script).expect("a small package");
    Manifest::changes(&before, &after)
}

#[test]
fn a_global_installation_leaves_other_packages_out() -> Outcome {
    let fixture = Fixture::of(&[
        (
            "/usr/lib/node_modules/server/package.json",
            r#"{"name": "server", "dependencies": {"a": "1"}}"#,
        ),
        ("/usr/lib/node_modules/server/build/index.js", "main"),
        ("/usr/lib/node_modules/server/node_modules/a/index.js", "a"),
        ("/usr/lib/node_modules/npm/index.js", "npm"),
    ])?;
    fixture.link("../lib/node_modules/server/build/index.js", "/usr/bin/server")?;
    let (root, manifest) = fixture.node_package("/usr/bin/server")?;
    assert_eq!(root, Path::new("/usr/lib/node_modules/server"));
    assert_eq!(
        paths(&manifest),
        [
            "node_modules/server/build/index.js",
            "node_modules/server/node_modules/a/index.js",
            "node_modules/server/package.json",
        ]
    );
    Ok(())
}

#[test]
fn a_store_of_links_is_followed_and_its_links_count() -> Outcome {
    let fixture = Fixture::of(&[
        (
            "/d/node_modules/.pnpm/server@1/node_modules/server/package.json",
            r#"{"name": "server", "dependencies": {"a": "*"}}"#,
        ),
        (
            "/d/node_modules/.pnpm/server@1/node_modules/server/index.js",
            "main",
        ),
        ("/d/node_modules/.pnpm/a@1/node_modules/a/index.js", "one"),
        ("/d/node_modules/.pnpm/a@2/node_modules/a/index.js", "two"),
    ])?;
    fixture.link(".pnpm/server@1/node_modules/server", "/d/node_modules/server")?;
    let link = "/d/node_modules/.pnpm/server@1/node_modules/a";
    fixture.link("../../a@1/node_modules/a", link)?;
    let (_, before) = fixture.node_package("/d/node_modules/server/index.js")?;
    assert_eq!(
        paths(&before),
        [
            "node_modules/.pnpm/a@1/node_modules/a/index.js",
            "node_modules/.pnpm/server@1/node_modules/a",
            "node_modules/.pnpm/server@1/node_modules/server/index.js",
            "node_modules/.pnpm/server@1/node_modules/server/package.json",
        ]
    );
    fs::remove_file(fixture.outside(link))?;
    fixture.link("../../a@2/node_modules/a", link)?;
    let (_, after) = fixture.node_package("/d/node_modules/server/index.js")?;
    assert_eq!(
        Manifest::changes(&before, &after),
        [
            "removed node_modules/.pnpm/a@1/node_modules/a/index.js",
            "added node_modules/.pnpm/a@2/node_modules/a/index.js",
            "changed node_modules/.pnpm/server@1/node_modules/a",
        ]
    );
    Ok(())
}

#[test]
fn a_circle_of_dependencies_ends() -> Outcome {
    let fixture = Fixture::of(&[
        (
            "/d/node_modules/a/package.json",
            r#"{"name": "a", "dependencies": {"b": "1"}}"#,
        ),
        ("/d/node_modules/a/index.js", ""),
        (
            "/d/node_modules/b/package.json",
            r#"{"name": "b", "peerDependencies": {"a": "1", "b": "1"}}"#,
        ),
    ])?;
    let (_, manifest) = fixture.node_package("/d/node_modules/a")?;
    assert_eq!(manifest.len(), 3);
    Ok(())
}

#[test]
fn a_checkout_is_the_named_package_not_a_build_directory() -> Outcome {
    let fixture = Fixture::of(&[
        (
            "/home/me/src/server/package.json",
            r#"{"name": "server", "dependencies": {"a": "1"}}"#,
        ),
        (
            "/home/me/src/server/dist/esm/package.json",
            r#"{"type": "module"}"#,
        ),
        ("/home/me/src/server/dist/esm/index.js", "main"),
        ("/home/me/src/server/node_modules/a/index.js", "a"),
        ("/home/me/src/server/node_modules/tool/index.js", "tool"),
    ])?;
    let (root, manifest) = fixture.node_package("/home/me/src/server/dist/esm/index")?;
    assert_eq!(root, Path::new("/home/me/src/server"));
    assert_eq!(
        paths(&manifest),
        [
            "dist/esm/index.js",
            "dist/esm/package.json",
            "node_modules/a/index.js",
            "package.json"
        ]
    );
    Ok(())
}

#[test]
fn a_home_directory_is_never_a_package() -> Outcome {
    let fixture = Fixture::of(&[
        (
            "/home/me/package.json",
            r#"{"name": "home", "dependencies": {"a": "1"}}"#,
        ),
        ("/home/me/node_modules/a/index.js", "a"),
        ("/home/me/letters.txt", "private"),
        ("/home/me/bin/server.mjs", "import './other.mjs'"),
        ("/home/me/bin/other.mjs", "other"),
        ("/home/me/bin/notes.txt", "private"),
    ])?;
    let (root, manifest) = fixture.node_package("/home/me/bin/server.mjs")?;
    assert_eq!(root, Path::new("/home/me/bin"));
    assert_eq!(
        paths(&manifest),
        ["../node_modules/a/index.js", "other.mjs", "server.mjs"]
    );
    Ok(())
}

/// A directory of scripts: one imports a file, a directory, and a package that is not declared.
fn scripts() -> std::io::Result<Fixture> {
    Fixture::of(&[
        (
            "/srv/server.js",
            "require('./helper'); require('node:fs'); require('dep/part')",
        ),
        (
            "/srv/helper.js",
            "require('./lib'); require('./data.json'); require('../common/util.js')",
        ),
        ("/srv/lib/index.js", ""),
        ("/srv/data.json", "{}"),
        ("/common/util.js", ""),
        ("/srv/unrelated.js", ""),
        ("/srv/node_modules/dep/package.json", r#"{"name": "dep"}"#),
        ("/srv/node_modules/dep/index.js", ""),
        ("/srv/node_modules/stray/index.js", ""),
    ])
}

#[test]
fn a_script_has_what_it_imports_and_nothing_else_of_its_directory() -> Outcome {
    let (root, manifest) = scripts()?.node_package("/srv/server.js")?;
    assert_eq!(root, Path::new("/srv"));
    assert_eq!(
        paths(&manifest),
        [
            "../common/util.js",
            "data.json",
            "helper.js",
            "lib/index.js",
            "node_modules/dep/index.js",
            "node_modules/dep/package.json",
            "server.js",
        ]
    );
    Ok(())
}

#[test_case("/srv/new.js", "" => Vec::<&str>::new(); "a file that nothing imports")]
#[test_case("/srv/helper", "" => vec!["added helper"]; "a file in the place of one it imports")]
#[test_case("/srv/lib.js", "" => vec!["added lib.js"]; "a file in the place of a directory it imports")]
#[test_case("/srv/lib/index.js", "import('./new.js')" => vec!["changed lib/index.js"]; "an import of what is not there")]
#[test_case("/srv/lib/index.js", "require(name)" => vec!["changed lib/index.js", "added unrelated.js"]; "an import by a name that nobody can tell")]
#[test_case("/srv/node_modules/dep/more.js", "" => vec!["added node_modules/dep/more.js"]; "a file of a package it imports")]
fn edits_beside_a_script(path: &str, content: &str) -> Vec<String> {
    let fixture = scripts().expect("a temporary tree");
    let manifest = || fixture.node_package("/srv/server.js").expect("a small package").1;
    let before = manifest();
    fixture.write(path, content).expect("a temporary file");
    Manifest::changes(&before, &manifest())
}

#[test_case("../../etc")]
#[test_case("..")]
#[test_case("@scope/../../etc")]
#[test_case("@scope")]
#[test_case("/etc")]
#[test_case("a/b")]
#[test_case("")]
fn a_dependency_cannot_name_a_path(name: &str) {
    let description = serde_json::json!({"name": "p", "dependencies": {name: "1"}}).to_string();
    let fixture = Fixture::of(&[
        ("/d/node_modules/p/package.json", &description),
        ("/d/node_modules/p/index.js", ""),
        ("/d/node_modules/a/b/index.js", "not mine"),
        ("/etc/passwd", "not mine"),
    ])
    .expect("a temporary tree");
    let (_, manifest) = fixture
        .node_package("/d/node_modules/p")
        .expect("a small package");
    assert!(
        manifest.paths().all(|path| path.starts_with("node_modules/p/")),
        "{manifest:?}"
    );
}

#[test]
fn a_broken_description_declares_nothing() -> Outcome {
    let fixture = Fixture::of(&[
        ("/d/node_modules/p/package.json", "{"),
        ("/d/node_modules/p/index.js", ""),
    ])?;
    let (_, manifest) = fixture.node_package("/d/node_modules/p/index.js")?;
    assert_eq!(manifest.len(), 2);
    Ok(())
}

#[test_case("/d/file" => Some("/d/file.js".to_owned()); "an extension is added")]
#[test_case("/d/exact.js" => Some("/d/exact.js".to_owned()); "as it is")]
#[test_case("/d/main" => Some("/d/main/lib/start.js".to_owned()); "main of a directory")]
#[test_case("/d/index" => Some("/d/index/index.js".to_owned()); "index of a directory")]
#[test_case("/d/none" => None; "nothing")]
fn entry_files(path: &str) -> Option<String> {
    let fixture = Fixture::of(&[
        ("/d/file.js", ""),
        ("/d/exact.js", ""),
        ("/d/main/package.json", r#"{"main": "./lib/start"}"#),
        ("/d/main/lib/start.js", ""),
        ("/d/main/index.js", ""),
        ("/d/index/index.js", ""),
    ])
    .expect("a temporary tree");
    entry_file(fixture.root(), Path::new(path)).map(|found| found.display().to_string())
}

/// Returns the noted packages: name, version, role and record.
fn noted(files: &[(&str, &str)], script: &str) -> Vec<(String, String, PackageRole, RecordState)> {
    let fixture = Fixture::of(files).expect("a temporary tree");
    let (_, manifest) = fixture.node_package(script).expect("a small package");
    let notes = manifest.notes().expect("notes");
    let packages = notes.packages.iter();
    packages
        .map(|package| {
            (
                package.name.clone(),
                package.version.clone(),
                package.role,
                package.record,
            )
        })
        .collect()
}

const OWN: &str = r#"{"name": "own", "version": "1.0.0", "dependencies": {"part": "^2"}}"#;
const PART: &str = r#"{"name": "part", "version": "2.1.0"}"#;
const LOCKED: &str = r#"{"packages": {"node_modules/own": {"version": "1.0.0", "integrity": "sha512-AA=="},
    "node_modules/part": {"version": "2.1.0", "integrity": "sha512-BB=="}}}"#;

#[test_case(Some(LOCKED) => RecordState::Consistent; "in its lock file")]
#[test_case(Some(r#"{"packages": {"node_modules/own": {"version": "1.0.0"}, "node_modules/part": {"version": "2.0.0"}}}"#) => RecordState::Contradicts; "another version in its lock file")]
#[test_case(Some(r#"{"packages": {"node_modules/own": {"version": "1.0.0"}}}"#) => RecordState::Contradicts; "not in its lock file")]
#[test_case(Some("{") => RecordState::Missing; "a broken lock file")]
#[test_case(None => RecordState::Missing; "no lock file")]
fn records_of_npm(lock: Option<&str>) -> RecordState {
    let mut files = vec![
        ("/d/node_modules/own/package.json", OWN),
        ("/d/node_modules/own/index.js", ""),
        ("/d/node_modules/part/package.json", PART),
    ];
    files.extend(lock.map(|lock| ("/d/node_modules/.package-lock.json", lock)));
    let noted = noted(&files, "/d/node_modules/own/index.js");
    let roles: Vec<_> = noted
        .iter()
        .map(|(name, version, role, _)| (name.as_str(), version.as_str(), *role))
        .collect();
    assert_eq!(
        roles,
        [
            ("own", "1.0.0", PackageRole::Own),
            ("part", "2.1.0", PackageRole::Dependency)
        ]
    );
    noted[1].3
}

#[test]
fn a_checkout_is_an_own_source() {
    let fixture = Fixture::of(&[
        ("/home/me/p/.git/HEAD", "ref"),
        ("/home/me/p/package.json", OWN),
        ("/home/me/p/index.js", ""),
        ("/home/me/p/node_modules/part/package.json", PART),
        ("/home/me/p/node_modules/.package-lock.json", LOCKED),
    ])
    .expect("a temporary tree");
    let (_, manifest) = fixture
        .node_package("/home/me/p/index.js")
        .expect("a small package");
    let notes = manifest.notes().expect("notes");
    assert_eq!(notes.work_trees[0].path, "/home/me/p");
    let [part] = &notes.packages[..] else {
        panic!("{notes:?}")
    };
    assert_eq!(
        (
            part.name.as_str(),
            part.role,
            part.record,
            part.integrity.as_deref()
        ),
        (
            "part",
            PackageRole::Dependency,
            RecordState::Consistent,
            Some("sha512-BB==")
        )
    );
    assert_eq!(part.places, ["node_modules/part"]);
}
