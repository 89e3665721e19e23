//! Candidates: the texts in a call's arguments that are paths, and the access of the call to their files.

use mcpmon_model::{MAX_PATH, RawJson};

use super::{
    FileAccess, is_relative, patch, shell, spelling,
    uses::Uses,
    words::{self, Meaning, NameMeaning, Verbs},
};
use crate::arguments::{Argument, ArgumentKind, Arguments};

/// Most levels of JSON texts within strings that are read.
const MAX_DEPTH: usize = 2;
/// Most directories of a call for which its relative paths are tried.
const MAX_BASES: usize = 4;
/// Most words of a list that are read as one command.
const MAX_WORDS: usize = 1 << 16;

/// Returns every path in the arguments of a call of `tool`, with the access to it.
pub(super) fn candidates(tool: &str, arguments: &Arguments<'_>) -> Uses {
    let mut reader = CandidateReader {
        verbs: Verbs::of(tool),
        found: Uses::default(),
    };
    match arguments.is_cut() {
        true => reader.found.cut(),
        false => reader.read(arguments, MAX_DEPTH),
    }
    reader.found
}

struct CandidateReader {
    verbs: Verbs,
    found: Uses,
}

/// The access that one set of arguments describes as a whole.
struct ArgumentSet {
    verbs: Verbs,
    bases: Vec<String>,
}

impl CandidateReader {
    fn read(&mut self, arguments: &Arguments<'_>, depth: usize) {
        let texts = texts(arguments);
        let call = ArgumentSet {
            verbs: self.verbs.with(&texts),
            bases: bases(&texts),
        };
        let mut command: Vec<&str> = Vec::new();
        let mut names = texts.iter().map(|(_, name)| *name);
        for argument in arguments.iter() {
            match argument.kind() {
                ArgumentKind::Key => self.key(&call, &argument),
                ArgumentKind::Text => {
                    let name = names.next().expect("every text has a name, if an empty one");
                    self.text(&call, &argument, name, depth);
                    if is_command(&call, name) {
                        match command.len() < MAX_WORDS {
                            true => command.push(argument.text()),
                            false => self.found.cut(),
                        }
                    }
                }
                ArgumentKind::Literal => {}
            }
        }
        if command.len() > 1 {
            let directory = call.bases.first().map(String::as_str);
            shell::files_of_words(&command, directory, &mut self.found);
        }
    }

    /// Handles a key that may be a path: `{"files": {"/etc/profile": "…"}}`.
    fn key(&mut self, call: &ArgumentSet, argument: &Argument<'_>) {
        let text = argument.text();
        if may_be_path(text) && !is_within_content(argument) {
            let access = match call.verbs.reads && !call.verbs.changes() {
                true => FileAccess::Read,
                false => FileAccess::Write,
            };
            self.path(call, text, access);
        }
    }

    fn text(&mut self, call: &ArgumentSet, argument: &Argument<'_>, name: NameMeaning, depth: usize) {
        let text = argument.text();
        let meaning = name.meaning();
        let is_content = match meaning {
            Meaning::Content => true,
            Meaning::WeakContent => !call.verbs.runs,
            Meaning::Prose | Meaning::Path | Meaning::Command | Meaning::Other => false,
        };
        let takes_patch = call.verbs.patches || matches!(argument.name(), "patch" | "diff" | "input");
        let is_command = is_command(call, name);
        if (is_command || takes_patch) && patch::is_patch(text) {
            for target in patch::targets(text) {
                self.path(call, target, FileAccess::Write);
            }
            return;
        }
        if is_content || is_within_content(argument) {
            return;
        }
        if self.json(text, depth) {
            return;
        }
        if is_command {
            self.command(call, text);
        }
        let names_file = match meaning {
            Meaning::Path => self.is_path(call, text, name),
            Meaning::Prose | Meaning::Content | Meaning::WeakContent => false,
            Meaning::Command => !text.contains(' ') && may_be_path(text),
            Meaning::Other => may_be_path(text),
        };
        if names_file {
            self.path(call, text, call.access(name));
        }
    }

    /// Reads a text that is JSON as further arguments. Returns `false` if it is no JSON.
    fn json(&mut self, text: &str, depth: usize) -> bool {
        let trimmed = text.trim();
        let Some(depth) = depth.checked_sub(1).filter(|_| trimmed.starts_with(['{', '['])) else {
            return false;
        };
        if serde_json::from_str::<serde_json::Value>(trimmed).is_err() {
            return false;
        }
        let arguments = Arguments::walk(RawJson::trusted(trimmed));
        if arguments.is_cut() {
            self.found.cut();
        }
        self.read(&arguments, depth);
        true
    }

    fn command(&mut self, call: &ArgumentSet, line: &str) {
        let directory = call.bases.first().map(String::as_str);
        shell::files(line, directory, &mut self.found);
        // A program in another language has its paths in quotes.
        if line.contains('(') {
            for (path, access) in super::code::paths(line) {
                self.path(call, path, access);
            }
        }
    }

    fn path(&mut self, call: &ArgumentSet, text: &str, access: FileAccess) {
        let text = text.trim();
        if is_relative(text) {
            for base in &call.bases {
                self.found.add(format!("{base}/{text}"), access);
            }
        }
        self.found.add(text.to_owned(), access);
    }

    /// Returns whether the text of a member for a location can be used as it is. If it has several lines, each of them
    /// can be a path; and a text that is too long for a path can be short once it is resolved.
    fn is_path(&mut self, call: &ArgumentSet, text: &str, name: NameMeaning) -> bool {
        if text.len() > spelling::MAX_TEXT {
            if let Some(short) = spelling::shortened(text) {
                self.path(call, &short, call.access(name));
            }
            return false;
        }
        if text.trim().contains('\n') {
            for line in text.lines().filter(|line| may_be_path(line)) {
                self.path(call, line, call.access(name));
            }
        }
        !text.is_empty()
    }
}

impl Verbs {
    /// Combines the verbs in the tool's name with those in the arguments.
    fn with(mut self, texts: &[(Argument<'_>, NameMeaning)]) -> Self {
        for (argument, name) in texts {
            let text = argument.text();
            match name.meaning() {
                Meaning::Content => self.writes = true,
                Meaning::WeakContent if !self.reads => self.writes = true,
                Meaning::WeakContent | Meaning::Prose | Meaning::Path | Meaning::Command | Meaning::Other => {
                }
            }
            if name.is_operation() && text.len() <= MAX_OPERATION {
                let said = Self::of(text);
                self.writes |= said.writes || words::is_writing_mode(text);
                self.removes |= said.removes;
                self.copies |= said.copies;
            }
        }
        self
    }

    const fn changes(self) -> bool {
        self.writes || self.removes
    }
}

/// Longest name of an operation.
const MAX_OPERATION: usize = 32;

impl ArgumentSet {
    /// Returns the access to the file in a member of this name.
    fn access(&self, name: NameMeaning) -> FileAccess {
        let Verbs { removes, copies, .. } = self.verbs;
        match () {
            () if removes && !name.is_destination() => FileAccess::Remove,
            () if copies && !removes && !name.is_destination() && name.is_source() => FileAccess::Read,
            () if self.verbs.changes() => FileAccess::Write,
            () => FileAccess::Read,
        }
    }
}

/// Returns whether an argument is a command, or a word of one.
fn is_command(call: &ArgumentSet, name: NameMeaning) -> bool {
    match name.meaning() {
        Meaning::Command => true,
        Meaning::Other | Meaning::WeakContent => call.verbs.runs,
        Meaning::Content | Meaning::Prose | Meaning::Path => false,
    }
}

/// Returns whether an argument is part of the contents of a file.
fn is_within_content(argument: &Argument<'_>) -> bool {
    let mut outer = argument.members().rev().skip(1);
    outer.any(|name| matches!(name, "content" | "contents" | "text" | "body" | "file_text"))
}

/// Returns every text with the meaning of its name. Items of one list share a name.
fn texts<'a>(arguments: &'a Arguments<'_>) -> Vec<(Argument<'a>, NameMeaning)> {
    let mut before: Option<(&str, NameMeaning)> = None;
    let texts = arguments
        .iter()
        .filter(|argument| argument.kind() == ArgumentKind::Text);
    texts
        .map(|argument| {
            let known = before.filter(|(name, _)| *name == argument.name());
            let (_, name) = known.unwrap_or_else(|| (argument.name(), NameMeaning::of(argument.name())));
            before = Some((argument.name(), name));
            (argument, name)
        })
        .collect()
}

fn bases(texts: &[(Argument<'_>, NameMeaning)]) -> Vec<String> {
    let has_name = texts.iter().any(|(_, name)| name.is_name());
    let is_base = |(argument, name): &&(Argument<'_>, NameMeaning)| {
        name.is_base() || (has_name && argument.name().eq_ignore_ascii_case("path"))
    };
    let found = texts.iter().filter(is_base).map(|(argument, _)| argument.text());
    let is_directory = |text: &&str| text.len() <= MAX_PATH && !text.is_empty();
    found
        .filter(is_directory)
        .take(MAX_BASES)
        .map(str::to_owned)
        .collect()
}

fn is_line(text: &str) -> bool {
    !text.is_empty() && text.len() <= 3 * MAX_PATH && !text.trim().contains('\n')
}

/// Returns whether a text itself looks like a path.
fn may_be_path(text: &str) -> bool {
    let bytes = text.as_bytes();
    is_line(text)
        && (memchr::memchr3(b'/', b'\\', b'%', bytes).is_some()
            || memchr::memchr(b'{', bytes).is_some()
            || text.trim_start().starts_with(['.', '~', '$'])
            || !text.is_ascii())
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn told(tool: &str, arguments: &str) -> Vec<String> {
        let arguments = Arguments::walk(RawJson::trusted(arguments));
        let found = candidates(tool, &arguments);
        found
            .iter()
            .map(|one| format!("{} {}", one.access.verb(), one.path))
            .collect()
    }

    #[test_case("write_file", r#"{"path":"a","content":"~/.b"}"#, &["writes a"]; "content is no path")]
    #[test_case("read_file", r#"{"path":"a"}"#, &["reads a"]; "read")]
    #[test_case("read_file", r#"{"path":"a","content":"x"}"#, &["writes a"]; "a tool that reads takes no content")]
    #[test_case("fs", r#"{"op":"delete","path":"a"}"#, &["removes a"]; "an operation")]
    #[test_case("open", r#"{"mode":"a+","path":"x"}"#, &["writes x"]; "a mode")]
    #[test_case("copy_file", r#"{"source":"a","destination":"b"}"#, &["reads a", "writes b"]; "a copy")]
    #[test_case("move_file", r#"{"source":"a","destination":"b"}"#, &["removes a", "writes b"]; "a move")]
    #[test_case("put", r#"{"files":{"/a":"x","b":"y"}}"#, &["writes /a"]; "keys")]
    #[test_case("call", r#"{"params":"{\"op\":\"write\",\"path\":\"a\"}"}"#, &["writes a"]; "a text of JSON")]
    #[test_case("write", r#"{"dir":"~/.ssh","file":"x"}"#, &["writes ~/.ssh", "writes ~/.ssh/x", "writes x"]; "a directory and a name")]
    #[test_case("run", r#"{"command":"echo x > a"}"#, &["writes a"]; "a command")]
    #[test_case("run", r#"{"argv":["sh","-c","echo x > a"]}"#, &["writes a"]; "a command in words")]
    #[test_case("apply", r#"{"patch":"--- a/x\n+++ b/y\n"}"#, &["writes a/x", "writes x", "writes b/y", "writes y"]; "a patch")]
    #[test_case("write_note", r#"{"path":"n","content":"--- a/x\n+++ b/y\n"}"#, &["writes n"]; "a patch in a note")]
    fn paths_of_calls(tool: &str, arguments: &str, expected: &[&str]) {
        let told = told(tool, arguments);
        let unexpected: Vec<_> = told
            .iter()
            .filter(|one| !expected.contains(&one.as_str()))
            .collect();
        let missing: Vec<_> = expected
            .iter()
            .filter(|one| !told.iter().any(|told| told == *one))
            .collect();
        assert_eq!((unexpected, missing), (vec![], vec![]), "{told:?}");
    }
}
