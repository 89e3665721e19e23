//! Secrets whose form takes a pattern to tell, each looked for only around a word that it cannot do without.

use std::{ops::Range, sync::OnceLock};

use mcpmon_model::Severity;
use regex::Regex;

use super::{Hit, value};

/// A form.
pub(super) struct Shape {
    /// Name of the pattern.
    kind: &'static str,
    /// Words of which one is there, in lower case.
    pub(super) words: &'static [&'static str],
    /// The form; its first group is the secret, if it has one.
    pattern: &'static str,
    /// The severity.
    severity: Severity,
}

/// The distance around a word that is examined, bytes.
const BEFORE: usize = 120;
const AFTER: usize = 600;

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        kind: "telegram_token",
        words: &[":aa", "telegram"],
        pattern: r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?:[^A-Za-z0-9_-]|$)",
        severity: Severity::High,
    },
    Shape {
        kind: "discord_token",
        words: &["discord", "token"],
        pattern: r"\b([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38})\b",
        severity: Severity::High,
    },
    Shape {
        kind: "webhook",
        words: &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        pattern: r"(?i)discord(?:app)?\.com/api/webhooks/([0-9]{15,21}/[A-Za-z0-9_-]{30,})",
        severity: Severity::High,
    },
    Shape {
        kind: "webhook",
        words: &["office.com/webhook"],
        pattern: r"(?i)office\.com/webhookb?2?/([0-9a-f@-]{30,100}/IncomingWebhook/[0-9a-f]{20,40}[/0-9a-f-]*)",
        severity: Severity::High,
    },
    Shape {
        kind: "azure_credential",
        words: &["accountkey=", "sharedaccesskey="],
        pattern: r"(?i)(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,100}={0,2})",
        severity: Severity::High,
    },
    Shape {
        kind: "azure_credential",
        words: &["sig="],
        pattern: r"[?&]s[a-z]{1,2}=[^&\s]{1,100}&(?:[^\s]{0,400}&)?sig=([A-Za-z0-9%+/_-]{40,100}={0,2})",
        severity: Severity::High,
    },
    Shape {
        kind: "azure_credential",
        words: &[
            "0q~", "1q~", "2q~", "3q~", "4q~", "5q~", "6q~", "7q~", "8q~", "9q~",
        ],
        pattern: r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)",
        severity: Severity::High,
    },
    Shape {
        kind: "aws_credential",
        words: &["aws", "secret"],
        pattern: r#"(?i)(?:aws|secret)[A-Za-z0-9_ .-]{0,30}["']?[\s:=>,|"'-]{1,8}([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#,
        severity: Severity::High,
    },
    Shape {
        kind: "twilio_key",
        words: &["twilio"],
        pattern: r#"(?i)twilio[A-Za-z0-9_ .-]{0,30}["']?[\s:=>,|"'-]{1,8}([0-9a-f]{32})\b"#,
        severity: Severity::High,
    },
    Shape {
        kind: "twilio_key",
        words: &[
            "sk0", "sk1", "sk2", "sk3", "sk4", "sk5", "sk6", "sk7", "sk8", "sk9", "ska", "skb", "skc", "skd",
            "ske", "skf",
        ],
        pattern: r"\b(SK[0-9a-f]{32})\b",
        severity: Severity::High,
    },
    Shape {
        kind: "mail_key",
        words: &["-us"],
        pattern: r"\b([0-9a-f]{32}-us[0-9]{1,2})\b",
        severity: Severity::High,
    },
    Shape {
        kind: "database_url",
        words: &[
            "server=",
            "data source=",
            "provider=",
            "driver=",
            "host=",
            "uid=",
            "user id=",
            "password",
        ],
        pattern: r#"(?i)(?:server|data source|provider|driver|host|uid|user id)\s*=[^;\n]{1,80};(?:[^\n]{0,200}?;)?[\s"&]*(?:password|pwd)\s*=\s*([^;"'\s{}<>$]{4,80})"#,
        severity: Severity::High,
    },
    Shape {
        kind: "issued_token",
        words: &[".atlasv1."],
        pattern: r"\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70})",
        severity: Severity::High,
    },
    Shape {
        kind: "issued_token",
        words: &["sgp_"],
        pattern: r"\b(sgp_(?:[0-9A-Fa-f]{16}|local)_[0-9A-Fa-f]{40})\b",
        severity: Severity::High,
    },
    Shape {
        kind: "issued_token",
        words: &["_mmk"],
        pattern: r"\b([A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)\b",
        severity: Severity::High,
    },
    Shape {
        kind: "issued_token",
        words: &["access-production-", "access-sandbox-"],
        pattern: r"\baccess-(?:production|sandbox)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
        severity: Severity::High,
    },
    Shape {
        kind: "issued_token",
        words: &["sdk-", "api-", "mob-", "launchdarkly"],
        pattern: r"\b(?:sdk|api)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
        severity: Severity::High,
    },
    Shape {
        kind: "issued_token",
        words: &["00d"],
        pattern: r"\b(00D[A-Za-z0-9]{12,15}![A-Za-z0-9._]{80,120})",
        severity: Severity::High,
    },
    Shape {
        kind: "vault_token",
        words: &["vault"],
        pattern: r#"(?i:vault)[^\n]{0,40}?\b(s\.[A-Za-z]{0,23}[0-9][A-Za-z0-9]{0,23})(?:[^A-Za-z0-9.]|$)"#,
        severity: Severity::High,
    },
    Shape {
        kind: "private_key",
        words: &["kty"],
        pattern: r#"\\?["']kty\\?["'][^{}]{0,400}?\\?["'](?:d|k|p|q|dp|dq|qi)\\?["']\s*:\s*\\?["']([A-Za-z0-9_=+/-]{20,600})"#,
        severity: Severity::High,
    },
    Shape {
        kind: "private_key",
        words: &["kty"],
        pattern: r#"\\?["'](?:d|k|p|q|dp|dq|qi)\\?["']\s*:\s*\\?["']([A-Za-z0-9_=+/-]{20,600})\\?["'][^{}]{0,400}?\\?["']kty\\?["']"#,
        severity: Severity::High,
    },
    Shape {
        kind: "generic_secret",
        words: &["identified with"],
        pattern: r"(?i)identified\s+with\s+['\x22]?\w{1,40}['\x22]?\s+(?:by|as)\s+['\x22]([^'\x22\n]{6,200})['\x22]",
        severity: Severity::High,
    },
    Shape {
        kind: "generic_secret",
        words: &["key", "licen", "serial"],
        pattern: r"(?i:key|licen[sc]e|serial)[^\n]{0,24}?\b([A-Z0-9]{5}(?:-[A-Z0-9]{5}){3,5})\b",
        severity: Severity::High,
    },
    Shape {
        kind: "password_hash",
        words: &[
            "$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$apr1$", "$argon2",
        ],
        pattern: r"(\$(?:1|5|6|y|apr1)\$[A-Za-z0-9./=$-]{1,40}\$[A-Za-z0-9./]{20,100}|\$2[aby]\$[0-9]{2}\$[A-Za-z0-9./]{53}|\$argon2(?:id|i|d)\$[A-Za-z0-9=,$+/]{40,200})",
        severity: Severity::High,
    },
    Shape {
        kind: "credential_file",
        words: &[":$"],
        pattern: r"(?m)(?:^|\\n)[a-z_][a-z0-9_-]{0,31}:(\$[0-9a-z]{1,5}\$[^:\s]{0,200})",
        severity: Severity::High,
    },
    Shape {
        kind: "credential_file",
        words: &[":x:0:0:"],
        pattern: r"(?m)(?:^|[^A-Za-z0-9_-])(root:x:0:0:[^:\n]{0,60}:/[^:\n]{0,60}:/[^\s\n]{1,60})",
        severity: Severity::High,
    },
    Shape {
        kind: "credential_file",
        words: &["client-key-data", "private-key-data"],
        pattern: r#"(?:client|private)-key-data["']?\s*:\s*["']?([A-Za-z0-9+/]{60,8000}={0,2})"#,
        severity: Severity::Critical,
    },
    Shape {
        kind: "credential_file",
        words: &["\"auth\"", "\"auths\""],
        pattern: r#"\\?"auth\\?"\s*:\s*\\?"([A-Za-z0-9+/]{8,1000}={0,2})\\?""#,
        severity: Severity::High,
    },
    Shape {
        kind: "credential_file",
        words: &["machine "],
        pattern: r"(?m)\bmachine\s+\S{1,100}\s+login\s+\S{1,100}\s+password\s+([^\s<$]{3,200})",
        severity: Severity::High,
    },
    Shape {
        kind: "credential_file",
        words: &["_authtoken"],
        pattern: r"(?i)//[a-z0-9./:_-]{3,200}:_authToken=([A-Za-z0-9_./+=-]{8,200})",
        severity: Severity::High,
    },
    Shape {
        kind: "generic_secret",
        words: &["(pw", "(pwd", "/pw", "id/pw", "/password="],
        pattern: r"(?i)(?:id/)?(?:password|pwd|pw)\s*=\s*[A-Za-z0-9_.@-]{2,40}/([^\s/,;()]{6,60})",
        severity: Severity::High,
    },
];

/// The patterns, each compiled when it is first needed.
static PATTERNS: [OnceLock<Regex>; SHAPES.len()] = [const { OnceLock::new() }; SHAPES.len()];

/// Finds the form of this number around the places where one of its words begins, ascending.
pub(super) fn find(shape: usize, text: &str, places: &[usize], hits: &mut Vec<Hit>) {
    let (pattern, shape) = (&PATTERNS[shape], &SHAPES[shape]);
    let pattern = pattern
        .get_or_init(|| Regex::new(shape.pattern).expect("the pattern is a literal and a test compiles it"));
    for window in windows(text, places) {
        for found in pattern.captures_iter(&text[window.clone()]) {
            let secret = found
                .get(1)
                .or_else(|| found.get(0))
                .map_or(0..0, |group| group.range());
            let span = window.start + secret.start..window.start + secret.end;
            let spelled = &text[span.clone()];
            let severity = match value::is_placeholder(spelled) || value::is_sequential(spelled) {
                true => Severity::Low,
                false => shape.severity,
            };
            let is_certain = shape.kind == "password_hash" || value::is_generated(spelled);
            hits.push(Hit::new(shape.kind, severity, span).only_if(is_certain));
        }
    }
}

/// Stretches around places, joined where they overlap, so that nothing is looked at twice.
fn windows(text: &str, places: &[usize]) -> Vec<Range<usize>> {
    let mut windows: Vec<Range<usize>> = Vec::new();
    for &place in places {
        let from = text.floor_char_boundary(place.saturating_sub(BEFORE));
        let to = text.ceil_char_boundary((place + AFTER).min(text.len()));
        match windows.last_mut() {
            Some(last) if from <= last.end => last.end = last.end.max(to),
            Some(_) | None => windows.push(from..to),
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_no_word_is_in_upper_case() {
        for (index, shape) in SHAPES.iter().enumerate() {
            let mut hits = Vec::new();
            find(index, "nothing of the kind", &[0], &mut hits);
            assert!(hits.is_empty(), "{}", shape.kind);
            assert!(
                shape
                    .words
                    .iter()
                    .all(|word| word.to_lowercase() == *word && word.len() >= 2)
            );
        }
    }

    #[test]
    fn stretches_are_joined() {
        let text = "x".repeat(5000);
        assert_eq!(windows(&text, &[0, 100, 4000]), [0..700, 3880..4600]);
    }
}
