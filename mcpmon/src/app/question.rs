//! Trial of a call or a read: all rules are asked, in a Monitor like that of a session, with what the store knows of
//! the server. A trial has no effect.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use mcpmon_config::{LoadedConfiguration, Search, Trust};
use mcpmon_engine::{Monitor, Observation, file_lookups, pins::PinBook};
use mcpmon_model::{
    Call, Content, Conversation, DefinitionKind, DefinitionRecord, Era, FromClient, FromServer, Introduction,
    Kills, Layer, ListKind, ListedItem, Listing, Message, PinKey, RawJson, ServerId, ServerType, Timestamp,
    Trace,
};
use mcpmon_policy::{Decision, Mode, network::table::Tables};
use mcpmon_protocol::decode::json::{LoneSurrogate, MAX_DEPTH, Malformed, Scanner, TextForm, canonical};
use mcpmon_session::files::{self, Lookups};
use mcpmon_store::{QueryError, Selection, StoreReader};

pub use mcpmon_engine::{About, BESIDE, Opinion, guide};

/// The use to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriedUse {
    /// A tool is to be called.
    Call {
        /// The name of the tool.
        tool: String,
        /// The arguments; `None` for a call without arguments.
        arguments: Option<CallArguments>,
    },
    /// A resource is to be read.
    Read {
        /// Its URI.
        uri: String,
    },
}

/// Arguments of a call: a JSON object that every parser understands alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallArguments(String);

/// The reason why a text is not valid arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// The text is not JSON.
    #[error("the arguments are no JSON: line {line}, column {column}: {what}")]
    Malformed {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// The defect.
        what: String,
    },
    /// The value is not an object.
    #[error("the arguments are no JSON object: expected for example {{\"path\":\"/tmp/a\"}}")]
    NoObject,
}

impl CallArguments {
    /// Parses `text` as strictly as messages between a client and a server are parsed.
    ///
    /// # Errors
    /// Returns an error if it is not a JSON object.
    pub fn new(text: &str) -> Result<Self, ArgumentsError> {
        let text = text.trim();
        let mut scanner = Scanner::new(MAX_DEPTH);
        let scan = scanner
            .scan(text.as_bytes(), LoneSurrogate::Refuse)
            .map_err(|error| malformed(text, error))?;
        if !scan.document.root().is_object() {
            return Err(ArgumentsError::NoObject);
        }
        Ok(Self(match scan.form {
            TextForm::Exact => text.to_owned(),
            TextForm::Ambiguous => canonical(scan.document),
        }))
    }
}

fn malformed(text: &str, error: Malformed) -> ArgumentsError {
    let before = String::from_utf8_lossy(&text.as_bytes()[..error.position.min(text.len())]);
    let last = before.rsplit('\n').next().unwrap_or_default();
    ArgumentsError::Malformed {
        line: before.matches('\n').count() + 1,
        column: last.chars().count() + 1,
        what: error.defect.to_string(),
    }
}

/// The store's knowledge of a server.
#[derive(Clone, Debug, Default)]
pub struct KnownServer {
    /// The definitions that it listed for this package and user.
    definitions: Vec<DefinitionRecord>,
    /// The definitions that a person refused, and the person.
    refused: Vec<(mcpmon_model::DefinitionKey, String)>,
    identity: Option<PinKey>,
    /// Number of packages and users with a server of this name.
    identities: usize,
    kills: Kills,
}

impl KnownServer {
    /// Reads what the store knows of `server`: as this user's if there is such a record, else as the one that listed
    /// last.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn of(reader: &StoreReader, server: &ServerId, uid: u32) -> Result<Self, QueryError> {
        let all = reader.definitions(&Selection {
            server: Some(server.as_str().to_owned()),
            ..Selection::default()
        })?;
        let mut latest: BTreeMap<&PinKey, Timestamp> = BTreeMap::new();
        for record in &all {
            let known = latest.entry(&record.key.identity).or_insert(record.last_seen);
            *known = (*known).max(record.last_seen);
        }
        let chosen = latest.iter().max_by_key(|(key, seen)| (key.uid == uid, **seen));
        let identity = chosen.map(|(key, _)| (*key).clone());
        let identities = latest.len();
        let refused = match &identity {
            Some(identity) => reader.refused(identity)?,
            None => Vec::new(),
        };
        let mut definitions = all;
        definitions.retain(|record| Some(&record.key.identity) == identity.as_ref());
        Ok(Self {
            definitions,
            refused,
            identity,
            identities,
            kills: reader.kills()?,
        })
    }
}

/// The outcome of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseOutcome {
    /// The use is allowed.
    Allowed,
    /// The use is allowed, and recorded as notable.
    Audited,
    /// The use is allowed because the policy only observes; in enforce mode a person would be asked.
    WouldAsk,
    /// The use waits for a person's answer.
    Asked,
    /// The use is allowed because the policy only observes; in enforce mode it would be blocked.
    WouldBlock,
    /// The use is blocked.
    Blocked,
}

impl UseOutcome {
    /// The name used in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allow",
            Self::Audited => "audit",
            Self::WouldAsk => "would_ask",
            Self::Asked => "ask",
            Self::WouldBlock => "would_block",
            Self::Blocked => "block",
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct UseReply {
    /// The outcome.
    pub outcome: UseOutcome,
    /// The opinions of all rules that apply, in the order of precedence.
    pub opinions: Vec<Opinion>,
    /// The definition of what is used, as it was listed last; `None` if the store has none.
    pub definition: Option<DefinitionRecord>,
    /// Number of packages and users with a server of this name in the store.
    pub identities: usize,
}

impl UseReply {
    /// Returns the opinion to show with the outcome. This is the opinion that decides; for an audited use it is the
    /// most severe one with the decision `audit`.
    pub fn told(&self) -> Option<&Opinion> {
        let deciding = self.opinions.iter().find(|opinion| opinion.decides);
        if self.outcome != UseOutcome::Audited
            || deciding.is_some_and(|told| told.decision == Decision::Audit)
        {
            return deciding;
        }
        let notes = self.opinions.iter().rev();
        let notes = notes.filter(|opinion| opinion.decision == Decision::Audit);
        // `max_by_key` returns the last of equals, which is the first in the order of precedence.
        notes.max_by_key(|opinion| opinion.severity).or(deciding)
    }
}

/// The places where a session of this process would look for its configuration, its daemon and its store. Protected
/// files are recognised by them.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The configuration.
    pub search: Search,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The store.
    pub db: Option<PathBuf>,
}

/// Asks every rule of `loaded` about one use of `server`. Nothing is recorded, and nothing is run.
///
/// The server's latest lists count as current. Rates and the calls of running sessions are not known.
pub fn ask(
    now: Timestamp,
    loaded: &LoadedConfiguration,
    surroundings: &Surroundings,
    server: &ServerId,
    known: &KnownServer,
    wanted: &TriedUse,
) -> UseReply {
    let conversation = Conversation {
        identity: known.identity.clone().unwrap_or_else(|| PinKey {
            server: server.clone(),
            name: server.as_str().to_owned(),
            uid: nix::unistd::getuid().as_raw(),
        }),
        server_type: ServerType::Stdio,
        session: None,
        layer: Layer::Agent,
    };
    let mut monitor = Monitor::new(Arc::clone(&loaded.policy), &Tables::default(), PinBook::default())
        .with_definitions(known.definitions.clone());
    list(&mut monitor, now, &conversation, &known.definitions);
    for (key, by) in &known.refused {
        // A definition that cannot be refused is unknown, and no question is about it.
        drop(monitor.refuse(now, key, by));
    }
    drop(monitor.stop(known.kills.clone()));
    monitor.know_places(files::places(&mcpmon_session::Options {
        search: surroundings.search.clone(),
        trust: Trust::Anyone,
        socket: Some(surroundings.socket.clone()),
        db: surroundings.db.clone(),
        conversation: conversation.clone(),
        agent: None,
        loaded: None,
    }));
    let opinions = opinions(&mut monitor, now, &conversation, wanted);
    UseReply {
        outcome: outcome(loaded.policy.mode, &opinions),
        opinions,
        definition: known
            .definitions
            .iter()
            .find(|record| is_used(record, wanted))
            .cloned(),
        identities: known.identities,
    }
}

/// Shows the monitor the server's latest lists. Definitions whose text the store does not have stay as they are known.
fn list(monitor: &mut Monitor, now: Timestamp, conversation: &Conversation, known: &[DefinitionRecord]) {
    let texts = |kind: DefinitionKind| {
        let of_kind = known.iter().filter(move |record| record.key.kind == kind);
        of_kind.filter(|record| !record.seen.canonical.is_empty())
    };
    let mut say = |said: FromServer<'_>| {
        let message = message(Content::Server(said));
        // No client receives the verdict.
        drop(monitor.observe(now, Observation::Message(conversation, &message, Vec::new())));
    };
    let result = RawJson::trusted("{}");
    for record in texts(DefinitionKind::Instructions) {
        say(FromServer::Introduction(Introduction {
            instructions: RawJson::trusted(&record.seen.canonical).text(),
            name: None,
            result,
        }));
    }
    for kind in [
        ListKind::Tools,
        ListKind::Prompts,
        ListKind::Resources,
        ListKind::Templates,
        ListKind::Skills,
    ] {
        let items = texts(DefinitionKind::from(kind)).map(|record| ListedItem {
            name: record.key.name.as_str().into(),
            definition: RawJson::trusted(&record.seen.canonical),
        });
        let items: Vec<ListedItem<'_>> = items.collect();
        if !items.is_empty() {
            say(FromServer::Listing(Listing {
                kind,
                items,
                continued: false,
                more: false,
                is_part: false,
                result,
                again: None,
            }));
        }
    }
}

fn opinions(
    monitor: &mut Monitor,
    now: Timestamp,
    conversation: &Conversation,
    wanted: &TriedUse,
) -> Vec<Opinion> {
    let mut lookups = Lookups::default();
    match wanted {
        TriedUse::Call { tool, arguments } => {
            let call = Call {
                tool: tool.as_str().into(),
                arguments: arguments
                    .as_ref()
                    .map(|CallArguments(text)| RawJson::trusted(text)),
                resumes: None,
            };
            let said = message(Content::Client(FromClient::Call(call.clone())));
            monitor.explain(now, conversation, &call, lookups.real(file_lookups(&said)))
        }
        TriedUse::Read { uri } => {
            let said = message(Content::Client(FromClient::Read {
                uri: uri.as_str().into(),
            }));
            monitor.explain_read(now, conversation, uri, lookups.real(file_lookups(&said)))
        }
    }
}

fn message(content: Content<'_>) -> Message<'_> {
    Message {
        era: Era::default(),
        id: None,
        trace: Trace::default(),
        size: 0,
        content,
    }
}

fn outcome(mode: Mode, opinions: &[Opinion]) -> UseOutcome {
    let Some(deciding) = opinions.iter().find(|opinion| opinion.decides) else {
        return UseOutcome::Allowed;
    };
    match (deciding.decision, mode) {
        // A kill switch stops uses in observe mode too.
        (Decision::Block, Mode::Observe) if deciding.rule != "kill_switch" => UseOutcome::WouldBlock,
        (Decision::Block, _) => UseOutcome::Blocked,
        (Decision::Ask, Mode::Observe) => UseOutcome::WouldAsk,
        (Decision::Ask, Mode::Enforce) => UseOutcome::Asked,
        // A rule that allows a use does not cancel the record that another rule wants.
        (Decision::Audit | Decision::Allow, _) => {
            let is_noted = opinions.iter().any(|opinion| opinion.decision == Decision::Audit);
            if is_noted {
                UseOutcome::Audited
            } else {
                UseOutcome::Allowed
            }
        }
    }
}

fn is_used(record: &DefinitionRecord, wanted: &TriedUse) -> bool {
    match wanted {
        TriedUse::Call { tool, .. } => record.key.kind == DefinitionKind::Tool && record.key.name == *tool,
        TriedUse::Read { uri } => record.key.kind == DefinitionKind::Resource && record.key.name == *uri,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("{\"a\":1}" => Ok("{\"a\":1}".to_owned()); "an object")]
    #[test_case(" {}\n" => Ok("{}".to_owned()); "with white space around")]
    #[test_case("{\"a\":1,\"a\":2}" => Ok("{\"a\":2}".to_owned()); "a name twice, as the server would get it")]
    #[test_case("{\"a\": 1,\n \"é\": }" => Err("the arguments are no JSON: line 2, column 7: unexpected byte 0x7d".to_owned()); "a value is missing")]
    #[test_case("{\"a\"" => Err("the arguments are no JSON: line 1, column 5: unexpected end".to_owned()); "cut off")]
    #[test_case("" => Err("the arguments are no JSON: line 1, column 1: unexpected end".to_owned()); "nothing")]
    #[test_case("[1]" => Err("the arguments are no JSON object: expected for example {\"path\":\"/tmp/a\"}".to_owned()); "an array")]
    fn arguments(text: &str) -> Result<String, String> {
        CallArguments::new(text)
            .map(|arguments| arguments.0)
            .map_err(|error| error.to_string())
    }
}
