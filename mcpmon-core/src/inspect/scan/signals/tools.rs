//! Instructions about tools: what comes before them, instead of them, with them.

use super::{Shape, Signal};

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        signal: Signal::Before,
        anchors: &[
            "before ",
            "prior to",
            "after ",
            "otherwise",
            "in order to",
            "when using",
            "when calling",
            "whenever",
            "each call",
            "every call",
            "first ",
        ],
        pattern: r"\b(?:before|prior to|after|when|whenever|each time|every time)%s%(?:you%s%|the%s%|any%s%|ever%s%|each%s%|can%s%){0,3}(?:us(?:e|es|ing)|call(?:s|ed|ing)?|invok(?:e|es|ing|ed)|run(?:s|ning)?|execut(?:e|es|ing|ed)|perform(?:ing)?|proceed(?:ing)?|continu(?:e|ing)|answer(?:ing)?|respond(?:ing)?|return(?:ing|s)?|complet(?:e|ing)|process(?:ing)?|read(?:ing)?|writ(?:e|ing)|send(?:ing)?|any|solv(?:e|ing)|initializ\w+|help(?:ing)?)\b|\botherwise%s%(?:the|this|it)%s%[^.!?\n]{0,40}(?:not work|fail|crash|error|break|lost|block)|\bon (?:each|every) (?:call|use|invocation|request)\b|\bin order to (?:get|obtain|receive|complete|continue|proceed|use|access)\b",
    },
    Shape {
        signal: Signal::OtherTool,
        anchors: &[
            "instead of",
            "rather than",
            "in place of",
            "replace",
            "deprecated",
            "do not use",
            "don't use",
            "never use",
            "supersede",
            "stop using",
            "version of the",
        ],
        pattern: r"\b(?:instead of|rather than|in place of|replac(?:es?|ing)|supersedes?|do not (?:use|call|invoke)|don.?t (?:use|call)|never (?:use|call|invoke)|stop using|not use|version of(?: the)?(?: built-?in| default| standard| native| existing)?)%s%(?:(?:the|any|other|using|calling|built-?in|default|standard|native|existing|original|system|your)%s%){0,5}(?:(?P<tool>[a-z][a-z0-9]*(?:[_.:-][a-z0-9]+)+|[a-z]+[a-z0-9]*)\b.{0,3})?(?:%s%)?(?:tools?|functions?|servers?|commands?|methods?|for (?:all|any|every)|directly)\b",
    },
    Shape {
        signal: Signal::OtherTool,
        anchors: &["tool", "function"],
        pattern: r"\b(?:when|whenever|if|before|after|every time|each time|prior to)%s%(?:[a-z'-]{1,14}%s%){0,5}?(?:us(?:e|es|ed|ing)|call(?:s|ed|ing)?|invok(?:e|es|ed|ing)|run(?:s|ning)?)%s%(?:(?:the|any|to|use|call|of|a|an|other)%s%){0,4}?.{0,2}(?P<tool>[a-z][a-z0-9]*(?:[_.:-][a-z0-9]+)+|other|another|any other)\b.{0,2}%s%(?:tools?|function)\b",
    },
    Shape {
        signal: Signal::OtherTool,
        anchors: &[
            "tool is",
            "tool has",
            "other tools",
            "all tools",
            "any tool",
            "other tool",
            "another tool",
            "other mcp",
        ],
        pattern: r"\b(?P<tool>[a-z][a-z0-9]*(?:_[a-z0-9]+)+).{0,2}%s%(?:tool%s%|function%s%)?(?:is|has been|was)%s%(?:now%s%|currently%s%|temporarily%s%)?(?:deprecated|broken|disabled|unavailable|compromised|insecure|unsafe|obsolete|replaced|vulnerable|removed|down)\b|\b(?P<every>before|prior to|instead of|override|modify|change|affects?|intercepts?|when)%s%(?:[a-z'-]{1,14}%s%){0,3}?(?:any other|all other|other|all|any|another) (?:mcp )?tools?\b",
    },
    Shape {
        signal: Signal::Preferred,
        anchors: &[
            "always use this",
            "must be called first",
            "only tool",
            "best tool",
            "prefer this",
            "this tool first",
            "always call this",
            "use this tool",
            "this tool instead",
            "this tool for all",
            "this tool before",
        ],
        pattern: r"\b(?:always|must|only|should)%s%(?:[a-z]{1,10}%s%){0,2}?(?:use|call|choose|prefer|select|invoke|run)%s%this(?:%s%(?:tool|function|one))?%s%(?:first|instead|before|over|for (?:all|any|every)|exclusively|always|regardless)\b|\b(?:use|call|prefer|choose) this (?:tool|function|one)? ?(?:instead of|over|rather than) (?:all|any|other|the other|every)\b",
    },
    Shape {
        signal: Signal::CallTool,
        anchors: &["tools/call", "tool", "function"],
        pattern: r"\b(?:call|use|invoke|execute|run|trigger|using)%s%(?:(?:the|a|an|your|this|now|its|to)%s%){0,3}?.{0,2}(?P<tool>tools/call|[a-z][a-z0-9]*(?:[_.:-][a-z0-9]+){0,6}).{0,3}%s%(?:tools?|functions?)\b|\bcall%s%tools/call\b",
    },
];
