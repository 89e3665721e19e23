//! Conversion of texts to the paths that they may name, in any spelling. It looks nothing up in a file system.

use mcpmon_model::{MAX_PATH, PathStart, PlainPath};

use crate::tables::{self, WordList};

use super::{braces::Room, fold, places::Places};

/// Longest text of a path: with every byte percent-encoded it is three times as long as the path.
pub(super) const MAX_TEXT: usize = 3 * MAX_PATH;
/// Schemes of URIs that name files.
static SCHEMES: WordList = tables::PROTECTED_PATHS.list("spelling", "schemes");
/// Variables that begin a path, with their usual values.
static VARIABLES: WordList = tables::PROTECTED_PATHS.list("spelling", "variables");

/// Returns the paths that `text` may name, if there is room for them; none for a text longer than any path.
pub(super) fn paths(text: &str, places: &Places, room: &mut Room) -> Vec<PlainPath> {
    if text.len() > MAX_TEXT {
        return Vec::new();
    }
    let mut found = Vec::with_capacity(2);
    for reading in fold::readings(trimmed(text), room) {
        read(&reading, places, &mut found);
    }
    found
}

/// Returns the text of a path for a lookup: without a scheme, and with `~` for the home directory.
pub(super) fn address(text: &str) -> String {
    let text = trimmed(text);
    let located = match without_scheme(text) {
        Some(path) => fold::percent_decoded(path).unwrap_or_else(|| path.to_owned()),
        None => text.to_owned(),
    };
    match variable(&located) {
        Some((Some(value), rest)) if value.starts_with('~') => format!("{value}{rest}"),
        Some(_) | None => located,
    }
}

/// Resolves a text that is too long for a path; `None` if it is too long even then.
pub(super) fn shortened(text: &str) -> Option<String> {
    let mut text = text.replace('\\', "/");
    for _ in 0..MAX_DECODED {
        match fold::percent_decoded(&text) {
            Some(decoded) => text = decoded.replace('\\', "/"),
            None => break,
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for name in text.split('/') {
        match name.trim() {
            "" | "." if !names.is_empty() => {}
            ".." if names.len() > 1 && names.last() != Some(&"..") => drop(names.pop()),
            _ => names.push(name),
        }
    }
    let short = names.join("/");
    (short.len() <= MAX_TEXT).then_some(short)
}

/// The number of times a long text is decoded.
const MAX_DECODED: usize = 3;

fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| {
        c.is_whitespace() || c.is_control() && c != '\0' || matches!(c, '"' | '\'' | '`')
    })
}

fn read(text: &str, places: &Places, found: &mut Vec<PlainPath>) {
    let text = trimmed(text);
    match without_scheme(text) {
        Some(path) => {
            plain(path, places, found);
            // A query or a fragment is part of no path, but of some file names.
            if let Some(end) = path.find(['?', '#']) {
                plain(&path[..end], places, found);
            }
        }
        None => plain(text, places, found),
    }
}

/// Returns the part of a file URI after the scheme and the host.
fn without_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let known = SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !known {
        return None;
    }
    let Some(authority) = rest.strip_prefix("//") else {
        return Some(rest);
    };
    // In `file://~/x` and `file://$HOME/x` there is no host.
    match authority.find('/') {
        Some(0) | None => Some(authority),
        Some(_) if authority.starts_with(['~', '$', '.', '%']) => Some(authority),
        Some(end) => Some(&authority[end..]),
    }
}

/// Returns the value of a leading variable, if it is known, and the rest of the text.
fn variable(text: &str) -> Option<(Option<&'static str>, &str)> {
    let (name, rest) = if let Some(rest) = text.strip_prefix("${") {
        let (name, rest) = rest.split_once('}')?;
        // `${HOME:-/root}`
        (name.split_once(":-").map_or(name, |(name, _)| name), rest)
    } else if let Some(rest) = text.strip_prefix("$(") {
        let (_, rest) = rest.split_once(')')?;
        ("", rest)
    } else if let Some(rest) = text.strip_prefix('$') {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()))
    } else {
        text.strip_prefix('%')?.split_once('%')?
    };
    let mut known = VARIABLES.iter().filter_map(|known| known.split_once('='));
    let value = known.find_map(|(known, value)| name.eq_ignore_ascii_case(known).then_some(value));
    Some((value, rest))
}

/// Reads a path in the syntax of Unix, after `\` was replaced by `/`.
fn plain(text: &str, places: &Places, found: &mut Vec<PlainPath>) {
    let expanded;
    let text = match variable(text) {
        Some((Some(value), rest)) => {
            expanded = format!("{value}{rest}");
            expanded.as_str()
        }
        Some((None, rest)) => {
            expanded = format!("./{}", rest.trim_start_matches('/'));
            expanded.as_str()
        }
        None => text,
    };
    let mut walk = Walk::begin(text);
    for name in walk.rest.split('/') {
        walk.step(name);
    }
    walk.end(places, found);
}

/// The state of resolving a path name by name.
struct Walk<'a> {
    start: PathOrigin,
    names: Vec<String>,
    rest: &'a str,
}

/// The directory that the path starts in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathOrigin {
    Root,
    Home,
    /// The directory of home directories.
    Homes,
    Here,
    /// Some directory above the one where it started.
    Above,
}

impl<'a> Walk<'a> {
    fn begin(text: &'a str) -> Self {
        let (start, rest) = match text.as_bytes() {
            // `~`, `~me`, `~+`
            [b'~', ..] => {
                let end = text.find('/').unwrap_or(text.len());
                let origin = match &text[1..end] {
                    "+" | "-" => PathOrigin::Here,
                    _ => PathOrigin::Home,
                };
                (origin, &text[end..])
            }
            [b'/', ..] => (PathOrigin::Root, text),
            // `C:/Users/me`, `C:users`
            [letter, b':', ..] if letter.is_ascii_alphabetic() => (PathOrigin::Root, &text[2..]),
            _ => (PathOrigin::Here, text),
        };
        let names = Vec::new();
        Self { start, names, rest }
    }

    fn step(&mut self, name: &str) {
        let name = name.trim();
        let name = name.strip_suffix("::$DATA").unwrap_or(name);
        match name {
            "" | "." => return,
            ".." => return self.climb(),
            _ => {}
        }
        // Some file systems ignore dots and spaces at the end of a name.
        let kept = name.trim_end_matches(['.', ' ']);
        if kept.is_empty() {
            return;
        }
        if self.start == PathOrigin::Homes {
            self.start = PathOrigin::Home;
            return;
        }
        // The value of a variable is unknown, so any name matches.
        let name = match kept.find('$') {
            Some(at) if at + 1 < kept.len() => format!("{}*", &kept[..at]),
            Some(_) | None => kept.to_owned(),
        };
        self.names.push(name);
    }

    fn climb(&mut self) {
        if self.names.pop().is_some() {
            return;
        }
        self.start = match self.start {
            PathOrigin::Root | PathOrigin::Homes => PathOrigin::Root,
            PathOrigin::Home => PathOrigin::Homes,
            PathOrigin::Here | PathOrigin::Above => PathOrigin::Above,
        };
    }

    fn end(self, places: &Places, found: &mut Vec<PlainPath>) {
        let mut add = |start, names: &[String]| {
            let path = PlainPath {
                start,
                names: names.to_vec(),
            };
            if !found.contains(&path) {
                found.push(path);
            }
        };
        match self.start {
            PathOrigin::Home => add(PathStart::Home, &self.names),
            PathOrigin::Here => add(PathStart::Unknown, &self.names),
            PathOrigin::Homes => {}
            PathOrigin::Root | PathOrigin::Above => {
                let names = without_views(&self.names);
                // The shortest name of a file is reported.
                if let Some(below) = below_home(names) {
                    add(PathStart::Home, below);
                }
                for alias in places.aliases_of(names) {
                    add(alias.start, &alias.names);
                }
                add(PathStart::Root, names);
                if self.start == PathOrigin::Above || names.len() < self.names.len() {
                    add(PathStart::Unknown, names);
                }
            }
        }
    }
}

/// Removes the `/proc` views on the root or the working directory of a process from a path.
fn without_views(mut names: &[String]) -> &[String] {
    for _ in 0..8 {
        let lower: Vec<String> = names.iter().take(5).map(|name| name.to_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        names = match lower.as_slice() {
            ["proc", "thread-self" | "self", "root" | "cwd", ..] | ["proc", _, "root" | "cwd", ..] => {
                &names[3..]
            }
            ["proc", _, "task", _, "root" | "cwd"] => &names[5..],
            // macOS
            ["private", "etc" | "var" | "tmp", ..] => &names[1..],
            _ => return names,
        };
    }
    names
}

/// Returns the path within a home directory, if the names from the root lead into one.
fn below_home(names: &[String]) -> Option<&[String]> {
    let lower: Vec<String> = names.iter().take(4).map(|name| name.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let depth = match lower.as_slice() {
        ["root", ..] => 1,
        ["home" | "users", _, ..] | ["var", "root", ..] => 2,
        ["var" | "export" | "usr" | "data" | "nfs" | "mnt", "home", _, ..] => 3,
        // Windows disks under WSL, and WSL's files under Windows.
        ["mnt", _, "users", _] => 4,
        ["wsl$" | "wsl.localhost", _, "root", ..] => 3,
        ["wsl$" | "wsl.localhost", _, "home", _] => 4,
        ["?" | ".", drive, "users", _] if drive.ends_with(':') => 4,
        _ => return None,
    };
    names.get(depth..)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn all(text: &str) -> Vec<String> {
        let paths = paths(text, &Places::default(), &mut Room::new());
        paths.iter().map(ToString::to_string).collect()
    }

    #[test_case("/etc//mcpmon/./x/", &["/etc/mcpmon/x"]; "superfluous")]
    #[test_case("/a/b/../../etc/x", &["/etc/x"]; "up and down")]
    #[test_case("/../../etc/x", &["/etc/x"]; "above the root")]
    #[test_case("~/a", &["~/a"]; "tilde")]
    #[test_case("~me/a", &["~/a"]; "tilde and name")]
    #[test_case("~/../you/.bashrc", &["~/.bashrc"]; "another home")]
    #[test_case("~/../../etc/x", &["/etc/x"]; "out of home")]
    #[test_case("/home/me/a", &["~/a", "/home/me/a"]; "home")]
    #[test_case("/root/a", &["~/a", "/root/a"]; "home of root")]
    #[test_case("/Users/me/Library/x", &["~/Library/x", "/Users/me/Library/x"]; "home on a Mac")]
    #[test_case("C:\\Users\\me\\x", &["~/x", "/Users/me/x", "/Usersmex"]; "home on Windows")]
    #[test_case("$HOME/a", &["~/a"]; "variable")]
    #[test_case("${HOME}/a", &["~/a"]; "variable in braces")]
    #[test_case("${HOME:-/x}/a", &["~/a"]; "variable with a default")]
    #[test_case("%USERPROFILE%/a", &["~/a"]; "variable of Windows")]
    #[test_case("$XDG_CONFIG_HOME/a", &["~/.config/a"]; "directory by variable")]
    #[test_case("$X/a", &["a"]; "unknown variable")]
    #[test_case("~/a/$X", &["~/a/*"]; "a variable on the way")]
    #[test_case("../../a", &["/a", "a"]; "up from somewhere")]
    #[test_case("a/../b", &["b"]; "relative")]
    #[test_case("file:///etc/a", &["/etc/a"]; "uri")]
    #[test_case("FILE://localhost/etc/a?q#f", &["/etc/a?q#f", "/etc/a"]; "uri with host and query")]
    #[test_case("file:/etc/a", &["/etc/a"]; "short uri")]
    #[test_case("file://~/a", &["~/a"]; "uri of home")]
    #[test_case("/proc/self/root/etc/a", &["/etc/a", "etc/a"]; "view on the root")]
    #[test_case("/proc/12/task/34/cwd/a", &["/a", "a"]; "view on a directory")]
    #[test_case("/etc/a. /b...", &["/etc/a/b"]; "dots and spaces at the end")]
    #[test_case(" '~/a' \n", &["~/a"]; "quoted")]
    #[test_case("https://example.com/home/me/a", &["https:/example.com/home/me/a"]; "another scheme")]
    fn spellings(text: &str, expected: &[&str]) {
        assert_eq!(all(text), expected);
    }

    #[test_case("file:///home/me/a%20b" => "/home/me/a b"; "uri")]
    #[test_case("$HOME/a" => "~/a"; "variable")]
    #[test_case("src/../a" => "src/../a"; "as it is")]
    fn addresses(text: &str) -> String {
        address(text)
    }

    #[test_case(&format!("~/{}.bashrc", "./".repeat(MAX_TEXT)) => Some("~/.bashrc".to_owned()); "no steps")]
    #[test_case(&format!("/{}etc/x", "a/../".repeat(MAX_TEXT)) => Some("/etc/x".to_owned()); "there and back")]
    #[test_case(&format!("/{}etc/x", "%2e/".repeat(MAX_TEXT)) => Some("/etc/x".to_owned()); "encoded")]
    #[test_case(&format!("/{}", "x".repeat(MAX_TEXT)) => None; "long even so")]
    fn what_is_long_may_be_short(text: &str) -> Option<String> {
        shortened(text)
    }

    #[test]
    fn what_is_too_long_is_no_path() {
        assert_eq!(all(&format!("~/.bashrc/{}", "x/".repeat(MAX_TEXT))), [""; 0]);
    }
}
