//! Judges that connect to the daemon's code. Both ends are this same program, as on a real host.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    time::Duration,
};

use mcpmon_config::{LocalConfig, Search, Trust, load_sources};
use mcpmon_model::{
    Call, Content, Conversation, Denial, Era, FromClient, FromServer, Layer, ListKind, ListedItem, Listing,
    Message, PinKey, ProcessRef, RawJson, RequestId, ServerId, ServerType, Timestamp, Trace, Verdict,
};
use mcpmon_policy::Mode;
use mcpmon_session::{
    ComparisonOutcome, Options, Session,
    protocol::{Hear, Say},
};
use mcpmon_store::{Access, Filter, RecorderSettings, StoreReader, StoredEvent, sample};
use tokio::{
    runtime::Runtime,
    sync::{mpsc, watch},
};

use super::*;
use crate::app::{
    control,
    engine::{FateQuestion, WrapperQuestion},
    inbox::{Inbox, inbox},
    runs::Runs,
};

const NOW: Timestamp = Timestamp(sample::NOON);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of a daemon that wrappers use.
struct Host {
    directory: tempfile::TempDir,
    runtime: Option<Runtime>,
    wrappers: Wrappers,
    recorder: Recorder,
}

impl Host {
    fn new(policy: &str) -> Self {
        Self::at(tempfile::tempdir().expect("directory"), policy)
    }

    fn at(directory: tempfile::TempDir, policy: &str) -> Self {
        let store = directory.path().join("daemon.db");
        let recorder = Recorder::start(RecorderSettings::new(&store)).expect("recorder");
        let text = Arc::new(
            Sources::of_parts(vec![(mcpmon_config::Source::EmbeddedDefault, policy.to_owned())])
                .expect("a part"),
        );
        let wrappers = Wrappers::new(
            recorder.clone(),
            Store::open(&store, Access::default()).expect("store"),
            text.digest(),
            text,
        )
        .expect("own program");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        let (ask, _asked) = mpsc::channel(1);
        let socket = directory.path().join("daemon.sock");
        let served = wrappers.clone();
        let runs = Runs::without_engine(&wrappers, watch::channel(None).1);
        runtime.block_on(async {
            let (listener, file) = control::listen(&socket).expect("socket");
            tokio::spawn(async move {
                control::ControlServer::new(ask.clone(), ask, served, runs)
                    .serve(listener)
                    .await;
                drop(file);
            });
        });
        Self {
            directory,
            runtime: Some(runtime),
            wrappers,
            recorder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn options(&self, server: &str) -> Options {
        Options {
            search: Search {
                explicit: Some(self.path("none.yaml")),
                ..Search::of_process(None, LocalConfig::Ignore)
            },
            trust: Trust::Anyone,
            loaded: None,
            socket: Some(self.path("daemon.sock")),
            db: Some(self.path("own.db")),
            conversation: Conversation {
                identity: PinKey {
                    server: ServerId::new(server).expect("id"),
                    name: format!("@a/{server}"),
                    uid: nix::unistd::geteuid().as_raw(),
                },
                server_type: ServerType::Stdio,
                session: Some(SessionId::new("s1")),
                layer: Layer::Stdio,
            },
            agent: None,
        }
    }

    fn judge(&self, server: &str) -> Session {
        Session::open(NOW, self.options(server)).expect("a judge")
    }

    /// Ends the daemon as a kill does: its connections break.
    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(TIMEOUT);
        }
    }

    fn events(&self, store: &str) -> Vec<StoredEvent> {
        self.recorder.flush(TIMEOUT).expect("written");
        let reader = StoreReader::open(&self.path(store)).expect("a store");
        reader.events(&Filter::default(), 1000).expect("events")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}

fn call(judge: &mut Session, now: Timestamp) -> Verdict {
    let id = RequestId::Number("1".into());
    let message = Message {
        era: Era::Handshake,
        id: Some(&id),
        trace: Trace::default(),
        size: 10,
        content: Content::Client(FromClient::Call(Call {
            tool: "read_file".into(),
            arguments: None,
            resumes: None,
        })),
    };
    judge.message(now, &message)
}

fn list(judge: &mut Session) {
    let id = RequestId::Number("0".into());
    let message = Message {
        era: Era::Handshake,
        id: Some(&id),
        trace: Trace::default(),
        size: 10,
        content: Content::Server(FromServer::Listing(Listing {
            kind: ListKind::Tools,
            items: vec![ListedItem {
                name: "read_file".into(),
                definition: RawJson::trusted(r#"{"name":"read_file","inputSchema":{"type":"object"}}"#),
            }],
            continued: false,
            more: false,
            is_part: false,
            result: RawJson::trusted("{}"),
            again: None,
        })),
    };
    drop(judge.message(NOW, &message));
}

fn kinds(events: &[StoredEvent]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

fn later(seconds: i64) -> Timestamp {
    Timestamp(sample::NOON + seconds * sample::SECOND)
}

#[test]
fn policy_comes_from_the_daemon_and_events_go_to_its_store() {
    let host = Host::new("version: 1\nmode: observe\n");
    let mut judge = host.judge("files");
    assert_eq!(judge.policy().mode, Mode::Observe);
    assert_eq!(host.wrappers.len(), 1);
    assert_eq!(call(&mut judge, NOW), Verdict::Allow);
    let status = judge.close(NOW);
    assert_eq!((status.lost, status.last_error), (0, None));
    let events = host.events("daemon.db");
    assert!(kinds(&events).contains(&"mcp_tool_called"), "{events:?}");
    assert!(!host.path("own.db").exists(), "nothing is kept twice");
}

#[test]
fn servers_of_a_session_hear_of_each_other_through_the_daemon() {
    let host = Host::new("version: 1\n");
    let mut files = host.judge("files");
    let weather = host.judge("weather");
    assert_eq!(weather.others(), [ServerId::new("files").expect("id")]);
    files.refresh(NOW);
    assert_eq!(files.others(), [ServerId::new("weather").expect("id")]);
    weather.close(NOW);
    // The daemon notices the end of the connection some time later.
    let deadline = Instant::now() + TIMEOUT;
    while !files.others().is_empty() {
        assert!(Instant::now() < deadline, "it never left");
        std::thread::yield_now();
        files.refresh(NOW);
    }
    files.close(NOW);
}

#[test]
fn a_changed_policy_reaches_those_that_run() {
    let host = Host::new("version: 1\n");
    let mut judge = host.judge("files");
    let text = Arc::new(
        Sources::of_parts(vec![(
            mcpmon_config::Source::EmbeddedDefault,
            "version: 1\nmode: observe\n".to_owned(),
        )])
        .expect("a part"),
    );
    load_sources(&text).expect("it is valid");
    host.wrappers.publish(text.digest(), text);
    host.recorder.flush(TIMEOUT).expect("written");
    judge.refresh(NOW);
    assert_eq!(judge.policy().mode, Mode::Observe);
    judge.close(NOW);
}

#[test]
fn nobody_speaks_for_another_user() {
    let host = Host::new("version: 1\n");
    std::fs::write(host.path("none.yaml"), "version: 1\n").expect("policy");
    let mut options = host.options("files");
    options.conversation.identity.uid += 1;
    let judge = Session::open(NOW, options).expect("the user's own store does");
    judge.close(NOW);
    let events = host.events("own.db");
    let refused = events
        .iter()
        .find(|event| event.kind == "mcp_enforcement_degraded");
    let cause = refused.expect("it is told").data["cause"].to_string();
    assert!(cause.contains("a wrapper speaks for its own user"), "{cause}");
    assert_eq!(host.wrappers.len(), 0);
}

/// Returns the introduction of the wrapper of `server`.
fn hello(host: &Host, server: &str) -> Hello {
    Hello {
        identity: host.options(server).conversation.identity,
        session: Some(SessionId::new("s1")),
        agent: None,
        starts_server: true,
        child: None,
    }
}

type Stream = BufReader<std::os::unix::net::UnixStream>;

fn say(stream: &mut Stream, said: &impl serde::Serialize) {
    let said = serde_json::to_string(said).expect("plain");
    writeln!(stream.get_mut(), "{said}").expect("it listens");
}

fn heard(stream: &mut Stream) -> Hear {
    let mut heard = String::new();
    stream.read_line(&mut heard).expect("it answers");
    serde_json::from_str(&heard).expect("an answer")
}

/// Opens a connection with this introduction, up to the daemon's answer to it.
fn introduced(host: &Host, introduction: &serde_json::Value) -> Stream {
    let stream = std::os::unix::net::UnixStream::connect(host.path("daemon.sock")).expect("the daemon");
    let mut stream = BufReader::new(stream);
    say(&mut stream, introduction);
    let Hear::Challenge(nonce) = heard(&mut stream) else {
        panic!("nobody is believed before")
    };
    say(&mut stream, &Say::Repeat { nonce });
    stream
}

/// Returns the daemon's answer to a connection that brings records of `server`.
fn bring_records(host: &Host, server: &str) -> Hear {
    let introduction = serde_json::json!({"request": "records", "hello": hello(host, server)});
    heard(&mut introduced(host, &introduction))
}

#[test]
fn the_handshake_gives_the_rules_and_no_address_of_an_export() {
    let host = Host::new(
        "version: 1\nrecord: {webhook_url: 'https://siem.example/x'}\nmcp: {blocked_tools: [format_disk]}\n",
    );
    let introduction = serde_json::json!({"request": "wrap", "hello": hello(&host, "files")});
    let Hear::State(state) = heard(&mut introduced(&host, &introduction)) else {
        panic!("it is served")
    };
    let policy = format!("{:?}", state.policy);
    assert!(
        policy.contains("format_disk") && !policy.contains("siem.example"),
        "{policy}"
    );
}

#[test]
fn many_wrappers_of_one_user_start_at_once() {
    let host = Host::new("version: 1\n");
    std::thread::scope(|threads| {
        let joined = (0..40).map(|number| {
            let options = host.options(&format!("s{number}"));
            threads.spawn(move || Session::open(NOW, options).expect("a judge"))
        });
        let joined: Vec<_> = joined.collect();
        let judges: Vec<Session> = joined
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        assert_eq!(host.wrappers.len(), judges.len());
        judges.into_iter().for_each(|judge| drop(judge.close(NOW)));
    });
}

#[test]
fn with_fail_closed_a_wrapper_that_is_not_served_blocks_for_good() {
    let host = Host::new("version: 1\n");
    let own = "version: 1\nmcp: {fail_closed: true, servers: [{id: files, command: files}]}\n";
    std::fs::write(host.path("none.yaml"), own).expect("policy");
    let mut options = host.options("files");
    options.conversation.identity.uid += 1;
    let mut judge = Session::open(NOW, options).expect("the user's own store does");
    list(&mut judge);
    // The own store answers, and still no daemon judges.
    for seconds in [1, 60] {
        judge.tick(later(seconds));
        let Verdict::Block(denial) = call(&mut judge, later(seconds)) else {
            panic!("it is blocked")
        };
        assert_eq!(denial.rule, "mcp.fail_closed");
        assert_eq!(
            denial.reason,
            "the daemon does not serve this wrapper, and mcp.fail_closed is set"
        );
    }
    judge.close(later(61));
    let refused = host.wrappers.refused(clock::now());
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(
        (refused[0].server_id.as_str(), refused[0].cause.as_str()),
        ("files", "a wrapper speaks for its own user")
    );
    let events = host.events("daemon.db");
    assert_eq!(kinds(&events), ["mcp_enforcement_degraded"], "{events:?}");
}

#[test]
fn records_are_taken_from_those_who_joined() {
    let host = Host::new("version: 1\n");
    let judge = host.judge("files");
    assert_eq!(bring_records(&host, "files"), Hear::Done);
    let Hear::Error(cause) = bring_records(&host, "mail") else {
        panic!("nobody joined as that")
    };
    assert!(cause.contains("introduce itself first"), "{cause}");
    assert_eq!(host.wrappers.len(), 1, "it is still the same wrapper");
    judge.close(NOW);
}

#[test]
fn a_daemon_that_goes_away_is_missed_once_and_the_records_stay_with_the_user() {
    let mut host = Host::new("version: 1\n");
    let mut judge = host.judge("files");
    host.stop();
    judge.tick(later(1));
    assert_eq!(
        call(&mut judge, later(1)),
        Verdict::Allow,
        "what is known holds on"
    );
    judge.tick(later(2));
    judge.close(later(3));
    let events = host.events("own.db");
    let degraded = kinds(&events)
        .into_iter()
        .filter(|kind| *kind == "mcp_enforcement_degraded");
    assert_eq!(degraded.count(), 1, "{events:?}");
    assert!(kinds(&events).contains(&"mcp_tool_called"), "{events:?}");
}

/// Records that a daemon has in memory only would be lost with it.
#[test]
fn what_is_not_in_the_daemons_store_is_not_acknowledged() {
    let host = Host::new("version: 1\n");
    let mut judge = host.judge("files");
    host.recorder.flush(TIMEOUT).expect("written");
    let other = rusqlite::Connection::open(host.path("daemon.db")).expect("its store");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody writes");
    assert_eq!(call(&mut judge, NOW), Verdict::Allow);
    judge.close(NOW);
    let own = StoreReader::open(&host.path("own.db")).expect("the user keeps it");
    let kept = own.events(&Filter::default(), 1000).expect("events");
    assert!(kinds(&kept).contains(&"mcp_tool_called"), "{kept:?}");
    other.execute_batch("ROLLBACK").expect("they write again");
    let events = host.events("daemon.db");
    assert!(
        kinds(&events).contains(&"mcp_tool_called"),
        "late, but it is there: {events:?}"
    );
}

#[test]
fn with_fail_closed_nothing_is_used_while_the_daemon_is_away() {
    let mut host =
        Host::new("version: 1\nmcp: {fail_closed: true, servers: [{id: files, command: files}]}\n");
    let mut judge = host.judge("files");
    assert!(judge.policy().fail_closed);
    list(&mut judge);
    assert_eq!(call(&mut judge, NOW), Verdict::Allow);
    host.stop();
    // The next message is blocked already, without a tick in between.
    let Verdict::Block(denial) = call(&mut judge, later(1)) else {
        panic!("it is blocked")
    };
    assert_eq!(denial.rule, "mcp.fail_closed");
    judge.close(later(2));
    let mut events = host.events("own.db");
    events.extend(host.events("daemon.db"));
    let called: BTreeSet<_> = events
        .iter()
        .filter(|event| event.kind == "mcp_tool_called")
        .map(|event| &event.id)
        .collect();
    // A record that the daemon had no time to acknowledge is in both stores.
    assert_eq!(called.len(), 1, "the one before: {events:?}");
    let blocked = events
        .iter()
        .find(|event| event.kind == "mcp_tool_call_intercepted");
    let blocked = blocked.expect("the other one");
    assert_eq!(
        (blocked.action, blocked.rule.as_deref()),
        (mcpmon_model::Action::Block, Some("mcp.fail_closed"))
    );
    assert_eq!(blocked.data["tool_name"], "read_file");
    assert!(blocked.data["tool_hash"].is_string(), "{blocked:?}");
}

#[test]
fn a_daemon_that_comes_back_is_asked_again() {
    let mut host =
        Host::new("version: 1\nmcp: {fail_closed: true, servers: [{id: files, command: files}]}\n");
    let mut judge = host.judge("files");
    host.stop();
    assert!(matches!(call(&mut judge, later(1)), Verdict::Block(_)));
    let directory = std::mem::replace(&mut host.directory, tempfile::tempdir().expect("directory"));
    let host = Host::at(directory, "version: 1\nmode: observe\n");
    judge.tick(later(20));
    assert_eq!(judge.policy().mode, Mode::Observe, "with its policy of now");
    assert_eq!(host.wrappers.len(), 1);
    judge.close(later(21));
    let events = host.events("daemon.db");
    assert!(kinds(&events).contains(&"mcp_enforcement_restored"), "{events:?}");
}

#[test]
fn a_server_is_covered_by_the_wrapper_that_started_it() {
    let host = Host::new("version: 1\n");
    let mut judge = host.judge("files");
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep");
    let processes = above(child.id());
    assert!(!host.wrappers.cover(&processes), "it was not claimed yet");
    assert!(host.wrappers.may_cover(&processes), "its parent is this program");
    judge.serves(NOW, launch(child.id()).process);
    assert!(host.wrappers.cover(&processes));
    let unrelated = above(1);
    assert!(!host.wrappers.cover(&unrelated));
    judge.close(NOW);
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

/// The kernel's records of a short-lived server may be judged after its wrapper left.
#[test]
fn a_wrapper_that_left_covers_its_server_for_a_while() {
    let host = Host::new("version: 1\n");
    let mut judge = host.judge("files");
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep");
    let processes = above(child.id());
    judge.serves(NOW, launch(child.id()).process);
    judge.close(NOW);
    let deadline = Instant::now() + TIMEOUT;
    while host.wrappers.len() > 0 {
        assert!(Instant::now() < deadline, "it never left");
        std::thread::yield_now();
    }
    assert!(host.wrappers.cover(&processes), "it has only just left");
    assert!(host.wrappers.session_of(&processes).is_some(), "its session too");
    for left in lock(&host.wrappers.0.left).iter_mut() {
        left.since -= REMEMBERED;
    }
    assert!(!host.wrappers.cover(&processes), "too long ago");
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

/// Returns a process and its ancestors.
fn above(pid: u32) -> Vec<ProcessId> {
    let process = crate::app::host::identify(pid).expect("it runs");
    let ancestors = crate::app::host::ancestors(process);
    ancestors.iter().map(|ancestor| ancestor.process).collect()
}

fn launch(pid: u32) -> mcpmon_session::StartedServer {
    use mcpmon_model::{Part, ProcessRef, ServerFiles, Writers};
    mcpmon_session::StartedServer {
        process: ProcessRef {
            pid,
            ..ProcessRef::default()
        },
        command: "sleep".to_owned(),
        arguments: vec!["60".to_owned()],
        files: ServerFiles {
            executable: Part::Unknown {
                path: "/bin/sleep".into(),
                cause: "not looked at".to_owned(),
            },
            executable_writers: Writers::Others,
            script: None,
            package: None,
            launcher: None,
            generated_script: None,
        },
        environment: Vec::new(),
    }
}

fn use_tool(judge: &mut Session, now: Timestamp, tool: &str) -> Verdict {
    let id = RequestId::Number("1".into());
    let message = Message {
        era: Era::Handshake,
        id: Some(&id),
        trace: Trace::default(),
        size: 10,
        content: Content::Client(FromClient::Call(Call {
            tool: tool.into(),
            arguments: None,
            resumes: None,
        })),
    };
    judge.message(now, &message)
}

const CROSS_SERVER: &str = "version: 1\nmcp: {cross_server: {decision: block, burst: {enabled: false}, cross_server_flow: {enabled: false}}, rate_limits: {enabled: false}}\n";

#[test]
fn what_one_server_read_another_does_not_send_by_the_daemons_rules() {
    let host = Host::new(CROSS_SERVER);
    let mut files = host.judge("files");
    let mut mail = host.judge("mail");
    assert_eq!(use_tool(&mut files, later(0), "read_file"), Verdict::Allow);
    // The daemon's clock counts, not the wrapper's.
    for seconds in [-3600, 3, 3600] {
        let Verdict::Block(denial) = use_tool(&mut mail, later(seconds), "send_email") else {
            panic!("it is blocked");
        };
        assert_eq!(denial.rule, "read_then_send");
    }
    files.close(NOW);
    mail.close(NOW);
    assert!(kinds(&host.events("daemon.db")).contains(&"mcp_cross_server_blocked"));
}

#[test]
fn what_one_server_read_another_does_not_send_after_a_restart_of_the_daemon() {
    let mut host = Host::new(CROSS_SERVER);
    let mut files = host.judge("files");
    let mut mail = host.judge("mail");
    assert_eq!(use_tool(&mut files, later(0), "read_file"), Verdict::Allow);
    host.stop();
    host.recorder.flush(TIMEOUT).expect("written");
    let directory = std::mem::replace(&mut host.directory, tempfile::tempdir().expect("directory"));
    let _host = Host::at(directory, CROSS_SERVER);
    // They notice at first that it is gone, and join again later.
    for seconds in [1, 20] {
        files.tick(later(seconds));
        mail.tick(later(seconds));
    }
    let Verdict::Block(denial) = use_tool(&mut mail, later(20), "send_email") else {
        panic!("it is blocked");
    };
    assert_eq!(denial.rule, "read_then_send");
    files.close(later(21));
    mail.close(later(21));
}

#[test]
fn what_was_read_before_the_second_server_came_reaches_the_daemon() {
    let host = Host::new(CROSS_SERVER);
    let mut files = host.judge("files");
    assert_eq!(use_tool(&mut files, clock::now(), "read_file"), Verdict::Allow);
    let mut mail = host.judge("mail");
    // The record arrives with the first batch of events.
    let deadline = Instant::now() + TIMEOUT;
    while use_tool(&mut mail, clock::now(), "send_email") == Verdict::Allow {
        assert!(Instant::now() < deadline, "it never came");
        std::thread::yield_now();
    }
    files.close(NOW);
    mail.close(NOW);
}

#[test]
fn wrappers_cannot_race_past_a_rule_of_the_daemon() {
    const ROUNDS: usize = 300;
    let host = Host::new(CROSS_SERVER);
    let mut judges: Vec<Session> = (0..8)
        .map(|number| host.judge(&format!("server-{number}")))
        .collect();
    judges.iter_mut().for_each(|judge| judge.refresh(NOW));
    let barrier = std::sync::Barrier::new(judges.len());
    let sent = std::thread::scope(|scope| {
        let barrier = &barrier;
        let threads: Vec<_> = judges
            .iter_mut()
            .enumerate()
            .map(|(number, judge)| {
                scope.spawn(move || {
                    let mut passed = Vec::new();
                    for round in 0..ROUNDS {
                        let now = clock::now();
                        barrier.wait();
                        let tool = if number % 2 == 0 {
                            "read_file"
                        } else {
                            "send_email"
                        };
                        let verdict = use_tool(judge, now, tool);
                        assert!(
                            number % 2 == 1 || verdict == Verdict::Allow,
                            "no rule stops a read"
                        );
                        passed.push(verdict == Verdict::Allow && number % 2 == 1);
                        barrier.wait();
                        // Every read is recorded by now.
                        let late = use_tool(judge, now, tool);
                        assert!(
                            number % 2 == 0 || late != Verdict::Allow,
                            "round {round}: a send after reads"
                        );
                        barrier.wait();
                    }
                    passed.into_iter().filter(|passed| *passed).count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum::<usize>()
    });
    assert!(sent <= 4 * ROUNDS);
    judges.into_iter().for_each(|judge| drop(judge.close(NOW)));
}

#[test]
fn who_joins_at_the_same_time_hears_of_the_other_through_the_daemon() {
    let host = Host::new("version: 1\n");
    for round in 0..40 {
        let barrier = std::sync::Barrier::new(2);
        let judge = |server: &str| {
            let mut options = host.options(server);
            options.conversation.session = Some(SessionId::new(format!("s-{round}")));
            barrier.wait();
            let mut judge = Session::open(NOW, options).expect("a judge");
            barrier.wait();
            judge.refresh(NOW);
            judge
        };
        let judges = std::thread::scope(|scope| {
            let other = scope.spawn(|| judge("mail"));
            [judge("files"), other.join().expect("no panic")]
        });
        for judge in &judges {
            assert_eq!(judge.others().len(), 1, "round {round}: {}", judge.server());
        }
        for judge in judges {
            judge.close(NOW);
        }
    }
}

/// A conversation that the daemon itself judges.
struct Hosted {
    judge: Session,
    hosting: mcpmon_session::HostedParts,
}

impl Host {
    fn hosted(&self, server: &str, policy: &str) -> Hosted {
        let options = self.options(server);
        let kept = HostedRecords(self.wrappers.clone());
        let settings = RecorderSettings::new(self.path("daemon.db"));
        let host = Arc::new(self.wrappers.clone());
        let hosting =
            mcpmon_session::HostedParts::of_daemon(host, kept, settings, &options).expect("a thread");
        let sources = Sources::of_parts(vec![(mcpmon_config::Source::EmbeddedDefault, policy.to_owned())]);
        let loaded = load_sources(&sources.expect("a part")).expect("a policy");
        let conversation = Conversation {
            server_type: ServerType::Http,
            layer: Layer::McpHttp,
            ..options.conversation
        };
        let judge = Session::hosted(NOW, &hosting, &loaded, conversation, None).expect("a judge");
        Hosted { judge, hosting }
    }
}

impl Hosted {
    fn settle(&self) {
        self.hosting.recorder().flush(TIMEOUT).expect("written");
    }
}

#[test]
fn what_the_daemon_judges_itself_is_in_its_store_and_no_wrapper() {
    let host = Host::new("version: 1\n");
    let mut notes = host.hosted("notes", "version: 1\n");
    list(&mut notes.judge);
    assert_eq!(call(&mut notes.judge, NOW), Verdict::Allow);
    assert!(notes.judge.is_listed("read_file"));
    notes.settle();
    let events = host.events("daemon.db");
    let called = events.iter().find(|event| event.kind == "mcp_tool_called");
    assert_eq!(called.map(|event| event.layer), Some(Layer::McpHttp));
    assert_eq!(host.wrappers.len(), 0);
    notes.judge.leave(NOW);
    notes.settle();
    assert!(lock(&host.wrappers.0.hosted).is_empty());
    assert!(!host.path("own.db").exists());
}

#[test]
fn a_session_does_not_end_where_a_server_is_reached_over_http() {
    let policy = "version: 1\nmcp: {cross_server: {decision: block, burst: {enabled: false}}}\n";
    let host = Host::new(policy);
    let mut notes = host.hosted("notes", policy);
    let mut mail = host.judge("mail");
    assert_eq!(mail.others(), [ServerId::new("notes").expect("id")]);
    notes.judge.refresh(NOW);
    assert_eq!(notes.judge.others(), [ServerId::new("mail").expect("id")]);
    assert!(notes.judge.may_wait(), "others have a word in it");
    assert_eq!(call(&mut notes.judge, NOW), Verdict::Allow);
    assert!(matches!(
        use_tool(&mut mail, NOW, "send_email"),
        Verdict::Block(_)
    ));
    // The same in the other direction.
    let mut files = host.judge("files");
    drop(call(&mut files, NOW));
    notes.judge.refresh(NOW);
    assert!(matches!(
        use_tool(&mut notes.judge, NOW, "send_email"),
        Verdict::Block(_)
    ));
    notes.judge.leave(NOW);
    notes.settle();
    mail.refresh(NOW);
    assert_eq!(mail.others(), [ServerId::new("files").expect("id")]);
}

#[test]
fn a_word_of_root_reaches_what_the_daemon_judges_itself() {
    let host = Host::new("version: 1\n");
    let mut notes = host.hosted("notes", "version: 1\n");
    list(&mut notes.judge);
    notes.settle();
    let runtime = host.runtime.as_ref().expect("it runs");
    let word = kill::KillOrder {
        session: None,
        off: false,
        by: "root".to_owned(),
    };
    runtime.block_on(host.wrappers.kill(word)).expect("stopped");
    assert!(notes.judge.may_wait(), "there is something new");
    assert!(matches!(call(&mut notes.judge, NOW), Verdict::Block(_)));
}

/// A policy that refuses changed servers.
const BLOCKING: &str = "version: 1\nmode: enforce\nmcp: {version_pinning: {on_change: block}}\n";

/// A server that a wrapper started. It lives until the test ends.
struct Child(std::process::Child);

impl Child {
    /// Starts one for this judge.
    fn of(judge: &mut Session) -> Self {
        let child = std::process::Command::new("sleep").arg("600").spawn();
        let child = child.expect("a process");
        let process = ProcessRef {
            pid: child.id(),
            ..ProcessRef::default()
        };
        judge.serves(NOW, process);
        Self(child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it ends");
    }
}

/// Waits for the next question about a comparison.
fn asked(inbox: &mut Inbox<EngineMessage>) -> FateQuestion {
    loop {
        match inbox.next() {
            Some(EngineMessage::AfterRecords(WrapperQuestion::Fate(question))) => return question,
            Some(_) => {}
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn nobody_waits_for_a_comparison_but_who_asks() {
    let host = Host::new(BLOCKING);
    let (engine, mut inbox) = inbox(16).expect("a queue");
    host.wrappers.tell(engine);
    let mut judge = host.judge("files");
    let child = Child::of(&mut judge);
    let comparison = judge.comparison().expect("the daemon compares");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| comparison.wait());
        let question = asked(&mut inbox);
        assert_eq!(question.process.pid, child.0.id());
        judge.refresh(NOW);
        assert_eq!(call(&mut judge, NOW), Verdict::Allow);
        assert!(!waits.is_finished());
        let denial = Denial {
            rule: "mcp.version_pinning".to_owned(),
            reason: "another file".to_owned(),
            remedy: None,
            event: None,
        };
        question.reply.send(Some(denial.clone())).expect("it waits");
        assert_eq!(waits.join().expect("it ends"), ComparisonOutcome::Refused(denial));
    });
    judge.close(NOW);
    let events = host.events("daemon.db");
    assert!(
        !kinds(&events).contains(&"mcp_enforcement_degraded"),
        "{events:?}"
    );
}

#[test]
fn a_question_is_forgotten_where_its_wrapper_leaves() {
    let host = Host::new(BLOCKING);
    let (engine, mut inbox) = inbox(16).expect("a queue");
    host.wrappers.tell(engine);
    let mut judge = host.judge("files");
    let child = Child::of(&mut judge);
    let hello = hello(&host, "files");
    let process = serde_json::json!({"pid": child.0.id(), "start": 1});
    let introduction = serde_json::json!({"request": "fate", "hello": hello, "process": process});
    let stream = introduced(&host, &introduction);
    let question = asked(&mut inbox);
    assert!(!question.reply.is_closed());
    drop(stream);
    while !question.reply.is_closed() {
        std::thread::yield_now();
    }
    judge.close(NOW);
}

#[test]
fn what_nobody_compared_in_time_is_refused() {
    let host = Host::new(BLOCKING);
    let mut judge = host.judge("files");
    let Verdict::Block(denial) = judge.compared(NOW, ComparisonOutcome::Late) else {
        panic!("it may be another server")
    };
    assert_eq!(denial.rule, "mcp.version_pinning");
    assert!(
        denial.reason.contains("`files`") && denial.reason.contains("60 s"),
        "{}",
        denial.reason
    );
    judge.close(NOW);
    let events = host.events("daemon.db");
    let refused = events
        .iter()
        .find(|event| event.action == mcpmon_model::Action::Block);
    assert!(refused.is_some(), "{events:?}");
}

/// Returns the verdict on a server whose daemon is gone before it has compared it, and the user's events.
fn uncompared(policy: &str) -> (Verdict, Vec<StoredEvent>) {
    let mut host = Host::new(policy);
    let mut judge = host.judge("files");
    let child = Child::of(&mut judge);
    let comparison = judge.comparison().expect("the daemon compares");
    host.stop();
    let compared = comparison.wait();
    assert!(
        matches!(compared, ComparisonOutcome::Unanswered(_)),
        "{compared:?}"
    );
    let verdict = judge.compared(NOW, compared);
    drop(child);
    judge.close(NOW);
    (verdict, host.events("own.db"))
}

#[test]
fn where_the_daemon_is_away_an_uncompared_server_goes_on_and_that_is_told() {
    let (verdict, events) = uncompared(BLOCKING);
    assert_eq!(verdict, Verdict::Allow);
    assert!(kinds(&events).contains(&"mcp_enforcement_degraded"), "{events:?}");
}

#[test]
fn where_it_must_not_be_away_an_uncompared_server_is_refused() {
    let closed = BLOCKING.replace("mcp: {", "mcp: {fail_closed: true, ");
    let (verdict, events) = uncompared(&closed);
    let Verdict::Block(denial) = verdict else {
        panic!("{verdict:?}")
    };
    assert!(denial.reason.contains("fail_closed"), "{}", denial.reason);
    assert!(kinds(&events).contains(&"mcp_enforcement_degraded"), "{events:?}");
}
