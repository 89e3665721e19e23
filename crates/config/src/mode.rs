//! Switching of a configuration between observe and enforce mode: the word that changes, and its file.

use std::path::PathBuf;

use mcpmon_policy::Mode;

use super::{
    LoadedConfiguration, Source, Sources,
    load::{self, KeyPath},
    load_sources,
};

/// A configuration file with another mode, not yet written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeEdit {
    /// The mode.
    pub mode: Mode,
    /// The file that sets it.
    pub path: PathBuf,
    /// The line of its mode, from 1.
    pub line: u32,
    /// The whole file as it is now.
    pub before: String,
    /// The whole file with only the mode's value changed, or a line for it added.
    pub after: String,
}

impl ModeEdit {
    /// Builds the edit that gives `loaded` this mode. Returns `None` if it has the mode already, or no file can set it.
    pub fn new(loaded: &LoadedConfiguration, mode: Mode) -> Option<Self> {
        if loaded.policy.mode == mode {
            return None;
        }
        let tree = load::read(loaded.text.origins()).tree;
        let parts = loaded.text.parts();
        let written = tree.find(&KeyPath::root().key("mode")).map(|node| node.place);
        let origin = match &written {
            Some(place) => place.origin,
            None => parts.len().checked_sub(1)?,
        };
        let (Source::File(path), before) = parts.get(origin)? else {
            return None;
        };
        let (line, after) = match &written {
            Some(place) => {
                let after = replaced(before, (place.line, place.column, place.length), mode_word(mode))?;
                (place.line, after)
            }
            None => added(before, mode_word(mode))?,
        };
        let mut changed = parts.to_vec();
        changed[origin].1.clone_from(&after);
        let read = |sources: Sources| load_sources(&sources).ok().map(|loaded| loaded.policy.mode);
        (Sources::of_parts(changed).and_then(read) == Some(mode)).then(|| Self {
            mode,
            path: path.clone(),
            line,
            before: before.clone(),
            after,
        })
    }
}

/// Returns the value of `mode` in a configuration.
pub const fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    }
}

/// Returns `text` with an additional line that sets the mode, and the number of that line from 1.
fn added(text: &str, word: &str) -> Option<(u32, String)> {
    let end = match text.is_empty() || text.ends_with('\n') {
        true => "",
        false => "\n",
    };
    let before = format!("{text}{end}");
    let line = u32::try_from(before.lines().count() + 1).ok()?;
    Some((line, format!("{before}mode: {word}\n")))
}

/// Returns `text` with the characters at a line and column (both from 1) replaced by `word`; the third number is their
/// count.
fn replaced(text: &str, (line, column, length): (u32, u32, u32), word: &str) -> Option<String> {
    let index = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
    let lines = text.split_inclusive('\n');
    let line_start: usize = lines.take(index(line)?).map(str::len).sum();
    let at_character = |from: usize, count: usize| {
        let rest = text.get(from..)?;
        let offsets = rest.char_indices().map(|(offset, _)| offset);
        offsets.chain([rest.len()]).nth(count).map(|offset| from + offset)
    };
    let start = at_character(line_start, index(column)?)?;
    let end = at_character(start, usize::try_from(length).ok()?)?;
    Some(format!("{}{word}{}", &text[..start], &text[end..]))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("version: 1\nmode: observe\n" => Some((2, "version: 1\nmode: enforce\n".to_owned())); "plain")]
    #[test_case("# mode: observe\nmode:   'observe' # for now\nversion: 1\n" => Some((2, "# mode: observe\nmode:   enforce # for now\nversion: 1\n".to_owned())); "quoted, with comments")]
    #[test_case("# é\n{version: 1, mode: observe, mcp: {detection: {enabled: true}}}\n" => Some((2, "# é\n{version: 1, mode: enforce, mcp: {detection: {enabled: true}}}\n".to_owned())); "flow style")]
    #[test_case("version: 1\r\nmode: observe\r\n" => Some((2, "version: 1\r\nmode: enforce\r\n".to_owned())); "with carriage returns")]
    #[test_case("version: 1\n" => None; "enforces by default")]
    #[test_case("version: 1\nmode: enforce\n" => None; "enforces")]
    fn edits(text: &str) -> Option<(u32, String)> {
        let part = (Source::File(PathBuf::from("mcpmon.yaml")), text.to_owned());
        let sources = Sources::of_parts(vec![part]).expect("a part");
        ModeEdit::new(&load_sources(&sources).expect("valid"), Mode::Enforce)
            .map(|edit| (edit.line, edit.after))
    }

    #[test_case("version: 1\nmode: enforce # now\n" => Some((2, "version: 1\nmode: observe # now\n".to_owned())); "written")]
    #[test_case("version: 1\n" => Some((2, "version: 1\nmode: observe\n".to_owned())); "the default")]
    #[test_case("version: 1\nmcp: {blocked_tools: [x]}" => Some((3, "version: 1\nmcp: {blocked_tools: [x]}\nmode: observe\n".to_owned())); "without a last line end")]
    #[test_case("{version: 1}\n" => None; "no line can be added")]
    #[test_case("version: 1\nmode: observe\n" => None; "observes")]
    fn loosens(text: &str) -> Option<(u32, String)> {
        let part = (Source::File(PathBuf::from("mcpmon.yaml")), text.to_owned());
        let sources = Sources::of_parts(vec![part]).expect("a part");
        ModeEdit::new(&load_sources(&sources).expect("valid"), Mode::Observe)
            .map(|edit| (edit.line, edit.after))
    }

    #[test]
    fn the_file_that_decides_is_the_one_that_changes() {
        let part = |name: &str, text: &str| (Source::File(PathBuf::from(name)), text.to_owned());
        let parts = vec![
            part("main.yaml", "version: 1\nmode: enforce\n"),
            part("soft.yaml", "mode: observe\n"),
        ];
        let loaded = load_sources(&Sources::of_parts(parts).expect("parts")).expect("valid");
        let edit = ModeEdit::new(&loaded, Mode::Enforce).expect("an edit");
        assert_eq!(
            (edit.path.to_str(), edit.after.as_str()),
            (Some("soft.yaml"), "mode: enforce\n")
        );
    }
}
