//! The notes about installed distributions, with their records.

use std::fmt::Write as _;

use mcpmon_model::{Digest, Ecosystem, PackageRole, RecordState};
use test_case::test_case;

use super::*;
use crate::fixture::Fixture;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const SITE: &str = "/venv/lib/python3.11/site-packages";
const PYTHON: &str = "/venv/bin/python";

/// Encodes a digest as records have it.
fn encoded(digest: Digest) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let hex = digest.to_string();
    let hex = hex.strip_prefix("sha256:").expect("a digest");
    let bytes: Vec<u8> = (0..32)
        .map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).expect("hexadecimal"))
        .collect();
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    bits.chunks(6)
        .map(|chunk| {
            let value = (0..6).fold(0_usize, |value, at| {
                value << 1 | usize::from(chunk.get(at).copied().unwrap_or(0))
            });
            char::from(ALPHABET[value])
        })
        .collect()
}

/// Installs a distribution as pip and uv do, with a record of its files.
fn install(fixture: &Fixture, name: &str, requires: &[&str], files: &[(&str, &str)]) -> std::io::Result<()> {
    let info = format!("{name}-1.0.dist-info");
    let requires: String = requires
        .iter()
        .map(|name| format!("Requires-Dist: {name}\n"))
        .collect();
    let metadata = format!("Name: {name}\nVersion: 1.0\n{requires}\n");
    let metadata_path = format!("{info}/METADATA");
    let mut record = format!("{info}/RECORD,,\n../../../bin/{name},sha256=x,1\n");
    for (path, content) in files.iter().chain(&[(metadata_path.as_str(), metadata.as_str())]) {
        fixture.write(&format!("{SITE}/{path}"), content)?;
        let digest = encoded(Digest::of(content.as_bytes()));
        writeln!(record, "{path},sha256={digest},{}", content.len()).expect("a String");
    }
    fixture.write(&format!("{SITE}/{info}/RECORD"), &record)
}

fn environment() -> std::io::Result<Fixture> {
    let fixture = Fixture::of(&[
        ("/usr/bin/python3.11", "python"),
        ("/venv/pyvenv.cfg", "home = /usr/bin\n"),
        ("/srv/notes.txt", ""),
    ])?;
    fixture.link("/usr/bin/python3.11", PYTHON)?;
    install(
        &fixture,
        "weather",
        &["part"],
        &[("weather/__init__.py", "import part")],
    )?;
    install(&fixture, "part", &[], &[("part/__init__.py", "")])?;
    Ok(fixture)
}

fn manifest(fixture: &Fixture) -> Manifest {
    fixture
        .python_module(PYTHON, "weather")
        .expect("a small package")
        .1
}

/// Returns the noted packages: their names, roles and records.
fn noted(manifest: &Manifest) -> Vec<(String, PackageRole, RecordState)> {
    let notes = manifest.notes().expect("notes");
    let packages = notes.packages.iter().map(|package| {
        assert_eq!(
            (package.ecosystem, package.version.as_str()),
            (Ecosystem::Pypi, "1.0")
        );
        (package.name.clone(), package.role, package.record)
    });
    packages.collect()
}

#[test_case(&[] => RecordState::Consistent; "as it was installed")]
#[test_case(&[("part/__pycache__/__init__.cpython-311.pyc", "x")] => RecordState::Consistent; "compiled")]
#[test_case(&[("part-1.0.dist-info/INSTALLER", "uv"), ("part-1.0.dist-info/uv_cache.json", "{}")] => RecordState::Consistent; "what an installer adds")]
#[test_case(&[("part/__init__.py", "evil")] => RecordState::Contradicts; "edited")]
#[test_case(&[("part/fast.so", "evil")] => RecordState::Contradicts; "a file that it does not record")]
#[test_case(&[("part-1.0.dist-info/METADATA", "Name: part\nVersion: 1.0\n\nother")] => RecordState::Contradicts; "other metadata")]
#[test_case(&[("part-1.0.dist-info/RECORD", "part/__init__.py,,\npart-1.0.dist-info/METADATA,,\n")] => RecordState::Missing; "a record without digests")]
#[test_case(&[("part-1.0.dist-info/RECORD", "part/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\npart/__init__.py,sha256=57DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")] => RecordState::Contradicts; "a record with two digests")]
fn records(edits: &[(&str, &str)]) -> RecordState {
    let fixture = environment().expect("a temporary tree");
    for (path, content) in edits {
        fixture.write(&format!("{SITE}/{path}"), content).expect("a file");
    }
    let noted = noted(&manifest(&fixture));
    let [(part, PackageRole::Dependency, record), own] = &noted[..] else {
        panic!("{noted:?}")
    };
    assert_eq!(part, "part");
    assert_eq!(
        *own,
        ("weather".to_owned(), PackageRole::Own, RecordState::Consistent)
    );
    *record
}

#[test]
fn a_link_has_no_record() -> Outcome {
    let fixture = environment()?;
    std::fs::remove_file(fixture.outside(&format!("{SITE}/part/__init__.py")))?;
    fixture.link("/cache/part.py", &format!("{SITE}/part/__init__.py"))?;
    assert_eq!(noted(&manifest(&fixture))[0].2, RecordState::Missing);
    Ok(())
}

#[test_case("google/other/__init__.py" => false; "of another distribution")]
#[test_case("google/__init__.py" => true; "that makes it a package")]
#[test_case("google/weather/new.py" => true; "in the own part")]
fn a_directory_that_distributions_share(added: &str) -> bool {
    let build = || -> std::io::Result<Fixture> {
        let fixture = environment()?;
        install(
            &fixture,
            "weather",
            &["part"],
            &[("weather/__init__.py", ""), ("google/weather/__init__.py", "")],
        )?;
        Ok(fixture)
    };
    let fixture = build().expect("a temporary tree");
    let before = manifest(&fixture);
    fixture.write(&format!("{SITE}/{added}"), "").expect("a file");
    before.digest() != manifest(&fixture).digest()
}

#[test_case("_virtualenv.pth", "import _virtualenv\n" => true; "virtualenv's, with an unknown module")]
#[test_case("other.pth", "/elsewhere\n" => false; "a directory")]
#[test_case("other.pth", "import os; os.system('evil')\n" => true; "code")]
#[test_case("sitecustomize/__init__.py", "" => true; "a customisation package")]
#[test_case("usercustomize.so", "" => true; "a customisation extension")]
fn code_at_every_start_counts(name: &str, content: &str) -> bool {
    let fixture = environment().expect("a temporary tree");
    let before = manifest(&fixture);
    fixture.write("/elsewhere/weather.py", "").expect("a file");
    fixture
        .write(&format!("{SITE}/_virtualenv.py"), "evil")
        .expect("a file");
    fixture.write(&format!("{SITE}/{name}"), content).expect("a file");
    before.digest() != manifest(&fixture).digest()
}

#[test]
fn a_recorded_path_file_is_noted_as_start_up_code() -> Outcome {
    let fixture = environment()?;
    let text = "import os; var = 'X'";
    install(
        &fixture,
        "setuptools",
        &[],
        &[("setuptools/__init__.py", ""), ("distutils-precedence.pth", text)],
    )?;
    let manifest = manifest(&fixture);
    assert_eq!(
        noted(&manifest).last(),
        Some(&(
            "setuptools".to_owned(),
            PackageRole::StartUp,
            RecordState::Consistent
        ))
    );
    let has = |end: &str| manifest.paths().any(|path| path.ends_with(end));
    assert!(has("distutils-precedence.pth") && !has("setuptools/__init__.py"));
    Ok(())
}

#[test]
fn path_files_count_if_a_module_can_be_in_their_directories() -> Outcome {
    let fixture = environment()?;
    let info = format!("{SITE}/weather-1.0.dist-info");
    fixture.write(
        &format!("{info}/direct_url.json"),
        r#"{"url": "file:///home/me/weather", "dir_info": {"editable": true}}"#,
    )?;
    fixture.write("/home/me/weather/.git/HEAD", "ref")?;
    fixture.write("/home/me/weather/weather/__init__.py", "")?;
    let before = manifest(&fixture);
    let notes = before.notes().expect("notes");
    assert_eq!(notes.work_trees.len(), 1);
    assert_eq!(notes.work_trees[0].path, "/home/me/weather");
    fixture.write(&format!("{SITE}/aaa.pth"), "/elsewhere\n")?;
    fixture.write("/elsewhere/weather/__init__.py", "evil")?;
    assert_ne!(before.digest(), manifest(&fixture).digest());
    Ok(())
}

#[test]
fn a_script_has_its_work_tree() -> Outcome {
    let fixture = environment()?;
    fixture.write("/home/me/project/.git/HEAD", "ref")?;
    fixture.write("/home/me/project/src/server.py", "import part")?;
    let (_, manifest) = fixture.python_script(PYTHON, "/home/me/project/src/server.py")?;
    let notes = manifest.notes().expect("notes");
    assert_eq!(notes.work_trees[0].prefix, "..");
    assert_eq!(
        noted(&manifest),
        [(
            "part".to_owned(),
            PackageRole::Dependency,
            RecordState::Consistent
        )]
    );
    Ok(())
}
