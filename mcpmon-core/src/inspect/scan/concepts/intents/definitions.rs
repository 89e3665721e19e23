//! What a sentence of a definition is up to.

use super::{
    super::Concept::{self, *},
    Intent,
};
use crate::model::Category::{
    CredentialTheft, CrossToolOverride, Exfiltration, HiddenInstructions, ShellInjection, StealthInstruction,
};

/// What makes a sentence one that tells of something.
const TOLD: &[Concept] = &[Itself, Against, Opening, Parameter];

/// What is said.
pub(super) const SAID: &[Intent] = &[
    // Files of secrets
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[
            &[File],
            &[Take, Give, Hold],
            &[Must, First, Else, You, Slot, Named, All, Order],
        ],
    )
    .never(&[Itself, Against, Opening]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[
            &[File],
            &[Take, Give, Hold],
            &[Must, First, Else, You, Slot, Named, Order],
        ],
    )
    .never(&[Itself, Against]),
    Intent::new("credential_theft", CredentialTheft, &[&[File], &[Take]])
        .beside(&[&[Give, Hold], &[Must, Slot, Named, You, Else, Order]])
        .never(&[Itself, Against]),
    // Secrets in a parameter that is not meant for them
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[
            &[Secret],
            &[Named],
            &[Give, Take],
            &[Owned, All, Must, First, Else, You, User, Order],
        ],
    )
    .never(&[Itself, Against, Fitting]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[
            &[Secret],
            &[Owned],
            &[Give, Hold, Take],
            &[Must, First, Else, You, Slot, Order],
        ],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[&[Secret], &[Owned], &[Give, Hold, Take]],
    )
    .beside(&[&[Must, Slot, Named, Order]])
    .never(&[Itself, Against]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[&[Secret], &[Take, Talk], &[Owned]],
    )
    .beside(&[&[Give, Hold], &[Slot, Named, Must, Order]])
    .never(&[Itself, Against, Fitting]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[
            &[Secret],
            &[Order],
            &[Give],
            &[Slot, Address, Condition, Haste, First],
        ],
    )
    .never(&[Itself, Against, Fitting, Opening]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[&[Secret], &[Take], &[Give], &[First, Must, Slot]],
    )
    .never(&[Itself, Against, Fitting, Opening]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[&[Secret], &[Order], &[Give]],
    )
    .beside(&[&[Address]])
    .never(&[Itself, Against, Fitting, Opening]),
    // What was said
    Intent::new(
        "context_theft",
        Exfiltration,
        &[&[Talk, Heard], &[All], &[Give, Hold], &[Must, Slot, Named, First]],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "context_theft",
        Exfiltration,
        &[&[Talk, Heard], &[Named], &[Give, Hold], &[All, Must, You, Order]],
    )
    .never(&[Itself, Against]),
    Intent::new("context_theft", Exfiltration, &[&[Talk], &[Take]])
        .beside(&[&[Give], &[Named]])
        .never(&[Itself, Against]),
    Intent::new("context_theft", Exfiltration, &[&[Heard], &[All, Give, Hold]]).never(&[Itself, Against]),
    Intent::new(
        "context_theft",
        Exfiltration,
        &[
            &[Talk, Heard],
            &[Parameter],
            &[All],
            &[Give, Hold],
            &[Model, You, Order],
        ],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "context_theft",
        Exfiltration,
        &[
            &[Authority],
            &[Talk, Goods, Secret, Personal],
            &[Give, Hold],
            &[Slot, Named, All, Order],
            &[Must, Order, Model],
        ],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[&[Haste], &[Secret], &[Give], &[Must, Order, You, Model]],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "credential_theft",
        CredentialTheft,
        &[
            &[Secret],
            &[Parameter],
            &[Owned],
            &[Take, Give],
            &[Model, You, Order],
        ],
    )
    .never(&[Itself, Against, Fitting]),
    Intent::new(
        "redirection",
        Exfiltration,
        &[&[Regardless], &[Address, Account], &[Every]],
    )
    .never(&[Itself, Opening]),
    // The user is not to know
    Intent::new("concealment", StealthInstruction, &[&[Kept]]).never(&[Itself]),
    Intent::new("concealment", StealthInstruction, &[&[Nots], &[Tells], &[User]]),
    Intent::new("concealment", StealthInstruction, &[&[Nots], &[Tells]]).beside(&[&[User]]),
    Intent::new(
        "concealment",
        StealthInstruction,
        &[&[Hide], &[User], &[Act, Deed], &[Order, Must, You]],
    )
    .never(&[Itself, Opening]),
    // Other tools
    Intent::new("cross_tool_override", CrossToolOverride, &[&[OtherTools], &[Bad]]).never(&[Itself]),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[Sweep], &[This], &[Must, First, Regardless]],
    ),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[Calls], &[Every], &[Route]],
    )
    .never(&[Itself]),
    Intent::new("cross_tool_override", CrossToolOverride, &[&[Foreign], &[Bad]]),
    Intent::new(
        "parameter_tampering",
        CrossToolOverride,
        &[
            &[Foreign],
            &[Alter, Give],
            &[Target],
            &[Address, Account, Must, Every, Order],
        ],
    )
    .never(&[Itself, Parameter]),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[OtherTools], &[Avoid]],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[NothingElse], &[Else, First]],
    )
    .never(&[Itself]),
    Intent::new(
        "parameter_tampering",
        CrossToolOverride,
        &[&[OtherTools, Foreign], &[Target], &[Alter], &[Address, Account]],
    )
    .never(&[Itself, Parameter]),
    Intent::new(
        "parameter_tampering",
        CrossToolOverride,
        &[&[Address], &[Target], &[Alter], &[You], &[Every, Must]],
    )
    .never(&[Itself, Parameter, Opening]),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[OtherTools], &[Overrule]],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[OtherTools], &[Give], &[Must, Every], &[This, Named]],
    )
    .never(&[Itself, Against, Parameter]),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[Foreign], &[Avoid], &[This, Use]],
    )
    .never(&[Itself, Against, Parameter]),
    // Who gets it is another than the user chose
    Intent::new(
        "parameter_tampering",
        CrossToolOverride,
        &[&[Whom], &[Swap], &[Order, Must, First, Every]],
    )
    .never(TOLD),
    // A model is called, which descriptions have no need of
    Intent::new("addresses_model", HiddenInstructions, &[&[Order, Must, Bids]])
        .beside(&[&[Called], &[Secret, File, Heard, Hide, Kept, Drop, Settled, Free]])
        .never(&[Against, Itself]),
    // What the user wants does not count
    Intent::new(
        "user_overruled",
        CrossToolOverride,
        &[&[Regardless], &[Wish], &[Order, Must, Bids]],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "follows_data",
        HiddenInstructions,
        &[&[Obey], &[Slot, Outside], &[Regardless]],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "concealment",
        StealthInstruction,
        &[&[Hide], &[Answer], &[Must, Order]],
    )
    .never(&[Itself, Opening, Against]),
    Intent::new(
        "rights_given",
        CrossToolOverride,
        &[&[Public], &[Alter, Grant], &[Must, Order, First]],
    )
    .never(TOLD),
    // Data goes out
    Intent::new(
        "exfiltration",
        Exfiltration,
        &[
            &[Elsewhere],
            &[Give],
            &[Goods, Talk, Personal, Secret],
            &[Order, Must],
        ],
    )
    .never(TOLD),
    Intent::new(
        "shell_command",
        ShellInjection,
        &[
            &[Address],
            &[Load],
            &[Start],
            &[Settled, Haste, Hide, Right, Order],
        ],
    )
    .never(TOLD),
    Intent::new(
        "destruction",
        ShellInjection,
        &[&[Wide], &[Destroy], &[Order, Must]],
    )
    .never(TOLD),
    Intent::new(
        "exfiltration",
        Exfiltration,
        &[
            &[Address],
            &[Give],
            &[Goods, Talk, Personal, Secret],
            &[Must, Order, First],
        ],
    )
    .never(TOLD),
    Intent::new(
        "exfiltration",
        Exfiltration,
        &[&[Address], &[Give], &[Owned], &[Goods, Talk, Personal, Secret]],
    )
    .never(&[Itself, Against, Parameter]),
    Intent::new(
        "exfiltration",
        Exfiltration,
        &[&[Public], &[Give, Grant], &[Goods], &[Order]],
    )
    .never(TOLD),
    Intent::new(
        "shell_command",
        ShellInjection,
        &[&[Program], &[Run, Give], &[Must, Order, Address]],
    )
    .never(TOLD),
    Intent::new(
        "shell_command",
        ShellInjection,
        &[
            &[Loadable],
            &[Run],
            &[Order, Must],
            &[Address, Haste, Hide, Right],
        ],
    )
    .never(TOLD),
    Intent::new("shell_command", ShellInjection, &[&[Console], &[Order, Bids]])
        .beside(&[&[Else], &[Model]])
        .never(TOLD),
    // Nobody is asked
    Intent::new(
        "consent_bypass",
        StealthInstruction,
        &[&[Settled], &[Ask], &[Every]],
    )
    .never(&[Itself]),
    Intent::new(
        "consent_bypass",
        StealthInstruction,
        &[&[Settled], &[User], &[Consent]],
    )
    .never(&[Itself]),
    Intent::new(
        "consent_bypass",
        StealthInstruction,
        &[&[Objects], &[Regardless], &[User]],
    )
    .never(&[Itself]),
    // Rules
    Intent::new("persona", HiddenInstructions, &[&[Free], &[You, Order, Persona]]).never(&[Itself, Against]),
    Intent::new(
        "instruction_override",
        HiddenInstructions,
        &[&[Overrule], &[Rules], &[Prior, You]],
    )
    .never(&[Itself, Against]),
    Intent::new(
        "instruction_override",
        HiddenInstructions,
        &[&[Wish], &[Overrule]],
    )
    .never(&[Itself, Against]),
    // Protection, rights, the truth
    Intent::new(
        "protection_off",
        StealthInstruction,
        &[&[Guard], &[Disable], &[Must, First, Order]],
    )
    .never(&[Itself, Parameter, Opening]),
    Intent::new(
        "protection_off",
        StealthInstruction,
        &[&[Trail], &[Destroy], &[Later, Hide, Act], &[Order, Must]],
    )
    .never(&[Itself, Parameter]),
    Intent::new(
        "rights_given",
        CrossToolOverride,
        &[&[Right], &[Grant], &[Every, Address, Hide], &[Order, Must, First]],
    )
    .never(&[Itself, Parameter, Opening]),
    Intent::new(
        "deception",
        StealthInstruction,
        &[&[Fine, Trouble], &[Claim], &[Regardless, Always]],
    )
    .never(&[Itself]),
    Intent::new(
        "delayed_action",
        StealthInstruction,
        &[&[Later], &[Goods, Secret, Talk, File], &[Give, Take]],
    )
    .never(&[Itself, Opening]),
    Intent::new("standing_order", HiddenInstructions, &[&[Remember], &[Forever]]).never(&[Condition]),
    Intent::new("endless_calls", CrossToolOverride, &[&[Again], &[Use]]),
    Intent::new(
        "steered_advice",
        HiddenInstructions,
        &[&[Praise], &[Sponsor], &[Order, Must]],
    )
    .never(&[Itself]),
    Intent::new(
        "steered_advice",
        HiddenInstructions,
        &[&[Praise], &[Hide, Trouble], &[Order, Must, Every]],
    )
    .never(&[Itself, Against]),
    Intent::new("follows_data", HiddenInstructions, &[&[Heed], &[Outside]]).never(&[Itself, Against]),
    Intent::new(
        "follows_data",
        HiddenInstructions,
        &[&[Obey], &[Rules], &[Address]],
    )
    .never(&[Itself]),
];

/// What is not to be done, or not so.
pub(super) const DENIED: &[Intent] = &[
    Intent::new("concealment", StealthInstruction, &[&[User], &[Act, Deed]])
        .denied(&[&[Tell]])
        .never(&[Itself]),
    Intent::new("concealment", StealthInstruction, &[&[Deed]])
        .denied(&[&[Tell]])
        .never(&[Itself, Against]),
    Intent::new("concealment", StealthInstruction, &[&[Answer], &[Act, Deed]])
        .denied(&[&[Trace, Tell]])
        .never(&[Itself]),
    Intent::new(
        "cross_tool_override",
        CrossToolOverride,
        &[&[OtherTools], &[This]],
    )
    .denied(&[&[Use]])
    .never(&[Itself]),
    Intent::new(
        "consent_bypass",
        StealthInstruction,
        &[&[Must, Settled, Act, You, Destroy, Money, Order]],
    )
    .denied(&[&[Ask], &[Consent]])
    .never(&[Itself]),
    Intent::new("consent_bypass", StealthInstruction, &[&[Settled]])
        .denied(&[&[Ask]])
        .never(&[Itself]),
    Intent::new("consent_bypass", StealthInstruction, &[&[Settled, Avoid]])
        .denied(&[&[Consent]])
        .never(TOLD),
    Intent::new("deception", StealthInstruction, &[&[Alter], &[Target]])
        .denied(&[&[Tell]])
        .never(&[Itself, Opening]),
    Intent::new(
        "follows_data",
        HiddenInstructions,
        &[&[Obey], &[Outside], &[Rules]],
    )
    .denied(&[&[Consent, Ask]]),
];
