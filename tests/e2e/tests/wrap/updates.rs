//! Updates and edits of a pinned server, and the attacks that look like them. The packages are made here, so that nothing
//! is downloaded.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    json::text,
    program, wait,
    wrapped::{Home, Wrapped},
};
use serde_json::Value;
use test_case::test_case;

use crate::files::python;

const ASKED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// The code of a server in Python.
const CODE: &str = "import sys\ndef main():\n    for line in sys.stdin: print(line.replace('method', \
    'result').replace('\"ping\"', '{}'), end='', flush=True)\n";
/// Writes a wheel: `python3 - NAME VERSION REQUIRES CODE DIRECTORY`.
const WHEEL: &str = "
import base64, hashlib, sys, zipfile
name, version, requires, code, directory = sys.argv[1:]
info = f'{name}-{version}.dist-info'
metadata = f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n'
metadata += ''.join(f'Requires-Dist: {one}\\n' for one in requires.split())
files = {f'{name}/__init__.py': code, f'{name}/__main__.py': f'from {name} import main\\nmain()\\n',
    f'{info}/METADATA': metadata,
    f'{info}/WHEEL': 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    f'{info}/entry_points.txt': f'[console_scripts]\\n{name.replace(chr(95), chr(45))}={name}:main\\n'}
if name.startswith('hook'): files[f'{name}.pth'] = f'import {name}\\n'
digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()
files[f'{info}/RECORD'] = ''.join(f'{path},sha256={digest(text)},{len(text)}\\n' for path, text in files.items()) \
    + f'{info}/RECORD,,\\n'
with zipfile.ZipFile(f'{directory}/{name}-{version}-py3-none-any.whl', 'w') as wheel:
    for path, text in files.items(): wheel.writestr(path, text)
";

/// Writes the digests of the files as they are into the record of a distribution: `python3 - SITE NAME`.
const REWRITE: &str = "
import base64, glob, hashlib, sys
site, name = sys.argv[1:]
record, = glob.glob(f'{site}/{name}-*.dist-info/RECORD')
lines = []
for line in open(record):
    path = line.split(',')[0]
    if path.startswith(f'{name}/') and path.endswith('.py'):
        data = open(f'{site}/{path}', 'rb').read()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        line = f'{path},sha256={digest},{len(data)}\\n'
    lines.append(line)
open(record, 'w').write(''.join(lines))
";

pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(())
}

fn script(code: &str, arguments: &[&str]) -> Result<()> {
    run(Command::new(python()?).args(["-c", code]).args(arguments))
}

/// A virtual environment with the package `mcp_server_weather`, which needs `part_e2e`.
struct Environment {
    home: Home,
    directory: PathBuf,
}

impl Environment {
    fn new() -> Result<Self> {
        let home = Home::new()?;
        let directory = home.path("venv");
        let environment = Self { home, directory };
        environment.create("venv")?;
        environment.install("part_e2e", "1.0", "", "")?;
        environment.install("mcp_server_weather", "1.2.0", "part_e2e", CODE)?;
        Ok(environment)
    }

    fn create(&self, name: &str) -> Result<()> {
        let path = self.home.path(name);
        run(Command::new(python()?)
            .args(["-m", "venv", "--without-pip"])
            .arg(path))
    }

    fn wheel(&self, name: &str, version: &str, requires: &str, code: &str) -> Result<PathBuf> {
        let directory = self.home.path("");
        let shown = directory.display().to_string();
        script(WHEEL, &[name, version, requires, code, &shown])?;
        Ok(directory.join(format!("{name}-{version}-py3-none-any.whl")))
    }

    fn install(&self, name: &str, version: &str, requires: &str, code: &str) -> Result<()> {
        let wheel = self.wheel(name, version, requires, code)?;
        self.install_into(&self.directory, &wheel)
    }

    fn install_into(&self, environment: &Path, wheel: &Path) -> Result<()> {
        let options = ["install", "-q", "--no-index", "--no-deps", "--no-compile"];
        run(Command::new(python()?)
            .args(["-m", "pip", "--python"])
            .arg(environment.join("bin/python"))
            .args(options)
            .arg(wheel))
    }

    /// Returns a file of the environment.
    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Returns the path of an installed file.
    fn site(&self, name: &str) -> Result<PathBuf> {
        let library = fs::read_dir(self.directory.join("lib"))?
            .next()
            .context("a library")??;
        Ok(library.path().join("site-packages").join(name))
    }

    /// Starts the server by its command.
    fn start(&self) -> Result<Start> {
        start(&self.home, &[&self.path("bin/mcp-server-weather")])
    }

    fn edit(&self, name: &str) -> Result<()> {
        let path = self.site(name)?;
        let code = fs::read_to_string(&path)?;
        Ok(fs::write(path, format!("{code}# edited\n"))?)
    }
}

/// The outcome of one start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) code: i32,
    pub(crate) answer: String,
    errors: String,
}

impl Start {
    /// Returns whether the server answered.
    pub(crate) fn ran(&self) -> bool {
        self.code == 0 && self.answer.contains("result")
    }
}

/// Starts a server, asks it once, and ends it.
pub(crate) fn start(home: &Home, command: &[&str]) -> Result<Start> {
    start_as(home, "weather", command)
}

/// The same under another name.
pub(crate) fn start_as(home: &Home, name: &str, command: &[&str]) -> Result<Start> {
    let mut wrapped = Wrapped::start(&mut home.wrap(&["--server", name], command)?)?;
    wrapped.send(ASKED)?;
    let answer = wrapped.line()?;
    let (code, rest, errors) = wrapped.finish()?;
    Ok(Start {
        code,
        answer: format!("{answer}{rest}"),
        errors,
    })
}

pub(crate) fn events(home: &Home, kind: &str) -> Result<Vec<Value>> {
    let store = home.path("store.db").display().to_string();
    let run = program::run([
        "events", "--json", "--limit", "1000", "--type", kind, "--db", &store,
    ])?;
    let mut events = run.objects()?;
    events.sort_by_key(|event| text(event, "timestamp").to_owned());
    Ok(events)
}

/// Starts a server for the first time.
pub(crate) fn pin(home: &Home, command: &[&str]) -> Result<()> {
    let first = start(home, command)?;
    ensure!(first.ran(), "{first:?}");
    wait::until("its pin", || {
        let started = events(home, "mcp_server_started")?;
        Ok(started
            .first()
            .map(|started| assert_eq!(text(started, "pin"), "pinned")))
    })
}

/// Returns the causes and texts of the changes in the latest mismatch.
pub(crate) fn changes(home: &Home) -> Result<Vec<(String, String)>> {
    let mismatches = events(home, "mcp_server_binary_mismatch")?;
    let latest = mismatches.last().context("a mismatch")?;
    let changes = latest["changes"].as_array().context("changes")?;
    let told = |change: &Value| (text(change, "cause").to_owned(), text(change, "text").to_owned());
    Ok(changes.iter().map(told).collect())
}

pub(crate) fn change(cause: &str, text: &str) -> Vec<(String, String)> {
    vec![(cause.to_owned(), text.to_owned())]
}

#[test]
fn unrelated_packages_and_caches_change_nothing() -> Result<()> {
    let environment = Environment::new()?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    environment.install("unrelated_e2e", "1.0", "", "")?;
    let compiled = environment.site("mcp_server_weather/__pycache__")?;
    fs::create_dir_all(&compiled)?;
    fs::write(compiled.join("x.pyc"), "x")?;
    let again = environment.start()?;
    assert!(again.ran(), "{again:?}");
    assert_eq!(
        events(&environment.home, "mcp_server_binary_mismatch")?,
        [Value::Null; 0]
    );
    Ok(())
}

#[test]
fn an_upgraded_dependency_is_reported_until_it_is_accepted() -> Result<()> {
    let environment = Environment::new()?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    environment.install("part_e2e", "1.1", "", "# new\n")?;
    for _ in 0..2 {
        let start = environment.start()?;
        assert!(start.ran(), "{start:?}");
        assert_eq!(
            changes(&environment.home)?,
            change("dependency", "dependency part-e2e 1.0 → 1.1")
        );
    }
    let mismatches = events(&environment.home, "mcp_server_binary_mismatch")?;
    assert_eq!(mismatches.len(), 2);
    let latest = &mismatches[1];
    assert_eq!(text(latest, "action"), "audit");
    assert!(
        text(latest, "reason").contains("mcpmon pins trust --server weather"),
        "{latest}"
    );

    trust(&environment.home)?;
    assert!(environment.start()?.ran());
    assert_eq!(events(&environment.home, "mcp_server_binary_mismatch")?.len(), 2);
    Ok(())
}

pub(crate) fn trust(home: &Home) -> Result<()> {
    let [store, socket] = ["store.db", "no-daemon"].map(|name| home.path(name).display().to_string());
    let run = program::run([
        "pins", "trust", "--server", "weather", "--db", &store, "--socket", &socket,
    ])?;
    ensure!(run.code == Some(0), "{run:?}");
    Ok(())
}

#[test]
fn an_upgraded_package_waits_for_approval() -> Result<()> {
    let environment = Environment::new()?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    environment.install(
        "mcp_server_weather",
        "1.3.0",
        "part_e2e",
        &format!("{CODE}# new\n"),
    )?;
    let start = environment.start()?;
    assert_eq!(start.code, 1, "{start:?}");
    assert!(
        start
            .answer
            .contains("it changed since it was pinned: package mcp-server-weather 1.2.0 → 1.3.0"),
        "{start:?}"
    );
    assert!(
        start.errors.contains("package mcp-server-weather 1.2.0 → 1.3.0"),
        "{start:?}"
    );
    assert_eq!(
        changes(&environment.home)?,
        change("package", "package mcp-server-weather 1.2.0 → 1.3.0")
    );
    trust(&environment.home)?;
    assert!(environment.start()?.ran());
    Ok(())
}

#[test_case("mcp_server_weather/__init__.py", false; "the package itself")]
#[test_case("part_e2e/__init__.py", false; "a dependency")]
#[test_case("part_e2e/__init__.py", true; "a dependency, with its record")]
fn an_edited_file_of_a_package_is_tampering(file: &str, rewrites: bool) -> Result<()> {
    let environment = Environment::new()?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    environment.edit(file)?;
    if rewrites {
        let site = environment.site("")?.display().to_string();
        script(REWRITE, &[site.trim_end_matches('/'), "part_e2e"])?;
    }
    let start = environment.start()?;
    assert_eq!(start.code, 1, "{start:?}");
    let changes = changes(&environment.home)?;
    let (cause, told) = changes.first().context("a change")?;
    assert_eq!(cause, "tampered", "{told}");
    assert!(start.answer.contains(told), "{start:?}");
    let denied = events(&environment.home, "mcp_server_denied")?;
    let denied = denied.last().context("a denial")?;
    assert!(
        text(denied, "remedy").starts_with("install the package again or remove the server"),
        "{denied}"
    );
    Ok(())
}

#[test]
fn code_at_the_start_of_python_is_tampering() -> Result<()> {
    let environment = Environment::new()?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    fs::write(environment.site("sitecustomize.py")?, "print('evil')\n")?;
    let start = environment.start()?;
    assert_eq!(start.code, 1, "{start:?}");
    assert!(
        start.answer.contains("start-up code that no package recorded"),
        "{start:?}"
    );
    Ok(())
}

#[test]
fn a_package_that_was_refused_by_its_command_is_refused_as_a_module() -> Result<()> {
    let environment = Environment::new()?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    let module = [
        environment.path("bin/python"),
        "-m".to_owned(),
        "mcp_server_weather".to_owned(),
    ];
    let module: Vec<&str> = module.iter().map(String::as_str).collect();
    assert!(start(&environment.home, &module)?.ran(), "unchanged");
    let other = Environment::new()?;
    pin(&other.home, &[&other.path("bin/mcp-server-weather")])?;
    other.edit("mcp_server_weather/__init__.py")?;
    let module = [
        other.path("bin/python"),
        "-m".to_owned(),
        "mcp_server_weather".to_owned(),
    ];
    let module: Vec<&str> = module.iter().map(String::as_str).collect();
    let refused = start(&other.home, &module)?;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.answer.contains("files of mcp-server-weather 1.2.0"),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn one_wheel_in_two_environments_is_one_server() -> Result<()> {
    let environment = Environment::new()?;
    environment.install("hook_e2e", "1.0", "", "")?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    // Another installer writes another command, and its environments have no package with a path file.
    environment.create("second")?;
    let second = environment.home.path("second");
    for (name, version, requires, code) in [
        ("part_e2e", "1.0", "", ""),
        ("mcp_server_weather", "1.2.0", "part_e2e", CODE),
    ] {
        let wheel = environment.wheel(name, version, requires, code)?;
        environment.install_into(&second, &wheel)?;
    }
    let python = second.join("bin/python");
    let command = second.join("bin/mcp-server-weather");
    fs::write(
        &command,
        format!(
            "#!{}\n# -*- coding: utf-8 -*-\nimport sys\nfrom mcp_server_weather import main\nif __name__ == \"__main__\":\n    if \
             sys.argv[0].endswith(\"-script.pyw\"):\n        sys.argv[0] = sys.argv[0][:-11]\n    elif \
             sys.argv[0].endswith(\".exe\"):\n        sys.argv[0] = sys.argv[0][:-4]\n    sys.exit(main())\n",
            python.display()
        ),
    )?;
    for command in [
        command.display().to_string(),
        environment.path("bin/mcp-server-weather"),
    ] {
        let start = start(&environment.home, &[&command])?;
        assert!(start.ran(), "{start:?}");
    }
    assert_eq!(
        events(&environment.home, "mcp_server_binary_mismatch")?,
        [Value::Null; 0]
    );

    // Code at the start of an environment that was not used before is reported once.
    environment.create("third")?;
    let third = environment.home.path("third");
    for (name, version, requires, code) in [
        ("part_e2e", "1.0", "", ""),
        ("mcp_server_weather", "1.2.0", "part_e2e", CODE),
        ("hook_e2e", "2.0", "", ""),
    ] {
        let wheel = environment.wheel(name, version, requires, code)?;
        environment.install_into(&third, &wheel)?;
    }
    let command = third.join("bin/mcp-server-weather").display().to_string();
    for _ in 0..2 {
        let start = start(&environment.home, &[&command])?;
        assert!(start.ran(), "{start:?}");
    }
    let reported = events(&environment.home, "mcp_server_binary_mismatch")?;
    let [reported] = &reported[..] else {
        panic!("{reported:?}")
    };
    assert_eq!(
        (text(reported, "action"), text(reported, "severity")),
        ("audit", "medium")
    );
    assert!(
        text(reported, "reason").contains("an environment that was not used before"),
        "{reported}"
    );
    Ok(())
}

/// Writes a script of the user's own, in a new work tree of Git or in a plain directory.
fn own_script(home: &Home, is_work_tree: bool) -> Result<[String; 2]> {
    let directory = home.path("project");
    fs::create_dir_all(&directory)?;
    if is_work_tree {
        run(Command::new("git").args(["init", "-q"]).arg(&directory))?;
    }
    let path = directory.join("weather.py");
    fs::write(&path, format!("{CODE}main()\n"))?;
    Ok([python()?, path.display().to_string()])
}

#[test_case(true; "in a work tree")]
#[test_case(false; "outside")]
fn an_edited_source(is_work_tree: bool) -> Result<()> {
    let home = Home::new()?;
    let [python, path] = own_script(&home, is_work_tree)?;
    pin(&home, &[&python, &path])?;
    if !is_work_tree {
        run(Command::new("git").args(["init", "-q"]).arg(home.path("project")))?;
    }
    fs::write(&path, format!("{CODE}# edited\nmain()\n"))?;
    let start = start(&home, &[&python, &path])?;
    let changes = changes(&home)?;
    let (cause, _) = changes.first().context("a change")?;
    if is_work_tree {
        assert!(start.ran(), "{start:?}");
        assert_eq!(changes, change("own_source", "weather.py was edited"));
    } else {
        assert_eq!((start.code, cause.as_str()), (1, "unknown"), "{start:?}");
        assert!(start.answer.contains("weather.py was edited"), "{start:?}");
    }
    Ok(())
}

#[test]
fn a_policy_sets_the_effect_of_each_cause() -> Result<()> {
    let environment = Environment::new()?;
    pin(&environment.home, &[&environment.path("bin/mcp-server-weather")])?;
    environment.install("part_e2e", "1.1", "", "# new\n")?;
    let policy = "version: 1\nmcp: {version_pinning: {files: {dependency: block}}}\n";
    environment.home.configure(policy)?;
    let start = environment.start()?;
    assert_eq!(start.code, 1, "{start:?}");
    assert!(
        start.answer.contains("dependency part-e2e 1.0 → 1.1"),
        "{start:?}"
    );
    let command = environment.path("bin/mcp-server-weather");
    environment.home.configure(&format!(
        "version: 1\nmcp:\n  version_pinning: {{files: {{dependency: block}}}}\n  servers:\n    - {{id: weather, command: {command}, \
         on_change: alert}}\n"
    ))?;
    let start = environment.start()?;
    assert!(start.ran(), "{start:?}");
    Ok(())
}
