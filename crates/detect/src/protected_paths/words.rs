//! Words in names of tools and arguments that mean reading, writing, removing and running, and words for members that
//! are paths.

use std::{collections::HashMap, sync::LazyLock};

use crate::tables::{self, WordList};

/// The meaning of a name's words, alone and together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameMeaning {
    /// The lists that one of its words is in.
    words: Lists,
    /// The lists that all its words in one are in.
    whole: Lists,
}

/// Lists of words, a bit for each.
type Lists = u32;

impl NameMeaning {
    /// Reads a name in any case style: `writeFile`, `write_file` and `WRITE-FILE` have the same two words.
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

    const fn has_word(self, list: NameList) -> bool {
        self.words & list.bit() != 0
    }

    const fn is(self, list: NameList) -> bool {
        self.whole & list.bit() != 0
    }
}

/// Characters of a name that are read.
const MAX_NAME: usize = 256;

/// The lists of words.
#[derive(Clone, Copy)]
enum NameList {
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

impl NameList {
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
        (NameList::Writes, &*WRITES),
        (NameList::Removes, &*REMOVES),
        (NameList::Reads, &*READS),
        (NameList::Runs, &*RUNS),
        (NameList::Copies, &*COPIES),
        (NameList::Patches, &*PATCHES),
        (NameList::Content, &*CONTENT),
        (NameList::WeakContent, &*WEAK_CONTENT),
        (NameList::Prose, &*PROSE),
        (NameList::Paths, &*PATHS),
        (NameList::Bases, &*BASES),
        (NameList::Operations, &*OPERATIONS),
        (NameList::Commands, &*COMMANDS),
        (NameList::Destinations, &*DESTINATIONS),
        (NameList::Sources, &*SOURCES),
        (NameList::Names, &*NAMES),
    ] {
        for word in words {
            *lists.entry(word).or_default() |= list.bit();
        }
    }
    lists
});

/// The words for writing a file.
static WRITES: WordList = tables::PROTECTED_PATHS.list("words", "writes");

/// The words for moving or removing a file, or a directory with everything in it.
static REMOVES: WordList = tables::PROTECTED_PATHS.list("words", "removes");

/// Words for actions that do not change a file.
static READS: WordList = tables::PROTECTED_PATHS.list("words", "reads");

/// The words for running commands.
static RUNS: WordList = tables::PROTECTED_PATHS.list("words", "runs");

/// Members whose value is the new contents of a file.
static CONTENT: WordList = tables::PROTECTED_PATHS.list("words", "content");

/// Members whose value is the new contents of a file, unless the tool reads.
static WEAK_CONTENT: WordList = tables::PROTECTED_PATHS.list("words", "weak_content");

/// Members whose value is prose, or a text to search for.
static PROSE: WordList = tables::PROTECTED_PATHS.list("words", "prose");

/// Words of members whose value is a path.
static PATHS: WordList = tables::PROTECTED_PATHS.list("words", "paths");

/// Words of members whose value is a directory that other paths are relative to.
static BASES: WordList = tables::PROTECTED_PATHS.list("words", "bases");

/// Members whose value names an operation.
static OPERATIONS: WordList = tables::PROTECTED_PATHS.list("words", "operations");

/// Members whose value is a command.
static COMMANDS: WordList = tables::PROTECTED_PATHS.list("words", "commands");

/// The words for making a file from another.
static COPIES: WordList = tables::PROTECTED_PATHS.list("words", "copies");

/// The words for applying a patch.
static PATCHES: WordList = tables::PROTECTED_PATHS.list("words", "patches");

/// Words of members whose value is a destination.
static DESTINATIONS: WordList = tables::PROTECTED_PATHS.list("words", "destinations");

/// Words of members whose value is a source.
static SOURCES: WordList = tables::PROTECTED_PATHS.list("words", "sources");

/// Words of members whose value is the name of a file, without its directory.
static NAMES: WordList = tables::PROTECTED_PATHS.list("words", "names");

/// The effect of a tool on the files in its arguments.
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
        let name = NameMeaning::of(name);
        Self {
            writes: name.has_word(NameList::Writes),
            removes: name.has_word(NameList::Removes),
            reads: name.has_word(NameList::Reads),
            runs: name.has_word(NameList::Runs),
            copies: name.has_word(NameList::Copies),
            patches: name.has_word(NameList::Patches),
        }
    }
}

/// The meaning of a member's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The new content of a file.
    Content,
    /// The same as `Content`, unless the tool reads.
    WeakContent,
    /// Prose, or a text to search for.
    Prose,
    /// A path.
    Path,
    /// A command.
    Command,
    /// Anything.
    Other,
}

impl NameMeaning {
    /// Returns the meaning of the value of a member with this name.
    pub(super) const fn meaning(self) -> Meaning {
        match () {
            () if self.is(NameList::Content) => Meaning::Content,
            () if self.is(NameList::Commands) => Meaning::Command,
            () if self.is(NameList::WeakContent) => Meaning::WeakContent,
            () if self.is(NameList::Prose) => Meaning::Prose,
            () if self.has_word(NameList::Paths) => Meaning::Path,
            () => Meaning::Other,
        }
    }

    /// Returns whether the value of a member is a directory that others are relative to.
    pub(super) const fn is_base(self) -> bool {
        self.has_word(NameList::Bases)
    }

    /// Returns whether the value of a member is the name of a file.
    pub(super) const fn is_name(self) -> bool {
        self.has_word(NameList::Names)
    }

    /// Returns whether the value of a member may name an operation.
    pub(super) const fn is_operation(self) -> bool {
        self.is(NameList::Operations)
    }

    /// Returns whether the value of a member is a destination.
    pub(super) const fn is_destination(self) -> bool {
        self.has_word(NameList::Destinations)
    }

    /// Returns whether the value of a member is a source.
    pub(super) const fn is_source(self) -> bool {
        self.has_word(NameList::Sources)
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
        let name = NameMeaning::of(name);
        assert!(
            name.has_word(NameList::Writes)
                && name.has_word(NameList::Paths)
                && !name.has_word(NameList::Reads)
        );
    }

    #[test_case("new_string", NameList::Content => true; "two words")]
    #[test_case("NEWSTRING", NameList::Content => true; "one word")]
    #[test_case("the_new_string", NameList::Content => false; "more words")]
    #[test_case("", NameList::Content => false; "none")]
    fn names_say_something_together(name: &str, list: NameList) -> bool {
        NameMeaning::of(name).is(list)
    }

    #[test_case("new_string" => Meaning::Content)]
    #[test_case("filePath" => Meaning::Path)]
    #[test_case("target_file" => Meaning::Path)]
    #[test_case("cmd" => Meaning::Command)]
    #[test_case("text" => Meaning::WeakContent)]
    #[test_case("old_string" => Meaning::Prose)]
    #[test_case("id" => Meaning::Other)]
    fn members_mean_something(name: &str) -> Meaning {
        NameMeaning::of(name).meaning()
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
