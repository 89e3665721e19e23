//! The one front door for every sense: what was seen goes in, what follows comes out.

use std::path::PathBuf;

use mcpmon_detect::protected_paths::{Places, RealPath};
use mcpmon_model::{
    AnsweredCall, Call, ClosedConnection, Connection, Conversation, CutOutcome, DefinitionKey,
    DefinitionRecord, Exchange, Exec, Exit, Fork, HaltedExchange, Incident, InstanceId, LlmMention, Message,
    OpenConnection, PinKey, ProcessId, Redaction, Resume, ServerId, SessionId, Timestamp,
};
use mcpmon_policy::network::table::Tables;

use super::{Monitor, orphans::ServerClient, proxied::ProxiedSession};
use crate::{
    effect::{ConnectionCut, Judgement, SharedOutcome, SharedQuestion},
    pins::ServerFiles,
    registry::Registry,
    rules::Opinion,
    traffic::{NotSeen, SessionPeers, Tally, Traffic},
};

/// Something a sense saw.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// One side of a conversation said something. The paths are those of [`file_lookups`] with their links resolved.
    ///
    /// [`file_lookups`]: crate::file_lookups
    Message(&'a Conversation, &'a Message<'a>, Vec<RealPath>),
    /// Something on the wire was no message, or may not pass.
    Incident(&'a Conversation, &'a Incident),
    /// The answer to what the judgement of a message asked.
    Shared(
        &'a Conversation,
        &'a Message<'a>,
        Box<SharedQuestion>,
        SharedOutcome,
    ),
    /// A conversation is part of a session with these others.
    Joined(&'a Conversation, SessionPeers<'a>),
    /// A conversation is over.
    Left(&'a Conversation),
    /// Something that has to do with tools passed between an agent and a model. The verdict on tools that are offered
    /// or listed may be to leave some out; on anything else it lets through or stops.
    Llm(&'a Exchange, &'a LlmMention<'a>),
    /// The answer to what the judgement of a model's intent, or of a provider's call, asked.
    LlmShared(
        &'a Exchange,
        &'a LlmMention<'a>,
        Box<SharedQuestion>,
        SharedOutcome,
    ),
    /// A request to a model was read, and these secrets were found in it ([`Monitor::redact_text`]).
    Redacted(&'a Exchange, &'a Tally),
    /// A request to a model, or its answer, does not go on.
    Halted(&'a Exchange, &'a HaltedExchange),
    /// A program was started.
    Exec(&'a Exec),
    /// A process of a server, or one that is not judged yet, started another.
    Fork(Fork),
    /// A process of a server ended.
    Exit(Exit),
    /// A stopped process was let go on by another than who stopped it.
    Resumed(&'a Resume),
    /// The observer ends: what is stopped is not compared any more.
    Ending,
    /// A process was found to have ended, whoever it was.
    Gone(ProcessId),
    /// The wrapper of a server heard its first word: one of the processes that may be the server is, and no longer has to
    /// prove it by living.
    Spoke(ProcessId),
    /// A running server was started by this client, which lived then.
    StartedBy(InstanceId, ServerClient),
    /// A session is over, as whoever ran it says.
    SessionOver(SessionId),
    /// A running server belongs to a session: what is stopped for one is stopped for the other.
    SessionOf(InstanceId, SessionId),
    /// A session has a proxy, and these processes are in it. What they start is in it by itself.
    Proxied(ProxiedSession, Vec<ProcessId>),
    /// A connection was asked for.
    Connection(&'a Connection),
    /// These connections are open, while these tables are in force.
    OpenConnections(&'a Tables, &'a [OpenConnection]),
    /// These connections were to be cut.
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
    /// Code of a server was replaced or written since it was hashed, whatever it is now, or may have been.
    Touched {
        /// Its server.
        instance: InstanceId,
        /// The number of the order to hash.
        attempt: u64,
        /// The code; `None` where only its times can tell whether some was changed.
        path: Option<PathBuf>,
    },
    /// Time passes.
    Tick,
}

impl Monitor {
    /// Judges what was seen.
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

    /// With the definitions of earlier runs.
    #[must_use]
    pub fn with_definitions(mut self, records: Vec<DefinitionRecord>) -> Self {
        self.load_definitions(Timestamp::default(), records);
        self
    }

    /// Takes what other processes recorded: their pins and approvals hold from now on. What is not among it stays
    /// as it is, see [`Self::forget_definitions`].
    pub fn load_definitions(&mut self, now: Timestamp, records: Vec<DefinitionRecord>) {
        self.traffic.adopt(now, &self.policy);
        self.traffic.load(now, records);
    }

    /// Servers with whose names those of new ones are compared, beside the ones that are observed.
    pub fn know_servers(&mut self, servers: Vec<ServerId>) {
        self.traffic.know(servers);
    }

    /// Sets the servers that `session` talks to in sight of other processes, which judge and count those
    /// calls: all of them. It is for a layer that sees no conversation itself.
    pub fn know_members(&mut self, session: Option<&SessionId>, members: &[PinKey]) {
        self.traffic.know_members(session, members);
    }

    /// Sets the places of files on this host, besides those that every host has.
    pub fn know_places(&mut self, places: Places) {
        self.traffic.know_places(places);
    }

    /// Returns the replacements in a text on its way to a model, in the order of the text; none while the
    /// policy only observes. Findings are counted in `tally`, to be observed once the whole request was read.
    pub fn redact_text(&mut self, now: Timestamp, text: &str, tally: &mut Tally) -> Vec<Redaction> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.redact(now, text, tally)
    }

    /// Every definition that is known.
    pub fn definitions(&self) -> impl Iterator<Item = &DefinitionRecord> {
        self.traffic.records()
    }

    /// Returns the registry of tools and servers.
    pub const fn registry(&self) -> &Registry {
        self.traffic.registry()
    }

    /// Returns the registry of tools and servers, to be extended with servers that other processes watch.
    pub const fn registry_mut(&mut self) -> &mut Registry {
        self.traffic.registry_mut()
    }

    /// `host:port` of a remote server; `None` of one that runs on this host.
    pub fn address_of(&self, server: &PinKey) -> Option<String> {
        self.traffic.address_of(server)
    }

    /// Returns whether a tool is on its server's list, as that was read in this run and not called changed
    /// since.
    pub fn is_listed(&self, server: &PinKey, tool: &str) -> bool {
        self.traffic.is_listed(server, tool)
    }

    /// Returns the opinion of every rule on a call, in the order of precedence, also of those after the first
    /// that blocks; nothing is recorded and nothing follows. State shared with other sessions (sequences of calls,
    /// rates) is not checked.
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

    /// The same of a resource that is to be read.
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

    /// `by` accepts a definition as it was listed last: it is pinned so, and not hidden any more.
    ///
    /// # Errors
    /// Returns an error if it was never listed.
    pub fn approve(&mut self, now: Timestamp, key: &DefinitionKey, by: &str) -> Result<Judgement, NotSeen> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.approve(now, key, by)
    }

    /// `by` refuses a definition: it stays hidden.
    ///
    /// # Errors
    /// Returns an error if it was never listed.
    pub fn refuse(&mut self, now: Timestamp, key: &DefinitionKey, by: &str) -> Result<Judgement, NotSeen> {
        self.traffic.adopt(now, &self.policy);
        self.traffic.refuse(now, key, by)
    }

    /// Persons answered calls of a server that are held, here or elsewhere in the session.
    pub fn answer_calls(&mut self, now: Timestamp, identity: &PinKey, answers: &[AnsweredCall]) -> Judgement {
        self.traffic.answer_calls(now, identity, answers)
    }

    /// Takes the ids of the held calls that are to be judged again, because there is an answer, or none will come.
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

    /// Nobody waits for the answer to a held call any longer.
    pub fn withdraw_call(&mut self, now: Timestamp, held_call: &str) -> Judgement {
        self.traffic.withdraw_call(now, held_call)
    }

    /// A held call cannot be kept, for this reason: it is to be judged again at once, and is refused then.
    pub fn refuse_to_hold(&mut self, now: Timestamp, held_call: &str, cause: &'static str) -> Judgement {
        self.traffic.refuse_to_hold(now, held_call, cause)
    }

    /// Forgets the pins of a server's definitions, or of those with one name: what is listed next is judged as
    /// the first.
    pub fn forget_definitions(&mut self, now: Timestamp, server: &ServerId, name: Option<&str>) -> Judgement {
        self.traffic.adopt(now, &self.policy);
        self.traffic.forget(now, server, name)
    }
}
