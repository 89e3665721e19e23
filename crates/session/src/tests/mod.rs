//! Sessions without a daemon: what they record, and what they learn of each other.

use std::path::{Path, PathBuf};

use mcpmon_config::LocalConfig;
use mcpmon_model::{
    Action, Call, Content, DefinitionKind, DerivedId, FromClient, Layer, ListKind, ListedItem, Listing,
    PinKey, RawJson, RequestId, ServerType, Severity, Trace,
};
use mcpmon_store::{ApprovalOutcome, Filter, Selection, StoreReader, StoredEvent, sample};

use test_case::test_case;

use super::*;
use mcpmon_store::Access;

const NOW: Timestamp = Timestamp(sample::NOON);

/// The directories of a user's policy and store.
struct Home(tempfile::TempDir);

impl Home {
    fn new(policy: &str) -> Self {
        let home = Self(tempfile::tempdir().expect("directory"));
        std::fs::write(home.path("mcpmon.yaml"), policy).expect("policy");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, server: &str) -> Options {
        Options {
            search: Search {
                explicit: Some(self.path("mcpmon.yaml")),
                ..Search::of_process(None, LocalConfig::Ignore)
            },
            trust: Trust::Anyone,
            loaded: None,
            socket: None,
            db: Some(self.path("mcpmon.db")),
            conversation: Conversation {
                identity: identity(server),
                server_type: ServerType::Stdio,
                session: Some(SessionId::new("s1")),
                layer: Layer::Stdio,
            },
            agent: Some("claude".to_owned()),
        }
    }

    fn judge(&self, server: &str) -> Session {
        Session::open(NOW, self.options(server)).expect("a judge")
    }

    fn store(&self) -> Store {
        Store::open(&self.path("mcpmon.db"), Access::default()).expect("the store")
    }

    fn events(&self) -> Vec<StoredEvent> {
        let reader = StoreReader::open(&self.path("mcpmon.db")).expect("the store");
        reader.events(&Filter::default(), 1000).expect("events")
    }
}

fn identity(server: &str) -> PinKey {
    PinKey {
        server: ServerId::new(server).expect("id"),
        name: format!("@a/{server}"),
        uid: nix::unistd::getuid().as_raw(),
    }
}

fn message<'a>(id: &'a RequestId, content: Content<'a>) -> Message<'a> {
    Message {
        era: mcpmon_model::Era::Handshake,
        id: Some(id),
        trace: Trace::default(),
        size: 100,
        content,
    }
}

fn list(judge: &mut Session, definition: &str) -> Verdict {
    let id = RequestId::Number("1".into());
    let listing = Listing {
        kind: ListKind::Tools,
        items: vec![ListedItem {
            name: "read_file".into(),
            definition: RawJson::trusted(definition),
        }],
        continued: false,
        more: false,
        is_part: false,
        result: RawJson::trusted("{}"),
        again: None,
    };
    let content = Content::Server(mcpmon_model::FromServer::Listing(listing));
    judge.message(NOW, &message(&id, content))
}

fn call(judge: &mut Session, arguments: &str) -> Verdict {
    let id = RequestId::Number("2".into());
    let call = Call {
        tool: "read_file".into(),
        arguments: Some(RawJson::trusted(arguments)),
        resumes: None,
    };
    judge.message(NOW, &message(&id, Content::Client(FromClient::Call(call))))
}

const TOOL: &str = r#"{"name":"read_file","description":"Reads a file","inputSchema":{"type":"object"}}"#;
const CHANGED: &str =
    r#"{"name":"read_file","description":"Reads any file","inputSchema":{"type":"object"}}"#;

fn is_blocked(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Block(_))
}

#[test]
fn what_is_listed_and_called_is_recorded_with_its_session_and_secrets_masked() {
    let home = Home::new("version: 1\n");
    let mut judge = home.judge("files");
    assert_eq!(list(&mut judge, TOOL), Verdict::Allow);
    assert_eq!(
        call(&mut judge, r#"{"path":"/a","password":"hunter2"}"#),
        Verdict::Allow
    );
    let status = judge.close(NOW);
    assert_eq!((status.lost, status.last_error), (0, None));

    let events = home.events();
    assert!(
        events.iter().any(|event| event.kind == "mcp_tool_seen"),
        "{events:?}"
    );
    let called = events
        .iter()
        .find(|event| event.kind == "mcp_tool_called")
        .expect("a call");
    assert_eq!(called.session_id.as_deref(), Some("s1"));
    assert_eq!(called.server_id.as_deref(), Some("files"));
    assert_eq!(called.data["input"], r#"{"path":"/a","password":"***"}"#);
    let definitions = home
        .store()
        .read(|reader| reader.definitions_of(&identity("files")))
        .expect("definitions");
    assert!(
        definitions
            .iter()
            .any(|record| record.key.name == "read_file" && record.pinned.is_some())
    );
}

#[test]
fn a_change_is_blocked_in_the_next_process_until_it_is_approved_there_and_then() {
    let home = Home::new("version: 1\n");
    let mut first = home.judge("files");
    drop(list(&mut first, TOOL));
    first.close(NOW);

    let mut second = home.judge("files");
    drop(list(&mut second, CHANGED));
    assert!(is_blocked(&call(&mut second, "{}")));
    second.host.recorder.flush(FLUSH).expect("written");
    let mut store = home.store();
    let key = DefinitionKey {
        identity: identity("files"),
        kind: DefinitionKind::Tool,
        name: "read_file".to_owned(),
    };
    let approved = store.approve(&key, None, "ann").expect("the store");
    assert!(matches!(approved, ApprovalOutcome::Accepted(_)), "{approved:?}");
    assert_eq!(
        call(&mut second, "{}"),
        Verdict::Allow,
        "the running judge hears of it"
    );
    second.close(NOW);
    let record = &store
        .read(|reader| reader.definitions_of(&key.identity))
        .expect("definitions")[0];
    assert_eq!(
        record.approved_by.as_deref(),
        Some("ann"),
        "its writer did not undo it"
    );
}

#[test]
fn what_is_reset_is_pinned_anew() {
    let home = Home::new("version: 1\n");
    let mut judge = home.judge("files");
    drop(list(&mut judge, TOOL));
    judge.host.recorder.flush(FLUSH).expect("written");
    judge.refresh(NOW);
    let forgotten = home
        .store()
        .forget_definitions(NOW, &Selection::default())
        .expect("the store");
    assert!(forgotten >= 1);
    drop(list(&mut judge, CHANGED));
    assert_eq!(call(&mut judge, "{}"), Verdict::Allow);
    judge.close(NOW);
}

/// A definition can be reset after a session stored it and before the session first reads the shared state again.
#[test]
fn what_is_reset_before_its_judge_looked_is_pinned_anew() {
    let home = Home::new("version: 1\n");
    let mut judge = home.judge("files");
    drop(list(&mut judge, TOOL));
    judge.host.recorder.flush(FLUSH).expect("written");
    let forgotten = home
        .store()
        .forget_definitions(Timestamp(NOW.0 + 1), &Selection::default())
        .expect("the store");
    assert!(forgotten >= 1);
    drop(list(&mut judge, CHANGED));
    assert_eq!(call(&mut judge, "{}"), Verdict::Allow);
    judge.close(NOW);
}

#[test]
fn servers_of_a_session_hear_of_each_other_and_of_their_end() {
    let home = Home::new("version: 1\n");
    let mut files = home.judge("files");
    assert!(files.others().is_empty());
    let mut weather = home.judge("weather");
    assert_eq!(weather.others(), [identity("files").server]);
    files.refresh(NOW);
    assert_eq!(files.others(), [identity("weather").server]);

    drop(list(&mut files, TOOL));
    files.host.recorder.flush(FLUSH).expect("written");
    weather.refresh(NOW);
    let registry = weather.guard.monitor().registry();
    assert_eq!(registry.lookup("read_file").len(), 1, "whose tool it is");

    files.close(NOW);
    weather.refresh(NOW);
    assert!(weather.others().is_empty());
    assert!(weather.guard.monitor().registry().lookup("read_file").is_empty());
    let ended = |home: &Home| {
        let reader = StoreReader::open(&home.path("mcpmon.db")).expect("the store");
        reader.sessions(1).expect("sessions")[0].ended
    };
    assert_eq!(ended(&home), None);
    weather.close(NOW);
    assert_eq!(ended(&home), Some(NOW));
}

#[test]
fn another_session_is_another() {
    let home = Home::new("version: 1\n");
    let files = home.judge("files");
    let mut options = home.options("weather");
    options.conversation.session = Some(SessionId::new("s2"));
    let weather = Session::open(NOW, options).expect("a judge");
    assert!(weather.others().is_empty());
    drop((files, weather));
}

#[test]
fn a_member_that_was_killed_is_no_member() {
    let home = Home::new("version: 1\n");
    let mut gone = sample::member("s1", "weather", std::process::id());
    gone.process.start = 1;
    home.store().join(NOW, &gone).expect("the store");
    assert!(home.judge("files").others().is_empty());
}

#[test]
fn a_changed_policy_is_taken_over() {
    let home = Home::new("version: 1\n");
    let mut judge = home.judge("files");
    std::fs::write(home.path("mcpmon.yaml"), "version: 1\nmode: observe\n").expect("policy");
    judge.tick(NOW);
    assert_eq!(judge.policy().mode, mcpmon_policy::Mode::Observe);
    std::fs::write(home.path("mcpmon.yaml"), "version: 1\nmode: obsreve\n").expect("policy");
    judge.tick(Timestamp(NOW.0 + 3 * sample::SECOND));
    assert_eq!(
        judge.policy().mode,
        mcpmon_policy::Mode::Observe,
        "the one before stays"
    );
    judge.close(NOW);
    let events = home.events();
    let [loaded, rejected] = ["policy_loaded", "policy_rejected"].map(|kind| {
        let told = events.iter().find(|event| event.kind == kind);
        told.unwrap_or_else(|| panic!("{kind}: {events:?}"))
    });
    assert_eq!(loaded.severity, Severity::High, "{loaded:?}");
    let path = home.path("mcpmon.yaml").display().to_string();
    assert_eq!(rejected.data["path"], serde_json::json!(path));
}

#[test]
fn without_a_daemon_at_the_socket_the_users_own_store_does() {
    let home = Home::new("version: 1\n");
    let mut options = home.options("files");
    options.socket = Some(home.path("none.sock"));
    let judge = Session::open(NOW, options).expect("a judge");
    judge.close(NOW);
    let degraded = |event: &StoredEvent| event.kind == "mcp_enforcement_degraded";
    assert!(!home.events().iter().any(degraded), "none was expected");
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new("version: 1\n");
    let mut options = home.options("files");
    options.db = Some(home.path("state/mcpmon/mcpmon.db"));
    let judge = Session::open(NOW, options).expect("a judge");
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(&home.path("state/mcpmon")), 0o700);
    for entry in std::fs::read_dir(home.path("state/mcpmon")).expect("directory") {
        let path = entry.expect("entry").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    judge.close(NOW);
}

mod crossing;
mod restart;

#[test]
fn a_refusal_names_its_event_and_no_command_that_lifts_it() {
    let home = Home::new("version: 1\nmcp: {blocked_tools: [read_file]}\n");
    let mut judge = home.judge("files");
    let Verdict::Block(denial) = call(&mut judge, "{}") else {
        panic!("it is on the list");
    };
    judge.close(NOW);
    let named = denial.event.expect("an event").to_string();
    let events = home.events();
    let event = events
        .iter()
        .find(|event| event.id.to_string() == named)
        .expect("it is recorded");
    assert_eq!(
        (event.action, event.rule.as_deref()),
        (Action::Block, Some("blocked_tools"))
    );
    assert_eq!(event.data["remedy"], "mcpmon policy explain blocked_tools");
    let reader = StoreReader::open(&home.path("mcpmon.db")).expect("the store");
    assert_eq!(reader.event(event.id).expect("a store").as_ref(), Some(event));
    assert_eq!(reader.event(uuid::Uuid::nil()).expect("a store"), None);
}

#[test]
fn a_server_that_may_not_start_names_its_event() {
    let home = Home::new("version: 1\nmcp: {server_policy: denylist, denied_servers: [{id: files}]}\n");
    let mut judge = home.judge("files");
    let derived = DerivedId {
        id: judge.server().clone(),
        is_declared: false,
    };
    let Verdict::Block(denial) = judge.admit(NOW, &derived) else {
        panic!("it is denied");
    };
    judge.close(NOW);
    let named = denial.event.expect("an event").to_string();
    assert!(
        home.events()
            .iter()
            .any(|event| event.id.to_string() == named && event.kind == "mcp_server_denied")
    );
}

/// The daemon cannot be asked by a wrapper that it does not serve.
#[test_case(true, true => Some("the server was killed; a daemon runs that does not serve this wrapper, and may have refused the server".to_owned()); "killed beside a daemon")]
#[test_case(true, false => None; "killed without a daemon")]
#[test_case(false, true => None; "ended by itself")]
fn the_end_of_a_server_beside_a_daemon(is_killed: bool, is_beside_daemon: bool) -> Option<String> {
    let home = Home::new("version: 1\n");
    let mut judge = home.judge("files");
    judge.host.is_beside_daemon = is_beside_daemon;
    judge.served = process::identify(std::process::id());
    match judge.ended(NOW, is_killed) {
        Verdict::Block(denial) => Some(denial.reason),
        Verdict::Allow
        | Verdict::Hide(_)
        | Verdict::StripInstructions
        | Verdict::Redact(_)
        | Verdict::Ask(_) => None,
    }
}
