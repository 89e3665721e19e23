//! Skeletons: the text as it looks, with compatibility forms folded, invisible characters, accents and terminal
//! commands removed, and look-alikes as ASCII.

use std::borrow::Cow;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::{confusables, raw, runs};

/// A text as it looks, with the positions in the original.
#[derive(Debug)]
pub(crate) struct Skeleton<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Offset here and offset in the original, ascending; between two entries both offsets increase equally.
    turns: Vec<(usize, usize)>,
}

impl<'a> Skeleton<'a> {
    /// Builds the skeleton. ASCII text without terminal commands is its own skeleton.
    pub(crate) fn of(original: &'a str) -> Self {
        if runs::plain_length(original.as_bytes()) == original.len() {
            return Self {
                text: Cow::Borrowed(original),
                turns: Vec::new(),
            };
        }
        let mut folding = Folding {
            text: String::with_capacity(original.len()),
            turns: Vec::new(),
        };
        let mut rest = original;
        while let Some(c) = rest.chars().next() {
            let at = original.len() - rest.len();
            if let Some(length) = raw::terminal_command(rest) {
                rest = &rest[length..];
                continue;
            }
            let kept = match c.is_ascii() {
                true => plain_length(rest),
                false => rest.find(|c| !stands_for_itself(c)).unwrap_or(rest.len()),
            };
            if kept > 0 {
                folding.turn(at);
                folding.text.push_str(&rest[..kept]);
                rest = &rest[kept..];
                continue;
            }
            let word = word_length(rest);
            if word == 0 {
                folding.push(at, c);
                rest = &rest[c.len_utf8()..];
            } else {
                folding.push_word(at, &rest[..word]);
                rest = &rest[word..];
            }
        }
        Self {
            text: Cow::Owned(folding.text),
            turns: folding.turns,
        }
    }

    /// Returns whether the text is its own skeleton: ASCII, without terminal commands.
    pub(crate) const fn is_plain(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }

    /// Returns the position in the original of the byte at `offset`.
    pub(crate) fn original(&self, offset: usize) -> usize {
        let next = self.turns.partition_point(|&(here, _)| here <= offset);
        match next.checked_sub(1).map(|last| self.turns[last]) {
            Some((here, there)) => there + (offset - here),
            None => offset,
        }
    }
}

struct Folding {
    text: String,
    turns: Vec<(usize, usize)>,
}

impl Folding {
    /// Adds a word, as Latin if all of its letters can be Latin.
    fn push_word(&mut self, at: usize, word: &str) {
        let looks_latin = !word.is_ascii()
            && word.chars().all(|c| {
                c.is_ascii()
                    || raw::is_invisible(c)
                    || is_combining_mark(c)
                    || confusables::ascii(c).is_some()
                    || folds_to_ascii(c)
            });
        for (offset, c) in word.char_indices() {
            match confusables::ascii(c).filter(|_| looks_latin) {
                Some(latin) => self.push_folded(at + offset, latin),
                None => self.push(at + offset, c),
            }
        }
    }

    fn push(&mut self, at: usize, c: char) {
        if c.is_ascii() || is_ideograph(c) {
            self.push_folded(at, c);
        } else if !raw::is_invisible(c) {
            decompose_compatible(c, |part| {
                if !is_combining_mark(part) {
                    self.push_folded(at, part);
                }
            });
        }
    }

    /// Notes that the next pushed bytes come from `at`.
    fn turn(&mut self, at: usize) {
        let here = self.text.len();
        let expected = self
            .turns
            .last()
            .map_or(here, |(then, there)| there + (here - then));
        if expected != at {
            self.turns.push((here, at));
        }
    }

    fn push_folded(&mut self, at: usize, c: char) {
        self.turn(at);
        // The patterns fold the case of ASCII only.
        if c.is_ascii() {
            self.text.push(c);
        } else {
            self.text.extend(c.to_lowercase());
        }
    }
}

/// Returns the number of bytes of ASCII at the beginning of `text`, up to a terminal command, without the letters of a
/// word that continues with other letters.
fn plain_length(text: &str) -> usize {
    let end = runs::plain_length(text.as_bytes());
    match text[end..].chars().next().is_some_and(is_of_word) {
        false => end,
        true => text.as_bytes()[..end]
            .iter()
            .rposition(|byte| !byte.is_ascii_alphabetic())
            .map_or(0, |last| last + 1),
    }
}

/// Returns the bytes of the run of letters, marks and invisible characters at the beginning of `text`.
fn word_length(text: &str) -> usize {
    text.char_indices()
        .find(|&(_, c)| !is_of_word(c))
        .map_or(text.len(), |(end, _)| end)
}

/// Returns whether a character is a letter, a mark or invisible. Frequent characters are not looked up.
fn is_of_word(c: char) -> bool {
    match c {
        '\0'..='\x7f' => c.is_ascii_alphabetic(),
        '\u{2010}'..='\u{2027}'
        | '\u{2190}'..='\u{23ff}'
        | '\u{2500}'..='\u{27bf}'
        | '\u{3001}'..='\u{3004}'
        | '\u{3041}'..='\u{3096}'
        | '\u{30a0}'..='\u{30ff}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{1f300}'..='\u{1faff}' => false,
        '\u{c0}'..='\u{d6}'
        | '\u{d8}'..='\u{f6}'
        | '\u{f8}'..='\u{24f}'
        | '\u{400}'..='\u{481}'
        | '\u{48a}'..='\u{52f}' => true,
        _ => c.is_alphabetic() && !is_ideograph(c) || raw::is_invisible(c) || is_combining_mark(c),
    }
}

/// Returns whether a character is part of no word and looks like no other one: frequent signs and drawings.
fn stands_for_itself(c: char) -> bool {
    matches!(c, '\u{2012}'..='\u{2016}' | '\u{2018}'..='\u{2023}' | '\u{2500}'..='\u{27bf}' | '\u{1f300}'..='\u{1faff}')
        || is_ideograph(c) && !is_of_word(c)
}

fn folds_to_ascii(c: char) -> bool {
    let mut ascii = true;
    decompose_compatible(c, |part| ascii &= part.is_ascii() || is_combining_mark(part));
    ascii
}

/// Returns whether a character is of a script without look-alikes; decomposing Hangul would split its syllables.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("plain text", "plain text"; "ascii")]
    #[test_case("іgnоrе", "ignore"; "a word of look alikes")]
    #[test_case("ｆｕｌｌ 𝐛𝐨𝐥𝐝", "full bold"; "compatibility forms")]
    #[test_case("précédent Ig\u{300}nore", "precedent Ignore"; "accents")]
    #[test_case("ig\u{200b}no\u{ad}re", "ignore"; "invisible characters")]
    #[test_case("ig\u{1b}[0mno\u{9b}1;31mre", "ignore"; "commands for terminals")]
    #[test_case("a\u{1b}[ \u{1b}b", "a\u{1b}[ \u{1b}b"; "what is no command")]
    #[test_case("привет, мир", "привет, мир"; "another script stays")]
    #[test_case("ПРИВЕТ", "привет"; "the case of another script")]
    #[test_case("忽略 指示 한국", "忽略 指示 한국"; "ideographs and syllables stay")]
    fn folds(text: &str, expected: &str) {
        assert_eq!(Skeleton::of(text).text, expected);
    }

    #[test]
    fn offsets_lead_back() {
        let text = "ab \u{200b}ｃd é 中 ignоre";
        let skeleton = Skeleton::of(text);
        for word in ["ab", "d", "中"] {
            let here = skeleton.text.find(word).expect("it is kept");
            assert_eq!(
                skeleton.original(here),
                text.find(word).expect("it is there"),
                "{word}"
            );
        }
        let here = skeleton.text.find("ignore").expect("folded");
        assert!(text[skeleton.original(here)..].starts_with("ignоre"));
        assert_eq!(skeleton.original(skeleton.text.len()), text.len());
    }

    #[test]
    fn what_is_not_looked_up_is_what_it_is() {
        for c in '\0'..=char::MAX {
            let looked_up =
                c.is_alphabetic() && !is_ideograph(c) || raw::is_invisible(c) || is_combining_mark(c);
            assert_eq!(is_of_word(c), looked_up, "{c:?}");
        }
    }

    #[test]
    fn what_stands_for_itself_is_folded_to_itself() {
        for c in ('\0'..=char::MAX).filter(|c| stands_for_itself(*c)) {
            let mut folding = Folding {
                text: String::new(),
                turns: Vec::new(),
            };
            folding.push(0, c);
            assert_eq!(folding.text, String::from(c), "{c:?}");
            assert!(!is_of_word(c), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn every_offset_leads_into_the_original(text in any::<String>()) {
            let skeleton = Skeleton::of(&text);
            let mut last = 0;
            for (here, _) in skeleton.text.char_indices() {
                let there = skeleton.original(here);
                prop_assert!(there <= text.len() && there >= last);
                last = there;
            }
        }
    }
}
