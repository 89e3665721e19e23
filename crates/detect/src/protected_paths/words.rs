//! Words in names of tools and arguments that tell reading, writing, removing and running, and mark texts
//! that are paths.

use std::{collections::HashMap, sync::LazyLock};

/// The meaning of a name's words, alone and together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The lists that one of its words is in.
    words: Lists,
    /// The lists that all its words in one are in.
    whole: Lists,
}

/// Lists of words, a bit for each.
type Lists = u32;

impl Name {
    /// Of a name in any case style: `writeFile`, `write_file` and `WRITE-FILE` have the same two words.
    pub(super) fn of(name: &str) -> Self {
        let mut spelled = String::with_capacity(name.len().min(MAX_NAME));
        let (mut words, mut from) = (0, 0);
        let mut was_lower = false;
        for c in name.chars().take(MAX_NAME) {
            let begins = c.is_uppercase() && was_lower || !c.is_alphanumeric();
            if begins && from < spelled.len() {
                words |= lists_of(&spelled[from..]);
                from = spelled.len();
            }
            if c.is_alphanumeric() {
                spelled.extend(c.to_lowercase());
                was_lower = c.is_lowercase();
            }
        }
        Self {
            words: words | lists_of(&spelled[from..]),
            whole: lists_of(&spelled),
        }
    }

    const fn has_word(self, list: List) -> bool {
        self.words & list.bit() != 0
    }

    const fn is(self, list: List) -> bool {
        self.whole & list.bit() != 0
    }
}

/// Characters of a name that are read.
const MAX_NAME: usize = 256;

/// The lists of words.
#[derive(Clone, Copy)]
enum List {
    Writes,
    Removes,
    Reads,
    Runs,
    Copies,
    Patches,
    Content,
    WeakContent,
    Prose,
    Paths,
    Bases,
    Operations,
    Commands,
    Destinations,
    Sources,
    Names,
}

impl List {
    const fn bit(self) -> Lists {
        1 << self as u32
    }
}

fn lists_of(word: &str) -> Lists {
    LISTS.get(word).copied().unwrap_or_default()
}

/// Every word that is in a list, and in which.
static LISTS: LazyLock<HashMap<&'static str, Lists>> = LazyLock::new(|| {
    let mut lists: HashMap<&str, Lists> = HashMap::new();
    for (list, words) in [
        (List::Writes, WRITES),
        (List::Removes, REMOVES),
        (List::Reads, READS),
        (List::Runs, RUNS),
        (List::Copies, COPIES),
        (List::Patches, PATCHES),
        (List::Content, CONTENT),
        (List::WeakContent, WEAK_CONTENT),
        (List::Prose, PROSE),
        (List::Paths, PATHS),
        (List::Bases, BASES),
        (List::Operations, OPERATIONS),
        (List::Commands, COMMANDS),
        (List::Destinations, DESTINATIONS),
        (List::Sources, SOURCES),
        (List::Names, NAMES),
    ] {
        for word in words {
            *lists.entry(word).or_default() |= list.bit();
        }
    }
    lists
});

/// The words for writing a file.
#[rustfmt::skip]
const WRITES: &[&str] = &[
    "write", "writefile", "edit", "editfile", "create", "append", "patch", "apply", "update", "set", "save", "put",
    "insert", "replace", "modify", "copy", "cp", "link", "symlink", "ln", "touch", "truncate", "overwrite", "store",
    "export", "dump", "install", "download", "extract", "unzip", "untar", "unpack", "restore", "chmod", "chown",
    "chgrp", "upload", "add", "change", "fix", "format", "init", "make", "new", "prepend", "rewrite", "rollback",
    "generate", "merge", "sync", "render", "output", "persist", "configure", "config", "tee", "mkdir", "upsert",
];

/// The words for moving or removing a file, or a directory with everything in it.
#[rustfmt::skip]
const REMOVES: &[&str] = &[
    "delete", "remove", "rm", "unlink", "move", "mv", "rename", "trash", "erase", "purge", "rmdir", "clean", "wipe",
    "destroy", "del",
];

/// The words that leave a file as it is.
#[rustfmt::skip]
const READS: &[&str] = &[
    "read", "get", "list", "search", "find", "grep", "view", "show", "stat", "cat", "fetch", "query", "look", "open",
    "head", "tail", "ls", "tree", "describe", "inspect", "check", "count", "diff", "compare", "info", "exists",
];

/// The words for running commands.
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

/// The words for making a file from another.
const COPIES: &[&str] = &["copy", "cp", "link", "symlink", "ln"];

/// The words for applying a patch.
const PATCHES: &[&str] = &["patch", "diff", "apply"];

/// Words of members whose value is where something goes.
const DESTINATIONS: &[&str] = &[
    "dest",
    "destination",
    "dst",
    "to",
    "target",
    "output",
    "out",
    "new",
];

/// Words of members whose value is where something comes from.
const SOURCES: &[&str] = &["source", "sources", "src", "from", "old", "input", "original"];

/// Words of members whose value is the name of a file, beside its directory.
const NAMES: &[&str] = &["name", "filename"];

/// The effect of a tool on the files it is given.
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
    /// Returns the meaning of a name.
    pub(super) fn of(name: &str) -> Self {
        let name = Name::of(name);
        Self {
            writes: name.has_word(List::Writes),
            removes: name.has_word(List::Removes),
            reads: name.has_word(List::Reads),
            runs: name.has_word(List::Runs),
            copies: name.has_word(List::Copies),
            patches: name.has_word(List::Patches),
        }
    }
}

/// The meaning of a member's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The new content of a file.
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

impl Name {
    /// Returns the meaning of the value of a member with this name.
    pub(super) const fn meaning(self) -> Meaning {
        match () {
            () if self.is(List::Content) => Meaning::Content,
            () if self.is(List::Commands) => Meaning::Command,
            () if self.is(List::WeakContent) => Meaning::WeakContent,
            () if self.is(List::Prose) => Meaning::Prose,
            () if self.has_word(List::Paths) => Meaning::Path,
            () => Meaning::Other,
        }
    }

    /// Returns whether the value of a member is a directory that others are relative to.
    pub(super) const fn is_base(self) -> bool {
        self.has_word(List::Bases)
    }

    /// Returns whether the value of a member is the name of a file.
    pub(super) const fn is_name(self) -> bool {
        self.has_word(List::Names)
    }

    /// Returns whether the value of a member may say what is to be done.
    pub(super) const fn is_operation(self) -> bool {
        self.is(List::Operations)
    }

    /// Returns whether the value of a member is where something goes.
    pub(super) const fn is_destination(self) -> bool {
        self.has_word(List::Destinations)
    }

    /// Returns whether the value of a member is where something comes from.
    pub(super) const fn is_source(self) -> bool {
        self.has_word(List::Sources)
    }
}

/// Returns whether a mode of opening a file lets it be written: `w`, `a+`, `O_WRONLY`.
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

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("writeFile"; "camel case")]
    #[test_case("FS-write_FILE"; "kebab and snake case")]
    #[test_case("__write  file"; "what is between words")]
    fn names_have_words(name: &str) {
        let name = Name::of(name);
        assert!(name.has_word(List::Writes) && name.has_word(List::Paths) && !name.has_word(List::Reads));
    }

    #[test_case("new_string", List::Content => true; "two words")]
    #[test_case("NEWSTRING", List::Content => true; "one word")]
    #[test_case("the_new_string", List::Content => false; "more words")]
    #[test_case("", List::Content => false; "none")]
    fn names_say_something_together(name: &str, list: List) -> bool {
        Name::of(name).is(list)
    }

    #[test_case("new_string" => Meaning::Content)]
    #[test_case("filePath" => Meaning::Path)]
    #[test_case("target_file" => Meaning::Path)]
    #[test_case("cmd" => Meaning::Command)]
    #[test_case("text" => Meaning::WeakContent)]
    #[test_case("old_string" => Meaning::Prose)]
    #[test_case("id" => Meaning::Other)]
    fn members_mean_something(name: &str) -> Meaning {
        Name::of(name).meaning()
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
