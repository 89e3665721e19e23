//! Conversations without a network: their sessions, their records, and what changes them.

use std::{collections::BTreeSet, path::PathBuf};

use mcpmon_config::{LocalConfig, Search, Trust, load};
use mcpmon_http::{
    Peer,
    mcp::{Crowded, NoAnswer},
};
use mcpmon_model::{Digest, ListKind};
use mcpmon_protocol::filter::mcp_http::{
    DecodeLimits, Forward, Head, HttpOutput, HttpResponse, HttpSession, Post, PostDecision, ReadState,
    ServerKnowledge,
};
use mcpmon_session::Options;
use mcpmon_store::{Filter, RecorderSettings, StoreReader, StoredEvent};
use test_case::test_case;

use super::*;

const NOW: Timestamp = Timestamp(mcpmon_store::sample::NOON);
const TIMEOUT: Duration = Duration::from_secs(10);
const SERVERS: &str = "version: 1\nmcp: {servers: [{id: notes, url: 'https://notes.example/mcp?key=abc'}, {id: old, type: sse, url: 'https://old.example/sse'}, {id: files, command: files}]}\n";
const TOOL: &str = r#"{"name":"read","description":"Reads a note","inputSchema":{"type":"object"}}"#;
const CHANGED: &str = r#"{"name":"read","description":"Reads any note","inputSchema":{"type":"object"}}"#;

/// The parts of a proxy that judge.
struct Home {
    directory: PathBuf,
    remotes: RemoteServers,
}

impl Home {
    fn at(directory: &tempfile::TempDir, policy: &str) -> Self {
        let directory = directory.path().to_owned();
        let recorder =
            mcpmon_session::recorder(RecorderSettings::new(directory.join("mcpmon.db"))).expect("a store");
        let options = options(&directory);
        let hosting = HostedParts::alone(recorder, &options);
        let remotes = RemoteServers::new(
            Policies::of_one(loaded(&directory, policy)),
            hosting,
            Tokens::default(),
        );
        Self { directory, remotes }
    }

    fn asked(&self, server: &str, session: Option<&str>, peer: Peer) -> AskedServer {
        AskedServer {
            server: self.remotes.remote(server).expect("it is declared"),
            session: session.map(SessionId::new),
            peer,
            agent: Some("agent/1".into()),
        }
    }

    fn converse(&self, server: &str, session: Option<&str>, uid: u32) -> Arc<dyn ServerGuard> {
        let asked = self.asked(server, session, Peer::at_socket(Some(uid), None));
        self.remotes.conversation(asked).expect("a guard")
    }

    fn notes(&self) -> Arc<dyn ServerGuard> {
        self.converse("notes", Some("s1"), 1000)
    }

    fn install(&self, policy: &str) {
        self.remotes.0.policies.adopt(&loaded(&self.directory, policy));
        self.remotes.follow();
    }

    fn reader(&self) -> StoreReader {
        self.remotes.0.hosting.recorder().flush(TIMEOUT).expect("written");
        StoreReader::open(&self.directory.join("mcpmon.db")).expect("the store")
    }

    fn events(&self, kind: &str) -> Vec<StoredEvent> {
        let events = self.reader().events(&Filter::default(), 1000).expect("events");
        events.into_iter().filter(|event| event.kind == kind).collect()
    }
}

fn options(directory: &std::path::Path) -> Options {
    Options {
        search: Search {
            explicit: Some(directory.join("mcpmon.yaml")),
            ..Search::of_process(None, LocalConfig::Ignore)
        },
        trust: Trust::Anyone,
        ..super::super::host_options(
            Search::of_process(None, LocalConfig::Ignore),
            Trust::Anyone,
            directory.join("no-socket"),
            Some(directory.join("mcpmon.db")),
        )
    }
}

fn loaded(directory: &std::path::Path, policy: &str) -> LoadedConfiguration {
    std::fs::write(directory.join("mcpmon.yaml"), policy).expect("written");
    let options = options(directory);
    load(&options.search, options.trust).expect("a policy")
}

/// A client and its server, which speak HTTP.
struct Talk {
    guard: Arc<dyn ServerGuard>,
    session: HttpSession,
    asked: u64,
}

impl Talk {
    fn with(guard: &Arc<dyn ServerGuard>) -> Self {
        Self {
            guard: Arc::clone(guard),
            session: HttpSession::new(DecodeLimits::default(), ServerKnowledge::default()),
            asked: 0,
        }
    }

    /// The client posts a request.
    fn asks(&mut self, method: &str, params: &str) -> PostDecision {
        self.asked += 1;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#,
            self.asked
        );
        let post = Post {
            head: &Head::default(),
            body: body.as_bytes(),
            needs_lists: false,
        };
        let posted = self
            .guard
            .post(NOW, &mut self.session, &post, &mut HttpOutput::default());
        posted.expect("it needs no lists")
    }

    /// The server answers the posted request. Returns the text that the client gets.
    fn answers(&mut self, forward: Forward, result: &str) -> String {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.asked);
        let mut response = HttpResponse::to_post(
            DecodeLimits::default(),
            200,
            Some("application/json"),
            forward.waiting,
        );
        self.says(&mut response, &body)
    }

    /// The server sends a message that answers no request.
    fn notifies(&mut self, method: &str) {
        let mut stream = HttpResponse::to_get(DecodeLimits::default(), 200, Some("text/event-stream"));
        let event = format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}\n\n");
        self.says(&mut stream, &event);
    }

    fn says(&mut self, response: &mut HttpResponse, bytes: &str) -> String {
        let (session, mut out) = (&mut self.session, HttpOutput::default());
        let flow = self
            .guard
            .push(NOW, session, response, bytes.as_bytes(), &mut out);
        assert_eq!(flow, ReadState::Continue);
        self.guard.end(NOW, session, response, &mut out);
        String::from_utf8(out.to_client).expect("text")
    }
}

fn listed(guard: &Arc<dyn ServerGuard>, definition: &str) -> String {
    let mut talk = Talk::with(guard);
    let forward = sent(talk.asks("tools/list", "{}"));
    talk.answers(forward, &format!(r#"{{"tools":[{definition}]}}"#))
}

/// Returns whether the client sees the tool.
fn list(guard: &Arc<dyn ServerGuard>, definition: &str) -> bool {
    listed(guard, definition).contains(definition)
}

fn call(guard: &Arc<dyn ServerGuard>) -> PostDecision {
    call_of(guard, "read", r#"{"id":7}"#)
}

fn call_of(guard: &Arc<dyn ServerGuard>, tool: &str, arguments: &str) -> PostDecision {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    Talk::with(guard).asks("tools/call", &params)
}

fn initialize(guard: &Arc<dyn ServerGuard>) -> PostDecision {
    Talk::with(guard).asks("initialize", r#"{"protocolVersion":"2025-11-25"}"#)
}

fn sent(posted: PostDecision) -> Forward {
    match posted {
        PostDecision::Forward(forward) => forward,
        PostDecision::Answer(answer) => panic!("{}", String::from_utf8_lossy(&answer.body)),
        PostDecision::Held(held_call) => panic!("it is held: {held_call}"),
    }
}

/// Returns the rule in the answer to a denied post.
fn rule(posted: PostDecision) -> Option<String> {
    let PostDecision::Answer(answer) = posted else {
        return None;
    };
    let text = String::from_utf8(answer.body).expect("text");
    let (_, behind) = text.split_once("(rule ").unwrap_or_else(|| panic!("{text}"));
    behind.split([',', ')']).next().map(str::to_owned)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test_case("notes", Some("s1"), 1000 => true; "again")]
#[test_case("notes", Some("s2"), 1000 => false; "another session")]
#[test_case("notes", Some("s1"), 1001 => false; "another user")]
#[test_case("notes", None, 1000 => false; "no session")]
#[test_case("old", Some("s1"), 1000 => false; "another server")]
fn a_conversation_goes_on(server: &str, session: Option<&str>, uid: u32) -> bool {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let first = home.notes();
    let other = home.converse(server, session, uid);
    assert_eq!(home.remotes.len() == 1, Arc::ptr_eq(&first, &other));
    Arc::ptr_eq(&first, &other)
}

#[test]
fn what_is_said_is_recorded_as_that_of_a_remote_server() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let guard = home.notes();
    sent(initialize(&guard));
    assert!(list(&guard, TOOL));
    sent(call(&guard));
    let called = home.events("mcp_tool_called").pop().expect("a call");
    assert_eq!(called.layer, Layer::McpHttp);
    assert_eq!(called.server_id.as_deref(), Some("notes"));
    assert_eq!(called.session_id.as_deref(), Some("s1"));
    let identity = PinKey {
        server: ServerId::new("notes").expect("an id"),
        name: "https://notes.example/mcp".to_owned(),
        uid: 1000,
    };
    let definitions = home.reader().definitions_of(&identity).expect("definitions");
    assert!(definitions[0].pinned.is_some(), "{definitions:?}");
    let servers = home.reader().servers().expect("servers");
    assert!(
        servers
            .iter()
            .any(|server| server.server_id == "notes" && server.last_seen.is_some())
    );
    let members = home.reader().members(&SessionId::new("s1")).expect("members");
    assert_eq!(
        members.iter().map(|member| &member.identity).collect::<Vec<_>>(),
        [&identity]
    );
    assert_eq!(members[0].agent.as_deref(), Some("agent/1"));
}

#[test]
fn a_rug_pull_is_refused_in_a_later_conversation_and_process() {
    let directory = directory();
    let first = Home::at(&directory, SERVERS);
    assert!(list(&first.notes(), TOOL));
    first.remotes.close();
    assert_eq!(first.remotes.len(), 0);
    drop(first);
    let second = Home::at(&directory, SERVERS);
    let guard = second.converse("notes", Some("s2"), 1000);
    assert!(!list(&guard, CHANGED));
    assert_eq!(rule(call(&guard)).as_deref(), Some("version_pin"));
    let of_another_user = second.converse("notes", Some("s3"), 1001);
    assert!(list(&of_another_user, CHANGED), "pins are a user's own");
}

#[test]
fn servers_of_one_session_know_each_other() {
    let directory = directory();
    let policy = SERVERS.replace(
        "mcp: {",
        "mcp: {cross_server: {decision: block, burst: {enabled: false}}, ",
    );
    let home = Home::at(&directory, &policy);
    let reads = home.notes();
    list(&reads, TOOL);
    let sends = home.converse("old", Some("s1"), 1000);
    let elsewhere = home.converse("old", Some("s2"), 1000);
    let send = |guard: &Arc<dyn ServerGuard>| call_of(guard, "send_email", "{}");
    sent(call_of(
        &reads,
        "read_file",
        r#"{"path":"/home/me/.ssh/id_ed25519"}"#,
    ));
    home.reader();
    sent(send(&elsewhere));
    assert_eq!(rule(send(&sends)).as_deref(), Some("read_then_send"));
}

#[test]
fn a_server_that_may_not_be_used_hears_nothing() {
    let directory = directory();
    let policy = SERVERS.replace(
        "mcp: {",
        "mcp: {server_policy: denylist, denied_servers: [{id: notes}], ",
    );
    let home = Home::at(&directory, &policy);
    let guard = home.notes();
    assert!(guard.is_listed("read"), "it is not asked for its list either");
    for _ in 0..3 {
        assert_eq!(rule(initialize(&guard)).as_deref(), Some("mcp.server_policy"));
    }
    assert_eq!(rule(call(&guard)).as_deref(), Some("server_policy"));
    assert_eq!(home.events("mcp_server_denied").len(), 1);
    let halted = guard.halted(NOW).map(|denial| denial.rule);
    assert_eq!(halted.as_deref(), Some("mcp.server_policy"));
    home.install(SERVERS);
    assert_eq!(guard.halted(NOW), None);
    sent(initialize(&guard)); // once the policy lets it
}

#[test]
fn another_policy_holds_for_conversations_that_go_on() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let guard = home.notes();
    list(&guard, TOOL);
    assert_eq!(guard.changed(NOW), BTreeSet::new());
    let (notes, ids) = (
        home.remotes.remote("notes").expect("declared"),
        home.remotes.ids(),
    );
    assert_eq!(
        ids.iter().map(ServerId::as_str).collect::<Vec<_>>(),
        ["notes", "old"]
    );
    home.install(
        &SERVERS
            .replace("mcp: {", "mcp: {blocked_tools: [read], ")
            .replace("id: old", "id: new"),
    );
    assert!(guard.changed(NOW).contains(&ListKind::Tools));
    assert_eq!(guard.changed(NOW), BTreeSet::new(), "each is told once");
    assert!(rule(call(&guard)).is_some());
    assert!(home.remotes.remote("old").is_none() && home.remotes.remote("new").is_some());
    let same = home.remotes.remote("notes").expect("declared");
    assert!(
        Arc::ptr_eq(&notes, &same),
        "what did not change is the same value"
    );
}

#[test]
fn a_tool_is_known_from_its_list_until_that_is_called_changed() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let guard = home.notes();
    assert!(!guard.is_listed("read"));
    list(&guard, TOOL);
    assert!(guard.is_listed("read") && !guard.is_listed("write"));
    Talk::with(&guard).notifies("notifications/tools/list_changed");
    assert!(!guard.is_listed("read"));
    list(&guard, TOOL);
    assert!(guard.is_listed("read"));
    let later = home.converse("notes", Some("s2"), 1000);
    assert!(!later.is_listed("read"), "a pin says nothing of what it is now");
}

#[test]
fn a_trouble_is_told_once_until_it_is_another_or_over() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let guard = home.notes();
    let after = |seconds: i64| Timestamp(NOW.0 + seconds * 1_000_000_000);
    let away = |cause: &str| NoAnswer::Unreachable {
        cause: cause.to_owned(),
    };
    let count = || home.events("mcp_discovery_failed").len();
    for second in 0..60 {
        guard.failed(after(second), &away("refused"));
    }
    assert_eq!(count(), 1);
    guard.failed(after(61), &away("reset"));
    guard.failed(after(62), &away("no route"));
    assert_eq!(count(), 2, "another one, but not every second");
    list(&guard, TOOL);
    guard.failed(after(63), &away("reset"));
    assert_eq!(count(), 3, "it had answered");
    let told = home.events("mcp_discovery_failed").pop().expect("an event");
    assert_eq!(told.data["url"], "https://notes.example/mcp");
}

#[test]
fn another_certificate_is_told_with_both_fingerprints() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let (pinned, shown) = (Digest::of(b"pinned"), Digest::of(b"shown"));
    home.notes().failed(NOW, &NoAnswer::Certificate { pinned, shown });
    let told = home.events("mcp_tls_mismatch").pop().expect("an event");
    assert_eq!(told.data["expected"], pinned.to_string());
    assert_eq!(told.data["actual"], shown.to_string());
    assert_eq!(told.rule.as_deref(), Some("tls_fingerprint"));
    assert!(told.reason.expect("a remedy").contains(&shown.to_string()));
}

#[test]
fn what_nobody_goes_on_with_is_over() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let held = home.notes();
    drop(home.converse("old", Some("s1"), 1000));
    let far = Timestamp(clock::now().0 + 3 * 3600 * 1_000_000_000);
    home.remotes.tick(clock::now());
    assert_eq!(home.remotes.len(), 2);
    home.remotes.tick(far);
    assert_eq!(home.remotes.len(), 1, "one is held");
    let members = home.reader().members(&SessionId::new("s1")).expect("members");
    let servers: Vec<&str> = members
        .iter()
        .map(|member| member.identity.server.as_str())
        .collect();
    assert_eq!(servers, ["notes"]);
    drop(held);
}

#[test]
fn one_user_does_not_take_the_room_of_others() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let session = |number: usize| format!("s-{number}");
    let held: Vec<_> = (0..MAX_OF_USER)
        .map(|number| home.converse("notes", Some(&session(number)), 1000))
        .collect();
    let one_more = || home.asked("notes", Some("more"), Peer::at_socket(Some(1000), None));
    let refused = home.remotes.conversation(one_more()).expect_err("no room");
    assert!(refused.to_string().contains("too many"), "{refused}");
    home.converse("notes", Some("s"), 1001);
    let first = Arc::as_ptr(&held[0]).cast::<()>();
    for conversing in home.remotes.conversations().values() {
        let is_first = Arc::as_ptr(conversing).cast::<()>() == first;
        let idle = if is_first { IDLE } else { IDLE / 2 };
        conversing.touch(Timestamp(
            clock::now().0 - i64::try_from(idle.as_nanos()).expect("short"),
        ));
    }
    home.remotes
        .conversation(one_more())
        .expect("one that is held and idle makes room");
    let again = home.converse("notes", Some(&session(0)), 1000);
    assert_ne!(Arc::as_ptr(&again).cast::<()>(), first, "its session begins anew");
    drop((held, again));
    home.remotes
        .conversation(one_more())
        .expect("the oldest makes room");
    assert_eq!(home.remotes.len(), MAX_OF_USER + 1);
}

#[test]
fn the_session_is_that_of_the_process_unless_the_path_says_another() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let mut child = callers::tests::named("review");
    let uid = nix::unistd::getuid().as_raw();
    let peer = || Peer::at_socket(Some(uid), Some(child.id()));
    let guard = home
        .remotes
        .conversation(home.asked("notes", None, peer()))
        .expect("a guard");
    list(&guard, TOOL);
    let session = home.events("mcp_tool_seen").pop().expect("an event").session_id;
    assert!(session.is_some_and(|session| session.starts_with("review-")));
    let asked = home.asked("notes", Some("run-1"), peer());
    let other = home.remotes.conversation(asked).expect("a guard");
    assert!(!Arc::ptr_eq(&guard, &other));
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

#[test]
fn what_is_refused_again_and_again_is_recorded() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let crowded = Crowded {
        server: Some(ServerId::new("notes").expect("an id")),
        cause: "much is open".to_owned(),
        times: 10,
    };
    home.remotes.crowded(NOW, &crowded);
    let told = home.events("mcp_request_judged").pop().expect("an event");
    assert_eq!(told.server_id.as_deref(), Some("notes"));
    assert_eq!(told.rule.as_deref(), Some("proxy_share"));
    assert_eq!(
        told.reason.as_deref(),
        Some("much is open; end some of the clients")
    );
}

#[test]
fn others_of_a_thread_go_on_while_one_waits_for_a_judge_at_work() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let notes = home.notes();
    let conversing = Arc::clone(home.remotes.conversations().values().next().expect("one"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build();
    let runtime = runtime.expect("a runtime");
    let (go, goes) = std::sync::mpsc::channel();
    let busy = conversing.busy();
    let waits = runtime.spawn(async move { notes.halted(NOW) });
    runtime.spawn(async move { go.send(()) });
    goes.recv_timeout(TIMEOUT).expect("the other goes on");
    assert!(!waits.is_finished(), "it waits");
    drop(busy);
    assert_eq!(runtime.block_on(waits).expect("its turn came"), None);
}
