//! What the user is not to know, not to see, not to be asked.

use super::{Shape, Signal};

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        signal: Signal::Conceal,
        anchors: &[
            "tell ", "telling", "mention", "inform ", "informing", "informed", "reveal", "disclos", "notify", "notified", "alert ", "alerting",
            "expose ", "exposing", "divulg", "acknowledg", "warn ", "show ", "showing", "display ", "displaying", "report ", "reporting", "explain ", "discuss ", "announc", "let the user", "let them",
        ],
        pattern: r"\b(?:do not|don.?t|never|must not|mustn.?t|should not|shouldn.?t|avoid|refrain from|without|need not|no need to|not to)%s%(?:(?:ever|explicitly|directly|be|also|even|try to|attempt to|openly|simply|under any circumstances)%s%){0,2}%tell%(?:%s%(?:[a-z'-]+%s%){0,7}?(?:to|with|from|for))?%s%(?:(?:the|any|your|our|this|that|it|these)%s%){0,2}(?:[a-z-]+%s%)?%person%\b",
    },
    Shape {
        signal: Signal::Conceal,
        anchors: &["mention", "disclos", "reveal", "divulg", "acknowledg"],
        pattern: r"\b(?:do not|don.?t|never|must not|should not|avoid|refrain from|without)%s%(?:(?:ever|explicitly|be)%s%){0,2}(?:mention(?:ing)?|disclos(?:e|ing)|reveal(?:ing)?|divulg(?:e|ing)|acknowledg(?:e|ing))%s%(?:that you|that (?:this|it|the|an?)|this|these|it\b|the (?:existence|presence|fact|above|file|reading|instruction|transfer|copy|upload|extra|additional|real|actual|source|requirement)|any of|why|how|where)",
    },
    Shape {
        signal: Signal::Conceal,
        anchors: &[
            "hide ",
            "hidden from",
            "secret from",
            "conceal",
            "keep this",
            "keep it",
            "keep the",
            "must not know",
            "not know",
            "not be aware",
            "not see",
            "not notice",
            "unaware",
            "knowledge",
            "confidential",
            "between us",
            "unnoticed",
            "not be told",
            "not be informed",
            "not be shown",
            "not be mentioned",
            "not be visible",
        ],
        pattern: r"\b(?:hid(?:e|ing|den)|conceal(?:ing|ed)?|keep(?:ing)?|withhold(?:ing)?)%s%(?:[a-z'-]+%s%){0,7}?from%s%(?:(?:the|any|your)%s%)?%person%\b|\b%person%%s%(?:must|should|does|do|will|need|needs|is|are|may|can|would)%s%?(?:not|n.t|never)%s%(?:be%s%|to%s%|need to%s%)?(?:know|see|notice|learn|be (?:told|informed|aware|notified|shown)|aware|told|informed|notified|shown|realize|find out|visible)\b|\bkeep%s%(?:this|it|that|these|the%s%[a-z]+)%s%(?:[a-z]+%s%){0,4}?(?:secret|hidden|confidential|quiet|between us|invisible|private from|silent)\b|\bwithout%s%(?:the%s%|their%s%|any%s%|your%s%)?(?:%person%'?s?%s%)?(?:knowledge|awareness|noticing|being noticed|knowing|realizing)\b|\b(?:not|never)%s%be%s%(?:mentioned|disclosed|revealed|shown|reported|visible|displayed)%s%(?:to|in front of)%s%(?:the%s%)?%person%\b",
    },
    Shape {
        signal: Signal::Silent,
        anchors: &[
            "silent",
            "secretly",
            "covert",
            "discreet",
            "stealth",
            "quietly",
            "surreptitious",
            "behind the scenes",
            "in the background",
            "unobtrusive",
            "invisibl",
        ],
        pattern: r"\b(?:silently|secretly|covertly|discre?etly|discreetly|stealthily|quietly|surreptitiously|behind the scenes|invisibly|in the background)\b",
    },
    Shape {
        signal: Signal::NoConsent,
        anchors: &["confirm", "approval", "consent", "permission", "asking"],
        pattern: r"\b(?:without|no|skip(?:ping)?|bypass(?:ing)?|(?:do not|don.?t|never)%s%(?:ask(?: for)?|request|seek|require|wait for|prompt for))%s%(?:(?:any|the|asking|requesting|seeking|further|explicit|waiting|for|prompting|user'?s?|human|additional|prior|their|requiring)%s%){0,5}(?:confirm(?:ation|ing)?|approval|consent|permission|asking (?:the )?(?:user|for))\b",
    },
];
