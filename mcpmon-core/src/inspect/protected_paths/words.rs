//! What names of tools and arguments say: who reads, writes, removes or runs, and which texts are paths.

/// The words of a name in any case style: `writeFile`, `write_file` and `WRITE-FILE` have the same two.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut begins = true;
    let mut was_lower = false;
    for c in name.chars().take(MAX_NAME) {
        if !c.is_alphanumeric() {
            begins = true;
            continue;
        }
        if begins || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        begins = false;
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Characters of a name that are read.
const MAX_NAME: usize = 256;

/// What is done to a file.
#[rustfmt::skip]
const WRITES: &[&str] = &[
    "write", "writefile", "edit", "editfile", "create", "append", "patch", "apply", "update", "set", "save", "put",
    "insert", "replace", "modify", "copy", "cp", "link", "symlink", "ln", "touch", "truncate", "overwrite", "store",
    "export", "dump", "install", "download", "extract", "unzip", "untar", "unpack", "restore", "chmod", "chown",
    "chgrp", "upload", "add", "change", "fix", "format", "init", "make", "new", "prepend", "rewrite", "rollback",
    "generate", "merge", "sync", "render", "output", "persist", "configure", "config", "tee", "mkdir", "upsert",
];

/// What takes a file, or a directory with everything in it, from its place.
#[rustfmt::skip]
const REMOVES: &[&str] = &[
    "delete", "remove", "rm", "unlink", "move", "mv", "rename", "trash", "erase", "purge", "rmdir", "clean", "wipe",
    "destroy", "del",
];

/// What leaves a file as it is.
#[rustfmt::skip]
const READS: &[&str] = &[
    "read", "get", "list", "search", "find", "grep", "view", "show", "stat", "cat", "fetch", "query", "look", "open",
    "head", "tail", "ls", "tree", "describe", "inspect", "check", "count", "diff", "compare", "info", "exists",
];

/// What runs commands.
#[rustfmt::skip]
const RUNS: &[&str] = &[
    "shell", "bash", "sh", "zsh", "exec", "execute", "run", "terminal", "command", "commands", "cmd", "powershell",
    "process", "subprocess", "spawn", "system", "eval", "console", "repl", "python", "node", "javascript", "script",
    "ssh", "tty", "pty",
];

/// Members whose value is what a file is to say.
#[rustfmt::skip]
const CONTENT: &[&str] = &[
    "content", "contents", "filetext", "newtext", "newstring", "newstr", "newcontent", "newcontents", "replacement",
    "replacewith", "append", "inserttext", "edits", "filecontent", "filecontents", "patch", "diff",
];

/// The same, where the tool does not say that it reads.
const WEAK_CONTENT: &[&str] = &[
    "text", "body", "data", "value", "lines", "base64", "blob", "bytes", "code",
];

/// Members whose value is prose, or something to look for.
#[rustfmt::skip]
const PROSE: &[&str] = &[
    "title", "subject", "query", "pattern", "regex", "description", "message", "label", "summary", "reason",
    "prompt", "question", "q", "search", "sql", "oldstring", "oldstr", "oldtext", "comment", "note", "caption",
    "markdown", "html", "thought", "thinking", "instructions", "commitmessage", "explanation", "glob", "usernote",
];

/// Words of members whose value is a path.
#[rustfmt::skip]
const PATHS: &[&str] = &[
    "path", "paths", "file", "files", "filename", "filenames", "filepath", "filepaths", "dir", "dirs", "directory",
    "directories", "folder", "uri", "uris", "url", "source", "sources", "src", "dest", "destination", "dst", "target",
    "targets", "to", "from", "output", "out", "input", "location", "root", "base", "cwd", "workdir", "pathname",
    "document", "doc", "resource", "link",
];

/// Words of members whose value is a directory that other paths are relative to.
const BASES: &[&str] = &[
    "cwd",
    "dir",
    "directory",
    "folder",
    "workdir",
    "root",
    "base",
    "basedir",
    "parent",
    "workspace",
    "location",
];

/// Members whose value names what is to be done.
const OPERATIONS: &[&str] = &[
    "op",
    "operation",
    "action",
    "mode",
    "method",
    "command",
    "cmd",
    "type",
    "verb",
    "access",
    "flags",
];

/// Members whose value is a command.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "command", "cmd", "commands", "cmds", "commandline", "script", "shell", "bash", "run", "exec", "args", "argv",
    "arguments", "program", "code", "expression", "stdin", "keystrokes", "entrypoint",
];

/// What a tool does to the files it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verbs {
    pub(super) writes: bool,
    pub(super) removes: bool,
    pub(super) reads: bool,
    pub(super) runs: bool,
    pub(super) copies: bool,
    pub(super) patches: bool,
}

impl Verbs {
    /// What a name says.
    pub(super) fn of(name: &str) -> Self {
        let words = words(name);
        let says = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        Self {
            writes: says(WRITES),
            removes: says(REMOVES),
            reads: says(READS),
            runs: says(RUNS),
            copies: says(&["copy", "cp", "link", "symlink", "ln"]),
            patches: says(&["patch", "diff", "apply"]),
        }
    }
}

/// What the value of a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// What a file is to say.
    Content,
    /// The same, unless the tool reads.
    WeakContent,
    /// Prose, or something to look for.
    Prose,
    /// A path.
    Path,
    /// A command.
    Command,
    /// Anything.
    Other,
}

/// What the value of a member with this name is.
pub(super) fn meaning(name: &str) -> Meaning {
    let words = words(name);
    let joined = words.concat();
    let is = |list: &[&str]| list.contains(&joined.as_str());
    if is(CONTENT) {
        Meaning::Content
    } else if is(COMMANDS) {
        Meaning::Command
    } else if is(WEAK_CONTENT) {
        Meaning::WeakContent
    } else if is(PROSE) {
        Meaning::Prose
    } else if words.iter().any(|word| PATHS.contains(&word.as_str())) {
        Meaning::Path
    } else {
        Meaning::Other
    }
}

/// Whether the value of a member is a directory that others are relative to.
pub(super) fn is_base(name: &str) -> bool {
    words(name).iter().any(|word| BASES.contains(&word.as_str()))
}

/// Whether the value of a member may say what is to be done.
pub(super) fn is_operation(name: &str) -> bool {
    OPERATIONS.contains(&words(name).concat().as_str())
}

/// Whether a mode of opening a file lets it be written: `w`, `a+`, `O_WRONLY`.
pub(super) fn is_writing_mode(mode: &str) -> bool {
    matches!(
        mode,
        "w" | "a"
            | "x"
            | "w+"
            | "a+"
            | "x+"
            | "r+"
            | "wb"
            | "ab"
            | "xb"
            | "wb+"
            | "ab+"
            | "rb+"
            | "wt"
            | "at"
    ) || mode.contains("WRONLY")
        || mode.contains("RDWR")
}

/// Whether the value of a member is where something goes.
pub(super) fn is_destination(name: &str) -> bool {
    let goes = [
        "dest",
        "destination",
        "dst",
        "to",
        "target",
        "output",
        "out",
        "new",
    ];
    words(name).iter().any(|word| goes.contains(&word.as_str()))
}

/// Whether the value of a member is where something comes from.
pub(super) fn is_source(name: &str) -> bool {
    let comes = ["source", "sources", "src", "from", "old", "input", "original"];
    words(name).iter().any(|word| comes.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("writeFile", &["write", "file"])]
    #[test_case("FS-write_FILE", &["fs", "write", "file"])]
    #[test_case("", &[]; "empty")]
    fn names_have_words(name: &str, expected: &[&str]) {
        assert_eq!(words(name), expected);
    }

    #[test_case("new_string" => Meaning::Content)]
    #[test_case("filePath" => Meaning::Path)]
    #[test_case("target_file" => Meaning::Path)]
    #[test_case("cmd" => Meaning::Command)]
    #[test_case("text" => Meaning::WeakContent)]
    #[test_case("old_string" => Meaning::Prose)]
    #[test_case("id" => Meaning::Other)]
    fn members_mean_something(name: &str) -> Meaning {
        meaning(name)
    }

    #[test]
    fn tools_say_what_they_do() {
        assert!(Verbs::of("str_replace_editor").writes);
        assert!(Verbs::of("moveFile").removes);
        assert!(Verbs::of("run_shell").runs);
        let reads = Verbs::of("read_text_file");
        assert!(reads.reads && !reads.writes && !reads.removes && !reads.runs);
    }
}
