//! Texts within a text, as far as they could be secrets: escapes, invisible characters, base64, hexadecimal.

use std::{borrow::Cow, ops::Range};

use crate::normalise::{decode, raw};

/// Layers beneath layers that are looked at.
pub(super) const MAX_DEPTH: usize = 3;
/// Fewest pairs of hexadecimal digits that are set apart.
const PAIRS: usize = 8;
/// Shortest run that is decoded.
const RUN: usize = 16;
/// Escapes that are told apart; those behind them, with all between them, are as one.
const MAX_ESCAPES: usize = 1 << 16;

/// A text that another one encodes.
#[derive(Debug)]
pub(super) struct EncodedLayer {
    /// The decoded text.
    pub(super) text: String,
    /// The range of the encoded text.
    origin: Range<usize>,
    /// The escapes in it; empty if it is encoded as a whole.
    escapes: Vec<Escape>,
}

/// An escape with what it says, as places.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Escape {
    written: Range<usize>,
    says: Range<usize>,
}

impl EncodedLayer {
    const fn encoded(text: String, origin: Range<usize>) -> Self {
        let escapes = Vec::new();
        Self {
            text,
            origin,
            escapes,
        }
    }

    /// Returns the range of the encoded form of the part that [`Self::text`] has at `span`: only its escapes
    /// and the text between them.
    pub(super) fn written(&self, span: &Range<usize>) -> Range<usize> {
        if self.escapes.is_empty() {
            return self.origin.clone();
        }
        let start = self
            .escapes
            .partition_point(|escape| escape.says.start <= span.start);
        let start = match start.checked_sub(1).map(|at| &self.escapes[at]) {
            Some(escape) if span.start < escape.says.end => escape.written.start,
            Some(escape) => escape.written.end + (span.start - escape.says.end),
            None => span.start,
        };
        let end = self
            .escapes
            .partition_point(|escape| escape.says.start < span.end);
        let end = match end.checked_sub(1).map(|at| &self.escapes[at]) {
            Some(escape) => escape.written.end + span.end.saturating_sub(escape.says.end),
            None => span.end,
        };
        start..end.max(start)
    }
}

/// The texts that `text` encodes.
pub(super) fn of(text: &str) -> Vec<EncodedLayer> {
    let mut found = Vec::new();
    let mut escapes: Vec<Escape> = Vec::new();
    let note = |escape: Escape| {
        let is_full = escapes.len() >= MAX_ESCAPES;
        match escapes.last_mut() {
            Some(last) if is_full => {
                (last.written.end, last.says.end) = (escape.written.end, escape.says.end);
            }
            Some(_) | None => escapes.push(escape),
        }
    };
    if let Cow::Owned(unescaped) = unescaped(text, note) {
        found.push(EncodedLayer {
            text: unescaped,
            origin: 0..text.len(),
            escapes,
        });
    }
    for run in decode::runs(text) {
        decoded(text, run, &mut found);
    }
    apart(text, &mut found);
    found
}

fn decoded(text: &str, run: Range<usize>, found: &mut Vec<EncodedLayer>) {
    let encoded = &text[run.clone()];
    if let Some(says) = says(encoded) {
        found.push(EncodedLayer::encoded(says, run));
        return;
    }
    // A path or a name may stand around what is encoded.
    let mut at = run.start;
    for part in encoded.split(['/', '-', '_', '+']) {
        let here = at..at + part.len();
        at = here.end + 1;
        if part.len() >= RUN
            && part.len() < encoded.len()
            && let Some(says) = says(part)
        {
            found.push(EncodedLayer::encoded(says, here));
        }
    }
}

fn says(encoded: &str) -> Option<String> {
    let hexadecimal = decode::hexadecimal(encoded);
    // Something readable in what is not.
    if let Some(bytes) = &hexadecimal
        && !is_text(bytes)
    {
        let shown = bytes
            .split(|byte| !byte.is_ascii_graphic())
            .max_by_key(|run| run.len());
        return shown
            .filter(|run| run.len() >= RUN)
            .map(|run| String::from_utf8_lossy(run).into_owned());
    }
    let bytes = hexadecimal.filter(|bytes| is_text(bytes));
    let bytes = bytes.or_else(|| decode::base64(encoded).filter(|bytes| is_text(bytes)))?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A few bytes that are none do not make a text something else; keys of OpenSSH begin as text.
fn is_text(bytes: &[u8]) -> bool {
    let is_unicode = std::str::from_utf8(bytes).is_ok();
    let is_shown =
        |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace() || is_unicode && *byte >= 0x80;
    let shown = bytes.iter().filter(|byte| is_shown(byte)).count();
    shown * 10 >= bytes.len() * 9 && bytes.len() >= 8
}

/// Returns whether [`unescape`] could change a text; much cheaper than asking it.
pub(super) fn may_be_escaped(text: &str) -> bool {
    memchr::memchr3(b'%', b'\\', b'&', text.as_bytes()).is_some() || !text.is_ascii()
}

/// Returns whether pairs of hexadecimal digits could be set apart in a text: of [`PAIRS`] pairs, four begin
/// within three bytes from any of those at which is looked.
pub(super) fn may_be_apart(bytes: &[u8]) -> bool {
    let is_apart = |pairs: &[u8]| {
        let [sign, a, b, again, c, d, ..] = *pairs else {
            return false;
        };
        sign == again && is_sign(sign) && [a, b, c, d].iter().all(u8::is_ascii_hexdigit)
    };
    (0..bytes.len())
        .step_by(PAIRS)
        .any(|at| (at..at + 3).any(|at| bytes.get(at..).is_some_and(is_apart)))
}

/// Returns whether the byte can stand between pairs.
const fn is_sign(byte: u8) -> bool {
    matches!(byte, b'-' | b':' | b' ' | b'.' | b',')
}

/// Pairs of hexadecimal digits with one sign between each two: `41-4b-49`.
fn apart(text: &str, found: &mut Vec<EncodedLayer>) {
    let bytes = text.as_bytes();
    if !may_be_apart(bytes) {
        return;
    }
    let pair = |at: usize| decode::byte(bytes.get(at..)?.first_chunk()?);
    let mut at = 0;
    while at + 3 * PAIRS <= bytes.len() + 1 {
        let sign = bytes[at + 2];
        if !is_sign(sign) || pair(at).is_none() || pair(at + 3).is_none() {
            at += 1;
            continue;
        }
        let mut decoded = Vec::new();
        let mut end = at;
        while let Some(byte) = pair(end) {
            decoded.push(byte);
            end += 2;
            if bytes.get(end) != Some(&sign) {
                break;
            }
            end += 1;
        }
        if decoded.len() >= PAIRS && is_text(&decoded) {
            let says = String::from_utf8_lossy(&decoded).into_owned();
            found.push(EncodedLayer::encoded(says, at..end.min(bytes.len())));
        }
        at = end.max(at + 1);
    }
}

/// Entities that programs write for characters of ASCII.
const ENTITIES: [(&str, char); 6] = [
    ("quot;", '"'),
    ("apos;", '\''),
    ("amp;", '&'),
    ("lt;", '<'),
    ("gt;", '>'),
    ("equals;", '='),
];

/// `text` without escapes, invisible characters and full-width forms.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    unescaped(text, |_| {})
}

/// The same; `tell` hears of each of them, in their order.
fn unescaped(text: &str, mut tell: impl FnMut(Escape)) -> Cow<'_, str> {
    if !may_be_escaped(text) {
        return Cow::Borrowed(text);
    }
    let is_plain =
        |c: char| !matches!(c, '%' | '\\' | '&') && (c.is_ascii() || !raw::is_invisible(c) && narrow(c) == c);
    let Some(first) = text.find(|c| !is_plain(c)) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut rest = &text[first..];
    let mut changed = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let (says, length) = match c {
            '%' => escaped("%", after),
            '&' => entity(after),
            '\\' => backslash(after),
            _ if !c.is_ascii() && raw::is_invisible(c) => (None, Some(0)),
            _ if narrow(c) != c => (Some(narrow(c)), Some(0)),
            _ => (None, None),
        };
        match length {
            Some(length) => {
                let (written, told) = (text.len() - rest.len(), out.len());
                out.extend(says);
                rest = &after[length..];
                tell(Escape {
                    written: written..text.len() - rest.len(),
                    says: told..out.len(),
                });
                changed = true;
            }
            None => {
                out.push(c);
                rest = after;
            }
        }
        let is_plain = |byte: &u8| byte.is_ascii() && !matches!(byte, b'%' | b'\\' | b'&');
        let plain = rest.bytes().take_while(is_plain).count();
        out.push_str(&rest[..plain]);
        rest = &rest[plain..];
    }
    if changed {
        Cow::Owned(out)
    } else {
        Cow::Borrowed(text)
    }
}

fn escaped(marker: &str, after: &str) -> (Option<char>, Option<usize>) {
    match decode::character(marker, after) {
        Some((c, length)) => (Some(c), Some(length)),
        None => (None, None),
    }
}

fn entity(after: &str) -> (Option<char>, Option<usize>) {
    if let Some(number) = after.strip_prefix('#') {
        let (says, length) = escaped("&#", number);
        return (says, length.map(|length| length + 1));
    }
    let known = ENTITIES.iter().find(|(name, _)| after.starts_with(name));
    known.map_or((None, None), |(name, c)| (Some(*c), Some(name.len())))
}

fn backslash(after: &str) -> (Option<char>, Option<usize>) {
    match after.as_bytes().first() {
        Some(b'u') => {
            let (says, length) = escaped("\\u", &after[1..]);
            (says, length.map(|length| length + 1))
        }
        Some(b'x') => {
            let (says, length) = escaped("\\x", &after[1..]);
            (says, length.map(|length| length + 1))
        }
        Some(b'n') => (Some('\n'), Some(1)),
        Some(b'r') => (Some('\r'), Some(1)),
        Some(b't') => (Some('\t'), Some(1)),
        Some(b'"') => (Some('"'), Some(1)),
        Some(b'/') => (Some('/'), Some(1)),
        Some(b'\\') => (Some('\\'), Some(1)),
        Some(_) | None => (None, None),
    }
}

/// The character of ASCII that a full-width form stands for.
fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("a%3Db", "a=b"; "percent")]
    #[test_case(r"\u0061\x3d", "a="; "escapes")]
    #[test_case("&quot;a&#61;&#x62;&quot;", "\"a=b\""; "entities")]
    #[test_case("g\u{200b}h\u{2060}p", "ghp"; "invisible")]
    #[test_case("ｇｈｐ＿", "ghp_"; "full width")]
    #[test_case("100% & more \\q", "100% & more \\q"; "nothing of it")]
    fn texts_are_unescaped(text: &str, expected: &str) {
        assert_eq!(unescape(text), expected);
    }

    #[test_case("QUtJQUlPU0ZPRE5ON0VYQU1QTEU=", "AKIAIOSFODNN7EXAMPLE"; "base64")]
    #[test_case("x/y/QUtJQUlPU0ZPRE5ON0VYQU1QTEU=", "AKIAIOSFODNN7EXAMPLE"; "base64 in a path")]
    #[test_case("414b4941494f53464f444e4e374558414d504c45", "AKIAIOSFODNN7EXAMPLE"; "hexadecimal")]
    #[test_case("41-4b-49-41-49-4f-53-46-4f-44-4e-4e-37-45-58-41-4d-50-4c-45", "AKIAIOSFODNN7EXAMPLE"; "set apart")]
    fn texts_are_decoded(text: &str, expected: &str) {
        let layers = of(text);
        assert!(layers.iter().any(|layer| layer.text == expected), "{layers:?}");
    }

    #[test_case("secret x", "secret x"; "nothing before or behind it")]
    #[test_case("a%20secret%20b \\u0078 c", "secret"; "escapes around it")]
    #[test_case("%61 s%65cret b", "s%65cret"; "an escape within it")]
    #[test_case("\u{200b}s\u{200b}ecret\u{200b}!", "s\u{200b}ecret"; "invisible characters")]
    #[test_case("&lt;&#115;ecre%74&gt;", "&#115;ecre%74"; "escapes at both ends")]
    fn what_is_unescaped_is_found_where_it_is_written(text: &str, expected: &str) {
        let says = if expected.contains(' ') {
            "secret x"
        } else {
            "secret"
        };
        let found = of(text);
        let place = match found.first() {
            Some(layer) => {
                let at = layer.text.find(says).expect("what is said");
                layer.written(&(at..at + says.len()))
            }
            None => 0..text.len(),
        };
        assert_eq!(&text[place], expected);
    }

    proptest! {
        #[test]
        fn what_is_decoded_may_be_there(text in r"[a-f0-9 :.-]{0,60}(([0-9a-f]{2}-){8,9}|([0-9A-F]{2} ){8,9})?[%a-z ]{0,9}") {
            let mut found = Vec::new();
            apart(&text, &mut found);
            prop_assert!(found.is_empty() || may_be_apart(text.as_bytes()));
            prop_assert!(may_be_escaped(&text) || unescape(&text) == text);
        }

        #[test]
        fn no_text_panics(text in r"[\PC%&\\#ux0-9a-f:\u{200b}-]{0,80}") {
            for layer in of(&text) {
                prop_assert!(text.get(layer.origin.clone()).is_some());
                for (at, c) in layer.text.char_indices() {
                    let place = layer.written(&(at..at + c.len_utf8()));
                    let written = text.get(place);
                    prop_assert!(written.is_some());
                    let is_said = written.is_some_and(|written| unescape(written).contains(c));
                    prop_assert!(layer.escapes.is_empty() || is_said, "{written:?} says {c:?}");
                }
            }
        }
    }
}
