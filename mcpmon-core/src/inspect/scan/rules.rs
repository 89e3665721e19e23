//! What follows from which signals: the names, categories and severities that findings carry.

use crate::model::{Category, Severity};

use super::signals::Signal::{self, *};

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inspect) enum Place {
    /// In what a server offers: a model takes it for instructions.
    Definition,
    /// In what a tool returns: a model should take it for data.
    Output,
}

/// One way in which signals make a finding.
#[derive(Debug)]
pub(super) struct Rule {
    /// Name of its findings, stable.
    pub(super) name: &'static str,
    /// What kind of attack it is.
    pub(super) category: Category,
    /// Severity in definitions, where it holds there.
    pub(super) definition: Option<Severity>,
    /// Severity in outputs, where it holds there.
    pub(super) output: Option<Severity>,
    /// The signal that opens it.
    pub(super) opener: Signal,
    /// Of each group one has to stand near; signals without anchors are looked for there.
    pub(super) near: &'static [&'static [Signal]],
    /// How near, bytes from the opener's ends.
    pub(super) within: usize,
    /// Whether the tool that the opener names decides.
    pub(super) tool: ToolNamed,
}

/// What the tool that a text names has to do with its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolNamed {
    /// It does not matter.
    Any,
    /// It is none of the server's own.
    Foreign,
}

const CRITICAL: Option<Severity> = Some(Severity::Critical);
const HIGH: Option<Severity> = Some(Severity::High);
const MEDIUM: Option<Severity> = Some(Severity::Medium);
const LOW: Option<Severity> = Some(Severity::Low);

/// A rule that needs its opener alone.
const fn alone(
    name: &'static str,
    category: Category,
    opener: Signal,
    definition: Option<Severity>,
    output: Option<Severity>,
) -> Rule {
    with(name, category, opener, &[], 0, definition, output)
}

/// A rule that needs more near its opener.
const fn with(
    name: &'static str,
    category: Category,
    opener: Signal,
    near: &'static [&'static [Signal]],
    within: usize,
    definition: Option<Severity>,
    output: Option<Severity>,
) -> Rule {
    Rule {
        name,
        category,
        definition,
        output,
        opener,
        near,
        within,
        tool: ToolNamed::Any,
    }
}

/// A rule about a tool that is not the server's own.
const fn foreign(rule: Rule) -> Rule {
    Rule {
        tool: ToolNamed::Foreign,
        ..rule
    }
}

const DIRECTS: &[Signal] = &[
    Override,
    WeakOverride,
    Precedence,
    Persona,
    Unrestricted,
    Conceal,
    NoConsent,
    TakeFile,
    TakeSecret,
    TakeContext,
    SendAway,
    SendTo,
    Redirect,
    CallTool,
    Shell,
    Run,
    Before,
    OtherTool,
    FalseUser,
    Hostile,
];
const MARKS: &[Signal] = &[ChatToken, RoleTag, AlertTag, HiddenPlace, Address, FalseUser];

use Category::{
    CredentialTheft, CrossToolOverride, Exfiltration, HiddenInstructions, PathTraversal, ShellInjection,
    StealthInstruction,
};

/// Every rule. Several may share a name: they find the same thing in different words.
pub(super) const RULES: &[Rule] = &[
    alone("instruction_override", HiddenInstructions, Override, HIGH, HIGH),
    with(
        "instruction_override",
        HiddenInstructions,
        WeakOverride,
        &[&[
            Address,
            RoleTag,
            ChatToken,
            AlertTag,
            HiddenPlace,
            Persona,
            Unrestricted,
            Precedence,
            FalseUser,
            Override,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    with(
        "instruction_override",
        HiddenInstructions,
        WeakOverride,
        &[&[Must, Run]],
        60,
        HIGH,
        MEDIUM,
    ),
    alone(
        "instruction_override",
        HiddenInstructions,
        WeakOverride,
        MEDIUM,
        LOW,
    ),
    with(
        "claimed_precedence",
        HiddenInstructions,
        Precedence,
        &[&[
            Override,
            WeakOverride,
            RoleTag,
            ChatToken,
            Unrestricted,
            Conceal,
            HiddenPlace,
            AlertTag,
            Address,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    alone("claimed_precedence", HiddenInstructions, Precedence, MEDIUM, LOW),
    alone("chat_format", HiddenInstructions, ChatToken, HIGH, MEDIUM),
    with(
        "chat_format",
        HiddenInstructions,
        ChatToken,
        &[DIRECTS, &[Must]],
        200,
        HIGH,
        HIGH,
    ),
    with(
        "false_authority",
        HiddenInstructions,
        RoleTag,
        &[&[
            Override,
            WeakOverride,
            Precedence,
            Persona,
            Unrestricted,
            Conceal,
            NoConsent,
            TakeFile,
            TakeSecret,
            TakeContext,
            SendAway,
            Redirect,
            FalseUser,
            Hostile,
            Shell,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    with(
        "false_authority",
        HiddenInstructions,
        RoleTag,
        &[&[CallTool, SendTo, Run, Before, OtherTool], &[Must]],
        240,
        HIGH,
        HIGH,
    ),
    with(
        "alert_tag",
        HiddenInstructions,
        AlertTag,
        DIRECTS_NEAR,
        300,
        HIGH,
        HIGH,
    ),
    with(
        "alert_tag",
        HiddenInstructions,
        AlertTag,
        &[&[Must]],
        120,
        HIGH,
        LOW,
    ),
    with(
        "hidden_text",
        HiddenInstructions,
        HiddenPlace,
        &[&[
            Override,
            WeakOverride,
            Precedence,
            Persona,
            Unrestricted,
            Conceal,
            TakeFile,
            TakeSecret,
            TakeContext,
            SendAway,
            SendTo,
            Redirect,
            Shell,
            Address,
            Hostile,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    with(
        "addresses_model",
        HiddenInstructions,
        Address,
        DIRECTS_NEAR,
        260,
        HIGH,
        HIGH,
    ),
    alone("addresses_model", HiddenInstructions, Address, MEDIUM, LOW),
    with(
        "false_user",
        HiddenInstructions,
        FalseUser,
        &[&[
            Before, CallTool, Override, Address, FalseUser, Must, TakeFile, TakeSecret,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    alone("persona", HiddenInstructions, Persona, HIGH, HIGH),
    with(
        "persona",
        HiddenInstructions,
        Unrestricted,
        &[&[
            Persona,
            Override,
            WeakOverride,
            Precedence,
            RoleTag,
            ChatToken,
            AlertTag,
            Address,
            HiddenPlace,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    with(
        "persona",
        HiddenInstructions,
        Unrestricted,
        &[&[Unrestricted]],
        120,
        HIGH,
        HIGH,
    ),
    alone("concealment", StealthInstruction, Conceal, HIGH, MEDIUM),
    with(
        "concealment",
        StealthInstruction,
        Conceal,
        &[&[
            Override,
            WeakOverride,
            RoleTag,
            ChatToken,
            AlertTag,
            HiddenPlace,
            Address,
            FalseUser,
            TakeFile,
            TakeSecret,
            TakeContext,
            SendAway,
            SendTo,
            Redirect,
            Shell,
            CallTool,
            Hostile,
            Silent,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    with(
        "silent_action",
        StealthInstruction,
        Silent,
        &[&[
            TakeFile,
            TakeSecret,
            TakeContext,
            SendAway,
            SendTo,
            Redirect,
            Shell,
            Conceal,
            Hostile,
        ]],
        120,
        HIGH,
        HIGH,
    ),
    alone("silent_action", StealthInstruction, Silent, LOW, None),
    with(
        "consent_bypass",
        StealthInstruction,
        NoConsent,
        &[
            &[Must, Address, CallTool, OtherTool],
            &[
                SendTo,
                SendAway,
                Override,
                WeakOverride,
                TakeFile,
                TakeSecret,
                CallTool,
                OtherTool,
                Address,
                Run,
                Before,
            ],
        ],
        160,
        HIGH,
        MEDIUM,
    ),
    alone("consent_bypass", StealthInstruction, NoConsent, MEDIUM, None),
    with(
        "credential_theft",
        CredentialTheft,
        TakeFile,
        &[&[Must, Before, SendTo, SendAway, Conceal, Silent, Hostile, Run]],
        160,
        CRITICAL,
        HIGH,
    ),
    alone("credential_theft", CredentialTheft, TakeFile, HIGH, LOW),
    with(
        "credential_theft",
        CredentialTheft,
        TakeSecret,
        &[&[Before, Conceal, Silent, Hostile, SendAway]],
        140,
        HIGH,
        MEDIUM,
    ),
    with(
        "credential_theft",
        CredentialTheft,
        TakeSecret,
        &[&[
            Address,
            RoleTag,
            ChatToken,
            AlertTag,
            HiddenPlace,
            Override,
            WeakOverride,
            FalseUser,
        ]],
        240,
        HIGH,
        HIGH,
    ),
    alone("credential_theft", CredentialTheft, File, LOW, None),
    with(
        "context_theft",
        Exfiltration,
        TakeContext,
        &[&[
            Before,
            Conceal,
            Silent,
            SendTo,
            SendAway,
            RoleTag,
            ChatToken,
            Address,
            Override,
            WeakOverride,
            Hostile,
            HiddenPlace,
            AlertTag,
        ]],
        200,
        HIGH,
        HIGH,
    ),
    alone("context_theft", Exfiltration, TakeContext, MEDIUM, LOW),
    with(
        "exfiltration",
        Exfiltration,
        SendAway,
        &[&[
            Must,
            Before,
            Conceal,
            Silent,
            Hostile,
            Address,
            RoleTag,
            TakeFile,
            TakeSecret,
            TakeContext,
        ]],
        160,
        HIGH,
        MEDIUM,
    ),
    with(
        "exfiltration",
        Exfiltration,
        SendTo,
        &[&[Hostile]],
        80,
        CRITICAL,
        HIGH,
    ),
    with("exfiltration", Exfiltration, SendAway, &[MARKS], 200, HIGH, HIGH),
    alone("exfiltration", Exfiltration, SendAway, MEDIUM, LOW),
    alone("hostile_address", Exfiltration, Hostile, HIGH, LOW),
    with(
        "hostile_address",
        Exfiltration,
        Hostile,
        &[&[
            SendTo,
            SendAway,
            TakeFile,
            TakeSecret,
            TakeContext,
            Shell,
            CallTool,
            Redirect,
            Beacon,
        ]],
        160,
        HIGH,
        HIGH,
    ),
    with("data_beacon", Exfiltration, Beacon, &[MARKS], 400, HIGH, HIGH),
    alone("data_beacon", Exfiltration, Beacon, HIGH, MEDIUM),
    alone("redirection", Exfiltration, Redirect, HIGH, LOW),
    with(
        "redirection",
        Exfiltration,
        Redirect,
        &[&[Conceal, Silent, Address, RoleTag, AlertTag, HiddenPlace, Override]],
        200,
        HIGH,
        HIGH,
    ),
    foreign(alone(
        "cross_tool_override",
        CrossToolOverride,
        OtherTool,
        HIGH,
        LOW,
    )),
    alone("cross_tool_override", CrossToolOverride, Preferred, MEDIUM, LOW),
    foreign(with(
        "cross_tool_override",
        CrossToolOverride,
        CallTool,
        &[
            &[Before, Must],
            &[
                Conceal,
                TakeFile,
                TakeSecret,
                TakeContext,
                SendAway,
                Silent,
                NoConsent,
                File,
            ],
        ],
        200,
        HIGH,
        LOW,
    )),
    foreign(with(
        "tool_command",
        HiddenInstructions,
        CallTool,
        &[
            &[Must],
            &[
                Shell,
                TakeFile,
                SendTo,
                SendAway,
                TakeSecret,
                TakeContext,
                File,
                Hostile,
                Override,
            ],
        ],
        160,
        HIGH,
        HIGH,
    )),
    alone("shell_command", ShellInjection, Shell, HIGH, LOW),
    with(
        "shell_command",
        ShellInjection,
        Shell,
        &[&[
            Override,
            WeakOverride,
            Address,
            RoleTag,
            ChatToken,
            AlertTag,
            HiddenPlace,
            CallTool,
            Conceal,
            Silent,
            Hostile,
        ]],
        200,
        CRITICAL,
        HIGH,
    ),
    alone("path_traversal", PathTraversal, Climb, MEDIUM, LOW),
    with(
        "path_traversal",
        PathTraversal,
        Climb,
        &[&[File]],
        40,
        HIGH,
        MEDIUM,
    ),
    alone(
        "decode_and_follow",
        HiddenInstructions,
        DecodeAndFollow,
        HIGH,
        MEDIUM,
    ),
];

const DIRECTS_NEAR: &[&[Signal]] = &[DIRECTS];

impl Rule {
    /// How bad it is there.
    pub(super) const fn severity(&self, place: Place) -> Option<Severity> {
        match place {
            Place::Definition => self.definition,
            Place::Output => self.output,
        }
    }
}
