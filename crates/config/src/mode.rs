//! Switching an observing configuration to enforcement: the one word that has to change, and the file it is in.

use std::path::PathBuf;

use mcpmon_policy::Mode;

use super::{
    LoadedConfiguration, Source, Sources,
    load::{self, KeyPath},
    load_sources,
};

/// A configuration file with its mode switched to enforcement, not yet written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnforceEdit {
    /// The file that sets `mode: observe`.
    pub path: PathBuf,
    /// The line of its mode, from 1.
    pub line: u32,
    /// The whole file as it is now.
    pub before: String,
    /// The whole file with only the mode's value changed.
    pub after: String,
}

impl EnforceEdit {
    /// The change that makes `loaded` enforce; `None` where it enforces already or its mode is in no file.
    #[must_use]
    pub fn new(loaded: &LoadedConfiguration) -> Option<Self> {
        if loaded.policy.mode == Mode::Enforce {
            return None;
        }
        let tree = load::read(loaded.text.origins()).tree;
        let place = tree.find(&KeyPath::root().key("mode"))?.place;
        let parts = loaded.text.parts();
        let (Source::File(path), before) = parts.get(place.origin)? else {
            return None;
        };
        let after = replaced(before, place.line, place.column, place.length)?;
        let mut changed = parts.to_vec();
        changed[place.origin].1.clone_from(&after);
        let enforces = |sources: Sources| load_sources(&sources).ok().map(|loaded| loaded.policy.mode);
        (Sources::of_parts(changed).and_then(enforces) == Some(Mode::Enforce)).then(|| Self {
            path: path.clone(),
            line: place.line,
            before: before.clone(),
            after,
        })
    }
}

/// `text` with the `length` characters at a line and column (both from 1) replaced by `enforce`.
fn replaced(text: &str, line: u32, column: u32, length: u32) -> Option<String> {
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
    Some(format!("{}enforce{}", &text[..start], &text[end..]))
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
        EnforceEdit::new(&load_sources(&sources).expect("valid")).map(|edit| (edit.line, edit.after))
    }

    #[test]
    fn the_file_that_decides_is_the_one_that_changes() {
        let part = |name: &str, text: &str| (Source::File(PathBuf::from(name)), text.to_owned());
        let parts = vec![
            part("main.yaml", "version: 1\nmode: enforce\n"),
            part("soft.yaml", "mode: observe\n"),
        ];
        let loaded = load_sources(&Sources::of_parts(parts).expect("parts")).expect("valid");
        let edit = EnforceEdit::new(&loaded).expect("an edit");
        assert_eq!(
            (edit.path.to_str(), edit.after.as_str()),
            (Some("soft.yaml"), "mode: enforce\n")
        );
    }
}
