//! Server-sent events (WHATWG HTML, 9.2): the stream may be cut anywhere, lines may end in any of three ways, and no
//! more of an event is kept than its limit.

use std::borrow::Cow;

use memchr::memchr2;

use super::outline::{MessageOutline, Skim};

/// An event without end is skipped up to this many times the size of the longest event.
const SKIPPED: usize = 4;
/// A buffer of more bytes is freed when its event is done.
const KEPT: usize = 1 << 16;

/// A byte order mark, which may be at the start of a stream.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An event, or anything else between two blank lines, for example a comment that keeps the connection alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The whole event as it came, with the blank line that ends it; without the byte order mark of the stream.
    pub raw: &'a [u8],
    /// The lines of `data`, joined; `None` if there are none, so that no reader dispatches the event.
    pub data: Option<Cow<'a, [u8]>>,
    /// `event`.
    pub name: Option<&'a [u8]>,
    /// `id`.
    pub id: Option<&'a [u8]>,
}

/// The result of reading from a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum SseFraming<'a> {
    /// An event.
    Event(SseEvent<'a>),
    /// The event is longer than allowed, and nothing more is read.
    TooLong,
    /// The event is longer than allowed; the outline has what could be read without keeping it.
    Skipped(MessageOutline),
}

/// Cuts one stream into events.
#[derive(Debug)]
pub struct Events {
    max: usize,
    /// The start of an event whose end has not come yet.
    partial: Vec<u8>,
    /// True if the event returned last came from `partial`.
    returned: bool,
    /// True if the next byte is the first of a line.
    fresh: bool,
    /// True if the last byte was a carriage return: a line feed after it ends the same line.
    after_return: bool,
    /// True if a blank line has ended the event. It is returned once it is known whether a line feed belongs to it,
    /// because no server uses carriage returns alone.
    is_over: bool,
    /// True if no event was returned yet.
    first: bool,
    over: bool,
    /// True if events that are too long are skipped.
    skips: bool,
    /// The outline of the current event, while it is skipped.
    skim: Option<Box<Skim>>,
    /// The number of skipped bytes.
    skipped: usize,
}

impl Events {
    /// Returns a splitter for events of at most `max` bytes.
    pub const fn new(max: usize) -> Self {
        Self {
            max,
            partial: Vec::new(),
            returned: false,
            fresh: true,
            after_return: false,
            is_over: false,
            first: true,
            over: false,
            skips: false,
            skim: None,
            skipped: 0,
        }
    }

    /// Returns a splitter that skips events longer than `max` bytes; an event without an end ends the stream.
    pub const fn skipping(max: usize) -> Self {
        let mut events = Self::new(max);
        events.skips = true;
        events
    }

    /// Returns the next event that ends in `chunk`, and leaves the rest in `chunk`; `None` once the chunk is used up.
    pub fn next<'s, 'c: 's>(&'s mut self, chunk: &mut &'c [u8]) -> Option<SseFraming<'s>> {
        self.forget_returned();
        if self.over {
            *chunk = &[];
            return None;
        }
        let end = self.end(chunk);
        let (head, rest) = chunk.split_at(end.unwrap_or(chunk.len()));
        *chunk = rest;
        if self.skim.is_some() || self.partial.len() + head.len() > self.max {
            return self.too_long(head, end.is_some());
        }
        if self.partial.is_empty() && end.is_some() {
            return Some(SseFraming::Event(read(head, std::mem::take(&mut self.first))));
        }
        self.partial.extend_from_slice(head);
        end?;
        self.returned = true;
        Some(SseFraming::Event(read(
            &self.partial,
            std::mem::take(&mut self.first),
        )))
    }

    /// Continues an event that is longer than allowed.
    fn too_long(&mut self, bytes: &[u8], is_end: bool) -> Option<SseFraming<'static>> {
        let partial = std::mem::take(&mut self.partial);
        if !self.skips {
            self.over = true;
            return Some(SseFraming::TooLong);
        }
        let skim = self.skim.get_or_insert_default();
        skim.push(&partial);
        skim.push(bytes);
        if !is_end {
            self.skipped = self.skipped.saturating_add(bytes.len());
            self.over = self.skipped > self.max.saturating_mul(SKIPPED);
            return self.over.then_some(SseFraming::TooLong);
        }
        self.skipped = 0;
        self.first = false;
        let skim = self.skim.take().unwrap_or_default();
        Some(SseFraming::Skipped(skim.finish()))
    }

    /// Returns the unfinished event at the end of the stream: no reader dispatches it, but some look at it.
    pub fn rest(&mut self) -> Option<SseEvent<'_>> {
        self.forget_returned();
        self.returned = true;
        (!self.partial.is_empty()).then(|| read(&self.partial, self.first))
    }

    /// Returns the limit of an event, bytes.
    pub const fn max(&self) -> usize {
        self.max
    }

    /// Returns the bytes of the unfinished event.
    pub const fn held(&self) -> usize {
        if self.returned { 0 } else { self.partial.len() }
    }

    /// Returns the position in `chunk` where the current event ends.
    fn end(&mut self, chunk: &[u8]) -> Option<usize> {
        let first = chunk.first()?;
        let mut at = usize::from(std::mem::take(&mut self.after_return) && *first == b'\n');
        if std::mem::take(&mut self.is_over) {
            return Some(at);
        }
        loop {
            let rest = &chunk[at..];
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.fresh &= rest.is_empty();
                return None;
            };
            let is_blank = length == 0 && self.fresh;
            let is_return = rest[length] == b'\r';
            at += length + 1;
            self.fresh = true;
            match chunk.get(at) {
                Some(b'\n') if is_return => at += 1,
                None if is_return => {
                    self.after_return = true;
                    self.is_over = is_blank;
                    return None;
                }
                None | Some(_) => {}
            }
            if is_blank {
                return Some(at);
            }
        }
    }

    fn forget_returned(&mut self) {
        if std::mem::take(&mut self.returned) {
            self.partial.clear();
            self.partial.shrink_to(KEPT);
        }
    }
}

fn read(raw: &[u8], is_first: bool) -> SseEvent<'_> {
    let raw = match is_first {
        true => raw.strip_prefix(BYTE_ORDER_MARK).unwrap_or(raw),
        false => raw,
    };
    let mut event = SseEvent {
        raw,
        data: None,
        name: None,
        id: None,
    };
    let mut text = raw;
    while !text.is_empty() {
        let end = memchr2(b'\n', b'\r', text).unwrap_or(text.len());
        let line = &text[..end];
        text = text.get(end + 1..).unwrap_or_default();
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => match &mut event.data {
                None => event.data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            b"event" => event.name = Some(value),
            b"id" => event.id = Some(value),
            _ => {}
        }
    }
    event
}

/// Returns whether all readers cut an event into the same lines and know each of them, so that its bytes may be
/// forwarded.
///
/// Readers differ about some bytes: some strip a byte order mark from any field name, and some end lines at line feeds
/// only.
pub fn is_plain(raw: &[u8]) -> bool {
    let mut lines = raw.split_inclusive(|byte| *byte == b'\n');
    lines.all(|line| {
        let line = match line.strip_suffix(b"\n") {
            Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
            None => line,
        };
        let is_known = line.is_empty() || line.starts_with(b":") || SseField::of(line).is_some();
        is_known && !line.contains(&b'\r') && (line.starts_with(b"data:") || is_clean(line))
    })
}

/// Returns whether all readers see the same single line in this.
pub fn is_clean(line: &[u8]) -> bool {
    str::from_utf8(line).is_ok() && !has_line_end(line)
}

/// A field that readers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseField {
    /// `data`.
    Data,
    /// `event`, `id` or `retry`.
    Other,
}

impl SseField {
    /// Returns the field of a line; `None` if the line is a comment, blank, or has another name.
    pub fn of(line: &[u8]) -> Option<Self> {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        match name {
            b"data" => Some(Self::Data),
            b"event" | b"id" | b"retry" => Some(Self::Other),
            _ => None,
        }
    }
}

/// Returns whether a line other than data contains a character that some readers take for the end of a line: they would
/// read the rest of it as data. Data is JSON, in which such a character ends no text.
pub fn has_hidden_line(raw: &[u8]) -> bool {
    if is_ordinary(raw) {
        return false;
    }
    let mut lines = raw.split(|byte| matches!(byte, b'\r' | b'\n'));
    lines.any(|line| !line.starts_with(b"data:") && has_line_end(line))
}

/// Returns whether no byte can belong to a line end that only Python knows. There is no branch, so that it compiles to
/// a few vector instructions: nearly every event is ASCII.
fn is_ordinary(bytes: &[u8]) -> bool {
    let strange = |byte: u8| u8::from(byte >= 0x80) | u8::from(matches!(byte, 0x0b | 0x0c | 0x1c..=0x1e));
    bytes.iter().fold(0, |any, byte| any | strange(*byte)) == 0
}

/// Returns whether there is a line end in it that Python knows, but the standard does not.
pub fn has_line_end(line: &[u8]) -> bool {
    if is_ordinary(line) {
        return false;
    }
    (0..line.len()).any(|at| {
        let is_control = matches!(line[at], 0x0b | 0x0c | 0x1c..=0x1e);
        let ends = ["\u{85}", "\u{2028}", "\u{2029}"];
        is_control || ends.iter().any(|end| line[at..].starts_with(end.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    /// Names and data of the events of a stream that comes in these chunks, and whether their bytes are all of it.
    fn events(max: usize, chunks: &[&[u8]]) -> (Vec<(String, Option<String>)>, bool) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut events, mut raw) = (Vec::new(), Vec::new());
        let mut cutter = Events::new(max);
        for chunk in chunks {
            let mut chunk = *chunk;
            while let Some(cut) = cutter.next(&mut chunk) {
                match cut {
                    SseFraming::TooLong => events.push(("too long".to_owned(), None)),
                    SseFraming::Skipped(long) => events.push((format!("skipped {:?}", long.id), None)),
                    SseFraming::Event(event) => {
                        raw.extend_from_slice(event.raw);
                        let name = event.name.map(text).unwrap_or_default();
                        events.push((name, event.data.as_deref().map(text)));
                    }
                }
            }
        }
        if let Some(rest) = cutter.rest() {
            raw.extend_from_slice(rest.raw);
        }
        (events, raw == chunks.concat())
    }

    #[test_case("data: a\n\n" => vec![(String::new(), Some("a".to_owned()))]; "line feeds")]
    #[test_case("data: a\r\n\r\n" => vec![(String::new(), Some("a".to_owned()))]; "both")]
    #[test_case("data: a\r\rdata: b\r\r" => vec![(String::new(), Some("a".to_owned()))]; "carriage returns, the last of which could be followed by a line feed")]
    #[test_case("event: x\ndata:a\ndata:  b\n\n" => vec![("x".to_owned(), Some("a\n b".to_owned()))]; "several lines, one space taken")]
    #[test_case("data\n\n" => vec![(String::new(), Some(String::new()))]; "a field without a colon")]
    #[test_case(": ping\n\ndatum: a\n\n" => vec![(String::new(), None); 2]; "nothing to dispatch")]
    #[test_case("data: a\n" => Vec::<(String, Option<String>)>::new(); "no end")]
    fn streams_are_cut(stream: &str) -> Vec<(String, Option<String>)> {
        let whole = events(64, &[stream.as_bytes()]);
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert!(whole.1, "bytes were lost");
        assert_eq!(events(64, &bytes), whole);
        whole.0
    }

    #[test]
    fn a_byte_order_mark_is_dropped_once() {
        let of = |stream: &str| {
            let (mut cutter, mut chunk) = (Events::new(64), stream.as_bytes());
            match cutter.next(&mut chunk) {
                Some(SseFraming::Event(event)) => (event.raw.to_vec(), event.data.map(Cow::into_owned)),
                cut => panic!("{cut:?}"),
            }
        };
        let event = (b"data: a\n\n".to_vec(), Some(b"a".to_vec()));
        assert_eq!(of("\u{feff}data: a\n\n"), event);
        let twice = "\u{feff}\u{feff}data: a\n\n";
        assert_eq!(of(twice), (twice["\u{feff}".len()..].into(), None));
    }

    #[test_case(": ping\n\n" => true; "a comment")]
    #[test_case(":\n\n" => true; "an empty comment")]
    #[test_case("\n" => true; "a blank line")]
    #[test_case("id: 1\nretry: 5\nevent: x\ndata:\n\n" => true; "known fields")]
    #[test_case("id\ndata\n\n" => true; "fields without a colon")]
    #[test_case("event: x\r\ndata: {}\r\n\r\n" => true; "pairs")]
    #[test_case("data: {}\r\n\n" => true; "both")]
    #[test_case("data: \"\u{2028}\"\n: \u{e9}\n\n" => true; "a line end in data")]
    #[test_case("data: {}" => true; "no end")]
    #[test_case("data: {}\r" => false; "half an end")]
    #[test_case("data: {}\r\r" => false; "carriage returns")]
    #[test_case("data:\r{}\n\n" => false; "a carriage return in data")]
    #[test_case("data: {}\r\r\n\n" => false; "a carriage return before a pair")]
    #[test_case(": x\rdata: {}\n\n" => false; "a carriage return in a comment")]
    #[test_case("\u{ef}\u{bb}\u{bf}data: {}\n\n" => false; "a byte order mark that was read as Latin-1")]
    #[test_case("\u{feff}data: {}\n\n" => false; "a byte order mark")]
    #[test_case("datum: {}\n\n" => false; "another field")]
    #[test_case(" data: {}\n\n" => false; "a space in front")]
    #[test_case("data : {}\n\n" => false; "a space behind")]
    #[test_case("Data: {}\n\n" => false; "another case")]
    #[test_case("{}\n\n" => false; "no field")]
    #[test_case("id: 1\u{85}data: {}\n\n" => false; "a line hidden in an id")]
    #[test_case("data\x1cdata: {}\n\n" => false; "a line hidden in a field")]
    fn plain_events(raw: &str) -> bool {
        is_plain(raw.as_bytes())
    }

    #[test]
    fn what_is_not_utf_8_is_not_plain() {
        assert!(!is_plain(b": \xe2\n\n"));
    }

    /// Were the data copied for each line, this would take hours.
    #[test]
    fn data_in_many_lines_costs_no_more_than_in_one() {
        let stream = "data:\n".repeat(2 << 20) + "\n";
        let (told, all) = events(stream.len(), &[stream.as_bytes()]);
        let length = told.first().and_then(|(_, data)| data.as_ref().map(String::len));
        assert_eq!((told.len(), length, all), (1, Some((2 << 20) - 1), true));
    }

    #[test]
    fn what_has_no_end_is_not_skipped_for_ever() {
        let mut cutter = Events::skipping(10);
        let mut told = 0;
        for _ in 0..100 {
            let mut chunk = &b"0123456789"[..];
            told += usize::from(matches!(cutter.next(&mut chunk), Some(SseFraming::TooLong)));
        }
        assert_eq!(told, 1, "once, and then nothing is looked at any more");
    }

    #[test_case(&[b"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\ndata: a\n\n"]; "at once")]
    #[test_case(&[b"data: {\"jsonrpc\":\"2.0\",\"id\":7", b",\"result\":{}}\n", b"\ndata: a\n", b"\n"]; "in pieces")]
    #[test_case(&[b"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\r", b"\n\r", b"\ndata: a\n\n"]; "cut in its end")]
    fn what_is_too_long_can_be_skipped(chunks: &[&[u8]]) {
        let mut cutter = Events::skipping(20);
        let mut told = Vec::new();
        for chunk in chunks {
            let mut chunk = *chunk;
            while let Some(cut) = cutter.next(&mut chunk) {
                told.push(match cut {
                    SseFraming::Event(event) => {
                        format!("{:?}", event.data.as_deref().map(<[u8]>::escape_ascii))
                    }
                    SseFraming::Skipped(long) => format!("{:?}", long.id),
                    SseFraming::TooLong => "over".to_owned(),
                });
                assert!(cutter.held() <= 20);
            }
        }
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(
            told[0],
            format!("{:?}", Some(mcpmon_model::RequestId::Number("7".into())))
        );
    }

    #[test]
    fn what_is_too_long_ends_the_stream() {
        let told = |chunks: &[&[u8]]| {
            events(10, chunks)
                .0
                .into_iter()
                .map(|event| event.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&[b"data: ab\n\n"]), [""]);
        assert_eq!(told(&[b"data: abc\n\ndata: a\n\n"]), ["too long"]);
        assert_eq!(
            told(&[b"data: ", b"abcdef", b"\n\n", b"data: a\n\n"]),
            ["too long"]
        );
    }

    #[test_case(": c\u{2028}data: {}\n\n" => true; "a comment")]
    #[test_case("data: {}\nid: 1\u{85}data: {}\n\n" => true; "an id")]
    #[test_case("event: x\x0bdata: {}\n\n" => true; "a name")]
    #[test_case("data\x1cdata: {}\n\n" => true; "a field that is none")]
    #[test_case("event: x\r\ndata: \"\u{2028}\"\r\n: \u{e9}\r\n\r\n" => false; "data")]
    fn hidden_lines(raw: &str) -> bool {
        has_hidden_line(raw.as_bytes())
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_data(parts in prop::collection::vec("(data: |event: e|id: 1|:c|x|\r|\n|\r\n|\n\n)", 0..24), at in 0..80_usize) {
            let stream = parts.concat();
            let at = at.min(stream.len());
            let (whole, all) = events(1 << 10, &[stream.as_bytes()]);
            let (cut, cut_all) = events(1 << 10, &[&stream.as_bytes()[..at], &stream.as_bytes()[at..]]);
            prop_assert!(all && cut_all);
            prop_assert_eq!(whole, cut);
        }
    }
}
