//! Bytes to lines: chunks may be cut anywhere, and no line is held beyond its limit.

use super::outline::{MessageOutline, Skim};

/// A buffer of more bytes is freed when a line needs less; allocating it again for each of several long lines costs
/// more than reading them.
const KEPT: usize = 1 << 16;

/// A line, or what is known of one that is too long.
#[derive(Debug)]
pub enum LineOutcome<'a> {
    /// A line, with its terminator.
    Whole(&'a [u8]),
    /// A line over the limit; the outline has what could be read without keeping it.
    TooLong(MessageOutline),
}

/// Cuts one stream into lines.
#[derive(Debug)]
pub struct Lines {
    max: usize,
    /// The start of a line whose end has not arrived yet.
    partial: Vec<u8>,
    /// True if the line returned last came from `partial`.
    returned: bool,
    /// The outline of the current line, if it is over the limit.
    skim: Option<Box<Skim>>,
}

impl Lines {
    /// Lines of at most `max` bytes, their terminator not counted.
    pub const fn new(max: usize) -> Self {
        Self {
            max,
            partial: Vec::new(),
            returned: false,
            skim: None,
        }
    }

    /// Returns the next line that ends in `chunk`, and leaves the rest in `chunk`; `None` once the chunk is used up.
    pub fn next<'s, 'c: 's>(&'s mut self, chunk: &mut &'c [u8]) -> Option<LineOutcome<'s>> {
        self.forget_returned();
        let Some(end) = memchr::memchr(b'\n', chunk) else {
            self.keep(chunk);
            *chunk = &[];
            return None;
        };
        let (head, rest) = chunk.split_at(end + 1);
        *chunk = rest;
        if self.partial.is_empty() && self.skim.is_none() && end <= self.max {
            self.partial.shrink_to(KEPT);
            return Some(LineOutcome::Whole(head));
        }
        self.keep(&head[..end]);
        if let Some(skim) = self.skim.take() {
            return Some(LineOutcome::TooLong(skim.finish()));
        }
        self.partial.push(b'\n');
        self.returned = true;
        Some(LineOutcome::Whole(&self.partial))
    }

    /// Returns the unfinished line at the end of the stream.
    pub fn rest(&mut self) -> Option<LineOutcome<'_>> {
        self.forget_returned();
        if let Some(skim) = self.skim.take() {
            return Some(LineOutcome::TooLong(skim.finish()));
        }
        self.returned = true;
        (!self.partial.is_empty()).then_some(LineOutcome::Whole(&self.partial))
    }

    /// Returns the limit of a line, bytes.
    pub const fn max(&self) -> usize {
        self.max
    }

    /// Returns the bytes of the unfinished line.
    pub const fn held(&self) -> usize {
        if self.returned { 0 } else { self.partial.len() }
    }

    /// Gives back memory that only long lines need; what waits for its end stays.
    pub fn shrink(&mut self) {
        self.forget_returned();
        self.partial.shrink_to(KEPT);
    }

    /// Returns the allocated capacity in bytes.
    #[cfg(test)]
    pub(crate) const fn kept(&self) -> usize {
        self.partial.capacity()
    }

    fn forget_returned(&mut self) {
        if self.returned {
            self.returned = false;
            let needed = self.partial.len();
            self.partial.clear();
            self.partial.shrink_to(needed.max(KEPT));
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(skim) = &mut self.skim {
            skim.push(bytes);
        } else if self.partial.len() + bytes.len() > self.max {
            let mut skim = Box::<Skim>::default();
            skim.push(&self.partial);
            skim.push(bytes);
            self.skim = Some(skim);
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

/// Returns a line without its terminator, `\n` or `\r\n`.
pub fn content(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns whether a line has nothing but space in it.
pub fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    /// A line, or `None` for one over the limit.
    type Owned = Option<Vec<u8>>;

    /// The lines of a stream that comes in these chunks, and what is left at its end.
    fn lines(max: usize, chunks: &[&[u8]]) -> (Vec<Owned>, Option<Owned>) {
        let owned = |line: LineOutcome<'_>| match line {
            LineOutcome::Whole(line) => Some(line.to_vec()),
            LineOutcome::TooLong(_) => None,
        };
        let mut cutter = Lines::new(max);
        let mut lines = Vec::new();
        for chunk in chunks {
            let mut chunk = *chunk;
            while let Some(line) = cutter.next(&mut chunk) {
                lines.push(owned(line));
            }
        }
        (lines, cutter.rest().map(owned))
    }

    #[test_case(b"12345678\n", Some("12345678\n"); "as long as allowed")]
    #[test_case(b"123456789\n", None; "a byte longer")]
    #[test_case(b"1234567\r\n", Some("1234567\r\n"); "a carriage return counts")]
    #[test_case(b"\n", Some("\n"); "empty")]
    fn the_limit_is_exact(stream: &[u8], expected: Option<&str>) {
        let expected = expected.map(|line| line.as_bytes().to_vec());
        assert_eq!(lines(8, &[stream]), (vec![expected.clone()], None));
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(lines(8, &bytes), (vec![expected], None));
    }

    #[test]
    fn memory_for_a_long_line_is_kept_until_one_needs_less() {
        let mut cutter = Lines::new(8 * KEPT);
        let long = [vec![b'a'; 4 * KEPT], b"\n".to_vec()].concat();
        let mut read = |stream: &[u8]| {
            for mut chunk in stream.chunks(KEPT / 2) {
                while cutter.next(&mut chunk).is_some() {}
            }
            cutter.kept()
        };
        assert!(read(&long) >= 4 * KEPT);
        assert!((4 * KEPT..6 * KEPT).contains(&read(&[long.as_slice(), b"a"].concat())));
        assert!(read(b"\nb\n") <= KEPT);
    }

    #[test]
    fn memory_for_a_long_line_is_given_back_where_none_comes() {
        let mut cutter = Lines::new(8 * KEPT);
        let long = [vec![b'a'; 4 * KEPT], b"\nb".to_vec()].concat();
        for mut chunk in long.chunks(KEPT / 2) {
            while cutter.next(&mut chunk).is_some() {}
        }
        assert!(cutter.kept() >= 4 * KEPT);
        cutter.shrink();
        assert!(cutter.kept() <= KEPT);
        let mut chunk = &b"c\n"[..];
        let line = cutter.next(&mut chunk);
        assert!(
            matches!(line, Some(LineOutcome::Whole(b"bc\n"))),
            "what waits stays"
        );
        cutter.shrink();
        assert_eq!(cutter.held(), 0);
    }

    #[test]
    fn a_line_after_one_that_is_too_long_is_whole() {
        let (lines, rest) = lines(4, &[b"aaaaaaaa", b"aaaa\nbb\n", b"cc"]);
        assert_eq!(lines, [None, Some(b"bb\n".to_vec())]);
        assert_eq!(rest, Some(Some(b"cc".to_vec())));
    }

    #[test]
    fn what_is_too_long_at_the_end_is_told() {
        assert_eq!(lines(4, &[b"aaaaaaaa"]), (vec![], Some(None)));
    }

    #[test_case(b"a\n", b"a"; "a line feed")]
    #[test_case(b"a\r\n", b"a"; "a carriage return before it")]
    #[test_case(b"a\r\r\n", b"a\r"; "one of two carriage returns")]
    #[test_case(b"a", b"a"; "none")]
    fn terminators(line: &[u8], expected: &[u8]) {
        assert_eq!(content(line), expected);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            stream in proptest::collection::vec(prop::sample::select(b"ab\n\n\r".to_vec()), 0..60),
            sizes in proptest::collection::vec(1_usize..7, 1..60),
            max in 1_usize..6,
        ) {
            let mut chunks = Vec::new();
            let mut rest = stream.as_slice();
            for size in sizes.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at(size.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let whole = lines(max, &[&stream]);
            prop_assert_eq!(&lines(max, &chunks), &whole);
            let expected: Vec<Owned> = stream
                .split_inclusive(|byte| *byte == b'\n')
                .filter(|line| line.ends_with(b"\n"))
                .map(|line| (line.len() - 1 <= max).then(|| line.to_vec()))
                .collect();
            prop_assert_eq!(whole.0, expected);
        }
    }
}
