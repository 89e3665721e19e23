//! What models want, judged by what wrappers and persons left in the store.

use std::path::PathBuf;

use mcpmon_core::model::{Action, DefinitionRecord, Dialect, Input, Intent, Kill, RawJson, ToolName};

use super::*;
use crate::{
    config::{LocalConfig, Search, Trust, load},
    judge::Judge,
    record::{Access, Filter, Settings, Store, sample},
};

const NOW: Timestamp = Timestamp(sample::NOON);

/// A proxy's judges, and the store that they share with wrappers.
struct Home {
    directory: tempfile::TempDir,
    models: Models,
}

impl Home {
    fn new(policy: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::start(Settings::new(directory.path().join("mcpmon.db"))).unwrap();
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

    /// A wrapper somewhere else lists a tool.
    fn list(&self, record: DefinitionRecord) {
        use crate::record::Destination as _;
        self.store().keep(&[Entry::Definition(record)]).unwrap();
    }

    /// What becomes of a call that a model wants.
    fn wanted(&self, session: Option<&str>, tool: &str) -> Verdict {
        let mut judge = self.models.judge(NOW, None, exchange(session));
        judge.judge(NOW, &call(tool))
    }

    fn is_blocked(&self, session: Option<&str>, tool: &str) -> bool {
        matches!(self.wanted(session, tool), Verdict::Block(_))
    }

    fn blocks(&self) -> Vec<(Option<String>, Action)> {
        self.models.0.recorder.flush(FLUSH).unwrap();
        let reader = Reader::open(&self.directory.path().join("mcpmon.db")).unwrap();
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
        conversation: mcpmon_core::model::Conversation {
            identity: sample::identity("files"),
            server_type: mcpmon_core::model::ServerType::Stdio,
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

fn call(tool: &str) -> Spoken<'_> {
    Spoken::Call(Intent {
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
    judge.judge(NOW, &call("Bash"));
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
    let wrapper = Judge::open(NOW, options).unwrap();
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
    for number in 0..=MOST_SESSIONS {
        let now = Timestamp(NOW.0 + i64::try_from(number).unwrap());
        let session = format!("s{number}");
        drop(home.models.judge(now, None, exchange(Some(&session))));
    }
    assert_eq!(home.models.len(), MOST_SESSIONS);
    let kept = home.models.judge(NOW, None, exchange(Some("s7")));
    let later = Timestamp(NOW.0 + 2 * i64::try_from(IDLE.as_nanos()).unwrap());
    home.models.tick(later);
    assert_eq!(home.models.len(), 1, "the one that is used stays");
    drop(kept);
    home.models.tick(later);
    assert!(home.models.is_empty());
}
