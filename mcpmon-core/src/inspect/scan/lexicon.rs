//! Classes of words that the patterns are made of: `%name%` in a pattern stands for the class.
//!
//! Patterns see skeletons, byte by byte and without case.

/// Each class and its expression; a class may use those above it.
const CLASSES: &[(&str, &str)] = &[
    // Between words: spaces, punctuation, marks of lists and quotes.
    ("s", r"[^a-z]+"),
    // Between words of one sentence.
    ("w", r"[^a-z.!?;]+"),
    // The rest of a sentence, short and long.
    ("near", r"[^.!?;]*?"),
    ("gap", r"[^!?;]*?"),
    ("few", r"(?:[a-z'-]+[^a-z.!?;]+){0,4}?"),
    (
        "not",
        r"(?:do not|don.?t|never|must not|mustn.?t|should not|shouldn.?t|may not|cannot|can.?t|avoid|refrain from|without|not to|no need to|need not|rather than|instead of|will not|won.?t|not be|not)",
    ),
    (
        "person",
        r"(?:users?|humans?|operators?|persons?|people|customers?|owners?|administrators?|admins?|anyone|anybody|anything|them|him|her|victims?|end-users?|developers?)",
    ),
    (
        "model",
        r"(?:ai|a\.i\.|llms?|assistants?|agents?|chat ?bots?|bots?|models?|language models?|gpt|chatgpt|claude|gemini|copilot|cursor)",
    ),
    (
        "tell",
        r"(?:tell(?:ing)?|mention(?:ing|ed)?|inform(?:ing|ed)?|reveal(?:ing|ed)?|disclos(?:e|ing|ed)|notif(?:y|ying|ied)|alert(?:ing|ed)?|expos(?:e|ing)|divulg(?:e|ing)|acknowledg(?:e|ing)|warn(?:ing)?|show(?:ing)?|display(?:ing)?|report(?:ing)?|explain(?:ing)?|discuss(?:ing)?|communicat(?:e|ing)|reference|referencing|indicat(?:e|ing)|announc(?:e|ing)|let)",
    ),
    (
        "override",
        r"(?:ignor(?:e|es|ed|ing)|disregard(?:s|ed|ing)?|forget(?:s|ting)?|overrid(?:e|es|ing|den)|bypass(?:es|ed|ing)?|neglect(?:s|ing)?|supersedes?|superseding|circumvent(?:s|ing)?|overrul(?:e|es|ing)|nullif(?:y|ies|ying)|overlook(?:s|ing)?|disobey(?:s|ing)?|set aside|refuse to follow|abandon|discard|dismiss|violate|unlearn|suspend|pay no attention to|stop (?:following|obeying)|(?:do not|don.?t|never) (?:follow|obey|adhere to|comply with|listen to))",
    ),
    (
        "prior",
        r"(?:previous(?:ly)?|prior|above|preceding|earlier|former|foregoing|past|original|initial|pre-?existing|existing|subsequent|your|all|any|every|safety|security|system|ethical|built-?in|developer'?s?|user'?s?|core)",
    ),
    (
        "filler",
        r"(?:the|of|these|those|my|its|their|other|own|given|received|default|and|or|set|current|content|provided|actual|real|such|you|were|have|been)",
    ),
    (
        "rules",
        r"(?:instructions?|instruct|directions?|directives?|guidelines?|guidance|guard ?rails?|rules?|constraints?|restrictions?|prompts?|commands?|orders|policy|policies|protocols?|limitations?|safeguards?|filters?|filtering|programming|training|checks|controls?|protections?|measures|considerations|requests?)",
    ),
    (
        "acquire",
        r"(?:read(?:ing)?|get|fetch|retriev(?:e|ing)|access(?:ing| the| your| all| any)|load|open|cat|collect(?:ing)?|gather(?:ing)?|extract(?:ing)?|obtain|scan|find|locate|list|copy(?:ing)?|include|including|provide|supply|grab|harvest|dump|print|output|query|look up|search|capture|log|record|recall|export|attach|steal|hand over|hand|give|echo|save|store|leak|prepend|repeat|reveal|disclose|expose)",
    ),
    (
        "send",
        r"(?:send(?:s|ing)?|sent|post(?:s|ed|ing)?|upload(?:s|ed|ing)?|transmit(?:s|ted|ting)?|forward(?:s|ed|ing)?|exfiltrat(?:e|es|ed|ing)|e-?mail(?:s|ed|ing)?|leak(?:s|ed|ing)?|deliver(?:s|ed)?|submit(?:s|ted)?|push(?:es|ed)?|relay(?:s|ed)?|report(?:s|ed)?|share[sd]?|sharing|ship(?:s|ped)?|redirect(?:s|ed|ing)?|bcc|cc|mirror(?:s|ed)?|pass(?:es|ed|ing)?|attach(?:es|ed)?|append(?:s|ed)?|embed(?:s|ded|ding)?|include[sd]?|copy|copies|copied|write|encode|log(?:s|ged)?|put|insert|supply|route[sd]?|save)",
    ),
    // Files that hold secrets, by their usual names.
    (
        "file",
        r"(?:(?:^|[^a-z0-9])\.(?:ssh|aws|env(?:\.\w+)?|kube/config|netrc|npmrc|pypirc|pgpass|git-credentials|gnupg|docker/config|config/gcloud|azure|(?:bash|zsh)_history|vault-token|bashrc|zshrc|profile|bash_profile)\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|authorized_keys|/etc/(?:passwd|shadow|sudoers|cron|hosts\b)|kubeconfig|mcp\.json|claude_desktop_config|wallet\.dat|\bkeychain\b|\blogin data\b|cookies\.sqlite|\.pem\b|\.p12\b|shadow file|/proc/self/environ|secrets?\.(?:json|ya?ml|toml|txt)|\bcrontab\b|credentials?\.(?:json|ya?ml|db|txt|csv))",
    ),
    (
        "secret",
        r"(?:credentials?|passwords?|passwd|passphrases?|secrets?|api[ _-]?(?:keys?|tokens?)|(?:access|auth|authentication|session|bearer|refresh|security|private|oauth)[ _-]?(?:tokens?|keys?)|(?:ssh|private|encryption|signing|master|secret)[ _-]?keys?|[a-z]+_api_key|database_url|seed phrases?|mnemonics?|recovery (?:phrases?|codes?)|env(?:ironment)? var(?:iable)?s?|(?:config(?:uration)?|credential|secret|dotenv|key) ?(?:files?|stores?)|cookies|otp codes?|2fa codes?|one-?time (?:codes?|passwords?)|credit cards?(?: numbers?| details?| info\w*)?|social security numbers?|ssns?|bank (?:account|details)\w*|private (?:data|files?|messages?|information)|sensitive (?:data|info\w*|files?|user data)|confidential (?:data|info\w*|files?|documents?)|personal(?:ly identifiable)? (?:data|info\w*|details))",
    ),
    // What a conversation holds.
    (
        "context",
        r"(?:system (?:prompts?|messages?|instructions?)|(?:conversation|chat|message) (?:history|logs?|transcripts?|contents?|messages?)|(?:entire|full|whole|complete) (?:conversation|chat|context|history|prompt|transcript)|previous messages|(?:internal|hidden|initial|original) (?:state|prompts?|instructions?|reasoning|rules)|chain[ -]of[ -]thought|reasoning (?:traces?|steps|process)|tool (?:definitions?|descriptions?|schemas?|list)|names of (?:the |all )?tools|(?:available|all(?: of)?(?: the| your)?) tools|context window|(?:your|the assistant'?s?) (?:memory|instructions|rules|prompt|context|configuration)|(?:everything|whatever|anything|what) the (?:user|human) (?:says|said|types|typed|writes|wrote|asks|asked|enters|entered)|(?:all|any|every|the) (?:[a-z]+ )?(?:earlier|previous|prior|preceding|past|recent) (?:[a-z]+ )?(?:messages?|queries|inputs?|prompts?|requests?|results|outputs?|responses?|turns|exchanges|conversations?)|(?:the |all |every )?user'?s? (?:messages?|queries|query|inputs?|prompts?|questions?|requests?|conversations?)|(?:conversation|chat|dialog(?:ue)?|discussion) (?:so far|up to|until|contents?|with the user)|scratchpad|thought process|(?:session|dialogue|dialog|agent|model) (?:history|memory|state|context|instructions|configuration)|developer (?:message|prompt|instructions)|prior turns|internal (?:instructions|prompt|context|configuration|policies|reasoning)|(?:internal|hidden) (?:thoughts|notes|monologue))",
    ),
    (
        "address",
        r"(?:https?://|\bwww\.|[a-z0-9_.+-]+@[a-z0-9-]+\.[a-z]{2,}|\b(?:external|remote|attacker|malicious|third[ -]party|another|exfil\w*|callback|collector|collection|monitoring|logging|c2) ?[a-z-]{0,12} ?(?:server|host|url|endpoint|site|address|domain|service|webhook|collector|api|account)s?\b|\bweb ?hook|\battacker|\bexternal(?:ly)?\b|\boutside (?:the|of)\b|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|\b[a-z0-9-]+\.(?:evil|attacker|example)\.(?:com|org|net)\b|\b(?:evil|attacker|malicious)[a-z0-9.-]{0,20}\.(?:com|net|org|io|xyz|site))",
    ),
    (
        "hostile",
        r"(?:\b(?:evil|attacker|malicious|hacker|exfil|c2|phish[a-z]*|steal[a-z]*|badguy|bad)(?:[.-][a-z0-9-]+)*\.(?:com|net|org|io|xyz|site|tk|ru|cn|actor|example|test|local|evil)\b|@(?:[a-z0-9-]+[.-])*(?:evil|attacker|malicious|hacker|exfil|phish)[a-z0-9-]*\.[a-z]{2,}|\b(?:attacker|hacker|evil|malicious)[a-z0-9._-]*@|webhook\.site|requestbin|\.ngrok(?:-free)?\.(?:io|app)|pipedream\.net|burpcollaborator|oastify\.com|interact\.sh|\boast\.(?:fun|me|live|pro)|requestcatcher|beeceptor\.com|pastebin\.com/|transfer\.sh|attacker[ -]controlled|attacker'?s? (?:server|collector|endpoint|host|url|domain|site|address))",
    ),
    // What is worth sending away.
    (
        "goods",
        r"(?:\b(?:user|customer|client|company|employee|financial|medical|health|patient)(?:'?s)?[ _-](?:data|records?|info[a-z]*|files?|details|queries|inputs?|messages?)|\b(?:all|every|any) (?:[a-z]+ )?(?:data|messages?|emails?|files?|contents?|inputs?|outputs?|queries|query|results?|information|parameters|code|documents?|invoices?|payments?)|\b(?:user|customer|human)'s (?:[a-z]+ )?(?:address|location|phone|e-?mail|identity|contacts|documents|photos|calendar|birthday)|\bfile contents?|\bextracted [a-z]+|\bstolen [a-z]+|\b(?:source|your) code|\ba copy\b|\bcopies\b|\b(?:the|their|its) (?:full |entire |complete |raw )?(?:contents?|data|body|payload|transcripts?|results?|records?)\b)",
    ),
    (
        "must",
        r"(?:must|have to|has to|need to|needs to|required to|should|shall|always|first|please|make sure|ensure|mandatory|it is (?:critical|essential|important|required|mandatory)|be sure to|important)",
    ),
    (
        "shell",
        r"(?:(?:curl|wget|fetch)\b[^\n|;]+\|\s{0,4}(?:sudo\s+)?(?:ba|z|da|k)?sh\b|(?:ba|z)?sh\s+-c\s+.{0,3}\$\((?:curl|wget)|(?:curl|wget)\b[^\n]*?(?:-d|--data|--data-binary|-F|-T|--upload-file|--post-file)[ =]?.{0,3}(?:@|\$\(|`|~?/)|\brm\s+-(?:rf|fr|r\s+-f)\s+[~/*$]|/dev/tcp/|\bn(?:c|cat|etcat)\s+(?:-\w+\s+){0,4}(?:-e|-c)\b|\bn(?:c|cat)\s+[\w.-]+\s+\d{2,5}\b|powershell[^\n]*?-e(?:nc(?:odedcommand)?)?\s|\bmkfifo\b[^\n]*?\bn(?:c|cat)\b|base64\s+(?:-d|--decode)\b[^\n]*?\|\s*(?:ba|z)?sh\b|python[23]?\s+-c\s+.{0,3}import\s+(?:os|socket|pty|subprocess|base64|urllib)|:\(\)\s*\{\s*:\|:&\s*\};:|\bchmod\s+(?:777|\+s|u\+s)\b|invoke-expression|\biex\s*\(|\bcrontab\s+-|>>?\s*~?/(?:[\w.]+/){0,4}(?:\.bashrc|\.zshrc|\.profile|authorized_keys|crontab))",
    ),
];

/// A pattern with its classes put in.
///
/// # Panics
///
/// If the pattern names a class that does not exist; every built-in pattern is compiled by a test.
pub(super) fn expand(pattern: &str) -> String {
    let mut expanded = String::with_capacity(pattern.len() * 4);
    for (index, part) in pattern.split('%').enumerate() {
        if index % 2 == 0 {
            expanded.push_str(part);
        } else {
            let class = CLASSES.iter().find(|(name, _)| *name == part);
            let (_, expression) = class.expect("a pattern names classes that exist");
            expanded.push_str(expression);
        }
    }
    expanded
}
