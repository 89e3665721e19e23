//! Tokens: words, and the shapes that stand between words (addresses, paths, names with underscores, tags).

use std::ops::Range;

/// A property that a token has by its form, not by its letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An address of the web, or a bare host of a suspicious kind.
    Url,
    /// An e-mail address.
    Email,
    /// A path of a file.
    Path,
    /// A name with an underscore: a tool, a parameter, a variable.
    Name,
    /// A tag in angle brackets.
    Tag,
    /// A number, an account, a hexadecimal address.
    Number,
    /// A word that a colon follows.
    Colon,
    /// A token that stands in quotation marks.
    Quoted,
    /// A name that a call's parenthesis follows.
    Call,
    /// The first token of a sentence.
    Start,
    /// A token that a comma follows.
    Comma,
}

impl Shape {
    /// Every shape, with the class that patterns name it by.
    pub(crate) const ALL: [(Self, &'static str); 11] = [
        (Self::Url, "url"),
        (Self::Email, "email"),
        (Self::Path, "path"),
        (Self::Name, "name"),
        (Self::Tag, "tag"),
        (Self::Number, "number"),
        (Self::Colon, "colon"),
        (Self::Quoted, "quoted"),
        (Self::Call, "call"),
        (Self::Start, "start"),
        (Self::Comma, "comma"),
    ];

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Shapes of one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shapes(u16);

impl Shapes {
    pub(crate) const fn has(self, shape: Shape) -> bool {
        self.0 & shape.bit() != 0
    }

    pub(crate) const fn add(&mut self, shape: Shape) {
        self.0 |= shape.bit();
    }
}

/// A token of a text in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Where it stands.
    pub(crate) span: Range<usize>,
    /// What it looks like.
    pub(crate) shapes: Shapes,
}

/// Splits `text`, which is in lower case, into sentences of tokens.
pub(crate) fn sentences(text: &str) -> Vec<Vec<Token>> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        sentences: Vec::new(),
        current: Vec::new(),
        quote: None,
        run: (0, 0),
    };
    reader.read();
    reader.sentences
}

/// Most tokens of a sentence; a longer one is cut.
pub(crate) const MAX_TOKENS: usize = 128;
/// Longest run without spaces that is looked at as a whole, bytes.
const MAX_RUN: usize = 400;
/// Places of one run from which it is looked at as a whole: each look reads the rest of it.
const MAX_LOOKS: usize = 16;
/// Bytes after which an opened quotation mark is taken for an apostrophe.
const MAX_QUOTATION: usize = 160;

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    sentences: Vec<Vec<Token>>,
    current: Vec<Token>,
    /// Where a quotation began, and its closing mark.
    quote: Option<(usize, u8)>,
    /// End of the run that was looked at last, and how often it was.
    run: (usize, usize),
}

impl Reader<'_> {
    fn read(&mut self) {
        let mut at = 0;
        while let Some(&byte) = self.bytes.get(at) {
            at = match byte {
                b'\n' => self.line_break(at),
                b'.' | b'!' | b'?' | b';' => self.full_stop(at),
                b'\xe3' if self.bytes[at..].starts_with("。".as_bytes()) => {
                    self.end();
                    at + "。".len()
                }
                b'<' => self.tag(at),
                b'"' | b'`' => self.quotation(at, byte),
                b'\'' => self.quotation(at, byte),
                b':' => {
                    self.mark_last(Shape::Colon);
                    at + 1
                }
                b',' => {
                    self.mark_last(Shape::Comma);
                    at + 1
                }
                b'(' => {
                    if at > 0 && is_word(self.bytes[at - 1]) {
                        self.mark_last(Shape::Call);
                    }
                    at + 1
                }
                b'~' | b'/' => self.word(at),
                _ if is_word(byte) => self.word(at),
                _ => at + 1,
            };
        }
        self.end();
    }

    fn mark_last(&mut self, shape: Shape) {
        if let Some(last) = self.current.last_mut() {
            last.shapes.add(shape);
        }
    }

    fn end(&mut self) {
        self.quote = None;
        if !self.current.is_empty() {
            self.sentences.push(std::mem::take(&mut self.current));
        }
    }

    /// A line ends a sentence where the next one is empty, an item of a list, a heading, or names what it describes.
    fn line_break(&mut self, at: usize) -> usize {
        let rest = &self.bytes[at + 1..];
        let skipped = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
            .count();
        let next = &rest[skipped..];
        let ends = match next.first() {
            None | Some(b'\n' | b'-' | b'*' | b'#' | b'>' | b'|' | b'<' | b'[' | b'=' | b'\xe2') => true,
            Some(byte) if byte.is_ascii_digit() => {
                let digits = next.iter().take_while(|byte| byte.is_ascii_digit()).count();
                matches!(next.get(digits), Some(b'.' | b')'))
            }
            Some(_) => {
                let name = next
                    .iter()
                    .take_while(|byte| is_word(**byte) || **byte == b' ')
                    .count();
                let words = next[..name]
                    .split(|byte| *byte == b' ')
                    .filter(|word| !word.is_empty())
                    .count();
                words <= 3 && matches!(next.get(name), Some(b':'))
                    || words == 1 && matches!(next.get(name), Some(b'('))
            }
        };
        if ends {
            self.end();
        }
        at + 1
    }

    fn full_stop(&mut self, at: usize) -> usize {
        let next = self.bytes.get(at + 1).copied().unwrap_or(b' ');
        let is_end = self.bytes[at] == b';'
            || next.is_ascii_whitespace()
            || matches!(next, b'"' | b'\'' | b'`' | b')' | b']' | b'<' | b'*') && self.bytes[at] != b'.'
            || matches!(next, b'"' | b'\'' | b'`' | b')' | b']' | b'<' | b'*')
                && self.bytes.get(at + 2).is_none_or(u8::is_ascii_whitespace);
        let is_abbreviation = self.bytes[at] == b'.' && {
            let word = self
                .current
                .last()
                .map_or("", |token| &self.text[token.span.clone()]);
            matches!(
                word,
                "g" | "e" | "eg" | "i" | "ie" | "etc" | "vs" | "no" | "approx" | "incl"
            ) && self.current.last().is_some_and(|token| token.span.end == at)
        };
        if is_end && !is_abbreviation {
            self.end();
        } else if self.bytes[at] == b'.'
            && is_word(next)
            && next != b'.'
            && self
                .bytes
                .get(at.wrapping_sub(1))
                .is_none_or(|before| !is_word(*before))
        {
            // A dot file.
            return self.word(at);
        }
        at + 1
    }

    fn tag(&mut self, at: usize) -> usize {
        let rest = &self.bytes[at + 1..];
        let length = rest
            .iter()
            .take(60)
            .position(|byte| matches!(byte, b'>' | b'\n' | b'<'));
        if let Some(length) = length
            && rest[length] == b'>'
            && length > 0
            && rest[..length].iter().any(u8::is_ascii_alphabetic)
        {
            let mut shapes = Shapes::default();
            shapes.add(Shape::Tag);
            self.push(at..at + length + 2, shapes);
            // What stands in a long tag is read as well.
            if rest[..length].contains(&b' ') {
                return at + 1;
            }
            return at + length + 2;
        }
        at + 1
    }

    fn quotation(&mut self, at: usize, mark: u8) -> usize {
        match self.quote {
            Some((_, closing)) if closing == mark => self.quote = None,
            Some((from, _)) if at - from > MAX_QUOTATION => self.quote = None,
            Some(_) => {}
            None => {
                let opens = at == 0 || !is_word(self.bytes[at - 1]);
                let rest = &self.bytes[at + 1..];
                let closes = rest.iter().take(MAX_QUOTATION).any(|byte| *byte == mark);
                if opens && closes {
                    self.quote = Some((at, mark));
                }
            }
        }
        at + 1
    }

    fn word(&mut self, at: usize) -> usize {
        let rest = &self.bytes[at..];
        let mut shapes = Shapes::default();
        if let Some((length, shape)) = self.whole_run(at) {
            shapes.add(shape);
            self.push(at..at + length, shapes);
            return at + length;
        }
        let length = rest
            .iter()
            .enumerate()
            .take_while(|(index, byte)| {
                is_word(**byte) && !rest[*index..].starts_with("。".as_bytes())
                    || **byte == b'\''
                        && *index > 0
                        && rest.get(index + 1).is_some_and(u8::is_ascii_alphabetic)
            })
            .count();
        if length == 0 {
            return at + 1;
        }
        let word = &self.bytes[at..at + length];
        if word.contains(&b'_') && word.iter().any(u8::is_ascii_alphanumeric) {
            shapes.add(Shape::Name);
        }
        if word[0].is_ascii_digit() {
            shapes.add(Shape::Number);
        }
        self.push(at..at + length, shapes);
        at + length
    }

    /// Length and shape of what stands at `at` without spaces, where that is one token.
    fn whole_run(&mut self, at: usize) -> Option<(usize, Shape)> {
        if at >= self.run.0 {
            let length = self.bytes[at..]
                .iter()
                .take(MAX_RUN)
                .take_while(|byte| is_in_run(**byte));
            self.run = (at + length.count(), 0);
        }
        if self.run.1 >= MAX_LOOKS {
            return None;
        }
        self.run.1 += 1;
        let run = &self.text[at..self.text.floor_char_boundary(self.run.0).max(at)];
        let run = run.trim_end_matches(['.', ':', '!', '?', '\'', '*', '/', ')']);
        whole(run).map(|shape| (run.len(), shape))
    }

    /// Articles are left out.
    fn push(&mut self, span: Range<usize>, mut shapes: Shapes) {
        if matches!(&self.text[span.clone()], "the" | "a" | "an") {
            return;
        }
        if self.current.len() >= MAX_TOKENS {
            self.end();
        }
        if self.current.is_empty() {
            shapes.add(Shape::Start);
        }
        if self.quote.is_some() {
            shapes.add(Shape::Quoted);
        }
        self.current.push(Token { span, shapes });
    }
}

/// Whether a byte is part of a run without spaces and brackets.
const fn is_in_run(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !matches!(
            byte,
            b'"' | b'`' | b'(' | b')' | b'<' | b'>' | b'|' | b',' | b'[' | b']' | b'{' | b'}' | b';'
        )
}

/// The shape of a run without spaces that is one token, whatever stands in it.
fn whole(run: &str) -> Option<Shape> {
    if run.len() < 3 {
        return None;
    }
    if run.contains("://") {
        return Some(Shape::Url);
    }
    if let Some((local, host)) = run.split_once('@')
        && !local.is_empty()
        && host.contains('.')
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
    {
        return Some(Shape::Email);
    }
    let is_path = run.starts_with("~/")
        || run.starts_with('/') && run.len() > 3
        || run.starts_with('.') && run[1..].starts_with(|c: char| c.is_ascii_alphabetic())
        || run.contains("/.")
        || run.starts_with("./");
    let is_plain = run.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path && is_plain {
        return Some(Shape::Path);
    }
    // A file or a host: letters on both sides of each dot.
    let mut parts = run.split('.');
    let is_dotted = run.contains('.')
        && parts.all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| is_word(byte) || matches!(byte, b'-' | b'/'))
        })
        && run.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_dotted.then_some(Shape::Path)
}

/// Whether a byte is part of a word; letters of other scripts are.
pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
