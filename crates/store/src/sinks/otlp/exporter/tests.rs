use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::mpsc::{self, Receiver},
};

use flate2::read::GzDecoder;
use mcpmon_model::CallOutcome;

use super::*;
use crate::{
    Recorder, RecorderSettings, sample,
    sinks::{
        SinkSettings,
        otlp::{OtlpSignals, messages::AnyKind},
    },
};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A request as a collector received it: its path, and its decompressed body.
type Heard = (String, Vec<u8>);

/// A collector that sends these answers, one for each request, and then closes.
fn collector(answers: Vec<&'static str>) -> (String, Receiver<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut line, mut length) = (String::new(), 0);
            reader.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap().to_owned();
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).unwrap();
                if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if header.trim().is_empty() {
                    break;
                }
            }
            let mut packed = vec![0; length];
            reader.read_exact(&mut packed).unwrap();
            let mut body = Vec::new();
            GzDecoder::new(&*packed).read_to_end(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            // The request is reported before it is answered, so that it is there when the exporter has the answer.
            if tell.send((path, body)).is_err() {
                return;
            }
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
    });
    (endpoint, told)
}

struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn start(&self, endpoint: &str) -> Recorder {
        self.start_with(endpoint, None)
    }

    fn start_with(&self, endpoint: &str, metrics: Option<Metrics>) -> Recorder {
        let mut settings = RecorderSettings::new(self.directory.path().join("mcpmon.db"));
        // The events of the samples have a fixed date in 2026, whenever the test runs.
        settings.retention = Duration::MAX;
        settings.sinks = SinkSettings {
            otlp: Some(OtlpSettings {
                endpoint: endpoint.to_owned(),
                headers_file: None,
                ca_file: None,
                with_content: false,
                signals: OtlpSignals {
                    logs: true,
                    traces: true,
                    metrics: false,
                },
            }),
            metrics,
            ..SinkSettings::default()
        };
        let recorder = Recorder::start(settings).unwrap();
        recorder.flush(TIMEOUT).unwrap();
        recorder
    }
}

/// Sets the time to now: the events of the samples have a fixed date.
fn of_now(mut event: mcpmon_model::Event) -> mcpmon_model::Event {
    event.timestamp = now();
    event
}

fn record(recorder: &Recorder, events: impl IntoIterator<Item = mcpmon_model::Event>) {
    for event in events {
        recorder.push(of_now(event));
    }
    recorder.flush(TIMEOUT).unwrap();
}

fn log_names(heard: &Heard) -> Vec<String> {
    assert_eq!(heard.0, "/v1/logs");
    let logs = Logs::decode(&*heard.1).unwrap();
    let scopes = logs
        .resource_logs
        .into_iter()
        .flat_map(|resource| resource.scope_logs);
    scopes
        .flat_map(|scope| scope.log_records)
        .map(|record| record.event_name)
        .collect()
}

fn span_names(heard: &Heard) -> Vec<String> {
    assert_eq!(heard.0, "/v1/traces");
    let traces = Traces::decode(&*heard.1).unwrap();
    let scopes = traces
        .resource_spans
        .into_iter()
        .flat_map(|resource| resource.scope_spans);
    scopes
        .flat_map(|scope| scope.spans)
        .map(|span| span.name)
        .collect()
}

#[test]
fn events_are_exported_once_the_collector_takes_them_and_by_the_next_process_where_it_did_not() {
    let bench = Bench::new();
    let (endpoint, heard) = collector(vec!["503 Service Unavailable", "200 OK", "200 OK", "200 OK"]);
    let recorder = bench.start(&endpoint);
    record(&recorder, [sample::called("read_file", 1)]);
    let hear = || heard.recv_timeout(TIMEOUT).unwrap();
    // The first time, the collector refuses them.
    assert_eq!(log_names(&hear()), ["mcp_tool_called"]);
    assert_eq!(
        log_names(&hear()),
        ["mcp_tool_called"],
        "what was not taken comes again"
    );
    record(&recorder, [sample::returned("read_file", 1, CallOutcome::Ok)]);
    assert_eq!(
        log_names(&hear()),
        ["mcp_tool_returned"],
        "what was taken comes once"
    );
    assert_eq!(span_names(&hear()), ["tools/call read_file"]);
    recorder.close();

    // No collector is listening: events that are recorded now stay in the store.
    let (gone, _) = collector(Vec::new());
    let recorder = bench.start(&gone);
    record(&recorder, [sample::started("a", 2)]);
    assert_eq!(recorder.close().lost, 0);
    let (endpoint, heard) = collector(vec!["200 OK"; 2]);
    let recorder = bench.start(&endpoint);
    let first = log_names(&heard.recv_timeout(TIMEOUT).unwrap());
    assert!(first.contains(&"mcp_server_started".to_owned()), "{first:?}");
    assert!(
        !first.contains(&"mcp_tool_called".to_owned()),
        "it was taken before: {first:?}"
    );
    drop(recorder);
}

/// Exports a batch of `count` records to a collector with these answers.
fn sent(answers: Vec<&'static str>, count: u32) -> (Vec<usize>, Option<Look>, u64) {
    let (endpoint, heard) = collector(answers);
    let directory = tempfile::tempdir().unwrap();
    let settings = OtlpSettings {
        endpoint,
        headers_file: None,
        ca_file: None,
        with_content: true,
        signals: OtlpSignals {
            logs: true,
            traces: false,
            metrics: false,
        },
    };
    let origin = Origin {
        location: StoreLocation::new(directory.path().join("mcpmon.db")),
        access: Access::default(),
        host: "laptop".to_owned(),
    };
    let shared = Arc::new(ExportShared::default());
    let sender = Sender::new(&settings).unwrap();
    let mut exporter = Exporter::new(&settings, sender, None, origin, Arc::clone(&shared));
    let mut batch = ExportBatch::default();
    for number in 0..count {
        let id = uuid::Uuid::from_u128(number.into());
        let event = StoredEvent::new(id, "laptop", sample::started("a", number + 2));
        exporter.add(&mut batch, &event);
    }
    let outcome = exporter.send(&mut batch);
    let sizes = heard.try_iter().map(|heard| log_names(&heard).len()).collect();
    let lost = shared.lock().lost;
    (sizes, outcome, lost)
}

#[test]
fn a_request_that_is_too_large_is_divided_and_what_is_refused_for_good_is_counted() {
    let large = "413 Content Too Large";
    assert_eq!(sent(vec![large, "200 OK", "200 OK"], 4), (vec![4, 2, 2], None, 0));
    assert_eq!(sent(vec!["400 Bad Request"], 4), (vec![4], None, 4));
    assert_eq!(sent(vec![large, large, "200 OK"], 2), (vec![2, 1, 1], None, 1));
    let (sizes, later, lost) = sent(vec!["429 Too Many Requests\r\nretry-after: 7"], 4);
    assert_eq!(
        (sizes, later, lost),
        (vec![4], Some(Look::Later(Some(Duration::from_secs(7)))), 0)
    );
}

#[test]
fn what_retention_removed_first_is_counted() {
    let (directory, mut store) = sample::store();
    let origin = Origin {
        location: StoreLocation::new(directory.path().join("mcpmon.db")),
        access: Access::default(),
        host: "laptop".to_owned(),
    };
    let settings = OtlpSettings {
        endpoint: "http://127.0.0.1:9".to_owned(),
        headers_file: None,
        ca_file: None,
        with_content: false,
        signals: OtlpSignals {
            logs: true,
            traces: true,
            metrics: true,
        },
    };
    let shared = Arc::new(ExportShared::default());
    let sender = Sender::new(&settings).unwrap();
    let mut exporter = Exporter::new(&settings, sender, None, origin, Arc::clone(&shared));
    exporter.since = Timestamp(0);
    assert!(!exporter.read().unwrap());
    sample::fill(&mut store, (1..=5).map(|pid| sample::started("a", pid)));
    store
        .connection()
        .execute("DELETE FROM events WHERE seq IN (1, 2, 4)", [])
        .unwrap();
    assert!(exporter.read().unwrap());
    let batch = exporter.batch.take().unwrap();
    assert_eq!((batch.from, batch.to, batch.logs.len()), (0, 5, 2));
    assert_eq!(shared.lock().lost, 3);
}

/// Attributes of the resource of a request's logs, as `name=value`.
fn resource(heard: &Heard) -> Vec<String> {
    assert_eq!(heard.0, "/v1/logs");
    let logs = Logs::decode(&*heard.1).unwrap();
    let resources = logs.resource_logs.into_iter().filter_map(|logs| logs.resource);
    let attributes = resources.flat_map(|resource| resource.attributes);
    let text = |value: KeyValue| match value.value.and_then(|value| value.value) {
        Some(AnyKind::Text(text)) => format!("{}={text}", value.key),
        other => panic!("{}: {other:?}", value.key),
    };
    attributes.map(text).collect()
}

#[test]
fn the_resource_tells_which_bundle_is_in_force_and_whether_it_is_enforced() {
    let bench = Bench::new();
    let (endpoint, heard) = collector(vec!["200 OK"; 3]);
    let metrics = Metrics::default();
    let recorder = bench.start_with(&endpoint, Some(metrics.clone()));
    let hear = || resource(&heard.recv_timeout(TIMEOUT).unwrap());
    record(&recorder, [sample::called("read_file", 1)]);
    let before = hear();
    assert!(
        !before
            .iter()
            .any(|known| known.contains("bundle") || known.contains("enforcement")),
        "{before:?}"
    );

    let digest = mcpmon_model::Digest::of(b"bundle");
    let loaded = mcpmon_model::EventKind::PolicyLoaded {
        path: "bundle 7/policy.yaml".to_owned(),
        hash: mcpmon_model::Digest::of(b"policy"),
        lost: Vec::new(),
        bundle_serial: Some(7),
        bundle_digest: Some(digest),
    };
    metrics.set_enforcement_effective(true);
    record(
        &recorder,
        [mcpmon_model::Event::new(
            now(),
            mcpmon_model::Layer::Agent,
            loaded,
        )],
    );
    let after = hear();
    for expected in [
        format!("mcpmon.policy.digest={}", mcpmon_model::Digest::of(b"policy")),
        format!("mcpmon.bundle.digest={digest}"),
        "mcpmon.bundle.serial=7".to_owned(),
        "mcpmon.enforcement.effective=true".to_owned(),
    ] {
        assert!(after.contains(&expected), "{expected} in {after:?}");
    }
    metrics.set_enforcement_effective(false);
    record(&recorder, [sample::called("read_file", 2)]);
    let degraded = hear();
    assert!(
        degraded.contains(&"mcpmon.enforcement.effective=false".to_owned()),
        "{degraded:?}"
    );
    assert!(
        degraded.contains(&format!("mcpmon.bundle.digest={digest}")),
        "{degraded:?}"
    );
}
