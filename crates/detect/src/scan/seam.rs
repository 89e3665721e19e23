//! Texts that are shown one after another, and their combined meaning at the border between them.

/// Bytes on either side of a border; rules need no more.
const REACH: usize = 600;

/// The end of everything that was shown so far.
#[derive(Debug, Default)]
pub(super) struct Seam {
    tail: String,
}

impl Seam {
    /// Joins the end of the previous text and the start of `text`; `None` before the first.
    pub(super) fn join(&mut self, text: &str) -> Option<String> {
        let head = &text[..text.floor_char_boundary(REACH)];
        let joined = (!self.tail.is_empty()).then(|| format!("{} {head}", self.tail));
        if !self.tail.is_empty() {
            self.tail.push(' ');
        }
        self.tail
            .push_str(&text[text.ceil_char_boundary(text.len().saturating_sub(REACH))..]);
        let from = self
            .tail
            .ceil_char_boundary(self.tail.len().saturating_sub(REACH));
        self.tail.drain(..from);
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_a_border_is_joined() {
        let mut seam = Seam::default();
        assert_eq!(seam.join("one"), None);
        assert_eq!(seam.join("two").as_deref(), Some("one two"));
        assert_eq!(seam.join("three").as_deref(), Some("one two three"));
    }

    #[test]
    fn it_reaches_so_far_and_never_into_a_character() {
        let mut seam = Seam::default();
        let long = "é".repeat(REACH);
        assert_eq!(seam.join(&long), None);
        let joined = seam.join(&long).expect("something came before");
        assert_eq!(joined.len(), 2 * REACH + 1);
    }
}
