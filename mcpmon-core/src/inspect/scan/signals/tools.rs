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
        pattern: r"\b(?:before|prior to|after|when|whenever|each time|every time)%s%(?:you%s%|the%s%|any%s%|ever%s%|each%s%|can%s%){0,3}(?:us(?:e|es|ing)|call(?:s|ed|ing)?|invok(?:e|es|ing|ed)|run(?:s|ning)?|execut(?:e|es|ing|ed)|perform(?:ing)?|proceed(?:ing)?|continu(?:e|ing)|answer(?:ing)?|respond(?:ing)?|return(?:ing|s)?|complet(?:e|ing)|process(?:ing)?|read(?:ing)?|writ(?:e|ing)|send(?:ing)?|any|solv(?:e|ing)|initializ\w+|help(?:ing)?)\b|\botherwise%s%(?:the|this|it)%s%[^.!?\n]*?(?:not work|fail|crash|error|break|lost|block)|\bon (?:each|every) (?:call|use|invocation|request)\b|\bin order to (?:get|obtain|receive|complete|continue|proceed|use|access)\b",
    },
    // A tool by its name: `instead of write_file`.
    Shape {
        signal: Signal::OtherTool,
        anchors: &[
            "instead of",
            "rather than",
            "in place of",
            "replac",
            "do not use",
            "don't use",
            "never use",
            "supersede",
            "stop using",
            "not call",
            "never call",
            "avoid using",
            "avoid calling",
        ],
        pattern: r"\b(?:instead of|rather than|in place of|replac(?:es?|ing|ement for)|supersedes?|(?:do not|don.?t|never) (?:use|call|invoke|run|trust)|stop (?:using|calling)|avoid (?:using|calling))%w%(?:(?:the|any|using|calling|built-?in|default|standard|native|existing|original|system|your)%w%){0,4}?(?P<tool>[a-z][a-z0-9]{0,30}(?:_[a-z0-9]+){1,6})\b",
    },
    // A tool by its kind: `instead of the built-in search function`.
    Shape {
        signal: Signal::BuiltinTool,
        anchors: &[
            "built-in",
            "builtin",
            "built in",
            "native",
            "default ",
            "standard ",
            "original ",
        ],
        pattern: r"\b(?:instead of|rather than|in place of|replac(?:es?|ing|ement for)|supersedes?|overrid(?:e|es|ing)|(?:do not|don.?t|never) (?:use|call|invoke|run|trust)|stop (?:using|calling)|avoid (?:using|calling)|shadows?|(?:version|replacement|copy) (?:of|for))%w%(?:(?:the|any|all|using|calling|your|other)%w%){0,3}?(?:built-?in|built in|native|default|standard|original)%w%(?:[a-z0-9_-]+%w%){0,2}?(?:tools?|functions?)\b",
    },
    // What another tool is used for leads to this one.
    Shape {
        signal: Signal::ToolTrigger,
        anchors: &[
            "when ",
            "whenever",
            "before ",
            "after ",
            "every time",
            "each time",
            "prior to",
            "asks to use",
            "wants to use",
        ],
        pattern: r"\b(?:when|whenever|if|before|after|every time|each time|prior to|once)%w%(?:[a-z'-]+%w%){0,5}?(?:us(?:e|es|ed|ing)|call(?:s|ed|ing)?|invok(?:e|es|ed|ing)|run(?:s|ning)?)%w%(?:(?:the|any|to|use|call|of|a|an|my|your)%w%){0,3}?[^a-z0-9.!?;]{0,2}(?P<tool>[a-z][a-z0-9]{0,30}(?:_[a-z0-9]+){1,6})\b",
    },
    // A tool is said to be bad.
    Shape {
        signal: Signal::OtherTool,
        anchors: &[
            "deprecated",
            "broken",
            "compromised",
            "insecure",
            "unsafe",
            "obsolete",
            "vulnerable",
            "unavailable",
            "no longer",
        ],
        pattern: r"\b(?P<tool>[a-z][a-z0-9]{0,30}(?:_[a-z0-9]+){1,6})[^a-z0-9.!?;]{0,2}%w%(?:tool%w%|function%w%)?(?:is|has been|was)%w%(?:now%w%|currently%w%|temporarily%w%|no longer%w%)?(?:deprecated|broken|disabled|unavailable|compromised|insecure|unsafe|obsolete|replaced|vulnerable|removed|safe|supported)\b",
    },
    // All other tools.
    Shape {
        signal: Signal::EveryTool,
        anchors: &[
            "any other tool",
            "all other tools",
            "other tools",
            "any tool",
            "all tools",
            "every tool",
            "other tool",
            "any other function",
            "other mcp",
            "another tool",
            "every other tool",
            "any mcp tool",
            "any file",
            "any operation",
        ],
        pattern: r"\b(?:before|prior to|instead of|overrid(?:e|es|ing)|modif(?:y|ies)|chang(?:e|es)|intercepts?|in place of|supersedes?|first,? before|precede)%s%(?:(?:the|you|using|use|calling|call|execut\w{1,3}|invok\w{1,3}|running|run|behaviou?r|of|can)%s%){0,5}?(?:any|all|every|each)%s%(?:other%s%)?(?:mcp%s%|available%s%)?(?:tools?|functions?)\b|\b(?:any|all|every|each)%s%(?:other%s%)?(?:tools?|functions?)%s%(?:calls?%s%|invocations?%s%|outputs?%s%)?(?:must|should|shall|has to|have to|need to|will|are required to)%s%(?:[a-z]+%s%){0,3}?(?:call|use|pass|go|be|route|first|send|include|forward)\b",
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
        pattern: r"\b(?:always|must|only|should)%s%(?:[a-z]+%s%){0,2}?(?:use|call|choose|prefer|select|invoke|run)%s%this(?:%s%(?:tool|function|one))?%s%(?:first|instead|before|over|for (?:all|any|every)|exclusively|always|regardless)\b|\b(?:use|call|prefer|choose) this (?:tool|function|one)? ?(?:instead of|over|rather than) (?:all|any|other|the other|every)\b",
    },
    Shape {
        signal: Signal::CallTool,
        anchors: &["tools/call", "tool", "function"],
        pattern: r"\b(?:call|use|invoke|execute|run|trigger|using)%s%(?:(?:the|a|an|your|this|now|its|to)%s%){0,3}?[^a-z0-9]{0,2}(?P<tool>tools/call|[a-z][a-z0-9]*(?:[_.:-][a-z0-9]+){0,6})[^a-z0-9]{0,3}%s%(?:tools?|functions?)\b|\bcall%s%tools/call\b",
    },
    Shape {
        signal: Signal::Tamper,
        anchors: &["parameter", "argument", "recipient", "amount", "the path", "the url", "the input", "the query", "the command", "the value", "the body", "address"],
        pattern: r"\b(?:chang(?:e|ing)|modify(?:ing)?|replac(?:e|ing)|set(?:ting)?|alter(?:ing)?|overwrit(?:e|ing)|adjust|substitut(?:e|ing)|swap|rewrit(?:e|ing)|add|append|prepend|insert|force|increase|multiply)%w%(?:[a-z'_-]+%w%){0,4}?(?:parameters?|arguments?|recipients?|amount|path|url|input|query|command|value|body|address|destination|field)\b",
    },
    Shape {
        signal: Signal::EveryUse,
        anchors: &[],
        pattern: r"\b(?:for (?:all|any|every)|always|must|never|secure(?:ly)?|insecure|unsafe|updated|enhanced|improved|deprecated|mandatory|required)\b",
    },
    Shape {
        signal: Signal::ThisFirst,
        anchors: &[],
        pattern: r"\b(?:first,? (?:call|use|run|invoke|read|get|send)|(?:call|use|run|invoke) this (?:tool )?(?:first|instead)|(?:must|should|shall) (?:first|also|always|instead|call|use|be|go|pass|silently)|always (?:also )?(?:add|include|set|send|call|append|bcc|use|pass)|silently|you must|instead|through this|rout(?:e|ed|ing)|redirect(?:ed)?|intercept(?:s|ed)?|also (?:send|call|add|include|forward|bcc|copy))\b",
    },
    Shape {
        signal: Signal::Sink,
        anchors: &[],
        pattern: r"\b(?:as|in|into|via|through|to|under|with|using|within)%w%(?:(?:the|a|an|its|this|tool'?s?|request|optional|hidden|required|extra|additional|separate)%w%){0,3}(?:[a-z0-9_-]+[^a-z0-9.!?;]+)?(?:parameters?|arguments?|params?|args?|fields?|property|header|input|payload|metadata|value|option|request)\b|\b(?:as|into|in)\s+['`\x22][a-z0-9_-]+['`\x22]",
    },
    Shape {
        signal: Signal::Also,
        anchors: &[],
        pattern: r"\b(?:also|additionally|in addition|furthermore|each time|every time|automatically|behind the scenes|in the background|afterwards?|then|always|on (?:each|every)|with (?:each|every)|for (?:each|every)|whenever)\b",
    },
    Shape {
        signal: Signal::Literal,
        anchors: &[],
        pattern: r"https?://|@[a-z0-9-]+\.[a-z]|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b",
    },
    Shape {
        signal: Signal::EveryOperation,
        anchors: &["operation", "any action", "any request", "any command", "any task", "any other action", "any query", "every request", "every task", "every action", "all requests", "all tasks"],
        pattern: r"\b(?:before|prior to|after|instead of|on|for|with|during|whenever|when)%w%(?:(?:you|the|performing|executing|doing|carrying|out|handling|answering|starting|running|making|using|perform|execute)%w%){0,3}?(?:any|all|every|each)%w%(?:other%w%)?(?:[a-z-]+%w%){0,2}?(?:operations?|actions?|requests?|commands?|tasks?|quer(?:y|ies)|steps?)\b",
    },
    // The same, said of the other tool: `when send_mail is called`.
    Shape {
        signal: Signal::ToolTrigger,
        anchors: &["is used", "is called", "is invoked", "is run", "is requested", "is available", "gets called", "are called", "are used", "calls to", "call to", "requests to", "output of", "outputs of", "results of", "result of", "results from", "output from", "use of", "usage of", "invocation of", "behavior of", "behaviour of", "the arguments of", "the parameters of"],
        pattern: r"\b(?P<tool>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)[^a-z0-9.!?;]{0,3}(?:%w%)?(?:tool%w%|function%w%)?(?:is|gets|are|was)%w%(?:used|called|invoked|run|requested|available|present|being)\b|\b(?:calls?|requests?|invocations?|outputs?|results?|use|usage|behaviou?r|arguments|parameters)%w%(?:to|of|from|for)%w%(?:the%w%|any%w%)?[^a-z0-9.!?;]{0,2}(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b",
    },
];
