//! Events as they are stored: with id and host, and the fields of their kind as JSON.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use mcpmon_detect::mask::mask_json;
use mcpmon_model::{
    Action, ContainerRef, Event, EventId, EventKind, Layer, Package, ProcessRef, Severity, Timestamp,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::json::rfc3339;

/// Longest arguments of a call, in characters; longer ones are cut and end with `…`.
const MAX_INPUT: usize = 16 << 10;

/// An event with the id that it got when it was recorded.
///
/// The kind is stored by name with its fields unchanged, so that a store with kinds unknown to this version can still
/// be listed.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Position in the store, ascending; 0 until it is written.
    pub seq: i64,
    /// UUIDv7 of the event's time.
    pub id: Uuid,
    /// The `type` field.
    pub kind: String,
    /// The time of the event.
    pub timestamp: Timestamp,
    /// The host.
    pub host: String,
    /// The agent's session.
    pub session_id: Option<String>,
    /// The server that is concerned.
    pub server_id: Option<String>,
    /// The layer that observed it.
    pub layer: Layer,
    /// The severity.
    pub severity: Severity,
    /// The action taken.
    pub action: Action,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The process that is concerned.
    pub process: Option<ProcessRef>,
    /// The container of that process.
    pub container: Option<ContainerRef>,
    /// The fields of the kind.
    pub data: Map<String, Value>,
}

impl StoredEvent {
    /// Converts `event`, with its id or a new one.
    pub(super) fn identified(host: &str, event: Event) -> Self {
        let id = event
            .id
            .map_or_else(|| new_id(event.timestamp), |id| Uuid::from_bytes(id.0));
        Self::new(id, host, event)
    }

    /// Converts `event` with this id, and masks the secrets in the arguments of a call.
    pub fn new(id: Uuid, host: &str, mut event: Event) -> Self {
        mask_input(&mut event.kind);
        Self {
            seq: 0,
            id,
            kind: event.kind.name().to_owned(),
            timestamp: event.timestamp,
            host: host.to_owned(),
            session_id: event.session_id.map(|session| session.as_str().to_owned()),
            server_id: event.server_id.map(|server| server.as_str().to_owned()),
            layer: event.layer,
            severity: event.severity,
            action: event.action,
            rule: event.rule,
            reason: event.reason,
            process: event.process,
            container: event.container,
            data: own_fields(&event.kind, event.package, event.remedy),
        }
    }

    /// Returns the kind with its fields; `None` if this version does not know it.
    pub fn parse_kind(&self) -> Option<EventKind> {
        let mut fields = self.data.clone();
        for_related_times(&mut fields, |time| {
            let time: jiff::Timestamp = time.as_str()?.parse().ok()?;
            Some(i64::try_from(time.as_nanosecond()).ok()?.into())
        });
        fields.insert("type".to_owned(), Value::String(self.kind.clone()));
        serde_json::from_value(Value::Object(fields)).ok()
    }
}

/// Returns a new id for an event at `timestamp`.
pub fn new_event_id(timestamp: Timestamp) -> EventId {
    EventId(new_id(timestamp).into_bytes())
}

/// Returns a new UUIDv7 with the time `timestamp`.
pub fn new_id(timestamp: Timestamp) -> Uuid {
    // A UUIDv7 cannot have a time before 1970; the epoch is used instead.
    let milliseconds = u64::try_from(timestamp.0).unwrap_or_default() / 1_000_000;
    uuid::Builder::from_unix_timestamp_millis(milliseconds, &random()).into_uuid()
}

/// Returns random bytes for one id: a keyed hash of its number in this process, because asking the system for each id
/// takes a tenth of the time for writing the event. Ids need not be unpredictable.
fn random() -> [u8; 10] {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let hashes = KEYS.each_ref().map(|key| key.hash_one(number).to_le_bytes());
    let mut bytes = hashes.into_iter().flatten();
    std::array::from_fn(|_| bytes.next().unwrap_or_default())
}

/// Masks secrets. Every event that is stored or sent passes through here.
fn mask_input(kind: &mut EventKind) {
    if let EventKind::ToolCallIntercepted {
        input: Some(input), ..
    }
    | EventKind::ToolCalled {
        input: Some(input), ..
    } = kind
    {
        *input = mask_json(input);
        if let Some((end, _)) = input.char_indices().nth(MAX_INPUT) {
            input.truncate(end);
            input.push('…');
        }
    }
}

/// Converts the times of related calls: they are numbers within this program, and texts like all other times in the
/// output.
fn for_related_times(fields: &mut Map<String, Value>, change: impl Fn(&Value) -> Option<Value>) {
    let Some(Value::Array(calls)) = fields.get_mut("related_calls") else {
        return;
    };
    for time in calls.iter_mut().filter_map(|call| call.get_mut("timestamp")) {
        if let Some(changed) = change(time) {
            *time = changed;
        }
    }
}

/// Returns the fields of the kind, the package of the server, and the remedy, which most events do not have.
fn own_fields(kind: &EventKind, package: Option<Package>, remedy: Option<String>) -> Map<String, Value> {
    match serde_json::to_value(kind) {
        Ok(Value::Object(mut fields)) => {
            fields.shift_remove("type");
            for_related_times(&mut fields, |time| {
                Some(rfc3339(Timestamp(time.as_i64()?)).into())
            });
            fields.extend(package.map(|package| ("package".to_owned(), package.as_str().into())));
            fields.extend(remedy.map(|remedy| ("remedy".to_owned(), remedy.into())));
            fields
        }
        other => unreachable!("an event kind is an object with text keys and lossy paths, not {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{EventType, RelatedCall, ServerId, ToolCategory};

    use super::*;
    use crate::sample;

    #[test]
    fn every_kind_survives_being_stored() {
        for event in sample::every_kind() {
            let kind = event.kind.clone();
            let stored = StoredEvent::new(Uuid::nil(), "host", event);
            assert!(!stored.data.contains_key("type"), "{stored:?}");
            assert_eq!(stored.parse_kind(), Some(kind));
        }
    }

    #[test]
    fn there_is_a_sample_of_every_kind() {
        let samples = sample::every_kind();
        for event_type in EventType::ALL {
            assert!(
                samples.iter().any(|event| event.kind.event_type() == *event_type),
                "{event_type:?}"
            );
        }
    }

    #[test]
    fn a_kind_of_a_later_version_is_no_error() {
        let mut stored = StoredEvent::new(Uuid::nil(), "host", sample::started("a", 1));
        stored.kind = "mcp_mind_read".to_owned();
        assert_eq!(stored.parse_kind(), None);
    }

    fn stored_input(input: &str) -> String {
        let mut event = sample::called("read_file", 1);
        if let EventKind::ToolCalled { input: given, .. } = &mut event.kind {
            *given = Some(input.to_owned());
        }
        let stored = StoredEvent::new(Uuid::nil(), "host", event);
        stored.data["input"].as_str().unwrap().to_owned()
    }

    #[test]
    fn secrets_in_arguments_are_masked_before_anything_is_kept() {
        let input = r#"{"path":"/a","headers":{"Authorization":"Bearer abc"},"n":1}"#;
        assert_eq!(
            stored_input(input),
            r#"{"path":"/a","headers":{"Authorization":"***"},"n":1}"#
        );
    }

    #[test]
    fn long_arguments_are_cut() {
        let long = format!(r#"{{"text":"{}"}}"#, "é ".repeat(MAX_INPUT));
        let stored = stored_input(&long);
        assert_eq!(stored.chars().count(), MAX_INPUT + 1);
        assert!(stored.ends_with('…'));
    }

    #[test]
    fn ids_carry_the_time_of_the_event() {
        let id = new_id(Timestamp(1_700_000_000_123_456_789));
        let (seconds, nanoseconds) = id.get_timestamp().map(|time| time.to_unix()).unwrap();
        assert_eq!((seconds, nanoseconds / 1_000_000), (1_700_000_000, 123));
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(new_id(Timestamp(-1)).get_version_num(), 7);
    }

    #[test]
    fn related_calls_have_times_as_all_others() {
        let related = RelatedCall {
            timestamp: Timestamp(1_700_000_000_123_456_789),
            server_id: ServerId::new("files").unwrap(),
            tool_name: "read_file".to_owned(),
            request_id: None,
            action: Action::Allow,
            category: ToolCategory::Read,
        };
        let kind = EventKind::CrossServerBlocked {
            blocked_tool_name: "send".to_owned(),
            related_calls: vec![related],
            evidence: Vec::new(),
        };
        let event = Event::new(Timestamp(7), Layer::Stdio, kind.clone());
        let mut stored = StoredEvent::new(Uuid::nil(), "laptop", event);
        let told = &mut stored.data["related_calls"][0]["timestamp"];
        assert_eq!(*told, "2023-11-14T22:13:20.123456789Z");
        // The earlier form of the time.
        let number = Value::from(1_700_000_000_123_456_789_i64);
        let text = std::mem::replace(told, number);
        assert_eq!(stored.parse_kind(), Some(kind.clone()));
        stored.data["related_calls"][0]["timestamp"] = text;
        assert_eq!(stored.parse_kind(), Some(kind));
    }

    #[test]
    fn ids_of_one_moment_differ_in_every_part() {
        let ids: Vec<u128> = (0..1000).map(|_| new_id(Timestamp(7)).as_u128()).collect();
        let alike = |bit: u32| ids.iter().all(|id| id >> bit & 1 == ids[0] >> bit & 1);
        let fixed: Vec<u32> = (0..128).filter(|bit| alike(*bit)).collect();
        // A UUIDv7 has a time of 48 bits, four bits of the version and two of the variant.
        assert_eq!(fixed.len(), 48 + 4 + 2, "{fixed:?}");
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 1000);
    }
}
