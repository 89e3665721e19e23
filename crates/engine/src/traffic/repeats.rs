//! Reduction of events that a server can cause by the million, unasked or with every answer: of one kind, the first
//! within a minute is recorded, then one each time their number has doubled, and one for the rest after the minute.
//! Each has the number of events that it represents.

use std::collections::BTreeMap;

use mcpmon_model::{Action, ClientRequestKind, Event, EventKind, ServerId, SessionId, Severity, Timestamp};

use crate::effect::Judgement;

/// The time for which repeats of a kind are counted before the rest is reported.
const WINDOW: i64 = 60 * 1_000_000_000;
/// Most kinds that are distinguished at a time. Beyond it, kinds that differ only in what a server chose (a method, a
/// name) are counted together.
const MAX_KINDS: usize = 64;

/// Kinds of events that were recorded within the last window.
#[derive(Debug, Default)]
pub(super) struct Repeats(BTreeMap<RepeatKey, RepeatCount>);

/// The key of repeats: equal events are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RepeatKey {
    session: Option<SessionId>,
    server: Option<ServerId>,
    name: &'static str,
    rule: Option<String>,
    action: Action,
    severity: Severity,
    /// The name of the rule whose finding it is.
    pattern: String,
    /// The part of the key that the server chooses.
    chosen: String,
}

#[derive(Debug)]
struct RepeatCount {
    since: Timestamp,
    /// Number of events within the window.
    seen: u64,
    /// Number of events that no recorded event represents yet, and the latest of them.
    untold: u64,
    latest: Event,
}

impl Repeats {
    /// Removes the events of `judgement` that other events represent.
    pub(super) fn thin(&mut self, now: Timestamp, mut judgement: Judgement) -> Judgement {
        let events = std::mem::take(&mut judgement.events);
        judgement.events = events
            .into_iter()
            .filter_map(|event| self.admit(now, event))
            .collect();
        judgement
    }

    /// Removes repeated findings in an answer to `asked`. Every answered call has an event, which says whether the
    /// answer was withheld. In the answer to any other request findings stay, because a refusal can name no other
    /// event.
    pub(super) fn thin_findings(
        &mut self,
        now: Timestamp,
        mut judgement: Judgement,
        asked: &ClientRequestKind,
    ) -> Judgement {
        let is_call = matches!(asked, ClientRequestKind::Call { .. });
        let is_needed = |event: &Event| !is_call && matches!(event.kind, EventKind::OutputInspection { .. });
        let events = std::mem::take(&mut judgement.events);
        judgement.events = events
            .into_iter()
            .filter_map(|event| match is_needed(&event) {
                true => Some(event),
                false => self.admit(now, event),
            })
            .collect();
        judgement
    }

    /// Returns the remaining counts of windows that are over.
    pub(super) fn over(&mut self, now: Timestamp) -> Vec<Event> {
        // Setting back the clock ends them too.
        let is_over = |counted: &RepeatCount| now.0.abs_diff(counted.since.0) >= WINDOW.unsigned_abs();
        let ended = self.0.extract_if(.., |_, counted| is_over(counted));
        ended.filter_map(|(_, counted)| counted.rest()).collect()
    }

    /// Returns the remaining counts of all windows.
    pub(super) fn finish(&mut self) -> Vec<Event> {
        let counted = std::mem::take(&mut self.0).into_values();
        counted.filter_map(RepeatCount::rest).collect()
    }

    /// Returns the event with its count if it has to be recorded now.
    fn admit(&mut self, now: Timestamp, event: Event) -> Option<Event> {
        let Some(mut kind) = RepeatKey::of(&event) else {
            return Some(event);
        };
        if self.0.len() >= MAX_KINDS && !self.0.contains_key(&kind) {
            kind.chosen.clear();
        }
        let counted = self.0.entry(kind).or_insert_with(|| RepeatCount {
            since: now,
            seen: 0,
            untold: 0,
            latest: event.clone(),
        });
        counted.seen += 1;
        counted.untold += 1;
        counted.latest = event;
        if !counted.seen.is_power_of_two() {
            return None;
        }
        let untold = std::mem::take(&mut counted.untold);
        Some(standing_for(counted.latest.clone(), untold))
    }
}

impl RepeatKey {
    /// Returns the key; `None` for events that have no count.
    fn of(event: &Event) -> Option<Self> {
        let (pattern, chosen) = if let EventKind::Detection {
            tool_name, detection, ..
        } = &event.kind
        {
            (detection.pattern.clone(), tool_name.clone().unwrap_or_default())
        } else if let EventKind::OutputInspection {
            tool_name,
            detections,
            ..
        } = &event.kind
        {
            let worst = detections.iter().max_by_key(|finding| finding.severity);
            let pattern = worst.map_or_else(String::new, |finding| finding.pattern.clone());
            (pattern, tool_name.clone())
        } else if let EventKind::RequestJudged { method, summary, .. } = &event.kind {
            // An event without a method is not about a message: its summary was written by mcpmon, and contains counts.
            let chosen = match method.as_str() {
                "" => String::new(),
                method => format!("{method} {summary}"),
            };
            (String::new(), chosen)
        } else {
            return None;
        };
        Some(Self {
            session: event.session_id.clone(),
            server: event.server_id.clone(),
            name: event.kind.name(),
            rule: event.rule.clone(),
            action: event.action,
            severity: event.severity,
            pattern,
            chosen,
        })
    }
}

impl RepeatCount {
    fn rest(self) -> Option<Event> {
        (self.untold > 0).then(|| standing_for(self.latest, self.untold))
    }
}

fn standing_for(mut event: Event, number: u64) -> Event {
    if let EventKind::Detection { count, .. }
    | EventKind::OutputInspection { count, .. }
    | EventKind::RequestJudged { count, .. } = &mut event.kind
    {
        *count = number;
    }
    event
}
