//! The denial in a verdict, where only passing or stopping is possible.

use mcpmon_model::{Denial, Verdict};

use super::LlmFault;

/// Returns the denial, if the message is to be stopped. A verdict that does not fit stops it.
pub(super) fn denial(verdict: Verdict) -> Option<Denial> {
    match verdict {
        Verdict::Allow => None,
        Verdict::Block(denial) => Some(denial),
        Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) | Verdict::Ask(_) => {
            Some(Denial {
                rule: "internal".to_owned(),
                reason: "the decision does not fit what it is about".to_owned(),
                remedy: None,
                event: None,
            })
        }
    }
}

impl From<Denial> for LlmFault {
    fn from(denial: Denial) -> Self {
        Self::Blocked(denial)
    }
}
