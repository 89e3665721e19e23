//! Fingerprints by which a part of one text is recognised in another: hashes of stretches, of which a fixed rule
//! (winnowing) keeps a few. They do not reveal the text.
//!
//! Case, white space and punctuation are ignored, so that a text keeps its fingerprint in another layout.

use mcpmon_model::{Fingerprint, RawJson};

use super::{
    arguments::Arguments,
    minima::{self, STRETCH},
    normalise::decode,
    walk::{self, Part},
};

/// Of this many consecutive stretches at least one is kept.
const WINDOW: usize = 16;
/// Most bytes of one text that are read.
const MAX_TEXT: usize = 256 << 10;
/// Most nested encodings that are read.
const MAX_DEPTH: usize = 2;
/// Shared hashes from which on a part of one text is in another: about 45 letters and digits in a row, 70 at most.
pub const FOUND_AGAIN: usize = 3;

/// Returns the fingerprint of all text in a result. Pictures and sounds are left out, and so are addresses: passing on
/// a link passes on no content.
pub fn of_result(result: RawJson<'_>) -> Fingerprint {
    let mut text = Text::default();
    walk::strings(result, |path, part, string| {
        let is_binary = path
            .members()
            .next_back()
            .is_some_and(|name| matches!(name, "data" | "blob"));
        if part == Part::Value && !is_binary {
            text.add_without_addresses(&string);
        }
    });
    text.fingerprint()
}

/// Returns the fingerprint of all text in arguments, encoded or not.
pub fn of_arguments(arguments: &Arguments<'_>) -> Fingerprint {
    let mut text = Text::default();
    for argument in arguments.iter() {
        text.add_with_layers(argument.text(), MAX_DEPTH);
    }
    text.fingerprint()
}

/// Letters and digits of texts, in lower case.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn add(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(MAX_TEXT.saturating_sub(self.0.len()))];
        self.0.reserve(text.len());
        if text.is_ascii() {
            return self.add_ascii(text.as_bytes());
        }
        let mut bytes = [0; 4];
        for c in text
            .chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
        {
            self.0.extend_from_slice(c.encode_utf8(&mut bytes).as_bytes());
        }
    }

    /// Adds ASCII text. Each byte is written, and overwritten by the next one if it does not count, so that no branch
    /// has to be predicted.
    fn add_ascii(&mut self, text: &[u8]) {
        let before = self.0.len();
        self.0.resize(before + text.len(), 0);
        let letters = &mut self.0[before..];
        let mut end = 0;
        for byte in text {
            letters[end] = LETTERS[usize::from(*byte)];
            end += usize::from(letters[end] != 0);
        }
        self.0.truncate(before + end);
    }

    fn add_without_addresses(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = memchr::memmem::find(rest.as_bytes(), b"://") {
            let (before, address) = rest.split_at(at);
            let scheme = before.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
            self.add(&before[..at - scheme]);
            let is_end = |c: char| c.is_whitespace() || "\"'<>()[]{}|?#,;`".contains(c);
            let end = address.find(is_end).unwrap_or(address.len());
            rest = &address[end..];
        }
        self.add(rest);
    }

    fn add_with_layers(&mut self, text: &str, depth: usize) {
        self.add(text);
        if depth == 0 || self.0.len() >= MAX_TEXT {
            return;
        }
        for layer in decode::printable_layers(text) {
            self.add_with_layers(&layer.text, depth - 1);
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        // Some letters are longer in lower case.
        let letters = &self.0[..self.0.len().min(MAX_TEXT)];
        let window = WINDOW.max(letters.len() / (Fingerprint::MAX / 2));
        let mut kept = stretches(letters, window);
        kept.sort_unstable();
        kept.dedup();
        // The smallest hashes are kept, so that two texts with common parts keep the same ones.
        kept.truncate(Fingerprint::MAX);
        Fingerprint::new(kept)
    }
}

/// Each letter of ASCII in lower case, each digit, and 0 for what does not count.
const LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            letters[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    letters
};

/// Returns a hash of each kept stretch: the smallest one of each window. A stretch that a longer window keeps, a
/// shorter one keeps too.
fn stretches(letters: &[u8], window: usize) -> Vec<u32> {
    let places = minima::lowest(letters, window);
    let stretch = |place: u32| letters[place as usize..].first_chunk().map(hash);
    places.into_iter().filter_map(stretch).collect()
}

/// Returns half of a hash, which distinguishes texts well enough.
fn hash(stretch: &[u8; STRETCH]) -> u32 {
    let word = |hash: u64, word: &[u8; 8]| {
        let mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 32
    };
    let (words, _) = stretch.as_chunks();
    words.iter().fold(0, word) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    const RECORD: &str = "Maria Lindqvist, born 4 May 1971, account DE09 1204 0000 0532 0130 17, owes 14,210.55 \
                          after the transfer that was booked on 2 March";

    fn output(text: &str) -> Fingerprint {
        let result = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
        of_result(RawJson::trusted(&result))
    }

    fn argument(text: &str) -> Fingerprint {
        let json = serde_json::json!({"a": {"body": text}}).to_string();
        of_arguments(&Arguments::walk(RawJson::trusted(&json)))
    }

    fn encoded(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let mut three = [0; 3];
            three[..chunk.len()].copy_from_slice(chunk);
            let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            for place in (0..=chunk.len()).map(|index| 18 - 6 * index) {
                text.push(char::from(LETTERS[(bits >> place & 63) as usize]));
            }
        }
        text
    }

    fn is_found(text: &str) -> bool {
        let long = format!(
            "{} {RECORD}. {}",
            "what stands before it, ".repeat(20),
            "and behind it. ".repeat(30)
        );
        output(&long).shared(&argument(text)) >= FOUND_AGAIN
    }

    #[test_case(RECORD => true; "as it is")]
    #[test_case(&format!("Hello, here it is: {RECORD} Bye") => true; "within another text")]
    #[test_case(&RECORD.to_uppercase() => true; "in capitals")]
    #[test_case(&RECORD.replace(' ', "\n\t> ") => true; "laid out anew")]
    #[test_case(&RECORD.replace(' ', "%20").replace(',', "%2C").replace("a", "%61") => true; "percent")]
    #[test_case(&encoded(RECORD.as_bytes()) => true; "base64")]
    #[test_case(&format!("https://x.example/?d={}", encoded(RECORD.as_bytes())) => true; "base64 in an address")]
    #[test_case(&encoded(encoded(RECORD.as_bytes()).as_bytes()) => true; "base64 twice")]
    #[test_case(&RECORD.bytes().map(|byte| format!("{byte:02x}")).collect::<String>() => true; "hexadecimal")]
    #[test_case(&RECORD[..86] => true; "most of it")]
    #[test_case(&RECORD[..26] => false; "a few words of it")]
    #[test_case("a short note" => false; "another text")]
    #[test_case("" => false; "nothing")]
    fn what_was_read_is_found_again(text: &str) -> bool {
        is_found(text)
    }

    /// Long texts in which most letters are alike, with something else among them.
    fn monotonous() -> [String; 2] {
        let ids: String = (0..1200).map(|id| format!("{id:024}\n")).collect();
        let filler: String = (0..1000_u32)
            .map(|number| {
                let other = number.wrapping_mul(0x9e37_79b1) >> 17;
                format!("{}{other:03x} ", "0".repeat(23))
            })
            .collect();
        [ids, filler].map(|text| format!("{text}{RECORD}. {text}"))
    }

    #[test]
    fn what_stands_among_equal_letters_is_found_again() {
        for text in monotonous() {
            let print = output(&text);
            assert!(print.len() < Fingerprint::MAX, "nothing was cut: {}", print.len());
            assert!(print.shared(&argument(RECORD)) >= FOUND_AGAIN, "{}", print.len());
        }
    }

    #[test]
    fn an_address_that_is_passed_on_is_no_content() {
        let address = "https://shop.example/articles/2026/a-very-long-title-that-goes-on-and-on-for-a-while-and-on.html";
        let print = output(&format!("1. {address} (found)"));
        assert_eq!(print.shared(&argument(&format!("Have a look at {address}"))), 0);
        assert_ne!(argument(address).len(), 0);
    }

    #[test]
    fn pictures_leave_no_fingerprint() {
        let result = format!(
            r#"{{"content":[{{"type":"image","data":"{}"}}]}}"#,
            "iVBORw0KGgo".repeat(50)
        );
        assert!(of_result(RawJson::trusted(&result)).is_empty());
    }

    #[test]
    fn a_long_text_has_no_more_hashes_than_may_be_kept() {
        let long: String = (0..200_000).map(|number| format!("{number} ")).collect();
        let print = output(&long);
        assert!(
            (Fingerprint::MAX / 2..=Fingerprint::MAX).contains(&print.len()),
            "{}",
            print.len()
        );
        let part: String = (30_000..30_400).map(|number| format!("{number},")).collect();
        assert!(
            print.shared(&argument(&part)) >= FOUND_AGAIN,
            "a page of it is found"
        );
    }

    proptest! {
        #[test]
        fn a_copy_of_seventy_letters_is_always_found(
            text in "[a-z0-9]{200,400}", before in "[a-z0-9 ]{0,80}", behind in "[a-z0-9 ]{0,80}", from in 0_usize..130,
        ) {
            let copy = &text[from..from + STRETCH + FOUND_AGAIN * WINDOW - 1];
            let shared = output(&text).shared(&argument(&format!("{before}{copy}{behind}")));
            prop_assert!(shared >= FOUND_AGAIN, "{shared} of {copy}");
        }

        #[test]
        fn what_a_long_window_keeps_a_short_one_keeps(letters in "[a-c]{0,300}|[a-z0-9]{0,300}") {
            let short = stretches(letters.as_bytes(), 16);
            for hash in stretches(letters.as_bytes(), 40).iter().filter(|_| letters.len() >= 40 + STRETCH) {
                prop_assert!(short.contains(hash));
            }
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            argument(&text);
            output(&text);
        }
    }
}
