//! What follows in outputs: the text has to speak to the model, since documents speak of everything else.

use super::{HIDES, MARKS, OVERRULES, Rule, TAKES};
use crate::{
    inspect::scan::signals::Signal::*,
    model::{
        Category::{CredentialTheft, Exfiltration, HiddenInstructions, ShellInjection, StealthInstruction},
        Severity::{High, Medium},
    },
};

pub(super) const RULES: &[Rule] = &[
    Rule::new("poses_as_mcpmon", HiddenInstructions, High, PosesAsGuard).near(300, &[&[LiftsGuard]]),
    Rule::new("poses_as_mcpmon", HiddenInstructions, High, PosesAsGuard).near(
        240,
        &[&[
            YouMust,
            Obey,
            TakeFile,
            TakeSecret,
            TakeContext,
            SendTo,
            SendAway,
            Shell,
            Unasked,
            NoConsent,
            Conceal,
            Override,
            Disarm,
        ]],
    ),
    Rule::new("poses_as_mcpmon", HiddenInstructions, Medium, PosesAsGuard),
    Rule::new("protection_off", StealthInstruction, High, LiftsGuard).near(240, &[MARKS]),
    Rule::new("protection_off", StealthInstruction, High, LiftsGuard).near(
        160,
        &[&[YouMust, Obey], &[Before, Conceal, CallTool, Unasked, NoConsent]],
    ),
    Rule::new("protection_off", StealthInstruction, Medium, LiftsGuard),
    Rule::new("instruction_override", HiddenInstructions, High, Override),
    Rule::new("instruction_override", HiddenInstructions, High, WeakOverride).near(240, &[MARKS]),
    Rule::new("instruction_override", HiddenInstructions, High, WeakOverride)
        .near(240, &[&[Override, Precedence, Persona, Unrestricted]]),
    Rule::new("instruction_override", HiddenInstructions, Medium, WeakOverride).near(60, &[&[Must, Run]]),
    Rule::new("claimed_precedence", HiddenInstructions, High, Precedence).near(240, &[OVERRULES]),
    Rule::new("claimed_precedence", HiddenInstructions, High, Precedence).near(240, &[MARKS]),
    Rule::new("chat_format", HiddenInstructions, High, ChatToken).near(200, &[OVERRULES]),
    Rule::new("chat_format", HiddenInstructions, High, ChatToken).near(200, &[TAKES]),
    Rule::new("chat_format", HiddenInstructions, High, ChatToken)
        .near(200, &[&[Obey, Conceal, Shell, CallTool, YouMust]]),
    Rule::new("chat_format", HiddenInstructions, Medium, ChatToken),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag).near(240, &[OVERRULES]),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag)
        .near(240, &[TAKES, &[Must, YouMust, Before, Conceal]]),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag)
        .near(240, &[&[Conceal, Obey, Shell], &[Must, YouMust, Before]]),
    Rule::new("false_authority", HiddenInstructions, High, RoleTag)
        .near(240, &[&[CallTool, SendTo], &[YouMust]]),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag).near(300, &[OVERRULES]),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag).near(300, &[&[Conceal, Address, FalseUser]]),
    Rule::new("alert_tag", HiddenInstructions, High, AlertTag)
        .near(300, &[TAKES, &[YouMust, Before, Conceal]]),
    Rule::new("hidden_text", HiddenInstructions, High, HiddenPlace).near(240, &[OVERRULES]),
    Rule::new("hidden_text", HiddenInstructions, High, HiddenPlace).near(
        140,
        &[
            &[Conceal, Address, Exfil],
            &[
                YouMust,
                SendTo,
                TakeFile,
                TakeSecret,
                TakeContext,
                Hostile,
                Override,
                Exfil,
            ],
        ],
    ),
    Rule::new("hidden_text", HiddenInstructions, High, HiddenPlace)
        .near(140, &[&[YouMust], &[TakeFile, TakeContext, SendAway, Hostile]]),
    Rule::new("new_orders", HiddenInstructions, High, NewOrders),
    Rule::new("alert_tag", HiddenInstructions, High, TaskTag).near(200, &[&[Override, Conceal, FalseUser]]),
    Rule::new("addresses_model", HiddenInstructions, High, Address).near(260, &[OVERRULES]),
    Rule::new("addresses_model", HiddenInstructions, High, Address).near(
        260,
        &[&[
            TakeFile,
            TakeContext,
            SendAway,
            Redirect,
            Hostile,
            Conceal,
            FalseUser,
            Shell,
        ]],
    ),
    Rule::new("addresses_model", HiddenInstructions, Medium, Address)
        .near(260, &[&[CallTool, SendTo, Run, TakeSecret]]),
    Rule::new("false_user", HiddenInstructions, High, FalseUser).near(
        240,
        &[&[
            CallTool, Override, Address, FalseUser, YouMust, TakeFile, TakeSecret,
        ]],
    ),
    Rule::new("persona", HiddenInstructions, High, Persona),
    Rule::new("persona", HiddenInstructions, High, Unrestricted).near(240, &[OVERRULES]),
    Rule::new("persona", HiddenInstructions, High, Unrestricted).near(240, &[MARKS]),
    Rule::new("concealment", StealthInstruction, Medium, Conceal),
    Rule::new("concealment", StealthInstruction, High, Conceal).near(240, &[OVERRULES]),
    Rule::new("concealment", StealthInstruction, High, Conceal).near(240, &[MARKS]),
    Rule::new("concealment", StealthInstruction, High, Conceal).near(
        240,
        &[&[
            TakeFile,
            TakeContext,
            SendAway,
            Redirect,
            Shell,
            CallTool,
            Hostile,
            Silent,
        ]],
    ),
    Rule::new("credential_theft", CredentialTheft, High, TakeFile).near(
        120,
        &[
            &[YouMust, Before, Conceal, Exfil],
            &[SendAny, SendTo, SendAway, CallTool, Conceal, Exfil, TakeSecret],
        ],
    ),
    Rule::new("credential_theft", CredentialTheft, High, TakeFile)
        .near(200, &[MARKS, &[SendTo, SendAway, YouMust, Before, Conceal]]),
    Rule::new("credential_theft", CredentialTheft, High, TakeFile).near(200, &[OVERRULES]),
    Rule::new("context_theft", Exfiltration, High, AskContext),
    Rule::new("exfiltration", Exfiltration, High, Hostile).near(
        160,
        &[
            &[SendTo, SendAway, TakeFile, TakeContext, CallTool, Redirect],
            &[Must, YouMust, Before, Conceal, Obey, Override, RoleTag, Address],
        ],
    ),
    Rule::new("exfiltration", Exfiltration, High, Exfil)
        .near(80, &[&[SendTo, TakeSecret, TakeFile, Hostile]]),
    Rule::new("data_beacon", Exfiltration, High, Beacon).near(400, &[MARKS]),
    Rule::new("data_beacon", Exfiltration, High, Beacon).near(400, &[OVERRULES]),
    // Where the text orders it, and says what it is to carry or where it is to stand.
    Rule::new("data_beacon", Exfiltration, High, Beacon)
        .near(240, &[&[InAnswer], &[SendAny, Must, YouMust, ShowMe]]),
    Rule::new("data_beacon", Exfiltration, High, Beacon).near(
        160,
        &[&[Talk, TakeContext, Secret], &[SendAny, Must, YouMust, ShowMe]],
    ),
    Rule::new("data_beacon", Exfiltration, Medium, Beacon),
    Rule::new("redirection", Exfiltration, High, Redirect).near(
        200,
        &[&[Conceal, Silent, Address, RoleTag, HiddenPlace, Override]],
    ),
    Rule::new("tool_command", HiddenInstructions, High, YouMust).near(
        120,
        &[
            &[CallTool],
            &[
                Shell,
                TakeFile,
                SendTo,
                SendAway,
                TakeContext,
                File,
                Hostile,
                Override,
            ],
        ],
    ),
    Rule::new("tool_command", HiddenInstructions, High, Obey).near(
        160,
        &[&[
            CallTool, SendTo, SendAway, TakeFile, TakeSecret, Override, Hostile, Shell,
        ]],
    ),
    Rule::new("shell_command", ShellInjection, High, Shell).near(200, &[OVERRULES]),
    Rule::new("shell_command", ShellInjection, High, Shell)
        .near(200, &[&[Address, RoleTag, ChatToken, HiddenPlace], HIDES]),
    Rule::new("shell_command", ShellInjection, High, Shell).near(160, &[&[YouMust], &[CallTool, Hostile]]),
    Rule::new("decode_and_follow", HiddenInstructions, High, DecodeAndFollow),
    Rule::new("exfiltration", Exfiltration, High, SendSecret),
    Rule::new("breakout", HiddenInstructions, High, Breakout).near(240, &[OVERRULES]),
    Rule::new("breakout", HiddenInstructions, High, Breakout)
        .near(240, &[&[RoleTag, NewOrders, Obey, ChatToken, Address, TaskTag]]),
    Rule::new("breakout", HiddenInstructions, Medium, Breakout),
    Rule::new("credential_theft", CredentialTheft, High, TakeFile).near(50, &[&[ShowMe]]),
    Rule::new("credential_theft", CredentialTheft, High, Steal)
        .near(120, &[&[Must, YouMust, SendTo, ShowMe, Conceal, RoleTag]]),
    Rule::new("instruction_override", HiddenInstructions, High, RulesVoid).near(160, &[MARKS]),
    Rule::new("consent_bypass", StealthInstruction, High, Unasked).near(120, &[MARKS]),
    Rule::new("consent_bypass", StealthInstruction, High, Unasked).near(60, &[&[Before, YouMust, Obey]]),
    Rule::new("addresses_model", HiddenInstructions, High, Address).near(
        160,
        &[&[
            Unasked, RulesVoid, Deceive, Grant, PayTo, Inbox, NewOrders, Disarm,
        ]],
    ),
    Rule::new("false_user", HiddenInstructions, High, FalseUser).near(
        160,
        &[&[
            TakeContext,
            Inbox,
            PayTo,
            Grant,
            Shell,
            Secret,
            Unasked,
            Persona,
            RulesVoid,
            Deceive,
        ]],
    ),
    Rule::new("credential_theft", CredentialTheft, High, TakeFile)
        .near(120, &[&[TaskTag, AlertTag], &[ShowMe, SendAny]]),
    Rule::new("addresses_model", HiddenInstructions, High, Address)
        .near(160, &[&[ModelDuty], &[Shell, Grant]]),
];
