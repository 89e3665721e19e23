//! One direction of a tapped server: makes lines of the copied parts. A gap costs only the lines that it is in.

use std::collections::BTreeMap;

use mcpmon_kernel::tap::TapPart;
use serde::de::IgnoredAny;

/// Most threads of a server in the middle of a call: each has a part of it in memory.
const MAX_CALLS: usize = 64;
/// Most bytes of one call: the kernel programs copy no more.
const MAX_CALL: usize = 2 << 20;

/// The bytes of one direction that are not a whole line yet.
#[derive(Debug)]
pub(super) struct TapLines {
    /// Calls whose later parts have not arrived, keyed by thread.
    calls: BTreeMap<u32, Vec<u8>>,
    line: Vec<u8>,
    /// False if the beginning of the line may be missing.
    is_whole: bool,
    /// Bytes that the kernel programs had lost when the latest part was made.
    lost: u64,
    /// Bytes that were copied but cannot be used, because other bytes of their line are missing or the line is too
    /// long.
    unusable: u64,
    /// True while the rest of a line that is too long arrives.
    is_too_long: bool,
}

/// Limits of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineLimits {
    /// Most bytes of a line.
    pub(super) max_line: usize,
    /// Most bytes of unfinished lines and calls: what the other streams of its user leave.
    pub(super) room: usize,
}

/// The continuity between a part and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuity {
    /// Nothing is missing before it.
    Whole,
    /// Something is missing before it.
    Gap,
}

impl TapLines {
    /// Makes a direction that is copied from its first byte, or from somewhere within a line.
    pub(super) const fn new(is_whole: bool) -> Self {
        Self {
            calls: BTreeMap::new(),
            line: Vec::new(),
            is_whole,
            lost: 0,
            unusable: 0,
            is_too_long: false,
        }
    }

    /// Returns the bytes that were copied but cannot be used.
    pub(super) const fn unusable(&self) -> u64 {
        self.unusable
    }

    /// Returns the bytes that wait for the rest of their lines.
    pub(super) fn held(&self) -> usize {
        self.line.len() + self.calls.values().map(Vec::len).sum::<usize>()
    }

    /// Takes a part, and calls `take` with every line that is complete now, including its line end.
    pub(super) fn push(
        &mut self,
        part: &TapPart<'_>,
        limits: LineLimits,
        take: impl FnMut(&[u8]),
    ) -> Continuity {
        let continuity = self.push_part(part, limits.max_line, take);
        if self.held() > limits.room {
            self.give_up();
            return Continuity::Gap;
        }
        continuity
    }

    fn push_part(&mut self, part: &TapPart<'_>, max_line: usize, mut take: impl FnMut(&[u8])) -> Continuity {
        let mut continuity = Continuity::Whole;
        if part.lost > self.lost {
            self.lost = part.lost;
            self.give_up();
            continuity = Continuity::Gap;
        }
        if !part.is_last || self.calls.contains_key(&part.thread) {
            let has_room = self.calls.len() < MAX_CALLS || self.calls.contains_key(&part.thread);
            let call = self.calls.entry(part.thread).or_default();
            if !has_room || call.len() + part.bytes.len() > MAX_CALL {
                self.unusable += part.bytes.len() as u64;
                self.give_up();
                return Continuity::Gap;
            }
            call.extend_from_slice(part.bytes);
            if part.is_last
                && let Some(whole) = self.calls.remove(&part.thread)
            {
                self.bytes(&whole, max_line, &mut take);
            }
        } else {
            self.bytes(part.bytes, max_line, &mut take);
        }
        continuity
    }

    /// Drops what is unfinished, because its rest is lost.
    fn give_up(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let waiting: usize = calls.values().map(Vec::len).sum();
        self.unusable += (waiting + self.line.len()) as u64;
        self.line = Vec::new();
        self.is_whole = false;
        self.is_too_long = false;
    }

    fn bytes(&mut self, bytes: &[u8], max_line: usize, take: &mut impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_end = piece.ends_with(b"\n");
            if self.is_too_long || self.line.len() + piece.len() > max_line {
                self.unusable += (self.line.len() + piece.len()) as u64;
                self.line = Vec::new();
                self.is_too_long = !is_end;
                self.is_whole = true;
                continue;
            }
            match (is_end, self.line.is_empty()) {
                (true, true) => self.line_of(piece, take),
                (true, false) => {
                    self.line.extend_from_slice(piece);
                    let line = std::mem::take(&mut self.line);
                    self.line_of(&line, take);
                }
                (false, _) => self.line.extend_from_slice(piece),
            }
        }
    }

    /// Takes a line. If its beginning may be missing, it counts only if it is a whole JSON object, because the rest of
    /// one is never that.
    fn line_of(&mut self, line: &[u8], take: &mut impl FnMut(&[u8])) {
        let is_known = std::mem::replace(&mut self.is_whole, true);
        if is_known || is_message(line) {
            take(line);
        } else {
            self.unusable += line.len() as u64;
        }
    }
}

fn is_message(line: &[u8]) -> bool {
    let is_object = line.trim_ascii_start().starts_with(b"{");
    is_object && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

#[cfg(test)]
mod tests {
    use mcpmon_kernel::tap::TapSide;
    use proptest::prelude::*;

    use super::*;

    const MAX_LINE: usize = 100;
    const LIMITS: LineLimits = LineLimits {
        max_line: MAX_LINE,
        room: usize::MAX,
    };

    fn part(thread: u32, lost: u64, is_last: bool, bytes: &[u8]) -> TapPart<'_> {
        TapPart {
            time: 0,
            instance: 1,
            side: TapSide::Input,
            thread,
            lost,
            is_last,
            bytes,
        }
    }

    fn lines(stream: &mut TapLines, parts: &[TapPart<'_>]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in parts {
            stream.push(part, LIMITS, |line| {
                lines.push(String::from_utf8_lossy(line).into_owned());
            });
        }
        lines
    }

    #[test]
    fn parts_of_threads_are_put_together() {
        let mut stream = TapLines::new(true);
        let parts = [
            part(1, 0, false, b"{\"a\""),
            part(2, 0, true, b"{}\n"),
            part(1, 0, true, b":1}\n{"),
            part(3, 0, true, b"}\n"),
        ];
        assert_eq!(lines(&mut stream, &parts), ["{}\n", "{\"a\":1}\n", "{}\n"]);
        assert_eq!(stream.unusable(), 0);
    }

    #[test]
    fn a_gap_costs_the_lines_it_is_in() {
        let mut stream = TapLines::new(true);
        let parts = [
            part(1, 0, true, b"{\"a\":1}\n{\"b\":"),
            part(1, 9, true, b"2}}\n{\"c\":3}\n"),
            part(1, 18, true, b"{\"d\":4}\nno message\n"),
        ];
        assert_eq!(
            lines(&mut stream, &parts),
            ["{\"a\":1}\n", "{\"c\":3}\n", "{\"d\":4}\n", "no message\n"],
            "what is a whole text after a gap is one"
        );
        assert_eq!(stream.unusable(), 5 + 4);
    }

    #[test]
    fn a_call_with_a_gap_in_it_is_given_up() {
        let mut stream = TapLines::new(true);
        let gap = stream.push(&part(1, 0, false, b"{\"a"), LIMITS, |_| panic!("no line"));
        assert_eq!(gap, Continuity::Whole);
        let gap = stream.push(&part(2, 5, true, b"rest\n"), LIMITS, |_| panic!("a rest"));
        assert_eq!(gap, Continuity::Gap);
        assert_eq!(stream.unusable(), 3 + 5);
    }

    #[test]
    fn too_long_lines_are_counted() {
        let mut stream = TapLines::new(true);
        let long = [b'x'; MAX_LINE];
        let parts = [
            part(1, 0, true, &long),
            part(1, 0, true, b"more"),
            part(1, 0, true, b"end\n{}\n"),
        ];
        assert_eq!(lines(&mut stream, &parts), ["{}\n"]);
        assert_eq!(stream.unusable(), MAX_LINE as u64 + 4 + 4);
    }

    #[test]
    fn what_a_user_has_no_room_for_is_given_up_and_counted() {
        let limits = LineLimits { room: 4, ..LIMITS };
        let mut stream = TapLines::new(true);
        let mut heard = Vec::new();
        let parts = [
            (part(1, 0, true, b"{\"a\""), Continuity::Whole),
            (part(1, 0, true, b":1"), Continuity::Gap),
            (part(1, 0, true, b"1}\n"), Continuity::Whole),
            (part(1, 0, true, b"{\"whole\": 1}\n"), Continuity::Whole),
            (part(2, 0, false, b"{\"many\""), Continuity::Gap),
        ];
        for (part, expected) in parts {
            let continuity = stream.push(&part, limits, |line| heard.extend_from_slice(line));
            assert_eq!(continuity, expected, "{part:?}");
            assert!(stream.held() <= limits.room, "{} bytes", stream.held());
        }
        assert_eq!(heard, b"{\"whole\": 1}\n");
        assert_eq!(stream.unusable(), 4 + 2 + 3 + 7);
    }

    #[test]
    fn a_thread_that_never_ends_its_call_costs_no_memory_without_end() {
        let mut stream = TapLines::new(true);
        let block = vec![b'x'; MAX_CALL];
        for thread in 0..2 * MAX_CALLS as u32 {
            stream.push(&part(thread, 0, false, b"x"), LIMITS, |_| panic!("no line"));
            assert!(stream.calls.len() <= MAX_CALLS, "{} calls", stream.calls.len());
        }
        stream.push(&part(1, 0, false, &block), LIMITS, |_| panic!("no line"));
        assert_eq!(
            stream.push(&part(1, 0, false, &block), LIMITS, |_| panic!("no line")),
            Continuity::Gap
        );
        assert!(stream.calls.is_empty());
    }

    proptest! {
        /// Every line is one of the conversation, wherever that is cut into parts, and from whichever byte on it is
        /// copied.
        #[test]
        fn lines_are_those_of_the_conversation(
            texts in prop::collection::vec("[a-z{}\\\\\" ]{0,9}", 1..9),
            from in 0_usize..40,
            size in 1_usize..20,
        ) {
            let said: Vec<String> = texts.iter().map(|text| format!("{}\n", serde_json::json!({"t": text, "o": {"n": 1}}))).collect();
            let all = said.concat();
            let heard = &all.as_bytes()[from.min(all.len())..];
            let mut stream = TapLines::new(from == 0);
            let parts: Vec<_> = heard.chunks(size).map(|chunk| part(1, 0, true, chunk)).collect();
            let lines = lines(&mut stream, &parts);
            let bytes: usize = lines.iter().map(String::len).sum();
            prop_assert!(said.ends_with(&lines));
            prop_assert_eq!(bytes as u64 + stream.unusable(), heard.len() as u64);
        }
    }
}
