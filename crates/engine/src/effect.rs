//! Judgements, and their effects. The engine decides them; the daemon and the sessions carry them out.

use mcpmon_detect::launch::Stage;
use mcpmon_model::{
    Action, ConnectionHolder, DefinitionKey, DefinitionRecord, Denial, Event, EventId, FileId, HeldCall,
    InstanceId, OpenConnection, PinKey, ProcessId, Recent, RecentOutput, ServerId, SharedCall,
    SharedCallAnswer, Timestamp, Verdict,
};

use super::{
    pins::{AcceptanceGround, AddedSet},
    rules::Ruling,
    traffic::DisclosedSecrets,
};

/// The result of an observation.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The verdict on the message; has no meaning for other observations.
    pub verdict: Verdict,
    /// The events to record, in order.
    pub events: Vec<Event>,
    /// Effects on processes, in order. Only kernel observations and policy changes have any.
    pub kernel_effects: Vec<KernelEffect>,
    /// Effects on the store and on shared state, in order. Only observations of conversations and of models have any.
    pub store_effects: Vec<StoreEffect>,
    /// A question about shared state that has to be answered before there is a verdict. The answer is an
    /// [`Observation::Shared`](super::Observation::Shared), or, if it is about what a model wants, an
    /// [`Observation::LlmShared`](super::Observation::LlmShared), whose judgement has the verdict.
    pub ask: Option<Box<SharedQuestion>>,
}

impl Judgement {
    /// Returns a judgement of a verdict and the event about it.
    pub fn of(verdict: Verdict, event: Event) -> Self {
        Self {
            verdict,
            events: vec![event],
            ..Self::default()
        }
    }

    /// Gives the event about a refusal its id, and puts the id into the denial. Does nothing if nothing is refused or
    /// killed, or no event is about it.
    pub fn name_refusal(&mut self, new_id: impl FnOnce(Timestamp) -> EventId) {
        let killed = self.kernel_effects.iter_mut().find_map(KernelEffect::denial_mut);
        let denial = match &mut self.verdict {
            Verdict::Block(denial) => Some(denial),
            Verdict::Allow
            | Verdict::Hide(_)
            | Verdict::StripInstructions
            | Verdict::Redact(_)
            | Verdict::Ask(_) => killed,
        };
        let Some(denial) = denial else { return };
        let blocks = |event: &Event| event.action == Action::Block;
        let decides = |event: &Event| blocks(event) && event.rule.as_ref() == Some(&denial.rule);
        // The first event that decides has the evidence, if there is any.
        let position = self.events.iter().position(decides);
        let position = position.or_else(|| self.events.iter().position(blocks));
        if let Some(event) = position.and_then(|position| self.events.get_mut(position)) {
            denial.event = Some(*event.id.get_or_insert_with(|| new_id(event.timestamp)));
        }
    }
}

/// A call to which the local rules do not object, to be checked with the other calls of its session.
#[derive(Clone, Debug)]
pub struct SharedQuestion {
    pub(super) call: SharedCall,
    /// The tool and its server, if a model wants the call or a provider made it.
    pub(super) wanted: Option<(PinKey, String)>,
    pub(super) ruling: Ruling,
    pub(super) disclosed: DisclosedSecrets,
    /// The events recorded so far.
    pub(super) events: Vec<Event>,
}

impl SharedQuestion {
    /// The call.
    pub const fn call(&self) -> &SharedCall {
        &self.call
    }
}

/// The outcome of asking for shared state.
#[derive(Clone, Debug)]
pub enum SharedOutcome {
    /// The answer. Unless it stops the call, the call is counted.
    Checked(SharedCallAnswer),
    /// Shared state could not be reached: the local judgement holds.
    Unreachable,
}

/// The changes of files that are watched for while the files are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWatch {
    /// No changes are watched for: two hashes differ if the files differ.
    None,
    /// Code that changed after its process began to run gets no hash, whatever its content.
    WhileRead,
    /// As with `WhileRead`, and later changes of the code are reported as an
    /// [`Observation::Touched`](super::Observation::Touched).
    UntilStarted,
}

/// An effect on processes, or on what the kernel and the pins hold about them. The daemon carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEffect {
    /// Tell the kernel that a process, and all that it has started, belongs to a server.
    Track {
        /// The process.
        process: ProcessId,
        /// Its server.
        instance: InstanceId,
        /// The egress lists of the process: that of its server, and that of the server which started this one; 0 for
        /// none.
        egress: [u32; 2],
    },
    /// Tell the kernel that a process, and all that it has started, is in a session that has its own list.
    EnterSession {
        /// The process.
        process: ProcessId,
        /// The list.
        list: u32,
    },
    /// Tell the kernel that a process is no server, so that no egress list applies to it any longer.
    Settle {
        /// The process.
        process: ProcessId,
    },
    /// Find the process that started a server, mark it as an agent, and report it as an
    /// [`Observation::StartedBy`](super::Observation::StartedBy).
    MarkStarter {
        /// Parent of the launch.
        process: ProcessId,
        /// The server.
        instance: InstanceId,
    },
    /// Stop a process until its files are compared.
    Hold {
        /// The process.
        process: ProcessId,
    },
    /// Resume a held process.
    Release {
        /// The process.
        process: ProcessId,
    },
    /// Hash the files that a process runs from, and report the result as an
    /// [`Observation::Hashed`](super::Observation::Hashed).
    Hash {
        /// Its server.
        instance: InstanceId,
        /// The serving process.
        process: ProcessId,
        /// Files that were executed before it, as they were named, by process; `None` if a part of the sequence was
        /// forgotten.
        launcher: Option<Vec<Vec<String>>>,
        /// Its real user id; hashing alternates between users.
        uid: u32,
        /// Number of this order; it distinguishes this program of the process from one that it executes later.
        attempt: u64,
        /// The stage of the process, from its arguments.
        stage: Stage,
        /// The program, if a dynamic loader was told to run it; as the arguments name it.
        loaded: Option<String>,
        /// The time at which the process began to run this program.
        since: Timestamp,
        /// The changes of the files that are watched for.
        watch: FileWatch,
    },
    /// Store pins.
    StorePins {
        /// The pins accepted from now on.
        added: AddedSet,
        /// The ground of acceptance.
        ground: AcceptanceGround,
    },
    /// Ask every process of a server to end.
    Terminate {
        /// The server.
        instance: InstanceId,
    },
    /// Kill every process of a server.
    Kill {
        /// The server.
        instance: InstanceId,
        /// The denial; the wrapper sends it to the client.
        denial: Denial,
    },
    /// Kill one process.
    KillProcess {
        /// The process, which may have been killed already.
        process: ProcessId,
        /// The denial; the wrapper sends it to the client.
        denial: Denial,
    },
    /// From now on, kill every process that executes this file.
    Refuse {
        /// The server whose file it is.
        server: ServerId,
        /// The file.
        file: FileId,
    },
    /// Cut an open connection, and report the outcome as an
    /// [`Observation::Cut`](super::Observation::Cut).
    Cut(Box<ConnectionCut>),
}

/// An order to cut an open connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionCut {
    /// The connection.
    pub connection: OpenConnection,
    /// The rule that refuses it now.
    pub rule: u32,
    /// The process that the rule refuses it to; the first known holder if the rule refuses it to every process.
    pub holder: Option<ConnectionHolder>,
}

impl KernelEffect {
    /// Returns the denial of a kill.
    const fn denial_mut(&mut self) -> Option<&mut Denial> {
        match self {
            Self::Kill { denial, .. } | Self::KillProcess { denial, .. } => Some(denial),
            Self::Track { .. }
            | Self::EnterSession { .. }
            | Self::Settle { .. }
            | Self::MarkStarter { .. }
            | Self::Hold { .. }
            | Self::Release { .. }
            | Self::Hash { .. }
            | Self::StorePins { .. }
            | Self::Terminate { .. }
            | Self::Refuse { .. }
            | Self::Cut(_) => None,
        }
    }
}

/// An effect on the store, or on the process that holds the calls of a session. Sessions carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEffect {
    /// Store a definition as it is now.
    StoreDefinition(Box<DefinitionRecord>),
    /// Delete a definition from the store.
    ForgetDefinition(DefinitionKey),
    /// Ask a person about a call that is held.
    HoldCall(Box<HeldCall>),
    /// Withdraw the held call with this id: its client no longer waits for the answer.
    ReleaseCall(String),
    /// Tell the holder of this session's calls what happened: with the next batch of events or, for an intent of a
    /// model, before the agent receives it.
    Share(Box<Recent>),
    /// As `Share`, for a result, after it was read for sensitive data with [`read_result`]. The client does not wait
    /// for that, because it takes long.
    ///
    /// [`read_result`]: super::cross_server::read_result
    ShareResult {
        /// The result.
        output: Box<RecentOutput>,
        /// The text of the result, as far as it is read.
        result: Box<str>,
    },
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Denial, EventKind, Layer};

    use super::*;

    const ID: EventId = EventId([7; 16]);

    fn event(rule: &str, action: Action) -> Event {
        let kind = EventKind::ServerDenied { cause: String::new() };
        let mut event = Event::new(Timestamp(5), Layer::Stdio, kind);
        event.rule = Some(rule.to_owned());
        event.action = action;
        event
    }

    fn named(events: Vec<Event>) -> (Option<EventId>, Vec<Option<EventId>>) {
        let denial = Denial {
            rule: "a".to_owned(),
            reason: String::new(),
            remedy: None,
            event: None,
        };
        let mut judgement = Judgement {
            verdict: Verdict::Block(denial),
            events,
            ..Judgement::default()
        };
        judgement.name_refusal(|at| {
            assert_eq!(at, Timestamp(5));
            ID
        });
        let Verdict::Block(denial) = judgement.verdict else {
            panic!("it was a refusal");
        };
        (
            denial.event,
            judgement.events.iter().map(|event| event.id).collect(),
        )
    }

    #[test]
    fn a_refusal_names_the_event_of_its_rule() {
        use Action::{Allow, Block};
        let told = vec![
            event("a", Allow),
            event("b", Block),
            event("a", Block),
            event("a", Block),
        ];
        assert_eq!(named(told), (Some(ID), vec![None, None, Some(ID), None]));
    }

    #[test]
    fn without_one_it_names_what_was_blocked_or_nothing() {
        assert_eq!(named(vec![event("b", Action::Block)]), (Some(ID), vec![Some(ID)]));
        assert_eq!(named(vec![event("a", Action::Audit)]), (None, vec![None]));
    }

    #[test]
    fn what_goes_on_names_nothing() {
        let mut judgement = Judgement {
            events: vec![event("a", Action::Block)],
            ..Judgement::default()
        };
        judgement.name_refusal(|_| panic!("nothing is refused"));
        assert_eq!(judgement.events[0].id, None);
    }
}
