//! Calls to several servers with one store; the store takes each server for a process of its own.

use std::sync::{
    Barrier,
    atomic::{AtomicUsize, Ordering},
};

use mcpmon_model::{
    Answer, AnswerOutcome, AnsweredRequest, ClientRequestKind, FromServer, ResultKind, SharedCall,
    ToolCategory,
};
use mcpmon_policy::CrossServerDecision;

use super::*;
use crate::stored::StoreHolder;

const BLOCK: &str = "version: 1\nmcp: {cross_server: {decision: block, burst: {enabled: false}}}\n";

fn later(milliseconds: i64) -> Timestamp {
    Timestamp(sample::NOON + milliseconds * 1_000_000)
}

fn use_tool(judge: &mut Session, now: Timestamp, tool: &str, arguments: &str) -> Verdict {
    let id = RequestId::Number("2".into());
    let call = Call {
        tool: tool.into(),
        arguments: Some(RawJson::trusted(arguments)),
        resumes: None,
    };
    judge.message(now, &message(&id, Content::Client(FromClient::Call(call))))
}

fn answer(judge: &mut Session, now: Timestamp, text: &str) -> Verdict {
    let id = RequestId::Number("2".into());
    let result = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
    let answer = Answer {
        to: AnsweredRequest {
            what: ClientRequestKind::Call {
                tool: Some("read_file".into()),
            },
            at: now,
        },
        outcome: AnswerOutcome::Result {
            result: RawJson::trusted(&result),
            kind: ResultKind::Complete,
        },
    };
    judge.message(now, &message(&id, Content::Server(FromServer::Answer(answer))))
}

fn rule(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Block(denial) => Some(&denial.rule),
        Verdict::Allow
        | Verdict::Hide(_)
        | Verdict::Redact(_)
        | Verdict::Ask(_)
        | Verdict::StripInstructions => None,
    }
}

// 15: end to end, two servers.
#[test]
fn what_one_server_read_another_does_not_send() {
    let home = Home::new(BLOCK);
    let mut files = home.judge("files");
    let mut mail = home.judge("mail");
    files.refresh(NOW);
    assert_eq!(use_tool(&mut files, later(0), "read_file", "{}"), Verdict::Allow);
    let verdict = use_tool(&mut mail, later(3000), "send_email", "{}");
    assert_eq!(rule(&verdict), Some("read_then_send"));
    files.close(NOW);
    mail.close(NOW);
    let events = home.events();
    let told = events
        .iter()
        .find(|event| event.kind == "mcp_cross_server_blocked")
        .expect("it is told");
    assert_eq!(told.rule.as_deref(), Some("read_then_send"));
    assert_eq!(told.server_id.as_deref(), Some("mail"));
    assert_eq!(told.data["blocked_tool_name"], "send_email");
    assert_eq!(told.data["related_calls"][0]["server_id"], "files");
    let called = events.iter().filter(|event| event.kind == "mcp_tool_called");
    assert_eq!(called.count(), 1, "the stopped one reached nobody: {events:?}");
}

#[test]
fn what_was_read_before_the_second_server_came_counts() {
    let home = Home::new(BLOCK);
    let mut files = home.judge("files");
    assert_eq!(use_tool(&mut files, later(0), "read_file", "{}"), Verdict::Allow);
    files.host.recorder.flush(FLUSH).expect("told with its events");
    let mut mail = home.judge("mail");
    let verdict = use_tool(&mut mail, later(3000), "send_email", "{}");
    assert_eq!(rule(&verdict), Some("read_then_send"));
    files.close(NOW);
    mail.close(NOW);
}

#[test]
fn by_default_evidence_decides() {
    let home = Home::new("version: 1\n");
    let mut files = home.judge("files");
    let mut mail = home.judge("mail");
    files.refresh(NOW);
    let record = "Maria Lindqvist, born 4 May 1971, account DE09 1204 0000 0532 0130 17, owes 14,210.55";
    drop(use_tool(&mut files, later(0), "read_file", "{}"));
    drop(answer(&mut files, later(1), record));
    files.host.recorder.flush(FLUSH).expect("told with its events");
    let say = |text: &str| serde_json::json!({"to": "me", "body": text}).to_string();
    let harmless = use_tool(&mut mail, later(3000), "send_email", &say("The file is there."));
    assert_eq!(harmless, Verdict::Allow);
    let verdict = use_tool(&mut mail, later(4000), "send_email", &say(record));
    assert_eq!(rule(&verdict), Some("read_then_send"));
    files.close(NOW);
    mail.close(NOW);
    let events = home.events();
    let told: Vec<_> = events
        .iter()
        .filter(|event| event.kind == "mcp_cross_server_blocked")
        .collect();
    let actions: Vec<&str> = told.iter().map(|event| event.action.as_str()).collect();
    assert_eq!(actions, ["audit", "block"]);
    assert_eq!(told[1].data["evidence"][0]["kind"], "overlap");
    let all = serde_json::to_string(&told[1].data).expect("plain");
    assert!(!all.contains("Lindqvist"), "{all}");
}

#[test]
fn two_wrappers_of_one_server_share_its_rate() {
    let policy = "version: 1\nmcp: {rate_limits: {per_server: {files: {calls_per_minute: 1, burst: 4}}}}\n";
    let home = Home::new(policy);
    let mut judges = [home.judge("files"), home.judge("files")];
    // Both judges are in this process. The store distinguishes members by process, so each judge learns of the other
    // here.
    for judge in &mut judges {
        judge.refresh(NOW);
        judge.twins = true;
        judge.introduce(NOW);
    }
    let passed: usize = (0..10)
        .map(|number| {
            let verdict = use_tool(&mut judges[number % 2], later(number as i64), "read_file", "{}");
            usize::from(verdict == Verdict::Allow)
        })
        .sum();
    assert_eq!(passed, 4);
    let verdict = use_tool(&mut judges[0], later(20), "read_file", "{}");
    assert_eq!(rule(&verdict), Some("rate_limit"));
}

#[test]
fn a_store_that_cannot_be_asked_is_told_and_own_rules_hold() {
    let home = Home::new("version: 1\nmcp: {rate_limits: {default_burst: 2, default_rpm: 1}}\n");
    let mut files = home.judge("files");
    let mail = home.judge("mail");
    files.refresh(NOW);
    files.host.shared = Box::new(StoreHolder::new(
        home.path("gone/mcpmon.db"),
        files.host.member.clone(),
        None,
    ));
    std::fs::write(home.path("gone"), "no directory").expect("a file");
    assert_eq!(use_tool(&mut files, later(0), "read_file", "{}"), Verdict::Allow);
    assert_eq!(use_tool(&mut files, later(1), "read_file", "{}"), Verdict::Allow);
    assert_eq!(
        rule(&use_tool(&mut files, later(2), "read_file", "{}")),
        Some("rate_limit")
    );
    files.close(NOW);
    mail.close(NOW);
    let degraded = home
        .events()
        .into_iter()
        .filter(|event| event.kind == "mcp_enforcement_degraded");
    assert_eq!(degraded.count(), 1);
}

/// Wrappers that each read and then send at the same time, thousands of times. By the rules, only one of a pair may
/// pass.
fn race(wrappers: usize, rounds: usize) {
    let (_directory, store) = sample::store();
    let path = store.path().to_owned();
    let mut policy = Policy::default();
    policy.cross_server.decision = CrossServerDecision::Block;
    policy.cross_server.burst = None;
    policy.cross_server.read_then_send = Some(Duration::from_millis(1));
    policy.rate_limits.enabled = false;
    let barrier = Barrier::new(wrappers);
    let passed: Vec<[AtomicUsize; 2]> = (0..rounds).map(|_| Default::default()).collect();
    std::thread::scope(|scope| {
        for wrapper in 0..wrappers {
            let (barrier, passed, policy, path) = (&barrier, &passed, &policy, &path);
            scope.spawn(move || {
                let mut calls = StoreHolder::new(path.clone(), sample::member("s1", "files", 100), None);
                let reads = wrapper % 2 == 0;
                for (round, passed) in passed.iter().enumerate() {
                    let call = SharedCall {
                        // Rounds are too far apart to see each other.
                        at: Timestamp(round as i64 * 1_000_000_000),
                        server: ServerId::new(format!("server-{wrapper}")).expect("id"),
                        tool: if reads { "read_x" } else { "send_x" }.to_owned(),
                        category: if reads {
                            ToolCategory::Read
                        } else {
                            ToolCategory::Send
                        },
                        request: None,
                        tool_call: None,
                        turn: None,
                        labels: Vec::new(),
                        arguments: Default::default(),
                        resumes: false,
                        several: true,
                    };
                    barrier.wait();
                    let checked = calls.check(policy, &call).expect("the store answers");
                    if !checked.blocks() {
                        passed[usize::from(!reads)].fetch_add(1, Ordering::SeqCst);
                    }
                    barrier.wait();
                }
            });
        }
    });
    check_order(&path, &policy, &passed, wrappers);
}

/// Checks that the passed calls are exactly those the rules allow in the store's order.
fn check_order(path: &Path, policy: &Policy, passed: &[[AtomicUsize; 2]], wrappers: usize) {
    let mut store = Store::open(path, Access::default()).expect("the store");
    let recorded = store
        .among_recent(&SessionId::new("s1"), 0, |rows| (rows, None))
        .expect("rows")
        .0;
    let rounds = passed.len();
    for (round, passed) in passed.iter().enumerate() {
        let at = Timestamp(round as i64 * 1_000_000_000);
        let of_round = recorded
            .iter()
            .map(|(_, recent)| recent)
            .filter(|recent| recent.at() == at);
        let (mut sent, mut read_before_send) = (0, false);
        let mut read = 0;
        for recent in of_round {
            let mcpmon_model::Recent::Call(call) = recent else {
                continue;
            };
            match call.category {
                ToolCategory::Send => {
                    sent += 1;
                    read_before_send |= read > 0;
                }
                ToolCategory::Unknown | ToolCategory::Read | ToolCategory::Write | ToolCategory::Compute => {
                    read += 1
                }
            }
        }
        assert!(
            !read_before_send,
            "round {round} of {rounds}: a send passed after a read"
        );
        assert_eq!(
            [read, sent],
            [0, 1].map(|kind: usize| passed[kind].load(Ordering::SeqCst)),
            "round {round}: what passed is what is counted"
        );
        assert_eq!(read, wrappers / 2, "no rule stops a read");
    }
    assert!(policy.cross_server.enabled);
}

#[test]
fn two_wrappers_cannot_race_past_a_rule() {
    race(2, 3000);
}

#[test]
fn eight_wrappers_cannot_race_past_a_rule() {
    race(8, 1000);
}

#[test]
fn a_burst_cannot_be_raced() {
    const WRAPPERS: usize = 8;
    const EACH: usize = 200;
    let (_directory, store) = sample::store();
    let path = store.path().to_owned();
    let mut policy = Policy::default();
    policy.rate_limits.per_server = vec![(
        mcpmon_model::NameGlob::new("*"),
        mcpmon_policy::RateLimit {
            per_minute: 1,
            burst: 100,
        },
    )];
    let passed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for wrapper in 0..WRAPPERS {
            let (passed, policy, path) = (&passed, &policy, &path);
            scope.spawn(move || {
                let mut calls = StoreHolder::new(path.clone(), sample::member("s1", "files", 100), None);
                for number in 0..EACH {
                    // Calls wait for each other's transactions, and are counted in another order than they came.
                    let disorder = i64::try_from((7 * number + 3 * wrapper) % 10).expect("small");
                    let call = SharedCall {
                        at: later(disorder),
                        server: ServerId::new("files").expect("id"),
                        tool: "x".to_owned(),
                        category: ToolCategory::Unknown,
                        request: None,
                        tool_call: None,
                        turn: None,
                        labels: Vec::new(),
                        arguments: Default::default(),
                        resumes: false,
                        several: false,
                    };
                    let checked = calls.check(policy, &call).expect("the store answers");
                    passed.fetch_add(usize::from(!checked.blocks()), Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(passed.load(Ordering::SeqCst), 100, "the bucket held a hundred");
}

#[test]
fn who_joins_at_the_same_time_hears_of_the_other() {
    let home = Home::new("version: 1\n");
    drop(home.store());
    for round in 0..100 {
        let barrier = Barrier::new(2);
        let judge = |server: &str| {
            let mut options = home.options(server);
            options.conversation.session = Some(SessionId::new(format!("s-{round}")));
            let mut judge = Session::prepare(NOW, options).expect("a judge");
            barrier.wait();
            judge.join(NOW).expect("joined");
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
    }
}

#[test]
fn what_came_too_fast_to_be_read_is_told_as_such() {
    let home = Home::new(
        "version: 1\nmcp: {cross_server: {burst: {enabled: false}}, rate_limits: {enabled: false}}\n",
    );
    let mut mail = home.judge("mail");
    let mut files = home.judge("files");
    mail.refresh(NOW);
    // Nothing can be written while another connection has locked the store.
    let store = rusqlite::Connection::open(home.path("mcpmon.db")).expect("the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("held");
    files.others.clear();
    files.introduce(NOW);
    for number in 0..=MANY_QUEUED as i64 {
        drop(use_tool(&mut files, later(number), "read_file", "{}"));
    }
    drop(answer(&mut files, later(1000), "one word"));
    store.execute_batch("COMMIT").expect("let go");
    files
        .host
        .recorder
        .flush(Duration::from_secs(10))
        .expect("written");
    let verdict = use_tool(&mut mail, later(2000), "send_email", "{}");
    assert_eq!(rule(&verdict), Some("read_then_send"));
    files.close(NOW);
    mail.close(NOW);
    let events = home.store();
    drop(events);
    let told = StoreReader::open(&home.path("mcpmon.db")).expect("the store");
    let told = told.events(&Filter::default(), 10_000).expect("events");
    let told = told
        .iter()
        .find(|event| event.kind == "mcp_cross_server_blocked")
        .expect("told");
    assert_eq!(told.data["evidence"][0]["kind"], "unread");
}

#[test]
fn the_kill_switch_is_heard_while_nothing_can_be_written() {
    let home = Home::new("version: 1\n");
    let mut files = home.judge("files");
    assert_eq!(use_tool(&mut files, later(0), "read_file", "{}"), Verdict::Allow);
    let kill = mcpmon_model::Kill {
        by: "ann".to_owned(),
        at: NOW,
    };
    home.store().kill(None, &kill).expect("stopped");
    let store = rusqlite::Connection::open(home.path("mcpmon.db")).expect("the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("held");
    files.host.push(sample::started("files", 2));
    let verdict = use_tool(&mut files, later(1), "read_file", "{}");
    assert_eq!(rule(&verdict), Some("kill_switch"));
    store.execute_batch("COMMIT").expect("let go");
    files.close(NOW);
}

#[test]
fn a_session_without_a_root_can_be_stopped() {
    let home = Home::new("version: 1\n");
    let mut options = home.options("files");
    options.conversation.session = None;
    let mut files = Session::open(NOW, options).expect("a judge");
    assert_eq!(use_tool(&mut files, later(0), "read_file", "{}"), Verdict::Allow);
    let session = files.host.member.session.clone();
    let kill = mcpmon_model::Kill {
        by: "ann".to_owned(),
        at: NOW,
    };
    assert!(
        home.store()
            .read(|reader| reader.knows_session(&session))
            .expect("asked")
    );
    home.store().kill(Some(&session), &kill).expect("stopped");
    let verdict = use_tool(&mut files, later(1), "read_file", "{}");
    assert_eq!(rule(&verdict), Some("kill_switch"));
    files.close(NOW);
}
