//! Characters that a model reads and a person does not see.

use std::ops::Range;

use super::runs;

/// A way of hiding text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// Tag characters, which spell ASCII invisibly.
    Tags,
    /// Characters that reorder the following text.
    Bidi,
    /// Characters without width between ASCII characters.
    ZeroWidth,
    /// Three variation selectors or more in a row: they can encode bytes.
    Variation,
    /// Characters whose appearance depends on the font.
    PrivateUse,
    /// Escape sequences of terminals.
    Ansi,
}

/// Returns the runs of unseen characters, in order.
pub(crate) fn unseen(text: &str) -> Vec<(Unseen, Range<usize>)> {
    let mut found: Vec<(Unseen, Range<usize>)> = Vec::new();
    let mut from = 0;
    loop {
        let at = from + runs::plain_length(&text.as_bytes()[from..]);
        let Some(c) = text[at..].chars().next() else { break };
        let end = at + c.len_utf8();
        from = end;
        let Some(kind) = kind(c) else { continue };
        match found.last_mut() {
            Some((last, span)) if *last == kind && span.end == at => span.end = end,
            Some(_) | None => found.push((kind, at..end)),
        }
    }
    found.retain(|(kind, span)| is_telling(text, *kind, span));
    found
}

/// The ASCII text that tag characters spell.
pub(crate) fn spelled(tags: &str) -> String {
    tags.chars()
        .filter_map(|c| char::from_u32(u32::from(c).checked_sub(0xe0000)?))
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .collect()
}

/// Returns whether a character takes no place when it is shown.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

/// Bytes of the terminal's command (`ESC [`, parameters, a letter) that a text begins with.
pub(crate) fn terminal_command(text: &str) -> Option<usize> {
    let parameters = text
        .strip_prefix("\u{1b}[")
        .or_else(|| text.strip_prefix('\u{9b}'))?;
    let end = parameters.bytes().position(|byte| !matches!(byte, 0x20..=0x3f))?;
    let is_command = matches!(parameters.as_bytes()[end], 0x40..=0x7e);
    is_command.then_some(text.len() - parameters.len() + end + 1)
}

/// The effect of a terminal command that carries a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TerminalWrite {
    /// The text sets a title, shows a notice, or is not visible.
    Shown,
    /// The text is written to the clipboard, keys or files, or passed on to something that does so.
    Stored,
}

/// Returns the effect of the command that `text` begins with, if it is one that carries a text: OSC, DCS,
/// APC, PM, SOS. Marks, links, colours and images have none.
pub(crate) fn terminal_write(text: &str) -> Option<TerminalWrite> {
    let mut chars = text.chars();
    let introducer = match (chars.next()?, chars.clone().next()) {
        ('\u{1b}', Some(c)) => {
            chars.next();
            c
        }
        ('\u{9d}', _) => ']',
        ('\u{90}', _) => 'P',
        _ => return None,
    };
    let rest = chars.as_str();
    match introducer {
        ']' => operating_system_command(rest),
        'P' => device_control(rest),
        '_' if rest.starts_with('G') => None,
        '_' | '^' | 'X' => Some(TerminalWrite::Shown),
        _ => None,
    }
}

/// Digits of the longest number that an operating system command has.
const MAX_COMMAND_NUMBER: usize = 8;

fn operating_system_command(rest: &str) -> Option<TerminalWrite> {
    let numbered = &rest[..rest.floor_char_boundary(MAX_COMMAND_NUMBER + 1)];
    let (number, said) = rest.split_at(numbered.find(';')?);
    let said = &said[1..];
    match (number, said) {
        // The clipboard; files of kitty.
        ("52" | "5113", _) => Some(TerminalWrite::Stored),
        ("1337", said) => ["Copy", "RequestUpload", "ReportVariable", "SetProfile", "File="]
            .iter()
            .any(|command| said.starts_with(command))
            .then_some(TerminalWrite::Stored)
            // An image is shown, unless it is to be kept.
            .filter(|_| {
                !said.starts_with("File=") || !said[..said.floor_char_boundary(200)].contains("inline=1")
            }),
        ("0" | "1" | "2" | "9" | "99" | "777", _) => Some(TerminalWrite::Shown),
        _ => None,
    }
}

fn device_control(rest: &str) -> Option<TerminalWrite> {
    if rest.starts_with("tmux;") {
        return Some(TerminalWrite::Stored);
    }
    let command = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ';' | '?' | ' '));
    match command.chars().next()? {
        // Keys.
        '|' => Some(TerminalWrite::Stored),
        // Pictures.
        'q' => None,
        _ => Some(TerminalWrite::Shown),
    }
}

fn kind(c: char) -> Option<Unseen> {
    match c {
        '\u{1b}' | '\u{90}' | '\u{9d}' => Some(Unseen::Ansi),
        '\u{e0000}'..='\u{e007f}' => Some(Unseen::Tags),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(Unseen::Bidi),
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{ad}' | '\u{180e}' => {
            Some(Unseen::ZeroWidth)
        }
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Some(Unseen::Variation),
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => Some(Unseen::PrivateUse),
        _ => None,
    }
}

/// Returns whether unseen characters are suspicious. Emoji, flags, Indic and Arabic text use some of them legitimately.
fn is_telling(text: &str, kind: Unseen, span: &Range<usize>) -> bool {
    let before = text[..span.start].chars().next_back();
    let after = text[span.end..].chars().next();
    match kind {
        Unseen::Tags => before != Some('\u{1f3f4}'),
        Unseen::Bidi | Unseen::PrivateUse => true,
        Unseen::ZeroWidth => {
            // A byte order mark may open a text.
            span.start > 0
                && before.is_none_or(|c| c.is_ascii())
                && after.is_none_or(|c| c.is_ascii())
                && (before.is_some_and(|c| c.is_ascii_alphanumeric())
                    || after.is_some_and(|c| c.is_ascii_alphanumeric()))
        }
        Unseen::Variation => text[span.clone()].chars().count() >= 3,
        Unseen::Ansi if !text[span.clone()].ends_with('\u{1b}') => {
            // Text that was read in a wrong encoding has these characters as well.
            let last = text[..span.end].char_indices().next_back();
            last.is_some_and(|(at, _)| terminal_write(&text[at..]) == Some(TerminalWrite::Stored))
        }
        Unseen::Ansi => matches!(after, Some('[' | ']' | 'P' | '_' | '^' | 'X')),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("a\u{e0041}\u{e0042}b", &[Unseen::Tags]; "tags")]
    #[test_case("flag \u{1f3f4}\u{e0067}\u{e0062}\u{e007f}", &[]; "a flag")]
    #[test_case("a\u{202e}b\u{202c}", &[Unseen::Bidi, Unseen::Bidi]; "bidi")]
    #[test_case("ig\u{200b}nore", &[Unseen::ZeroWidth]; "zero width in a word")]
    #[test_case("👩\u{200d}💻 and क\u{200d}ष", &[]; "joiners of emoji and indic letters")]
    #[test_case("\u{feff}text", &[]; "byte order mark")]
    #[test_case("a\u{fe0f}\u{fe0e}\u{fe0f}", &[Unseen::Variation]; "selectors in a row")]
    #[test_case("❤\u{fe0f}", &[]; "one selector")]
    #[test_case("a\u{e123}", &[Unseen::PrivateUse]; "private use")]
    #[test_case("\u{1b}[8mhidden", &[Unseen::Ansi]; "ansi")]
    #[test_case("an \u{1b} alone", &[]; "an escape that begins nothing")]
    fn finds(text: &str, expected: &[Unseen]) {
        let found: Vec<_> = unseen(text).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(found, expected);
    }

    #[test_case("\u{1b}]52;c;cm0gLXJm\u{7}" => Some(TerminalWrite::Stored); "the clipboard")]
    #[test_case("\u{9d}52;c;cm0gLXJm\u{9c}" => Some(TerminalWrite::Stored); "the clipboard in one character")]
    #[test_case("\u{1b}Ptmux;\u{1b}\u{1b}]52;c;eA==\u{7}\u{1b}\\" => Some(TerminalWrite::Stored); "passed on by tmux")]
    #[test_case("\u{1b}P0;1|17/6c730d\u{1b}\\" => Some(TerminalWrite::Stored); "keys")]
    #[test_case("\u{1b}]1337;File=name=eA==:eA==\u{7}" => Some(TerminalWrite::Stored); "a file")]
    #[test_case("\u{1b}]1337;File=inline=1:iVBORw0KGgo=\u{7}" => None; "an image")]
    #[test_case("\u{1b}]0;title\u{7}" => Some(TerminalWrite::Shown); "a title")]
    #[test_case("\u{1b}P$qm\u{1b}\\" => Some(TerminalWrite::Shown); "a request")]
    #[test_case("\u{1b}^hidden\u{1b}\\" => Some(TerminalWrite::Shown); "a private message")]
    #[test_case("\u{1b}]8;;https://a.example\u{7}" => None; "a link")]
    #[test_case("\u{1b}]133;A\u{7}" => None; "a mark of a shell")]
    #[test_case("\u{1b}Pq#0;2;0;0;0\u{1b}\\" => None; "a picture")]
    #[test_case("\u{1b}[31mred" => None; "a colour")]
    fn terminals_are_written_to(text: &str) -> Option<TerminalWrite> {
        terminal_write(text)
    }

    #[test]
    fn text_in_a_wrong_encoding_is_no_command() {
        assert_eq!(unseen("\u{9d}a word\u{90}, and \u{9d}"), []);
        assert_eq!(unseen("\u{9d}52;c;eA==").len(), 1);
    }

    #[test]
    fn tags_are_spelled() {
        let hidden: String = "run it"
            .chars()
            .filter_map(|c| char::from_u32(0xe0000 + u32::from(c)))
            .collect();
        let text = format!("x{hidden}y");
        let (_, span) = unseen(&text).remove(0);
        assert_eq!(spelled(&text[span]), "run it");
    }
}
