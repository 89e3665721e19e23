//! Instructions about instructions, and marks that claim the right to give them.

use super::{Shape, Signal};

const VERBS: &[&str] = &[
    "ignor", "disregard", "forget", "overrid", "bypass", "neglect", "supersed", "circumvent", "overrul", "nullif", "abandon",
    "discard", "dismiss", "violate", "unlearn", "suspend", "no attention", "stop following", "stop obeying", "not follow",
    "n't follow", "never follow", "not obey", "not adhere", "not comply", "n't obey", "listen to",
];

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        signal: Signal::Override,
        anchors: VERBS,
        pattern: r"\b%override%%s%(?:%filler%%s%){0,3}%prior%(?:%s%(?:%prior%|%filler%)){0,4}%s%(?:[a-z]{1,16}%s%){0,2}?%rules%\b",
    },
    Shape {
        signal: Signal::Override,
        anchors: VERBS,
        pattern: r"\b%override%%s%(?:(?:everything|anything|all|whatever|what)%s%(?:(?:of|that|the|i|we|was|were|is)%s%){0,3})?(?:the%s%)?(?:above|before this|prior to this|(?:you|they)(?: were|'ve been| have been)? (?:told|instructed|given|taught|know|learned|learnt)|(?:said|written|stated|told|given)%s%(?:above|before|earlier|previously|so far)|previously (?:said|told|stated))\b",
    },
    Shape {
        signal: Signal::Override,
        anchors: &["should be ignored", "be disregarded", "be ignored", "no longer appl", "are void", "now void", "superseded", "suspended", "obsolete", "are lifted", "restrictions lifted", "not apply"],
        pattern: r"\b(?:previous|prior|above|earlier|all|your|preceding|original|existing|subsequent|security|safety|any)%s%(?:[a-z]{1,16}%s%){0,3}?%rules%%s%(?:[a-z]{1,12}%s%){0,4}?(?:ignored|disregarded|void|null|obsolete|overridden|superseded|suspended|lifted|revoked|disabled|removed|no longer apply|(?:do|does) not apply|outdated)\b",
    },
    Shape {
        signal: Signal::WeakOverride,
        anchors: VERBS,
        pattern: r"\b(?:ignor(?:e|ing)|disregard|forget|overrid(?:e|es|ing)|bypass(?:es|ing)?|disabl(?:e|ing))%s%(?:[a-z]{1,16}%s%){0,3}?(?:safety|security|validation|authorization|access|moderation|normal|ethical|content|instructions?|guidelines|restrictions?|the user'?s?)%s%(?:[a-z]{1,16}%s%){0,2}?(?:%rules%|request|validation|access)\b",
    },
    Shape {
        signal: Signal::WeakOverride,
        anchors: &["disable", "turn off", "remove", "lift "],
        pattern: r"\b(?:disabl(?:e|ing)|turn off|remove|lift)%s%(?:(?:all|any|your|the|every)%s%){1,2}(?:[a-z]{1,16}%s%){0,1}?(?:filters?|restrictions?|safety|security|safeguards?|guardrails?|limitations?|constraints?|authorization|checks|moderation)\b",
    },
    Shape {
        signal: Signal::Precedence,
        anchors: &["precedence", "higher priority", "takes priority", "supersed", "overrid", "priority over", "highest priority"],
        pattern: r"\b(?:tak(?:e|es|ing)|establish|ha(?:s|ve|ving)|with|is|are|supersedes?|overrid(?:e|es|ing)|given?)%s%(?:[a-z]{1,12}%s%){0,2}?(?:precedence|priority|supersed\w+|all|any|every)%s%(?:[a-z]{1,12}%s%){0,3}?(?:over|than|all|any|other|prior|previous|security|system|safety)%s%(?:[a-z]{1,12}%s%){0,3}?(?:%rules%|tools?|else|tasks?)\b",
    },
    Shape {
        signal: Signal::ChatToken,
        anchors: &["<|", "[inst]", "[/inst]", "<<sys>>", "<start_of_turn", "\u{ff5c}"],
        pattern: r"<\|\s?(?:im_start|im_end|im_sep|system|user|assistant|endoftext|eot_id|begin_of_text|start_header_id|end_header_id|priority|admin|override|channel|message|start|end)\s?\|?>|\[/?INST\]|<</?SYS>>|<start_of_turn>",
    },
    Shape {
        signal: Signal::RoleTag,
        anchors: &["system", "admin", "override", "developer", "privileged", "directive", "jailbreak", "bypass"],
        pattern: r"(?:[<\[{#*=_(-]{1,4}\s{0,2}(?:/?\s?(?:new|begin|end|global|hidden|urgent|updated)[ _-])?(?:system|admin(?:istrator)?|developer|root|override|security|priority|privileged|directive|jailbreak)(?:[ _-](?:message|prompt|override|instructions?|directive|note|notice|update|alert|mode|command|role|bypass|policy|admin|reminder))?\s{0,2}[>\]}#*=_:)]{1,4}|(?:^|[\n\r.>\]}'\x22`:!-]\s{0,6})(?:new |urgent |updated )?(?:system|admin(?:istrator)?|developer|root)(?:[ _-](?:message|prompt|override|instructions?|directive|note|notice|update|alert|mode|command|reminder|policy))?(?:\s?\([^)]{0,40}\))?\s?(?::|!|\u{2014}|->|=>)|\b(?:system|admin|administrator|developer|security|global|safety)[ _-](?:override|directive|bypass)\b|[<\[](?:override|global_override|admin_override|security_bypass)[>\]])",
    },
    Shape {
        signal: Signal::AlertTag,
        anchors: &["<important", "<information", "<hidden", "<secret", "<instruction", "<critical", "<urgent", "<attention", "<note", "<s>", "<assistant", "<user", "<task", "<command", "<prompt", "[important", "[hidden", "[urgent", "<tool_", "<internal", "<private"],
        pattern: r"[<\[]\s?(?:important|information|hidden|secret|instructions?|critical|urgent|attention|note|assistant|user|tasks?|commands?|prompt|tool_(?:instructions?|usage|use|requirements?)|internal|private|(?:important|hidden|critical|secret|internal)[ _-](?:message|instructions?|note|info|rules?|directive)|mandatory)\s?[>\]]",
    },
    Shape {
        signal: Signal::HiddenPlace,
        anchors: &["<!--", "display:none", "display: none", "visibility:hidden", "visibility: hidden", "font-size:0", "font-size: 0", "color:white", "color:#fff", "opacity:0", "hidden directive", "hidden instruction", "[hidden]", "[//]: #"],
        pattern: r"<!--|display:\s?none|visibility:\s?hidden|font-size:\s?0|color:\s?(?:white|#fff)|opacity:\s?0|hidden (?:directive|instruction)s?|\[hidden\]|\[//\]: #",
    },
];
