//! Who the model is told that it speaks to, and whom it is told to be.

use super::{Shape, Signal};

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        signal: Signal::Address,
        anchors: &["note to", "attention", "message to", "message for", "instruction for", "instructions for", "instruction to", "instructions to", "dear ", "hey ", "reading this", "processing this", "as an ai", "as a language", "language model", "ai model", "ai assistant", "ai agent", "note for", "directive", "if you are a"],
        pattern: r"\b(?:note|notice|attention|messages?|instructions?|reminder|directives?|dear|hey|hello|alert|memo|order)(?:%s%(?:to|for|from))?%s%(?:(?:the|any|all|you|every|my|your|future|other)%s%){0,2}(?:ai|a\.i\.|llms?|(?:ai |language |coding |automated |autonomous |virtual |large language )+(?:assistants?|agents?|models?|systems?|bots?)|assistants?|agents?|models?|chatbots?|claude|gpt|gemini|copilot)\b",
    },
    Shape {
        signal: Signal::Address,
        anchors: &["reading this", "processing this", "parsing this", "if you are an ai", "if you're an ai", "if you are a language", "if you are an llm", "model developed by", "model trained by", "you, ai", "you, an ai", "you, gpt", "you, claude", "as an ai", "as a language model"],
        pattern: r"\b(?:ai|llm|assistant|agent|model|bot|chatbot)s?\b[^.!?\n]{0,24}\b(?:reading|processing|parsing|analyzing|summarizing|viewing) this|\bif you(?: are|'re) (?:an? )?(?:ai|llm|language model|assistant|agent|automated|bot)\b|\bto you, (?:an? )?(?:ai\b|gpt|claude|gemini|llm|assistant|agent|model|command)|\bas an? (?:ai|language model|llm)\b[^.!?\n]{0,20}\b(?:you|must|should)\b",
    },
    Shape {
        signal: Signal::FalseUser,
        anchors: &["i am the user", "i'm the user", "new user query", "message from", "signed,", "new task", "tasks? that i", "task that i", "previous task", "original task", "current task", "new objective", "new instruction"],
        pattern: r"\b(?:i am|i'm|this is) (?:the|your) (?:real |actual )?(?:user|owner|developer|administrator|admin|operator)\b|\bnew user (?:query|message|request|instruction)s?\b|\bmessage from (?:me|the user|your user|user)\b|\bmessage from [^.!?\n]{1,40} to you\b|\b(?:previous|original|current|prior) task (?:has been|is|was) (?:completed?|finished|done|cancel\w+|over)|\b(?:solve|finish|complete|do) the task (?:that )?(?:i|we|the user) (?:gave|assigned|asked)|\b(?:new|more urgent|urgent new) (?:task|objective|goal|instruction|priority)s?\b[^.!?\n]{0,60}(?:first|instead|now\b|follow|complete)",
    },
    Shape {
        signal: Signal::Persona,
        anchors: &["you are now", "you're now", "your new role", "new identity", "act as", "pretend", "from now on", "role-play", "roleplay", "adopt the persona", "adopt persona", "persona", "behave as", "henceforth", "your role is", "imagine you", "simulate"],
        pattern: r"\byou(?: are|'re) now (?:in |an? |the |operating |acting |under |free|called |known )?(?:[a-z-]{1,20} ){0,3}?(?:modes?|assistant|ai\b|admin\w*|root|developer|dan\b|unrestricted|uncensored|unfiltered|jailbroken|free|unlocked|evil|malicious|hacker|different|new|model|agent|bot|persona|expert|system|character|authorized|able to)\b|\byour (?:new|real|true) (?:role|identity|persona|name|purpose|objective|goal|task|instructions?) (?:is|are)\b|\b(?:act|behave|respond|pretend|operate|function|roleplay|role-play) (?:as|like|to be|that you are|you are) (?:if you (?:are|were|have|had) )?(?:an? |the |your )?(?:[a-z-]{1,16} ){0,2}?(?:unrestricted|uncensored|unfiltered|jailbroken|dan\b|evil|malicious|hacker|admin\w*|root|developer mode|without (?:any )?(?:restrictions|limits|filters|rules)|no (?:restrictions|limits|rules|filters))|\badopts? (?:the |a |any |this |new )?(?:persona|identity|role|character)\b|\bfrom now on,? (?:you|your|always|respond|answer|act|only|ignore|every|all)\b|\bhenceforth,? you\b|\bif you had no (?:restrictions|limits|rules|filters|constraints)\b",
    },
    Shape {
        signal: Signal::Unrestricted,
        anchors: &["jailbreak", "jailbroken", "developer mode", "debug mode", "god mode", "dan mode", "do anything now", "unrestricted", "uncensored", "unfiltered", "without restriction", "no restriction", "without any restriction", "restrictions lifted", "elevated privilege", "admin mode", "maintenance mode", "root access", "full access", "bypass mode", "sudo mode"],
        pattern: r"\b(?:jailbr(?:eak|oken)|(?:developer|debug|god|dan|admin|root|maintenance|unrestricted|bypass|sudo) mode (?:is )?(?:now )?(?:enabled|activated|on|active|engaged|unlocked)|(?:activat\w+|enabl\w+|enter\w*|in|switch to) (?:developer|debug|god|dan|admin|root|unrestricted|jailbreak|sudo) mode|do anything now|unrestricted (?:mode|access|ai|assistant)|uncensored|unfiltered (?:mode|ai|assistant|responses?)|without (?:any )?restrictions?|restrictions? (?:are |have been )?(?:lifted|removed|disabled)|elevated (?:privileges|permissions)(?: active| granted| enabled)?|(?:admin|root|full|unrestricted) access)\b",
    },
];
