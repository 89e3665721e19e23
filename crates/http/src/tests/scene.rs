//! A proxy, a provider behind it and a client before it, all on loopback.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use mcpmon_model::{Denial, Exchange, LlmMention, OmittedCall, OmittedCalls, Redaction, SessionId, Verdict};
use mcpmon_protocol::llm::{ContentJudge, LlmFault};
use mcpmon_session::clock;
use mcpmon_store::{Keeper, KeptBodies};

use crate::{ExchangeJudge, Exchanges, HttpSettings, Peer, Provider, RequestOrigin, RunningProxy};

/// Longest wait for anything that should come.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Lets everything pass except the tool `evil`, and remembers which calls were left out.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) faults: Arc<Mutex<Vec<String>>>,
    pub(super) asked: Arc<Mutex<Vec<RequestOrigin>>>,
    pub(super) fail_closed: bool,
    pub(super) keeper: Option<Keeper>,
    pub(super) unanswered: Arc<Mutex<OmittedCalls>>,
}

#[derive(Debug)]
struct Judging {
    faults: Arc<Mutex<Vec<String>>>,
    kept: Option<KeptBodies>,
    unanswered: Arc<Mutex<OmittedCalls>>,
}

impl Exchanges for Rules {
    fn session(&self, token: &str) -> Option<SessionId> {
        (token == "known").then(|| SessionId::new("run-1"))
    }

    fn passes_unknown(&self, _peer: &Peer) -> bool {
        !self.fail_closed
    }

    fn judge(&self, asked: RequestOrigin) -> Box<dyn ExchangeJudge> {
        let exchange = Exchange {
            session: asked.session.clone(),
            uid: None,
            dialect: asked.dialect,
            agent: None,
            request: "req-1".into(),
            trace_parent: asked.trace_parent.clone(),
        };
        self.asked.lock().unwrap().push(asked);
        let keeper = self.keeper.clone();
        Box::new(Judging {
            faults: Arc::clone(&self.faults),
            unanswered: Arc::clone(&self.unanswered),
            kept: keeper.map(|keeper| KeptBodies::new(keeper, exchange)),
        })
    }
}

impl ContentJudge for Judging {
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
        if let LlmMention::Offered(tools) = said {
            let evil = tools
                .iter()
                .enumerate()
                .filter(|(_, tool)| tool.name.name == "evil");
            let evil: Vec<usize> = evil.map(|(position, _)| position).collect();
            return match evil.is_empty() {
                true => Verdict::Allow,
                false => Verdict::Hide(evil),
            };
        }
        let is_evil = matches!(said, LlmMention::Call(intent) if intent.name.name == "evil");
        match is_evil {
            true => Verdict::Block(Denial {
                rule: "test".to_owned(),
                reason: "it is evil".to_owned(),
                remedy: None,
                event: None,
            }),
            false => Verdict::Allow,
        }
    }

    fn redact(&mut self, _text: &str) -> Vec<Redaction> {
        Vec::new()
    }

    fn left_out(&mut self, response: &str, calls: &[OmittedCall]) {
        self.unanswered.lock().unwrap().note(response, calls);
    }

    fn unanswered(&mut self, response: &str) -> Vec<OmittedCall> {
        self.unanswered.lock().unwrap().of(response).to_vec()
    }
}

impl ExchangeJudge for Judging {
    fn request_read(&mut self) {}

    fn sent(&mut self, body: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.sent(clock::now(), body);
        }
    }

    fn answered(&mut self, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.answered(clock::now(), bytes);
        }
    }

    fn failed(&mut self, fault: &LlmFault) {
        self.faults.lock().unwrap().push(fault.to_string());
    }
}

/// A connection, read by heads and bodies.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request or response, as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Heard {
    /// The status of a response.
    pub(super) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends bytes. Returns whether that was still possible.
    pub(super) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sets the time-out of writes.
    pub(super) fn give_up_after(&self, patience: Duration) {
        self.stream.set_write_timeout(Some(patience)).unwrap();
    }

    pub(super) fn hang_up(&self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// One chunk of a body.
    pub(super) fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        self.send(framed);
    }

    /// Returns whether the other end is connected and sends nothing for this time.
    pub(super) fn is_quiet(&mut self, pause: Duration) -> bool {
        self.stream.set_read_timeout(Some(pause)).unwrap();
        let mut bytes = [0; 4096];
        let read = self.stream.read(&mut bytes);
        self.stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        match read {
            Ok(read) => {
                self.buffer.extend_from_slice(&bytes[..read]);
                false
            }
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }

    /// Sends the same bytes again and again, slowly, until the other end sends something, disconnects, or takes too
    /// long.
    pub(super) fn drip(&mut self, said: &[u8]) {
        let pause = Duration::from_millis(20);
        let began = Instant::now();
        while began.elapsed() < TIMEOUT && self.is_quiet(pause) && self.try_send(said) {}
    }

    /// Reads more bytes. Returns `false` at the end.
    pub(super) fn more(&mut self) -> bool {
        let mut bytes = [0; 64 << 10];
        let read = self.stream.read(&mut bytes).unwrap_or(0);
        self.buffer.extend_from_slice(&bytes[..read]);
        read > 0
    }

    /// Returns the next head. Returns `None` if the connection ends before it.
    pub(super) fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// Returns the data of the next chunk, empty for the last. Returns `None` if the connection ends before it.
    pub(super) fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.until(b"\r\n")?;
        let length = String::from_utf8_lossy(&line).trim().to_owned();
        let length = usize::from_str_radix(&length, 16).expect("a length");
        let mut data = self.exactly(length + 2)?;
        data.truncate(length);
        Some(data)
    }

    /// Returns the next message; if the connection ends within its body, the part of it that came.
    pub(super) fn message(&mut self) -> Option<Heard> {
        let mut heard = Heard {
            head: self.head()?,
            body: Vec::new(),
        };
        if heard.header("transfer-encoding").is_some() {
            while let Some(data) = self.next_chunk() {
                if data.is_empty() {
                    break;
                }
                heard.body.extend(data);
            }
        } else if let Some(length) = heard.header("content-length") {
            let length = length.parse().expect("a length");
            heard.body = self.exactly(length).unwrap_or_default();
        }
        Some(heard)
    }

    /// Returns whether the other end closes the connection, whatever it sends before.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = find(&self.buffer, end) {
                return Some(self.buffer.drain(..at + end.len()).collect());
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length {
            if !self.more() {
                return None;
            }
        }
        Some(self.buffer.drain(..length).collect())
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// The provider's handling of a request.
pub(super) type Says = dyn Fn(&Heard, &mut Wire) + Send + Sync;

/// The upstream of the proxy.
pub(super) struct Upstream {
    pub(super) url: String,
    /// The requests that were received.
    pub(super) heard: Receiver<Heard>,
    /// The number of accepted connections.
    pub(super) connections: Arc<Mutex<usize>>,
}

impl Upstream {
    /// Starts a provider that handles each request with `says`.
    pub(super) fn new(says: impl Fn(&Heard, &mut Wire) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, heard) = mpsc::channel();
        let connections = Arc::new(Mutex::new(0));
        let says: Arc<Says> = Arc::new(says);
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming() {
                *count.lock().unwrap() += 1;
                let (says, tell) = (Arc::clone(&says), tell.clone());
                thread::spawn(move || {
                    let mut wire = Wire::new(stream.unwrap());
                    while let Some(heard) = wire.message() {
                        drop(tell.send(heard.clone()));
                        says(&heard, &mut wire);
                    }
                });
            }
        });
        Self {
            url,
            heard,
            connections,
        }
    }
}

/// A proxy in front of one provider, under each of the usual names.
pub(super) struct Scene {
    pub(super) proxy: Option<RunningProxy>,
    /// The requests that the provider received.
    pub(super) heard: Receiver<Heard>,
    pub(super) faults: Arc<Mutex<Vec<String>>>,
    pub(super) asked: Arc<Mutex<Vec<RequestOrigin>>>,
    /// The number of connections that the provider accepted.
    pub(super) connections: Arc<Mutex<usize>>,
}

impl Scene {
    pub(super) fn new(says: impl Fn(&Heard, &mut Wire) + Send + Sync + 'static) -> Self {
        Self::with(Rules::default(), |_| {}, says)
    }

    /// Starts a proxy with these rules, and with settings that `adjust` changes.
    pub(super) fn with(
        rules: Rules,
        adjust: impl FnOnce(&mut HttpSettings),
        says: impl Fn(&Heard, &mut Wire) + Send + Sync + 'static,
    ) -> Self {
        let Upstream {
            url,
            heard,
            connections,
        } = Upstream::new(says);
        let names = ["anthropic", "gemini", "ollama", "openai"];
        let providers = names.map(|name| Provider::new(name, &url).unwrap());
        let mut settings = HttpSettings::new("127.0.0.1:0".parse().unwrap(), providers.to_vec());
        settings.patience = Duration::from_secs(5);
        adjust(&mut settings);
        let (faults, asked) = (Arc::clone(&rules.faults), Arc::clone(&rules.asked));
        let proxy = RunningProxy::start(settings, Arc::new(rules)).unwrap();
        Self {
            proxy: Some(proxy),
            heard,
            faults,
            asked,
            connections,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.proxy.as_ref().expect("it was not stopped").address()
    }

    pub(super) fn connect(&self) -> Wire {
        Wire::new(TcpStream::connect(self.address()).unwrap())
    }

    /// Sends one request and reads its answer.
    pub(super) fn ask(&self, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Heard {
        let mut wire = self.connect();
        wire.send(post(path, headers, body));
        wire.message().expect("an answer")
    }

    /// Returns the next request at the provider.
    pub(super) fn provider_heard(&self) -> Heard {
        self.heard
            .recv_timeout(TIMEOUT)
            .expect("the provider hears something")
    }

    /// Returns whether the provider receives no request.
    pub(super) fn provider_heard_nothing(&self) -> bool {
        self.heard.recv_timeout(Duration::from_millis(100)).is_err()
    }
}

/// A request with a body; each of the headers ends in a line break.
pub(super) fn post(path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// An answer that is sent all at once.
pub(super) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let mut answer = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n").into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// The head of an answer that is sent in chunks.
pub(super) const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
/// Content type of a JSON text.
pub(super) const JSON: &str = "content-type: application/json\r\n";

/// A chat request for a stream, and one for a complete answer.
pub(super) const STREAMED: &str =
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
pub(super) const PLAIN: &str = r#"{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}]}"#;
/// An answer to it.
pub(super) const SAID: &str = r#"{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}"#;
/// The path of a request.
pub(super) const CHAT: &str = "/openai/v1/chat/completions";

/// An event of a chat with this text.
pub(super) fn event(text: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

/// The events that end a chat.
pub(super) const END: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
