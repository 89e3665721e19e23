//! Every way in which Python distributions are installed, built by hand.

use std::fs;

use test_case::test_case;

use super::*;
use crate::fixture::{Fixture, paths};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CONSOLE_SCRIPT: &str =
    "import re\nimport sys\nfrom mcp_time import main\nif __name__ == '__main__':\n    sys.exit(main())\n";

/// A distribution in `site`: one package directory, its metadata, and a cache.
fn distribution(fixture: &Fixture, site: &str, name: &str, requires: &[&str]) -> std::io::Result<()> {
    let info = format!("{site}/{name}-1.0.dist-info");
    let requires: String = requires
        .iter()
        .map(|name| format!("Requires-Dist: {name}\n"))
        .collect();
    fixture.write(&format!("{site}/{name}/__init__.py"), &format!("# {name}\n"))?;
    fixture.write(
        &format!("{site}/{name}/__pycache__/__init__.cpython-311.pyc"),
        &format!("{site}{name}"),
    )?;
    fixture.write(
        &format!("{info}/METADATA"),
        &format!("Name: {name}\n{requires}\n"),
    )?;
    fixture.write(&format!("{info}/INSTALLER"), site)?;
    fixture.write(
        &format!("{info}/RECORD"),
        &format!("../../../bin/{name},sha256=x,1\n{name}/__init__.py,,\n{name}-1.0.dist-info/METADATA,,\n"),
    )
}

/// A virtual environment with `mcp_time`, which needs `mcp`, which needs `anyio`; nothing needs `other`.
fn environment(prefix: &str) -> std::io::Result<Fixture> {
    let fixture = Fixture::new()?;
    let site = format!("{prefix}/lib/python3.11/site-packages");
    fixture.write("/usr/bin/python3.11", "python")?;
    fixture.write("/usr/lib/python3/dist-packages/unrelated.py", "")?;
    fixture.write("/srv/notes.txt", "")?;
    fixture.write(
        &format!("{prefix}/pyvenv.cfg"),
        "home = /usr/bin\ninclude-system-site-packages = false\n",
    )?;
    fixture.link("/usr/bin/python3.11", &format!("{prefix}/bin/python"))?;
    fixture.link("lib", &format!("{prefix}/lib64"))?;
    fixture.write(
        &format!("{prefix}/bin/mcp_time"),
        &format!("#!{prefix}/bin/python\n{CONSOLE_SCRIPT}"),
    )?;
    distribution(
        &fixture,
        &site,
        "mcp_time",
        &["MCP>=1", "tzdata; sys_platform == 'win32'"],
    )?;
    distribution(&fixture, &site, "mcp", &["anyio (>=4)"])?;
    distribution(&fixture, &site, "anyio", &["mcp-time; extra == 'circle'"])?;
    distribution(&fixture, &site, "other", &[])?;
    Ok(fixture)
}

const SITE: &str = "/venv/lib/python3.11/site-packages";
const PYTHON: &str = "/venv/bin/python";

fn console_script(fixture: &Fixture, prefix: &str) -> Result<(PathBuf, Manifest), PackageError> {
    fixture.python_script(&format!("{prefix}/bin/python"), &format!("{prefix}/bin/mcp_time"))
}

#[test]
fn a_console_script_has_its_distribution_and_what_that_requires() -> Outcome {
    let (root, manifest) = console_script(&environment("/venv")?, "/venv")?;
    assert_eq!(root, Path::new(SITE).join("mcp_time"));
    assert_eq!(
        paths(&manifest),
        [
            "lib/python3.11/site-packages/anyio-1.0.dist-info/METADATA",
            "lib/python3.11/site-packages/anyio/__init__.py",
            "lib/python3.11/site-packages/mcp-1.0.dist-info/METADATA",
            "lib/python3.11/site-packages/mcp/__init__.py",
            "lib/python3.11/site-packages/mcp_time-1.0.dist-info/METADATA",
            "lib/python3.11/site-packages/mcp_time/__init__.py",
        ]
    );
    Ok(())
}

#[test]
fn a_module_has_the_same_package_as_its_console_script() -> Outcome {
    let fixture = environment("/venv")?;
    let module = fixture.python_module(PYTHON, "mcp_time.server")?;
    assert_eq!(module, console_script(&fixture, "/venv")?);
    Ok(())
}

#[test]
fn two_clean_environments_are_equal() -> Outcome {
    let (_, one) = console_script(&environment("/venv")?, "/venv")?;
    let (_, two) = console_script(
        &environment("/home/me/.cache/uv/archive-v0/zUv4")?,
        "/home/me/.cache/uv/archive-v0/zUv4",
    )?;
    assert_eq!(one.digest(), two.digest());
    Ok(())
}

#[test_case("anyio/__init__.py", "# anyip\n" => vec!["changed lib/python3.11/site-packages/anyio/__init__.py"]; "one byte of a dependency")]
#[test_case("mcp/added.py", "" => vec!["added lib/python3.11/site-packages/mcp/added.py"]; "a module that no record lists")]
#[test_case("tzdata/__init__.py", "" => Vec::<&str>::new(); "a directory without a distribution")]
#[test_case("sitecustomize.py", "" => vec!["added lib/python3.11/site-packages/sitecustomize.py"]; "code that runs at every start")]
#[test_case("x.pth", "import other" => vec![
    "added lib/python3.11/site-packages/other-1.0.dist-info/METADATA",
    "added lib/python3.11/site-packages/other/__init__.py",
    "added lib/python3.11/site-packages/x.pth",
]; "a path file with what it imports")]
#[test_case("other/__init__.py", "changed" => Vec::<&str>::new(); "another's package")]
#[test_case("mcp-1.0.dist-info/RECORD", "mcp/__init__.py,,\nmcp-1.0.dist-info/METADATA,,\n" => Vec::<&str>::new(); "a record with other scripts")]
#[test_case("../../../bin/mcp.py", "" => vec!["added bin/mcp.py"]; "a module beside the script")]
#[test_case("../../../bin/activate_this.py", "" => Vec::<&str>::new(); "the activation module")]
fn edits_are_seen(path: &str, content: &str) -> Vec<String> {
    let fixture = environment("/venv").expect("a temporary tree");
    let (_, before) = console_script(&fixture, "/venv").expect("a small package");
    fixture
        .write(&format!("{SITE}/{path}"), content)
        .expect("a temporary file");
    let (_, after) = console_script(&fixture, "/venv").expect("a small package");
    Manifest::changes(&before, &after)
}

/// Python imports `six/__init__.py` and `six.abi3.so` in place of `six.py`. A record that lists them does not excuse that.
#[test_case("six/__init__.py" => vec!["added lib/python3.11/site-packages/six/__init__.py"]; "a directory")]
#[test_case("six.abi3.so" => vec!["added lib/python3.11/site-packages/six.abi3.so"]; "a compiled module")]
#[test_case("six/__init__.pyc" => vec!["added lib/python3.11/site-packages/six/__init__.pyc"]; "a directory with compiled code")]
#[test_case("six/data.txt" => Vec::<&str>::new(); "a directory that is no package")]
#[test_case("six.py.bak" => Vec::<&str>::new(); "a copy that Python does not import")]
#[test_case("six.pyi" => Vec::<&str>::new(); "types")]
#[test_case("sixty/__init__.py" => Vec::<&str>::new(); "another module")]
fn a_module_that_covers_a_file_is_seen(planted: &str) -> Vec<String> {
    let fixture = environment("/venv").expect("a temporary tree");
    let write = |path: &str, content: &str| {
        fixture
            .write(&format!("{SITE}/{path}"), content)
            .expect("a temporary file");
    };
    write(
        "anyio-1.0.dist-info/METADATA",
        "Name: anyio\nRequires-Dist: six\n",
    );
    write("six.py", "");
    write("six-1.0.dist-info/METADATA", "Name: six\n");
    write(
        "six-1.0.dist-info/RECORD",
        "six.py,,\nsix-1.0.dist-info/METADATA,,\n",
    );
    let (_, before) = console_script(&fixture, "/venv").expect("a small package");
    assert!(paths(&before).contains(&"lib/python3.11/site-packages/six.py"));
    write(planted, "# evil\n");
    write("evil-1.0.dist-info/RECORD", &format!("{planted},,\n"));
    let (_, after) = console_script(&fixture, "/venv").expect("a small package");
    Manifest::changes(&before, &after)
}

#[test]
fn a_distribution_in_development_is_its_checkout() -> Outcome {
    let fixture = environment("/venv")?;
    let info = format!("{SITE}/mcp_time-1.0.dist-info");
    fs::remove_dir_all(fixture.outside(&format!("{SITE}/mcp_time")))?;
    fixture.write(&format!("{info}/RECORD"), "__editable__.mcp_time-1.0.pth,,\n")?;
    fixture.write(
        &format!("{SITE}/__editable__.mcp_time-1.0.pth"),
        "/home/me/src/time/src\n",
    )?;
    fixture.write(
        &format!("{info}/direct_url.json"),
        r#"{"url": "file:///home/me/src/time", "dir_info": {"editable": true}}"#,
    )?;
    fixture.write("/home/me/src/time/src/mcp_time/__init__.py", "main")?;
    fixture.write("/home/me/src/time/.git/HEAD", "ref")?;
    fixture.write("/home/me/src/time/.venv/pyvenv.cfg", "")?;
    fixture.write("/home/me/src/time/.venv/lib/x.py", "")?;
    let (root, manifest) = console_script(&fixture, "/venv")?;
    assert_eq!(root, Path::new("/home/me/src/time"));
    let outside: Vec<_> = manifest.paths().filter(|path| path.starts_with("..")).collect();
    assert_eq!(outside, ["../home/me/src/time/src/mcp_time/__init__.py"]);

    let (_, by_module) = fixture.python_module(PYTHON, "mcp_time")?;
    assert!(
        by_module
            .paths()
            .any(|path| path == "../home/me/src/time/src/mcp_time/__init__.py")
    );

    fixture.write(
        &format!("{info}/direct_url.json"),
        r#"{"url": "file:///home/me", "dir_info": {"editable": true}}"#,
    )?;
    let home = console_script(&fixture, "/venv");
    assert!(
        matches!(&home, Err(PackageError::TooBroad { path }) if path == Path::new("/home/me")),
        "{home:?}"
    );
    Ok(())
}

#[test]
fn a_plain_script_in_an_environment_has_what_it_imports() -> Outcome {
    let fixture = environment("/venv")?;
    fixture.write("/srv/server.py", "import helper")?;
    fixture.write("/srv/helper.py", "import mcp, bare")?;
    fixture.write(&format!("{SITE}/bare.py"), "import other")?;
    let (root, manifest) = fixture.python_script(PYTHON, "/srv/server.py")?;
    assert_eq!(root, Path::new("/srv"));
    let site = "../venv/lib/python3.11/site-packages";
    assert_eq!(
        paths(&manifest),
        [
            format!("{site}/anyio-1.0.dist-info/METADATA"),
            format!("{site}/anyio/__init__.py"),
            format!("{site}/bare.py"),
            format!("{site}/mcp-1.0.dist-info/METADATA"),
            format!("{site}/mcp/__init__.py"),
            format!("{site}/mcp_time-1.0.dist-info/METADATA"),
            format!("{site}/mcp_time/__init__.py"),
            format!("{site}/other-1.0.dist-info/METADATA"),
            format!("{site}/other/__init__.py"),
            "helper.py".to_owned(),
            "server.py".to_owned(),
        ]
    );
    Ok(())
}

#[test]
fn a_system_script_has_what_it_imports() -> Outcome {
    let fixture = Fixture::of(&[
        ("/usr/bin/python3.11", "python"),
        ("/srv/server.py", "import json, helper"),
        ("/srv/helper.py", "def f():\n    import yaml, bare"),
        (
            "/usr/lib/python3/dist-packages/PyYAML-6.0.egg-info/top_level.txt",
            "_yaml\nyaml\n",
        ),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", ""),
        (
            "/usr/lib/python3/dist-packages/_yaml.cpython-311-x86_64-linux-gnu.so",
            "",
        ),
        ("/usr/lib/python3/dist-packages/bare/__init__.py", ""),
        ("/usr/lib/python3/dist-packages/unrelated/__init__.py", ""),
        (
            "/usr/lib/python3.9/dist-packages/yaml/__init__.py",
            "another version",
        ),
    ])?;
    let (_, manifest) = fixture.python_script("python3.11", "/srv/server.py")?;
    assert_eq!(
        paths(&manifest),
        [
            "../usr/lib/python3/dist-packages/PyYAML-6.0.egg-info/top_level.txt",
            "../usr/lib/python3/dist-packages/_yaml.cpython-311-x86_64-linux-gnu.so",
            "../usr/lib/python3/dist-packages/bare/__init__.py",
            "../usr/lib/python3/dist-packages/yaml/__init__.py",
            "helper.py",
            "server.py",
        ]
    );
    Ok(())
}

/// A directory of scripts: one imports a module and a package in it, which import further ones; the other files are
/// unrelated.
fn scripts() -> std::io::Result<Fixture> {
    Fixture::of(&[
        ("/usr/bin/python3.11", "python"),
        ("/usr/lib/python3.11/os.py", ""),
        ("/usr/lib/python3.11/json/__init__.py", ""),
        (
            "/usr/lib/python3.11/lib-dynload/_bisect.cpython-311-x86_64-linux-gnu.so",
            "",
        ),
        ("/usr/lib/python3.11/test/__init__.py", ""),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", ""),
        ("/srv/server.py", "import json, helper"),
        ("/srv/helper.py", "from deep.first import x\nimport bare.part"),
        ("/srv/deep/__init__.py", ""),
        ("/srv/deep/first.py", "from . import second\nimport last"),
        ("/srv/deep/second.py", ""),
        ("/srv/bare/part.py", ""),
        ("/srv/last.py", ""),
        (
            "/srv/unrelated.py",
            "import importlib; importlib.import_module(name)",
        ),
        ("/srv/other/__init__.py", ""),
        ("/srv/test/__init__.py", ""),
    ])
}

#[test]
fn a_script_has_what_it_imports_and_nothing_else_of_its_directory() -> Outcome {
    let (_, manifest) = scripts()?.python_script("python3.11", "/srv/server.py")?;
    assert_eq!(
        paths(&manifest),
        [
            "bare/part.py",
            "deep/__init__.py",
            "deep/first.py",
            "deep/second.py",
            "helper.py",
            "last.py",
            "server.py",
        ]
    );
    Ok(())
}

#[test_case("/srv/new.py", "" => Vec::<&str>::new(); "a module that nothing imports")]
#[test_case("/srv/test/more.py", "" => Vec::<&str>::new(); "a project's tests")]
#[test_case("/srv/json.py", "" => vec!["added json.py"]; "in the place of a module it imports")]
#[test_case("/srv/json/__init__.py", "" => vec!["added json/__init__.py"]; "a package in the place of a module it imports")]
#[test_case("/srv/_bisect.py", "" => vec!["added _bisect.py"]; "in the place of a module that another one imports")]
#[test_case("/srv/yaml.abi3.so", "" => vec!["added yaml.abi3.so"]; "an extension in the place of an installed module")]
#[test_case("/srv/last.pyc", "" => vec!["added last.pyc"]; "compiled")]
#[test_case("/srv/deep/first.py", "import last, new" => vec!["changed deep/first.py"]; "an import")]
#[test_case("/srv/last.py", "__import__(x)" => vec![
    "changed last.py",
    "added other/__init__.py",
    "added test/__init__.py",
    "added unrelated.py",
]; "an import by a name that nobody can tell")]
fn edits_beside_a_script(path: &str, content: &str) -> Vec<String> {
    let fixture = scripts().expect("a temporary tree");
    let manifest = || {
        fixture
            .python_script("python3.11", "/srv/server.py")
            .expect("a small package")
            .1
    };
    let before = manifest();
    fixture.write(path, content).expect("a temporary file");
    Manifest::changes(&before, &manifest())
}

#[test]
fn what_a_link_beside_a_script_leads_to_belongs_to_it() -> Outcome {
    let fixture = scripts()?;
    fixture.write("/elsewhere/real.py", "one")?;
    fixture.write("/srv/server.py", "import linked")?;
    fixture.link("../elsewhere/real.py", "/srv/linked.py")?;
    let (_, before) = fixture.python_script("python3.11", "/srv/server.py")?;
    fixture.write("/elsewhere/real.py", "two")?;
    let (_, after) = fixture.python_script("python3.11", "/srv/server.py")?;
    assert_eq!(
        Manifest::changes(&before, &after),
        ["changed ../elsewhere/real.py"]
    );
    Ok(())
}

#[test]
fn a_user_script_finds_the_user_directory() -> Outcome {
    let fixture = Fixture::of(&[
        ("/usr/bin/python3.11", "python"),
        ("/home/me/.local/bin/mcp_time", CONSOLE_SCRIPT),
    ])?;
    distribution(
        &fixture,
        "/home/me/.local/lib/python3.11/site-packages",
        "mcp_time",
        &[],
    )?;
    let (root, _) = fixture.python_script("/usr/bin/python3.11", "/home/me/.local/bin/mcp_time")?;
    assert_eq!(
        root,
        Path::new("/home/me/.local/lib/python3.11/site-packages/mcp_time")
    );
    Ok(())
}

#[test]
fn a_module_in_the_working_directory_comes_first() -> Outcome {
    let fixture = environment("/venv")?;
    fixture.write("/srv/mcp_time/__main__.py", "import mcp")?;
    let (root, manifest) = fixture.python_module(PYTHON, "mcp_time")?;
    assert_eq!(root, Path::new("/srv/mcp_time"));
    assert!(manifest.paths().any(|path| path == "../srv/mcp_time/__main__.py"));
    assert!(
        manifest
            .paths()
            .any(|path| path == "lib/python3.11/site-packages/mcp/__init__.py")
    );
    Ok(())
}

/// Clients start a checkout with `PYTHONPATH=src python -m NAME`.
#[test]
fn a_module_that_pythonpath_names_is_found_with_what_it_imports() -> Outcome {
    let fixture = environment("/venv")?;
    fixture.write("/checkout/src/mcp_new/__main__.py", "import helper\nimport mcp\n")?;
    fixture.write("/checkout/lib/helper.py", "")?;
    fixture.write("/checkout/lib/mcp.py", "# hides the installed one")?;
    fixture.write("/checkout/lib/unused.py", "")?;
    let along = "/nowhere:/checkout/src:../checkout/lib";
    for interpreter in [PYTHON, "python3.11"] {
        let (root, manifest) = fixture.python_module_along(along, interpreter, "mcp_new")?;
        assert_eq!(root, Path::new("/checkout/src/mcp_new"));
        let has = |end: &str| manifest.paths().any(|path| path.ends_with(end));
        assert!(has("checkout/src/mcp_new/__main__.py"), "{:?}", paths(&manifest));
        assert!(has("checkout/lib/helper.py") && has("checkout/lib/mcp.py"));
        assert!(!has("unused.py"), "the path belongs to whoever set it");
    }
    Ok(())
}

#[test]
fn a_module_that_is_nowhere_is_no_empty_package() -> Outcome {
    let result = environment("/venv")?.python_module(PYTHON, "nowhere");
    assert!(
        matches!(&result, Err(PackageError::NoModule { name, .. }) if name == "nowhere"),
        "{result:?}"
    );
    Ok(())
}

/// `uv run --with` creates an environment for the command, and a path file that leads to the packages.
#[test]
fn an_environment_laid_over_another_has_its_packages() -> Outcome {
    let fixture = environment("/venv")?;
    fixture.write("/overlay/pyvenv.cfg", "home = /usr/bin\n")?;
    fixture.link("/usr/bin/python3.11", "/overlay/bin/python")?;
    fixture.write(
        "/overlay/lib/python3.11/site-packages/_overlay.pth",
        &format!(
            "import site; site.addsitedir(__import__(\"os\").fsdecode(b\"{SITE}\")); site.addsitedir(name)"
        ),
    )?;
    fixture.write(
        "/overlay/bin/mcp_time",
        &format!("#!/overlay/bin/python\n{CONSOLE_SCRIPT}"),
    )?;
    let (root, manifest) = console_script(&fixture, "/overlay")?;
    assert_eq!(root, Path::new(SITE).join("mcp_time"));
    let has = |end: &str| manifest.paths().any(|path| path.ends_with(end));
    assert!(
        has("mcp_time/__init__.py") && has("anyio/__init__.py"),
        "{manifest:?}"
    );
    assert!(!has("other/__init__.py"));
    Ok(())
}

#[test]
fn an_environment_can_include_the_system() -> Outcome {
    let fixture = environment("/venv")?;
    distribution(&fixture, "/usr/lib/python3/dist-packages", "tzdata", &[])?;
    let has_tzdata = |fixture: &Fixture| {
        console_script(fixture, "/venv")
            .map(|(_, manifest)| manifest.paths().any(|path| path.contains("tzdata")))
    };
    assert!(!has_tzdata(&fixture)?);
    fixture.write(
        "/venv/pyvenv.cfg",
        "home = /usr/bin\ninclude-system-site-packages = true\n",
    )?;
    assert!(has_tzdata(&fixture)?);
    Ok(())
}
