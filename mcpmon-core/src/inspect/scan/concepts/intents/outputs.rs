//! What a sentence in data is up to.

use super::{super::Concept::*, Intent};
use crate::model::Category::{CredentialTheft, Exfiltration, HiddenInstructions, StealthInstruction};

/// What is said.
pub(super) const SAID: &[Intent] = &[
    // A model is called, and told to do what no document tells it
    Intent::new("addresses_model", HiddenInstructions, &[&[Order, Must]])
        .beside(&[
            &[Called],
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
            &[Give, Run, Use, Destroy],
            &[Address, Account, Goods, Talk, Personal, Foreign, Wide],
        ],
    )
    .beside(&[&[Called]])
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
    .beside(&[&[Model, Called]])
    .never(&[Against]),
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
