//! What a verdict on a call comes to.

use crate::model::{Denial, Verdict};

/// Why a call does not go on, if it does not. A verdict that fits no call stops it.
pub(super) fn denial(verdict: Verdict) -> Option<Denial> {
    match verdict {
        Verdict::Allow => None,
        Verdict::Block(denial) => Some(denial),
        Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) => Some(Denial {
            rule: "internal".to_owned(),
            reason: "the decision does not fit the call".to_owned(),
            remedy: None,
        }),
    }
}
