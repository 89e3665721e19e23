//! Posts events to a URL, one JSON object a request, from a thread of its own: whoever records never waits.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcpmon_core::model::Severity;

use super::{StoredEvent, WebhookSettings, line};

/// Events that wait at most.
const CAPACITY: usize = 1024;
/// Tries of one event, the first included.
const TRIES: u32 = 6;
/// Pause before the second try; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last events may take when the process ends.
const LAST: Duration = Duration::from_secs(2);
/// How often a thread that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// A URL that events are posted to.
#[derive(Debug)]
pub(super) struct Webhook {
    min_severity: Severity,
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    is_ending: Arc<AtomicBool>,
    failures: Receiver<String>,
    lost: u64,
    cause: Option<String>,
}

impl Webhook {
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn start(settings: &WebhookSettings) -> io::Result<Self> {
        let (queue, events) = sync_channel(CAPACITY);
        let (fail, failures) = sync_channel(CAPACITY);
        let is_ending = Arc::new(AtomicBool::new(false));
        let poster = Poster {
            url: settings.url.clone(),
            agent: agent(),
            is_ending: Arc::clone(&is_ending),
            fail,
        };
        let thread = std::thread::Builder::new()
            .name("webhook".to_owned())
            .spawn(move || poster.run(&events))?;
        Ok(Self {
            min_severity: settings.min_severity,
            queue: Some(queue),
            thread: Some(thread),
            is_ending,
            failures,
            lost: 0,
            cause: None,
        })
    }

    /// Takes in what is bad enough; what does not fit is counted.
    pub(super) fn post<'a>(&mut self, events: impl Iterator<Item = &'a StoredEvent>) {
        let Some(queue) = &self.queue else { return };
        for event in events.filter(|event| event.severity >= self.min_severity) {
            match queue.try_send(line(event)) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.lost += 1;
                    self.cause = Some("the webhook is behind".to_owned());
                }
            }
        }
    }

    /// How many events were not posted since the last time, and why.
    pub(super) fn take_lost(&mut self) -> Option<(u64, String)> {
        for cause in self.failures.try_iter() {
            self.lost += 1;
            self.cause = Some(cause);
        }
        let cause = self.cause.take()?;
        Some((std::mem::take(&mut self.lost), cause))
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.queue = None;
        self.is_ending.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + LAST;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !thread.is_finished() {
            tracing::warn!("the webhook did not take the last events");
        }
    }
}

/// What the thread works with.
struct Poster {
    url: String,
    agent: ureq::Agent,
    is_ending: Arc<AtomicBool>,
    fail: SyncSender<String>,
}

impl Poster {
    fn run(&self, events: &Receiver<Vec<u8>>) {
        loop {
            match events.recv_timeout(LOOK) {
                Ok(event) => {
                    if let Err(cause) = self.deliver(&event) {
                        tracing::warn!(cause, "an event could not be posted");
                        // The counter of the other side is full: what is not counted there is logged here.
                        let _counted = self.fail.try_send(cause);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn deliver(&self, event: &[u8]) -> Result<(), String> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let Err(failure) = self.post(event) else {
                return Ok(());
            };
            if attempt >= TRIES || !failure.may_pass || !self.wait(pause) {
                return Err(failure.cause);
            }
            pause *= 2;
        }
        Ok(())
    }

    fn post(&self, event: &[u8]) -> Result<(), Failure> {
        let sent = self
            .agent
            .post(&self.url)
            .content_type("application/json")
            .send(event);
        sent.map(drop).map_err(|error| {
            // A server that understood and does not want it wants it neither now nor later.
            let is_final = matches!(error, ureq::Error::StatusCode(status)
                if status < 500 && !matches!(status, 408 | 425 | 429));
            Failure {
                may_pass: !is_final,
                // The URL may hold a secret, and is in none of these messages.
                cause: error.to_string(),
            }
        })
    }

    /// Waits before another try; `false` when the process ends.
    fn wait(&self, pause: Duration) -> bool {
        let deadline = Instant::now() + pause;
        while Instant::now() < deadline {
            if self.is_ending.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(LOOK.min(deadline.saturating_duration_since(Instant::now())));
        }
        true
    }
}

struct Failure {
    may_pass: bool,
    cause: String,
}

/// Follows no redirect: events go where the configuration says, and nowhere else.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .max_redirects(0)
        .user_agent(concat!("mcpmon/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        net::TcpListener,
        sync::mpsc,
    };

    use uuid::Uuid;

    use super::*;
    use crate::record::{json, sample};

    /// A server that gives these answers, one for each request, and tells what it was sent.
    fn server(answers: Vec<&'static str>) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(&stream);
                let mut length = 0;
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
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                (&stream)
                    .write_all(
                        format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                            .as_bytes(),
                    )
                    .unwrap();
                if tell.send(String::from_utf8(body).unwrap()).is_err() {
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

    fn hook(url: String) -> Webhook {
        Webhook::start(&WebhookSettings {
            url,
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
        webhook.post(events.iter());
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
        );
        let ids: Vec<u128> = (0..4).map(|_| received(&told).id.as_u128()).collect();
        assert_eq!(ids, [1, 1, 2, 3]);
        let (lost, cause) = webhook.take_lost().unwrap();
        assert_eq!(lost, 1);
        assert!(cause.contains("403"), "{cause}");
    }

    #[test]
    fn what_does_not_fit_is_counted_and_nobody_waits() {
        // Nobody accepts: the first one hangs in the thread.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut webhook = hook(format!("http://{}/hook", listener.local_addr().unwrap()));
        let event = event(1, Severity::High);
        webhook.post(std::iter::repeat_n(&event, CAPACITY + 100));
        let (lost, _) = webhook.take_lost().unwrap();
        assert!((99..=100).contains(&lost), "{lost}");
    }
}
