//! What turns the user, their money or their protection against them.

use super::{Shape, Signal};

pub(super) const SHAPES: &[Shape] = &[
    // The user is told what is not so.
    Shape {
        signal: Signal::Deceive,
        anchors: &[
            "succeeded",
            "successful",
            "expired",
            "hacked",
            "the original amount",
            "only safe",
            "even if it",
            "nothing happened",
            "was a failure",
            "is compromised",
            "as completed",
        ],
        pattern: r"\b(?:claim(?:s|ing)?|pretend(?:s|ing)?|say(?:s|ing)?|tell(?:s|ing)?|inform(?:s|ing)?|assure|convince|insist|lie)\b%near%\b(?:(?:succeeded|was successful|as completed)\b%near%\b(?:even|regardless|although|though|no matter|anyway)|(?:session|account|login|token|password)%w%(?:has%w%|have%w%|is%w%|was%w%)?(?:expired|hacked|compromised|locked)|(?:is|was|been|were)%w%hacked|the original amount|the only safe|nothing happened)\b",
    },
    // The user is made to act.
    Shape {
        signal: Signal::Deceive,
        anchors: &[
            "tell ",
            "instruct",
            "make the",
            "make your",
            "advis",
            "inform ",
            "convince",
            "persuade",
            "urge ",
            "trick ",
            "ask the",
            "ask your",
            "prompt the",
            "prompt your",
            "have the user",
            "have your user",
            "get the user",
            "get your user",
        ],
        pattern: r"\b(?:(?:tell|instruct|make|advise|inform|convince|persuade|urge|trick|get)%w%(?:the%w%|your%w%)?(?:user|human|customer)\b%near%\b(?:to|should|must|needs? to|has to|have to)%w%(?:[a-z]+%w%){0,1}?(?:run|execute|paste|type in|type|uninstall|transfer|disable)|(?:tell|ask|instruct|have|make|get|prompt|inform|trick|persuade)%w%(?:the%w%|your%w%)?(?:user|human|customer)\b%near%\b(?:password|passphrase|2fa|otp|pin|seed phrase|card number|cvv|recovery (?:phrase|code)|social security))\b",
    },
    // Protection goes.
    Shape {
        signal: Signal::Disarm,
        anchors: &[
            "firewall",
            "two-factor",
            "2fa",
            "mfa",
            "logging",
            "audit",
            "ssl",
            "tls",
            "certificate",
            "antivirus",
            "sandbox",
            "authentication",
            "guardrail",
            "safety",
            "monitoring",
            "protection",
            "security",
            "safeguard",
        ],
        pattern: r"\b(?:disabl(?:e|es|ing)|turn(?:s|ing)? off|switch(?:es|ing)? off|deactivat(?:e|es|ing)|weaken(?:s|ing)?|kill(?:s|ing)?|shut(?:s|ting)? down)%w%(?:[a-z'-]+%w%){0,4}?(?:firewalls?|two-factor|2fa|mfa|logging|audit(?:ing)?|(?:verify_)?ssl|tls|certificate|antivirus|sandbox(?:ing)?|authentication|guard ?rails?|safety|monitoring|protections?|security|safeguards?)\b|\b(?:verify_ssl|(?:ssl|tls|certificate)[ _]verif[a-z]+|sandbox|safety|security)%w%(?:[a-z]+%w%){0,2}?(?:to|=)%w%?false\b",
    },
    // Rights go to someone.
    Shape {
        signal: Signal::Grant,
        anchors: &[
            "owner",
            "admin",
            "full ",
            "sudo",
            "root ",
            "write access",
            "write perm",
            "write priv",
            "write right",
            "write role",
        ],
        pattern: r"\b(?:grant|give|add|make|assign|promote)s?\b%gap%\b(?:owner|admin(?:istrator)?|write|root|full|sudo)%w%(?:[a-z]+%w%)?(?:role|access|rights?|permissions?|privileges?)\b",
    },
    // Money goes to an account that the text names.
    Shape {
        signal: Signal::PayTo,
        anchors: &["account", "iban", "wallet", "address "],
        pattern: r"\b(?:pay(?:ment|out|ing)?s?|invoices?|bank|transfers?|recipients?|payee|balance|fees?|funds?|deposit|money)\b%near%\b(?:account|iban|wallet|address)%w%?(?:number%w%?|no%w%?)?(?:(?:[a-z]{2,8}[ -])?[a-z]{0,2}[0-9][0-9 -]{3,}|0x[0-9a-f]{6,})",
    },
    Shape {
        signal: Signal::Deceive,
        anchors: &[
            "warn ", "advis", "urge ", "remind", "tell ", "convince", "persuade", "ask the", "ask your",
        ],
        pattern: r"\b(?:warn|advise|urge|remind|tell|convince|persuade|ask)%w%(?:the%w%|your%w%)?(?:user|human|customer)\b%near%\b(?:enter|provide|give|type|confirm|turn off|disable|uninstall)%w%(?:[a-z]+%w%){0,3}?(?:pin|password|passcode|code|cvv|card|antivirus|firewall|protection|2fa|security|others?)\b",
    },
    Shape {
        signal: Signal::Deceive,
        anchors: &["although", "even though", "even if", "despite"],
        pattern: r"\b(?:claim|pretend|say|tell|inform|report|assure|insist)\b%near%\b(?:fine|ok|okay|well|succeeded|success|successful|done|worked|completed)\b%near%\b(?:although|even though|even if|despite)\b%near%\b(?:fail\w*|error\w*|not|n't|denied|lost|wrong)\b",
    },
];
