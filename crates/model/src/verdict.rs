//! Verdicts: the decision about a message.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::EventId;

/// The decision about a message. The module `rewrite` of the protocol crate defines how a layer carries it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The message passes unchanged.
    #[default]
    Allow,
    /// A listing passes without the items at these positions, ascending.
    Hide(Vec<usize>),
    /// An introduction passes without its instructions.
    StripInstructions,
    /// A message passes with these parts replaced, ascending: of the arguments of a call or a prompt, of the parameters
    /// of another request, of the body of a reply, or of the result or error in a server's answer.
    Redact(Vec<Redaction>),
    /// A call is held until a person answers the question with this id, and is then judged again.
    Ask(String),
    /// The message is stopped; a waiting sender gets a valid answer that gives the reason.
    Block(Denial),
}

/// A part of a JSON text, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redaction {
    /// The range in the text.
    pub place: Range<usize>,
    /// The replacement: text that needs no escaping in JSON.
    pub text: String,
}

/// Returns `text` with its parts replaced; they are ascending and do not overlap. Parts that do not fit the text are
/// skipped.
pub fn redacted(text: &str, redactions: &[Redaction]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for redaction in redactions {
        if let Some(before) = text.get(done..redaction.place.start)
            && text.is_char_boundary(redaction.place.end)
        {
            out.push_str(before);
            out.push_str(&redaction.text);
            done = redaction.place.end;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// The text that replaces a secret in reports.
pub const MASK: &str = "***";

/// The reason for stopping something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The rule that decided, by its configured or built-in name.
    pub rule: String,
    /// The reason, as a sentence without a full stop.
    pub reason: String,
    /// A remedy for a person: a command, or a change of the policy. It is never sent to a client, because its model
    /// would read it.
    pub remedy: Option<String>,
    /// The recorded event; its id distinguishes a refusal from a text that imitates one.
    pub event: Option<EventId>,
}

impl Denial {
    /// The rule of a denial that no policy made: a fault of mcpmon, or of the server's start.
    pub const FAULT: &'static str = "mcpmon.fault";

    /// Returns whether a fault is the cause, and no rule of the policy.
    pub fn is_fault(&self) -> bool {
        self.rule == Self::FAULT
    }

    /// Returns whether a secret was left out of the reason; the text of the answer must then not repeat the secret.
    pub fn is_masked(&self) -> bool {
        self.reason.contains(MASK)
    }
}
