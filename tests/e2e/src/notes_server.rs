//! A remote MCP server that a test controls, and a client that speaks HTTP with it or with a proxy in front of it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{background::Background, wait::TIMEOUT};

const SERVER: &str = include_str!("notes_server.py");

/// A server that offers the tools that the test sets.
#[derive(Debug)]
pub struct Remote {
    directory: TempDir,
    process: Background,
    tls: Option<Certificate>,
}

/// A self-signed certificate.
#[derive(Debug)]
pub struct Certificate {
    /// The path of the certificate.
    pub certificate: PathBuf,
    /// The path of its certificate's key.
    pub key: PathBuf,
    /// The fingerprint, as it is written in a policy.
    pub fingerprint: String,
}

impl Remote {
    /// Starts a server without TLS on loopback.
    ///
    /// # Errors
    /// Returns an error if the server does not come up.
    pub fn start(tools: &Value) -> Result<Self> {
        Self::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST), tools)
    }

    /// Starts a server without TLS at another address of this host.
    ///
    /// # Errors
    /// Returns an error if the server does not come up.
    pub fn start_at(ip: IpAddr, tools: &Value) -> Result<Self> {
        Self::serve(TempDir::new()?, ip, tools, None)
    }

    /// Starts a server with TLS and a self-signed certificate.
    ///
    /// # Errors
    /// Returns an error if the server does not come up.
    pub fn start_tls(tools: &Value) -> Result<Self> {
        let directory = TempDir::new()?;
        let certificate = Certificate::make(directory.path())?;
        Self::serve(
            directory,
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            tools,
            Some(certificate),
        )
    }

    fn serve(directory: TempDir, ip: IpAddr, tools: &Value, tls: Option<Certificate>) -> Result<Self> {
        let file = |name| directory.path().join(name);
        fs::write(file("server.py"), SERVER)?;
        fs::write(file("tools.json"), tools.to_string())?;
        fs::write(file("heard"), "")?;
        let address = TcpListener::bind((ip, 0))?.local_addr()?;
        let mut command = Command::new("python3");
        command
            .arg(file("server.py"))
            .args([address.ip().to_string(), address.port().to_string()])
            .args([file("tools.json"), file("heard")]);
        match &tls {
            Some(tls) => command.args([&tls.certificate, &tls.key]),
            None => command.args(["", ""]),
        };
        let process = Background::start(&mut command, address, file("log"))?;
        Ok(Self {
            directory,
            process,
            tls,
        })
    }

    /// Sets the tools that the server offers from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn offer(&self, tools: &Value) -> Result<()> {
        let (file, new) = (
            self.directory.path().join("tools.json"),
            self.directory.path().join("new"),
        );
        fs::write(&new, tools.to_string())?;
        Ok(fs::rename(new, file)?)
    }

    /// Sets the card that the server publishes from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn publish(&self, card: &Value) -> Result<()> {
        Ok(fs::write(
            self.directory.path().join("tools.json.card"),
            card.to_string(),
        )?)
    }

    /// Returns the received requests, a method and a name in each line.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn heard(&self) -> Result<Vec<String>> {
        let heard = fs::read_to_string(self.directory.path().join("heard"))?;
        Ok(heard.lines().map(|line| line.trim().to_owned()).collect())
    }

    /// Returns the address at which the server listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.process.address
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address())
    }

    /// Returns the fingerprint of the server's certificate, as it is written in a policy; `None` without TLS.
    #[must_use]
    pub fn fingerprint(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.fingerprint.as_str())
    }
}

impl Certificate {
    /// Makes a new certificate and its key, in files of this directory.
    ///
    /// # Errors
    /// Returns an error if `openssl` fails.
    pub fn make(directory: &Path) -> Result<Self> {
        let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
        let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=nobody.example";
        openssl(
            Command::new("openssl")
                .args(new.split(' '))
                .arg("-out")
                .arg(&certificate)
                .arg("-keyout")
                .arg(&key),
        )?;
        let told = openssl(
            Command::new("openssl")
                .args(["x509", "-noout", "-sha256", "-fingerprint", "-in"])
                .arg(&certificate),
        )?;
        let (_, digits) = told.trim().split_once('=').context("a fingerprint")?;
        let fingerprint = format!("sha256:{}", digits.replace(':', "").to_ascii_lowercase());
        Ok(Self {
            certificate,
            key,
            fingerprint,
        })
    }
}

fn openssl(command: &mut Command) -> Result<String> {
    let output = command.output().context("openssl is needed")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns a tool that takes one text argument.
#[must_use]
pub fn tool(name: &str, description: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!({"name": name, "description": description, "inputSchema": schema})
}

/// An HTTP answer: its status, and its body as JSON.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The status.
    pub status: u16,
    /// The body; null if there is none.
    pub body: Value,
}

impl Heard {
    /// Returns the names of the tools in a list.
    #[must_use]
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["result"]["tools"].as_array().into_iter().flatten();
        tools.filter_map(|tool| tool["name"].as_str()).collect()
    }

    /// Returns the text of a result or an error.
    #[must_use]
    pub fn text(&self) -> &str {
        let text = self.body["result"]["content"][0]["text"].as_str();
        text.or_else(|| self.body["error"]["message"].as_str())
            .unwrap_or_default()
    }
}

/// Sends a request without TLS to the server at `url`.
///
/// # Errors
/// Returns an error if there is no answer that can be read.
pub fn ask(url: &str, method: &str, params: &Value) -> Result<Heard> {
    let (authority, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .context("a URL in clear")?;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-06-18\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    ensure!(
        !head.to_ascii_lowercase().contains("transfer-encoding: chunked"),
        "an answer that was read whole has a length: {head}"
    );
    let body = match body.is_empty() {
        true => Value::Null,
        false => serde_json::from_str(body).with_context(|| format!("no JSON: {body}"))?,
    };
    Ok(Heard { status, body })
}

/// Asks for the list of tools.
///
/// # Errors
/// Returns the errors of [`ask`].
pub fn list(url: &str) -> Result<Heard> {
    ask(url, "tools/list", &json!({}))
}

/// Calls a tool.
///
/// # Errors
/// Returns the errors of [`ask`].
pub fn call(url: &str, tool: &str) -> Result<Heard> {
    ask(
        url,
        "tools/call",
        &json!({"name": tool, "arguments": {"path": "a"}}),
    )
}
