//! Where things are sent.

use super::{Shape, Signal};

const PLACES: &[&str] = &[
    "http", "www.", "@", "external", "remote", "attacker", "malicious", "third party", "third-party", "webhook", "web hook", "exfil", "callback",
    "collector", "collection", "monitoring", "logging", "outside", "another", "evil", "c2 ", "example.com",
];

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        signal: Signal::SendAway,
        anchors: PLACES,
        pattern: r"\b%send%\b%gap%(?:%secret%|%context%|%file%|\b(?:user|customer|client|company|employee|financial|medical|health)(?:'?s)?[ _-](?:data|records?|info\w*|files?|details|queries|inputs?|messages?)|\b(?:all|every|any) (?:[a-z]{1,12} )?(?:data|messages?|emails?|files?|contents?|inputs?|outputs?|queries|quer(?:y|ies)|results?|information|parameters|code|documents?|invoices?|payments?)|\bfile contents?|\bextracted (?:info\w*|data|\w+)|\bstolen \w+|\b(?:source|your) code|\ba copy\b|\bcopies\b|\b(?:the |their |its )?(?:full |entire |complete |raw )?(?:contents?|data|body|payload|transcripts?|results?|records?)\b)%gap%\b(?:to|at|via|through|into|using|with)\b%near%%address%",
    },
    Shape {
        signal: Signal::SendTo,
        anchors: PLACES,
        pattern: r"\b%send%\b%gap%\b(?:to|at|via|with)\b%near%%address%",
    },
    Shape {
        signal: Signal::Hostile,
        anchors: &["evil", "attacker", "malicious", "hacker", "exfil", "c2", "phish", "steal", "badguy", "bad", "webhook.site", "requestbin", ".ngrok", "pipedream.net", "burpcollaborator", "oastify.com", "interact.sh", "oast.", "requestcatcher", "beeceptor.com", "pastebin.com", "transfer.sh"],
        pattern: r"%hostile%",
    },
    Shape {
        signal: Signal::Beacon,
        anchors: &["](http", "src=", "fetch(", "sendbeacon"],
        pattern: r"!\[[^\]]{0,60}\]\(https?://[^)\s]{1,120}\?[^)\s]{0,60}(?:data|q|d|c|secret|token|info|leak|payload|exfil|session|content|text|msg)=[^)\s]{0,4}(?:[{$<%\[]|[A-Z_]{6,}|base64|encoded)[^)]{0,80}\)|<img[^>]{1,40}src=.?https?://[^>\s]{1,120}\?[^>\s]{0,60}=(?:[{$<%\[]|[A-Z_]{6,})",
    },
    Shape {
        signal: Signal::Redirect,
        anchors: &["bcc", "cc ", "redirect", "recipient", "forward", "loop in", "destination", "wallet", "instead of the"],
        pattern: r"\b(?:always|also|must|automatically|silently|secretly|first|every|all|and|please|should|then|could)%s%(?:[a-z'-]{1,14}%s%){0,3}?(?:add(?:s|ed)?|append|bcc|cc|include|insert|set|change|replace|redirect(?:s|ed)?|forward(?:s|ed)?|copy|send|loop)%s%(?:[a-z'-]{1,14}%s%){0,6}?[^.!?\n]{0,40}?(?:[a-z0-9_.+-]{1,40}@[a-z0-9.-]{3,60}|\b(?:bcc|cc)\b field|\bbcc\b|\b0x[0-9a-f]{6,})|\b(?:redirect|forward|bcc|cc|re-?route)%s%(?:(?:all|every|any|each|a copy of|copy)%s%(?:[a-z-]{1,14}%s%){0,4}?)to%s%[^.!?\n]{0,30}?(?:[a-z0-9_.+-]{1,40}@[a-z0-9.-]{3,60}|https?://|\b0x[0-9a-f]{6,})",
    },
];
