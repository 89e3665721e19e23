//! Calls to several servers of one session: the records of them, and the matches of rules over them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Action, CallOrigin, ServerId, Timestamp};

/// The effect of a tool, as far as rules over several servers look at it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ToolCategory {
    /// The effect is unknown.
    #[default]
    Unknown,
    /// Gets something.
    Read,
    /// Changes something.
    Write,
    /// Runs something.
    Compute,
    /// Lets something out.
    Send,
}

/// The reason why data that a call read is sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SensitivityLabel {
    /// A secret is in the result.
    Secret,
    /// The arguments name a file that holds secrets.
    SensitivePath,
    /// The name of the tool shows that it returns secrets.
    SecretTool,
    /// The result was not inspected, because too much arrived at once.
    Unread,
}

/// Hashes of parts of a text: they suffice to find a part of it again, and do not reveal it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(Box<[u32]>);

/// The base-64 digits; each encodes six bits of a hash.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
/// Digits of one hash.
const WIDTH: usize = 6;

impl Fingerprint {
    /// Most hashes of one text. Of a text with more, only some are kept.
    pub const MAX: usize = 4096;

    /// Returns the fingerprint of hashes in any order, with duplicates.
    pub fn new(mut hashes: Vec<u32>) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes.into())
    }

    /// Returns the number of hashes.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no hash, because the text was too short.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of hashes that both have.
    pub fn shared(&self, other: &Self) -> usize {
        let (few, many) = match self.len() <= other.len() {
            true => (self, other),
            false => (other, self),
        };
        let is_shared = |hash: &&u32| many.0.binary_search(hash).is_ok();
        few.0.iter().filter(is_shared).count()
    }
}

impl Serialize for Fingerprint {
    /// Writes one text with six digits for each hash, because there are thousands of them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.len() * WIDTH);
        for hash in &self.0 {
            let mut rest = *hash;
            for _ in 0..WIDTH {
                text.push(char::from(DIGITS[(rest & 63) as usize]));
                rest >>= 6;
            }
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let value = |digit: &u8| match digit {
            b'0'..=b'9' => Some(u32::from(digit - b'0')),
            b'A'..=b'Z' => Some(u32::from(digit - b'A') + 10),
            b'a'..=b'z' => Some(u32::from(digit - b'a') + 36),
            b'-' => Some(62),
            b'_' => Some(63),
            _ => None,
        };
        let hash = |digits: &[u8; WIDTH]| {
            let mut digits = digits.iter().rev();
            digits.try_fold(0_u32, |hash, digit| Some((hash << 6) | value(digit)?))
        };
        let (chunks, rest) = text.as_bytes().as_chunks::<WIDTH>();
        let hashes: Option<Vec<u32>> = chunks.iter().map(hash).collect();
        match hashes.filter(|hashes| rest.is_empty() && hashes.len() <= Self::MAX) {
            Some(hashes) => Ok(Self::new(hashes)),
            None => Err(de::Error::custom("no fingerprint")),
        }
    }
}

/// A call for which the holder of the session's calls is asked whether it may be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCall {
    /// The time of the call.
    pub at: Timestamp,
    /// The server.
    pub server: ServerId,
    /// The tool.
    pub tool: String,
    /// The effect of the tool.
    pub category: ToolCategory,
    /// Id of the request, as text.
    pub request: Option<Box<str>>,
    /// The model's id of the call, if the client sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Box<str>>,
    /// The turn of the model that asks for the call, if the reporting layer knows it. If it does not, the holder of the
    /// session's calls may know a [`RecentIntent`] for it; otherwise turns are distinguished by time.
    pub turn: Option<Box<str>>,
    /// Reasons why its data is sensitive.
    pub labels: Vec<SensitivityLabel>,
    /// The fingerprint of its arguments.
    pub arguments: Fingerprint,
    /// True if it resumes a call that was counted already.
    pub resumes: bool,
    /// True if the session has several servers, so that rules over them apply.
    pub several: bool,
}

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recent {
    /// A call was judged.
    Call(RecentCall),
    /// A result went to the client.
    Output(RecentOutput),
    /// A model wants a call.
    Intent(RecentIntent),
}

/// A call that a model wants, and that another layer sees once it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentIntent {
    /// The time of the intent.
    pub at: Timestamp,
    /// The server.
    pub server: ServerId,
    /// The tool.
    pub tool: String,
    /// The model's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Box<str>>,
    /// The turn of the model that wants it.
    pub turn: Box<str>,
    /// The place where its calls are made, if not by the model: the model wants its own code run, and names no tool of
    /// a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<CallOrigin>,
}

/// A call that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentCall {
    /// The time of the call.
    pub at: Timestamp,
    /// The server.
    pub server: ServerId,
    /// The tool.
    pub tool: String,
    /// The effect of the tool.
    pub category: ToolCategory,
    /// Id of the request, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<str>>,
    /// The turn of the model that asked for it, if a layer knew the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Box<str>>,
    /// The place where it was made, if not by the model itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<CallOrigin>,
    /// The action taken on the call.
    pub action: Action,
    /// Reasons why its data is sensitive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<SensitivityLabel>,
    /// Thousandths of a call that were left in the server's bucket afterwards; `None` if the call used no bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
}

/// A result that went to the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentOutput {
    /// The time of the output.
    pub at: Timestamp,
    /// The server.
    pub server: ServerId,
    /// The tool, or the resource.
    pub tool: String,
    /// Reasons why its data is sensitive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<SensitivityLabel>,
    /// The fingerprint of its text.
    #[serde(default, skip_serializing_if = "Fingerprint::is_empty")]
    pub print: Fingerprint,
}

/// Longest name of a tool, or id, that is kept, bytes.
const MAX_NAME: usize = 4096;
/// Most labels of one call or result that are kept.
const MAX_LABELS: usize = 8;

impl SharedCall {
    /// Returns whether the call is no larger than those that this program creates: a holder of the calls of other
    /// processes keeps no larger ones.
    pub fn is_bounded(&self) -> bool {
        let ids = [&self.request, &self.tool_call, &self.turn];
        are_bounded(&self.tool, ids.into_iter().flatten(), &self.labels)
    }
}

fn are_bounded<'a>(
    tool: &str,
    ids: impl IntoIterator<Item = &'a Box<str>>,
    labels: &[SensitivityLabel],
) -> bool {
    let mut ids = ids.into_iter();
    tool.len() <= MAX_NAME && ids.all(|id| id.len() <= MAX_NAME) && labels.len() <= MAX_LABELS
}

impl Recent {
    /// Returns whether it is no larger than those that this program creates: a holder of the calls of other processes
    /// keeps no larger ones.
    pub fn is_bounded(&self) -> bool {
        match self {
            Self::Call(call) => {
                let ids = [&call.request, &call.turn].into_iter().flatten();
                are_bounded(&call.tool, ids, &call.labels)
            }
            Self::Output(output) => are_bounded(&output.tool, [], &output.labels),
            Self::Intent(intent) => {
                let ids = intent.tool_call.iter().chain([&intent.turn]);
                are_bounded(&intent.tool, ids, &[])
            }
        }
    }

    /// Returns its time.
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Call(call) => call.at,
            Self::Output(output) => output.at,
            Self::Intent(intent) => intent.at,
        }
    }

    /// Returns the same with a time of at most `now`, because a time in the future is wrong.
    #[must_use]
    pub fn not_after(mut self, now: Timestamp) -> Self {
        let at = match &mut self {
            Self::Call(call) => &mut call.at,
            Self::Output(output) => &mut output.at,
            Self::Intent(intent) => &mut intent.at,
        };
        *at = now.min(*at);
        self
    }

    /// Returns the server that it belongs to.
    pub const fn server(&self) -> &ServerId {
        match self {
            Self::Call(call) => &call.server,
            Self::Output(output) => &output.server,
            Self::Intent(intent) => &intent.server,
        }
    }
}

/// A rule over the calls to several servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossServerRule {
    /// A tool bears the name of another server's.
    ShadowTool,
    /// Many calls in a short time.
    Burst,
    /// Something is sent after another server was read.
    ReadThenSend,
    /// Something is changed or sent in the turn in which another server was read.
    CrossServerFlow,
}

impl CrossServerRule {
    /// Returns the name used in configuration, events and suppressions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ShadowTool => "shadow_tool",
            Self::Burst => "burst",
            Self::ReadThenSend => "read_then_send",
            Self::CrossServerFlow => "cross_server_flow",
        }
    }
}

/// An earlier call, as events show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelatedCall {
    /// The time of the call.
    pub timestamp: Timestamp,
    /// The server.
    pub server_id: ServerId,
    /// The tool.
    pub tool_name: String,
    /// Id of the request, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Box<str>>,
    /// The action taken on the call.
    pub action: Action,
    /// The effect of the tool.
    pub category: ToolCategory,
}

/// Evidence that a match is more than a coincidence. It has the kind and the amount, never the data itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The kind of evidence.
    pub kind: EvidenceKind,
    /// The server that was read.
    pub server_id: ServerId,
    /// The tool that read it.
    pub tool_name: String,
    /// The number of text stretches found again; 1 for every other kind.
    pub count: u32,
}

/// The kinds of evidence for a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// A secret is in what was read.
    Secret,
    /// A file that holds secrets was read.
    SensitivePath,
    /// A tool that returns secrets was called.
    SecretTool,
    /// A part of what was read is in the arguments.
    Overlap,
    /// An earlier result was not inspected, because too much arrived at once.
    Unread,
}

impl EvidenceKind {
    /// Describes what the earlier call did, as the predicate of a sentence whose subject is its tool.
    pub const fn predicate(self) -> &'static str {
        match self {
            Self::Secret => "returned a secret",
            Self::SensitivePath => "read a file that holds secrets",
            Self::SecretTool => "was asked for a secret",
            Self::Overlap => "returned text that is in the arguments now",
            Self::Unread => "returned more than could be inspected in time",
        }
    }
}

impl From<SensitivityLabel> for EvidenceKind {
    fn from(label: SensitivityLabel) -> Self {
        match label {
            SensitivityLabel::Secret => Self::Secret,
            SensitivityLabel::SensitivePath => Self::SensitivePath,
            SensitivityLabel::SecretTool => Self::SecretTool,
            SensitivityLabel::Unread => Self::Unread,
        }
    }
}

/// A rule that matches a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossServerMatch {
    /// The rule.
    pub rule: CrossServerRule,
    /// True if the match stops the call.
    pub blocks: bool,
    /// The reason, as a sentence without a full stop.
    pub reason: String,
    /// The calls that the match rests on, latest first.
    pub related: Vec<RelatedCall>,
    /// The evidence for it.
    pub evidence: Vec<Evidence>,
}

/// The answer to a [`SharedCall`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCallAnswer {
    /// The rules that match, in the order of their precedence.
    pub crossings: Vec<CrossServerMatch>,
    /// The reason why the server's rate limit refuses the call, if it does.
    pub over_rate: Option<String>,
    /// The place where the call was made, if not by the model itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<CallOrigin>,
}

impl SharedCallAnswer {
    /// Returns whether the call is stopped.
    pub fn blocks(&self) -> bool {
        self.over_rate.is_some() || self.crossings.iter().any(|crossing| crossing.blocks)
    }

    /// Combines two answers: a rule that matches in both is reported once, by the match that stops the call.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for crossing in other.crossings {
            match self
                .crossings
                .iter_mut()
                .find(|known| known.rule == crossing.rule)
            {
                Some(known) if crossing.blocks && !known.blocks => *known = crossing,
                Some(_) => {}
                None => self.crossings.push(crossing),
            }
        }
        self.over_rate = self.over_rate.or(other.over_rate);
        self.origin = self.origin.or(other.origin);
        self
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test]
    fn hashes_are_shared_whichever_is_longer() {
        let few = Fingerprint::new(vec![9, 1, 5, 5]);
        let many = Fingerprint::new(vec![1, 2, 3, 5, 8, 13]);
        assert_eq!((few.len(), many.len()), (3, 6));
        assert_eq!((few.shared(&many), many.shared(&few)), (2, 2));
        assert_eq!(few.shared(&Fingerprint::default()), 0);
    }

    #[test_case(vec![] => "\"\""; "none")]
    #[test_case(vec![0, 63, u32::MAX] => "\"000000_00000_____3\""; "the least and the most")]
    fn a_fingerprint_is_one_text(hashes: Vec<u32>) -> String {
        let print = Fingerprint::new(hashes);
        let json = serde_json::to_string(&print).expect("plain");
        assert_eq!(
            serde_json::from_str::<Fingerprint>(&json).expect("as written"),
            print
        );
        json
    }

    #[test_case("\"0000\""; "cut off")]
    #[test_case("\"00000+\""; "no digit")]
    #[test_case(&format!("\"{}\"", "0".repeat(6 * 4097)); "too many")]
    #[test_case("[1]"; "no text")]
    fn what_is_no_fingerprint_is_refused(json: &str) {
        serde_json::from_str::<Fingerprint>(json).expect_err("it is none");
    }
}
