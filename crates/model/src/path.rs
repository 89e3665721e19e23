//! Paths in the form in which they are compared, and patterns over them.

use std::fmt;

use super::NameGlob;

/// A path without `.`, `..` and empty names, as far as its text allows removing them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlainPath {
    /// The start of the path.
    pub start: PathStart,
    /// The names of the path, in the case in which they were written.
    pub names: Vec<String>,
}

/// The start of a path: the root, a home directory, or an unknown directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathStart {
    /// The path starts at the root.
    Root,
    /// The path starts in a home directory, of any user.
    Home,
    /// The path starts in an unknown directory.
    Unknown,
}

impl fmt::Display for PlainPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.join("/");
        match self.start {
            PathStart::Root => write!(f, "/{names}"),
            PathStart::Home if names.is_empty() => f.write_str("~"),
            PathStart::Home => write!(f, "~/{names}"),
            PathStart::Unknown => f.write_str(&names),
        }
    }
}

/// A pattern over paths: `/etc/mcpmon/**`, `~/.bashrc`, `**/.cursor/mcp.json`. In a name `*` is any run of characters
/// and `?` any one; `**` is any number of names. Case is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    start: PathStart,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Name(NameGlob),
    Any,
}

/// The reason why a text is not a valid path pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    /// The pattern has no known start.
    #[error("expected a path that begins with `/`, `~/` or `**/`")]
    Relative,
    /// The pattern would match every path.
    #[error("the pattern names no file: it would match every path")]
    Everything,
    /// The pattern has an empty name.
    #[error("a pattern has no `.`, `..` or empty names")]
    EmptyName,
    /// The pattern is longer than a path can be.
    #[error("a path has at most 4096 bytes")]
    TooLong,
}

/// The relation of a path to a pattern that concerns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathMatch {
    /// The path is a directory that contains a match.
    Above,
    /// The path itself matches.
    Itself,
}

/// Longest path, bytes: `PATH_MAX`.
pub const MAX_PATH: usize = 4096;
/// Longest name in a path, bytes: `NAME_MAX`.
const MAX_NAME: usize = 255;
/// Fewest letters that a path with wildcards must share with a pattern before its first wildcard: `*.md` names no
/// particular file.
const MIN_SHARED: usize = 3;

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Returns an error if it is relative, names nothing, or is too long.
    pub fn new(text: &str) -> Result<Self, PathPatternError> {
        if text.len() > MAX_PATH {
            return Err(PathPatternError::TooLong);
        }
        let lower = text.to_lowercase();
        let (start, rest) = match (lower.strip_prefix('/'), lower.strip_prefix("~/")) {
            (Some(rest), _) => (PathStart::Root, rest),
            (None, Some(rest)) => (PathStart::Home, rest),
            (None, None) if lower.starts_with("**/") => (PathStart::Unknown, lower.as_str()),
            (None, None) => return Err(PathPatternError::Relative),
        };
        let part = |name: &str| match name {
            "" | "." | ".." => Err(PathPatternError::EmptyName),
            "**" => Ok(Part::Any),
            name => Ok(Part::Name(NameGlob::new(name))),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let parts = rest.split('/').map(part).collect::<Result<Vec<_>, _>>()?;
        let names_something = |part: &Part| match part {
            Part::Name(glob) => glob.as_str().contains(|c| !matches!(c, '*' | '?')),
            Part::Any => false,
        };
        if !parts.iter().any(names_something) {
            return Err(PathPatternError::Everything);
        }
        let text = text.to_owned();
        Ok(Self { text, start, parts })
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names in it that have no wildcards, in lower case.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Name(glob) if !glob.as_str().contains(['*', '?']) => Some(glob.as_str()),
            Part::Name(_) | Part::Any => None,
        })
    }

    /// Returns whether it begins with `**/`.
    pub fn is_anywhere(&self) -> bool {
        self.start == PathStart::Unknown
    }

    /// Returns the relation of a path to the pattern. `names` are the path's names in lower case. A path with an
    /// unknown start may be in any directory, including the one where the pattern begins.
    pub fn meets(&self, start: PathStart, names: &[String]) -> Option<PathMatch> {
        let begins_alike = start == self.start || start == PathStart::Unknown;
        if self.start != PathStart::Unknown && !begins_alike {
            return None;
        }
        // A path that starts in an unknown directory is not assumed to be below the root.
        if self.start == PathStart::Root && start == PathStart::Unknown {
            return None;
        }
        let shared = self.shared(names);
        if self.matches(names) {
            let enough = start == PathStart::Home && self.start == PathStart::Home;
            return (enough || shared.is_none_or(|letters| letters >= MIN_SHARED))
                .then_some(PathMatch::Itself);
        }
        let is_told = match (start, names.first()) {
            (PathStart::Home, _) | (PathStart::Root, Some(_)) => true,
            (PathStart::Unknown, first) => first.is_some_and(|name| name.starts_with('.')),
            (PathStart::Root, None) => false,
        };
        (shared.is_none() && is_told && self.lies_below(names)).then_some(PathMatch::Above)
    }

    /// Returns whether a match may be at any depth below a directory, whose names are in lower case: listing a few
    /// directories cannot find all matches then.
    pub fn is_deep_below(&self, start: PathStart, names: &[String]) -> bool {
        let named = self.parts.iter().take_while(|part| **part != Part::Any);
        let named: Vec<&Part> = named.collect();
        let fits_part = |(part, name): (&&Part, &String)| match part {
            Part::Name(glob) => fits(glob, name),
            Part::Any => false,
        };
        start == self.start
            && named.len() < self.parts.len()
            && named.len() == names.len()
            && named.iter().zip(names).all(fits_part)
    }

    /// Returns the number of letters before the first wildcard of each of the path's last names, of which it takes as
    /// many as the pattern has; `None` for a path without wildcards.
    fn shared(&self, names: &[String]) -> Option<usize> {
        if !names.iter().any(|name| is_glob(name)) {
            return None;
        }
        let named = self
            .parts
            .iter()
            .filter(|part| matches!(part, Part::Name(_)))
            .count();
        let letters = |name: &String| name.find(['*', '?', '[']).unwrap_or(name.len());
        Some(names.iter().rev().take(named).map(letters).sum())
    }

    fn matches(&self, names: &[String]) -> bool {
        let (mut part, mut name) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match (self.parts.get(part), names.get(name)) {
                (None, None) => return true,
                // A pattern that ends in `**` matches the contents of a directory, not the directory.
                (Some(Part::Any), None) => return false,
                (Some(Part::Any), Some(_)) => {
                    retry = Some((part + 1, name));
                    part += 1;
                    // `**` before other names may match no name, at the end it matches at least one.
                    if part == self.parts.len() {
                        return true;
                    }
                    continue;
                }
                (Some(Part::Name(glob)), Some(found)) if fits(glob, found) => {
                    part += 1;
                    name += 1;
                    continue;
                }
                (Some(_) | None, _) => {}
            }
            let Some((resume, from)) = &mut retry else {
                return false;
            };
            *from += 1;
            if *from >= names.len() {
                return false;
            }
            (part, name) = (*resume, *from);
        }
    }

    /// Returns whether the names are a directory above a match, and the pattern names some of them.
    fn lies_below(&self, names: &[String]) -> bool {
        let leading = self.parts.iter().take_while(|part| **part == Part::Any).count();
        let named = self.parts[leading..].iter().map_while(|part| match part {
            Part::Name(glob) => Some(glob),
            Part::Any => None,
        });
        let way: Vec<&NameGlob> = named.collect();
        let is_way = |names: &[String]| {
            names.len() < self.parts.len() - leading
                && names.len() <= way.len()
                && names.iter().zip(&way).all(|(name, glob)| fits(glob, name))
        };
        match leading {
            0 => is_way(names),
            _ => (1..=way.len().min(names.len())).any(|count| is_way(&names[names.len() - count..])),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Returns whether a name matches, or, if it is a glob, can expand to a name that matches.
fn fits(glob: &NameGlob, name: &str) -> bool {
    if name.len() > MAX_NAME {
        return false;
    }
    if !is_glob(name) {
        return glob.matches(name);
    }
    // As in a shell, a wildcard does not match the dot at the start of a hidden name.
    if glob.as_str().starts_with('.') && !name.starts_with('.') {
        return false;
    }
    intersect(&wildcards(glob.as_str()), &wildcards(name))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wild {
    Char(char),
    One,
    Many,
}

/// Parses a glob into wildcards and characters; `[…]` counts as any one character.
fn wildcards(glob: &str) -> Vec<Wild> {
    let mut wild = Vec::with_capacity(glob.len());
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        wild.push(match c {
            '*' => Wild::Many,
            '?' => Wild::One,
            '[' => match rest.as_str().get(1..).and_then(|set| set.find(']')) {
                Some(end) => {
                    rest = rest.as_str()[end + 2..].chars();
                    Wild::One
                }
                None => Wild::Char(c),
            },
            c => Wild::Char(c),
        });
    }
    wild
}

/// Returns whether some text matches both.
fn intersect(one: &[Wild], other: &[Wild]) -> bool {
    // Each row says which beginnings of `other` can match the beginning of `one` that was read so far.
    let mut row: Vec<bool> = Vec::with_capacity(other.len() + 1);
    row.push(true);
    for wild in other {
        let before = row.last().copied().unwrap_or_default();
        row.push(before && *wild == Wild::Many);
    }
    for mine in one {
        let mut next = Vec::with_capacity(row.len());
        next.push(row[0] && *mine == Wild::Many);
        for (at, theirs) in other.iter().enumerate() {
            let met = match (mine, theirs) {
                (Wild::Many, _) | (_, Wild::Many) => next[at] || row[at + 1] || row[at],
                (Wild::One, _) | (_, Wild::One) => row[at],
                (Wild::Char(mine), Wild::Char(theirs)) => row[at] && mine == theirs,
            };
            next.push(met);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn meets(pattern: &str, path: &str) -> Option<PathMatch> {
        let (start, rest) = match (path.strip_prefix('/'), path.strip_prefix('~')) {
            (Some(rest), _) => (PathStart::Root, rest),
            (None, Some(rest)) => (PathStart::Home, rest.trim_start_matches('/')),
            (None, None) => (PathStart::Unknown, path),
        };
        let names = rest.split('/').filter(|name| !name.is_empty()).map(str::to_owned);
        let pattern = PathPattern::new(pattern).expect("a pattern");
        pattern.meets(start, &names.collect::<Vec<_>>())
    }

    #[test_case("~/.bashrc", "~/.bashrc" => Some(PathMatch::Itself))]
    #[test_case("~/.bashrc", ".bashrc" => Some(PathMatch::Itself); "in an unknown directory")]
    #[test_case("~/.bashrc", "dots/.bashrc" => None; "below another one")]
    #[test_case("~/.bashrc", "/srv/.bashrc" => None; "below the root")]
    #[test_case("~/.ssh/**", "~/.ssh" => Some(PathMatch::Above); "the directory itself")]
    #[test_case("~/.ssh/**", "~/.ssh/a/b" => Some(PathMatch::Itself); "deep below")]
    #[test_case("~/.ssh/**", "~" => Some(PathMatch::Above); "home")]
    #[test_case("/etc/x", "/" => None; "the root")]
    #[test_case("~/Library/x", "library" => None; "a visible directory somewhere")]
    #[test_case("/etc/mcpmon/**", "/etc/MCPMON/x" => None; "names come in lower case")]
    #[test_case("/etc/mcpmon/**", "etc/mcpmon/x" => None; "a directory called etc")]
    #[test_case("**/.cursor/mcp.json", "/a/b/.cursor/mcp.json" => Some(PathMatch::Itself); "anywhere")]
    #[test_case("**/.cursor/mcp.json", ".cursor/mcp.json" => Some(PathMatch::Itself); "first")]
    #[test_case("**/.cursor/mcp.json", "/a/.cursor" => Some(PathMatch::Above); "above it anywhere")]
    #[test_case("**/.cursor/mcp.json", "/a" => None; "not so far above")]
    #[test_case("**/a/**/b", "a/b" => Some(PathMatch::Itself); "between for none")]
    #[test_case("**/a/**/b", "x/a/y/a/z/b" => Some(PathMatch::Itself); "between for some")]
    #[test_case("**/a/**/b", "a/x/c" => None; "between and another end")]
    #[test_case("~/.claude/settings.json", "~/.claude/sett*" => Some(PathMatch::Itself); "a wildcard")]
    #[test_case("~/.claude/settings.json", "~/.cl*/s?tt[ei]ngs.json" => Some(PathMatch::Itself); "many wildcards")]
    #[test_case("**/claude.md", "*.md" => None; "a wildcard for any file")]
    #[test_case("**/claude.md", "clau*" => Some(PathMatch::Itself); "a wildcard for few files")]
    #[test_case("~/.bashrc", "~/*" => None; "a wildcard hides no dot")]
    #[test_case("~/.bashrc", "~/.*" => Some(PathMatch::Itself); "all hidden files")]
    #[test_case("**/mcpmon*.service", "/x/mcpmon-a.service" => Some(PathMatch::Itself); "a wildcard of the pattern")]
    fn patterns(pattern: &str, path: &str) -> Option<PathMatch> {
        meets(pattern, path)
    }

    #[test_case("notes" => PathPatternError::Relative; "relative")]
    #[test_case("" => PathPatternError::Relative; "empty")]
    #[test_case("/**" => PathPatternError::Everything; "everything")]
    #[test_case("**/*" => PathPatternError::Everything; "every name")]
    #[test_case("~/a//b" => PathPatternError::EmptyName; "an empty name")]
    #[test_case("/a/../b" => PathPatternError::EmptyName; "a step up")]
    fn what_is_no_pattern(text: &str) -> PathPatternError {
        PathPattern::new(text).expect_err("no pattern")
    }

    #[test_case("~/.ssh/**", &[".ssh"] => true; "all that lies in a directory")]
    #[test_case("~/.config/chrome/**/cookies", &[".config", "chrome"] => true; "some of what lies in a directory")]
    #[test_case("~/.config/chrome/**/cookies", &[".config"] => false; "above it")]
    #[test_case("~/.bashrc", &[".bashrc"] => false; "a file")]
    #[test_case("**/.env", &[".env"] => false; "anywhere")]
    fn deep_patterns(pattern: &str, names: &[&str]) -> bool {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        PathPattern::new(pattern)
            .expect("a pattern")
            .is_deep_below(PathStart::Home, &names)
    }
}
