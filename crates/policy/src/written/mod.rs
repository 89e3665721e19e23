//! Values as a configuration file has them: texts in a format of their own, durations, sizes, ports, URLs, severities.
//!
//! Knows how they are written and described in the schema, and nothing of the keys that have them.

mod format;
mod section;
mod units;
mod url;

use mcpmon_model::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    format::{Format, Text},
    section::{SectionKeys, read_section},
    units::{Lapse, Port, QuantityError, Size},
    url::{HttpUrl, HttpUrlError},
};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth a look in hindsight.
    Low,
    /// Worth a look.
    Medium,
    /// Probably an attack.
    #[default]
    High,
    /// An attack.
    Critical,
}

impl Level {
    /// Returns the severity.
    pub const fn severity(self) -> Severity {
        match self {
            Self::Low => Severity::Low,
            Self::Medium => Severity::Medium,
            Self::High => Severity::High,
            Self::Critical => Severity::Critical,
        }
    }
}
