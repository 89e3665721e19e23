//! Shell lines, split into simple commands: words without their quotes, and targets of redirections. The same lexer
//! serves the search for programs that a line runs, and for files that it touches.

use std::{collections::HashMap, iter::Peekable, str::Chars};

/// The text in place of the result of a substitution.
pub(crate) const UNKNOWN: &str = "$()";
/// Most words of one command that are kept.
const MAX_WORDS: usize = 1 << 16;
/// Longest value of a variable that is kept: a path.
const MAX_VALUE: usize = 4096;
/// Most bytes to which the variables of one line may expand.
const MAX_EXPANDED: usize = 1 << 20;
/// Most variables that are kept.
const MAX_VARIABLES: usize = 64;

/// The treatment of expansions in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expansion {
    /// An expansion stays as written.
    Kept,
    /// Variables that the line sets are replaced by their values; substitutions are read as nested lines, and replaced
    /// by [`UNKNOWN`].
    Read,
}

/// A word, unquoted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Its text.
    pub(crate) text: String,
    /// True if some of it was quoted, so that it is no keyword and no number of a descriptor.
    pub(crate) quoted: bool,
    /// True if none of it was in single quotes, so that a `$` in it expands.
    pub(crate) expands: bool,
}

/// One simple command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellCommand {
    /// Its words, quotes removed.
    pub(crate) words: Vec<Word>,
    /// The target files of its output.
    pub(crate) outputs: Vec<String>,
    /// The source files of its input.
    pub(crate) inputs: Vec<String>,
    /// Its here-document.
    pub(crate) document: String,
}

/// The commands of a line.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The simple commands, in order.
    pub(crate) commands: Vec<ShellCommand>,
    /// The nested lines that substitutions run.
    pub(crate) nested: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Word,
    Output,
    Input,
    HereString,
    HereDocument { indented: bool },
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    expansion: Expansion,
    script: Script,
    command: ShellCommand,
    word: Option<Word>,
    next: Next,
    documents: Vec<(String, bool)>,
    variables: HashMap<String, String>,
    expanded: usize,
    /// True if a word of the current command cannot come before an assignment.
    runs: bool,
}

/// Reads `line`.
pub(crate) fn script(line: &str, expansion: Expansion) -> Script {
    let mut lexer = Lexer {
        rest: line.chars().peekable(),
        expansion,
        script: Script::default(),
        command: ShellCommand::default(),
        word: None,
        next: Next::Word,
        documents: Vec::new(),
        variables: HashMap::new(),
        expanded: 0,
        runs: false,
    };
    lexer.run();
    lexer.script
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                '\'' => self.single_quotes(),
                '"' => self.double_quotes(),
                '\\' => self.escape(),
                '`' => self.backquotes(),
                '$' => self.dollar(false),
                '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '\n' => {
                    self.end_command();
                    self.read_documents();
                }
                '&' if self.rest.peek() == Some(&'>') => self.end_word(),
                ';' | '&' | '|' | '(' | ')' => self.end_command(),
                '>' | '<' => self.redirection(c),
                c if c.is_whitespace() => self.end_word(),
                c => self.push(c),
            }
        }
        self.end_command();
        self.read_documents();
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_with(|| Word {
            text: String::new(),
            quoted: false,
            expands: true,
        })
    }

    fn push(&mut self, c: char) {
        self.word().text.push(c);
    }

    fn push_str(&mut self, text: &str) {
        self.word().text.push_str(text);
    }

    fn single_quotes(&mut self) {
        let quoted: String = self.rest.by_ref().take_while(|c| *c != '\'').collect();
        self.push_str(&quoted);
        let word = self.word();
        (word.quoted, word.expands) = (true, false);
    }

    fn double_quotes(&mut self) {
        self.word().quoted = true;
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return,
                '\\' => match self.rest.next() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '`' => self.backquotes(),
                '$' => self.dollar(true),
                c => self.push(c),
            }
        }
    }

    fn escape(&mut self) {
        match self.rest.next() {
            Some('\n') | None => {}
            Some(c) => {
                self.push(c);
                self.word().quoted = true;
            }
        }
    }

    fn backquotes(&mut self) {
        let inner: String = self.rest.by_ref().take_while(|c| *c != '`').collect();
        self.nested("`", inner, "`");
    }

    /// Reads a substitution: its line is read, its result is unknown.
    fn nested(&mut self, open: &str, inner: String, close: &str) {
        match self.expansion {
            Expansion::Kept => [open, &inner, close]
                .into_iter()
                .for_each(|part| self.push_str(part)),
            Expansion::Read => {
                self.push_str(UNKNOWN);
                self.script.nested.push(inner);
            }
        }
    }

    fn dollar(&mut self, quoted: bool) {
        match self.rest.peek() {
            Some('(') => {
                self.rest.next();
                let inner = self.until_parenthesis();
                self.nested("$(", inner, ")");
            }
            _ if self.expansion == Expansion::Kept => self.push('$'),
            Some('\'') if !quoted => {
                self.rest.next();
                self.c_quotes();
            }
            Some('"') if !quoted => {}
            Some('{') => {
                self.rest.next();
                let inner: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
                self.variable(&inner, true);
            }
            Some(c) if c.is_ascii_alphanumeric() || *c == '_' => {
                let mut name = String::new();
                while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                self.variable(&name, false);
            }
            Some(_) | None => self.push('$'),
        }
    }

    fn variable(&mut self, name: &str, braces: bool) {
        match self.variables.get(name) {
            Some(value) if self.expanded < MAX_EXPANDED => {
                let value = value.clone();
                self.expanded += value.len();
                self.push_str(&value);
            }
            Some(_) | None if braces => self.push_str(&format!("${{{name}}}")),
            Some(_) | None => self.push_str(&format!("${name}")),
        }
    }

    fn until_parenthesis(&mut self) -> String {
        let mut inner = String::new();
        let mut depth = 1;
        for c in self.rest.by_ref() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            inner.push(c);
        }
        inner
    }

    /// Reads `$'…'`, with escapes as in C.
    fn c_quotes(&mut self) {
        self.word().quoted = true;
        while let Some(c) = self.rest.next() {
            match c {
                '\'' => return,
                '\\' => self.c_escape(),
                c => self.push(c),
            }
        }
    }

    fn c_escape(&mut self) {
        let Some(c) = self.rest.next() else { return };
        let (radix, most) = match c {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => (8, 3),
            'n' | 't' | 'r' => return self.push(' '),
            c => return self.push(c),
        };
        let mut digits = String::new();
        if radix == 8 {
            digits.push(c);
        }
        while digits.len() < most
            && let Some(digit) = self.rest.next_if(|c| c.is_digit(radix))
        {
            digits.push(digit);
        }
        let code = u32::from_str_radix(&digits, radix).ok();
        if let Some(c) = code.and_then(char::from_u32) {
            self.push(c);
        }
    }

    fn redirection(&mut self, direction: char) {
        // The digits before it are a descriptor: `2>file`.
        let is_number = |word: &mut Word| !word.quoted && word.text.bytes().all(|byte| byte.is_ascii_digit());
        self.word.take_if(is_number);
        self.end_word();
        // In a line that is not expanded, the command of a process substitution counts as an ordinary one.
        if self.expansion == Expansion::Read && self.rest.next_if_eq(&'(').is_some() {
            let inner = self.until_parenthesis();
            return self.nested("(", inner, ")");
        }
        let follows = match direction {
            '<' => self.rest.next_if(|c| matches!(c, '>' | '<' | '&')),
            _ => self.rest.next_if(|c| matches!(c, '>' | '|' | '&')),
        };
        self.next = match (direction, follows) {
            ('<', Some('<')) => match self.rest.next_if(|c| matches!(c, '<' | '-')) {
                Some('<') => Next::HereString,
                indented => Next::HereDocument {
                    indented: indented.is_some(),
                },
            },
            ('<', None | Some('&')) => Next::Input,
            _ => Next::Output,
        };
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::replace(&mut self.next, Next::Word) {
            Next::Word => {
                self.assign(&word.text);
                if self.command.words.len() < MAX_WORDS {
                    self.runs |= !leads(&word.text);
                    self.command.words.push(word);
                }
            }
            Next::Output => self.command.outputs.push(word.text),
            Next::Input => self.command.inputs.push(word.text),
            Next::HereString => self.command.document = word.text,
            Next::HereDocument { indented } => self.documents.push((word.text, indented)),
        }
    }

    /// Notes an assignment: `F=~/.bashrc; … >> $F`.
    fn assign(&mut self, word: &str) {
        if let Some((name, value)) = word.split_once('=')
            && value.len() <= MAX_VALUE
            && self.variables.len() < MAX_VARIABLES
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !self.runs
        {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.next = Next::Word;
        self.runs = false;
        let command = std::mem::take(&mut self.command);
        if command != ShellCommand::default() {
            self.script.commands.push(command);
        }
    }

    /// Reads the bodies of here-documents, which begin after the line that announces them.
    fn read_documents(&mut self) {
        for (end, indented) in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            while self.rest.peek().is_some() {
                let line: String = self.rest.by_ref().take_while(|c| *c != '\n').collect();
                let read = if indented {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if read == end {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            if let Some(last) = self.script.commands.last_mut() {
                last.document.push_str(&body);
            }
        }
    }
}

/// Returns whether an assignment may follow a word: `export A=…`, `A=… B=…`.
fn leads(word: &str) -> bool {
    word.contains('=') || matches!(word, "export" | "local" | "readonly" | "declare")
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn shown(line: &str) -> Vec<String> {
        let script = script(line, Expansion::Read);
        let command = |command: &ShellCommand| {
            let ShellCommand {
                words,
                outputs,
                inputs,
                document,
            } = command;
            let words: Vec<&str> = words.iter().map(|word| &*word.text).collect();
            let mut text = words.join(" ");
            outputs.iter().for_each(|to| text.push_str(&format!(" >{to}")));
            inputs.iter().for_each(|from| text.push_str(&format!(" <{from}")));
            if !document.is_empty() {
                text.push_str(&format!(" <<{document}"));
            }
            text
        };
        let nested = script.nested.iter().map(|inner| format!("({inner})"));
        script.commands.iter().map(command).chain(nested).collect()
    }

    #[test_case("a 'b c' \"d $E\" f\\ g", &["a b c d $E f g"]; "quotes")]
    #[test_case("a >b >>c 2>d &>e <f; g|h&&i", &["a >b >c >d >e <f", "g", "h", "i"]; "redirections and separators")]
    #[test_case("a 2>&1 >|b <&3 c", &["a c >1 >b <3"]; "descriptors")]
    #[test_case("a \"2\">b", &["a 2 >b"]; "a quoted number is a word")]
    #[test_case("cat >x <<'EOF'\n>y\nEOF\nb", &["cat >x <<>y\n", "b"]; "here document")]
    #[test_case("tee x <<< '>y'", &["tee x <<>y"]; "here string")]
    #[test_case("a $(b >c) `d` >(e)", &["a $() $() $()", "(b >c)", "(d)", "(e)"]; "substitutions")]
    #[test_case("F=~/x; a >$F", &["F=~/x", "a >~/x"]; "variable")]
    #[test_case("a ~/.b$'\\x61\\163'h", &["a ~/.bash"]; "escapes of C")]
    #[test_case("a # >b\nc", &["a", "c"]; "comment")]
    #[test_case("echo 'x > y'", &["echo x > y"]; "quoted redirection")]
    fn lines(line: &str, expected: &[&str]) {
        assert_eq!(shown(line), expected);
    }
}
