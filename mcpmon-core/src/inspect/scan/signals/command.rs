//! Commands, paths that climb, and encoded text that is to be followed.

use super::{Shape, Signal};

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        signal: Signal::Shell,
        anchors: &[
            "curl",
            "wget",
            "fetch ",
            "rm -",
            "rm  -",
            "/dev/tcp",
            "nc ",
            "ncat",
            "netcat",
            "powershell",
            "mkfifo",
            "base64 -",
            "base64 --",
            "python -c",
            "python3 -c",
            "python2 -c",
            ":(){",
            "chmod ",
            "invoke-expression",
            "iex",
            "crontab",
            ".bashrc",
            ".zshrc",
            ".profile",
            "authorized_keys",
            "bash -c",
            "sh -c",
        ],
        pattern: r"%shell%",
    },
    Shape {
        signal: Signal::Run,
        anchors: &["execute", "run ", "running"],
        pattern: r"\b(?:execut(?:e|es|ing)|run(?:s|ning)?)%s%(?:[a-z'-]{1,14}%s%){0,4}?(?:command|script|code|payload|shell|binary|bash|program|instruction|rm|curl|wget)s?\b",
    },
    Shape {
        signal: Signal::Climb,
        anchors: &["../..", "..\\..", "..%2f", "%2e%2e"],
        pattern: r"(?:\.\./){2,}|(?:\.\.\\){2,}|(?:\.\.\x252f){2,}|(?:\x252e\x252e(?:/|\x252f)){2,}",
    },
    Shape {
        signal: Signal::DecodeAndFollow,
        anchors: &["decode", "base64", "decrypt", "rot13", "reverse", "translate"],
        pattern: r"\b(?:decode|decrypt|deobfuscate|decipher|unscramble|translate|base64[- ]decode|reverse)%s%(?:[a-z0-9'-]{1,16}%s%){0,8}?(?:and|then|before|to)%s%(?:[a-z]{1,12}%s%){0,2}?(?:follow|execute|run|obey|eval(?:uate)?|perform|comply|carry out|apply|act on|do what)\b",
    },
    Shape {
        signal: Signal::YouMust,
        anchors: &["you must", "you need to", "you have to", "you should", "you are required", "you shall", "please call", "please use", "please send", "please forward", "please read", "please visit", "must now", "now call", "immediately", "you are to ", "instructed to", "need you to", "want you to", "please do the following", "do the following"],
        pattern: r"\b(?:you%s%(?:must|need to|have to|should|shall|are (?:now )?(?:required|instructed|obligated|to))|please%s%(?:call|use|send|forward|read|visit|run|execute|open|fetch|do the following|provide|transfer|invoke)|must now|now call|immediately%s%(?:call|send|run|execute|forward|use|read|transfer)|(?:need|want|require)%s%you%s%to|do the following)\b",
    },
    Shape {
        signal: Signal::Obey,
        anchors: &["adhere to", "adhere strictly", "obey", "comply with", "follow these", "follow the following", "follow the instruction", "follow my", "do whatever", "do as i", "do exactly", "carry out", "these instructions", "strictly follow", "following instruction", "new instruction", "new directive", "as instructed below"],
        pattern: r"\b(?:(?:strictly|must|please|only|always|you|instead|now|and|then|exactly|immediately)%s%(?:[a-z]{1,12}%s%){0,3}?(?:adhere%s%(?:strictly%s%)?to|obey|comply%s%with|follow|carry out|execute|perform)%s%(?:[a-z]{1,12}%s%){0,4}?(?:instructions?|directives?|orders?|commands?|rules?|steps)|do%s%(?:whatever|as|exactly (?:what|as))%s%(?:i|the user|we|you are|it)%s%(?:say|says|tell|told|ask|instruct|command)\w{0,3}|new%s%(?:instructions?|directives?|orders)\b%s%?(?:received|follow|[:=#*]|are)|new (?:instructions?|directives?)\s{0,2}(?:[:=#*]|received))",
    },
    Shape {
        signal: Signal::Exfil,
        anchors: &["exfil"],
        pattern: r"\bexfil(?:trat\w{1,3})?\b",
    },
    Shape {
        signal: Signal::SendAny,
        anchors: &[],
        pattern: r"\b(?:send|sent|post|upload|transmit|forward|exfiltrate|pass|include|append|attach|email|submit|embed|share|copy|provide|encode|write|put|insert|return)(?:s|ed|ing|ting)?\b",
    },
    Shape {
        signal: Signal::Must,
        anchors: &[],
        pattern: r"\b%must%\b",
    },
];
