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
        signal: Signal::Must,
        anchors: &[],
        pattern: r"\b%must%\b",
    },
];
