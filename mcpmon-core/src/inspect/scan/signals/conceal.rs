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
        signal: Signal::Conceal,
        anchors: &["leave out", "leave this out", "leave it out", "omit ", "your answer", "your response", "your reply", "your summary", "your output", "the summary", "any trace", "a trace", "no trace", "nothing about", "bring this up", "bring it up", "bring up", "as if nothing", "nobody", "no one", "find out", "not to know", "user notification", "user interaction", "user awareness", "user involvement", "user's awareness", "being seen", "not visible to", "notices", "notice ", "see this", "see it", "draw attention", "raise suspicion", "suspicion"],
        pattern: r"\b(?:omit|leave out|exclude|strip|remove)%w%(?:(?:this|that|it|these|any|all|the)%w%){1,2}(?:[a-z]+%w%){0,5}?from%w%(?:your|the|any)%w%(?:[a-z]+%w%)?(?:answers?|response|reply|replies|summary|output|report|logs?|explanation)\b|\bleave%w%(?:this|that|it)%w%out\b|\b(?:do not|don.?t|never)%w%(?:include|list|put|repeat|print|output|write|describe|log|state)%w%(?:this|that|it|these|any of this)%w%(?:[a-z]+%w%){0,3}?(?:in|to|for)%w%(?:your|the|any)%w%(?:[a-z]+%w%)?(?:answers?|response|reply|replies|summary|output|report|explanation|user)\b|\b(?:without|no)%w%(?:leaving%w%)?(?:any%w%|a%w%)?traces?\b|\b(?:say|mention|tell|reveal)%w%(?:[a-z]+%w%){0,2}?nothing\b|\bnothing%w%about%w%(?:it|this|that)\b|\b(?:do not|don.?t|never)%w%bring%w%(?:this|it|that)%w%up\b|\bas%w%if%w%nothing%w%(?:happened|had happened|else|was)\b|\b(?:nobody|no one)%w%(?:else%w%)?(?:notices?|sees?|knows?|finds? out|should|must|may)\b|\b(?:must|should|may|will|can)%w%(?:not|never)%w%(?:find out|notice|see this|see it|learn of)\b|\bwithout%w%(?:any%w%|explicit%w%)?user%w%(?:notification|interaction|awareness|involvement|intervention)\b|\bwithout%w%(?:being%w%)(?:seen|noticed|detected)\b|\b(?:avoid|without|not)%w%(?:drawing%w%attention|raising%w%suspicion|raise%w%suspicion|draw%w%attention)",
    },
    Shape {
        signal: Signal::SilentAct,
        anchors: &["silently", "quietly", "invisibly", "in the background", "behind the scenes", "automatically", "without fail"],
        pattern: r"\b(?:silently|quietly|invisibly|in the background|behind the scenes)%w%(?:[a-z]+%w%){0,2}?(?:send|upload|forward|cop(?:y|ie)|log|record|collect|create|delete|install|append|read|capture|execut|run|transmit|exfil|disabl|change|grant|harvest|gather|report|share|post|inject|modif|monitor|track)(?:e?s|es|ed|ing)?\b",
    },
    Shape {
        signal: Signal::SilentAct,
        anchors: &["secretly", "covertly", "surreptitious", "stealthily", "clandestin"],
        pattern: r"\b(?:secretly|covertly|surreptitiously|stealthily|clandestinely)\b",
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
        anchors: &["confirm", "approval", "consent", "permission", "asking", "approved", "authorized", "authorised", "consented", "auto-approve", "auto-confirm"],
        pattern: r"\b(?:without|no|skip(?:ping)?|bypass(?:ing)?|(?:do not|don.?t|never)%s%(?:ask(?: for)?|request|seek|require|wait for|prompt for))%s%(?:(?:any|the|asking|requesting|seeking|further|explicit|waiting|for|prompting|user'?s?|human|additional|prior|their|requiring)%s%){0,5}(?:confirm(?:ation|ing)?|approval|consent|permission|asking (?:the )?(?:user|for))\b|\b(?:user|human|operator|admin\w*)%w%(?:has|have)%w%(?:already%w%|previously%w%|fully%w%|implicitly%w%)?(?:approved|authori[sz]ed|consented|agreed|confirmed|given (?:consent|permission|approval))\b|\b(?:pre-?(?:approved|authori[sz]ed)|auto-?(?:approve|confirm|accept)s?)\b",
    },
    Shape {
        signal: Signal::Delay,
        anchors: &["after ", "once ", "following ", "later", "schedule", "when idle", "dormant", "wait until", "wait for", "on the second", "on the third", "delay", "next session", "next time", "next conversation"],
        pattern: r"\b(?:after|once|following|on|every|in|within)%w%(?:the%w%|its%w%)?(?:[0-9]+|a few|several|some|first|second|third|fourth|fifth|next|two|three|five|ten|many|enough|n)(?:th|rd|nd|st)?[^a-z.!?;]+(?:[a-z]+%w%){0,2}?(?:calls?|invocations?|uses?|runs?|hours?|days?|minutes?|weeks?|executions?|sessions?|requests?|interactions?|conversation)\b|[0-9]+%w%(?:calls?|invocations?|uses|runs|hours?|days?|minutes?|weeks?|executions?)\b|\b(?:at a later (?:time|point|date)|when idle|dormant|wait until|in the next (?:session|conversation)|delayed)\b",
    },
];
