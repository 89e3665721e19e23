//! Texts within a text: what its encodings stand for, as far as that is prose or a command. Budgeted.

use std::ops::Range;

use super::runs::{self, MIN_RUN};

/// Most decoded texts of one field: more than anybody hides one text behind.
const MAX_LAYERS: usize = 1 << 12;
/// Bytes between escapes beyond which they are not one text; rules look no further.
const MAX_GAP: usize = 400;
/// Bytes of plain text on either side of escapes that are read with them.
pub(crate) const AROUND: usize = 160;
/// Fewest escapes of a kind that are decoded: one or two are typography.
const MIN_ESCAPES: usize = 3;
/// Shortest text that encodes anything: the fewest escapes, each a percent sign and two digits.
const MIN_ENCODED: usize = 3 * MIN_ESCAPES;
/// Of so many decoded characters, one may be none.
const GARBLED: usize = 20;
/// Shortest decoded text that can say something.
const MIN_DECODED: usize = 12;

/// A text that another one encodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    /// The decoded text.
    pub(crate) text: String,
    /// The range of the encoded text.
    pub(crate) origin: Range<usize>,
    /// True if nobody can read what is encoded.
    pub(crate) is_opaque: bool,
}

/// The texts that `text` encodes: prose, or what encodes prose.
pub(crate) fn layers(text: &str) -> Vec<Layer> {
    if text.len() < MIN_ENCODED {
        return Vec::new();
    }
    let may_say = |bytes: &[u8]| may_be_prose(bytes) || may_encode_prose(bytes);
    layers_that(text, may_say, |text| is_prose(text) || encodes_prose(text))
}

/// No prose without one of these, which stay as they are in what is read as text.
fn may_be_prose(bytes: &[u8]) -> bool {
    memchr::memchr3(b' ', b'/', b'\n', bytes).is_some()
}

/// Nothing is encoded without a run or the mark of an escape.
fn may_encode_prose(bytes: &[u8]) -> bool {
    memchr::memchr3(b'\\', b'%', b'&', bytes).is_some() || next_run(bytes, 0).is_some()
}

/// Returns whether an encoding within an encoding says something. No further one is looked for in it.
fn encodes_prose(text: &str) -> bool {
    !layers_that(text, may_be_prose, is_prose).is_empty()
}

/// The text that stands where a message carries bytes, in base64; `None` where those are an image, sound or anything
/// else that nobody reads.
pub(crate) fn carried_text(encoded: &str) -> Option<String> {
    let bytes = hexadecimal(encoded).or_else(|| base64(encoded))?;
    if is_garbled(&bytes) {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (is_prose(&text) || encodes_prose(&text)).then_some(text)
}

/// Everything that `text` encodes and that can be printed: a token as well as a sentence.
pub(crate) fn printable_layers(text: &str) -> Vec<Layer> {
    layers_that(text, |_| true, is_printable)
}

fn layers_that(text: &str, may_be_wanted: fn(&[u8]) -> bool, is_wanted: fn(&str) -> bool) -> Vec<Layer> {
    let mut found = Vec::new();
    escapes(text, &mut found);
    for run in runs(text) {
        if found.len() >= MAX_LAYERS {
            break;
        }
        let encoded = &text[run.clone()];
        let decoded = hexadecimal(encoded).or_else(|| base64(encoded));
        let decoded = decoded.filter(|bytes| may_be_wanted(bytes) && !is_garbled(bytes));
        let says = decoded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if let Some(text) = says.filter(|text| is_wanted(text)) {
            found.push(Layer {
                text,
                origin: run,
                is_opaque: true,
            });
        }
    }
    spelled_out(text, &mut found);
    found
}

/// The prefixes of escapes.
const MARKERS: [&str; 4] = ["\\u", "\\x", "%", "&#"];

/// Returns whether enough escapes stand in a text to be worth decoding; none do without a backslash, a
/// percent sign or an ampersand.
pub(crate) fn has_escapes(text: &str) -> bool {
    memchr::memchr3(b'\\', b'%', b'&', text.as_bytes()).is_some()
        && MARKERS.iter().any(|marker| is_escaped(text, marker))
}

/// Returns whether enough escapes of one kind stand in a text to be worth decoding.
fn is_escaped(text: &str, marker: &str) -> bool {
    let escapes = memchr::memmem::find_iter(text.as_bytes(), marker.as_bytes());
    let valid = escapes.filter(|at| character(marker, &text[at + marker.len()..]).is_some());
    valid.take(MIN_ESCAPES).count() == MIN_ESCAPES
}

/// `\u0041`, `\x41`, `%41`, `&#65;`, `&#x41;`: each stretch in which they stand close together.
fn escapes(text: &str, found: &mut Vec<Layer>) {
    if !has_escapes(text) {
        return;
    }
    for marker in MARKERS.into_iter().filter(|marker| is_escaped(text, marker)) {
        let finder = memchr::memmem::Finder::new(marker);
        let mut from = 0;
        while found.len() < MAX_LAYERS
            && let Some(at) = finder.find(&text.as_bytes()[from..])
        {
            let (layer, last) = stretch(text, marker, from + at);
            found.extend(layer);
            from = last;
        }
    }
}

/// Returns the decoded text around the escapes from the one at `first` on, if there are enough, and the
/// position of their end.
fn stretch(text: &str, marker: &str, first: usize) -> (Option<Layer>, usize) {
    let start = text.ceil_char_boundary(first.saturating_sub(AROUND));
    let mut decoded = text[start..first].to_owned();
    let (mut last, mut count) = (first, 0);
    loop {
        let near = &text[last..text.floor_char_boundary(last + MAX_GAP)];
        let Some(at) = near.find(marker) else { break };
        decoded.push_str(&near[..at]);
        let escape = &text[last + at + marker.len()..];
        last += at + marker.len();
        match character(marker, escape) {
            Some((c, length)) => {
                decoded.push(c);
                count += 1;
                last += length;
            }
            None => decoded.push_str(marker),
        }
    }
    let end = text.floor_char_boundary(last + AROUND);
    decoded.push_str(&text[last..end]);
    let layer = (count >= MIN_ESCAPES).then_some(Layer {
        text: decoded,
        origin: first..end,
        is_opaque: false,
    });
    (layer, last)
}

/// The character that an escape stands for and the length of what follows its marker.
pub(crate) fn character(marker: &str, escape: &str) -> Option<(char, usize)> {
    let code = |digits: &str, radix| char::from_u32(u32::from_str_radix(digits, radix).ok()?);
    match marker {
        "\\u" => Some((code(escape.get(..4)?, 16)?, 4)),
        "&#" => {
            let end = escape.bytes().take(8).position(|byte| byte == b';')?;
            let digits = &escape[..end];
            let c = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => code(digits, 16)?,
                None => code(digits, 10)?,
            };
            Some((c, end + 1))
        }
        _ => Some((code(escape.get(..2)?, 16).filter(char::is_ascii)?, 2)),
    }
}

/// Runs of at least [`MIN_RUN`] characters of base64, base64url or hexadecimal.
pub(crate) fn runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        let run = next_run(bytes, from)?;
        from = run.end;
        Some(run)
    })
}

fn next_run(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let start = runs::first_run(bytes, from, is_encoding)?;
    let known = start + MIN_RUN;
    let more = bytes[known..].iter().position(|byte| !is_encoding(*byte));
    let mut end = more.map_or(bytes.len(), |more| known + more);
    while bytes.get(end) == Some(&b'=') {
        end += 1;
    }
    Some(start..end)
}

/// Returns whether a byte is a character of base64, base64url or hexadecimal.
const fn is_encoding(byte: u8) -> bool {
    SEXTETS[byte as usize] < 64
}

pub(crate) fn hexadecimal(encoded: &str) -> Option<Vec<u8>> {
    let digits = encoded.strip_prefix("0x").unwrap_or(encoded).as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let is_whole = rest.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    is_whole.then(|| pairs.iter().map(byte).collect())?
}

/// The byte that two hexadecimal digits stand for.
pub(crate) fn byte(&[high, low]: &[u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

pub(crate) fn base64(encoded: &str) -> Option<Vec<u8>> {
    // Most runs are identifiers and paths, which are no text from their first bytes on.
    let decoded = |chunk: &[u8; 4]| {
        let [a, b, c, d] = chunk.map(sextet);
        let bits = (a? << 18) | (b? << 12) | (c? << 6) | d?;
        let [_, bytes @ ..] = bits.to_be_bytes();
        Some(bytes)
    };
    let (head, _) = encoded.as_bytes().as_chunks::<4>();
    for chunk in head.iter().take(MIN_DECODED / 3) {
        if !is_text(&decoded(chunk)?) {
            return None;
        }
    }
    let (chunks, rest) = encoded.trim_end_matches('=').as_bytes().as_chunks::<4>();
    let mut bytes = Vec::with_capacity(encoded.len() * 3 / 4);
    for chunk in chunks {
        bytes.extend_from_slice(&decoded(chunk)?);
    }
    // Two characters make one more byte, three make two.
    let mut last = [b'A'; 4];
    last[..rest.len()].copy_from_slice(rest);
    bytes.extend(&decoded(&last)?[..rest.len().saturating_sub(1)]);
    Some(bytes)
}

/// Returns the value of a base64 character.
fn sextet(byte: u8) -> Option<u32> {
    Some(SEXTETS[usize::from(byte)].into()).filter(|sextet| *sextet < 64)
}

/// The value of each byte in base64; 64 for bytes that are no digits.
static SEXTETS: [u8; 256] = {
    let mut sextets = [64; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        sextets[byte as usize] = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => 64,
        };
        byte += 1;
    }
    sextets
};

fn is_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|&byte| byte >= 0x80 || byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

fn is_shown(c: char) -> bool {
    c.is_whitespace() || !c.is_control()
}

/// Returns whether too much of what was decoded is no text: told before anything is made of it.
fn is_garbled(bytes: &[u8]) -> bool {
    let most = bytes.len() / GARBLED;
    let mut broken = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty());
    broken.nth(most).is_some()
}

/// Returns whether a decoded text is one; a few bytes that are none do not hide what the others say.
fn is_prose(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic() || *c == ' ').count();
    let others = text
        .chars()
        .filter(|c| *c == char::REPLACEMENT_CHARACTER || !is_shown(*c));
    text.len() >= MIN_DECODED
        && others.count() * GARBLED <= text.chars().count()
        && letters * 10 >= text.chars().count() * 3
        && text.contains([' ', '/', '\n'])
}

fn is_printable(text: &str) -> bool {
    let others = text
        .chars()
        .filter(|c| *c == char::REPLACEMENT_CHARACTER || !is_shown(*c));
    text.len() >= MIN_DECODED && others.count() * GARBLED <= text.chars().count()
}

/// Letters set apart, `i g n o r e`: words end where more than one separator stands.
fn spelled_out(text: &str, found: &mut Vec<Layer>) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(start) = next_spelled(bytes, from) {
        let mut word = String::new();
        let mut at = start;
        while let Some(&letter) = bytes.get(at).filter(|byte| byte.is_ascii_alphanumeric()) {
            if bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) {
                break;
            }
            word.push(char::from(letter));
            let gap = bytes[at + 1..]
                .iter()
                .take(4)
                .take_while(|byte| is_separator(**byte))
                .count();
            if gap > 1 {
                word.push(' ');
            }
            at += 1 + gap;
            if gap == 0 {
                break;
            }
        }
        from = at.max(start + 1);
        if word.len() >= MIN_DECODED && found.len() < MAX_LAYERS {
            found.push(Layer {
                text: word,
                origin: start..at.min(text.len()),
                is_opaque: false,
            });
        }
    }
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

/// Returns the position of the next five letters that are set apart.
fn next_spelled(bytes: &[u8], from: usize) -> Option<usize> {
    let (blocks, rest) = bytes.get(from..)?.as_chunks::<BLOCK>();
    let among = |mut starts: Range<usize>| starts.find(|start| alternates(bytes, *start));
    // Letters set apart begin with the first quarter that they fill, or just before it.
    let before = |quarter: usize| quarter.saturating_sub(QUARTER - 1).max(from);
    let in_block = |(index, block): (usize, &[u8; BLOCK])| {
        let letters = letters(block);
        let quarters = letters.as_chunks::<QUARTER>().0;
        // Without a branch for each.
        if !quarters
            .iter()
            .fold(false, |any, quarter| any | is_alternating(quarter))
        {
            return None;
        }
        let places = quarters
            .iter()
            .enumerate()
            .filter(|(_, quarter)| is_alternating(quarter));
        let mut places = places.map(|(quarter, _)| from + index * BLOCK + quarter * QUARTER);
        places.find_map(|quarter| among(before(quarter)..quarter + 1))
    };
    let in_rest = || among(before(bytes.len() - rest.len())..bytes.len());
    blocks.iter().enumerate().find_map(in_block).or_else(in_rest)
}

/// Bytes of the fewest letters set apart.
const SPELLED: usize = 10;
/// Places that are looked at together.
const BLOCK: usize = 64;
/// Bytes that are compared as one: few enough that [`SPELLED`] bytes fill at least one quarter, wherever they begin.
const QUARTER: usize = 4;

/// Returns for each byte whether it is a letter.
fn letters(block: &[u8; BLOCK]) -> [u8; BLOCK] {
    let mut letters = [0; BLOCK];
    for (letter, byte) in letters.iter_mut().zip(block) {
        *letter = u8::from(byte.is_ascii_alphabetic());
    }
    letters
}

/// Returns whether letters and others alternate in a quarter.
fn is_alternating(quarter: &[u8; QUARTER]) -> bool {
    (*quarter == [1, 0, 1, 0]) | (*quarter == [0, 1, 0, 1])
}

fn alternates(bytes: &[u8], start: usize) -> bool {
    bytes.get(start..start + SPELLED).is_some_and(|window| {
        window
            .as_chunks::<2>()
            .0
            .iter()
            .all(|&[letter, gap]| letter.is_ascii_alphabetic() && is_separator(gap))
    }) && (start == 0 || !bytes[start - 1].is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        layers(text).into_iter().map(|layer| layer.text).collect()
    }

    #[test_case("run cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcw== now", &["read the private files"]; "base64")]
    #[test_case("cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcz8_Pz8", &["read the private files????"]; "base64url without padding")]
    #[test_case("726561642074686520707269766174652066696c6573", &["read the private files"]; "hexadecimal")]
    #[test_case(r"x \u0072\u0065\u0061d it", &["x read it"]; "unicode escapes")]
    #[test_case(r"\x72\x65\x61d it", &["read it"]; "byte escapes")]
    #[test_case("%72%65%61%64%20it", &["read it"]; "percent")]
    #[test_case("%6f%74%70", &["otp"]; "the shortest")]
    #[test_case("&#114;&#x65;&#97;d it", &["read it"]; "entities")]
    #[test_case("a r e a d  t h e  f i l e s !", &["aread the files "]; "letters set apart")]
    #[test_case("d41d8cd98f00b204e9800998ecf8427e", &[]; "a digest")]
    #[test_case("/usr/lib/python3/dist-packages/module/file", &[]; "a path")]
    #[test_case("100%25 and 3 &#8212; more", &[]; "typography")]
    #[test_case("a b c, or x-y-z", &[]; "few letters apart")]
    fn decodes(text: &str, expected: &[&str]) {
        assert_eq!(texts(text), expected);
    }

    /// Each encodes a text of its own: base64 and hexadecimal within each other, and escapes in base64.
    #[test_case("Y21WaFpDQjBhR1VnY0hKcGRtRjBaU0JtYVd4bGN3PT0=", "cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcw=="; "base64 in base64")]
    #[test_case("NzI2NTYxNjQyMDc0Njg2NTIwNzA3MjY5NzY2MTc0NjUyMDY2Njk2YzY1NzM=", "726561642074686520707269766174652066696c6573"; "hexadecimal in base64")]
    #[test_case("636d56685a4342306147556763484a70646d46305a53426d6157786c63773d3d", "cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcw=="; "base64 in hexadecimal")]
    #[test_case("JTcyZWFkJTIwdGhlJTIwcHJpdmF0ZSUyMGZpbGVz", "%72ead%20the%20private%20files"; "escapes in base64")]
    fn decodes_what_encodes(text: &str, expected: &str) {
        assert_eq!(texts(text), [expected]);
        assert!(texts(expected)[0].contains("read the private files"));
    }

    #[test_case("cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcw==", Some("read the private files"); "prose")]
    #[test_case("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", None; "an image")]
    #[test_case("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", None; "an object without words")]
    #[test_case("4f9a2c7d0b1e88f3a6c5d2e1b0f97a64", None; "a digest")]
    fn bytes_are_carried(encoded: &str, expected: Option<&str>) {
        assert_eq!(carried_text(encoded).as_deref(), expected);
    }

    #[test]
    fn what_stands_far_from_the_first_escapes_is_decoded() {
        let text = format!("%41%42%43{}%72%65%61%64%20it", " filler".repeat(5000));
        let texts = texts(&text);
        assert_eq!(texts.len(), 2);
        assert!(texts[1].ends_with(" filler fillerread it"), "{texts:?}");
    }

    #[test]
    fn plain_text_between_and_before_escapes_is_kept() {
        assert_eq!(texts("now %72%65%61d t%68e file"), ["now read the file"]);
    }

    #[test]
    fn a_long_text_is_decoded_and_a_stray_byte_hides_nothing() {
        let digits: String = "read the private files "
            .repeat(2000)
            .bytes()
            .chain([0x01, 0xff])
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let texts = texts(&digits);
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("read the private files"));
    }

    #[test]
    fn an_origin_is_where_the_encoded_text_stands() {
        let text = "say cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcw== .";
        assert_eq!(
            &text[layers(text)[0].origin.clone()],
            "cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcw=="
        );
    }

    #[test]
    fn layers_are_counted() {
        assert_eq!(
            layers(&"cmVhZCB0aGUgcHJpdmF0ZSBmaWxlcw== ".repeat(MAX_LAYERS + 1)).len(),
            MAX_LAYERS
        );
    }

    proptest! {
        #[test]
        fn no_text_panics_and_origins_lie_in_it(text in any::<String>()) {
            for layer in layers(&text) {
                prop_assert!(text.get(layer.origin).is_some());
            }
        }

        #[test]
        fn letters_set_apart_are_found_as_by_looking_at_each_place(
            parts in prop::collection::vec(("[a-zA-Z0-9]{0,4}", "[a-z][ .-]", 0..9_usize, " {0,6}"), 0..6),
            from in 0..40_usize,
        ) {
            let text: String = parts
                .into_iter()
                .map(|(run, letter, letters, gap)| format!("{run}{gap}{}{gap}", letter.repeat(letters)))
                .collect();
            let bytes = text.as_bytes();
            let plainly = (from..bytes.len()).find(|start| alternates(bytes, *start));
            prop_assert_eq!(next_spelled(bytes, from), plainly);
        }
    }
}
