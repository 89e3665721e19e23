//! Intents of models, judged with the state in the store that wrappers and persons left there.

use std::path::PathBuf;

use mcpmon_config::{LocalConfig, Search, Trust, load};
use mcpmon_model::{
    Action, Call, Content, DefinitionRecord, Dialect, Era, FromClient, FromServer, Input, Intent, Kill,
    ListKind, ListedItem, Listing, Message, RawJson, RequestId, ToolName, Trace,
};
use mcpmon_store::{Access, Filter, RecorderSettings, Store, sample};
use test_case::test_case;

use super::*;
use crate::Session;

const NOW: Timestamp = Timestamp(sample::NOON);

/// A proxy's judges, with the store that they share with wrappers.
struct Home {
    directory: tempfile::TempDir,
    models: Models,
}

impl Home {
    fn new(policy: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::start(RecorderSettings::new(directory.path().join("mcpmon.db"))).unwrap();
        let options = options(directory.path().to_owned(), policy);
        let loaded = load(&options.search, options.trust).unwrap();
        Self {
            models: Models::new(Policies::of_one(loaded), recorder, &options),
            directory,
        }
    }

    fn options(&self, policy: &str) -> Options {
        options(self.directory.path().to_owned(), policy)
    }

    fn store(&self) -> Store {
        Store::open(&self.directory.path().join("mcpmon.db"), Access::default()).unwrap()
    }

    /// Lists a tool, as a wrapper elsewhere would.
    fn list(&self, record: DefinitionRecord) {
        use mcpmon_store::Destination as _;
        self.store().keep(&[StoreEntry::Definition(record)]).unwrap();
    }

    /// Returns the verdict on a call that a model asks for.
    fn wanted(&self, session: Option<&str>, tool: &str) -> Verdict {
        let mut judge = self.models.judge(NOW, None, exchange(session));
        judge.judge(NOW, &call(tool))
    }

    fn is_blocked(&self, session: Option<&str>, tool: &str) -> bool {
        matches!(self.wanted(session, tool), Verdict::Block(_))
    }

    fn blocks(&self) -> Vec<(Option<String>, Action)> {
        self.models.0.recorder.flush(FLUSH).unwrap();
        let reader = StoreReader::open(&self.directory.path().join("mcpmon.db")).unwrap();
        let filter = Filter {
            types: vec!["mcp_tool_call_intercepted".to_owned()],
            ..Filter::default()
        };
        let events = reader.events(&filter, 100).unwrap();
        events
            .into_iter()
            .map(|event| (event.session_id.clone(), event.action))
            .collect()
    }
}

fn options(directory: PathBuf, policy: &str) -> Options {
    let file = directory.join("mcpmon.yaml");
    std::fs::write(&file, policy).unwrap();
    Options {
        search: Search {
            explicit: Some(file),
            ..Search::of_process(None, LocalConfig::Ignore)
        },
        trust: Trust::Anyone,
        loaded: None,
        socket: None,
        db: Some(directory.join("mcpmon.db")),
        conversation: mcpmon_model::Conversation {
            identity: sample::identity("files"),
            server_type: mcpmon_model::ServerType::Stdio,
            session: Some(SessionId::new("s1")),
            layer: Layer::Stdio,
        },
        agent: None,
    }
}

fn exchange(session: Option<&str>) -> Exchange {
    Exchange {
        session: session.map(SessionId::new),
        uid: None,
        dialect: Dialect::Anthropic,
        agent: None,
        request: "r1".into(),
        trace_parent: None,
    }
}

fn call(tool: &str) -> LlmMention<'_> {
    LlmMention::Call(Intent {
        id: Some("toolu_1".into()),
        name: ToolName {
            namespace: None,
            name: tool.into(),
        },
        input: Input::Json(RawJson::trusted("{}")),
    })
}

const TOOL: &str = r#"{"name":"delete_all","description":"Deletes","inputSchema":{"type":"object"}}"#;
const BLOCKS: &str = "version: 1\nmcp: {blocked_tools: [delete_*]}\n";
const ALLOWS: &str = "version: 1\n";

#[test]
fn a_tool_that_a_wrapper_saw_is_known_as_agents_name_it() {
    let home = Home::new(BLOCKS);
    home.list(sample::definition("files", "delete_all", TOOL));
    assert!(home.is_blocked(None, "mcp__files__delete_all"));
    assert!(!home.is_blocked(None, "mcp__files__read_all"), "another tool");
    let blocks = home.blocks();
    assert!(
        blocks.iter().any(|(_, action)| *action == Action::Block),
        "{blocks:?}"
    );
}

#[test]
fn what_is_listed_later_is_heard_of() {
    let home = Home::new(BLOCKS);
    let mut judge = home.models.judge(NOW, None, exchange(None));
    assert!(judge.is_behind(), "nothing was looked up yet");
    drop(judge.judge(NOW, &call("Bash")));
    assert!(!judge.is_behind());
    home.list(sample::definition("files", "delete_all", TOOL));
    assert!(judge.is_behind());
    assert!(matches!(
        judge.judge(NOW, &call("mcp__files__delete_all")),
        Verdict::Block(_)
    ));
}

#[test]
fn a_session_has_its_own_servers_and_its_events_its_name() {
    let home = Home::new(BLOCKS);
    home.list(sample::definition("files", "delete_all", TOOL));
    let options = home.options(BLOCKS);
    let wrapper = Session::open(NOW, options).unwrap();
    assert!(home.is_blocked(Some("s1"), "mcp__files__delete_all"));
    assert!(home.blocks().contains(&(Some("s1".to_owned()), Action::Block)));
    drop(wrapper.close(NOW));
}

#[test]
fn another_policy_holds_for_sessions_that_are_there() {
    let home = Home::new(ALLOWS);
    home.list(sample::definition("files", "delete_all", TOOL));
    assert!(!home.is_blocked(None, "mcp__files__delete_all"));
    let options = home.options(BLOCKS);
    let loaded = load(&options.search, options.trust).unwrap();
    home.models.install(NOW, &loaded);
    assert!(home.is_blocked(None, "mcp__files__delete_all"));
}

#[test]
fn what_a_person_stops_is_stopped_at_once() {
    let home = Home::new(ALLOWS);
    home.list(sample::definition("files", "delete_all", TOOL));
    assert!(!home.is_blocked(None, "mcp__files__delete_all"));
    let kill = Kill {
        at: NOW,
        by: "me".to_owned(),
    };
    assert!(home.store().kill(None, &kill).unwrap());
    assert!(home.is_blocked(None, "mcp__files__delete_all"));
}

#[test]
fn sessions_make_room_and_end() {
    let home = Home::new(ALLOWS);
    for number in 0..=MAX_SESSIONS {
        let now = Timestamp(NOW.0 + i64::try_from(number).unwrap());
        let session = format!("s{number}");
        drop(home.models.judge(now, None, exchange(Some(&session))));
    }
    assert_eq!(home.models.len(), MAX_SESSIONS);
    let kept = home.models.judge(NOW, None, exchange(Some("s7")));
    let later = Timestamp(NOW.0 + 2 * i64::try_from(IDLE.as_nanos()).unwrap());
    home.models.tick(later);
    assert_eq!(home.models.len(), 1, "the one that is used stays");
    drop(kept);
    home.models.tick(later);
    assert!(home.models.is_empty());
}

/// One call per server and minute.
const SELDOM: &str = "version: 1\nmcp: {rate_limits: {default_rpm: 1, default_burst: 1}}\n";
/// Reads and later sends are recognised by the tools' names, and blocked without evidence.
const APART: &str = "version: 1\nmcp: {cross_server: {decision: block, classifier: names}}\n";

/// A policy under which calls that no rule names pass without an event.
const NOTHING_NOTED: &str = "version: 1\nmcp: {defaults: {decision: ALLOW}}\n";

const fn after(milliseconds: i64) -> Timestamp {
    Timestamp(NOW.0 + milliseconds * 1_000_000)
}

/// A wrapper of the session `s1`.
struct Wrapper(Session);

impl Wrapper {
    fn open(home: &Home, policy: &str, server: &str) -> Self {
        let mut options = home.options(policy);
        options.conversation.identity = sample::identity(server);
        Self(Session::open(NOW, options).unwrap())
    }

    fn say(&mut self, at: Timestamp, content: Content<'_>) -> Verdict {
        let id = RequestId::Number("7".into());
        let message = Message {
            era: Era::default(),
            id: Some(&id),
            trace: Trace::default(),
            size: 100,
            content,
        };
        let verdict = self.0.message(at, &message);
        self.0.host.recorder.flush(FLUSH).unwrap();
        verdict
    }

    fn list(&mut self, tool: &str) {
        let definition = format!(r#"{{"name":"{tool}","description":"Does it"}}"#);
        let listing = Listing {
            kind: ListKind::Tools,
            items: vec![ListedItem {
                name: tool.into(),
                definition: RawJson::trusted(&definition),
            }],
            continued: false,
            more: false,
            is_part: false,
            result: RawJson::trusted("{}"),
            again: None,
        };
        drop(self.say(NOW, Content::Server(FromServer::Listing(listing))));
    }

    fn is_blocked(&mut self, at: Timestamp, tool: &str) -> bool {
        let call = Call {
            tool: tool.into(),
            arguments: Some(RawJson::trusted("{}")),
            resumes: None,
        };
        matches!(
            self.say(at, Content::Client(FromClient::Call(call))),
            Verdict::Block(_)
        )
    }
}

#[test]
fn what_an_earlier_session_listed_is_counted_where_nobody_else_sees_the_call() {
    let home = Home::new(SELDOM);
    home.list(sample::definition("files", "delete_all", TOOL));
    for session in [Some("s2"), None] {
        assert!(!home.is_blocked(session, "mcp__files__delete_all"));
        assert!(home.is_blocked(session, "mcp__files__delete_all"), "{session:?}");
    }
}

#[test]
fn what_an_earlier_session_listed_is_checked_beside_others_where_nobody_else_sees_the_call() {
    let home = Home::new(APART);
    home.list(sample::definition("db", "query_database", TOOL));
    home.list(sample::definition("mail", "send_email", TOOL));
    assert!(!home.is_blocked(Some("s2"), "mcp__mail__send_email"));
    assert!(!home.is_blocked(Some("s2"), "mcp__db__query_database"));
    assert!(home.is_blocked(Some("s2"), "mcp__mail__send_email"));
}

#[test]
fn an_intent_spends_nothing_while_its_server_is_there() {
    let home = Home::new(SELDOM);
    let mut files = Wrapper::open(&home, SELDOM, "files");
    files.list("read_file");
    for _ in 0..3 {
        assert!(!home.is_blocked(Some("s1"), "mcp__files__read_file"));
    }
    assert!(!files.is_blocked(NOW, "read_file"));
    assert!(files.is_blocked(NOW, "read_file"));
    drop(files.0.close(NOW));
    assert!(
        home.is_blocked(Some("s1"), "mcp__files__read_file"),
        "nobody else sees it any more, and the bucket is the session's"
    );
}

#[test]
fn a_wrapper_that_was_killed_sees_no_call() {
    let home = Home::new(SELDOM);
    home.list(sample::definition("files", "delete_all", TOOL));
    home.store()
        .join(NOW, &sample::member("s1", "files", u32::MAX))
        .unwrap();
    assert!(!home.is_blocked(Some("s1"), "mcp__files__delete_all"));
    assert!(home.is_blocked(Some("s1"), "mcp__files__delete_all"));
}

#[test]
fn a_call_that_nobody_else_sees_is_checked_beside_those_of_wrappers() {
    let home = Home::new(APART);
    home.list(sample::definition("mail", "send_email", TOOL));
    let mut db = Wrapper::open(&home, APART, "db");
    db.list("query_database");
    assert!(!home.is_blocked(Some("s1"), "mcp__mail__send_email"));
    assert!(!db.is_blocked(NOW, "query_database"));
    assert!(home.is_blocked(Some("s1"), "mcp__mail__send_email"));
    drop(db.0.close(NOW));
}

#[test]
fn an_intent_is_checked_beside_calls_that_nobody_else_saw() {
    let home = Home::new(APART);
    home.list(sample::definition("db", "query_database", TOOL));
    let mut mail = Wrapper::open(&home, APART, "mail");
    mail.list("send_email");
    assert!(!home.is_blocked(Some("s1"), "mcp__mail__send_email"));
    assert!(!home.is_blocked(Some("s1"), "mcp__db__query_database"));
    assert!(home.is_blocked(Some("s1"), "mcp__mail__send_email"));
    drop(mail.0.close(NOW));
}

#[test]
fn a_tool_that_a_wrapper_lists_is_not_stale() {
    let home = Home::new(NOTHING_NOTED);
    let mut files = Wrapper::open(&home, NOTHING_NOTED, "files");
    files.list("read_file");
    assert!(!home.is_blocked(Some("s1"), "mcp__files__read_file"));
    assert_eq!(home.blocks(), [(Some("s1".to_owned()), Action::Allow)]);
    drop(files.0.close(NOW));
    assert!(!home.is_blocked(Some("s1"), "mcp__files__read_file"));
    assert_eq!(
        home.blocks().last(),
        Some(&(Some("s1".to_owned()), Action::Audit)),
        "its server is gone"
    );
}

/// A turn is one answer of the model, however long its calls take and however soon the next one follows.
#[test_case("turn-1", "turn-1", 2500 => true; "one turn whose calls take long")]
#[test_case("turn-1", "turn-2", 500 => false; "two turns that follow each other soon")]
fn calls_are_of_the_turn_that_wanted_them(first: &str, second: &str, pause: i64) -> bool {
    let home = Home::new(APART);
    let mut files = Wrapper::open(&home, APART, "files");
    let mut notes = Wrapper::open(&home, APART, "notes");
    files.list("read_file");
    notes.list("write_note");
    for (turn, tool) in [
        (first, "mcp__files__read_file"),
        (second, "mcp__notes__write_note"),
    ] {
        let exchange = Exchange {
            request: turn.into(),
            ..exchange(Some("s1"))
        };
        let verdict = home.models.judge(NOW, None, exchange).judge(NOW, &call(tool));
        assert_eq!(verdict, Verdict::Allow);
    }
    assert!(!files.is_blocked(NOW, "read_file"));
    let is_blocked = notes.is_blocked(after(pause), "write_note");
    drop((files.0.close(NOW), notes.0.close(NOW)));
    is_blocked
}
