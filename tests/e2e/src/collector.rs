//! A real OpenTelemetry collector, rotel, that fills a table of ClickHouse's engine, chdb; both as `cargo xtask test`
//! installs them.

use std::{
    env,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    background::{Background, free_address},
    wait::TIMEOUT,
};

/// The collector and the tables behind it.
#[derive(Debug)]
pub struct Collector {
    rotel: Background,
    clickhouse: Background,
    _directory: TempDir,
}

impl Collector {
    /// Starts both, with a collector that prints everything it receives. Returns `None`, and says so, if they are not
    /// installed.
    ///
    /// # Errors
    /// Returns an error if they do not come up, or are not there and `CI=true` says that they must be.
    pub fn start() -> Result<Option<Self>> {
        let Some(installed) = installed()? else {
            return Ok(None);
        };
        let printing = [
            "--debug-log=traces",
            "--debug-log=metrics",
            "--debug-log=logs",
            "--debug-log-verbosity=detailed",
        ];
        Self::start_with(&installed, &printing).map(Some)
    }

    /// Starts both, with a collector that prints nothing of what it receives.
    ///
    /// # Errors
    /// Returns an error if they do not come up, or are not installed.
    pub fn start_quiet() -> Result<Self> {
        let installed = directory();
        ensure!(installed.join("ready").exists(), "{MISSING}");
        Self::start_with(&installed, &[])
    }

    fn start_with(installed: &Path, options: &[&str]) -> Result<Self> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let directory = TempDir::new()?;
        let address = free_address()?;
        let mut command = Command::new(installed.join("bin/python"));
        command
            .arg(repository.join("tests/e2e/fixtures/telemetry/clickhouse.py"))
            .arg(address.port().to_string())
            .arg(directory.path())
            .arg(repository.join("deploy/fleet/clickhouse.sql"));
        let clickhouse = Background::start(&mut command, address, directory.path().join("clickhouse.log"))?;
        let (http, grpc) = (free_address()?, free_address()?);
        let mut command = Command::new(installed.join("rotel-agent"));
        command
            .args(["start", "--exporter", "clickhouse", "--batch-timeout", "200ms"])
            .args(["--clickhouse-exporter-compression", "none"])
            .arg(format!("--clickhouse-exporter-endpoint=http://{address}"))
            .arg(format!("--otlp-http-endpoint={http}"))
            .arg(format!("--otlp-grpc-endpoint={grpc}"))
            .args(options);
        let rotel = Background::start(&mut command, http, directory.path().join("rotel.log"))?;
        Ok(Self {
            rotel,
            clickhouse,
            _directory: directory,
        })
    }

    /// Returns the endpoint as it is written in a policy.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.rotel.address)
    }

    /// Returns everything that the collector received, as the collector prints it.
    #[must_use]
    pub fn received(&self) -> String {
        self.rotel.log()
    }

    /// Returns the processes of the collector and of the engine behind it.
    #[must_use]
    pub fn pids(&self) -> [u32; 2] {
        [self.rotel.pid(), self.clickhouse.pid()]
    }

    /// Returns the rows of a query in `deploy/fleet/queries`.
    ///
    /// # Errors
    /// Returns an error if the engine does not answer the query.
    pub fn query(&self, name: &str, parameters: &[(&str, &str)]) -> Result<Vec<Value>> {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/fleet/queries/{name}.sql"));
        let query =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let parameters = parameters
            .iter()
            .map(|(name, value)| format!("param_{name}={value}"));
        self.ask(&parameters.collect::<Vec<_>>().join("&"), &query)
    }

    /// Returns the rows of a query that is given as text.
    ///
    /// # Errors
    /// Returns an error if the engine does not answer the query.
    pub fn rows(&self, query: &str) -> Result<Vec<Value>> {
        self.ask("", query)
    }

    fn ask(&self, parameters: &str, query: &str) -> Result<Vec<Value>> {
        let answer = post(self.clickhouse.address, &format!("/?{parameters}"), query)?;
        answer
            .lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }
}

fn post(address: SocketAddr, path: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.contains(" 200 "), "{head}: {body}");
    Ok(body.to_owned())
}

/// Returns the directory with the Python environment for both and the collector; `None` if they are not installed.
fn installed() -> Result<Option<PathBuf>> {
    let root = directory();
    if root.join("ready").exists() {
        return Ok(Some(root));
    }
    if env::var_os("CI").is_some_and(|value| value == "true") {
        bail!("cannot run, and under CI it must: {MISSING}");
    }
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    writeln!(io::stderr().lock(), "skipped: {test}: {MISSING}")?;
    Ok(None)
}

const MISSING: &str = "target/tools/collector is not there: `cargo xtask test` installs it";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/collector")
}
