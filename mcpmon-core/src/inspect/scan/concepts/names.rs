//! What names say: those of parameters, of variables, of tools.

use super::{Around, Concept, Concepts, tokens::Word};

/// Longest name, bytes.
const LONGEST: usize = 40;

/// Parts of names that say that a secret belongs there.
const FITTING: &[&str] = &[
    "key", "token", "secret", "pass", "pwd", "auth", "cred", "cookie", "header", "env", "login", "jwt",
    "bearer", "config", "session", "account",
];
/// Ends of the names of variables that hold secrets.
const VARIABLES: &[&str] = &["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASS", "_PWD"];
/// Marks of the formats of chats.
const MARKS: &[&str] = &[
    "im_start",
    "im_end",
    "im_sep",
    "eot_id",
    "start_header_id",
    "end_header_id",
    "begin_of_text",
    "start_of_turn",
    "end_of_turn",
    "function_calls",
    "function_results",
];
/// What the names of tools begin with.
const TOOLS: &[&str] = &[
    "send", "get", "read", "write", "create", "delete", "list", "run", "execute", "post", "push", "transfer",
    "update", "search", "fetch", "call", "git", "deploy", "pay", "email", "mail", "web", "file", "upload",
    "download", "edit", "remove", "add", "open", "make", "query", "sql", "bash", "shell", "slack", "github",
    "whatsapp", "tweet", "publish", "submit", "book", "buy", "sell", "move", "copy", "set", "find", "lookup",
    "browse", "http", "invoke", "trigger", "schedule", "share",
];
/// What the names of parameters end with that begin so, too.
const PARAMETERS: &[&str] = &[
    "id", "ids", "name", "names", "type", "path", "paths", "url", "key", "date", "at", "by", "count", "size",
    "list", "to", "only", "format", "time", "mode", "token", "dir", "content", "contents", "text", "data",
];
/// Words that end as verbs do that tell what a tool does.
const NO_VERBS: &[&str] = &[
    "lies",
    "requires",
    "needs",
    "expects",
    "demands",
    "depends",
    "insists",
    "obliges",
    "this",
    "always",
    "whenever",
    "files",
    "names",
    "contents",
    "users",
    "agents",
    "models",
    "assistants",
    "llms",
    "keys",
    "passwords",
    "tokens",
    "credentials",
    "documents",
    "others",
    "does",
    "tools",
    "replies",
    "results",
    "outputs",
    "emails",
    "servers",
    "calls",
    "copies",
    "invoices",
    "payments",
    "people",
    "these",
    "those",
    "perhaps",
    "thus",
    "unless",
    "besides",
    "afterwards",
    "compels",
    "https",
    "dieses",
    "jedes",
    "alles",
    "stets",
    "tous",
    "toutes",
    "vous",
    "todos",
    "todas",
    "antes",
    "despues",
];

/// What a word says by how it stands there.
pub(super) fn of(text: &str, words: &[Word], at: usize, around: &Around<'_>) -> Concepts {
    let word = &words[at];
    let bytes = text.as_bytes();
    let before = word.start.checked_sub(1).map(|at| bytes[at]);
    let is_mark = |byte: &u8| matches!(byte, b'`' | b'\'' | b'"');
    let is_quoted = before
        .filter(is_mark)
        .is_some_and(|mark| bytes.get(word.end) == Some(&mark));
    if !(is_quoted || word.is_name) || word.end - word.start > LONGEST {
        return Concepts::NONE;
    }
    let name = &text[word.start..word.end];
    let mut found = Concepts::NONE;
    let says = |at: Option<usize>, concept| {
        at.and_then(|at| words.get(at))
            .is_some_and(|word| word.is(concept))
    };
    if word.is_name && MARKS.iter().any(|mark| mark.eq_ignore_ascii_case(name)) {
        return Concept::Marked.alone();
    }
    let last = at.checked_sub(1);
    if word.is_name && is_variable(name) {
        return Concept::Secret.alone();
    }
    if says(last, Concept::Into) || says(last, Concept::Slot) || says(Some(at + 1), Concept::Slot) {
        found = match is_fitting(name) {
            true => Concept::Fitting.alone(),
            false => Concept::Named.alone(),
        };
    }
    if word.is_name && is_tool_like(name) && !around.own.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        found = found.and(Concept::Foreign.alone());
    }
    found
}

fn is_fitting(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    FITTING.iter().any(|part| lower.contains(part))
}

fn is_variable(name: &str) -> bool {
    let is_upper = name.bytes().all(|byte| !byte.is_ascii_lowercase());
    is_upper && VARIABLES.iter().any(|end| name.ends_with(end))
}

fn is_tool_like(name: &str) -> bool {
    let is_one_of = |part: Option<&str>, words: &[&str]| {
        part.is_some_and(|part| words.iter().any(|word| word.eq_ignore_ascii_case(part)))
    };
    is_one_of(name.split('_').next(), TOOLS) && !is_one_of(name.rsplit('_').next(), PARAMETERS)
}

/// Whether a sentence that begins with `word` tells what the tool does.
pub(super) fn describes(word: &str) -> bool {
    let ends = |end: u8| {
        word.as_bytes()
            .last()
            .is_some_and(|byte| byte.eq_ignore_ascii_case(&end))
    };
    word.len() > 3
        && ends(b's')
        && !word.as_bytes()[..word.len() - 1].ends_with(b"s")
        && !NO_VERBS.iter().any(|known| known.eq_ignore_ascii_case(word))
}
