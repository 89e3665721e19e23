//! Lines of text within a width, cut between words if possible.

use ratatui::text::Span;

/// Returns all of `lines`, cut so that none is wider than `width`.
pub(super) fn lines<'t>(lines: impl IntoIterator<Item = &'t str>, width: u16) -> Vec<String> {
    let width = usize::from(width).max(1);
    lines.into_iter().flat_map(|line| wrapped(line, width)).collect()
}

fn wrapped(mut line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let indent = " ".repeat(indent.min(width / 2));
    let mut wrapped = Vec::new();
    loop {
        // A continuation line has the indentation of its first line.
        let start = if wrapped.is_empty() { "" } else { &*indent };
        let end = fitting(line, width - start.len());
        if end == line.len() {
            wrapped.push(format!("{start}{line}"));
            return wrapped;
        }
        let is_between = line[end..].starts_with(' ');
        let at_word = line[..end].rfind(' ').filter(|at| !is_between && *at * 2 > end);
        let end = at_word.unwrap_or(end);
        wrapped.push(format!("{start}{}", &line[..end]));
        line = line[end..].trim_start();
    }
}

/// Returns the number of bytes of the characters that fit, at least one character's.
fn fitting(line: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, character) in line.char_indices() {
        used += Span::raw(&line[at..at + character.len_utf8()]).width();
        if used > width && at > 0 {
            return at;
        }
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("short" => vec!["short"]; "what fits")]
    #[test_case("" => vec![""]; "nothing")]
    #[test_case("one two three" => vec!["one two", "three"]; "between words")]
    #[test_case("abcdefghijkl" => vec!["abcdefghij", "kl"]; "a long word")]
    #[test_case("  ab cdefg hi" => vec!["  ab cdefg", "  hi"]; "set in")]
    #[test_case("日本日本日本" => vec!["日本日本日", "本"]; "wide characters")]
    fn within_ten_columns(line: &str) -> Vec<&'static str> {
        let wrapped = lines([line], 10);
        wrapped.into_iter().map(|line| &*line.leak()).collect()
    }

    #[test]
    fn no_width_is_too_small() {
        assert_eq!(lines(["日本"], 0), ["日", "本"]);
    }
}
