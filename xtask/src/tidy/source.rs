//! Rust source as tokens: names, `::` and punctuation. Comments, literals and code that only tests compile are left
//! out.

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    PathSeparator,
    Punctuation(char),
}

/// The content of a file without its tests.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) tokens: Vec<Token>,
    /// Modules in other files that only tests compile.
    pub(super) test_modules: Vec<String>,
}

/// Parses a file's text.
pub(super) fn read(text: &str) -> Source {
    let mut source = Source::default();
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        match test_module(rest) {
            Some(TestModule::InFile(name, after)) => {
                source.test_modules.push(name.to_owned());
                rest = after;
            }
            Some(TestModule::Inline(after)) => rest = after,
            None => {
                source.tokens.push(token.clone());
                rest = after;
            }
        }
    }
    source
}

enum TestModule<'a> {
    InFile(&'a str, &'a [Token]),
    Inline(&'a [Token]),
}

/// Parses `#[cfg(test)] mod name;` or `#[cfg(test)] mod name { … }` at the start of `tokens`.
fn test_module(tokens: &[Token]) -> Option<TestModule<'_>> {
    let mut rest = ["#", "[", "cfg", "(", "test", ")", "]"]
        .iter()
        .try_fold(tokens, |rest, text| expect(rest, text))?;
    if let Some(public) = expect(rest, "pub") {
        rest = expect(public, "(")
            .and_then(|inner| inner.get(2..))
            .unwrap_or(public);
    }
    let (name, rest) = expect(rest, "mod")?.split_first()?;
    match (name, rest.first()?) {
        (Token::Name(name), Token::Punctuation(';')) => Some(TestModule::InFile(name, &rest[1..])),
        (_, Token::Punctuation('{')) => Some(TestModule::Inline(after_block(rest))),
        _ => None,
    }
}

fn expect<'a>(tokens: &'a [Token], text: &str) -> Option<&'a [Token]> {
    let (first, rest) = tokens.split_first()?;
    let matches = match first {
        Token::Name(name) => name == text,
        Token::Punctuation(c) => text.chars().eq([*c]),
        Token::PathSeparator => text == "::",
    };
    matches.then_some(rest)
}

/// Returns the tokens after the block that `tokens` open with.
fn after_block(tokens: &[Token]) -> &[Token] {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Punctuation('{') => depth += 1,
            Token::Punctuation('}') => depth -= 1,
            Token::Name(_) | Token::PathSeparator | Token::Punctuation(_) => {}
        }
        if depth == 0 {
            return &tokens[index + 1..];
        }
    }
    &[]
}

fn tokens(mut text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    while let Some(first) = text.chars().next() {
        if let Some(length) = skipped(text) {
            text = &text[length..];
        } else if first.is_alphabetic() || first == '_' {
            let length = text
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(text.len());
            tokens.push(Token::Name(text[..length].to_owned()));
            text = &text[length..];
        } else if let Some(rest) = text.strip_prefix("::") {
            tokens.push(Token::PathSeparator);
            text = rest;
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Punctuation(first));
            }
            text = &text[first.len_utf8()..];
        }
    }
    tokens
}

/// Returns the length of the comment, literal or lifetime at the start of `text`.
fn skipped(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    let unprefixed = text.trim_start_matches(['b', 'c', 'r']);
    let prefix = text.len() - unprefixed.len();
    if prefix > 2 {
        return None;
    }
    let raw = text[..prefix].contains('r');
    let hashes = unprefixed.len() - unprefixed.trim_start_matches('#').len();
    if raw && unprefixed[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let body = prefix + hashes + 1;
        return Some(
            text[body..]
                .find(&end)
                .map_or(text.len(), |at| body + at + end.len()),
        );
    }
    match unprefixed.chars().next()? {
        '"' if !raw => Some(prefix + quoted(unprefixed, '"')),
        '\'' if !raw => Some(
            prefix
                + if is_lifetime(unprefixed) {
                    1
                } else {
                    quoted(unprefixed, '\'')
                },
        ),
        _ => None,
    }
}

/// Returns the length of a block comment, which may contain others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Returns whether the text begins with a lifetime, such as `'a`, and not with a character, such as `'a'` or `'\''`.
fn is_lifetime(text: &str) -> bool {
    let mut following = text.chars().skip(1);
    following.next().is_some_and(|c| c.is_alphabetic() || c == '_') && following.next() != Some('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let name = |token| match token {
            Token::Name(name) => Some(name),
            Token::PathSeparator | Token::Punctuation(_) => None,
        };
        read(text).tokens.into_iter().filter_map(name).collect()
    }

    #[test]
    fn comments_and_literals_hold_no_names() {
        for (text, expected) in [
            ("a // b\nc", vec!["a", "c"]),
            ("a /* b /* c */ d */ e", vec!["a", "e"]),
            (r#"a "b \" c" d"#, vec!["a", "d"]),
            (r##"a r#"b " c"# d"##, vec!["a", "d"]),
            (r#"a b"c" br"d\" e"#, vec!["a", "e"]),
            (r"a '\'' 'b' b'c' d", vec!["a", "d"]),
            ("fn a<'b>(c: &'b d)", vec!["fn", "a", "b", "c", "b", "d"]),
            ("bar rbc crate", vec!["bar", "rbc", "crate"]),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn only_test_modules_are_left_out() {
        assert_eq!(names("a #[cfg(test)] mod tests { b { c } } d"), ["a", "d"]);
        assert_eq!(
            names("#[cfg(feature)] mod tests { b }"),
            ["cfg", "feature", "mod", "tests", "b"]
        );
        let source = read("#[cfg(test)]\nmod sample; #[cfg(test)] pub(crate) mod lab; mod kept;");
        assert_eq!(source.test_modules, ["sample", "lab"]);
    }
}
