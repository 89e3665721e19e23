//! What becomes of something that is said.

use std::fmt;

use serde::Deserialize;

/// What becomes of something that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It goes on as it is, and nothing is said against it.
    Allow,
    /// It goes on as it is, and is recorded as notable.
    Audit,
    /// It goes on as it is, though it would be stopped if policy were enforced.
    Would,
    /// It goes on, changed: a secret was taken out, or what parsers disagree about was settled.
    Change,
    /// It does not go on; whoever waits for an answer gets one.
    Block,
    /// A call went on, and its result did not come back as it was.
    Withhold,
    /// Some of a list does not go on.
    Hide,
    /// A server's instructions do not go on.
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
