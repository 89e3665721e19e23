//! Lines of a server's standard error, made safe to keep: of limited length, and without secrets.

use std::borrow::Cow;

use anstream::adapter::strip_str;
use mcpmon_detect::mask::{MASK, mask_json, mask_text};

/// Bytes of a line that are looked at. They are more than are kept, so that a secret which begins in the kept part is
/// recognised as a whole or left out.
const MAX_SEEN_BYTES: usize = 16 << 10;
/// Bytes of a line that are kept.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Lines after the first one of a private key in which its end is looked for.
const MAX_KEY_LINES: u16 = 256;
/// Shortest word in base64 that may be part of a key, characters.
const MIN_KEY_CHARACTERS: usize = 16;
/// The first and the last line of a private key, in PEM and in PuTTY's format.
const KEYS: [(&str, &str); 2] = [("-----BEGIN ", "-----END "), ("Private-Lines:", "Private-MAC:")];

/// A line that can be kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SafeLine {
    pub(super) text: String,
    /// True if its end is missing.
    pub(super) is_cut: bool,
}

/// Splits bytes into lines, and replaces the secrets in them.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    /// The beginning of a line whose end has not arrived.
    begun: Vec<u8>,
    /// True if the first bytes of the line are missing.
    lacks_start: bool,
    /// True if bytes after these are missing.
    lacks_end: bool,
    /// The line that ends the private key that has begun, and how many more lines may belong to it.
    key: Option<(&'static str, u16)>,
}

impl LineSplitter {
    /// Takes the next bytes, and calls `keep` with each complete line.
    pub(super) fn push(&mut self, bytes: &[u8], mut keep: impl FnMut(SafeLine)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, is_complete) = match piece.strip_suffix(b"\n") {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            let capacity = MAX_SEEN_BYTES.saturating_sub(self.begun.len());
            self.lacks_end |= piece.len() > capacity;
            self.begun.extend_from_slice(&piece[..piece.len().min(capacity)]);
            if is_complete {
                keep(self.complete());
            }
        }
    }

    /// Notes that bytes are missing: the line that has begun lacks its end, and the next one its beginning.
    pub(super) fn skip(&mut self, keep: impl FnOnce(SafeLine)) {
        self.lacks_end = true;
        self.finish(keep);
        (self.lacks_start, self.lacks_end) = (true, false);
    }

    /// Calls `keep` with the last line, which has no line end.
    pub(super) fn finish(&mut self, keep: impl FnOnce(SafeLine)) {
        if !self.begun.is_empty() {
            keep(self.complete());
        }
    }

    fn complete(&mut self) -> SafeLine {
        let begun = std::mem::take(&mut self.begun);
        let (lacks_start, lacks_end) = (
            std::mem::take(&mut self.lacks_start),
            std::mem::take(&mut self.lacks_end),
        );
        let mut is_cut = lacks_start || lacks_end;
        let text = String::from_utf8_lossy(begun.strip_suffix(b"\r").unwrap_or(&begun));
        // Escape sequences for colours end in letters, which before a secret would look like a part of it.
        let text = strip_str(&text).to_string();
        let text = without_escaped_sequences(&text);
        let text = whole_words(&text, lacks_start, lacks_end);
        let mut masked = mask(&self.without_key(text)).into_owned();
        if masked.len() > MAX_LINE_BYTES {
            masked.truncate(masked.floor_char_boundary(MAX_LINE_BYTES));
            is_cut = true;
        }
        SafeLine { text: masked, is_cut }
    }

    /// Replaces private keys, whose lines arrive one by one.
    fn without_key<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if let Some((end, left)) = self.key {
            let is_end = text.contains(end);
            self.key = (!is_end && left > 0).then(|| (end, left.saturating_sub(1)));
            return match is_end || has_key_material(text) {
                true => MASK.into(),
                false => text.into(),
            };
        }
        let begins = |(begin, end): &(&'static str, &'static str)| {
            let at = text.find(begin)?;
            let is_private = *begin != KEYS[0].0 || text[at..].contains("PRIVATE KEY");
            (is_private && !text[at..].contains(end)).then_some((at, *end))
        };
        match KEYS.iter().find_map(begins) {
            Some((at, end)) => {
                self.key = Some((end, MAX_KEY_LINES));
                format!("{}{MASK}", &text[..at]).into()
            }
            None => text.into(),
        }
    }
}

/// Removes the words of which a part may be missing, because a part of a secret is not recognised.
fn whole_words(text: &str, lacks_start: bool, lacks_end: bool) -> &str {
    let text = match lacks_start {
        true => text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest),
        false => text,
    };
    match lacks_end {
        true => text.rsplit_once(char::is_whitespace).map_or("", |(rest, _)| rest),
        false => text,
    }
}

/// Removes a terminal's escape sequences in the form that JSON strings contain: `\\u001b[31m`.
fn without_escaped_sequences(text: &str) -> Cow<'_, str> {
    const ESCAPE_LENGTH: usize = r"\u001b[".len();
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = [r"\u001b[", r"\u001B["]
        .iter()
        .filter_map(|escape| rest.find(escape))
        .min()
    {
        let (before, sequence) = rest.split_at(at);
        let parameters = &sequence[ESCAPE_LENGTH..];
        let end = parameters.find(|c: char| !matches!(c, '0'..='?' | ' '..='/'));
        let length = match end.and_then(|end| parameters[end..].chars().next().map(|last| (end, last))) {
            Some((end, '@'..='~')) => ESCAPE_LENGTH + end + 1,
            Some(_) | None => ESCAPE_LENGTH,
        };
        // After an odd number of backslashes this one is a character of the text.
        let backslashes = before.bytes().rev().take_while(|byte| *byte == b'\\').count();
        let kept_until = if backslashes % 2 == 0 { at } else { at + length };
        kept.push_str(&rest[..kept_until]);
        rest = &rest[at + length..];
    }
    match kept.is_empty() {
        true => rest.into(),
        false => (kept + rest).into(),
    }
}

fn has_key_material(text: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    text.split(|c| !is_base64(c))
        .any(|word| word.len() >= MIN_KEY_CHARACTERS)
}

/// Replaces the secrets of a line. A line of JSON is formatted anew only if it contains one.
fn mask(text: &str) -> Cow<'_, str> {
    match text.trim_start().starts_with(['{', '[']) {
        true => Some(mask_json(text))
            .filter(|masked| masked.contains(MASK))
            .map_or_else(|| text.into(), Into::into),
        false => mask_text(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    fn kept(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut kept) = (LineSplitter::default(), Vec::new());
        let mut keep = |line: SafeLine| {
            let end = if line.is_cut { "…" } else { "" };
            kept.push(line.text + end);
        };
        pieces.iter().for_each(|piece| lines.push(piece, &mut keep));
        lines.finish(keep);
        kept
    }

    #[test_case(&[b"one\ntw", b"o\r\n\nthree"] => vec!["one", "two", "", "three"]; "lines in pieces")]
    #[test_case(&[b"\xff\x1b[31mred\n"] => vec!["\u{fffd}red"]; "no text")]
    #[test_case(&[b"\x1b[36mpassword\x1b[0m=\x1b[33mhunter2hunter2\x1b[0m up\n"] => vec!["password=*** up"]; "a secret in colours")]
    #[test_case(&[br#"{"msg":"\u001b[36mpassword\u001B[0m=\u001b[33mhunter2hunter2\u001b[39m up"}"#] => vec![r#"{"msg":"password=*** up"}"#]; "a secret in colours of JSON")]
    #[test_case(&[br#"{"msg":"a \\u001b[0m"}"#] => vec![r#"{"msg":"a \\u001b[0m"}"#]; "a backslash in JSON")]
    #[test_case(&[b"login with --pass", b"word hunter2\n"] => vec!["login with --password ***"]; "a secret in two pieces")]
    #[test_case(&[br#"{"msg":"up","n":1, "password":12345}"#] => vec![r#"{"msg":"up","n":1,"password":"***"}"#]; "a line of JSON with a secret")]
    #[test_case(&[br#"{"msg": "up" }"#] => vec![r#"{"msg": "up" }"#]; "a line of JSON without one")]
    #[test_case(&[b"[12:00] password=hunter2"] => vec!["[12:00] password=***"]; "a line that only begins like JSON")]
    fn lines_are_kept(pieces: &[&[u8]]) -> Vec<String> {
        kept(pieces)
    }

    #[test]
    fn a_private_key_is_taken_out_line_by_line() {
        let label = ["PRIVATE", "KEY"].join(" ");
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
        let text = format!(
            "key: -----BEGIN RSA {label}-----\n{body}\n12:00 loaded\n{body}\n-----END RSA {label}-----\n{body}x\nnext\n"
        );
        let kept = kept(&[text.as_bytes()]);
        let expected = ["key: ***", "***", "12:00 loaded", "***", "***"];
        assert_eq!(kept[..5], expected);
        assert_eq!(kept.last().map(String::as_str), Some("next"));
    }

    #[test]
    fn a_key_of_putty_is_taken_out() {
        let text = "Comment: mine\nPrivate-Lines: 1\nAAAAIEiXqf3iTuBZ3uLk5Tq0\nPrivate-MAC: 00\nnext\n";
        assert_eq!(
            kept(&[text.as_bytes()]),
            ["Comment: mine", MASK, MASK, MASK, "next"]
        );
    }

    #[test]
    fn a_key_without_an_end_hides_no_more_than_its_lines() {
        let label = ["PRIVATE", "KEY"].join(" ");
        let mut text = format!("-----BEGIN {label}-----\n");
        for _ in 0..=MAX_KEY_LINES {
            text += "/usr/lib/a/file/of/a/trace\n";
        }
        text += "/usr/lib/a/file/of/a/trace\n";
        let kept = kept(&[text.as_bytes()]);
        assert_eq!(
            kept.last().map(String::as_str),
            Some("/usr/lib/a/file/of/a/trace")
        );
        assert_eq!(kept[1], MASK);
    }

    #[test]
    fn a_secret_across_the_bound_of_a_line_is_left_out() {
        let secret = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
        for before in [MAX_LINE_BYTES, MAX_SEEN_BYTES] {
            for cut in [4, 12, 20, 30] {
                let text = format!(
                    "{} {secret} {}\n",
                    "x ".repeat((before - cut) / 2),
                    "y".repeat(20_000)
                );
                let kept = kept(&[text.as_bytes()]);
                assert_eq!(kept.len(), 1);
                assert!(
                    kept[0].ends_with('…') && !kept[0].contains("ghp_"),
                    "{}",
                    &kept[0][kept[0].len() - 60..]
                );
            }
        }
    }

    #[test]
    fn what_stands_beside_missing_bytes_is_cut() {
        let (mut lines, mut kept) = (LineSplitter::default(), Vec::new());
        lines.push(b"a line and its sec", |_| panic!("it is not complete"));
        lines.skip(|line| kept.push(line));
        lines.push(b"ret end of another\nwhole\n", |line| kept.push(line));
        let shown: Vec<_> = kept
            .iter()
            .map(|line| (line.text.as_str(), line.is_cut))
            .collect();
        assert_eq!(
            shown,
            [
                ("a line and its", true),
                ("end of another", true),
                ("whole", false)
            ]
        );
    }

    proptest! {
        #[test]
        fn how_bytes_come_changes_nothing(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..400),
            at in 0_usize..400,
        ) {
            let (first, second) = text.split_at(at.min(text.len()));
            prop_assert_eq!(kept(&[first, second]), kept(&[&text]));
        }
    }
}
