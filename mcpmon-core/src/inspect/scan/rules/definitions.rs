//! What follows in definitions and instructions.

use super::{HIDES, MARKS, OVERRULES, Rule, TAKES};
use crate::{
    inspect::scan::signals::Signal::*,
    model::{
        Category::{
            CredentialTheft, CrossToolOverride, Exfiltration, HiddenInstructions, PathTraversal,
            ShellInjection, StealthInstruction,
        },
        Severity::{Critical, High, Low, Medium},
    },
};

pub(super) const RULES: &[Rule] = &[
    Rule::new("poses_as_mcpmon", HiddenInstructions, High, PosesAsGuard).near(300, &[&[LiftsGuard]]),
    Rule::new("poses_as_mcpmon", HiddenInstructions, High, PosesAsGuard).near(
        240,
        &[&[Must, YouMust, Obey, Conceal, NoConsent, Unasked, Before, Shell]],
    ),
    Rule::new("poses_as_mcpmon", HiddenInstructions, Medium, PosesAsGuard),
    Rule::new("protection_off", StealthInstruction, High, LiftsGuard)
        .near(160, &[&[Must, YouMust, Obey, Before, Conceal, Address]]),
    Rule::new("protection_off", StealthInstruction, Medium, LiftsGuard),
    Rule::new("instruction_override", HiddenInstructions, High, Override),
    Rule::new("instruction_override", HiddenInstructions, High, WeakOverride),
    Rule::new("claimed_precedence", HiddenInstructions, High, Precedence),
    Rule::new("chat_format", HiddenInstructions, High, ChatToken).told(),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag).near(240, &[OVERRULES]),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag).near(240, &[TAKES]),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag).near(240, &[HIDES]),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag).near(
        240,
        &[
            &[CallTool, SendTo, Run, Before, OtherTool, Shell],
            &[Must, YouMust],
        ],
    ),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag).near(300, &[OVERRULES]),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag).near(300, &[TAKES]),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag)
        .near(300, &[&[Conceal, NoConsent, FalseUser, Address, Shell]]),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag).near(120, &[&[Must, YouMust]]),
    Rule::new("alert_tag", HiddenInstructions, High, TaskTag).near(
        200,
        &[&[Override, Conceal, FalseUser, TakeFile, SendAway, Hostile]],
    ),
    Rule::new("new_orders", HiddenInstructions, High, NewOrders),
    Rule::new("hidden_text", HiddenInstructions, High, HiddenPlace).near(240, &[OVERRULES]),
    Rule::new("hidden_text", HiddenInstructions, High, HiddenPlace).near(240, &[TAKES]),
    Rule::new("hidden_text", HiddenInstructions, High, HiddenPlace).near(
        240,
        &[&[Conceal, NoConsent, Address, Shell, SendTo, SendAny, Must, YouMust]],
    ),
    Rule::new("addresses_model", HiddenInstructions, High, Address).near(260, &[OVERRULES]),
    Rule::new("addresses_model", HiddenInstructions, High, Address).near(260, &[TAKES]),
    Rule::new("addresses_model", HiddenInstructions, High, Address)
        .near(260, &[&[Conceal, Silent, FalseUser, Shell, Run]]),
    Rule::new("addresses_model", HiddenInstructions, Medium, Address),
    Rule::new("false_user", HiddenInstructions, High, FalseUser).near(
        240,
        &[&[
            Before, CallTool, Override, Address, FalseUser, YouMust, TakeFile, TakeSecret,
        ]],
    ),
    Rule::new("persona", HiddenInstructions, High, Persona),
    Rule::new("persona", HiddenInstructions, High, Unrestricted).near(240, &[OVERRULES]),
    Rule::new("persona", HiddenInstructions, High, Unrestricted).near(240, &[MARKS]),
    Rule::new("concealment", StealthInstruction, High, Conceal),
    Rule::new("silent_action", StealthInstruction, High, Silent).near(70, &[TAKES]),
    Rule::new("silent_action", StealthInstruction, High, Silent)
        .near(70, &[&[SendTo, Shell, Conceal, TakeSecret]]),
    Rule::new("silent_action", StealthInstruction, Low, Silent),
    Rule::new("consent_bypass", StealthInstruction, High, NoConsent)
        .near(160, &[&[Must, YouMust, Also, SendAny, CallTool, Address]]),
    Rule::new("consent_bypass", StealthInstruction, High, NoConsent).near(160, &[OVERRULES]),
    Rule::new("consent_bypass", StealthInstruction, Medium, NoConsent),
    Rule::new("credential_theft", CredentialTheft, Critical, TakeFile).near(
        160,
        &[&[
            Must, YouMust, Before, SendTo, SendAway, Conceal, Silent, Hostile, Run,
        ]],
    ),
    Rule::new("credential_theft", CredentialTheft, High, TakeFile),
    Rule::new("credential_theft", CredentialTheft, High, TakeSecret)
        .near(140, &[&[Before, Conceal, Silent, Hostile, SendAway]]),
    Rule::new("credential_theft", CredentialTheft, High, TakeSecret).near(240, &[OVERRULES]),
    Rule::new("credential_theft", CredentialTheft, High, TakeSecret).near(240, &[MARKS]),
    Rule::new("credential_theft", CredentialTheft, Medium, TakeSecret),
    Rule::new("credential_theft", CredentialTheft, Low, File),
    Rule::new("context_theft", Exfiltration, High, TakeContext),
    Rule::new("exfiltration", Exfiltration, Critical, SendTo).near(80, &[&[Hostile]]),
    Rule::new("exfiltration", Exfiltration, High, SendAway),
    Rule::new("hostile_address", Exfiltration, High, Hostile),
    Rule::new("data_beacon", Exfiltration, High, Beacon),
    Rule::new("data_beacon", Exfiltration, High, Tracker),
    Rule::new("redirection", Exfiltration, High, Redirect),
    Rule::new("cross_tool_override", CrossToolOverride, High, OtherTool).of_others(),
    Rule::new("cross_tool_override", CrossToolOverride, High, OtherTool)
        .foreign()
        .near(60, &[&[EveryUse]]),
    Rule::new("cross_tool_override", CrossToolOverride, Medium, OtherTool).foreign(),
    Rule::new("cross_tool_override", CrossToolOverride, High, ToolTrigger)
        .of_others()
        .near(160, &[&[ThisFirst, Tamper]]),
    Rule::new("cross_tool_override", CrossToolOverride, High, ToolTrigger)
        .foreign()
        .near(160, &[&[ThisFirst], &[SendAny, Tamper]]),
    Rule::new("cross_tool_override", CrossToolOverride, High, ToolTrigger)
        .foreign()
        .near(160, &[&[ThisFirst, Tamper]]),
    Rule::new("parameter_tampering", CrossToolOverride, High, Tamper)
        .near(160, &[&[EveryTool, Silent, Conceal, AlertTag, RoleTag, Address]]),
    Rule::new("cross_tool_override", CrossToolOverride, High, EveryTool),
    Rule::new("cross_tool_override", CrossToolOverride, Medium, Preferred),
    Rule::new("cross_tool_override", CrossToolOverride, High, CallTool)
        .foreign()
        .near(
            200,
            &[
                &[Before, Must, YouMust],
                &[
                    Conceal,
                    TakeFile,
                    TakeSecret,
                    TakeContext,
                    SendAway,
                    Silent,
                    NoConsent,
                    File,
                    FalseUser,
                ],
            ],
        ),
    Rule::new("shell_command", ShellInjection, High, Shell),
    Rule::new("shell_command", ShellInjection, Critical, Shell).near(200, &[MARKS]),
    Rule::new("shell_command", ShellInjection, Critical, Shell).near(200, &[HIDES]),
    Rule::new("path_traversal", PathTraversal, Medium, Climb),
    Rule::new("path_traversal", PathTraversal, High, Climb).near(40, &[&[File]]),
    Rule::new("decode_and_follow", HiddenInstructions, High, DecodeAndFollow),
    Rule::new("silent_action", StealthInstruction, High, SilentAct),
    Rule::new("credential_theft", CredentialTheft, High, TakeSecret)
        .near(100, &[&[Sink], &[Must, YouMust, Also, Authority, EveryOperation]]),
    Rule::new("credential_theft", CredentialTheft, High, TakeSecret)
        .near(160, &[&[Authority, EveryOperation, SilentAct]]),
    Rule::new("false_authority", HiddenInstructions, High, Authority).near(
        200,
        &[&[
            TakeFile,
            SendAway,
            Override,
            WeakOverride,
            Conceal,
            NoConsent,
            Redirect,
            Tamper,
            TakeContext,
        ]],
    ),
    Rule::new("cross_tool_override", CrossToolOverride, High, EveryOperation).near(
        200,
        &[
            &[ThisFirst, YouMust],
            &[
                TakeFile,
                TakeSecret,
                TakeContext,
                SendAway,
                SendTo,
                Shell,
                Conceal,
                File,
                Override,
                Redirect,
            ],
        ],
    ),
    Rule::new("cross_tool_override", CrossToolOverride, High, EveryOperation)
        .near(120, &[&[ThisFirst, YouMust]]),
    Rule::new("cross_tool_override", CrossToolOverride, High, BuiltinTool),
    Rule::new("silent_action", StealthInstruction, High, Silent).near(100, &[OVERRULES]),
    Rule::new("delayed_action", StealthInstruction, High, Delay).near(
        160,
        &[&[
            Override,
            WeakOverride,
            Silent,
            SendAway,
            TakeFile,
            TakeSecret,
            Conceal,
            Unrestricted,
            Hostile,
            Shell,
        ]],
    ),
    Rule::new("context_theft", Exfiltration, High, AskContext),
    Rule::new("exfiltration", Exfiltration, High, SendSecret),
    Rule::new("alert_tag", HiddenInstructions, High, CapsTag)
        .near(300, &[&[Must, YouMust, SendAny, Conceal, Run]]),
    Rule::new("breakout", HiddenInstructions, High, Breakout),
    Rule::new("credential_theft", CredentialTheft, High, Steal),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag).near(100, &[&[Obey, NewOrders]]),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag).near(160, &[&[Obey, Steal, SendAny]]),
    Rule::new("user_overruled", CrossToolOverride, High, Despite).near(90, &[&[Coerce, Hand, Alter]]),
    Rule::new("instruction_override", HiddenInstructions, High, RulesVoid).near(60, &[&[Guided]]),
    Rule::new("credential_theft", CredentialTheft, High, File).near(
        90,
        &[
            &[Hand, Contents],
            &[Coerce, ModelDuty, Authority, Sink],
            &[Get, Contents, Hand],
        ],
    ),
    Rule::new("credential_theft", CredentialTheft, High, Secret)
        .near(90, &[&[Get, Hand], &[Owned], &[Sink, ModelDuty, Authority]]),
    Rule::new("context_theft", Exfiltration, High, Talk).near(60, &[&[Hand], &[Sink]]),
    Rule::new("context_theft", Exfiltration, High, Talk).near(80, &[&[Hand], &[Literal, Authority]]),
    Rule::new("model_obliged", HiddenInstructions, High, ModelDuty)
        .near(110, &[&[Secret, File, Talk], &[Hand]]),
    Rule::new("redirection", Exfiltration, High, Inbox).near(60, &[&[Coerce, Despite, EveryCall]]),
    Rule::new("exfiltration", Exfiltration, High, SendTo).near(60, &[&[File, Talk, Conceal, Silent]]),
    Rule::new("cross_tool_override", CrossToolOverride, High, Disparage),
    Rule::new("cross_tool_override", CrossToolOverride, High, Monopoly),
    Rule::new("parameter_tampering", CrossToolOverride, High, ToolEvent).near(90, &[&[Alter]]),
    Rule::new("parameter_tampering", CrossToolOverride, High, Alter)
        .near(90, &[&[Conceal, Literal, PayTo, Delay]]),
    Rule::new("cross_tool_override", CrossToolOverride, High, EveryCall).near(60, &[&[Hand], &[Coerce]]),
    Rule::new("consent_bypass", StealthInstruction, High, Unasked),
    Rule::new("protection_off", StealthInstruction, High, Disarm)
        .near(60, &[&[Silent, Conceal, Delay, Before, ToolEvent]]),
    Rule::new("credential_theft", CredentialTheft, High, Authority)
        .near(100, &[&[Secret, Talk, File], &[Hand, Get], &[Coerce, Sink]]),
    Rule::new("delayed_action", StealthInstruction, High, Delay).near(80, &[&[Alter, Disarm, Inbox]]),
    Rule::new("deception", StealthInstruction, High, Deceive),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag).near(
        110,
        &[
            &[Secret, File, Talk, Literal, PayTo, Grant, Hand],
            &[Coerce, Hand],
        ],
    ),
    Rule::new("addresses_model", HiddenInstructions, High, Address)
        .near(110, &[&[Secret, File, Literal, Talk, PayTo, Grant]]),
    Rule::new("rights_given", CrossToolOverride, High, Grant).near(60, &[&[Literal, Delay, Conceal]]),
    Rule::new("redirection", Exfiltration, High, PayTo),
    Rule::new("false_user", HiddenInstructions, High, FalseUser).near(200, &[&[AnyTag], &[YouMust, Hand]]),
    Rule::new("follows_data", HiddenInstructions, High, Follow),
    Rule::new("model_obliged", HiddenInstructions, High, ModelDuty).near(110, &[&[Goods], &[Hand]]),
    Rule::new("protection_off", StealthInstruction, High, Disarm).near(60, &[&[Coerce]]),
    Rule::new("credential_theft", CredentialTheft, High, Delay).near(90, &[&[Secret, File, Talk], &[Hand]]),
    Rule::new("false_user", HiddenInstructions, High, FalseUser)
        .near(80, &[&[Get, Hand], &[Owned, Secret, Goods]]),
    Rule::new("exfiltration", Exfiltration, High, SendTo).near(60, &[&[Secret], &[Owned]]),
];
