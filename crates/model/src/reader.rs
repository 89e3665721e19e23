//! Reads JSON text that was accepted once, value by value, without building anything.
//!
//! Reading ends with `None` at text that is not JSON: nothing here panics on it.

use std::borrow::Cow;

/// Deepest nesting that is followed.
pub(super) const MAX_DEPTH: usize = 256;

/// A string, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotedString<'a> {
    /// Its quotes, and what stands between them.
    whole: &'a str,
    /// True if it means just what is written: there is no escape in it.
    pub(super) is_plain: bool,
}

impl<'a> QuotedString<'a> {
    /// With its quotes.
    pub(super) const fn whole(self) -> &'a str {
        self.whole
    }

    /// Returns the text between the quotes.
    pub(super) fn inside(self) -> &'a str {
        &self.whole[1..self.whole.len() - 1]
    }

    /// Returns the decoded text. A lone surrogate becomes U+FFFD.
    pub(super) fn text(self) -> Cow<'a, str> {
        if self.is_plain {
            return Cow::Borrowed(self.inside());
        }
        unescape(self.inside())
    }
}

/// A place in a JSON text.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonReader<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is no white space; it stays unread.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let b' ' | b'\n' | b'\r' | b'\t' = *bytes.get(self.at)? {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Reads `byte`, where it is next.
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Reads what separates two items, or what ends them; `Some(false)` at the end.
    pub(super) fn more(&mut self, end: u8) -> Option<bool> {
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

    /// Returns whether the list or object just opened has nothing in it; reads its end if so.
    pub(super) fn is_empty(&mut self, end: u8) -> Option<bool> {
        Some(match self.peek()? {
            byte if byte == end => {
                self.at += 1;
                true
            }
            _ => false,
        })
    }

    /// Reads a string.
    pub(super) fn string(&mut self) -> Option<QuotedString<'a>> {
        self.take(b'"')?;
        let bytes = self.text.as_bytes();
        let start = self.at - 1;
        let mut is_plain = true;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', bytes.get(self.at..)?)?;
            if bytes[self.at] == b'"' {
                self.at += 1;
                let whole = self.text.get(start..self.at)?;
                return Some(QuotedString { whole, is_plain });
            }
            is_plain = false;
            self.at += 2;
        }
    }

    /// Reads a number, `true`, `false` or `null`, and returns it as written.
    pub(super) fn scalar(&mut self) -> Option<&'a str> {
        self.peek()?;
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
            .count();
        self.at += length;
        rest.get(..length).filter(|scalar| !scalar.is_empty())
    }

    /// Reads any value and returns it as written. Iterative: nesting costs no stack.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        self.peek()?;
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => drop(self.scalar()?),
            }
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }

    /// Returns whether nothing but white space is left.
    pub(super) fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }
}

/// The members of an object, in its order; none where `text` is no object. Names are unescaped.
pub(super) fn members(text: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let mut reader = JsonReader::new(text);
    let mut open = reader.take(b'{').is_some() && reader.is_empty(b'}') == Some(false);
    std::iter::from_fn(move || {
        if !open {
            return None;
        }
        let name = reader.string()?.text();
        reader.take(b':')?;
        let value = reader.value()?;
        open = reader.more(b'}').unwrap_or(false);
        Some((name, value))
    })
    .fuse()
}

/// The items of a list, in its order; none where `text` is no list.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut reader = JsonReader::new(text);
    let mut open = reader.take(b'[').is_some() && reader.is_empty(b']') == Some(false);
    std::iter::from_fn(move || {
        if !open {
            return None;
        }
        let value = reader.value()?;
        open = reader.more(b']').unwrap_or(false);
        Some(value)
    })
    .fuse()
}

/// Decodes the text between the quotes of a string. A lone surrogate becomes U+FFFD.
pub(super) fn unescape(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        let (meant, length) = escape(&rest[at..]);
        text.push(meant.unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = rest.get(at + length..).unwrap_or_default();
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Returns the character that the escape at the beginning of `rest` means, `None` for a lone surrogate, and
/// the length of the escape.
pub(super) fn escape(rest: &str) -> (Option<char>, usize) {
    let simple = match rest.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unit_escape(rest),
        Some(&byte) if byte.is_ascii() => byte.into(),
        Some(_) | None => return (None, 1),
    };
    (Some(simple), 2)
}

fn unit_escape(rest: &str) -> (Option<char>, usize) {
    let unit = |at: usize| {
        let digits = rest.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else {
        return (None, 2);
    };
    if let Some(alone) = char::from_u32(first.into()) {
        return (Some(alone), 6);
    }
    match unit(6).map(|second| char::decode_utf16([first, second]).next()) {
        Some(Some(Ok(pair))) => (Some(pair), 12),
        Some(Some(Err(_)) | None) | None => (None, 6),
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
        members(text)
            .map(|(name, value)| match name {
                Cow::Borrowed(name) => (name, value),
                Cow::Owned(name) => panic!("{name} was not escaped"),
            })
            .collect()
    }

    #[test_case(r"a\nb" => "a\nb")]
    #[test_case(r"\u0041\/\\" => "A/\\")]
    #[test_case(r"\ud83d\ude00!" => "\u{1f600}!"; "pair")]
    #[test_case(r"\ud83dx" => "\u{fffd}x"; "lone surrogate")]
    #[test_case(r"\ud83d\u0041" => "\u{fffd}A"; "surrogate and letter")]
    #[test_case(r"\u12" => "\u{fffd}12"; "cut off")]
    #[test_case("\\é" => "\u{fffd}é"; "no escape")]
    fn strings_are_unescaped(raw: &str) -> String {
        unescape(raw).into_owned()
    }

    #[test]
    fn depth_costs_no_stack() {
        let text = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
        assert_eq!(JsonReader::new(&text).value(), Some(text.as_str()));
        assert_eq!(JsonReader::new(&text[..1 << 20]).value(), None);
    }
}
