//! What a sentence in data is up to.

use super::{super::Concept::*, Intent};
use crate::model::Category::{
    CredentialTheft, CrossToolOverride, Exfiltration, HiddenInstructions, ShellInjection, StealthInstruction,
};

/// What is said.
pub(super) const SAID: &[Intent] = &[
    // A model is called, and told to do what no document tells it
    Intent::new("addresses_model", HiddenInstructions, &[&[Order, Must, Bids]])
        .beside(&[
            &[Called, Posed],
            &[
                Secret, File, Heard, Hide, Kept, Drop, Grant, Praise, Settled, Wish, Free, Money,
            ],
        ])
        .never(&[Against, Itself]),
    Intent::new(
        "addresses_model",
        HiddenInstructions,
        &[
            &[Order, Must],
            &[Give, Run, Use, Destroy, Disable, Grant, Claim, Alter, Obey],
            &[
                Address, Account, Goods, Talk, Personal, Foreign, Wide, Guard, Right, Program, Console,
                Trail, Public,
            ],
        ],
    )
    .beside(&[&[Called, Posed]])
    .never(&[Against, Itself]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[&[Secret, File, Heard], &[Give], &[Order], &[Address, Answer, Me]],
    )
    .beside(&[&[Model, Called]])
    .never(&[Against, Itself]),
    Intent::new(
        "instruction_override",
        HiddenInstructions,
        &[&[Drop], &[Rules], &[Prior, You, Model]],
    )
    .never(&[Against]),
    Intent::new("instruction_override", HiddenInstructions, &[&[Drop], &[Wish]]).never(&[Against]),
    Intent::new(
        "concealment",
        StealthInstruction,
        &[&[Kept, Hide], &[User], &[Model, You, Order]],
    )
    .beside(&[&[Called], &[Give, Run, Take, Destroy, Praise]])
    .never(&[Against]),
    Intent::new(
        "consent_bypass",
        StealthInstruction,
        &[&[Settled], &[User, Consent], &[Model, You, Order]],
    )
    .beside(&[&[Called]])
    .never(&[Against]),
    Intent::new(
        "tool_command",
        HiddenInstructions,
        &[&[Model], &[Must], &[Use, Run], &[Foreign, Program, Destroy]],
    )
    .never(&[Against]),
    Intent::new(
        "tool_command",
        HiddenInstructions,
        &[
            &[You],
            &[Must],
            &[Use, Run],
            &[Foreign],
            &[Account, First, Haste, Address, Program],
        ],
    )
    .never(&[Against]),
    Intent::new(
        "redirection",
        Exfiltration,
        &[&[Money], &[Account, Address], &[Order, Must]],
    )
    .beside(&[&[Model, Called, Posed]])
    .never(&[Against]),
    // It is told what to do with what is secret, and where to
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[&[Secret, File, Heard], &[Give, Take], &[Address, Public, Account]],
    )
    .beside(&[&[Called, Posed, Played, Marked]])
    .never(&[Against, Itself]),
    Intent::new(
        "instruction_override",
        HiddenInstructions,
        &[&[Overrule], &[Rules, Wish]],
    )
    .beside(&[&[Called, Posed, Played, Marked]])
    .never(&[Against]),
    Intent::new(
        "false_user",
        HiddenInstructions,
        &[
            &[Order],
            &[Give, Grant, Destroy, Alter, Run],
            &[Address, Account, Wide, Secret, File, Heard, Right],
        ],
    )
    .beside(&[&[Played]])
    .never(&[Against]),
    Intent::new(
        "chat_format",
        HiddenInstructions,
        &[
            &[Order, Must],
            &[Give, Grant, Destroy, Disable, Run, Take, Alter],
            &[
                Address, Account, Wide, Secret, File, Heard, Right, Goods, Guard, Foreign, Money, Settled,
            ],
        ],
    )
    .beside(&[&[Marked]])
    .never(&[Against]),
    Intent::new(
        "chat_format",
        HiddenInstructions,
        &[&[Order], &[Give, Grant, Destroy, Disable, Run]],
    )
    .beside(&[&[Marked], &[Money, Guard, Settled, Secret, Hide]])
    .never(&[Against]),
    Intent::new("persona", HiddenInstructions, &[&[Persona]])
        .beside(&[&[Marked]])
        .never(&[Against]),
    // Someone poses as who gives orders, and wants something
    Intent::new(
        "false_authority",
        HiddenInstructions,
        &[&[Secret, File, Heard], &[Give, Tell, Claim]],
    )
    .beside(&[&[Posed]])
    .never(&[Against, Itself]),
    Intent::new(
        "false_authority",
        HiddenInstructions,
        &[&[Give, Destroy, Run, Grant], &[Owned, User, Wide, Goods]],
    )
    .beside(&[&[Called], &[Posed]])
    .never(&[Against]),
    Intent::new(
        "context_theft",
        Exfiltration,
        &[&[Heard], &[Give, Tell, Hold], &[You, Order]],
    )
    .beside(&[&[Order, Must]])
    .never(&[Against, Itself]),
    Intent::new("concealment", StealthInstruction, &[&[Kept], &[User]])
        .beside(&[
            &[Give, Run, Destroy, Grant],
            &[Address, Loadable, Program, Secret, Money, Goods, Wide],
        ])
        .never(&[Against]),
    Intent::new("persona", HiddenInstructions, &[&[Free], &[You]])
        .beside(&[&[Order]])
        .never(&[Against]),
    // A model has to do what no document asks of one
    Intent::new(
        "model_obliged",
        HiddenInstructions,
        &[
            &[Obliged],
            &[Give, Run, Destroy, Disable, Grant, Claim],
            &[
                Address, Account, Secret, File, Heard, Money, Settled, Hide, Kept, Free,
            ],
        ],
    )
    .never(&[Against, Itself]),
    Intent::new(
        "rights_given",
        CrossToolOverride,
        &[&[Right], &[Grant, Give], &[Address, Me], &[Order, Haste]],
    )
    .beside(&[&[Called, Posed, Played, You, Model]])
    .never(&[Against]),
    Intent::new(
        "shell_command",
        ShellInjection,
        &[
            &[Program, Loadable, Console],
            &[Run],
            &[Order, Must],
            &[Address, Hide, Settled, Destroy],
        ],
    )
    .beside(&[&[Called, Posed, Obliged]])
    .never(&[Against]),
    Intent::new(
        "deception",
        StealthInstruction,
        &[&[Claim], &[User], &[Fine, Trouble], &[Order]],
    )
    .beside(&[&[Called, Posed, Run, Destroy, Give]])
    .never(&[Against]),
    Intent::new("standing_order", HiddenInstructions, &[&[Remember], &[Forever]])
        .beside(&[&[Money, Secret, Address, Account, Hide]])
        .never(&[Against, Condition]),
    // A notice, of the system or for people
    Intent::new("false_authority", HiddenInstructions, &[&[Order, Must]])
        .beside(&[
            &[Noted],
            &[File, Heard, Hide, Kept, Drop, Settled, Wish, Free, Called],
        ])
        .never(&[Against, Itself]),
    Intent::new(
        "false_authority",
        HiddenInstructions,
        &[
            &[Order, Obliged],
            &[Give, Run, Destroy, Disable, Grant],
            &[Secret, Account, Address, Goods, Guard, Wide],
        ],
    )
    .beside(&[&[Noted], &[Model, Called, Grant, Haste]])
    .never(&[Against, Itself]),
    Intent::new(
        "persona",
        HiddenInstructions,
        &[&[Free], &[You], &[Persona, Order, Must]],
    )
    .never(&[Against]),
];

/// What is not to be done, or not so.
pub(super) const DENIED: &[Intent] =
    &[
        Intent::new("concealment", StealthInstruction, &[&[Model], &[Must], &[Act]])
            .denied(&[&[Tell]])
            .never(&[Against, Itself]),
    ];
