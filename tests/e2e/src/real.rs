//! Real servers, SDKs and clients from npm and PyPI, as `cargo xtask test` installs them, and the scripts that drive
//! them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{program, skip};

/// The installed servers.
#[derive(Clone, Debug)]
pub struct Real {
    root: PathBuf,
}

/// A server and the calls that tests make to it.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The name of the command.
    pub command: &'static str,
    /// The origin of the program.
    pub origin: Origin,
    /// The arguments, with `@` in the place of the test's directory.
    pub arguments: &'static [&'static str],
    /// The calls, as a JSON list of name and arguments, with `@` as above.
    pub calls: &'static str,
}

/// The origin of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// npm.
    Npm,
    /// PyPI, with the first major version of the SDK.
    Python,
}

/// Servers whose answers depend on nothing but the calls.
pub const SERVERS: [Known; 11] = [
    Known {
        command: "mcp-server-everything",
        origin: Origin::Npm,
        arguments: &[],
        calls: r#"[["echo", {"message": "hello \u00e9 \ud83d\ude00"}], ["get-sum", {"a": 2, "b": 3}], ["no-such-tool", {}]]"#,
    },
    Known {
        command: "mcp-server-filesystem",
        origin: Origin::Npm,
        arguments: &["@"],
        calls: r#"[["list_directory", {"path": "@"}], ["read_text_file", {"path": "@/note.txt"}], ["read_text_file", {"path": "/nonexistent"}]]"#,
    },
    Known {
        command: "mcp-server-memory",
        origin: Origin::Npm,
        arguments: &[],
        calls: r#"[["create_entities", {"entities": [{"name": "a", "entityType": "b", "observations": ["c"]}]}], ["read_graph", {}]]"#,
    },
    Known {
        command: "mcp-server-sequential-thinking",
        origin: Origin::Npm,
        arguments: &[],
        calls: r#"[["sequentialthinking", {"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}]]"#,
    },
    Known {
        command: "mcp-server-github",
        origin: Origin::Npm,
        arguments: &[],
        calls: "[]",
    },
    Known {
        command: "context7-mcp",
        origin: Origin::Npm,
        arguments: &[],
        calls: "[]",
    },
    Known {
        command: "notion-mcp-server",
        origin: Origin::Npm,
        arguments: &[],
        calls: "[]",
    },
    Known {
        command: "tavily-mcp",
        origin: Origin::Npm,
        arguments: &[],
        calls: "[]",
    },
    Known {
        command: "mcp-server-git",
        origin: Origin::Python,
        arguments: &[],
        calls: r#"[["git_status", {"repo_path": "@/nowhere"}]]"#,
    },
    Known {
        command: "mcp-server-sqlite",
        origin: Origin::Python,
        arguments: &["--db-path", "@/test.db"],
        calls: r#"[["create_table", {"query": "CREATE TABLE t (n INTEGER)"}], ["write_query", {"query": "INSERT INTO t VALUES (12345678901234567890)"}], ["read_query", {"query": "SELECT n FROM t"}]]"#,
    },
    Known {
        command: "mcp-server-time",
        origin: Origin::Python,
        arguments: &["--local-timezone", "Etc/UTC"],
        calls: r#"[["convert_time", {"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Kolkata"}]]"#,
    },
];

/// The official SDKs, as clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    /// `mcp` from PyPI.
    Python,
    /// `@modelcontextprotocol/sdk` from npm.
    TypeScript,
}

impl Real {
    /// Finds the directory in which `cargo xtask test` puts them. Returns `None`, and says so on standard error, if it
    /// does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist and `CI=true` says that it must.
    pub fn find() -> Result<Option<Self>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/real-servers");
        if let Ok(root) = root.canonicalize()
            && root.join("ready").exists()
        {
            return Ok(Some(Self { root }));
        }
        let missing = "target/real-servers is not there: `cargo xtask test` installs it";
        skip::for_lack(missing)?;
        Ok(None)
    }

    /// Returns the path of a program that npm installed.
    #[must_use]
    pub fn npm(&self, program: &str) -> PathBuf {
        self.root.join("npm/node_modules/.bin").join(program)
    }

    /// Returns the path of a Node that is new enough for the conformance suite, which a distribution's may not be.
    #[must_use]
    pub fn node22(&self) -> PathBuf {
        self.npm("node")
    }

    /// Returns the path of Bun, which runs packages if it is called as `bunx`.
    #[must_use]
    pub fn bun(&self) -> PathBuf {
        let architecture = match env::consts::ARCH {
            "x86_64" => "x64",
            other => other,
        };
        self.npm("../@oven")
            .join(format!("bun-linux-{architecture}/bin/bun"))
    }

    /// Returns the path of a server written in Go, with an SDK (1.3.1) that takes `"method\u0000"` for `"method"`
    /// (GHSA-q382-vc8q-7jhj). Returns `None` if there is none for this architecture.
    #[must_use]
    pub fn go_server(&self) -> Option<PathBuf> {
        let program = "podman-mcp-server-linux-amd64";
        let program = self.npm("..").join(program).join("bin").join(program);
        cfg!(target_arch = "x86_64").then_some(program)
    }

    /// Returns the command of the Inspector without its web pages.
    #[must_use]
    pub fn inspector(&self) -> Command {
        let mut inspector = Command::new(self.node22());
        let package = self.npm("../@modelcontextprotocol/inspector");
        inspector.arg(package.join("clients/launcher/build/index.js"));
        inspector.arg("--cli");
        inspector
    }

    /// Returns the path of a program of the Python environment that has the first major version of the SDK.
    #[must_use]
    pub fn python(&self, program: &str) -> PathBuf {
        self.root.join("python/bin").join(program)
    }

    /// Returns the path of a program of the Python environment that has the second major version of the SDK.
    #[must_use]
    pub fn python2(&self, program: &str) -> PathBuf {
        self.root.join("python2/bin").join(program)
    }

    /// Returns the path of a program of the Python environment that has the SDKs of models.
    #[must_use]
    pub fn python_llm(&self, program: &str) -> PathBuf {
        self.root.join("python-llm/bin").join(program)
    }

    /// Returns the path of a launcher of Python packages.
    #[must_use]
    pub fn python_launcher(&self, program: &str) -> PathBuf {
        self.root.join("python-launchers/bin").join(program)
    }

    /// Returns the path of a script of `fixtures/real`; scripts for node are beside the packages that they use.
    #[must_use]
    pub fn script(&self, name: &str) -> PathBuf {
        match Path::new(name).extension() {
            Some(extension) if extension == "mjs" => self.root.join("npm").join(name),
            _ => self.root.join(name),
        }
    }

    /// Returns the command of a server.
    #[must_use]
    pub fn command(&self, server: &Known, directory: &Path) -> Vec<String> {
        let program = match server.origin {
            Origin::Npm => self.npm(server.command),
            Origin::Python => self.python(server.command),
        };
        let own = |argument: &&str| argument.replace('@', &directory.display().to_string());
        let mut command = vec![program.display().to_string()];
        command.extend(server.arguments.iter().map(own));
        command
    }

    /// Returns the command, run behind a script that records the passing bytes in `LOG.client` and `LOG.server`.
    #[must_use]
    pub fn tapped(&self, log: &Path, command: &[String]) -> Vec<String> {
        let mut tapped = vec![
            self.python("python").display().to_string(),
            self.script("tap.py").display().to_string(),
            log.display().to_string(),
            "--".to_owned(),
        ];
        tapped.extend_from_slice(command);
        tapped
    }

    /// Lets an SDK drive a server, and returns what the SDK saw.
    ///
    /// # Errors
    /// Returns an error if the SDK fails.
    pub fn drive(&self, sdk: Sdk, scene: &Scene, calls: &str, command: &[String]) -> Result<Value> {
        self.drive_by(&[], sdk, scene, calls, command)
    }

    /// Lets an SDK drive a server, with the SDK started by another command: these words go in front.
    ///
    /// # Errors
    /// Returns an error if the SDK fails.
    pub fn drive_by(
        &self,
        by: &[String],
        sdk: Sdk,
        scene: &Scene,
        calls: &str,
        command: &[String],
    ) -> Result<Value> {
        let mut words = by.to_vec();
        let (interpreter, script) = match sdk {
            Sdk::Python => (self.python("python"), "drive.py"),
            Sdk::TypeScript => ("node".into(), "drive.mjs"),
        };
        words.push(interpreter.display().to_string());
        words.push(self.script(script).display().to_string());
        words.push(calls.replace('@', &scene.data().display().to_string()));
        words.extend_from_slice(command);
        let (program, arguments) = words.split_first().context("a command")?;
        let mut driver = Command::new(program);
        let output = scene
            .prepare(driver.args(arguments))
            .stdin(Stdio::null())
            .output()
            .context("cannot start the SDK")?;
        ensure!(
            output.status.success(),
            "{sdk:?} failed on {command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).context("the SDK tells what it saw as JSON")
    }
}

/// A directory, a home and a store for one test.
#[derive(Debug)]
pub struct Scene {
    directory: TempDir,
}

impl Scene {
    /// Makes a scene, with a file `note.txt` to read.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("mcpmon-real-")
            .tempdir_in("/var/tmp")?;
        let data = directory.path().join("data");
        fs::create_dir(&data)?;
        fs::write(data.join("note.txt"), "a note\n")?;
        Ok(Self { directory })
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the working directory of a server; it is empty at the start.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.file("data")
    }

    /// Returns the path of a file in the directory.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the store of the wrappers.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.file("state/mcpmon.db")
    }

    /// Sets a command's environment: the scene's home, and keys that servers insist on.
    pub fn prepare<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir("/")
            .env("HOME", self.directory())
            .env("XDG_STATE_HOME", self.file("state"))
            .env("XDG_CONFIG_HOME", self.file("config"))
            .env("MEMORY_FILE_PATH", self.file("memory.json"))
            .env("TAVILY_API_KEY", "none")
            .env("NOTION_TOKEN", "none")
            .env("GITHUB_PERSONAL_ACCESS_TOKEN", "none")
            .env_remove("MCPMON_CONFIG")
    }

    /// Returns the command behind the wrapper, with this server id and these further options.
    ///
    /// # Errors
    /// Returns an error if the program was not built.
    pub fn wrapped(&self, server: &str, options: &[&str], command: &[String]) -> Result<Vec<String>> {
        let mut wrapped = vec![program::path()?.display().to_string(), "wrap".to_owned()];
        wrapped.extend(["--server", server, "--db"].map(str::to_owned));
        wrapped.push(self.store().display().to_string());
        wrapped.extend(options.iter().map(|&option| option.to_owned()));
        wrapped.push("--".to_owned());
        wrapped.extend_from_slice(command);
        Ok(wrapped)
    }

    /// Writes a configuration, and returns its path for `--config`.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be written.
    pub fn configuration(&self, text: &str) -> Result<String> {
        let path = self.file("mcpmon.yaml");
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// Returns a listing of the store, an object for each line.
    ///
    /// # Errors
    /// Returns an error if the listing fails.
    pub fn list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let store = self.store().display().to_string();
        let run = program::run([arguments, &["--json", "--db", &store]].concat())?;
        ensure!(run.code == Some(0), "{arguments:?} failed: {run:?}");
        run.objects()
    }

    /// Returns the store's events of this type.
    ///
    /// # Errors
    /// Returns an error if the listing fails.
    pub fn events(&self, kind: &str) -> Result<Vec<Value>> {
        self.list(&["events", "--limit", "100000", "--type", kind])
    }
}
