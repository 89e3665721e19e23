//! Shell command lines: split into the simple commands they run. Expansion is not attempted: what a
//! variable or a substitution would give stays as it is written.

use std::iter::Peekable;

use super::command::{Command, MAX_WORDS, Word, is_assignment};
use crate::tables::{self, WordList};

/// Bytes of a command line that are read; the rest is not looked at.
const MAX_LINE: usize = 16 * 1024;
/// Simple commands of a line that are looked at.
const MAX_COMMANDS: usize = 32;

/// Words after which a command begins.
static KEYWORDS: WordList = tables::LAUNCH.list("shell", "keywords");

/// The simple commands of `line`, in order, each without assignments, redirections and keywords.
///
/// `arguments` are what the shell was given after the line (`$0`, `$1`, …); a word that is just `$0`, `$1`
/// or `$@` becomes them. A `cd` in front sets the directory of what follows it.
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
        .into_iter()
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

/// A word of a shell line, unquoted.
#[derive(Debug, Default)]
struct Token {
    text: String,
    /// Some of it was quoted, so it is no keyword.
    quoted: bool,
    /// None of it was in single quotes, so a `$` in it expands.
    expands: bool,
}

/// Splits `line` at separators into the words of each simple command.
fn split(line: &str) -> Vec<Vec<Token>> {
    let line = &line[..line.floor_char_boundary(MAX_LINE)];
    let mut splitter = Splitter {
        rest: line.chars().peekable(),
        commands: vec![Vec::new()],
        word: None,
        redirection: Redirection::None,
        here_documents: Vec::new(),
    };
    splitter.run();
    splitter.commands
}

/// The kind of redirection that the next word is, if it is not a word of the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirection {
    None,
    File,
    HereDocument,
}

struct Splitter<I: Iterator<Item = char>> {
    rest: Peekable<I>,
    commands: Vec<Vec<Token>>,
    word: Option<Token>,
    redirection: Redirection,
    here_documents: Vec<String>,
}

impl<I: Iterator<Item = char>> Splitter<I> {
    fn run(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                '\'' => self.single_quotes(),
                '"' => self.double_quotes(),
                '\\' => self.escape(),
                '`' => self.until_backquote(),
                '$' => self.dollar(),
                '#' if self.word.is_none() => self.comment(),
                '\n' => {
                    self.end_command();
                    self.skip_here_documents();
                }
                ';' | '|' | '(' | ')' => self.end_command(),
                '&' if self.rest.peek() == Some(&'>') => {}
                '&' => self.end_command(),
                '<' | '>' => self.redirect(c),
                c if c.is_whitespace() => self.end_word(),
                c => self.token().text.push(c),
            }
        }
        self.end_command();
    }

    fn token(&mut self) -> &mut Token {
        self.word.get_or_insert_with(|| Token {
            expands: true,
            ..Token::default()
        })
    }

    fn end_word(&mut self) {
        let Some(token) = self.word.take() else {
            return;
        };
        match std::mem::replace(&mut self.redirection, Redirection::None) {
            Redirection::None => {
                if let Some(command) = self.commands.last_mut() {
                    command.push(token);
                }
            }
            Redirection::File => {}
            Redirection::HereDocument => self.here_documents.push(token.text),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirection = Redirection::None;
        if self.commands.last().is_some_and(|command| !command.is_empty()) {
            self.commands.push(Vec::new());
        }
    }

    fn single_quotes(&mut self) {
        let token = self.token();
        (token.quoted, token.expands) = (true, false);
        while let Some(c) = self.rest.next() {
            if c == '\'' {
                return;
            }
            self.token().text.push(c);
        }
    }

    fn double_quotes(&mut self) {
        self.token().quoted = true;
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return,
                '\\' if self.rest.peek().is_some_and(|next| "\"\\$`\n".contains(*next)) => self.escape(),
                '$' => self.dollar(),
                '`' => self.until_backquote(),
                c => self.token().text.push(c),
            }
        }
    }

    fn escape(&mut self) {
        match self.rest.next() {
            Some('\n') | None => {}
            Some(c) => {
                let token = self.token();
                token.quoted = true;
                token.text.push(c);
            }
        }
    }

    /// A substitution stays in its word as written, whatever it contains.
    fn dollar(&mut self) {
        self.token().text.push('$');
        if self.rest.peek() != Some(&'(') {
            return;
        }
        let mut depth = 0_usize;
        for c in self.rest.by_ref() {
            self.word.get_or_insert_default().text.push(c);
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn until_backquote(&mut self) {
        self.token().text.push('`');
        for c in self.rest.by_ref() {
            self.word.get_or_insert_default().text.push(c);
            if c == '`' {
                return;
            }
        }
    }

    fn comment(&mut self) {
        while self.rest.next_if(|&c| c != '\n').is_some() {}
    }

    fn redirect(&mut self, direction: char) {
        // The digits in front are a descriptor: `2>file`.
        if self
            .word
            .as_ref()
            .is_some_and(|word| !word.quoted && word.text.bytes().all(|b| b.is_ascii_digit()))
        {
            self.word = None;
        }
        self.end_word();
        self.redirection = Redirection::File;
        while let Some(c) = self.rest.next_if(|c| "<>&|-".contains(*c)) {
            if c == '<' && direction == '<' {
                self.redirection = match self.redirection {
                    // `<<<` is a word after all.
                    Redirection::HereDocument => Redirection::File,
                    Redirection::File | Redirection::None => Redirection::HereDocument,
                };
            }
        }
    }

    fn skip_here_documents(&mut self) {
        for delimiter in std::mem::take(&mut self.here_documents) {
            loop {
                let mut text = String::new();
                while let Some(c) = self.rest.next_if(|&c| c != '\n') {
                    text.push(c);
                }
                let ended = self.rest.next().is_none();
                if ended || text.trim_start_matches('\t') == delimiter {
                    break;
                }
            }
        }
    }
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
