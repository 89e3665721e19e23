use std::sync::mpsc::RecvTimeoutError;

use mcpmon_model::{Direction, PinKey, PinPart, ServerId, Severity, Timestamp};
use rusqlite::Connection;

use super::*;
use crate::{BinaryPin, DeclaredServer, Filter, StoreReader, StoredEvent, sample};

const TIMEOUT: Duration = Duration::from_secs(30);

struct Bench {
    _directory: tempfile::TempDir,
    settings: RecorderSettings,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = RecorderSettings::new(directory.path().join("mcpmon.db"));
        settings.host = "laptop".to_owned();
        // The events of the samples have a fixed date in 2026, whenever the test runs.
        settings.retention = Duration::MAX;
        Self {
            _directory: directory,
            settings,
        }
    }

    fn start(&self) -> Recorder {
        Recorder::start(self.settings.clone()).unwrap()
    }

    fn reader(&self) -> StoreReader {
        StoreReader::open(&self.settings.location.path()).unwrap()
    }

    fn events(&self) -> Vec<StoredEvent> {
        self.reader().events(&Filter::default(), 100_000).unwrap()
    }
}

#[test]
fn what_is_pushed_is_in_the_store_after_a_flush_in_order() {
    let bench = Bench::new();
    let recorder = bench.start();
    for pid in 2..2502 {
        recorder.push(sample::started("a", pid));
    }
    recorder.flush(TIMEOUT).unwrap();
    let pids: Vec<u32> = bench
        .events()
        .iter()
        .map(|event| event.process.as_ref().unwrap().pid)
        .collect();
    assert_eq!(pids, (2..2502).collect::<Vec<_>>());
    assert_eq!(
        recorder.close(),
        RecorderStatus {
            written: 2500,
            ..RecorderStatus::default()
        }
    );
}

#[test]
fn events_of_many_threads_are_all_written_with_ids_of_their_own() {
    let bench = Bench::new();
    let recorder = bench.start();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let recorder = recorder.clone();
            scope.spawn(move || {
                for pid in 2..102 {
                    recorder.push(sample::started("a", thread * 1000 + pid));
                }
            });
        }
    });
    recorder.close();
    let ids: std::collections::BTreeSet<_> = bench.events().iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), 400);
}

#[test]
fn a_block_is_written_without_waiting_for_the_interval() {
    let mut bench = Bench::new();
    bench.settings.flush_interval = Duration::from_hours(1);
    let recorder = bench.start();
    recorder.push(sample::started("a", 2));
    recorder.push(sample::blocked_connection());
    while recorder.status().written < 2 {
        std::thread::yield_now();
    }
}

#[test]
fn dropping_the_last_handle_writes_what_waits() {
    let mut bench = Bench::new();
    bench.settings.flush_interval = Duration::from_hours(1);
    let recorder = bench.start();
    let other = recorder.clone();
    other.push(sample::started("a", 2));
    drop(recorder);
    drop(other);
    assert_eq!(bench.events().len(), 1);
}

#[test]
fn pins_and_declarations_go_through_the_same_writer() {
    let bench = Bench::new();
    let recorder = bench.start();
    let pin = BinaryPin {
        key: PinKey {
            server: ServerId::new("a").unwrap(),
            name: "a".into(),
            uid: 0,
        },
        number: 1,
        part: PinPart::Package,
        path: "/srv/a".into(),
        hash: mcpmon_model::Digest::of(b"a"),
        manifest: Some(b"manifest".to_vec()),
        pinned_at: Timestamp(sample::NOON),
        pinned_by: "first_use".into(),
    };
    recorder
        .put(StoreEntry::PutPin(pin.clone()), Urgency::InOrder)
        .unwrap();
    let declared = DeclaredServer {
        server_id: ServerId::new("b").unwrap(),
        server_type: mcpmon_model::ServerType::Http,
        command: "https://b.example/mcp".into(),
    };
    recorder
        .put(StoreEntry::Declare(vec![declared]), Urgency::InOrder)
        .unwrap();
    recorder.flush(TIMEOUT).unwrap();
    assert_eq!(bench.reader().pins().unwrap(), std::slice::from_ref(&pin));
    assert_eq!(bench.reader().servers().unwrap()[0].server_id, "b");
    recorder
        .put(StoreEntry::DeletePinSet(pin.key.clone(), 2), Urgency::InOrder)
        .unwrap();
    recorder.flush(TIMEOUT).unwrap();
    assert_eq!(bench.reader().pins().unwrap(), std::slice::from_ref(&pin));
    recorder
        .put(StoreEntry::DeletePins(pin.key.server), Urgency::InOrder)
        .unwrap();
    recorder.flush(TIMEOUT).unwrap();
    assert_eq!(bench.reader().pins().unwrap(), []);
}

/// Locks the store for writing, as another process might.
fn locked(settings: &RecorderSettings) -> Connection {
    let connection = Connection::open(settings.location.path()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn a_locked_store_is_reported_and_what_does_not_fit_is_counted_and_told_when_it_is_back() {
    let mut bench = Bench::new();
    bench.settings.capacity = 10;
    bench.settings.batch = 5;
    let recorder = bench.start();
    recorder.flush(TIMEOUT).unwrap();
    let lock = locked(&bench.settings);
    while recorder.status().lost < 7 {
        recorder.push(sample::started("a", 2));
    }
    while recorder.status().last_error.is_none() {
        std::thread::yield_now();
    }
    let error = recorder.status().last_error.unwrap();
    assert!(error.contains("mcpmon.db") && error.contains("locked"), "{error}");
    let unsettled = recorder.flush(Duration::ZERO).unwrap_err();
    assert!(unsettled.to_string().contains("locked"), "{unsettled}");

    drop(lock);
    recorder.flush(TIMEOUT).unwrap();
    let status = recorder.close();
    assert_eq!((status.lost, status.last_error), (7, None));
    // The writer may have taken a batch in between: the losses are reported in two parts then.
    let mut told = 0;
    for event in bench
        .events()
        .into_iter()
        .filter(|event| event.kind == "mcp_events_lost")
    {
        assert_eq!(event.data["where"], "record queue: mcp_server_started");
        told += event.data["count"].as_u64().unwrap();
    }
    assert_eq!(told, 7);
}

type Pruned = Result<crate::PruneCount, StoreError>;

const NOTHING_TO_PRUNE: Pruned = Ok(crate::PruneCount {
    progress: crate::PruneProgress::Done,
    aged: 0,
    oversize: 0,
    jump: None,
});

/// A destination that stores every other batch.
struct Fickle {
    fails: bool,
}

impl Destination for Fickle {
    fn keep(&mut self, _: &[StoreEntry]) -> Result<(), StoreError> {
        self.fails = !self.fails;
        match self.fails {
            true => Err(StoreError::Thread(std::io::ErrorKind::InvalidData.into())),
            false => Ok(()),
        }
    }

    fn prune(&mut self, _: RetentionLimits, _: Timestamp) -> Pruned {
        NOTHING_TO_PRUNE
    }
}

#[test]
fn what_was_given_up_is_not_taken_for_kept() {
    let bench = Bench::new();
    let destination = Box::new(Fickle { fails: false });
    let recorder = Recorder::with(destination, bench.settings.clone()).unwrap();
    let entries = || vec![StoreEntry::PolicyChanged];
    assert!(matches!(
        recorder.put_all(entries(), TIMEOUT),
        Err(EntryNotStored::GivenUp(_))
    ));
    assert_eq!(recorder.put_all(entries(), TIMEOUT), Ok(()));
    drop(recorder);
}

/// A destination that reports when it rests.
struct Resting(std::sync::mpsc::Sender<()>);

impl Destination for Resting {
    fn keep(&mut self, _: &[StoreEntry]) -> Result<(), StoreError> {
        Ok(())
    }

    fn prune(&mut self, _: RetentionLimits, _: Timestamp) -> Pruned {
        NOTHING_TO_PRUNE
    }

    fn rest(&mut self) {
        self.0.send(()).unwrap();
    }
}

/// A destination that keeps nothing but changes of the policy.
#[derive(Debug)]
struct Choosy(std::sync::mpsc::Sender<usize>);

impl Destination for Choosy {
    fn prepare(&mut self, mut entries: Vec<StoreEntry>) -> Vec<StoreEntry> {
        entries.retain(|entry| matches!(entry, StoreEntry::PolicyChanged));
        entries
    }

    fn keep(&mut self, entries: &[StoreEntry]) -> Result<(), StoreError> {
        self.0.send(entries.len()).unwrap();
        Ok(())
    }

    fn prune(&mut self, _: RetentionLimits, _: Timestamp) -> Pruned {
        NOTHING_TO_PRUNE
    }
}

#[test]
fn the_destination_is_left_alone_where_nothing_is_left_to_keep() {
    let bench = Bench::new();
    let (kept, keeps) = std::sync::mpsc::channel();
    let recorder = Recorder::with(Box::new(Choosy(kept)), bench.settings.clone()).unwrap();
    for entry in [StoreEntry::ForgetRunning, StoreEntry::PolicyChanged] {
        assert_eq!(recorder.put_all(vec![entry], TIMEOUT), Ok(()));
    }
    drop(recorder);
    assert_eq!(keeps.into_iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn where_nothing_is_recorded_for_some_time_the_destination_rests() {
    let mut bench = Bench::new();
    bench.settings.flush_interval = Duration::from_millis(1);
    let (rested, rests) = std::sync::mpsc::channel();
    let recorder = Recorder::with(Box::new(Resting(rested)), bench.settings.clone()).unwrap();
    for pid in [2, 3] {
        recorder.push(sample::started("a", pid));
        rests.recv_timeout(TIMEOUT).expect("it rests");
        let looks = bench.settings.flush_interval * 100;
        assert_eq!(rests.recv_timeout(looks), Err(RecvTimeoutError::Timeout), "once");
    }
    drop(recorder);
}

#[test]
fn closing_does_not_wait_for_a_store_that_stays_locked() {
    let bench = Bench::new();
    let recorder = bench.start();
    recorder.flush(TIMEOUT).unwrap();
    let lock = locked(&bench.settings);
    recorder.push(sample::started("a", 2));
    let status = recorder.close();
    assert_eq!((status.written, status.lost), (0, 1));
    assert!(status.last_error.unwrap().contains("locked"));
    drop(lock);
}

#[test]
fn the_writer_keeps_the_store_within_its_size() {
    let mut bench = Bench::new();
    bench.settings.max_size = 256 << 10;
    let recorder = bench.start();
    for pid in 2..5002 {
        recorder.push(sample::connection(
            "a",
            pid,
            "192.0.2.1:443",
            Direction::ServerEgress,
        ));
    }
    recorder.flush(TIMEOUT).unwrap();
    drop(recorder);
    // Starting again enforces the limits at once.
    let recorder = bench.start();
    while fs::metadata(bench.settings.location.path()).unwrap().len() > bench.settings.max_size {
        std::thread::yield_now();
    }
    drop(recorder);
    let events = bench.events();
    let (told, left): (Vec<_>, Vec<_>) = events.iter().partition(|event| event.kind == "mcp_events_lost");
    assert_eq!(left.last().unwrap().process.as_ref().unwrap().pid, 5001);
    // Every removal is reported.
    assert!(told.iter().all(|event| event.data["where"] == "record.max_size"));
    let removed: u64 = told
        .iter()
        .map(|event| event.data["count"].as_u64().unwrap())
        .sum();
    assert_eq!(removed + left.len() as u64, 5000);
}

/// A webhook that answers each post with the next of `answers`, and reports which events came.
fn receiver(answers: Vec<&'static str>) -> (crate::WebhookSettings, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead as _, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = crate::WebhookSettings {
        url: format!("http://{}", listener.local_addr().unwrap()),
        key_file: None,
        min_severity: Severity::High,
    };
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
            let (mut length, mut header) = (0, String::new());
            while header != "\r\n" {
                header.clear();
                reader.read_line(&mut header).unwrap();
                if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            tell.send(body["id"].as_str().unwrap().to_owned()).unwrap();
        }
    });
    (settings, told)
}

fn unposted(bench: &Bench) -> u32 {
    let connection = Connection::open(bench.settings.location.path()).unwrap();
    connection
        .query_row("SELECT count(*) FROM unposted", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn an_event_is_the_webhooks_until_that_acknowledged_it() {
    let mut bench = Bench::new();
    let (settings, posts) = receiver(vec!["503 Service Unavailable", "204 No Content"]);
    bench.settings.sinks.webhook = Some(settings);
    let recorder = bench.start();
    let mut event = sample::denied("a");
    event.severity = Severity::High;
    recorder.push(event);
    recorder.push(sample::started("a", 2));
    recorder.flush(TIMEOUT).unwrap();
    assert_eq!(unposted(&bench), 1, "a process that dies now leaves it");
    let first = posts.recv_timeout(TIMEOUT).unwrap();
    drop(recorder);
    assert_eq!(unposted(&bench), 1, "it was not taken");
    let recorder = bench.start();
    assert_eq!(posts.recv_timeout(TIMEOUT).unwrap(), first);
    drop(recorder);
    assert_eq!(unposted(&bench), 0);
}
