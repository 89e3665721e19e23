//! Tests of posting to a server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    sync::mpsc::{self, Receiver},
};

use uuid::Uuid;

use super::{
    super::{
        EventSinks, claim_end,
        signature::{ID, SIGNATURE, SigningKey, TIMESTAMP},
        webhook::{self, WebhookSettings},
    },
    *,
};
use crate::{Destination as _, json, sample};

/// A server that sends these answers, one for each request, and reports the bodies that it received.
fn server(answers: Vec<&'static str>) -> (String, Receiver<String>) {
    let (url, told) = recorded(answers);
    let (tell, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for (_, body) in told {
            drop(tell.send(body));
        }
    });
    (url, bodies)
}

/// A server that also reports the headers.
fn recorded(answers: Vec<&'static str>) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut length, mut headers) = (0, String::new());
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).unwrap();
                if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if header.trim().is_empty() {
                    break;
                }
                headers.push_str(&header.to_ascii_lowercase().replace("\r\n", "\n"));
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            (&stream)
                .write_all(
                    format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes(),
                )
                .unwrap();
            if tell.send((headers, String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, told)
}

fn event(number: u128, severity: Severity) -> StoredEvent {
    let mut event = sample::denied("files");
    event.severity = severity;
    StoredEvent::new(Uuid::from_u128(number), "laptop", event)
}

fn hook(url: String) -> Posting {
    webhook::start(&WebhookSettings {
        url,
        key_file: None,
        min_severity: Severity::High,
    })
    .unwrap()
}

fn received(told: &Receiver<String>) -> StoredEvent {
    let body = told.recv_timeout(Duration::from_secs(30)).unwrap();
    json::from_json(serde_json::from_str(&body).unwrap()).unwrap()
}

#[test]
fn what_is_bad_enough_is_posted_in_order() {
    let (url, told) = server(vec!["200 OK", "204 No Content"]);
    let mut webhook = hook(url);
    let events = [
        event(1, Severity::High),
        event(2, Severity::Medium),
        event(3, Severity::Critical),
    ];
    webhook.post(events.iter(), true);
    assert_eq!(received(&told), events[0]);
    assert_eq!(received(&told), events[2]);
    assert_eq!(webhook.take_lost(), None);
}

#[test]
fn a_server_in_trouble_is_tried_again_and_one_that_refuses_is_not() {
    let (url, told) = server(vec![
        "503 Service Unavailable",
        "200 OK",
        "403 Forbidden",
        "200 OK",
    ]);
    let mut webhook = hook(url);
    webhook.post(
        [
            event(1, Severity::High),
            event(2, Severity::High),
            event(3, Severity::High),
        ]
        .iter(),
        true,
    );
    let ids: Vec<u128> = (0..4).map(|_| received(&told).id.as_u128()).collect();
    assert_eq!(ids, [1, 1, 2, 3]);
    webhook.finish(true);
    assert_eq!(webhook.take_left(), []);
    assert_eq!(webhook.take_settled(), [1, 2, 3].map(Uuid::from_u128));
    let (lost, cause) = webhook.take_lost().unwrap();
    assert_eq!(lost, 1);
    assert!(cause.contains("403"), "{cause}");
}

#[test]
fn what_does_not_fit_is_counted_and_nobody_waits() {
    // No server accepts connections: the first event hangs in the thread.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut webhook = hook(format!("http://{}/hook", listener.local_addr().unwrap()));
    let event = event(1, Severity::High);
    webhook.post(std::iter::repeat_n(&event, CAPACITY + 100), false);
    webhook.post(std::iter::repeat_n(&event, 100), true); // the store has these
    let (lost, _) = webhook.take_lost().unwrap();
    assert_eq!(lost, 100);
}

#[test]
fn what_is_posted_is_signed_with_the_key_and_not_at_all_where_others_can_read_that() {
    let directory = tempfile::tempdir().unwrap();
    let key_file = directory.path().join("key");
    std::fs::write(&key_file, "ab".repeat(32)).unwrap();
    let mode = |mode| std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(mode)).unwrap();
    let settings = |url| WebhookSettings {
        url,
        key_file: Some(key_file.clone()),
        min_severity: Severity::High,
    };
    mode(0o600);
    let (url, told) = recorded(vec!["200 OK"]);
    let mut webhook = webhook::start(&settings(url)).unwrap();
    webhook.post([event(1, Severity::High)].iter(), true);
    let (headers, body) = told.recv_timeout(Duration::from_secs(30)).unwrap();
    let header = |name: &str| {
        let lines = headers.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
            .next()
    };
    let id = header(ID).unwrap();
    assert_eq!(id, Uuid::from_u128(1).to_string());
    let seconds: i64 = header(TIMESTAMP).unwrap().parse().unwrap();
    let signature = SigningKey::new(&[0xab; 32]).sign(&id, seconds, body.as_bytes());
    assert_eq!(header(SIGNATURE).unwrap(), signature.to_ascii_lowercase());

    mode(0o644);
    let (url, told) = recorded(vec!["200 OK"]);
    let mut webhook = webhook::start(&settings(url)).unwrap();
    webhook.post([event(1, Severity::High)].iter(), true);
    let (lost, cause) = webhook.take_lost().unwrap();
    assert!(lost == 1 && cause.contains("others can read"), "{cause}");
    webhook.finish(true);
    assert_eq!(webhook.take_left(), []);
    told.try_recv().unwrap_err();
}

#[test]
fn what_a_process_that_ends_could_not_post_is_left_for_the_next_one() {
    let (url, told) = server(vec!["503 Service Unavailable"]);
    let mut webhook = hook(url);
    let events = [
        event(1, Severity::High),
        event(2, Severity::Medium),
        event(3, Severity::High),
    ];
    webhook.post(events.iter(), true);
    assert_eq!(received(&told), events[0]);
    webhook.finish(true);
    assert!(
        webhook.shared.lock().is_over,
        "nothing more can be done, and nobody waits"
    );
    let left = [&events[0], &events[2]].map(|event| (event.id, event.timestamp));
    assert_eq!(webhook.take_left(), left);
    assert_eq!(webhook.take_settled(), Vec::<Uuid>::new());
    assert_eq!(webhook.take_lost(), None);
}

/// Returns sinks with these names and addresses.
fn posting<const N: usize>(sinks: [(&'static str, String); N]) -> EventSinks {
    let start = |(name, url)| {
        let receiver = webhook::receiver(&WebhookSettings {
            url,
            key_file: None,
            min_severity: Severity::High,
        });
        Box::new(Posting::start(name, Severity::High, receiver).unwrap()) as _
    };
    EventSinks {
        list: sinks.map(start).into(),
        told_at: None,
    }
}

#[test]
fn a_sink_whose_backlog_cannot_be_read_stops_no_other() {
    let (_directory, mut store) = sample::store();
    let event = event(1, Severity::High);
    let waiting = StoreEntry::Unposted(UnpostedEvents {
        sink: "other",
        waiting: vec![(event.id, event.timestamp)],
        claimed_until: Timestamp(0),
        settled: Vec::new(),
    });
    store.keep(&[StoreEntry::Event(event.clone()), waiting]).unwrap();
    store
        .write_outside(|connection| connection.execute_batch("DROP TABLE unposted"))
        .unwrap();
    let (nothing, _told) = server(Vec::new());
    let (taken, told) = server(vec!["200 OK"]);
    let mut sinks = posting([("webhook", nothing), ("other", taken)]);
    sinks.claim_posts(&mut store, now()).unwrap_err();
    assert_eq!(received(&told), event);
    sinks.finish(true);
}

#[test]
fn what_one_receiver_acknowledges_is_still_another_ones() {
    let both = |first, second| posting([("first", first), ("second", second)]);
    let (_directory, mut store) = sample::store();
    let event = event(1, Severity::High);
    let mut entries = vec![StoreEntry::Event(event.clone())];

    let (taken, told_first) = server(vec!["200 OK"]);
    let (away, told_second) = server(vec!["503 Service Unavailable"]);
    let mut sinks = both(taken, away);
    entries.extend(sinks.backlog(&entries, claim_end(now())));
    store.keep(&entries).unwrap();
    sinks.tell(&entries, true);
    assert_eq!(received(&told_first), event);
    assert_eq!(received(&told_second), event);
    sinks.finish(true);
    let settled = sinks.backlog(&[], Timestamp(0));
    store.keep(&settled).unwrap();

    // The next process: nothing waits for the first sink, and the second one gets what it did not accept.
    let (nothing, told_first) = server(vec!["200 OK"]);
    let (back, told_second) = server(vec!["200 OK"]);
    let mut sinks = both(nothing, back);
    sinks.claim_posts(&mut store, now()).unwrap();
    assert_eq!(received(&told_second), event);
    sinks.finish(true);
    store.keep(&sinks.backlog(&[], Timestamp(0))).unwrap();
    told_first.try_recv().unwrap_err();
    for sink in ["first", "second"] {
        let left = store.claim_unposted(sink, Timestamp(i64::MAX / 2), 10).unwrap();
        assert_eq!((left.events.len(), left.lost), (0, 0), "{sink}");
    }
}

#[test]
fn what_was_tried_often_enough_is_tried_later_while_it_is_young_and_in_the_store() {
    let fate = |age: i64, is_stored| {
        let mut state = PostingState::default();
        let post = Post {
            id: Uuid::from_u128(1),
            at: Timestamp(now().0 - age),
            body: Arc::new([]),
            is_stored,
        };
        state.waiting.push_back(post.clone());
        state.finish_post(&post, Err(GivenUp::Unavailable("503".to_owned())));
        (state.waiting.len(), state.settled.len(), state.lost)
    };
    assert_eq!(fate(0, true), (0, 0, 0));
    assert_eq!(fate(MAX_AGE + 1, true), (0, 1, 1));
    assert_eq!(fate(0, false), (0, 0, 1));
}
