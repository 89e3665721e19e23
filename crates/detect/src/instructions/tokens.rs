//! Tokens: words, and the shapes between words (addresses, paths, names with underscores, tags).

use std::ops::Range;

/// A property that a token has because of its form, not because of its letters.
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
    /// A word before a colon.
    Colon,
    /// A token in quotation marks.
    Quoted,
    /// A name before the parenthesis of a call.
    Call,
    /// The first token of a sentence.
    Start,
    /// A token before a comma.
    Comma,
}

impl Shape {
    /// Every shape, with the name of its class in patterns.
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

    /// Returns bytes of which a sentence with a token of this shape has at least one; empty if there are no such bytes.
    pub(crate) const fn signs(self) -> &'static [u8] {
        match self {
            Self::Url | Self::Colon => b":",
            Self::Email => b"@",
            Self::Path => b"./~",
            Self::Name => b"_",
            Self::Tag => b"<",
            Self::Number => b"0123456789",
            Self::Quoted => b"\"`'",
            Self::Call => b"(",
            Self::Comma => b",",
            Self::Start => b"",
        }
    }

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
    /// The range in the text.
    pub(crate) span: Range<usize>,
    /// The shapes of the token.
    pub(crate) shapes: Shapes,
}

/// Calls `tell` with the tokens of each sentence of a text in lower case. Reads only `part` of the text, which begins
/// and ends at borders of sentences.
pub(crate) fn sentences(text: &str, part: Range<usize>, tell: impl FnMut(&[Token])) {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        tell,
        current: Vec::new(),
        quote: None,
        run: (part.start, 0),
        is_marked: false,
    };
    reader.read(part);
}

/// Returns the nearest position at or before `at` where a sentence certainly begins, but not before `floor`.
pub(crate) fn start_before(text: &str, at: usize, floor: usize) -> usize {
    let mut places = (floor + 1..=at).rev();
    places
        .find(|place| is_border(text.as_bytes(), *place))
        .unwrap_or(floor)
}

/// Returns the nearest position at or after `at` where a sentence certainly begins, or the end of the text.
pub(crate) fn start_after(text: &str, at: usize) -> usize {
    let mut places = at.max(1)..text.len();
    places
        .find(|place| is_border(text.as_bytes(), *place))
        .unwrap_or(text.len())
}

/// Extends a part of a text by up to `count` sentences before it and after it.
pub(crate) fn beside(text: &str, part: Range<usize>, count: usize) -> Range<usize> {
    let counted = |part: Range<usize>| {
        let mut counted = 0;
        sentences(text, part, |_| counted += 1);
        counted
    };
    let mut around = part;
    let mut before = 0;
    while before < count && around.start > 0 {
        let start = start_before(text, around.start - 1, 0);
        before += counted(start..around.start);
        around.start = start;
    }
    let mut after = 0;
    while after < count && around.end < text.len() {
        let end = start_after(text, around.end + 1);
        after += counted(around.end..end);
        around.end = end;
    }
    around
}

/// Returns whether a sentence certainly begins at a position other than the start of the text: reading from there gives
/// the same sentences as reading the whole text, and no sentence before it extends beyond it.
pub(crate) fn is_border(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at - 1];
    match (bytes[at - 1], bytes[at]) {
        (b'\n', _) => ends_line(&bytes[at..]),
        (b'.' | b'!' | b'?', b' ') if is_in_tag(bytes, at) => false,
        (b'!' | b'?', b' ') => true,
        (b'.', b' ') => !is_cut(before) && !ends_in_abbreviation(before),
        _ => false,
    }
}

/// Returns whether the run that `before` ends with may be cut, because it is a long one: then it is cut at any position.
fn is_cut(before: &[u8]) -> bool {
    const MIN_CUT: usize = MAX_RUN - 1;
    let near = &before[before.len().saturating_sub(MIN_CUT)..];
    near.iter().rev().all(|byte| is_in_run(*byte)) && near.len() == MIN_CUT
}

/// Returns whether the last word of `before` is an abbreviation.
fn ends_in_abbreviation(before: &[u8]) -> bool {
    // One byte more than the longest abbreviation, which is then part of a longer word.
    let near = &before[before.len().saturating_sub(MAX_ABBREVIATION + 1)..];
    let gap = near.iter().rposition(|byte| !byte.is_ascii_alphanumeric());
    is_abbreviation(&near[gap.map_or(0, |gap| gap + 1)..])
}

/// Returns whether a tag may begin before a position and end after it: all of it belongs to the sentence of its first
/// sign.
fn is_in_tag(bytes: &[u8], at: usize) -> bool {
    let near = &bytes[at.saturating_sub(MAX_TAG)..at];
    let opened =
        memchr::memrchr(b'<', near).is_some_and(|last| memchr::memchr2(b'>', b'\n', &near[last..]).is_none());
    let rest = &bytes[at..bytes.len().min(at + MAX_TAG)];
    opened && memchr::memchr3(b'<', b'>', b'\n', rest).is_some_and(|next| rest[next] == b'>')
}

/// Returns whether a word is an article.
pub(crate) const fn is_article(word: &[u8]) -> bool {
    matches!(word, b"the" | b"a" | b"an")
}

/// Most tokens of a sentence; a longer one is cut.
pub(crate) const MAX_TOKENS: usize = 128;
/// Longest run without spaces that is tested as a whole, bytes.
const MAX_RUN: usize = 400;
/// Most positions of one run from which it is tested as a whole: each test reads the rest of the run.
const MAX_LOOKS: usize = 16;
/// Most bytes after which an opening quotation mark is taken for an apostrophe.
const MAX_QUOTATION: usize = 160;

/// Longest tag, bytes between its brackets.
const MAX_TAG: usize = 60;

/// Length of the longest abbreviation.
const MAX_ABBREVIATION: usize = 6;

/// Returns whether a word is one after which a full stop does not end a sentence.
const fn is_abbreviation(word: &[u8]) -> bool {
    matches!(
        word,
        b"g" | b"e" | b"eg" | b"i" | b"ie" | b"etc" | b"vs" | b"no" | b"approx" | b"incl"
    )
}

struct Reader<'t, T> {
    text: &'t str,
    bytes: &'t [u8],
    tell: T,
    current: Vec<Token>,
    /// The start of a quotation, and its closing mark.
    quote: Option<(usize, u8)>,
    /// The end of the run that was tested last, and how often it was tested.
    run: (usize, usize),
    /// True if that run has a sign that every run with a shape has.
    is_marked: bool,
}

impl<T: FnMut(&[Token])> Reader<'_, T> {
    fn read(&mut self, part: Range<usize>) {
        let mut at = part.start;
        while at < part.end {
            let byte = self.bytes[at];
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
            (self.tell)(&self.current);
            self.current.clear();
        }
    }

    fn line_break(&mut self, at: usize) -> usize {
        if ends_line(&self.bytes[at + 1..]) {
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
        let last = self.current.last().filter(|token| token.span.end == at);
        let is_abbreviation = self.bytes[at] == b'.'
            && last.is_some_and(|token| is_abbreviation(&self.bytes[token.span.clone()]));
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
            // A file whose name begins with a dot.
            return self.word(at);
        }
        at + 1
    }

    fn tag(&mut self, at: usize) -> usize {
        let rest = &self.bytes[at + 1..];
        let length = rest
            .iter()
            .take(MAX_TAG)
            .position(|byte| matches!(byte, b'>' | b'\n' | b'<'));
        if let Some(length) = length
            && rest[length] == b'>'
            && length > 0
            && rest[..length].iter().any(u8::is_ascii_alphabetic)
        {
            let mut shapes = Shapes::default();
            shapes.add(Shape::Tag);
            self.push(at..at + length + 2, shapes);
            // The contents of a tag with spaces are read as well.
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
                is_word(**byte) && !(**byte == b'\xe3' && rest[*index..].starts_with("。".as_bytes()))
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

    /// Returns the length and the shape of the run without spaces at `at`, if the run is one token.
    fn whole_run(&mut self, at: usize) -> Option<(usize, Shape)> {
        if at >= self.run.0 {
            let rest = &self.bytes[at..];
            let mut kinds = 0;
            let run = rest.iter().take(MAX_RUN).take_while(|byte| is_in_run(**byte));
            let length = run.inspect(|byte| kinds |= KINDS[usize::from(**byte)]).count();
            self.run = (at + length, 0);
            self.is_marked = kinds & MARK != 0;
        }
        if !self.is_marked || self.run.1 >= MAX_LOOKS {
            return None;
        }
        self.run.1 += 1;
        let run = &self.text[at..self.text.floor_char_boundary(self.run.0).max(at)];
        let run = run.trim_end_matches(['.', ':', '!', '?', '\'', '*', '/', ')']);
        whole(run).map(|shape| (run.len(), shape))
    }

    /// Adds a token, unless it is an article.
    fn push(&mut self, span: Range<usize>, mut shapes: Shapes) {
        if is_article(&self.bytes[span.clone()]) {
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

/// Most words of a name that a colon follows.
const MAX_NAME_WORDS: usize = 3;

/// Returns whether a line break before `rest` ends a sentence: the next line is empty, an item of a list, a heading, or
/// a name with a description.
fn ends_line(rest: &[u8]) -> bool {
    let skipped = rest
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
        .count();
    let next = &rest[skipped..];
    match next.first() {
        None | Some(b'\n' | b'-' | b'*' | b'#' | b'>' | b'|' | b'<' | b'[' | b'=' | b'\xe2') => true,
        Some(byte) if byte.is_ascii_digit() => {
            let digits = next.iter().take_while(|byte| byte.is_ascii_digit()).count();
            matches!(next.get(digits), Some(b'.' | b')'))
        }
        Some(_) => {
            let (mut words, mut is_in_word) = (0, false);
            for byte in next {
                match byte {
                    b' ' => is_in_word = false,
                    b':' => return true,
                    b'(' => return words == 1,
                    byte if is_word(*byte) => {
                        words += usize::from(!is_in_word);
                        is_in_word = true;
                        if words > MAX_NAME_WORDS {
                            return false;
                        }
                    }
                    _ => return false,
                }
            }
            false
        }
    }
}

/// Part of a word, which includes letters of other scripts.
const WORD: u8 = 1;
/// Part of a run without spaces and brackets.
const RUN: u8 = 2;
/// A sign that every run with a shape as a whole has.
const MARK: u8 = 4;

/// The kind of each byte.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let this = byte as u8;
        if this.is_ascii_alphanumeric() || this == b'_' || this >= 0x80 {
            kinds[byte] |= WORD;
        }
        if !this.is_ascii_whitespace()
            && !matches!(
                this,
                b'"' | b'`' | b'(' | b')' | b'<' | b'>' | b'|' | b',' | b'[' | b']' | b'{' | b'}' | b';'
            )
        {
            kinds[byte] |= RUN;
        }
        if matches!(this, b'/' | b'@' | b'.') {
            kinds[byte] |= MARK;
        }
        byte += 1;
    }
    kinds
};

const fn is_in_run(byte: u8) -> bool {
    KINDS[byte as usize] & RUN != 0
}

const fn is_word(byte: u8) -> bool {
    KINDS[byte as usize] & WORD != 0
}

/// Returns the shape of a run without spaces that is one token, whatever signs are in it.
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
    // A file or a host has letters on both sides of each dot.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, part: Range<usize>) -> Vec<Vec<Token>> {
        let mut read = Vec::new();
        sentences(text, part, |tokens| read.push(tokens.to_vec()));
        read
    }

    #[test]
    fn what_a_tag_encloses_belongs_to_the_sentence_that_it_stands_in() {
        let text = "one <two. three> four. five";
        let starts = (1..text.len()).filter(|at| start_after(text, *at) == *at);
        assert!(starts.eq([text.find(" five").unwrap()]));
    }

    #[test]
    fn a_full_stop_ends_a_sentence_and_an_abbreviation_does_not() {
        let text = "one etc. two. three\n- four";
        let starts: Vec<usize> = (1..text.len())
            .filter(|at| start_after(text, *at) == *at)
            .collect();
        assert_eq!(
            starts,
            [text.find(" three").unwrap(), text.find("- four").unwrap()]
        );
    }

    proptest! {
        #[test]
        fn from_the_start_of_a_sentence_on_a_text_is_read_as_it_is_after_what_stands_before_it(
            parts in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(&[
                        ". ", "! ", "? ", "; ", "\n", "\n\n", "\n- ", "\n1. ", "\nname: ", "etc", "e.g. ", "no", ".", "/", "~",
                        "@", "://", "'", "\"", "`", "<", ">", " <!-- ", "-->", "(", ")", ",", ":", "。", "é", "_", "word", "the", " ", "\t",
                    ][..]).prop_map(str::to_owned),
                    "[a-z]{1,4} ",
                    (1..450_usize).prop_map(|length| "x".repeat(length)),
                    (60..140_usize).prop_map(|count| "w ".repeat(count)),
                ],
                0..40,
            ),
        ) {
            let text = parts.concat();
            let all = read(&text, 0..text.len());
            for at in (1..text.len()).filter(|at| start_after(&text, *at) == *at) {
                let split = [read(&text, 0..at), read(&text, at..text.len())].concat();
                prop_assert_eq!(&split, &all, "{}", at);
                let reaches_over = |token: &Token| token.span.start < at && token.span.end > at;
                prop_assert!(!all.iter().flatten().any(reaches_over), "{}", at);
            }
        }
    }
}
