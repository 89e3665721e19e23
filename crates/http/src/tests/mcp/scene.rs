//! A proxy in front of an MCP server whose answers a test determines.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use mcpmon_model::{
    Content, Denial, Digest, FromClient, FromServer, Incident, ListKind, Message, ServerId, ServerType,
    SessionId, Timestamp, Verdict,
};
use mcpmon_protocol::filter::{
    Arbiter,
    mcp_http::{
        DecodeLimits, HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ReadState, ResponseFault,
        UnlistedTools, WholeResponseHead,
    },
};
use mcpmon_session::clock;
use tokio::task::block_in_place;

use super::super::scene::{Heard, Upstream, Wire};
use crate::{
    HttpSettings, RunningProxy,
    mcp::{
        AskedServer, Bounds, Caps, Crowded, McpSettings, NoAnswer, NotJudged, Remote, ServerGuard, Servers,
    },
    tests::scene::Rules,
};

/// Longest wait for anything that should come.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two checks of a state that no event announces.
const PAUSE: Duration = Duration::from_millis(5);

/// One server, `files`; a conversation for each session and agent.
#[derive(Debug)]
struct Declared {
    remote: Arc<Remote>,
    judges: Mutex<BTreeMap<String, Arc<dyn ServerGuard>>>,
    notes: Arc<Notes>,
    bounds: Bounds,
}

/// The judge of the tests: its notes and its decisions.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Messages, incidents and failures, in order.
    pub(super) told: Mutex<Vec<String>>,
    /// Tools that were on a list.
    pub(super) tools: Mutex<BTreeSet<String>>,
    /// The requests for tools that were on no list, counted by name.
    missed: Mutex<BTreeMap<String, usize>>,
    /// Lists whose content has changed.
    pub(super) changed: Mutex<BTreeSet<ListKind>>,
    pub(super) asked: Mutex<Vec<AskedServer>>,
    /// The denial of further requests.
    pub(super) halted: Mutex<Option<Denial>>,
    /// Held by a test to delay the judgement of calls to the tool `slow`.
    pub(super) slow: Mutex<()>,
}

impl Notes {
    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }

    /// Waits until this many clients have requested a tool that is on no list yet. Each asks twice: whether it has to
    /// wait, and again before it takes its turn.
    pub(super) fn until_missed_by(&self, clients: usize, tool: &str) {
        let missed = || self.missed.lock().unwrap().get(tool).copied();
        until("the tool is missed", || missed() == Some(2 * clients));
    }

    /// Stops further requests, as a person would.
    pub(super) fn stop(&self) {
        *self.halted.lock().unwrap() = Some(Denial {
            rule: "kill_switch".to_owned(),
            reason: "a person stopped it".to_owned(),
            remedy: None,
            event: None,
        });
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

/// Lets everything pass except calls of the tool `evil`, results with `EVIL` in them, and requests of the server.
#[derive(Debug)]
struct Judging(Arc<Notes>);

impl Judging {
    fn decide(&self, message: &Message<'_>) -> Verdict {
        let (what, blocked) = match &message.content {
            Content::Client(FromClient::Call(call)) => {
                let name = call.tool.to_string();
                let known = if self.is_listed(&name) { "" } else { "unknown " };
                (format!("{known}call {name}"), name == "evil")
            }
            Content::Client(FromClient::Reply { .. }) => ("reply".to_owned(), false),
            Content::Client(_) => ("client".to_owned(), false),
            Content::Server(FromServer::Listing(listing)) => {
                let names = listing.items.iter().map(|item| item.name.to_string());
                let mut tools = self.0.tools.lock().unwrap();
                tools.extend(names);
                (format!("list {}", listing.items.len()), false)
            }
            Content::Server(FromServer::Answer(answer)) => {
                let is_evil = format!("{:?}", answer.outcome).contains("EVIL");
                ("answer".to_owned(), is_evil)
            }
            Content::Server(FromServer::Ask { .. }) => ("ask".to_owned(), true),
            Content::Server(_) => ("server".to_owned(), false),
        };
        let is_slow = what.ends_with(" slow");
        self.0.tell(what);
        if is_slow {
            block_in_place(|| drop(self.0.slow.lock()));
        }
        match blocked {
            true => Verdict::Block(Denial {
                rule: "test".to_owned(),
                reason: "it is evil".to_owned(),
                remedy: None,
                event: None,
            }),
            false => Verdict::Allow,
        }
    }

    fn tell_incidents(&self, now: Timestamp, out: &mut HttpOutput) {
        for incident in out.incidents.drain(..) {
            self.incident(now, &incident);
        }
    }
}

/// The role of [`Judging`] in a filter.
struct JudgingArbiter<'j>(&'j Judging);

impl Arbiter for JudgingArbiter<'_> {
    fn decide(&mut self, message: &Message<'_>) -> Verdict {
        self.0.decide(message)
    }

    fn is_listed(&mut self, tool: &str) -> bool {
        self.0.is_listed(tool)
    }
}

impl ServerGuard for Judging {
    fn post(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        post: &Post<'_>,
        out: &mut HttpOutput,
    ) -> Result<PostDecision, UnlistedTools> {
        let posted = session.post_listed(now, post, &mut JudgingArbiter(self), out);
        self.tell_incidents(now, out);
        posted
    }

    fn push(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        bytes: &[u8],
        out: &mut HttpOutput,
    ) -> ReadState {
        let flow = response.push(now, session, bytes, &mut JudgingArbiter(self), out);
        self.tell_incidents(now, out);
        flow
    }

    fn end(
        &self,
        now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        let ended = response.end(now, session, &mut JudgingArbiter(self), out);
        self.tell_incidents(now, out);
        ended
    }

    fn fail(
        &self,
        _now: Timestamp,
        session: &mut HttpSession,
        response: &mut HttpResponse,
        fault: &ResponseFault,
        out: &mut HttpOutput,
    ) -> WholeResponseHead {
        response.fail(session, fault, out)
    }

    fn halted(&self, _now: Timestamp) -> Option<Denial> {
        self.0.halted.lock().unwrap().clone()
    }

    fn incident(&self, _now: Timestamp, incident: &Incident) {
        self.0.tell(format!("{incident:?}"));
    }

    fn changed(&self, _now: Timestamp) -> BTreeSet<ListKind> {
        std::mem::take(&mut self.0.changed.lock().unwrap())
    }

    fn is_listed(&self, tool: &str) -> bool {
        let is_known = self.0.tools.lock().unwrap().contains(tool);
        if !is_known {
            *self.0.missed.lock().unwrap().entry(tool.to_owned()).or_default() += 1;
        }
        is_known
    }

    fn failed(&self, _now: Timestamp, failure: &NoAnswer) {
        self.0.tell(format!("{failure:?}"));
    }
}

impl Servers for Declared {
    fn session(&self, token: &str) -> Option<SessionId> {
        (token == "known").then(|| SessionId::new("run-1"))
    }

    fn remote(&self, id: &str) -> Option<Arc<Remote>> {
        (id == self.remote.id.as_str()).then(|| Arc::clone(&self.remote))
    }

    fn ids(&self) -> Vec<ServerId> {
        vec![self.remote.id.clone()]
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn crowded(&self, _now: Timestamp, crowded: &Crowded) {
        self.notes
            .tell(format!("{} times: {}", crowded.times, crowded.cause));
    }

    fn conversation(&self, asked: AskedServer) -> Result<Arc<dyn ServerGuard>, NotJudged> {
        let key = format!("{:?} {:?}", asked.session, asked.agent);
        let _who = asked.peer.who(); // while it is connected
        self.notes.asked.lock().unwrap().push(asked);
        if key.contains("unwelcome") {
            return Err(NotJudged("the daemon is not there".to_owned()));
        }
        let mut judges = self.judges.lock().unwrap();
        let judge = judges
            .entry(key)
            .or_insert_with(|| Arc::new(Judging(Arc::clone(&self.notes))));
        Ok(Arc::clone(judge))
    }
}

/// The settings that a test can change.
pub(super) struct Adjusted(pub(super) Caps, pub(super) Bounds, pub(super) HttpSettings);

fn usual() -> Bounds {
    Bounds {
        limits: DecodeLimits::default(),
        streams: 16,
    }
}

/// A proxy with one server.
pub(super) struct Scene {
    pub(super) proxy: Option<RunningProxy>,
    pub(super) upstream: Upstream,
    pub(super) notes: Arc<Notes>,
}

impl Scene {
    /// A server of Streamable HTTP at `/v1/mcp`.
    pub(super) fn new(says: impl Fn(&Heard, &mut Wire) + Send + Sync + 'static) -> Self {
        Self::with(ServerType::Http, |_| {}, says)
    }

    pub(super) fn with(
        server_type: ServerType,
        adjust: impl FnOnce(&mut Adjusted),
        says: impl Fn(&Heard, &mut Wire) + Send + Sync + 'static,
    ) -> Self {
        let upstream = Upstream::new(says);
        let url = format!("{}/v1/mcp", upstream.url);
        Self::at(upstream, &url, server_type, None, adjust)
    }

    pub(super) fn at(
        upstream: Upstream,
        url: &str,
        server_type: ServerType,
        tls: Option<Digest>,
        adjust: impl FnOnce(&mut Adjusted),
    ) -> Self {
        let notes = Arc::<Notes>::default();
        notes
            .tools
            .lock()
            .unwrap()
            .extend(["read".to_owned(), "evil".to_owned(), "slow".to_owned()]);
        let remote = Remote {
            id: ServerId::new("files").unwrap(),
            url: url.to_owned(),
            server_type,
            tls,
        };
        let settings = HttpSettings::new("127.0.0.1:0".parse().unwrap(), Vec::new());
        let mut caps = Adjusted(Caps::default(), usual(), settings);
        caps.0.head = Duration::from_secs(5);
        caps.0.silence = Duration::from_secs(5);
        adjust(&mut caps);
        let servers = Arc::new(Declared {
            remote: Arc::new(remote),
            judges: Mutex::default(),
            notes: Arc::clone(&notes),
            bounds: caps.1,
        });
        let mut settings = caps.2;
        let mut mcp = McpSettings::new(servers, clock::now);
        mcp.caps = caps.0;
        settings.mcp = Some(mcp);
        Self {
            proxy: Some(RunningProxy::start(settings, Arc::new(Rules::default())).unwrap()),
            upstream,
            notes,
        }
    }

    pub(super) fn connect(&self) -> Wire {
        let proxy = self.proxy.as_ref().expect("it was not stopped");
        Wire::new(std::net::TcpStream::connect(proxy.address()).unwrap())
    }

    /// Sends a request and reads its answer.
    pub(super) fn ask(&self, request: impl AsRef<[u8]>) -> Heard {
        let mut wire = self.connect();
        wire.send(request);
        wire.message().expect("an answer")
    }

    /// POSTs a message.
    pub(super) fn post(&self, headers: &str, body: impl AsRef<[u8]>) -> Heard {
        self.ask(post(headers, body))
    }

    /// Returns the next request at the server.
    pub(super) fn heard(&self) -> Heard {
        self.upstream
            .heard
            .recv_timeout(TIMEOUT)
            .expect("the server hears something")
    }

    /// Returns whether the server receives no request.
    pub(super) fn heard_nothing(&self) -> bool {
        self.upstream
            .heard
            .recv_timeout(Duration::from_millis(100))
            .is_err()
    }
}

/// Waits until a condition holds that no event announces; yields the processor between two checks.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "{what}");
        thread::sleep(PAUSE);
    }
}

/// The client's path to the server.
pub(super) const PATH: &str = "/mcp/files";

/// A message; each of the headers ends in a line break.
pub(super) fn post(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let accept = "accept: application/json, text/event-stream\r\n";
    super::super::scene::post(PATH, &format!("{accept}{headers}"), body)
}

/// Any other request without a body.
pub(super) fn head(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost:8484\r\n{headers}\r\n")
}

/// Messages, and answers to them.
pub(super) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
pub(super) const READ: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}"#;
pub(super) const DONE: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}"#;

/// A call of another tool.
pub(super) fn call(tool: &str) -> String {
    READ.replace("\"read\"", &format!("\"{tool}\""))
}

/// An event with this message.
pub(super) fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}
