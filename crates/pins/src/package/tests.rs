//! Tests of manifests: files that are included, left out or refused.

use std::{fs, os::unix::fs::PermissionsExt as _};

use test_case::test_case;

use mcpmon_model::ManifestNotes;

use super::*;
use crate::fixture::{Fixture, paths};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn collect(
    fixture: &Fixture,
    contents: DirectoryRole,
    limits: PackageLimits,
) -> Result<Manifest, PackageError> {
    let mut files = FileHasher::default();
    let mut collector = Collector::new(fixture.root(), &mut files, limits, &|| false, PathBuf::from("/p"));
    collector.add_directory(Path::new("/p"), contents)?;
    Ok(collector.finish(ManifestNotes::default()))
}

fn package() -> io::Result<Fixture> {
    let fixture = Fixture::of(&[
        ("/p/index.js", "main"),
        ("/p/lib/a.js", "a"),
        ("/p/lib/b.js", "b"),
    ])?;
    fixture.link("lib/a.js", "/p/link")?;
    fs::set_permissions(fixture.outside("/p/lib/a.js"), fs::Permissions::from_mode(0o644))?;
    Ok(fixture)
}

#[test_case(|fixture| fixture.write("/p/lib/a.js", "b") => vec!["changed lib/a.js"]; "one byte")]
#[test_case(|fixture| fs::set_permissions(fixture.outside("/p/lib/a.js"), fs::Permissions::from_mode(0o755)) => vec!["changed lib/a.js"]; "a mode")]
#[test_case(|fixture| fixture.write("/p/lib/c.js", "c") => vec!["added lib/c.js"]; "a new file")]
#[test_case(|fixture| fs::remove_file(fixture.outside("/p/lib/b.js")) => vec!["removed lib/b.js"]; "a file removed")]
#[test_case(|fixture| {
    fs::remove_file(fixture.outside("/p/link"))?;
    fixture.link("lib/b.js", "/p/link")
} => vec!["changed link"]; "a link")]
#[test_case(|fixture| {
    fs::remove_file(fixture.outside("/p/lib/b.js"))?;
    fixture.link("a.js", "/p/lib/b.js")
} => vec!["changed lib/b.js"]; "a file that became a link")]
#[test_case(|fixture| fixture.write("/p/.git/HEAD", "x") => Vec::<String>::new(); "history")]
#[test_case(|fixture| fixture.write("/p/__pycache__/a.pyc", "x") => Vec::<String>::new(); "a cache")]
#[test_case(|fixture| fixture.write("/p/npm-debug.log", "x") => Vec::<String>::new(); "a log")]
#[test_case(|fixture| fixture.write("/p/memory.jsonl", "{}") => Vec::<String>::new(); "state")]
#[test_case(|fixture| fixture.write("/p/node_modules/x/index.js", "x") => Vec::<String>::new(); "what resolution finds")]
#[test_case(|fixture| fixture.write("/p/lib/__pycache__.js", "x") => vec!["added lib/__pycache__.js"]; "a file named like a cache")]
#[test_case(|fixture| fixture.write("/p/catalog", "x") => vec!["added catalog"]; "a name that ends like a log")]
#[test_case(|fixture| fs::create_dir(fixture.outside("/p/empty")) => Vec::<String>::new(); "an empty directory")]
fn differences_are_seen_and_named(change: fn(&Fixture) -> io::Result<()>) -> Vec<String> {
    let fixture = package().expect("a temporary tree");
    let before = collect(&fixture, DirectoryRole::Node, PackageLimits::default()).expect("a small package");
    change(&fixture).expect("a change to a temporary tree");
    let after = collect(&fixture, DirectoryRole::Node, PackageLimits::default()).expect("a small package");
    let changes = Manifest::changes(&before, &after);
    assert_eq!(changes.is_empty(), before.digest() == after.digest());
    changes
}

#[test]
fn the_order_of_creation_is_irrelevant() -> Outcome {
    let files = [("/p/a", "1"), ("/p/b/c", "2"), ("/p/b/a", "3"), ("/p/0", "4")];
    let mut reversed = files;
    reversed.reverse();
    let digest = |files| {
        collect(
            &Fixture::of(files)?,
            DirectoryRole::Node,
            PackageLimits::default(),
        )
        .map_err(Box::<dyn std::error::Error>::from)
    };
    assert_eq!(digest(&files)?.digest(), digest(&reversed)?.digest());
    Ok(())
}

#[test]
fn nothing_is_followed_and_nothing_special_is_opened() -> Outcome {
    let fixture = package()?;
    fixture.link("/etc", "/p/outside")?;
    fixture.link("..", "/p/up")?;
    nix::unistd::mkfifo(&fixture.outside("/p/pipe"), nix::sys::stat::Mode::S_IRWXU)?;
    let _socket = std::os::unix::net::UnixListener::bind(fixture.outside("/p/socket"))?;
    let manifest = collect(&fixture, DirectoryRole::Node, PackageLimits::default())?;
    assert_eq!(
        paths(&manifest),
        [
            "index.js", "lib/a.js", "lib/b.js", "link", "outside", "pipe", "socket", "up"
        ]
    );
    Ok(())
}

#[test_case(PackageLimits { files: 4, ..PackageLimits::default() } => "ok"; "as many files as there are")]
#[test_case(PackageLimits { files: 3, ..PackageLimits::default() } => "the package has more than 3 files with its dependencies"; "too many files")]
#[test_case(PackageLimits { bytes: 6, ..PackageLimits::default() } => "ok"; "as many bytes as there are")]
#[test_case(PackageLimits { bytes: 5, ..PackageLimits::default() } => "the package has more than 5 bytes with its dependencies"; "too many bytes")]
#[test_case(PackageLimits { depth: 1, ..PackageLimits::default() } => "ok"; "as deep as it is")]
#[test_case(PackageLimits { depth: 0, ..PackageLimits::default() } => "/p/lib is more than 0 directories deep"; "too deep")]
fn a_limit_is_an_outcome(limits: PackageLimits) -> String {
    let fixture = package().expect("a temporary tree");
    collect(&fixture, DirectoryRole::Node, limits).map_or_else(|error| error.to_string(), |_| "ok".to_owned())
}

#[test]
fn a_known_file_counts_like_a_new_one() -> Outcome {
    let fixture = package()?;
    let mut files = FileHasher::default();
    for _ in 0..3 {
        let limits = PackageLimits {
            bytes: 5,
            ..PackageLimits::default()
        };
        let mut collector =
            Collector::new(fixture.root(), &mut files, limits, &|| false, PathBuf::from("/p"));
        let result = collector.add_directory(Path::new("/p"), DirectoryRole::Node);
        assert!(
            matches!(result, Err(PackageError::TooLarge { limit: 5 })),
            "{result:?}"
        );
    }
    Ok(())
}

#[test]
fn cancellation_ends_it() -> Outcome {
    let fixture = package()?;
    let mut files = FileHasher::default();
    let mut collector = Collector::new(
        fixture.root(),
        &mut files,
        PackageLimits::default(),
        &|| true,
        PathBuf::from("/p"),
    );
    let result = collector.add_directory(Path::new("/p"), DirectoryRole::Node);
    assert!(matches!(result, Err(PackageError::Cancelled)), "{result:?}");
    Ok(())
}

#[test_case("/a/b", "/a/b/c/d" => "c/d"; "below")]
#[test_case("/a/b", "/a/c" => "../c"; "beside")]
#[test_case("/a/b", "/x" => "../../x"; "elsewhere")]
#[test_case("/", "/x" => "x"; "the root")]
fn names_are_relative(base: &str, path: &str) -> String {
    relative(Path::new(base), Path::new(path)).display().to_string()
}
