//! Calls that are held until a person answers, and the answers.

use serde::{Deserialize, Serialize};

use super::{Digest, PinKey, SessionId, Timestamp};

/// Digits of the id of a held call.
const ID_DIGITS: usize = 12;

/// A call that is held until a person answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCall {
    /// Hexadecimal digits by which a person refers to it.
    pub id: String,
    /// The server.
    pub identity: PinKey,
    /// The agent's session, if known.
    pub session: Option<SessionId>,
    /// The tool, as the server knows it.
    pub tool: String,
    /// The complete arguments in canonical form, with secrets replaced.
    pub arguments: String,
    /// Digest of the canonical arguments that the server would get. The answer applies to these.
    pub arguments_hash: Digest,
    /// The first rule that asks.
    pub rule: String,
    /// The other rules that ask.
    #[serde(default)]
    pub other_rules: Vec<String>,
    /// The reasons of these rules, without a full stop.
    pub reason: String,
    /// The time at which the call was held.
    pub since: Timestamp,
    /// The time at which the client stops waiting for an answer.
    pub expires: Timestamp,
}

impl HeldCall {
    /// Returns the id of a call with these parts: the conversation, the request and the time make it unique.
    pub fn id_of(parts: &[&str], arguments_hash: &Digest, since: Timestamp) -> String {
        let mut text = parts.join("\0");
        text.push_str(&format!("\0{arguments_hash}\0{}", since.0));
        Digest::of(text.as_bytes()).short(ID_DIGITS)
    }

    /// Returns whether the wait is over at `now`: its time ran out, or the clock was set back by more than that.
    pub const fn is_late(&self, now: Timestamp) -> bool {
        let patience = self.expires.0.saturating_sub(self.since.0);
        now.0 >= self.expires.0 || self.since.0.saturating_sub(now.0) > patience
    }

    /// Returns the rules that ask about it.
    pub fn rules(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.rule).chain(&self.other_rules)
    }

    /// Returns the subject of the events about it.
    pub fn subject(&self) -> String {
        format!("{}:{}", self.identity.server, self.tool)
    }
}

/// A person's answer to a held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    /// This call is made.
    Once,
    /// This call is made, and so are later ones of the same tool in the same session that the same rules ask about.
    Session,
    /// The call is refused.
    Deny,
}

/// A held call that a person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredCall {
    /// The id of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The rules that asked. An answer for the session answers no others.
    pub rules: Vec<String>,
    /// The answer.
    pub answer: CallAnswer,
    /// The person.
    pub by: String,
}
