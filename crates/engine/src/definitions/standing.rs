//! Standing of a definition: its relation to its pin, and its findings.

use mcpmon_model::{DefinitionRecord, Severity, Timestamp};
use mcpmon_policy::{FirstUse, KnownStanding, OnChange, OnDetection, Policy};

use crate::skills;

/// The standing of a definition under a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefinitionStanding {
    /// Against its pin.
    pub(crate) pin: PinStanding,
    /// The most severe finding in it that is neither suppressed nor approved: its severity and its index.
    pub(crate) danger: Option<(Severity, usize)>,
}

/// The relation of a definition to its pin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PinStanding {
    /// Definitions are not compared with pins.
    #[default]
    Off,
    /// The definition equals its pin.
    Match,
    /// There is no pin, and the policy needs none.
    New,
    /// There is no pin, and the policy trusts nothing without one.
    Unpinned,
    /// The definition differs from its pin.
    Changed,
    /// The policy knows the definition to be good.
    Known {
        /// True if that is its pin.
        is_pinned: bool,
    },
    /// The policy knows other definitions of the name only.
    Other,
}

impl DefinitionStanding {
    /// Returns the standing of `record` at `now`.
    pub(crate) fn of(record: &DefinitionRecord, now: Timestamp, policy: &Policy) -> Self {
        let pin = PinStanding::of(record, policy);
        let is_approved = record.approved_by.is_some()
            && record
                .pinned
                .as_ref()
                .is_some_and(|pinned| pinned.hash == record.seen.hash);
        let is_known = matches!(pin, PinStanding::Known { .. });
        let danger = if is_approved || is_known {
            None
        } else {
            danger(record, now, policy)
        };
        Self { pin, danger }
    }

    /// Returns whether the whole server is refused because of the definition.
    pub(crate) fn refuses_server(self, policy: &Policy) -> bool {
        let is_bad = self
            .danger
            .is_some_and(|(severity, _)| severity >= policy.inspection.act_threshold);
        is_bad && policy.inspection.on_detection == OnDetection::Block
    }

    /// Returns whether a person has to approve the definition first; never if findings are only reported.
    pub(crate) fn needs_approval(self, policy: &Policy) -> bool {
        let is_bad = self
            .danger
            .is_some_and(|(severity, _)| severity >= policy.approvals.required_for);
        is_bad && policy.inspection.on_detection != OnDetection::Alert
    }
}

impl PinStanding {
    fn of(record: &DefinitionRecord, policy: &Policy) -> Self {
        let pinning = policy.definition_pinning;
        let key = &record.key;
        let known = policy
            .known
            .standing(&key.identity.server, key.kind, &key.name, record.seen.hash);
        match &record.pinned {
            _ if !pinning.enabled => Self::Off,
            pinned if known == KnownStanding::Good => Self::Known {
                is_pinned: pinned
                    .as_ref()
                    .is_some_and(|pinned| pinned.hash == record.seen.hash),
            },
            _ if known == KnownStanding::Other => Self::Other,
            Some(pinned) if pinned.hash == record.seen.hash => Self::Match,
            Some(_) => Self::Changed,
            // Only the name of a dynamic skill is known.
            None if pinning.auto_trust_first && !skills::is_dynamic(record) => Self::New,
            None => Self::Unpinned,
        }
    }

    /// Returns whether the definition is pinned now, as it is seen.
    pub(crate) fn pins(self, policy: &Policy) -> bool {
        matches!(self, Self::New | Self::Known { is_pinned: false }) && policy.first_use == FirstUse::Pin
    }

    /// Returns the effect of the difference.
    pub(crate) const fn effect(self, policy: &Policy) -> OnChange {
        match self {
            Self::Off | Self::Match | Self::New | Self::Known { .. } => OnChange::Allow,
            Self::Unpinned | Self::Changed | Self::Other => policy.definition_pinning.on_change,
        }
    }
}

fn danger(record: &DefinitionRecord, now: Timestamp, policy: &Policy) -> Option<(Severity, usize)> {
    let server = &record.key.identity.server;
    let open = record
        .findings
        .iter()
        .enumerate()
        .filter(|(_, finding)| !policy.accepts("tool_poisoning", finding, server, &record.key.name, now));
    // Of several findings with the same severity the first counts.
    open.map(|(index, finding)| (finding.severity, index))
        .max_by_key(|(severity, index)| (*severity, std::cmp::Reverse(*index)))
}
