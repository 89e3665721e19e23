//! Outcomes of messages.

use std::fmt;

use serde::Deserialize;

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The message passes unchanged, without a finding.
    Allow,
    /// The message passes unchanged, and is recorded as notable.
    Audit,
    /// The message passes unchanged, and would be stopped if the policy were enforced.
    Would,
    /// The message passes changed: a secret was taken out, or an ambiguity between parsers was settled.
    Change,
    /// The message is stopped; a waiting sender gets an answer.
    Block,
    /// A call passed, and its result did not come back unchanged.
    Withhold,
    /// Parts of a list are removed.
    Hide,
    /// A server's instructions are removed.
    Strip,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Audit => "audit",
            Self::Would => "would block",
            Self::Change => "change",
            Self::Block => "block",
            Self::Withhold => "withhold",
            Self::Hide => "hide",
            Self::Strip => "strip",
        })
    }
}
