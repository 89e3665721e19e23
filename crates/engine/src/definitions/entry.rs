//! One definition: its record, and its place in the lists.

use mcpmon_detect::scan::Findings;
use mcpmon_model::{
    Action, Definition, DefinitionKey, DefinitionRecord, Digest, Finding, RawJson, SessionId, Severity,
    Timestamp,
};
use mcpmon_policy::Policy;

use super::{DefinitionStanding, DefinitionsFull};

/// A definition, as this process knows it.
#[derive(Debug)]
pub(crate) struct DefinitionEntry {
    /// The stored record of the definition.
    pub(crate) record: DefinitionRecord,
    /// The standing of the definition.
    pub(crate) standing: DefinitionStanding,
    /// The state of approval of its current version.
    pub(crate) approval: Approval,
    /// The person who denied its current version, and the time, in words.
    pub(crate) denied_by: Option<String>,
    /// True if one list had it twice, with two definitions.
    pub(crate) is_contradicted: bool,
    /// The text in which it was last written, to recognise it without parsing; `None` if it is not known.
    written: Option<DigestedText>,
    /// The generation of patterns and neighbours under which it was inspected.
    generation: u64,
    place: Place,
    /// Number of the first list with it; 0 if it is from an earlier run.
    pub(super) born: u64,
    /// The definition that was listed first, if another one is listed now and none was accepted.
    before: Option<Definition>,
    /// The hash of the definition whose change was reported.
    told: Option<Digest>,
    /// The hash with which the tool is registered.
    registered: Option<Digest>,
    /// The latest report of its first and of its later occurrences in a list.
    reports: [Option<SightReport>; 2],
}

/// The content of a report that a definition was listed. A list with the same content is not reported again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SightReport {
    /// The session of the list.
    pub(crate) session: Option<SessionId>,
    /// The hash of the listed definition.
    pub(crate) hash: Digest,
    /// The action of its ruling.
    pub(crate) action: Action,
    /// The rule that decided.
    pub(crate) rule: Option<String>,
    /// The patterns that matched.
    pub(crate) patterns: Vec<(String, Severity)>,
}

/// The length and digest of a parsed text, which itself may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DigestedText {
    length: usize,
    hash: Digest,
}

impl DigestedText {
    fn of(raw: &str) -> Self {
        Self {
            length: raw.len(),
            hash: Digest::of(raw.as_bytes()),
        }
    }

    fn is(&self, raw: &str) -> bool {
        self.length == raw.len() && *self == Self::of(raw)
    }
}

/// In which list a definition stood last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the list; 0 if it is in none.
    pub(super) round: u64,
    /// Number of list changes announced by then.
    pub(super) epoch: u64,
    /// Number of parts that had begun by then.
    pub(super) part: u64,
}

/// The state of the approval of a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Approval {
    /// No person was asked.
    #[default]
    Unasked,
    /// A person is asked.
    Asked,
    /// A person refused, or did not answer and the policy refuses then.
    Refused,
    /// A person did not answer, and silence is consent.
    Waived,
}

/// The relation of a listed definition to the known one.
#[derive(Debug)]
pub(crate) enum Sight {
    /// The definition is listed byte for byte as before.
    Same,
    /// The definition was seen for the first time.
    New,
    /// The definition was parsed and is unchanged.
    Unchanged,
    /// The definition was parsed and differs.
    Changed(Box<Definition>),
    /// The definition occurred already in this list, unchanged.
    Repeated,
    /// The definition occurred already in this list, with another content than this one.
    Contradicted(Box<Definition>),
    /// There is no room for it.
    Refused(DefinitionsFull),
}

impl DefinitionEntry {
    /// Returns the entry of a definition from an earlier run, or from another process.
    pub(super) fn loaded(mut record: DefinitionRecord) -> Self {
        record.share();
        Self {
            record,
            standing: DefinitionStanding::default(),
            approval: Approval::Unasked,
            denied_by: None,
            is_contradicted: false,
            written: None,
            generation: 0,
            place: Place::default(),
            born: 0,
            before: None,
            told: None,
            registered: None,
            reports: [None, None],
        }
    }

    /// Takes what another process recorded of it; what this one saw stays. A pin that the other does not know yet
    /// stays too.
    pub(super) fn merge(&mut self, record: DefinitionRecord) {
        if record.pinned.is_some() {
            self.record.pinned = record.pinned;
            self.record.approved_by = record.approved_by;
            self.record.share();
            self.before = None;
        }
        self.record.first_seen = record.first_seen;
    }

    /// Removes the pin; the next list is judged as the first.
    pub(super) fn forget_pin(&mut self) {
        self.record.pinned = None;
        self.record.approved_by = None;
        self.before = None;
        self.told = None;
        self.approval = Approval::Unasked;
        self.denied_by = None;
        self.written = None;
        self.reports = [None, None];
    }

    /// Returns whether it is known to be unchanged, without parsing it.
    pub(super) fn is_written(&self, raw: &str, generation: u64) -> bool {
        self.generation == generation && self.written.is_some_and(|written| written.is(raw))
    }

    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// Notes that it is in a list.
    pub(super) const fn seen_at(&mut self, place: Place, now: Timestamp) {
        self.place = place;
        self.is_contradicted = false;
        self.record.last_seen = now;
    }

    /// Notes that it is no longer in a list.
    pub(super) const fn gone(&mut self) {
        self.place.round = 0;
        self.registered = None;
    }

    /// Returns whether a person is to be asked about it now.
    pub(crate) fn needs_asking(&self, policy: &Policy) -> bool {
        self.approval == Approval::Unasked && self.standing.needs_approval(policy)
    }

    /// Returns whether this process inspected it.
    pub(super) const fn is_inspected(&self) -> bool {
        self.generation > 0
    }

    /// Returns whether the server lists it, as far as this process saw.
    pub(crate) const fn is_listed(&self) -> bool {
        self.place.round > 0
    }

    /// Handles a second occurrence in one list.
    pub(super) fn repeated(&mut self, raw: RawJson<'_>, generation: u64) -> Sight {
        if self.is_written(raw.as_str(), generation) {
            return Sight::Repeated;
        }
        let other = Definition::of(raw);
        if other.hash == self.record.seen.hash {
            return Sight::Repeated;
        }
        self.is_contradicted = true;
        // Findings in the other definition count for the name too, so the next list is parsed completely.
        self.written = None;
        Sight::Contradicted(Box::new(other))
    }

    /// Remembers the text, to recognise it under `generation`.
    pub(super) fn written(&mut self, raw: &str, generation: u64) {
        self.written = Some(DigestedText::of(raw));
        self.generation = generation;
    }

    /// Replaces the definition. If it returns to its baseline, the next change is reported again, even one that was
    /// reported before.
    pub(super) fn replace(&mut self, definition: Definition) {
        if self.baseline().hash == definition.hash {
            self.told = None;
        }
        let is_other = definition.hash != self.record.seen.hash;
        if is_other {
            self.approval = Approval::Unasked;
            self.denied_by = None;
        }
        let seen = std::mem::replace(&mut self.record.seen, definition);
        if is_other && self.record.pinned.is_none() {
            let before = self.before.take().unwrap_or(seen);
            self.before = (before.hash != self.record.seen.hash).then_some(before);
        }
        self.record.share();
    }

    /// Sets the findings in it.
    pub(crate) fn inspected(&mut self, findings: Vec<Finding>) {
        self.record.findings = findings.into();
    }

    /// Adds the findings in another definition with its name.
    pub(crate) fn also_inspected(&mut self, findings: Vec<Finding>) {
        let mut all = Findings::default();
        all.extend(self.record.findings.iter().cloned().chain(findings));
        self.record.findings = all.into_vec().into();
    }

    /// Judges it by `policy`.
    pub(crate) fn stand(&mut self, now: Timestamp, policy: &Policy) {
        self.standing = DefinitionStanding::of(&self.record, now, policy);
    }

    /// Pins the definition as it is listed.
    pub(crate) fn pin(&mut self, by: Option<&str>) {
        self.before = None;
        self.denied_by = None;
        self.record.pinned = Some(self.record.seen.clone());
        self.record.approved_by = by.map(str::to_owned);
    }

    /// Withdraws the acceptance of the listed definition.
    pub(crate) fn unpin(&mut self) {
        let seen = self.record.seen.hash;
        if self.record.pinned.take_if(|pinned| pinned.hash == seen).is_some() {
            self.record.approved_by = None;
        }
    }

    /// Returns the accepted definition, if another one is listed.
    pub(crate) fn accepted(&self) -> Option<&Definition> {
        let pinned = self.record.pinned.as_ref();
        pinned.filter(|pinned| pinned.hash != self.record.seen.hash)
    }

    /// Returns the definition that was listed first, if another one is listed now and none was accepted. A refused
    /// change does not become the base of the next comparison.
    pub(crate) const fn before(&self) -> Option<&Definition> {
        self.before.as_ref()
    }

    /// Returns the bytes of the other version that is kept besides the listed one.
    pub(super) fn beside(&self) -> usize {
        let other = self.accepted().or_else(|| self.before());
        other.map_or(0, |other| other.canonical.len())
    }

    /// Returns the bytes that will be kept besides `definition` once it is listed, and are not kept yet.
    pub(super) fn left_by(&self, definition: &Definition) -> usize {
        let seen = &self.record.seen;
        match self.beside() {
            0 if seen.hash != definition.hash => seen.canonical.len(),
            _ => 0,
        }
    }

    /// Returns the definition with which it is compared: its pin, or the version listed before.
    pub(super) fn baseline(&self) -> &Definition {
        self.record.pinned.as_ref().unwrap_or(&self.record.seen)
    }

    /// Returns whether the change to the listed definition has not been reported yet, and marks it as reported.
    pub(crate) fn is_untold(&mut self) -> bool {
        let hash = self.record.seen.hash;
        self.told.replace(hash) != Some(hash)
    }

    /// Returns whether `report` repeats the latest one about the same occurrence in a list.
    pub(crate) fn is_reported(&self, sight: &Sight, report: &SightReport) -> bool {
        self.reports[usize::from(sight.is_repetition())].as_ref() == Some(report)
    }

    /// Remembers a report.
    pub(crate) fn reported(&mut self, sight: &Sight, report: SightReport) {
        self.reports[usize::from(sight.is_repetition())] = Some(report);
    }

    /// Returns the digest to register, if it is not registered yet, and marks it as registered.
    pub(super) fn unregistered(&mut self) -> Option<Digest> {
        let hash = self.record.seen.hash;
        let is_due = self.is_listed() && self.registered != Some(hash);
        is_due.then(|| {
            self.registered = Some(hash);
            hash
        })
    }

    /// Removes it from the registry.
    pub(super) const fn unregister(&mut self) {
        self.registered = None;
    }

    /// Returns the findings that are not suppressed.
    pub(crate) fn findings(&self, now: Timestamp, policy: &Policy) -> impl Iterator<Item = &Finding> {
        let DefinitionKey { identity, name, .. } = &self.record.key;
        let found = self.record.findings.iter();
        found.filter(move |finding| !policy.accepts("tool_poisoning", finding, &identity.server, name, now))
    }
}

impl Sight {
    /// Returns whether the definition was read, and so has to be inspected.
    pub(crate) const fn is_read(&self) -> bool {
        match self {
            Self::New | Self::Unchanged | Self::Changed(_) | Self::Contradicted(_) => true,
            Self::Same | Self::Repeated | Self::Refused(_) => false,
        }
    }

    /// Returns whether the definition occurred before in the same list.
    const fn is_repetition(&self) -> bool {
        match self {
            Self::Repeated | Self::Contradicted(_) => true,
            Self::Same | Self::New | Self::Unchanged | Self::Changed(_) | Self::Refused(_) => false,
        }
    }
}
