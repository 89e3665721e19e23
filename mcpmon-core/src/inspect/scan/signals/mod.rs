//! What is looked for: signals, each an anchor that opens a window and a pattern that is run in it.

mod acquire;
mod address;
mod command;
mod conceal;
mod deceive;
mod guard;
mod languages;
mod overrule;
mod persona;
mod reader;
mod tools;

/// Something that a text does. Rules say what follows from which signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Signal {
    /// Earlier instructions are to be ignored.
    Override,
    /// The same, in words that documents also use.
    WeakOverride,
    /// What is said is to stand above other rules.
    Precedence,
    /// Marks of a chat format.
    ChatToken,
    /// A mark that claims to be the system or an administrator.
    RoleTag,
    /// A mark that claims importance.
    AlertTag,
    /// A hidden place: a comment, an invisible element.
    HiddenPlace,
    /// The text speaks to a model.
    Address,
    /// The text speaks to a model as its user would.
    FalseUser,
    /// The model is to be someone else.
    Persona,
    /// Limits are off.
    Unrestricted,
    /// The user is not to know.
    Conceal,
    /// Something is to happen unnoticed.
    Silent,
    /// The user is not to be asked.
    NoConsent,
    /// A file of secrets is to be read or handed on.
    TakeFile,
    /// Secrets are to be read or handed on.
    TakeSecret,
    /// A file of secrets is named.
    File,
    /// Secrets are named.
    Secret,
    /// What a conversation holds is to be handed on.
    TakeContext,
    /// Something sensitive is to go to an address.
    SendAway,
    /// Anything is to go to an address.
    SendTo,
    /// An address that only attackers have.
    Hostile,
    /// An image or link that carries data away.
    Beacon,
    /// A message or its recipients are to be changed.
    Redirect,
    /// Something comes before the use of a tool.
    Before,
    /// Another tool is to be replaced or led.
    OtherTool,
    /// A tool of one's own is to be preferred to all others.
    Preferred,
    /// A tool is to be called.
    CallTool,
    /// A command is to be run, by its text.
    Shell,
    /// A command is to be run, in words.
    Run,
    /// A path climbs out.
    Climb,
    /// Something encoded is to be decoded and followed.
    DecodeAndFollow,
    /// It has to be.
    Must,
    /// You have to.
    YouMust,
    /// What follows is to be done to the letter.
    Obey,
    /// What is sent is taken without leave, by the word for it.
    Exfil,
    /// Something is sent or handed on.
    SendAny,
    /// What a conversation holds is asked for outright.
    AskContext,
    /// Every other tool is led.
    EveryTool,
    /// A mark that claims to hold a task or a part of a conversation.
    TaskTag,
    /// A heading that announces new instructions.
    NewOrders,
    /// Another tool is used, which is to lead to something.
    ToolTrigger,
    /// What is handed to a tool is to be changed.
    Tamper,
    /// A claim that holds for all uses.
    EveryUse,
    /// Something is to be done first, or also.
    ThisFirst,
    /// Something worth sending away.
    Goods,
    /// Something that a user would mind happens unnoticed.
    SilentAct,
    /// A parameter that takes what is handed over.
    Sink,
    /// Something happens besides, or each time.
    Also,
    /// An address that is spelled out.
    Literal,
    /// Secrets are taken, in words that only thieves use.
    Steal,
    /// What was read is to be shown.
    ShowMe,
    /// Something sensitive goes to an address, in one breath.
    SendSecret,
    /// What was given to the model is said to end.
    Breakout,
    /// A tag of one's own in capitals.
    CapsTag,
    /// Something is to happen later.
    Delay,
    /// A tool that every client has is to be replaced.
    BuiltinTool,
    /// Something holds for all that is done.
    EveryOperation,
    /// A reason that allows no question: compliance, security, an administrator.
    Authority,
    /// A mark that sets a text apart.
    AnyTag,
    /// A model is called, or something is its duty: what is meant is read around it.
    Reader,
    /// What a model has to do is said.
    ModelDuty,
    /// What held before is said not to hold.
    RulesVoid,
    /// What the user wants is not to count.
    Despite,
    /// Nobody is asked first.
    Unasked,
    /// Other tools are said to be bad.
    Disparage,
    /// A tool is to be used for everything.
    Monopoly,
    /// Another tool is used.
    ToolEvent,
    /// What goes into or comes out of a tool is to be another.
    Alter,
    /// The calls of all tools are meant.
    EveryCall,
    /// Mail goes to an address that the text names.
    Inbox,
    /// Something is handed over.
    Hand,
    /// Something is got hold of.
    Get,
    /// A model, or what it is given to go by.
    Guided,
    /// What is inside something.
    Contents,
    /// Something belongs to someone.
    Owned,
    /// Something has to be, or comes first.
    Coerce,
    /// What a conversation holds is named.
    Talk,
    /// The user is told what is not so, or led to act.
    Deceive,
    /// Whatever some text says is to be done.
    Follow,
    /// A link or image that ends with what is told.
    Tracker,
    /// A protection is switched off.
    Disarm,
    /// Rights are given.
    Grant,
    /// Money goes to an account that the text names.
    PayTo,
    /// The text speaks in the name of mcpmon.
    PosesAsGuard,
    /// The protection of mcpmon is to be lifted.
    LiftsGuard,
    /// Something is to stand in what the model answers.
    InAnswer,
}

/// How a signal is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// What it means.
    pub(super) signal: Signal,
    /// Literals of which each match contains one, in lower case; without any, it is looked for only beside others.
    pub(super) anchors: &'static [&'static str],
    /// The pattern, see [`super::lexicon`].
    pub(super) pattern: &'static str,
}

impl Signal {
    /// Those that are looked for only beside others: their words are everywhere.
    pub(super) const fn unanchored() -> &'static [Self] {
        &[
            Self::Must,
            Self::SendAny,
            Self::EveryUse,
            Self::ThisFirst,
            Self::Goods,
            Self::Sink,
            Self::Also,
            Self::Literal,
            Self::ShowMe,
            Self::AnyTag,
            Self::Hand,
            Self::Get,
            Self::Guided,
            Self::Contents,
            Self::Owned,
            Self::Coerce,
        ]
    }

    /// Whether it is something that is done to what is worth something: where that is forbidden, nothing is done.
    pub(super) const fn is_deed(self) -> bool {
        matches!(
            self,
            Self::TakeFile
                | Self::TakeSecret
                | Self::TakeContext
                | Self::SendTo
                | Self::SendAway
                | Self::SendSecret
                | Self::AskContext
                | Self::File
                | Self::Secret
                | Self::Talk
                | Self::Inbox
                | Self::Disarm
                | Self::Grant
                | Self::Follow
                | Self::Deceive
                | Self::LiftsGuard
        )
    }

    /// Whether it opens a window in outputs; the others are looked for only there. What data is full of opens nothing.
    pub(super) const fn opens_outputs(self) -> bool {
        match self {
            Self::Override
            | Self::Precedence
            | Self::ChatToken
            | Self::RoleTag
            | Self::AlertTag
            | Self::HiddenPlace
            | Self::Address
            | Self::FalseUser
            | Self::Persona
            | Self::Unrestricted
            | Self::TakeFile
            | Self::Hostile
            | Self::Beacon
            | Self::Redirect
            | Self::DecodeAndFollow
            | Self::YouMust
            | Self::Obey
            | Self::Exfil
            | Self::NewOrders
            | Self::SendSecret
            | Self::Steal
            | Self::Breakout
            | Self::Reader
            | Self::AskContext
            | Self::PosesAsGuard
            | Self::LiftsGuard => true,
            Self::Silent
            | Self::Conceal
            | Self::WeakOverride
            | Self::NoConsent
            | Self::TakeSecret
            | Self::File
            | Self::Secret
            | Self::TakeContext
            | Self::SendAway
            | Self::SendTo
            | Self::SendAny
            | Self::Before
            | Self::OtherTool
            | Self::EveryTool
            | Self::Preferred
            | Self::CallTool
            | Self::Shell
            | Self::Run
            | Self::Climb
            | Self::TaskTag
            | Self::ToolTrigger
            | Self::Tamper
            | Self::EveryUse
            | Self::ThisFirst
            | Self::Goods
            | Self::ShowMe
            | Self::SilentAct
            | Self::Sink
            | Self::Also
            | Self::Literal
            | Self::EveryOperation
            | Self::Authority
            | Self::CapsTag
            | Self::Delay
            | Self::BuiltinTool
            | Self::Must
            | Self::AnyTag
            | Self::ModelDuty
            | Self::RulesVoid
            | Self::Despite
            | Self::Unasked
            | Self::Disparage
            | Self::Monopoly
            | Self::ToolEvent
            | Self::Alter
            | Self::EveryCall
            | Self::Inbox
            | Self::Hand
            | Self::Get
            | Self::Guided
            | Self::Contents
            | Self::Owned
            | Self::Coerce
            | Self::Talk
            | Self::Deceive
            | Self::Disarm
            | Self::Tracker
            | Self::Follow
            | Self::Grant
            | Self::PayTo
            | Self::InAnswer => false,
        }
    }
}

/// Every shape.
pub(super) fn shapes() -> impl Iterator<Item = &'static Shape> {
    [
        overrule::SHAPES,
        languages::SHAPES,
        persona::SHAPES,
        reader::SHAPES,
        conceal::SHAPES,
        deceive::SHAPES,
        guard::SHAPES,
        acquire::SHAPES,
        address::SHAPES,
        tools::SHAPES,
        command::SHAPES,
    ]
    .into_iter()
    .flatten()
}
