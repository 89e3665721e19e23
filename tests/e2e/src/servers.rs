//! Real MCP servers, made for a test under names that nothing else on the host has.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

const JAVASCRIPT: &str = include_str!("../fixtures/server.js");
const PYTHON: &str = include_str!("../fixtures/server.py");
const TOOLS: &str = include_str!("../fixtures/tools.py");
const SHELL: &str = include_str!("../fixtures/server.sh");
const NATIVE: &str = include_str!("../fixtures/native.c");
/// A script that writes a wheel; its arguments are name, module, code and path.
const WHEEL: &str = include_str!("../fixtures/wheel.py");

/// Returns a new name that the patterns of server names match, and that nothing else in this process or on this host
/// has.
#[must_use]
pub fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("mcp-server-e2e{}x{number}", std::process::id())
}

/// A project in which npm has installed a server with one dependency.
#[derive(Debug)]
pub struct NpmServer {
    /// The name of the package, which is also its command and its id.
    pub name: String,
    /// The project's directory.
    pub project: PathBuf,
    dependency: String,
    _directory: TempDir,
}

impl NpmServer {
    /// Writes server and dependency and lets npm install both, without network.
    ///
    /// # Errors
    /// Returns an error if npm fails.
    pub fn install() -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("mcpmon-e2e-npm-")
            .tempdir_in("/var/tmp")?;
        let directory = scratch.path();
        let name = name();
        let dependency = format!("{name}-version");
        let (sources, project) = (directory.join("sources"), directory.join("project"));
        let package = |name: &str, rest: &str| format!(r#"{{"name": "{name}", "version": "1.0.0", {rest}}}"#);
        let code = JAVASCRIPT
            .replace("@NAME@", &name)
            .replace("@DEPENDENCY@", &dependency);
        write(
            &sources.join("dependency/package.json"),
            &package(&dependency, r#""main": "index.js""#),
        )?;
        write(
            &sources.join("dependency/index.js"),
            "exports.version = \"1.0.0\";\n",
        )?;
        write(
            &sources.join("server/package.json"),
            &package(
                &name,
                &format!(r#""bin": "index.js", "dependencies": {{"{dependency}": "1.0.0"}}"#),
            ),
        )?;
        write_program(&sources.join("server/index.js"), &code)?;
        // Both are given from here, because npm 9 (Debian 12) resolves a dependency's relative paths in the wrong
        // place.
        let dependencies =
            format!(r#""{name}": "file:../sources/server", "{dependency}": "file:../sources/dependency""#);
        write(
            &project.join("package.json"),
            &package("project", &format!(r#""dependencies": {{{dependencies}}}"#)),
        )?;
        let status = Command::new("npm")
            .args([
                "install",
                "--offline",
                "--install-links",
                "--no-audit",
                "--no-fund",
                "--silent",
            ])
            .arg("--cache")
            .arg(directory.join("cache"))
            .current_dir(&project)
            .status()
            .context("cannot run npm")?;
        ensure!(status.success(), "npm install ended with {status}");
        Ok(Self {
            name,
            project,
            dependency,
            _directory: scratch,
        })
    }

    /// Returns the command `npx --no-install NAME`, run in the project.
    #[must_use]
    pub fn npx(&self) -> Command {
        let mut command = Command::new("npx");
        command
            .args(["--no-install", &self.name])
            .current_dir(&self.project);
        command
    }

    /// Packs the installed server with all its dependencies, for a launcher that installs it.
    ///
    /// # Errors
    /// Returns an error if npm fails.
    pub fn pack(&self) -> Result<PathBuf> {
        let package = self.project.join("packed");
        let code = JAVASCRIPT
            .replace("@NAME@", &self.name)
            .replace("@DEPENDENCY@", "./version.js");
        let about = json!({"name": self.name, "version": "1.0.0", "bin": "index.js"});
        write(&package.join("package.json"), &about.to_string())?;
        write(&package.join("version.js"), "exports.version = \"1.0.0\";\n")?;
        write_program(&package.join("index.js"), &code)?;
        let status = Command::new("npm")
            .args(["pack", "--silent"])
            .current_dir(&package)
            .stdout(Stdio::null())
            .status()
            .context("cannot run npm")?;
        ensure!(status.success(), "npm pack ended with {status}");
        Ok(package.join(format!("{}-1.0.0.tgz", self.name)))
    }

    /// Returns the script that serves.
    #[must_use]
    pub fn script(&self) -> PathBuf {
        self.project
            .join("node_modules")
            .join(&self.name)
            .join("index.js")
    }

    /// Changes one byte of the dependency: its version becomes 1.0.1.
    ///
    /// # Errors
    /// Returns an error if the file does not exist.
    pub fn change_dependency(&self) -> Result<PathBuf> {
        let path = self
            .project
            .join("node_modules")
            .join(&self.dependency)
            .join("index.js");
        let text = fs::read_to_string(&path)?;
        fs::write(&path, text.replace("1.0.0", "1.0.1"))?;
        Ok(path)
    }
}

/// A Python package that serves: its module's name and its directory.
#[derive(Debug)]
pub struct PythonServer {
    /// Name of the module.
    pub module: String,
    /// Id of the server: the module's name, spelled as packages are.
    pub id: String,
    /// The value for `PYTHONPATH`.
    pub directory: PathBuf,
}

impl PythonServer {
    /// Writes the package below `directory`.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(directory: &Path) -> Result<Self> {
        let module = name().replace('-', "_");
        let directory = directory.join("modules");
        let code = PYTHON.replace("@NAME@", &module);
        write(&directory.join(&module).join("__init__.py"), "")?;
        write(&directory.join(&module).join("__main__.py"), &code)?;
        let id = module.replace('_', "-");
        Ok(Self {
            module,
            id,
            directory,
        })
    }

    /// Returns the command `python3 -m MODULE`.
    #[must_use]
    pub fn python(&self) -> Command {
        let mut command = Command::new("python3");
        command.args(["-m", &self.module]);
        self.prepare(&mut command);
        command
    }

    /// Gives a command the environment that the server needs.
    pub fn prepare(&self, command: &mut Command) {
        command
            .env("PYTHONPATH", &self.directory)
            .env("PYTHONDONTWRITEBYTECODE", "1");
    }
}

/// A wheel with a server, for launchers that install packages. It has no dependencies.
#[derive(Debug)]
pub struct WheelServer {
    /// The name of the package, which is also its command and its id.
    pub name: String,
    /// The wheel.
    pub wheel: PathBuf,
    module: String,
}

impl WheelServer {
    /// Builds the wheel below `directory` with this Python.
    ///
    /// # Errors
    /// Returns an error if it cannot be built.
    pub fn build(directory: &Path, python: &str) -> Result<Self> {
        let name = name();
        let module = name.replace('-', "_");
        let wheel = directory.join(format!("{module}-1.0-py3-none-any.whl"));
        fs::create_dir_all(directory)?;
        let code = format!("{}\n\ndef main():\n    pass\n", PYTHON.replace("@NAME@", &name));
        let status = Command::new(python)
            .args(["-c", WHEEL, &name, &module, &code])
            .arg(&wheel)
            .status()
            .context("cannot run Python")?;
        ensure!(status.success(), "building a wheel ended with {status}");
        Ok(Self { name, wheel, module })
    }

    /// Appends a byte to the server wherever it is installed below `directory`, and returns the number of changed
    /// files.
    ///
    /// # Errors
    /// Returns an error if it cannot be changed.
    pub fn change_below(&self, directory: &Path) -> Result<usize> {
        let mut count = 0;
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                count += self.change_below(&path)?;
            } else if path.ends_with(Path::new(&self.module).join("server.py")) {
                change(&path)?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// Makes a Python script that serves and is executable by its first line.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn python_script(directory: &Path) -> Result<PathBuf> {
    let name = name();
    let path = directory.join("scripts").join(&name);
    let code = PYTHON.replace("@NAME@", &name);
    write_program(&path, &format!("#!/usr/bin/env python3\n{code}"))?;
    Ok(path)
}

/// Makes a shell script that serves and is executable by its first line; it creates the file `mark` first.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn shell_script(directory: &Path) -> Result<PathBuf> {
    let name = name();
    let path = directory.join("scripts").join(&name);
    let code = SHELL.replace("@NAME@", &name);
    write_program(&path, &format!("#!/bin/sh\n{code}"))?;
    Ok(path)
}

/// A copy of the shell that only root can change, as a distribution's interpreters are.
#[derive(Debug)]
pub struct SystemShell(TempDir);

impl SystemShell {
    /// Copies the shell to a directory below /opt, because everyone may write where temporary files usually are.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn make() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("mcpmon-e2e-")
            .tempdir_in("/opt")?;
        let shell = Self(directory);
        crate::program::copy(fs::canonicalize("/bin/sh")?, shell.path())?;
        Ok(shell)
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.path().join("sh")
    }

    /// Lets everyone write to its directory.
    ///
    /// # Errors
    /// Returns an error if that is not possible.
    pub fn open_to_everyone(&self) -> Result<()> {
        Ok(fs::set_permissions(
            self.0.path(),
            fs::Permissions::from_mode(0o777),
        )?)
    }
}

/// Appends a byte that changes nothing but the file's hash.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn change(program: &Path) -> Result<()> {
    use std::io::Write as _;
    let mut file = fs::File::options().append(true).open(program)?;
    Ok(file.write_all(b"\n")?)
}

/// A server that is a separate program: a copy of the shell under a server's name, and the script that it runs.
#[derive(Debug)]
pub struct ProgramServer {
    /// Name of the program and id of the server.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    script: PathBuf,
}

impl ProgramServer {
    /// Makes the server below `directory`.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn make(directory: &Path) -> Result<Self> {
        let name = name();
        let program = directory.join(&name);
        crate::program::copy(fs::canonicalize("/bin/sh")?, &program)?;
        let script = directory.join(format!("{name}.input"));
        write(&script, &SHELL.replace("@NAME@", &name))?;
        Ok(Self {
            name,
            program,
            script,
        })
    }

    /// Returns the command of the server, which creates the file `mark` before it does anything else.
    #[must_use]
    pub fn command(&self, mark: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.script).arg(mark);
        command
    }

    /// Appends a byte that changes nothing but the file's hash.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn change(&self) -> Result<()> {
        change(&self.program)
    }
}

/// A Python script that serves, and offers the tools that a file lists at the time of each request.
#[derive(Debug)]
pub struct ToolServer {
    /// Name of the script and id of the server.
    pub name: String,
    /// The script, executable by its first line.
    pub script: PathBuf,
    offered: PathBuf,
}

impl ToolServer {
    /// Writes the script below `directory`; it offers no tools at first.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(directory: &Path) -> Result<Self> {
        let name = name();
        let script = directory.join("scripts").join(&name);
        let code = TOOLS.replace("@NAME@", &name);
        write_program(&script, &format!("#!/usr/bin/env python3\n{code}"))?;
        let offered = directory.join(format!("{name}.json"));
        let server = Self {
            name,
            script,
            offered,
        };
        server.offer(&[])?;
        Ok(server)
    }

    /// Sets the tools that it offers from now on, by names and descriptions.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn offer(&self, tools: &[(&str, &str)]) -> Result<()> {
        let tool = |&(name, description): &(&str, &str)| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        let tools: Vec<_> = tools.iter().map(tool).collect();
        write(&self.offered, &serde_json::to_string(&tools)?)
    }

    /// Returns the command that starts it.
    #[must_use]
    pub fn words(&self) -> [String; 2] {
        [&self.script, &self.offered].map(|path| path.display().to_string())
    }

    /// Returns the command that starts it without a wrapper.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.script);
        command.arg(&self.offered);
        command
    }
}

/// Returns the SHA-256 of a file as events have it, computed by a program other than the one under test.
///
/// # Errors
/// Returns an error if it cannot be computed.
pub fn sha256(path: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg("--").arg(path).output()?;
    ensure!(
        output.status.success(),
        "sha256sum {}: {}",
        path.display(),
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let digest = text.split_whitespace().next().context("a digest")?;
    Ok(format!("sha256:{}", digest.trim_start_matches('\\')))
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// A server that is a static program, which writes `ran` and sends a datagram as soon as it runs.
#[derive(Debug)]
pub struct NativeServer {
    /// Name of the program and id of the server.
    pub name: String,
    /// The program.
    pub program: PathBuf,
}

impl NativeServer {
    /// Compiles the server below `directory`.
    ///
    /// # Errors
    /// Returns an error if it cannot be compiled.
    pub fn compile(directory: &Path) -> Result<Self> {
        let name = name();
        let program = directory.join(&name);
        let source = directory.join(format!("{name}.c"));
        write(&source, NATIVE)?;
        let status = Command::new("cc")
            .args(["-O1", "-static", "-o"])
            .args([&program, &source])
            .status()
            .context("cannot run cc")?;
        ensure!(status.success(), "cc ended with {status}");
        Ok(Self { name, program })
    }

    /// Starts the server; its datagram goes to this port.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn start(&self, port: u16) -> Result<Child> {
        Command::new(&self.program)
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("it does not start")
    }

    /// Makes the file so large that hashing it takes long.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn inflate(&self) -> Result<()> {
        const SIZE: u64 = 4 << 30;
        Ok(fs::File::options()
            .write(true)
            .open(&self.program)?
            .set_len(SIZE)?)
    }
}
