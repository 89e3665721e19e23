//! A reader of JSON text that was accepted: it goes value by value and builds nothing.
//!
//! At text that is not JSON, reading ends with `None`; nothing here panics.

use super::{
    document::{Document, Value},
    string::quote_or_escape,
};

/// Bytes of a string that are searched for its end before it is looked up among the long values: names are shorter.
const NEAR: usize = 16;

/// A place in a JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonReader<'t> {
    document: Document<'t>,
    at: usize,
}

impl<'t> JsonReader<'t> {
    pub(crate) const fn new(document: Document<'t>) -> Self {
        Self::at(document, 0)
    }

    pub(super) const fn at(document: Document<'t>, at: usize) -> Self {
        Self { document, at }
    }

    /// Returns the next byte that is no white space, without reading it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.document.text().as_bytes();
        while let b' ' | b'\n' | b'\r' | b'\t' = *bytes.get(self.at)? {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Returns the position after the text that was read.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// Reads `byte`, if it is next.
    pub(crate) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Reads the comma between two items, or the bracket after the last one; `Some(false)` after the last one.
    pub(crate) fn more(&mut self, end: u8) -> Option<bool> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                Some(true)
            }
            byte if byte == end => {
                self.at += 1;
                Some(false)
            }
            _ => None,
        }
    }

    /// Returns whether the list or object just opened is empty; reads its end if so.
    pub(crate) fn is_empty(&mut self, end: u8) -> Option<bool> {
        let is_empty = self.peek()? == end;
        self.at += usize::from(is_empty);
        Some(is_empty)
    }

    /// Enters the list or object that is next; returns whether there is one that is not empty.
    pub(super) fn enter(&mut self, open: u8, end: u8) -> bool {
        self.take(open).is_some() && self.is_empty(end) == Some(false)
    }

    /// Reads a string, and returns the text between its quotes as written.
    pub(crate) fn string(&mut self) -> Option<&'t str> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        self.at = self.end_of_string()?;
        self.document.text().get(start..self.at - 1)
    }

    /// Reads a number, `true`, `false` or `null`, and returns it as written.
    pub(crate) fn scalar(&mut self) -> Option<&'t str> {
        self.peek()?;
        let rest = &self.document.text()[self.at..];
        let length = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
            .count();
        self.at += length;
        rest.get(..length).filter(|scalar| !scalar.is_empty())
    }

    /// Reads any value. Iterative: nesting costs no stack.
    pub(super) fn value(&mut self) -> Option<Value<'t>> {
        let byte = self.peek()?;
        let start = self.at;
        match byte {
            b'"' => self.at = self.end_of_string()?,
            b'{' | b'[' => self.at = self.end_of_container()?,
            _ => drop(self.scalar()?),
        }
        Some(Value {
            document: self.document,
            start,
            end: self.at,
        })
    }

    /// Returns whether nothing but white space is left.
    pub(crate) fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Returns the end of the string whose opening quote is next.
    fn end_of_string(&self) -> Option<usize> {
        let bytes = self.document.text().as_bytes();
        let mut at = self.at + 1;
        let near = &bytes[..bytes.len().min(at + NEAR)];
        while let Some(found) = quote_or_escape(near, at) {
            if bytes[found] == b'"' {
                return Some(found + 1);
            }
            at = found + 2;
        }
        if let Some(end) = self.document.known_end(self.at) {
            return Some(end);
        }
        loop {
            let found = quote_or_escape(bytes, at)?;
            if bytes[found] == b'"' {
                return Some(found + 1);
            }
            at = found + 2;
        }
    }

    /// Returns the end of the list or object whose bracket is next.
    fn end_of_container(&self) -> Option<usize> {
        if let Some(end) = self.document.known_end(self.at) {
            return Some(end);
        }
        let bytes = self.document.text().as_bytes();
        let (mut inner, mut depth) = (*self, 0_usize);
        loop {
            match *bytes.get(inner.at)? {
                b'"' => {
                    inner.at = inner.end_of_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            inner.at += 1;
            if depth == 0 {
                return Some(inner.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(r#"{"a":1,"b":{"c":[1,2]},"d":"}"}"# => vec![("a", "1"), ("b", r#"{"c":[1,2]}"#), ("d", r#""}""#)])]
    #[test_case(r#" { "a" : [ ] } "# => vec![("a", "[ ]")]; "white space")]
    #[test_case("{}" => Vec::<(&str, &str)>::new(); "empty")]
    #[test_case("[1]" => Vec::<(&str, &str)>::new(); "a list")]
    #[test_case(r#"{"a":1,"b"#  => vec![("a", "1")]; "cut off")]
    fn members_are_read(text: &'static str) -> Vec<(&'static str, &'static str)> {
        let members = Document::new(text).members();
        members.map(|member| (member.name, member.value.text())).collect()
    }

    #[test]
    fn depth_costs_no_stack() {
        let text = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
        assert_eq!(Document::new(&text).root().text(), text);
        assert!(JsonReader::new(Document::new(&text[..1 << 20])).value().is_none());
    }
}
