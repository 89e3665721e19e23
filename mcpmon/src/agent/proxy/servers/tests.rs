//! Conversations without any wire: whose they are, what they record, what changes them.

use std::{collections::BTreeSet, path::PathBuf};

use mcpmon_config::{LocalConfig, Search, Trust, load};
use mcpmon_http::{
    Peer,
    mcp::{Crowded, NoAnswer},
};
use mcpmon_model::{
    Call, Content, Denial, Digest, Era, FromClient, FromServer, ListKind, Listed, Listing, Message, RawJson,
    RequestId, Trace, Verdict,
};
use mcpmon_session::Options;
use mcpmon_store::{Filter, Reader, Settings, StoredEvent};
use test_case::test_case;

use super::*;

const NOW: Timestamp = Timestamp(mcpmon_store::sample::NOON);
const PATIENCE: Duration = Duration::from_secs(10);
const SERVERS: &str = "version: 1\nmcp: {servers: [{id: notes, url: 'https://notes.example/mcp?key=abc'}, {id: old, type: sse, url: 'https://old.example/sse'}, {id: files, command: files}]}\n";
const TOOL: &str = r#"{"name":"read","description":"Reads a note","inputSchema":{"type":"object"}}"#;
const CHANGED: &str = r#"{"name":"read","description":"Reads any note","inputSchema":{"type":"object"}}"#;

/// A proxy as far as its judges go.
struct Home {
    directory: PathBuf,
    remotes: Remotes,
}

impl Home {
    fn at(directory: &tempfile::TempDir, policy: &str) -> Self {
        let directory = directory.path().to_owned();
        let recorder = mcpmon_session::recorder(Settings::new(directory.join("mcpmon.db"))).expect("a store");
        let options = options(&directory);
        let hosting = Hosting::alone(recorder, &options);
        let remotes = Remotes::new(
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

    fn converse(&self, server: &str, session: Option<&str>, uid: u32) -> Arc<dyn ServerJudge> {
        let asked = self.asked(server, session, Peer::at_socket(Some(uid), None));
        self.remotes.conversation(asked).expect("a judge")
    }

    fn notes(&self) -> Arc<dyn ServerJudge> {
        self.converse("notes", Some("s1"), 1000)
    }

    fn install(&self, policy: &str) {
        self.remotes.0.policies.adopt(&loaded(&self.directory, policy));
        self.remotes.follow();
    }

    fn reader(&self) -> Reader {
        self.remotes
            .0
            .hosting
            .recorder()
            .flush(PATIENCE)
            .expect("written");
        Reader::open(&self.directory.join("mcpmon.db")).expect("the store")
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

fn loaded(directory: &std::path::Path, policy: &str) -> Loaded {
    std::fs::write(directory.join("mcpmon.yaml"), policy).expect("written");
    let options = options(directory);
    load(&options.search, options.trust).expect("a policy")
}

fn say(judge: &dyn ServerJudge, content: Content<'_>) -> Verdict {
    let id = RequestId::Number("1".into());
    let message = Message {
        era: Era::Handshake,
        id: Some(&id),
        trace: Trace::default(),
        size: 100,
        content,
    };
    judge.message(NOW, &message)
}

fn list(judge: &dyn ServerJudge, definition: &str) -> Verdict {
    let listing = Listing {
        kind: ListKind::Tools,
        items: vec![Listed {
            name: "read".into(),
            definition: RawJson::trusted(definition),
        }],
        continued: false,
        more: false,
        result: RawJson::trusted("{}"),
        again: None,
    };
    say(judge, Content::Server(FromServer::Listing(listing)))
}

fn call(judge: &dyn ServerJudge) -> Verdict {
    let call = Call {
        tool: "read".into(),
        arguments: Some(RawJson::trusted(r#"{"id":7}"#)),
        resumes: None,
    };
    say(judge, Content::Client(FromClient::Call(call)))
}

fn initialize(judge: &dyn ServerJudge) -> Verdict {
    let request = FromClient::Request {
        method: "initialize".into(),
        params: None,
    };
    say(judge, Content::Client(request))
}

fn rule(verdict: Verdict) -> Option<String> {
    match verdict {
        Verdict::Block(Denial { rule, .. }) => Some(rule),
        Verdict::Allow | Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) => None,
    }
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
    let judge = home.notes();
    assert_eq!(initialize(&*judge), Verdict::Allow);
    assert_eq!(list(&*judge, TOOL), Verdict::Allow);
    assert_eq!(call(&*judge), Verdict::Allow);
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
    list(&*first.notes(), TOOL);
    first.remotes.close();
    assert_eq!(first.remotes.len(), 0);
    drop(first);
    let second = Home::at(&directory, SERVERS);
    let judge = second.converse("notes", Some("s2"), 1000);
    assert!(matches!(list(&*judge, CHANGED), Verdict::Hide(_)));
    assert_eq!(rule(call(&*judge)).as_deref(), Some("version_pin"));
    let of_another_user = second.converse("notes", Some("s3"), 1001);
    assert_eq!(
        list(&*of_another_user, CHANGED),
        Verdict::Allow,
        "pins are a user's own"
    );
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
    list(&*reads, TOOL);
    let sends = home.converse("old", Some("s1"), 1000);
    let elsewhere = home.converse("old", Some("s2"), 1000);
    let send = |judge: &dyn ServerJudge| {
        let call = Call {
            tool: "send_email".into(),
            arguments: None,
            resumes: None,
        };
        say(judge, Content::Client(FromClient::Call(call)))
    };
    let read = Call {
        tool: "read_file".into(),
        arguments: Some(RawJson::trusted(r#"{"path":"/home/me/.ssh/id_ed25519"}"#)),
        resumes: None,
    };
    say(&*reads, Content::Client(FromClient::Call(read)));
    home.reader();
    assert_eq!(rule(send(&*elsewhere)), None);
    assert_eq!(rule(send(&*sends)).as_deref(), Some("read_then_send"));
}

#[test]
fn a_server_that_may_not_be_used_hears_nothing() {
    let directory = directory();
    let policy = SERVERS.replace(
        "mcp: {",
        "mcp: {server_policy: denylist, denied_servers: [{id: notes}], ",
    );
    let home = Home::at(&directory, &policy);
    let judge = home.notes();
    assert!(judge.knows("read"), "it is not asked for its list either");
    for _ in 0..3 {
        assert_eq!(rule(initialize(&*judge)).as_deref(), Some("mcp.server_policy"));
    }
    assert_eq!(rule(call(&*judge)).as_deref(), Some("server_policy"));
    assert_eq!(home.events("mcp_server_denied").len(), 1);
    let halted = judge.halted(NOW).map(|denial| denial.rule);
    assert_eq!(halted.as_deref(), Some("mcp.server_policy"));
    home.install(SERVERS);
    assert_eq!(judge.halted(NOW), None);
    assert_eq!(initialize(&*judge), Verdict::Allow, "until the policy lets it");
}

#[test]
fn another_policy_holds_for_conversations_that_go_on() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let judge = home.notes();
    list(&*judge, TOOL);
    assert_eq!(judge.changed(NOW), BTreeSet::new());
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
    assert!(judge.changed(NOW).contains(&ListKind::Tools));
    assert_eq!(judge.changed(NOW), BTreeSet::new(), "each is told once");
    assert!(rule(call(&*judge)).is_some());
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
    let judge = home.notes();
    assert!(!judge.knows("read"));
    list(&*judge, TOOL);
    assert!(judge.knows("read") && !judge.knows("write"));
    say(&*judge, Content::Server(FromServer::ListChanged(ListKind::Tools)));
    assert!(!judge.knows("read"));
    list(&*judge, TOOL);
    assert!(judge.knows("read"));
    let later = home.converse("notes", Some("s2"), 1000);
    assert!(!later.knows("read"), "a pin says nothing of what it is now");
}

#[test]
fn a_trouble_is_told_once_until_it_is_another_or_over() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let judge = home.notes();
    let after = |seconds: i64| Timestamp(NOW.0 + seconds * 1_000_000_000);
    let away = |cause: &str| NoAnswer::Unreachable {
        cause: cause.to_owned(),
    };
    let count = || home.events("mcp_discovery_failed").len();
    for second in 0..60 {
        judge.failed(after(second), &away("refused"));
    }
    assert_eq!(count(), 1);
    judge.failed(after(61), &away("reset"));
    judge.failed(after(62), &away("no route"));
    assert_eq!(count(), 2, "another one, but not every second");
    list(&*judge, TOOL);
    judge.failed(after(63), &away("reset"));
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
    let held: Vec<_> = (0..MOST_OF_USER)
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
    assert_eq!(home.remotes.len(), MOST_OF_USER + 1);
}

#[test]
fn the_session_is_that_of_the_process_unless_the_path_says_another() {
    let directory = directory();
    let home = Home::at(&directory, SERVERS);
    let mut child = callers::tests::named("review");
    let uid = nix::unistd::getuid().as_raw();
    let peer = || Peer::at_socket(Some(uid), Some(child.id()));
    let judge = home
        .remotes
        .conversation(home.asked("notes", None, peer()))
        .expect("a judge");
    list(&*judge, TOOL);
    let session = home.events("mcp_tool_seen").pop().expect("an event").session_id;
    assert!(session.is_some_and(|session| session.starts_with("review-")));
    let asked = home.asked("notes", Some("run-1"), peer());
    let other = home.remotes.conversation(asked).expect("a judge");
    assert!(!Arc::ptr_eq(&judge, &other));
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
    let lane = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build();
    let lane = lane.expect("a runtime");
    let (go, goes) = std::sync::mpsc::channel();
    let busy = conversing.busy();
    let waits = lane.spawn(async move { notes.halted(NOW) });
    lane.spawn(async move { go.send(()) });
    goes.recv_timeout(PATIENCE).expect("the other goes on");
    assert!(!waits.is_finished(), "it waits");
    drop(busy);
    assert_eq!(lane.block_on(waits).expect("its turn came"), None);
}
