//! Observations of every layer, and their dispatch by the monitor.

use std::path::PathBuf;

use mcpmon_detect::protected_paths::{Places, RealPath};
use mcpmon_model::{
    AnsweredCall, Call, ClosedConnection, Connection, Conversation, CutOutcome, DefinitionKey,
    DefinitionRecord, DerivedId, Exchange, Exec, Exit, Fork, HaltedExchange, Incident, InstanceId,
    LlmMention, Message, OpenConnection, PinKey, ProcessId, Redaction, RefusedStart, Resume, ServerId,
    SessionId, Timestamp,
};
use mcpmon_policy::network::table::Tables;

use super::{Monitor, orphans::ServerClient, proxied::ProxiedSession};
use crate::{
    effect::{ConnectionCut, Judgement, SharedOutcome, SharedQuestion},
    own_names::OwnNames,
    pins::ServerFiles,
    registry::Registry,
    rules::Opinion,
    traffic::{NotSeen, SessionPeers, Tally, Traffic},
};

/// An observation: what a layer reports.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A message of one side of a conversation. The paths are those of [`file_lookups`] with their links resolved.
    ///
    /// [`file_lookups`]: crate::file_lookups
    Message(&'a Conversation, &'a Message<'a>, Vec<RealPath>),
    /// Bytes that were no message, or a message that may not pass.
    Incident(&'a Conversation, &'a Incident),
    /// The answer to the question in the judgement of a message.
    Shared(
        &'a Conversation,
        &'a Message<'a>,
        Box<SharedQuestion>,
        SharedOutcome,
    ),
    /// A conversation belongs to a session with these peers.
    Joined(&'a Conversation, SessionPeers<'a>),
    /// A conversation has ended.
    Left(&'a Conversation),
    /// A fact about tools in an exchange between an agent and a model. The verdict on offered or listed tools may leave
    /// some out; the verdict on anything else allows or blocks.
    Llm(&'a Exchange, &'a LlmMention<'a>),
    /// The answer to the question in the judgement of a model's intent, or of a provider's call.
    LlmShared(
        &'a Exchange,
        &'a LlmMention<'a>,
        Box<SharedQuestion>,
        SharedOutcome,
    ),
    /// A request to a model was read completely, and these secrets were found in it ([`Monitor::redact_text`]).
    Redacted(&'a Exchange, &'a Tally),
    /// A request to a model, or its answer, was stopped.
    Halted(&'a Exchange, &'a HaltedExchange),
    /// A program was started.
    Exec(&'a Exec),
    /// A process of a server, or one that is not judged yet, forked.
    Fork(Fork),
    /// A process of a server ended.
    Exit(Exit),
    /// A start was refused by the digest of its program.
    RefusedStart(&'a RefusedStart),
    /// A process other than the daemon resumed a stopped process.
    Resumed(&'a Resume),
    /// The daemon is about to end: stopped processes will not be compared any more.
    Ending,
    /// A process was found to have ended, of a server or not.
    Gone(ProcessId),
    /// The wrapper received the first message of its server: one of the candidates is the server, and need not live for
    /// some time to be recognised.
    Spoke(ProcessId),
    /// This client, which was alive then, started a running server.
    StartedBy(InstanceId, ServerClient),
    /// A session has ended, as the program that ran it reports.
    SessionOver(SessionId),
    /// A running server belongs to a session: stopping either of them stops both.
    SessionOf(InstanceId, SessionId),
    /// A session has a proxy, and these processes belong to it, with all that they start.
    Proxied(ProxiedSession, Vec<ProcessId>),
    /// A connection was requested.
    Connection(&'a Connection),
    /// These connections are open while these tables are in force.
    OpenConnections(&'a Tables, &'a [OpenConnection]),
    /// These connections were to be cut, with the outcomes.
    Cut(&'a [(ConnectionCut, CutOutcome)]),
    /// A process of a server closed a connection.
    Closed(&'a ClosedConnection),
    /// The files of a serving process were hashed.
    Hashed {
        /// Its server.
        instance: InstanceId,
        /// The number of the order to hash.
        attempt: u64,
        /// The hashed files.
        files: Box<ServerFiles>,
        /// Names of its variables, never their values.
        environment: Vec<String>,
    },
    /// Code of a server was replaced or written after it was hashed, even if its content is the same now.
    Touched {
        /// Its server.
        instance: InstanceId,
        /// The number of the order to hash.
        attempt: u64,
        /// The path of the code; `None` if only the times of its files show that some of it may have changed.
        path: Option<PathBuf>,
    },
    /// Time passed.
    Tick,
}

impl Monitor {
    /// Judges an observation.
    pub fn observe(&mut self, now: Timestamp, observation: Observation<'_>) -> Judgement {
        self.traffic.adopt(now, &self.policy);
        match observation {
            Observation::Message(conversation, message, real_paths) => {
                self.traffic.message(now, conversation, message, real_paths)
            }
            Observation::Incident(conversation, incident) => {
                self.traffic.incident(now, conversation, incident)
            }
            Observation::Shared(conversation, message, ask, shared) => {
                self.traffic.answered(now, conversation, message, *ask, shared)
            }
            Observation::Joined(conversation, company) => self.traffic.joined(now, conversation, company),
            Observation::Left(conversation) => self.traffic.left(now, conversation),
            Observation::Llm(exchange, said) => self.traffic.spoken(now, exchange, said),
            Observation::LlmShared(exchange, said, ask, shared) => {
                self.traffic.spoken_answered(now, exchange, said, *ask, shared)
            }
            Observation::Redacted(exchange, tally) => self.traffic.redacted(now, exchange, tally),
            Observation::Halted(exchange, halted) => Traffic::halted(now, exchange, halted),
            Observation::Exec(exec) => self.exec(now, exec),
            Observation::Fork(fork) => self.fork(fork),
            Observation::Exit(exit) => self.exit(now, exit),
            Observation::RefusedStart(start) => self.refused_start(now, start),
            Observation::Resumed(resume) => self.resumed(now, resume),
            Observation::Ending => self.ending(now),
            Observation::Gone(process) => self.ended(now, process),
            Observation::Spoke(process) => self.spoke(now, process),
            Observation::StartedBy(instance, client) => self.started_by(instance, client),
            Observation::SessionOver(session) => self.session_over(now, &session),
            Observation::SessionOf(instance, session) => self.is_of(instance, session),
            Observation::Proxied(session, processes) => self.proxied(session, processes),
            Observation::Connection(connection) => Judgement {
                events: vec![self.connection(now, connection)],
                ..Judgement::default()
            },
            Observation::OpenConnections(tables, open) => self.open_connections(tables, open),
            Observation::Cut(cuts) => self.cut(now, cuts),
            Observation::Closed(closed) => self.closed(now, closed),
            Observation::Hashed {
                instance,
                attempt,
                files,
                environment,
            } => self.hashed(now, instance, attempt, *files, environment),
            Observation::Touched {
                instance,
                attempt,
                path,
            } => self.touched(now, instance, attempt, path.as_deref()),
            Observation::Tick => {
                let mut judgement = self.tick(now);
                let approvals = self.traffic.tick(now);
                judgement.events.extend(approvals.events);
                judgement.store_effects.extend(approvals.store_effects);
                judgement
            }
        }
    }

    /// Adds the definitions of earlier runs.
    #[must_use]
    pub fn with_definitions(mut self, records: Vec<DefinitionRecord>) -> Self {
        self.load_definitions(Timestamp::default(), records);
        self
    }

    /// Loads what other processes recorded: their pins and approvals apply from now on. Definitions that are not among
    /// `records` stay as they are, see [`Self::forget_definitions`].
    pub fn load_definitions(&mut self, now: Timestamp, records: Vec<DefinitionRecord>) {
        self.traffic.adopt(now, &self.policy);
        self.traffic.load(now, records);
    }

    /// Notes the id with which the server of a conversation starts: that of its declaration, or the one that follows from its
    /// program or address. Returns the names by which the policy permits it.
    pub fn starts_as(&mut self, now: Timestamp, identity: &PinKey, derived: &DerivedId) -> OwnNames {
        self.traffic.adopt(now, &self.policy);
        self.traffic.starts_as(identity, derived)
    }

    /// Adds servers with whose names those of new servers are compared, besides the observed ones.
    pub fn know_servers(&mut self, servers: Vec<ServerId>) {
        self.traffic.know(servers);
    }

    /// Sets the complete list of servers that `session` uses and whose calls other processes see, judge and count. It
    /// is for a layer that sees no conversation itself.
    pub fn know_members(&mut self, session: Option<&SessionId>, members: &[PinKey]) {
        self.traffic.know_members(session, members);
    }

    /// Sets the places of files on this host that not every host has.
    pub fn know_places(&mut self, places: Places) {
        self.traffic.know_places(places);
    }

    /// Returns the replacements in a text that is sent to a model, in the order of the text; none if the policy only
    /// observes. The findings are counted in `tally`, which is observed once the whole request was read.
    pub fn redact_text(&mut self, now: Timestamp, text: &str, tally: &mut Tally) -> Vec<Redaction> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.redact(now, text, tally)
    }

    /// Returns every known definition.
    pub fn definitions(&self) -> impl Iterator<Item = &DefinitionRecord> {
        self.traffic.records()
    }

    /// Returns the registry of tools and servers.
    pub const fn registry(&self) -> &Registry {
        self.traffic.registry()
    }

    /// Returns the registry of tools and servers, to which the caller adds servers that other processes watch.
    pub const fn registry_mut(&mut self) -> &mut Registry {
        self.traffic.registry_mut()
    }

    /// Returns `host:port` of a remote server; `None` for a server that runs on this host.
    pub fn address_of(&self, server: &PinKey) -> Option<String> {
        self.traffic.address_of(server)
    }

    /// Returns whether a tool is on its server's list, if that was read in this run and the server announced no change
    /// since.
    pub fn is_listed(&self, server: &PinKey, tool: &str) -> bool {
        self.traffic.is_listed(server, tool)
    }

    /// Returns the opinion of every rule on a call, in the order of precedence, also of the rules after the first that
    /// blocks. Nothing is recorded, and there are no effects. State that is shared with other sessions (sequences of
    /// calls, rates) is not checked.
    pub fn explain(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        call: &Call<'_>,
        real_paths: Vec<RealPath>,
    ) -> Vec<Opinion> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.explain(now, conversation, call, real_paths)
    }

    /// Returns the opinions as [`Self::explain`] does, on reading a resource.
    pub fn explain_read(
        &mut self,
        now: Timestamp,
        conversation: &Conversation,
        uri: &str,
        real_paths: Vec<RealPath>,
    ) -> Vec<Opinion> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.explain_read(now, conversation, uri, real_paths)
    }

    /// Accepts a definition as it was last listed, in the name of `by`: it is pinned, and no longer hidden.
    ///
    /// # Errors
    /// Returns an error if the definition was never listed.
    pub fn approve(&mut self, now: Timestamp, key: &DefinitionKey, by: &str) -> Result<Judgement, NotSeen> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.approve(now, key, by)
    }

    /// Refuses a definition, in the name of `by`: it stays hidden.
    ///
    /// # Errors
    /// Returns an error if the definition was never listed.
    pub fn refuse(&mut self, now: Timestamp, key: &DefinitionKey, by: &str) -> Result<Judgement, NotSeen> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.refuse(now, key, by)
    }

    /// Applies persons' answers to held calls of a server, in this or another conversation of the session.
    pub fn answer_calls(&mut self, now: Timestamp, identity: &PinKey, answers: &[AnsweredCall]) -> Judgement {
        self.traffic.answer_calls(now, identity, answers)
    }

    /// Takes the ids of the held calls that are to be judged again, because an answer came or none will come.
    pub fn take_settled_calls(&mut self) -> Vec<String> {
        self.traffic.take_settled_calls()
    }

    /// Returns whether a held call is to be judged again.
    pub fn is_settled_call(&self, held_call: &str) -> bool {
        self.traffic.is_settled_call(held_call)
    }

    /// Returns whether a call is held, or was answered and not judged again yet.
    pub fn is_held_call(&self, held_call: &str) -> bool {
        self.traffic.is_held_call(held_call)
    }

    /// Withdraws a held call whose client no longer waits for the answer.
    pub fn withdraw_call(&mut self, now: Timestamp, held_call: &str) -> Judgement {
        self.traffic.withdraw_call(now, held_call)
    }

    /// Settles a held call that its transport cannot keep, because of `cause`: it is judged again at once, and refused
    /// then.
    pub fn refuse_to_hold(&mut self, now: Timestamp, held_call: &str, cause: &'static str) -> Judgement {
        self.traffic.refuse_to_hold(now, held_call, cause)
    }

    /// Forgets the pins of a server's definitions, or of those named `name`: the next list is judged as the first.
    pub fn forget_definitions(&mut self, now: Timestamp, server: &ServerId, name: Option<&str>) -> Judgement {
        self.traffic.adopt(now, &self.policy);
        self.traffic.forget(now, server, name)
    }
}
