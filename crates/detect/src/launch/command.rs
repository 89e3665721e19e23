//! Commands inside launchers: their words, up to a limit, and the directory in which they run, if known.

use std::borrow::Cow;

use super::loader;

/// Most words of a command that are read.
pub(super) const MAX_WORDS: usize = 256;

/// One word of a command; owned only if it was unquoted from a shell line.
pub(super) type Word<'a> = Cow<'a, str>;

/// The words of a command, and the directory in which it runs if a launcher gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command<'a> {
    /// Program and arguments; at most [`MAX_WORDS`].
    pub(super) words: Vec<Word<'a>>,
    /// Directory set by `cd`, `uv --directory` and the like.
    pub(super) directory: Option<Word<'a>>,
}

impl<'a> Command<'a> {
    /// Returns the command of the first [`MAX_WORDS`] of `argv`, or of the title that the process wrote over its
    /// arguments. If `argv` is that of a dynamic loader, the command is the program that it is told to run.
    pub(super) fn from_argv<S: AsRef<str>>(argv: &'a [S]) -> Self {
        match title(argv) {
            Some(title) => Self::from_words(title.split_ascii_whitespace()),
            None => {
                let program = loader::program_at(argv).unwrap_or(0);
                Self::from_words(argv[program..].iter().map(AsRef::as_ref))
            }
        }
    }

    /// Returns the command of the first [`MAX_WORDS`] of these words.
    pub(super) fn from_words(words: impl Iterator<Item = &'a str>) -> Self {
        Self {
            words: words.take(MAX_WORDS).map(Cow::Borrowed).collect(),
            directory: None,
        }
    }

    /// Returns the command that starts at word `at`, in `directory` if that is given.
    pub(super) fn rest(mut self, at: usize, directory: Option<Word<'a>>) -> Self {
        self.words.drain(..at.min(self.words.len()));
        self.directory = directory.or(self.directory);
        self
    }

    /// Returns a command with the same arguments, and the program `name`.
    pub(super) fn renamed(mut self, name: &str) -> Self {
        if let Some(program) = self.words.first_mut() {
            *program = Cow::Owned(name.to_owned());
        }
        self
    }

    /// Returns word `at`; empty if there is none.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| word.as_ref())
    }

    /// Returns the name of the program in the form in which launchers are listed: see [`program_name`].
    pub(super) fn program(&self) -> &str {
        program_name(self.word(0))
    }
}

/// Returns the title that a process gave itself: a command line in place of the first argument, with empty arguments
/// after it. npm writes `npm exec PACKAGE` and `npm i PACKAGE`.
fn title<S: AsRef<str>>(argv: &[S]) -> Option<&str> {
    let (title, rest) = argv.split_first()?;
    let title = title.as_ref();
    let mut words = title.split_ascii_whitespace();
    let (program, _) = (words.next()?, words.next()?);
    // A path may contain spaces.
    let is_title = !program.contains('/') && rest.iter().all(|word| word.as_ref().is_empty());
    is_title.then_some(title)
}

/// Returns the part of `path` after its last separator.
pub(super) fn basename(path: &str) -> &str {
    path.trim_end_matches('/')
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(path)
}

/// Returns `path` without directories, the dash of a login shell, and the endings of programs on Windows.
pub(super) fn program_name(path: &str) -> &str {
    let name = basename(path);
    let name = name.strip_prefix('-').unwrap_or(name);
    [".exe", ".cmd"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(name)
}

/// Returns `name` without the version that distributions add: `python` for `python3.12`.
pub(super) fn unversioned(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// Returns whether `word` is `NAME=value`.
pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/usr/bin/npx" => "npx")]
    #[test_case("-bash" => "bash"; "login shell")]
    #[test_case("npx.cmd" => "npx")]
    #[test_case("C:\\tools\\uvx.exe" => "uvx")]
    #[test_case("" => "")]
    #[test_case("/" => ""; "root")]
    fn program_names(path: &str) -> &str {
        program_name(path)
    }

    #[test_case(&["npm exec @a/b@1.0 --x"] => vec!["npm", "exec", "@a/b@1.0", "--x"]; "title")]
    #[test_case(&["npm i @a/b-mcp", "", "", ""] => vec!["npm", "i", "@a/b-mcp"]; "title with what was left of the arguments")]
    #[test_case(&["npm exec @a/b", "x"] => vec!["npm exec @a/b", "x"]; "arguments behind it")]
    #[test_case(&["/opt/my server"] => vec!["/opt/my server"]; "a name with a space")]
    #[test_case(&[] => Vec::<String>::new(); "nothing")]
    fn words(argv: &[&str]) -> Vec<String> {
        let words = Command::from_argv(argv).words;
        words.into_iter().map(Cow::into_owned).collect()
    }

    #[test_case("A=b" => true)]
    #[test_case("_X1=" => true)]
    #[test_case("1A=b" => false)]
    #[test_case("=b" => false)]
    #[test_case("a-b=c" => false)]
    #[test_case("npx" => false)]
    fn assignments(word: &str) -> bool {
        is_assignment(word)
    }
}
