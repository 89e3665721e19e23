//! Text of others, made safe to show: names of processes, for example, can contain any characters.

use std::{borrow::Cow, fmt::Write as _};

use mcpmon_config::is_unprintable;

/// Writes every character of `text` that could move the cursor, change colors, or hide or reorder text as an escape.
/// The backslash is doubled, so that an escape cannot be forged.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c == '\\' || is_unprintable(c)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            _ if is_unprintable(c) => escaped.extend(c.escape_unicode()),
            _ => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Writes such characters of serialised JSON as `\u` escapes: the value is the same, and safe on a terminal.
pub(super) fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_unprintable) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !is_unprintable(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(escaped, "\\u{unit:04x}").expect("writing to a String cannot fail");
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("npx -y é 日本 🙂" => "npx -y é 日本 🙂"; "ordinary text of any language")]
    #[test_case("\u{1b}]0;owned\u{7}" => "\\u{1b}]0;owned\\u{7}"; "terminal title")]
    #[test_case("\u{9b}31m" => "\\u{9b}31m"; "eight bit control")]
    #[test_case("a\nallow\tb\r" => "a\\nallow\\tb\\r"; "forged row")]
    #[test_case("\u{202e}gpj.exe" => "\\u{202e}gpj.exe"; "reversed")]
    #[test_case("a\u{200b}b\u{e0041}" => "a\\u{200b}b\\u{e0041}"; "invisible")]
    #[test_case("\\u{1b}" => "\\\\u{1b}"; "forged escape")]
    fn hostile_text_is_shown_not_obeyed(text: &str) -> String {
        escape(text).into_owned()
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"comm": "a\u{1b}\u{9b}\u{202e}\u{e0041}\u{7f}\n\"\\é"});
        let json = value.to_string();
        let escaped = escape_json(&json);
        assert!(!escaped.chars().any(is_unprintable), "{escaped}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            value
        );
    }
}
