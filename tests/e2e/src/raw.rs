//! HTTP by hand: a server that sends exactly the bytes that a test wants, and a client that does the same.

use std::{
    fmt,
    io::{self, BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The time that a client waits for a byte.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A request or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The first line.
    pub line: String,
    /// The header fields, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without the framing.
    pub body: Vec<u8>,
}

impl Message {
    /// Returns the value of a header field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the status of a response.
    #[must_use]
    pub fn status(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the messages of a body of server-sent events, with any of the allowed line ends.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        let text = self.text().replace("\r\n", "\n").replace('\r', "\n");
        let data = |event: &str| {
            let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let events = text.split("\n\n").map(data);
        events
            .filter_map(|data| serde_json::from_str(&data).ok())
            .collect()
    }

    fn read(reader: &mut impl io::BufRead) -> io::Result<Option<Self>> {
        let mut message = Self::default();
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        message.line = line.trim_end().to_owned();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            message
                .headers
                .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = message
            .header("content-length")
            .and_then(|length| length.parse().ok());
        if let Some(length) = length {
            message.body = vec![0; length];
            reader.read_exact(&mut message.body)?;
        } else if message.header("transfer-encoding").is_some() {
            message.body = unchunked(reader)?;
        } else if message.line.starts_with("HTTP/") {
            reader.read_to_end(&mut message.body)?;
        }
        Ok(Some(message))
    }
}

/// Reads a chunked body, as far as it comes.
fn unchunked(reader: &mut impl io::BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Ok(size) = usize::from_str_radix(line.trim(), 16) else {
            return Ok(body);
        };
        let mut chunk = vec![0; size + 2];
        if reader.read_exact(&mut chunk).is_err() || size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

type Answer = dyn Fn(&Message, &mut TcpStream) -> io::Result<()> + Send + Sync;

/// A server that writes what a test wants, and takes one request on each connection.
pub struct RawServer {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Message>>>,
}

impl fmt::Debug for RawServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl RawServer {
    /// Starts a server that answers every request with `answer`.
    ///
    /// # Errors
    /// Returns an error if it cannot listen.
    pub fn start(
        answer: impl Fn(&Message, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Answer> = Arc::new(answer);
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                // Errors are ignored, because some tests are about a proxy that closes the connection.
                thread::spawn(move || drop(serve(stream, &kept, &*answer)));
            }
        });
        Ok(Self { address, received })
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns the received messages.
    #[must_use]
    pub fn received(&self) -> Vec<Message> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the received messages with this method.
    #[must_use]
    pub fn asked(&self, method: &str) -> Vec<Value> {
        let bodies = self.received().into_iter().map(|message| message.json());
        bodies.filter(|body| body["method"] == method).collect()
    }
}

fn serve(mut stream: TcpStream, kept: &Mutex<Vec<Message>>, answer: &Answer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(message) = Message::read(&mut BufReader::new(stream.try_clone()?))? else {
        return Ok(());
    };
    kept.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(message.clone());
    answer(&message, &mut stream)
}

/// Writes a whole response with this content type.
///
/// # Errors
/// Returns an error if the connection is closed.
pub fn say(stream: &mut TcpStream, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Writes the head of a response whose body comes in chunks.
///
/// # Errors
/// Returns an error if the connection is closed.
pub fn begin(stream: &mut TcpStream, kind: &str) -> io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
}

/// Writes a chunk; an empty one ends the body.
///
/// # Errors
/// Returns an error if the connection is closed.
pub fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    write!(stream, "{:x}\r\n", bytes.len())?;
    stream.write_all(bytes)?;
    stream.write_all(b"\r\n")
}

/// Sends bytes, and reads one response.
///
/// # Errors
/// Returns an error if no response comes.
pub fn exchange(address: SocketAddr, bytes: &[u8]) -> Result<Message> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // Errors are ignored, because a server that refuses early need not read the rest.
    drop(stream.write_all(bytes));
    response(stream)
}

/// Reads one response.
///
/// # Errors
/// Returns an error if no response comes.
pub fn response(stream: TcpStream) -> Result<Message> {
    let answer = Message::read(&mut BufReader::new(stream))?;
    answer.context("the connection ended without an answer")
}

/// Returns a POST request with these further header fields.
#[must_use]
pub fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("POST {path} HTTP/1.1\r\n");
    let usual = [
        ("host", address.to_string()),
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
        ("connection", "close".to_owned()),
        ("content-length", body.len().to_string()),
    ];
    for (name, value) in usual {
        if !headers.iter().any(|(given, _)| *given == name) {
            text += &format!("{name}: {value}\r\n");
        }
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    format!("{text}\r\n{body}").into_bytes()
}
