//! Severity of an event, and the action taken.

use serde::{Deserialize, Serialize};

/// Severity of an event, ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Ordinary activity.
    #[default]
    Info,
    /// Worth a look in hindsight.
    Low,
    /// Worth a look.
    Medium,
    /// Probably an attack, or a loss of protection.
    High,
    /// An attack that was stopped, or one that may have succeeded.
    Critical,
}

/// The action taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing stood against it.
    #[default]
    Allow,
    /// Let through and recorded as notable.
    Audit,
    /// Would have waited for a person's answer, were enforcement on.
    WouldAsk,
    /// Would have been stopped, were enforcement on.
    WouldBlock,
    /// Stopped.
    Block,
}

impl Severity {
    /// Returns the name used in configuration, events and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl Action {
    /// Returns the name used in configuration, events and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Audit => "audit",
            Self::WouldAsk => "would_ask",
            Self::WouldBlock => "would_block",
            Self::Block => "block",
        }
    }
}
