//! Judgements, and their effects. The core decides them; the daemon and the sessions carry them out.

use mcpmon_detect::launch::Stage;
use mcpmon_model::{
    Action, ConnectionHolder, DefinitionKey, DefinitionRecord, Denial, Event, EventId, FileId, HeldCall,
    InstanceId, OpenConnection, PinKey, ProcessId, Recent, RecentOutput, RepeatedEvents, ServerId,
    SharedCall, SharedCallAnswer, Timestamp, Verdict,
};

use super::{
    pins::{AcceptanceGround, AddedSet},
    rules::Ruling,
    traffic::DisclosedSecrets,
};

/// The result of an observation.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The verdict on the message; without meaning for anything else.
    pub verdict: Verdict,
    /// To be recorded, in order.
    pub events: Vec<Event>,
    /// To be done to processes, in order. Only observations of the kernel's and changes of the policy have some.
    pub kernel_effects: Vec<KernelEffect>,
    /// To be stored or shared, in order. Only observations of conversations and of models have some.
    pub store_effects: Vec<StoreEffect>,
    /// To be asked before anything is said of the message: the answer is a
    /// [`Observation::Shared`](super::Observation::Shared), of what models want an
    /// [`Observation::LlmShared`](super::Observation::LlmShared), and brings the verdict.
    pub ask: Option<Box<SharedQuestion>>,
}

impl Judgement {
    /// A verdict, and the event that tells of it.
    pub fn of(verdict: Verdict, event: Event) -> Self {
        Self {
            verdict,
            events: vec![event],
            ..Self::default()
        }
    }

    /// Gives the event that tells of a refusal its identity, and has the refusal name it. Does nothing where nothing
    /// is refused or killed, or no event tells of it.
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
        // The first one has the evidence, where there is some.
        let position = self.events.iter().position(decides);
        let position = position.or_else(|| self.events.iter().position(blocks));
        if let Some(event) = position.and_then(|position| self.events.get_mut(position)) {
            denial.event = Some(*event.id.get_or_insert_with(|| new_id(event.timestamp)));
        }
    }
}

/// A call against which nothing stands here, to be checked where the calls of its session come together.
#[derive(Clone, Debug)]
pub struct SharedQuestion {
    pub(super) call: SharedCall,
    /// The tool and its server, where a model wants it or a provider called it.
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
    /// Nobody could be asked: what this process knows by itself holds.
    Unreachable,
}

/// The changes of files that are looked out for while they are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWatch {
    /// Two hashes differ where the files do.
    None,
    /// Code that was changed since its process began to run has no hash, whatever its content.
    WhileRead,
    /// The same, and changes of code in the time after the hash are reported as an
    /// [`Observation::Touched`](super::Observation::Touched).
    UntilStarted,
}

/// An effect on processes and on what the kernel and the pins know of them. The daemon carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEffect {
    /// Tell the kernel that a process, and what it already started, belongs to a server.
    Track {
        /// The process.
        process: ProcessId,
        /// Its server.
        instance: InstanceId,
        /// Egress lists that hold for it: its server's, and that of the server which started this one; 0 for none.
        egress: [u32; 2],
    },
    /// Tell the kernel that a process, and what it already started, is in a session with a list of its own.
    EnterSession {
        /// The process.
        process: ProcessId,
        /// The list.
        list: u32,
    },
    /// Tell the kernel that a process is no server: it is not held to the egress lists any longer.
    Settle {
        /// The process.
        process: ProcessId,
    },
    /// Find who started a server, mark it as an agent, and report it as an
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
    /// Let a held process go on.
    Release {
        /// The process.
        process: ProcessId,
    },
    /// Hash what a process runs from, and report it as an [`Observation::Hashed`](super::Observation::Hashed).
    Hash {
        /// Its server.
        instance: InstanceId,
        /// The serving process.
        process: ProcessId,
        /// Files that were executed on the way to it, as they were named; `None` where a part of the way was forgotten.
        launcher: Option<Vec<String>>,
        /// Its real user id: users take turns.
        uid: u32,
        /// Tells this program of the process from one it may execute meanwhile.
        attempt: u64,
        /// The stage of the process, from its arguments.
        stage: Stage,
        /// The program that it is, where a dynamic loader was told to run it; as its arguments name it.
        loaded: Option<String>,
        /// The time at which the process began to run this program.
        since: Timestamp,
        /// The changes of the files that are looked out for.
        watch: FileWatch,
    },
    /// Keep pins.
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
        /// The denial, for the wrapper to tell the client.
        denial: Denial,
    },
    /// Kill one process.
    KillProcess {
        /// The process, which may have been killed already.
        process: ProcessId,
        /// The denial, for the wrapper to tell the client.
        denial: Denial,
    },
    /// Kill whatever executes this file from now on.
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
    /// The rule that refuses it by now.
    pub rule: u32,
    /// The process because of which it is refused; the first that is known where it is refused to everyone.
    pub holder: Option<ConnectionHolder>,
}

impl KernelEffect {
    /// Returns the denial of what is killed.
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

/// An effect on the store, or on whoever holds the calls of a session. Sessions carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEffect {
    /// Record what was told of a list before once more, for it came again as it was.
    Retell(RepeatedEvents),
    /// Keep a definition as it is now.
    StoreDefinition(Box<DefinitionRecord>),
    /// Keep a definition no longer.
    ForgetDefinition(DefinitionKey),
    /// Ask a person about a call that is held.
    HoldCall(Box<HeldCall>),
    /// Nobody waits for the answer to the held call with this id any longer.
    ReleaseCall(String),
    /// Tell what happened to whoever holds the calls of this session: with the next batch of events, or, of what a model
    /// wants, before it is known to the agent.
    Share(Box<Recent>),
    /// The same of a result, once it was read for what is sensitive in it: [`read_result`]. That takes long enough
    /// not to be done while the client waits.
    ///
    /// [`read_result`]: super::cross_server::read_result
    ShareResult {
        /// The result that is meant.
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
