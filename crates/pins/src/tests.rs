//! Whole servers: real processes, and scripts in trees built by hand.

use std::fs;

use super::{
    fixture::{Fixture, WaitingChild},
    *,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn go_on() -> bool {
    false
}

#[test]
fn a_program_is_its_executable() -> Outcome {
    let child = WaitingChild::start(Path::new("/bin/cat"), &[], Path::new("/"))?;
    let process = Process::open(child.pid())?;
    let files = Hasher::default().server(&process, &EntryPoint::Program, None, &go_on)?;
    let digest = Digest::of(&fs::read("/bin/cat")?);
    assert_eq!(files.executable.hashed().map(|file| file.digest), Some(digest));
    assert_eq!((&files.script, &files.package), (&None, &None));
    Ok(())
}

/// The dynamic loader of this program, which can also run others.
fn loader() -> Option<PathBuf> {
    let names = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    names.map(PathBuf::from).into_iter().find(|path| path.exists())
}

#[test]
fn a_program_that_a_loader_runs_is_the_program() -> Outcome {
    let loader = loader().ok_or("a loader of glibc")?;
    let directory = tempfile::tempdir()?;
    let program = directory.path().canonicalize()?.join("cat");
    fs::copy("/bin/cat", &program)?;
    let hash = |loader: &Path, entry: &EntryPoint| -> Result<_, Box<dyn std::error::Error>> {
        let child = WaitingChild::start(loader, &[Path::new("./cat")], directory.path())?;
        let process = Process::open(child.pid())?;
        let files = Hasher::default().server(&process, entry, None, &go_on)?;
        Ok(files.executable.hashed().cloned())
    };
    let loaded = |path: &str| EntryPoint::Loaded(PathBuf::from(path), Box::new(EntryPoint::Program));
    let cat = PinnedFile {
        digest: Digest::of(&fs::read(&program)?),
        path: program,
    };
    assert_eq!(hash(&loader, &loaded("./cat"))?, Some(cat));
    // Files that may not be the ones that run are not hashed as such.
    let own = Digest::of(&fs::read(&loader)?);
    for entry in [loaded("cat"), loaded("/nowhere/cat"), EntryPoint::Program] {
        assert_eq!(
            hash(&loader, &entry)?.map(|file| file.digest),
            Some(own),
            "{entry:?}"
        );
    }
    let copy = directory.path().join("ld-linux-x86-64.so.2");
    fs::copy(&loader, &copy)?;
    let of_user = hash(&copy, &loaded("./cat"))?;
    assert_eq!(
        of_user.map(|file| file.digest),
        Some(own),
        "anybody may have written it"
    );
    Ok(())
}

#[test]
fn a_script_of_another_interpreter_is_the_script() -> Outcome {
    let directory = tempfile::tempdir()?;
    let script = directory.path().canonicalize()?.join("server.sh");
    fs::write(&script, "while read -r line; do :; done\n")?;
    // The shell does not get the script as its argument: it would end if the script were removed before it opened it.
    let child = WaitingChild::start(Path::new("/bin/sh"), &[], directory.path())?;
    let process = Process::open(child.pid())?;
    let files = Hasher::default().server(&process, &EntryPoint::Script(script.clone()), None, &go_on)?;
    let expected = PinnedFile {
        path: script.clone(),
        digest: Digest::of(&fs::read(&script)?),
    };
    assert_eq!(files.script, Some(Part::Hashed(expected)));
    assert_eq!(files.package, None);

    fs::remove_file(&script)?;
    let files = Hasher::default().server(&process, &EntryPoint::Script(script), None, &go_on)?;
    assert!(matches!(files.script, Some(Part::Unknown { .. })), "{files:?}");
    Ok(())
}

#[test]
fn a_server_that_ended_or_a_caller_that_left_is_an_error() -> Outcome {
    let child = WaitingChild::start(Path::new("/bin/cat"), &[], Path::new("/"))?;
    let process = Process::open(child.pid())?;
    let cancelled = Hasher::default().server(&process, &EntryPoint::Program, None, &|| true);
    assert!(matches!(cancelled, Err(HashError::Cancelled)), "{cancelled:?}");
    drop(child);
    let ended = Hasher::default().server(&process, &EntryPoint::Program, None, &go_on);
    assert!(matches!(ended, Err(HashError::Process(_))), "{ended:?}");
    Ok(())
}

#[test]
fn node_and_python_servers_have_script_and_package() -> Outcome {
    let fixture = Fixture::of(&[
        ("/d/node_modules/p/package.json", r#"{"name": "p"}"#),
        ("/d/node_modules/p/index.js", "main"),
        ("/usr/bin/python3.11", "python"),
        ("/srv/a.py", "pass"),
    ])?;
    let mut hasher = Hasher::default();
    let node = fixture.setting("/usr/bin/node", "node");
    let ScriptParts { script, package, .. } = hasher.scripts(
        &node,
        &EntryPoint::Script(PathBuf::from("/d/node_modules/p")),
        &go_on,
    )?;
    let path = PathBuf::from("/d/node_modules/p/index.js");
    assert_eq!(
        script,
        Some(Part::Hashed(PinnedFile {
            path,
            digest: Digest::of(b"main")
        }))
    );
    let package = package.as_ref().and_then(Part::hashed).expect("a package");
    assert_eq!(
        (package.root(), package.manifest().len()),
        (Path::new("/d/node_modules/p"), 2)
    );

    let python = fixture.setting("/usr/bin/python3.11", "python3.11");
    let ScriptParts { script, package, .. } =
        hasher.scripts(&python, &EntryPoint::Script(PathBuf::from("a.py")), &go_on)?;
    let path = PathBuf::from("/srv/a.py");
    assert_eq!(
        script,
        Some(Part::Hashed(PinnedFile {
            path,
            digest: Digest::of(b"pass")
        }))
    );
    assert_eq!(
        package
            .as_ref()
            .and_then(Part::hashed)
            .map(|package| package.manifest().len()),
        Some(1)
    );
    Ok(())
}

#[test]
fn an_image_is_the_reference_it_is_named_by() -> Outcome {
    let fixture = Fixture::new()?;
    let setting = fixture.setting("/usr/bin/docker", "docker");
    let image = |reference: &str| -> Result<_, HashError> {
        let entry = EntryPoint::Image(reference.to_owned());
        let ScriptParts { script, package, .. } = Hasher::default().scripts(&setting, &entry, &go_on)?;
        assert_eq!(script, None);
        Ok(package)
    };
    let pinned = image("mcp/memory@sha256:00")?;
    assert!(
        pinned
            .as_ref()
            .and_then(Part::hashed)
            .is_some_and(|image| image.manifest().len() == 1)
    );
    assert_eq!(image("mcp/memory@sha256:00")?, pinned);
    assert_ne!(image("mcp/memory@sha256:01")?, pinned);
    assert_ne!(image("mcp/memory:latest")?, pinned);
    Ok(())
}

#[test]
fn a_package_over_its_limits_is_unknown_and_says_why() -> Outcome {
    let fixture = Fixture::of(&[
        ("/d/node_modules/p/package.json", "{}"),
        ("/d/node_modules/p/index.js", ""),
    ])?;
    let mut hasher = Hasher::default();
    hasher.limits.files = 1;
    let setting = fixture.setting("/usr/bin/node", "node");
    let ScriptParts { package, .. } = hasher.scripts(
        &setting,
        &EntryPoint::Script(PathBuf::from("/d/node_modules/p")),
        &go_on,
    )?;
    let expected = Part::Unknown {
        path: PathBuf::from("/d/node_modules/p"),
        cause: "the package has more than 1 files with its dependencies".to_owned(),
    };
    assert_eq!(package, Some(expected));
    Ok(())
}

#[test]
fn console_scripts_of_two_environments_are_equal() -> Outcome {
    let digest = |prefix: &str, body: &str| -> Result<_, HashError> {
        let script = format!("{prefix}/bin/server");
        let text = format!("#!{prefix}/bin/python3\n{body}");
        let fixture = Fixture::of(&[(&script, &text)]).expect("a temporary tree");
        let setting = fixture.setting("/usr/bin/python3.11", "python3.11");
        let ScriptParts { script, .. } =
            Hasher::default().scripts(&setting, &EntryPoint::Script(PathBuf::from(script)), &go_on)?;
        Ok(script.as_ref().and_then(Part::hashed).map(|file| file.digest))
    };
    let one = digest("/one", "import server\n")?;
    assert!(one.is_some());
    assert_eq!(one, digest("/two", "import server\n")?);
    assert_ne!(one, digest("/one", "import servex\n")?);
    Ok(())
}
