//! Shell command lines, split into the simple commands that they run. They are not expanded: a variable or a
//! substitution stays as it is written.

use super::command::{Command, MAX_WORDS, Word, is_assignment};
use crate::{
    shell::{Expansion, Word as Token, script},
    tables::{self, WordList},
};

/// Bytes of a command line that are read; the rest is ignored.
const MAX_LINE: usize = 16 * 1024;
/// Most simple commands of a line that are read.
const MAX_COMMANDS: usize = 32;

/// Words after which a command begins.
static KEYWORDS: WordList = tables::LAUNCH.list("shell", "keywords");

/// Returns the simple commands of `line`, in order, each without assignments, redirections and keywords.
///
/// `arguments` are those that the shell got after the line (`$0`, `$1`, …); they replace a word that is just `$0`, `$1`
/// or `$@`. A `cd` sets the directory of the commands after it.
pub(super) fn commands<'a>(line: &str, arguments: &[Word<'a>]) -> Vec<Command<'a>> {
    let mut found: Vec<Command<'a>> = Vec::new();
    let mut directory: Option<Word<'a>> = None;
    for words in split(line) {
        let words = simple(words, arguments);
        match words.first().map(AsRef::as_ref) {
            None => {}
            Some("cd" | "pushd") => {
                directory = words.into_iter().skip(1).find(|word| word != "--").or(directory)
            }
            Some(_) => found.push(Command {
                words,
                directory: directory.clone(),
            }),
        }
        if found.len() == MAX_COMMANDS {
            break;
        }
    }
    found
}

/// The words of `text` as one command, as `env -S` splits its argument.
pub(super) fn words<'a>(text: &str) -> Vec<Word<'a>> {
    split(text)
        .flatten()
        .take(MAX_WORDS)
        .map(|word| Word::Owned(word.text))
        .collect()
}

/// Drops what precedes a command and puts the positional parameters in.
fn simple<'a>(words: Vec<Token>, arguments: &[Word<'a>]) -> Vec<Word<'a>> {
    let mut rest = words
        .into_iter()
        .skip_while(|word| {
            is_assignment(&word.text) || (!word.quoted && KEYWORDS.contains(&word.text.as_str()))
        })
        .peekable();
    // `exec -a NAME` and `command -p` have options of their own.
    while rest.peek().is_some_and(|word| word.text.starts_with('-')) {
        let option = rest.next();
        if option.is_some_and(|word| word.text == "-a") {
            rest.next();
        }
    }
    rest.flat_map(|word| positional(word, arguments))
        .take(MAX_WORDS)
        .collect()
}

fn positional<'a>(word: Token, arguments: &[Word<'a>]) -> Vec<Word<'a>> {
    let index = match word.expands.then_some(word.text.as_str()) {
        Some("$@" | "$*" | "${@}") => return arguments.iter().skip(1).cloned().collect(),
        Some("$0") => 0,
        Some("$1") => 1,
        Some("$2") => 2,
        Some(_) | None => return vec![Word::Owned(word.text)],
    };
    arguments.get(index).cloned().into_iter().collect()
}

/// Splits `line` at separators into the words of each simple command.
fn split(line: &str) -> impl Iterator<Item = Vec<Token>> {
    let line = &line[..line.floor_char_boundary(MAX_LINE)];
    let commands = script(line, Expansion::Kept).commands;
    commands.into_iter().map(|command| command.words)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    /// Commands as `word|word;word|word`.
    fn shown(line: &str, arguments: &[&'static str]) -> String {
        let arguments: Vec<Word<'static>> = arguments.iter().map(|&word| word.into()).collect();
        commands(line, &arguments)
            .iter()
            .map(|command| command.words.join("|"))
            .collect::<Vec<_>>()
            .join(";")
    }

    #[test_case("npx -y x" => "npx|-y|x"; "plain words")]
    #[test_case("  a\tb\n" => "a|b"; "blanks")]
    #[test_case("a 'b c' \"d e\" f\\ g" => "a|b c|d e|f g"; "quotes")]
    #[test_case("a 'it'\\''s' \"x\\\"y\"" => "a|it's|x\"y"; "quotes within quotes")]
    #[test_case("a '' b" => "a||b"; "empty word")]
    #[test_case("a 'open" => "a|open"; "unclosed quote")]
    #[test_case("a; b && c || d | e & f" => "a;b;c;d;e;f"; "separators")]
    #[test_case("exec a b" => "a|b"; "exec")]
    #[test_case("exec -a name a b" => "a|b"; "exec with a name")]
    #[test_case("X=1 Y='2 3' a" => "a"; "assignments")]
    #[test_case("X=1" => ""; "only an assignment")]
    #[test_case("if true; then a; fi" => "true;a"; "keywords")]
    #[test_case("'exec' a" => "exec|a"; "a quoted word is no keyword")]
    #[test_case("(a b)" => "a|b"; "subshell")]
    #[test_case("a > out.log 2>&1 < in" => "a"; "redirections")]
    #[test_case("a 2>/dev/null b &>x c" => "a|b|c"; "redirections between words")]
    #[test_case("a # b; c" => "a"; "comment")]
    #[test_case("a b#c" => "a|b#c"; "hash inside a word")]
    #[test_case("a $(b; c) `d; e` \"$(f \"g\")\"" => "a|$(b; c)|`d; e`|$(f \"g\")"; "substitutions are kept")]
    #[test_case("cat <<EOF\nnpx x\nEOF\nb" => "cat;b"; "here document")]
    #[test_case("cat <<<word b" => "cat|b"; "here string")]
    #[test_case("a \\\n b" => "a|b"; "continued line")]
    fn lines(line: &str) -> String {
        shown(line, &[])
    }

    #[test_case("exec \"$@\"" => "npx|-y|x"; "all arguments")]
    #[test_case("\"$0\" \"$@\"" => "sh|npx|-y|x"; "name and arguments")]
    #[test_case("\"$1\" b" => "npx|b"; "first argument")]
    #[test_case("echo '$@'" => "echo|$@"; "single quotes do not expand")]
    fn parameters(line: &str) -> String {
        shown(line, &["sh", "npx", "-y", "x"])
    }

    #[test]
    fn cd_sets_the_directory_of_what_follows() {
        let found = commands("a; cd /srv/x && b", &[]);
        assert_eq!(found[0].directory, None);
        assert_eq!(found[1].directory.as_deref(), Some("/srv/x"));
    }

    #[test]
    fn hostile_lines_are_bounded() {
        assert_eq!(commands(&"a;".repeat(100_000), &[]).len(), MAX_COMMANDS);
        assert!(commands(&"a ".repeat(100_000), &[])[0].words.len() <= MAX_WORDS);
        assert_eq!(commands(&"$(".repeat(100_000), &[]).len(), 1);
    }
}
