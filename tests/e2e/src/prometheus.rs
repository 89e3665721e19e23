//! The Prometheus of the distribution; it is ended at the latest with its test.

use std::{
    env, fs,
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
    wait::{self, TIMEOUT},
};

/// A Prometheus that scrapes one address.
#[derive(Debug)]
pub struct Prometheus {
    process: Background,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes `target` each second. Returns `None`, and says so, if it is not installed.
    ///
    /// # Errors
    /// Returns an error if it does not come up, or if it is not installed and `CI=true` says that it must be.
    pub fn start(target: SocketAddr) -> Result<Option<Self>> {
        let Some(program) = program()? else {
            return Ok(None);
        };
        let directory = TempDir::new()?;
        let file = |name: &str| directory.path().join(name);
        let configuration = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs: [{{job_name: mcpmon, static_configs: [{{targets: [\"{target}\"]}}]}}]\n"
        );
        fs::write(file("prometheus.yml"), configuration)?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", file("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let process = Background::start(&mut command, address, file("log"))?;
        Ok(Some(Self {
            process,
            _directory: directory,
        }))
    }

    /// Waits until an expression has one sample, and returns its value.
    ///
    /// # Errors
    /// Returns an error if it has none in time.
    pub fn value(&self, expression: &str) -> Result<f64> {
        wait::until(expression, || {
            let Some(answer) = self.query(expression)? else {
                return Ok(None);
            };
            let value = answer["data"]["result"][0]["value"][1].as_str();
            value.map(|value| Ok(value.parse()?)).transpose()
        })
        .with_context(|| self.process.log())
    }

    /// Waits until an expression has this value.
    ///
    /// # Errors
    /// Returns an error if it does not reach the value in time.
    pub fn wait_for(&self, expression: &str, expected: f64) -> Result<()> {
        let mut last = None;
        wait::until(expression, || {
            last = Some(self.value(expression)?);
            Ok((last == Some(expected)).then_some(()))
        })
        .with_context(|| format!("{expression} is {last:?}, not {expected}"))
    }

    /// Returns the answer to a query; `None` while Prometheus starts.
    fn query(&self, expression: &str) -> Result<Option<Value>> {
        let path = format!("/api/v1/query?query={}", escaped(expression));
        let (status, answer) = get(self.process.address, &path)?;
        if status == 503 {
            return Ok(None);
        }
        ensure!(status == 200, "{expression}: {status} {answer}");
        Ok(Some(serde_json::from_str(&answer)?))
    }
}

/// Returns the status and body that a server answers to a `GET`.
///
/// # Errors
/// Returns an error if there is no answer.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte.is_ascii_alphanumeric() || byte == b'_' {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Returns the program as `cargo xtask test` unpacks it; `None` if it is not there.
fn program() -> Result<Option<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/prometheus");
    let program = root.join("usr/bin/prometheus");
    if program.exists() {
        return Ok(Some(program));
    }
    let missing = "target/tools/prometheus is not there: `cargo xtask test` unpacks it";
    if env::var_os("CI").is_some_and(|value| value == "true") {
        bail!("cannot run, and under CI it must: {missing}");
    }
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    writeln!(io::stderr().lock(), "skipped: {test}: {missing}")?;
    Ok(None)
}
