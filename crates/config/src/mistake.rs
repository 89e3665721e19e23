//! Mistakes in a configuration, reported with file, line, column and the text of the line.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

/// Most mistakes that are reported for one configuration.
const MAX_MISTAKES: usize = 50;
/// Characters of a line that a snippet shows.
const SNIPPET_WIDTH: usize = 96;

/// Most characters of a key or message that are shown.
const MAX_SHOWN: usize = 600;

/// A file, or a text in place of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The display name: its path.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
}

/// A position in one of several files. Lines and columns count characters, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The index of the file.
    pub(crate) origin: usize,
    /// Line.
    pub(crate) line: u32,
    /// Column.
    pub(crate) column: u32,
    /// Characters.
    pub(crate) length: u32,
}

impl Place {
    /// The start of the first file.
    pub(crate) const START: Self = Self::start_of(0);

    /// The start of a file.
    pub(crate) const fn start_of(origin: usize) -> Self {
        Self {
            origin,
            line: 1,
            column: 1,
            length: 0,
        }
    }
}

/// A mistake, with its position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mistake {
    /// The place.
    pub(crate) place: Place,
    /// The key that is concerned; empty for the whole file.
    pub(crate) key: String,
    /// The mistake, and its correction.
    pub(crate) message: String,
    /// A second position that is concerned.
    pub(crate) related: Option<Place>,
}

/// The mistakes that were collected so far, and the files.
#[derive(Debug)]
pub(crate) struct Mistakes {
    origins: Vec<Origin>,
    found: BTreeSet<Mistake>,
}

impl Mistakes {
    /// No mistakes yet.
    pub(crate) const fn new(origins: Vec<Origin>) -> Self {
        Self {
            origins,
            found: BTreeSet::new(),
        }
    }

    /// The files.
    pub(crate) fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// Adds a mistake.
    pub(crate) fn push(&mut self, mistake: Mistake) {
        if !self.is_full() {
            self.found.insert(mistake);
        }
    }

    /// Returns whether the limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= MAX_MISTAKES
    }

    /// Returns `value` if there are no mistakes.
    pub(crate) fn unless_any<T>(self, value: T) -> Result<T, InvalidConfiguration> {
        if self.found.is_empty() {
            return Ok(value);
        }
        let truncated = self.is_full();
        let problems = self
            .found
            .iter()
            .map(|mistake| ConfigurationProblem::new(mistake, &self.origins))
            .collect();
        Err(InvalidConfiguration { problems, truncated })
    }
}

/// A configuration that cannot be used, with all its mistakes in the order of the files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidConfiguration {
    problems: Vec<ConfigurationProblem>,
    truncated: bool,
}

impl InvalidConfiguration {
    /// Returns the mistakes; never empty.
    pub fn problems(&self) -> &[ConfigurationProblem] {
        &self.problems
    }
}

impl fmt::Display for InvalidConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.problems.iter().enumerate() {
            if position > 0 {
                f.write_str("\n\n")?;
            }
            problem.fmt(f)?;
        }
        if self.truncated {
            write!(f, "\n\nonly the first {MAX_MISTAKES} mistakes are shown")?;
        }
        Ok(())
    }
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigurationProblem {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The key that is concerned, for example `network.deny[0].cidrs[1]`; empty for the whole file.
    pub key: String,
    /// The mistake, and its correction.
    pub message: String,
    /// The line, with its number and a mark under the position.
    #[serde(skip)]
    snippet: String,
}

impl ConfigurationProblem {
    fn new(mistake: &Mistake, origins: &[Origin]) -> Self {
        let origin = &origins[mistake.place.origin];
        let related = match mistake.related {
            Some(place) => format!(
                " (first at {}:{}:{})",
                origins[place.origin].name, place.line, place.column
            ),
            None => String::new(),
        };
        Self {
            file: origin.name.chars().map(visible).collect(),
            line: mistake.place.line,
            column: mistake.place.column,
            key: shown(&mistake.key),
            message: shown(&mistake.message) + &shown(&related),
            snippet: snippet(&origin.text, mistake.place),
        }
    }
}

impl ConfigurationProblem {
    /// Returns position, key and message without the line itself, which may contain a secret: for stores and logs.
    pub fn headline(&self) -> String {
        let key = match self.key.as_str() {
            "" => String::new(),
            key => format!("{key}: "),
        };
        format!(
            "{}:{}:{}: {key}{}",
            self.file, self.line, self.column, self.message
        )
    }
}

impl fmt::Display for ConfigurationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.headline(), self.snippet)
    }
}

/// Returns the line of `place`, with its number before it and a mark under it. Returns an empty text if there is no
/// such line.
fn snippet(text: &str, place: Place) -> String {
    let index = usize::try_from(place.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(line) = text.lines().nth(index).filter(|line| !line.is_empty()) else {
        return String::new();
    };
    let column = usize::try_from(place.column.saturating_sub(1)).unwrap_or(usize::MAX);
    let first = match column < SNIPPET_WIDTH {
        true => 0,
        false => column - SNIPPET_WIDTH / 2,
    };
    let part: String = line
        .chars()
        .skip(first)
        .take(SNIPPET_WIDTH)
        .map(visible)
        .collect();
    let part = part.trim_end();
    let indent = column - first;
    let room = part.chars().count().saturating_sub(indent).max(1);
    let length = usize::try_from(place.length).unwrap_or(usize::MAX).clamp(1, room);
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    format!(
        "\n {margin} |\n {number} | {part}\n {margin} | {}{}",
        " ".repeat(indent),
        "^".repeat(length)
    )
}

/// Returns `text` in a form that is safe to print, cut to a reasonable length.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN).map(visible).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Replaces characters that take no cell or more than one, and those on which a terminal would act.
fn visible(character: char) -> char {
    match character {
        '\t' => '→',
        '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{200b}'..='\u{200f}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, line: u32, column: u32, length: u32) -> String {
        let place = Place {
            origin: 0,
            line,
            column,
            length,
        };
        snippet(text, place)
    }

    #[test]
    fn a_headline_leaves_the_line_out() {
        let mistake = Mistake {
            place: Place {
                origin: 0,
                line: 1,
                column: 1,
                length: 5,
            },
            key: "tokne".to_owned(),
            message: "unknown key".to_owned(),
            related: None,
        };
        let origin = Origin {
            name: "mcpmon.yaml".to_owned(),
            text: "tokne: sk-secret".to_owned(),
        };
        let problem = ConfigurationProblem::new(&mistake, &[origin]);
        assert_eq!(problem.headline(), "mcpmon.yaml:1:1: tokne: unknown key");
        assert!(problem.to_string().contains("sk-secret"));
    }

    #[test]
    fn marks_stay_on_their_line() {
        assert_eq!(at("a: 1\nb: two\n", 2, 4, 3), "\n   |\n 2 | b: two\n   |    ^^^");
        assert_eq!(at("ab", 1, 2, 99), "\n   |\n 1 | ab\n   |  ^");
        assert_eq!(
            at("ab", 1, 3, 0),
            "\n   |\n 1 | ab\n   |   ^",
            "the end of a line"
        );
        assert_eq!(at("a", 7, 1, 1), "", "behind the text");
    }

    #[test]
    fn a_snippet_shows_the_part_around_its_mark() {
        let short = format!("{}x", "a".repeat(90));
        assert!(at(&short, 1, 91, 1).contains(&short), "what fits is not cut");
        let long = format!("{}x{}", "a".repeat(500), "b".repeat(500));
        let text = at(&long, 1, 501, 1);
        let expected = format!(
            "\n   |\n 1 | {}x{}\n   | {}^",
            "a".repeat(48),
            "b".repeat(47),
            " ".repeat(48)
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn terminals_see_no_control_characters() {
        assert_eq!(
            at("\ta\u{1b}[31m\u{202e}", 1, 2, 1),
            "\n   |\n 1 | →a\u{fffd}[31m\u{fffd}\n   |  ^"
        );
    }
}
