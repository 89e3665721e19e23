//! Inspection of call arguments: what is searched for, and what a finding does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Inspection of arguments: secrets and encoded blobs in values and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArgumentInspection {
    /// True if arguments are inspected.
    pub enabled: bool,
    /// The effect of a finding.
    pub on_detection: OnSecret,
}

impl Default for ArgumentInspection {
    fn default() -> Self {
        Self {
            enabled: true,
            on_detection: OnSecret::Block,
        }
    }
}

impl ArgumentInspection {
    /// Combines two sections by the stricter settings.
    pub(super) const fn tightened_by(self, other: Self) -> Self {
        match (self.enabled, other.enabled) {
            (true, true) => Self {
                enabled: true,
                on_detection: self.on_detection.stricter(other.on_detection),
            },
            (false, true) => other,
            (_, false) => self,
        }
    }
}

/// The effect of a secret in an argument or in a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnSecret {
    /// The secret is reported.
    Alert,
    /// The message is stopped: the call, or the result.
    #[default]
    Block,
    /// The message passes, with a placeholder in place of the secret.
    Redact,
}

impl OnSecret {
    /// Returns the stricter of the two.
    #[must_use]
    pub const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Block, _) | (_, Self::Block) => Self::Block,
            (Self::Redact, _) | (_, Self::Redact) => Self::Redact,
            (Self::Alert, Self::Alert) => Self::Alert,
        }
    }
}
