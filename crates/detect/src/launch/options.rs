//! Options before the command that a program runs: which of them take a value, and the role of the value.

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Deserializer};

use super::command::{Command, Word};

/// The role of an option's value, for finding the command that is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OptionRole {
    /// A value without a role here.
    Value,
    /// Two words without a role here.
    Pair,
    /// Three words without a role here.
    Triple,
    /// The package that provides the command.
    Package,
    /// The directory to run in.
    Directory,
    /// A module to run; what follows are its arguments.
    Module,
    /// A file to run; what follows are its arguments.
    File,
    /// A command line for a shell.
    Line,
    /// Source code.
    Code,
    /// No value: with this option nothing is run (`--version`, `--test`).
    Idle,
}

/// The options of a program that are not plain flags.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueOptions(Vec<(String, OptionRole)>);

impl ValueOptions {
    /// Adds those that another program has as well.
    pub(super) fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }
}

/// They are read by their roles, each with its options.
impl<'de> Deserialize<'de> for ValueOptions {
    fn deserialize<D: Deserializer<'de>>(data: D) -> Result<Self, D::Error> {
        let by_role: BTreeMap<OptionRole, String> = Deserialize::deserialize(data)?;
        let of_role = |(role, names): (OptionRole, String)| {
            let names = names.split_whitespace().map(str::to_owned);
            names.map(move |name| (name, role)).collect::<Vec<_>>()
        };
        Ok(Self(by_role.into_iter().flat_map(of_role).collect()))
    }
}

/// The options of a program.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    /// Value of a [`OptionRole::Package`] option.
    pub(super) package: Option<Word<'a>>,
    /// Value of a [`OptionRole::Directory`] option.
    pub(super) directory: Option<Word<'a>>,
    /// The end of the options.
    pub(super) end: End<'a>,
}

/// The end of a program's options. `rest` is the index of the first word after it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End<'a> {
    /// A word that is no option, at this index.
    Operand(usize),
    /// `-m NAME`.
    Module { name: Word<'a>, rest: usize },
    /// `-jar PATH`.
    File { path: Word<'a>, rest: usize },
    /// `-c LINE`.
    Line { line: Word<'a>, rest: usize },
    /// `-e CODE`.
    Code,
    /// An option with which nothing is run.
    Idle,
    /// No word is left.
    Nothing,
}

/// Reads the options of `command` from word `from` on.
pub(super) fn parse<'a>(command: &Command<'a>, from: usize, options: &ValueOptions) -> Parsed<'a> {
    let mut parsed = Parsed {
        package: None,
        directory: None,
        end: End::Nothing,
    };
    let mut at = from;
    while let Some(word) = command.words.get(at) {
        if word == "--" {
            if at + 1 < command.words.len() {
                parsed.end = End::Operand(at + 1);
            }
            return parsed;
        }
        if word.len() < 2 || !word.starts_with('-') {
            parsed.end = End::Operand(at);
            return parsed;
        }
        at += 1;
        let Some((role, attached)) = look_up(word, options) else {
            continue;
        };
        if role == OptionRole::Idle {
            parsed.end = End::Idle;
            return parsed;
        }
        let value = match attached {
            Some(start) => slice(word, start),
            None => match command.words.get(at) {
                Some(next) => {
                    at += 1;
                    next.clone()
                }
                None => return parsed,
            },
        };
        match role {
            OptionRole::Value | OptionRole::Idle => {}
            OptionRole::Pair => at += 1,
            OptionRole::Triple => at += 2,
            OptionRole::Package => parsed.package = Some(value),
            OptionRole::Directory => parsed.directory = Some(value),
            OptionRole::Module => {
                parsed.end = End::Module {
                    name: value,
                    rest: at,
                }
            }
            OptionRole::File => {
                parsed.end = End::File {
                    path: value,
                    rest: at,
                }
            }
            OptionRole::Line => {
                parsed.end = End::Line {
                    line: value,
                    rest: at,
                }
            }
            OptionRole::Code => parsed.end = End::Code,
        }
        if parsed.end != End::Nothing {
            return parsed;
        }
    }
    parsed
}

/// Returns the options of `command` among the words at `within`, without their dashes, short ones letter by letter,
/// each with its value if it has one. They are read as by Go's flag package, which container clients use.
pub(super) fn given<'c>(
    command: &'c Command<'_>,
    within: Range<usize>,
    options: &ValueOptions,
) -> Vec<(&'c str, Option<&'c str>)> {
    let mut given = Vec::new();
    let mut words = command.words.get(within).unwrap_or_default().iter();
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        let role = look_up(word, options);
        let mut next = || words.next().map(|word| word.as_ref());
        if let Some(long) = word.strip_prefix("--") {
            given.push(match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, role.and_then(|_| next())),
            });
            continue;
        }
        let (letters, value) = match role {
            Some((_, Some(start))) => (&word[1..start], Some(&word[start..])),
            Some((_, None)) => (&word[1..], next()),
            None => match word[1..].split_once('=') {
                Some((letters, value)) => (letters, Some(value)),
                None => (&word[1..], None),
            },
        };
        let letters = letters.strip_suffix('=').unwrap_or(letters);
        let last = letters.char_indices().next_back().map_or(0, |(at, _)| at);
        given.extend(letters.char_indices().map(|(at, letter)| {
            let name = &letters[at..at + letter.len_utf8()];
            (name, value.filter(|_| at == last))
        }));
    }
    given
}

/// Returns the role of `word`, and the position of the value in it if the value is attached.
fn look_up(word: &str, options: &ValueOptions) -> Option<(OptionRole, Option<usize>)> {
    let role_of = |name: &str| {
        let known = options.0.iter().find(|(option, _)| option == name);
        known.map(|(_, role)| *role)
    };
    if let Some(role) = role_of(word) {
        return Some((role, None));
    }
    if let Some(equals) = word.find('=')
        && let Some(role) = role_of(&word[..equals])
    {
        return Some((role, Some(equals + 1)));
    }
    if word.starts_with("--") {
        return None;
    }
    // Short options in one word: the first one that takes a value takes the rest of the word.
    let mut letters = word
        .char_indices()
        .skip(1)
        .take_while(|(_, letter)| *letter != '=');
    letters.find_map(|(start, letter)| {
        let end = start + letter.len_utf8();
        let (_, role) = options
            .0
            .iter()
            .find(|(option, _)| option.len() == 1 + letter.len_utf8() && option.ends_with(letter))?;
        Some((*role, (end < word.len()).then_some(end)))
    })
}

fn slice<'a>(word: &Word<'a>, start: usize) -> Word<'a> {
    match word {
        Word::Borrowed(text) => Word::Borrowed(&text[start..]),
        Word::Owned(text) => Word::Owned(text[start..].to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn options() -> ValueOptions {
        let text = "value = \"-W --with\"\npackage = \"--from\"\ndirectory = \"-C\"\nmodule = \"-m\"\nfile = \"-jar\"\n\
            line = \"-c\"\ncode = \"-e\"\nidle = \"--version\"\npair = \"--bind\"\ntriple = \"--overlay\"";
        toml::from_str(text).unwrap()
    }

    fn operand(at: usize) -> End<'static> {
        End::Operand(at)
    }

    #[test_case(&["x", "run"] => operand(1); "no options")]
    #[test_case(&["x", "-q", "--fast", "run"] => operand(3); "flags")]
    #[test_case(&["x", "-W", "a", "run"] => operand(3); "short value")]
    #[test_case(&["x", "-Wa", "run"] => operand(2); "attached short value")]
    #[test_case(&["x", "-qW", "a", "run"] => operand(3); "value at the end of a cluster")]
    #[test_case(&["x", "--with", "a", "--with=b", "run"] => operand(4); "long values")]
    #[test_case(&["x", "--", "-run"] => operand(2); "double dash")]
    #[test_case(&["x", "--"] => End::Nothing; "nothing after the double dash")]
    #[test_case(&["x", "--with"] => End::Nothing; "missing value")]
    #[test_case(&["x", "-"] => operand(1); "single dash")]
    #[test_case(&["x", "-um", "mod", "a"] => End::Module { name: "mod".into(), rest: 3 }; "module in a cluster")]
    #[test_case(&["x", "-mmod"] => End::Module { name: "mod".into(), rest: 2 }; "attached module")]
    #[test_case(&["x", "-jar", "a.jar"] => End::File { path: "a.jar".into(), rest: 3 }; "long option with one dash")]
    #[test_case(&["x", "-c", "a b"] => End::Line { line: "a b".into(), rest: 3 }; "line")]
    #[test_case(&["x", "-e", "1"] => End::Code; "code")]
    #[test_case(&["x", "--version", "run"] => End::Idle; "idle")]
    #[test_case(&["x", "-q=e", "run"] => operand(2); "a flag with a value that ends like an option")]
    #[test_case(&["x", "-é", "run"] => operand(2); "not ascii")]
    fn ends(argv: &'static [&'static str]) -> End<'static> {
        parse(&Command::from_argv(argv), 1, &options()).end
    }

    #[test]
    fn options_are_told_with_their_values() {
        let argv = [
            "x", "-qW", "a", "-Wb", "-q=c", "-W=d", "--with", "e", "--with=f", "--fast", "--fast=g", "-é",
            "--", "-z",
        ];
        let command = Command::from_argv(&argv);
        let given = given(&command, 1..argv.len(), &options());
        let expected = [
            ("q", None),
            ("W", Some("a")),
            ("W", Some("b")),
            ("q", Some("c")),
            ("W", Some("d")),
            ("with", Some("e")),
            ("with", Some("f")),
            ("fast", None),
            ("fast", Some("g")),
            ("é", None),
        ];
        assert_eq!(given, expected);
    }

    #[test]
    fn package_and_directory_are_kept() {
        let argv = ["x", "--from=pkg", "-C/srv", "run"];
        let parsed = parse(&Command::from_argv(&argv), 1, &options());
        assert_eq!(parsed.package.as_deref(), Some("pkg"));
        assert_eq!(parsed.directory.as_deref(), Some("/srv"));
        assert_eq!(parsed.end, End::Operand(3));
    }
}
