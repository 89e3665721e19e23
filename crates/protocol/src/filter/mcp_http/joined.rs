//! Messages that go together in one body.

/// Messages and arrays of messages, joined into one array if there are several messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JoinedMessages {
    text: String,
    /// True for an array whose end is not written yet.
    is_array: bool,
}

impl JoinedMessages {
    /// Starts an array, which stays one however few items it gets.
    pub(super) fn array() -> Self {
        Self {
            text: "[".to_owned(),
            is_array: true,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.trim_start_matches('[').is_empty()
    }

    /// Adds a message, or an array of some.
    pub(super) fn add(&mut self, text: &str) {
        let text = text.trim_ascii();
        let items = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if self.text.is_empty() && items.is_none() {
            self.text.push_str(text);
            return;
        }
        if !self.is_array {
            self.is_array = true;
            self.text.insert(0, '[');
        }
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push_str(items.unwrap_or(text).trim_ascii());
    }

    /// Returns the body.
    pub(super) fn finish(mut self) -> String {
        if self.is_array {
            self.text.push(']');
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(&["{}"] => "{}"; "one")]
    #[test_case(&["{}", "{}"] => "[{},{}]"; "two")]
    #[test_case(&["[{},{}]"] => "[{},{}]"; "an array")]
    #[test_case(&["[{}]", "{}", " [ {} , {} ] "] => "[{},{},{} , {}]"; "arrays and one")]
    fn bodies(texts: &[&str]) -> String {
        let mut joined = JoinedMessages::default();
        assert!(joined.is_empty());
        for text in texts {
            joined.add(text);
            assert!(!joined.is_empty());
        }
        joined.finish()
    }

    #[test]
    fn a_batch_stays_one() {
        let mut joined = JoinedMessages::array();
        assert!(joined.is_empty());
        joined.add("{}");
        assert_eq!(joined.finish(), "[{}]");
    }
}
