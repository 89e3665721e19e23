//! Words of tool names, and what they say a tool does.

use mcpmon_model::ToolCategory;

/// Characters of a name that are read.
const MAX_NAME: usize = 256;

/// The certainty that a word is a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    /// The word is a verb.
    Verb,
    /// The word is a verb or a noun.
    Either,
    /// The word is a noun, and the thing it names is fetched.
    Noun,
}

/// The words of a name in any case style, in lower case.
pub(super) fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut previous = ' ';
    let mut characters = name.chars().take(MAX_NAME).peekable();
    while let Some(c) = characters.next() {
        if !c.is_alphanumeric() {
            words.push(String::new());
        } else {
            // `getPage`, and the last capital of `HTTPGet`.
            let ends_abbreviation =
                previous.is_uppercase() && characters.peek().is_some_and(|next| next.is_lowercase());
            if c.is_uppercase()
                && (!previous.is_uppercase() && previous.is_alphanumeric() || ends_abbreviation)
            {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        previous = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the category and the certainty of `word`, if it is known.
pub(super) fn verb(word: &str) -> Option<(ToolCategory, Strength)> {
    WORDS
        .iter()
        .find(|(_, _, words)| words.contains(&word))
        .map(|(category, strength, _)| (*category, *strength))
}

const WORDS: [(ToolCategory, Strength, &[&str]); 9] = [
    (
        ToolCategory::Read,
        Strength::Verb,
        &[
            "read",
            "get",
            "list",
            "fetch",
            "find",
            "lookup",
            "retrieve",
            "describe",
            "show",
            "view",
            "download",
            "browse",
            "navigate",
            "inspect",
            "check",
            "analyze",
            "analyse",
            "extract",
            "summarize",
            "summarise",
            "explain",
            "compare",
            "count",
            "validate",
            "verify",
            "identify",
            "discover",
            "explore",
            "detect",
            "recommend",
            "suggest",
            "resolve",
            "load",
            "pull",
            "grep",
            "glob",
            "ls",
            "cat",
            "stat",
            "head",
            "tail",
            "peek",
            "crawl",
            "scrape",
            "capture",
            "watch",
            "ping",
            "recall",
            "select",
            "enumerate",
            "preview",
            "measure",
            "estimate",
            "calc",
            "whoami",
            "tell",
            "wait",
            "poll",
            "collect",
            "return",
            "provide",
            "scan",
            "acquire",
            "receive",
            "is",
            "has",
            "can",
            "aggregate",
            "diagnose",
            "evaluate",
            "assess",
        ],
    ),
    (
        ToolCategory::Write,
        Strength::Verb,
        &[
            "write",
            "create",
            "update",
            "delete",
            "remove",
            "put",
            "insert",
            "add",
            "edit",
            "modify",
            "move",
            "rename",
            "copy",
            "append",
            "replace",
            "save",
            "store",
            "patch",
            "upsert",
            "merge",
            "assign",
            "unassign",
            "attach",
            "detach",
            "archive",
            "unarchive",
            "restore",
            "revert",
            "clear",
            "close",
            "reopen",
            "enable",
            "disable",
            "activate",
            "deactivate",
            "approve",
            "reject",
            "cancel",
            "complete",
            "mark",
            "mkdir",
            "rm",
            "mv",
            "cp",
            "touch",
            "configure",
            "install",
            "uninstall",
            "register",
            "unregister",
            "import",
            "clone",
            "commit",
            "apply",
            "drop",
            "truncate",
            "alter",
            "grant",
            "revoke",
            "lock",
            "unlock",
            "star",
            "unstar",
            "click",
            "fill",
            "type",
            "press",
            "drag",
            "hover",
            "resize",
            "scroll",
            "input",
            "upgrade",
            "downgrade",
            "link",
            "unlink",
            "subscribe",
            "unsubscribe",
            "follow",
            "unfollow",
            "join",
            "leave",
            "book",
            "buy",
            "purchase",
            "checkout",
            "login",
            "logout",
            "authenticate",
            "resume",
            "pause",
            "reset",
            "init",
            "initialize",
            "initialise",
            "provision",
            "manage",
            "organize",
            "sync",
            "remember",
            "forget",
            "ingest",
            "index",
            "split",
            "crop",
            "rotate",
            "sort",
            "dismiss",
            "accept",
            "ban",
            "unban",
            "kick",
            "convert",
            "connect",
            "disconnect",
            "use",
            "change",
            "switch",
            "bind",
            "unbind",
            "tag",
            "untag",
            "pin",
            "unpin",
            "refund",
            "transfer",
            "flush",
            "purge",
            "prune",
            "build",
            "make",
            "setup",
            "toggle",
            "adjust",
            "fork",
            "stage",
            "unstage",
            "release",
            "refine",
            "design",
        ],
    ),
    (
        ToolCategory::Compute,
        Strength::Verb,
        &[
            "exec",
            "execute",
            "eval",
            "invoke",
            "calculate",
            "compute",
            "generate",
            "render",
            "transform",
            "format",
            "translate",
            "transcribe",
            "simulate",
            "solve",
            "compile",
            "deploy",
            "start",
            "stop",
            "restart",
            "launch",
            "kill",
            "terminate",
            "trigger",
            "spawn",
            "reboot",
            "encode",
            "decode",
            "encrypt",
            "decrypt",
            "sign",
            "optimize",
            "optimise",
            "predict",
            "infer",
            "train",
            "think",
            "reason",
            "parse",
            "minify",
            "lint",
            "beautify",
            "tokenize",
            "embed",
            "roll",
            "randomize",
            "synthesize",
            "interact",
            "rollback",
            "bash",
            "sh",
            "powershell",
            "terminal",
            "repl",
            "debug",
            "scaffold",
            "plan",
            "perform",
            "process",
        ],
    ),
    (
        ToolCategory::Send,
        Strength::Verb,
        &[
            "send",
            "notify",
            "publish",
            "forward",
            "reply",
            "broadcast",
            "transmit",
            "submit",
            "deliver",
            "tweet",
            "retweet",
            "invite",
            "share",
            "upload",
            "dispatch",
            "emit",
            "announce",
            "export",
            "pay",
        ],
    ),
    (
        ToolCategory::Read,
        Strength::Either,
        &[
            "search",
            "query",
            "access",
            "open",
            "monitor",
            "trace",
            "track",
            "sample",
            "review",
            "screenshot",
            "snapshot",
            "audit",
            "ask",
            "diff",
            "research",
            "profile",
            "map",
            "filter",
            "test",
            "log",
            "match",
            "filtering",
            "diffs",
        ],
    ),
    (
        ToolCategory::Write,
        Strength::Either,
        &[
            "set", "comment", "label", "note", "schedule", "draft", "cache", "record", "group", "order",
            "bookmark", "annotate",
        ],
    ),
    (
        ToolCategory::Compute,
        Strength::Either,
        &[
            "run", "call", "script", "command", "shell", "sql", "job", "task", "code", "function", "python",
        ],
    ),
    (
        ToolCategory::Send,
        Strength::Either,
        &[
            "post", "http", "email", "mail", "push", "message", "dm", "sms", "curl", "webhook", "chat",
            "request", "slack", "telegram",
        ],
    ),
    (
        ToolCategory::Read,
        Strength::Noun,
        &[
            "info",
            "information",
            "details",
            "detail",
            "status",
            "stats",
            "statistics",
            "history",
            "metadata",
            "summary",
            "overview",
            "docs",
            "documentation",
            "schema",
            "whois",
            "forecast",
            "weather",
            "price",
            "prices",
            "pricing",
            "balance",
            "tree",
            "logs",
            "metrics",
            "leaderboard",
            "ranking",
            "rankings",
            "usage",
            "version",
            "versions",
            "time",
            "date",
            "quote",
            "news",
            "articles",
            "results",
            "analysis",
            "geocode",
            "directions",
            "distance",
            "guide",
            "help",
            "examples",
            "instructions",
            "guidelines",
            "content",
            "contents",
            "snapshots",
            "calendar",
            "data",
            "report",
            "reports",
            "requirements",
            "catalog",
            "rates",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("getUserByID" => vec!["get", "user", "by", "id"])]
    #[test_case("HTTPServerV2" => vec!["http", "server", "v2"]; "abbreviations and digits")]
    #[test_case("a.b-c_d/e f" => vec!["a", "b", "c", "d", "e", "f"]; "separators")]
    #[test_case("S3Upload" => vec!["s3", "upload"]; "a capital behind a digit")]
    fn names_have_words(name: &str) -> Vec<String> {
        words_of(name)
    }

    #[test]
    fn every_word_says_one_thing_of_its_strength() {
        for strength in [Strength::Verb, Strength::Noun] {
            let mut seen = BTreeSet::new();
            for (_, _, words) in WORDS.iter().filter(|(_, of, _)| *of == strength) {
                for word in *words {
                    assert!(seen.insert(word), "{word} stands twice");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_name_panics(name in any::<String>()) {
            prop_assert!(words_of(&name).iter().all(|word| !word.is_empty()));
        }
    }
}
