//! Findings in texts that were sent to a model: a conversation is sent again with every turn, and an unchanged text
//! costs a digest instead of a search.
//!
//! The findings in a text are kept independently of the policy, so a new policy invalidates nothing here.

use std::collections::BTreeMap;

use mcpmon_detect::secrets::{Disclosure, in_text, may_hold};
use mcpmon_model::Digest;

/// Most texts, and secrets in them, of each half: when the younger half is full, it becomes the older one.
const MAX_TEXTS: usize = 4096;
/// Shortest text that is kept, bytes: a shorter one is searched as fast as it is looked up.
const MIN_BYTES: usize = 128;

/// The findings in the latest texts of one session.
#[derive(Debug, Default)]
pub(super) struct ScannedTexts {
    young: BTreeMap<Digest, Vec<Disclosure>>,
    old: BTreeMap<Digest, Vec<Disclosure>>,
    /// Texts and secrets in the younger half.
    size: usize,
}

impl ScannedTexts {
    /// Returns the secrets in `text`, as [`in_text`] finds them.
    pub(super) fn in_text(&mut self, text: &str) -> Vec<Disclosure> {
        if text.len() < MIN_BYTES {
            return in_text(text);
        }
        if !may_hold(text) {
            return Vec::new();
        }
        let digest = Digest::of(text.as_bytes());
        if let Some(found) = self.young.get(&digest) {
            return found.clone();
        }
        let found = self.old.remove(&digest).unwrap_or_else(|| in_text(text));
        self.keep(digest, found.clone());
        found
    }

    fn keep(&mut self, digest: Digest, found: Vec<Disclosure>) {
        let size = 1 + found.len();
        if size > MAX_TEXTS {
            return;
        }
        if self.size + size > MAX_TEXTS {
            self.old = std::mem::take(&mut self.young);
            self.size = 0;
        }
        self.size += size;
        self.young.insert(digest, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize) -> String {
        format!("{number} {}", "the token turns before noon; ".repeat(8))
    }

    fn secret() -> String {
        let token = concat!("gh", "p_", "0000000000000000000000000000002C8GjS");
        format!("{} export GH={token}\n", text(0))
    }

    impl ScannedTexts {
        fn knows(&self, text: &str) -> bool {
            let digest = Digest::of(text.as_bytes());
            self.young.contains_key(&digest) || self.old.contains_key(&digest)
        }
    }

    #[test]
    fn a_text_holds_the_same_the_second_time() {
        let mut scanned = ScannedTexts::default();
        for (text, is_kept) in [
            (secret(), true),
            (text(1), true),
            ("short".to_owned(), false),
            ("x ".repeat(99), false),
        ] {
            let found = in_text(&text);
            assert_eq!(scanned.in_text(&text), found);
            assert_eq!(scanned.in_text(&text), found);
            assert_eq!(scanned.knows(&text), is_kept);
        }
        assert_eq!(scanned.in_text(&secret()).len(), 1);
        // Another text is another text, however little differs.
        let other = secret().replace("2C8GjS", "2C8GjT");
        let secrets = [secret(), other].map(|text| scanned.in_text(&text).len());
        assert_eq!(secrets, [1, 0], "the checksum of the other does not hold");
    }

    #[test]
    fn what_comes_again_stays_and_what_does_not_makes_room() {
        let mut scanned = ScannedTexts::default();
        for number in 0..4 * MAX_TEXTS {
            drop(scanned.in_text(&text(number)));
            drop(scanned.in_text(&secret()));
            assert!(
                scanned.young.len() + scanned.old.len() <= 2 * MAX_TEXTS,
                "{number}"
            );
        }
        assert!(scanned.knows(&secret()) && !scanned.knows(&text(1)));
    }

    #[test]
    fn a_text_with_more_secrets_than_are_kept_is_searched_every_time() {
        let mut scanned = ScannedTexts::default();
        let digest = Digest::of(b"x");
        let found = in_text(&secret());
        scanned.keep(digest, found.iter().cycle().take(MAX_TEXTS).cloned().collect());
        assert!(scanned.young.is_empty());
        scanned.keep(
            digest,
            found.iter().cycle().take(MAX_TEXTS - 1).cloned().collect(),
        );
        assert_eq!((scanned.young.len(), scanned.size), (1, MAX_TEXTS));
    }
}
