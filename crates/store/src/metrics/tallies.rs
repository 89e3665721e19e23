//! Counts of recorded events. Names come from other processes, so the number of different label values is limited.

use std::collections::{BTreeMap, BTreeSet};

use mcpmon_model::{Action, EventType, Severity};

use super::{
    Durations, MetricFamily, MetricValue, Sample,
    table::{CALL_DURATION, CALLS, CONNECTIONS, DETECTIONS, EVENTS, EVENTS_LOST, Metric},
};
use crate::{StoredEvent, names};

/// Most servers with a label value of their own.
const MAX_SERVERS: usize = 100;
/// Most rules with a label value of their own.
const MAX_RULES: usize = 200;
/// Most combinations of server, verdict and rule that are counted separately.
const MAX_CALL_SERIES: usize = 2000;
/// Longest name in a label, characters.
const MAX_NAME_CHARS: usize = 128;
/// The label value for everything beyond these limits.
const OTHER: &str = "other";

const CALLED: &str = EventType::ToolCalled.as_str();
const JUDGED: &str = EventType::ToolCallIntercepted.as_str();
const RETURNED: &str = EventType::ToolReturned.as_str();
const DETECTION: &str = EventType::Detection.as_str();
const INSPECTED: &str = EventType::OutputInspection.as_str();
const CONNECTION: &str = EventType::NetworkConnection.as_str();
const LOST: &str = EventType::EventsLost.as_str();

/// Classes of places where records are lost, by the beginnings of their names.
const LOSS_CLASSES: [(&str, &str); 9] = [
    ("kernel ring", "kernel_ring"),
    ("kernel process table", "kernel_table"),
    ("kernel reads", "kernel_read"),
    ("record queue", "queue"),
    ("record.max_size", "max_size"),
    ("record.retention", "retention"),
    ("jsonl file", "jsonl"),
    ("webhook", "webhook"),
    ("otlp", "otlp"),
];

/// Names with a label value of their own, up to a limit.
#[derive(Debug, Default)]
struct Names(BTreeSet<String>);

impl Names {
    /// Returns the label value for `name`.
    fn label(&mut self, name: Option<&str>, max: usize) -> String {
        let name: String = name.unwrap_or_default().chars().take(MAX_NAME_CHARS).collect();
        if name.is_empty() || self.0.contains(&name) {
            return name;
        }
        if self.0.len() >= max {
            return OTHER.to_owned();
        }
        self.0.insert(name.clone());
        name
    }
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    servers: Names,
    rules: Names,
    /// By server, verdict and rule.
    calls: BTreeMap<(String, Action, String), u64>,
    /// By server and outcome.
    durations: BTreeMap<(String, String), Durations>,
    /// By type.
    events: BTreeMap<&'static str, u64>,
    /// By severity.
    detections: BTreeMap<Severity, u64>,
    /// By direction and verdict.
    connections: BTreeMap<(String, Action), u64>,
    /// By class.
    lost: BTreeMap<&'static str, u64>,
}

impl Tallies {
    pub(super) fn count(&mut self, event: &StoredEvent) {
        let mut types = EventType::ALL.iter().map(|known| known.as_str());
        let kind = types.find(|known| *known == event.kind).unwrap_or(OTHER);
        *self.events.entry(kind).or_default() += 1;
        let number = |field: &str| event.data.get(field).and_then(serde_json::Value::as_u64);
        let count = number("count").unwrap_or(1);
        match kind {
            // A call that is reported and still made has two events: the judgement and the call. It is counted once.
            CALLED => self.count_call(event),
            JUDGED if event.action == Action::Block => self.count_call(event),
            RETURNED => self.count_duration(event, number("duration_us").unwrap_or_default()),
            DETECTION | INSPECTED => *self.detections.entry(event.severity).or_default() += count,
            CONNECTION => {
                let direction = known_direction(event.data.get("direction").and_then(|value| value.as_str()));
                *self.connections.entry((direction, event.action)).or_default() += count;
            }
            LOST => {
                let place = event.data.get("where").and_then(serde_json::Value::as_str);
                *self.lost.entry(loss_class(place)).or_default() += count;
            }
            _ => {}
        }
    }

    fn count_call(&mut self, event: &StoredEvent) {
        let server = self.servers.label(event.server_id.as_deref(), MAX_SERVERS);
        let rule = self.rules.label(event.rule.as_deref(), MAX_RULES);
        let mut key = (server, event.action, rule);
        if self.calls.len() >= MAX_CALL_SERIES && !self.calls.contains_key(&key) {
            key = (OTHER.to_owned(), event.action, OTHER.to_owned());
        }
        *self.calls.entry(key).or_default() += 1;
    }

    fn count_duration(&mut self, event: &StoredEvent, microseconds: u64) {
        let server = self.servers.label(event.server_id.as_deref(), MAX_SERVERS);
        let outcome = event.data.get("outcome").and_then(|value| value.as_str());
        let outcome = known_outcome(outcome);
        let durations = self.durations.entry((server, outcome)).or_default();
        durations.add(std::time::Duration::from_micros(microseconds).as_secs_f64());
    }

    pub(super) fn families(&self) -> Vec<MetricFamily> {
        let durations = self
            .durations
            .iter()
            .map(|((server, outcome), durations)| Sample {
                labels: vec![("server", server.clone()), ("outcome", outcome.clone())],
                value: MetricValue::Durations(durations.clone()),
            });
        vec![
            family(CALLS, &self.calls, |(server, verdict, rule)| {
                vec![
                    ("server", server.clone()),
                    ("verdict", verdict.as_str().to_owned()),
                    ("rule", rule.clone()),
                ]
            }),
            MetricFamily {
                metric: CALL_DURATION,
                samples: durations.collect(),
            },
            family(EVENTS, &self.events, |kind| vec![("type", (*kind).to_owned())]),
            family(DETECTIONS, &self.detections, |severity| {
                vec![("severity", severity.as_str().to_owned())]
            }),
            family(CONNECTIONS, &self.connections, |(direction, verdict)| {
                vec![
                    ("direction", direction.clone()),
                    ("verdict", verdict.as_str().to_owned()),
                ]
            }),
            family(EVENTS_LOST, &self.lost, |class| {
                vec![("class", (*class).to_owned())]
            }),
        ]
    }
}

fn family<K>(
    metric: Metric,
    counts: &BTreeMap<K, u64>,
    labels: impl Fn(&K) -> Vec<(&'static str, String)>,
) -> MetricFamily {
    MetricFamily::labelled(metric, counts.iter().map(|(key, count)| (labels(key), *count)))
}

fn known_direction(direction: Option<&str>) -> String {
    let known = direction.and_then(|name| names::parse_name::<mcpmon_model::Direction>(name).ok());
    known.map_or_else(|| OTHER.to_owned(), |direction| names::name(&direction))
}

fn known_outcome(outcome: Option<&str>) -> String {
    let known = outcome.and_then(|name| names::parse_name::<mcpmon_model::CallOutcome>(name).ok());
    known.map_or_else(|| OTHER.to_owned(), |outcome| names::name(&outcome))
}

fn loss_class(place: Option<&str>) -> &'static str {
    let place = place.unwrap_or_default();
    let mut classes = LOSS_CLASSES.iter();
    let found = classes.find(|(beginning, _)| place.starts_with(beginning));
    found.map_or(OTHER, |(_, class)| class)
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{CallOutcome, Direction, Event, EventKind, Layer, Timestamp};
    use test_case::test_case;
    use uuid::Uuid;

    use super::*;
    use crate::sample;

    fn tallies(events: impl IntoIterator<Item = Event>) -> Tallies {
        let mut tallies = Tallies::default();
        for event in events {
            tallies.count(&StoredEvent::new(Uuid::nil(), "laptop", event));
        }
        tallies
    }

    fn samples(tallies: &Tallies, metric: Metric) -> Vec<(String, u64)> {
        let families = tallies.families();
        let family = families.iter().find(|family| family.metric == metric).unwrap();
        let text = |sample: &Sample| {
            let labels: Vec<&str> = sample.labels.iter().map(|(_, value)| value.as_str()).collect();
            let value = match &sample.value {
                MetricValue::Number(value) => *value,
                MetricValue::Durations(durations) => durations.count(),
            };
            (labels.join(" "), value)
        };
        family.samples.iter().map(text).collect()
    }

    #[test]
    fn a_call_is_counted_once_by_what_became_of_it() {
        let mut audited = sample::called("read_file", 2);
        audited.action = Action::Audit;
        audited.rule = Some("watched".to_owned());
        let tallies = tallies([
            sample::called("read_file", 1),
            sample::returned("read_file", 1, CallOutcome::Ok),
            // This call has two events, because it was made.
            sample::intercepted("read_file", 2, Action::Audit),
            audited,
            sample::intercepted("read_file", 3, Action::Block),
            // An intent is counted with its call, or when it is blocked.
            sample::wanted("read_file", None, Action::Allow),
            sample::wanted("read_file", None, Action::Block),
        ]);
        assert_eq!(
            samples(&tallies, CALLS),
            [
                ("files allow ".to_owned(), 1),
                ("files audit watched".to_owned(), 1),
                ("files block mcp.version_pinning".to_owned(), 2),
            ]
        );
        assert_eq!(samples(&tallies, CALL_DURATION), [("files ok".to_owned(), 1)]);
    }

    #[test]
    fn names_of_others_make_a_bounded_number_of_series() {
        let mut events = Vec::new();
        for number in 0..3000_usize {
            let mut event = sample::called("read_file", 1);
            event.server_id = Some(mcpmon_model::ServerId::new(format!("s{number}")).unwrap());
            event.rule = Some(format!("r{number}"));
            events.push(event);
        }
        let tallies = tallies(events);
        let calls = samples(&tallies, CALLS);
        assert!(calls.len() <= MAX_SERVERS + MAX_RULES + 1, "{}", calls.len());
        let all: u64 = calls.iter().map(|(_, count)| count).sum();
        assert_eq!(all, 3000, "what is not told apart is counted");
        assert!(calls.iter().any(|(labels, _)| labels == "other allow other"));
    }

    #[test]
    fn every_event_and_what_it_stands_for_is_counted() {
        let lost = EventKind::EventsLost {
            place: "kernel ring: connections".to_owned(),
            count: 7,
        };
        let tallies = tallies([
            sample::connection("a", 2, "192.0.2.1:443", Direction::ServerEgress),
            sample::detected("read_file"),
            Event::new(Timestamp(1), Layer::Kernel, lost),
        ]);
        assert_eq!(
            samples(&tallies, CONNECTIONS),
            [("server_egress allow".to_owned(), 1)]
        );
        assert_eq!(samples(&tallies, DETECTIONS), [("critical".to_owned(), 1)]);
        assert_eq!(samples(&tallies, EVENTS_LOST), [("kernel_ring".to_owned(), 7)]);
        assert_eq!(samples(&tallies, EVENTS).len(), 3);
    }

    #[test_case("record queue: mcp_tool_called" => "queue")]
    #[test_case("otlp" => "otlp")]
    #[test_case("elsewhere" => "other")]
    fn a_loss_has_a_class(place: &str) -> &'static str {
        loss_class(Some(place))
    }
}
