//! Targets of paths: `..`, `//`, `%2e`, `file://`, `~`, `$HOME`, backslashes.

use super::{add, escapes::decodings, uri};

/// Returns every path that `text` can mean; the first is `text` itself.
pub fn paths(text: &str) -> Vec<String> {
    let mut paths = vec![text.to_owned()];
    for decoded in decodings(text) {
        let trimmed = decoded.trim().replace('\\', "/");
        let is_uri = uri::has_other_scheme(&trimmed);
        if is_uri {
            uri::uris(&decoded)
                .into_iter()
                .for_each(|uri| add(&mut paths, uri));
        }
        // A reader that takes a URI for a path follows its `..`.
        if !is_uri || trimmed.split('/').any(|part| part == "..") {
            add_path(&mut paths, &trimmed);
        }
    }
    paths
}

/// Adds the path that `text` means, and other paths that it can mean.
fn add_path(paths: &mut Vec<String>, text: &str) {
    let path = resolved(&homely(without_file_scheme(text)));
    if let Some(below) = path.strip_prefix('~') {
        let (user, rest) = below.split_once('/').unwrap_or((below, ""));
        // A tilde for an unknown user, which a `*` in a glob matches.
        let user = if user.is_empty() { "~" } else { user };
        for home in ["/home/", "/Users/"] {
            add(paths, resolved(&format!("{home}{user}/{rest}")));
        }
        add(paths, resolved(&format!("/root/{rest}")));
    }
    // The directory above any start can be the root.
    let climbed = path.trim_start_matches("../");
    if climbed.len() < path.len() {
        add(paths, format!("/{climbed}"));
    }
    add(paths, path);
}

/// Returns the part after `file:`, its slashes and its host.
fn without_file_scheme(text: &str) -> &str {
    let Some(rest) = text
        .get(..5)
        .filter(|scheme| scheme.eq_ignore_ascii_case("file:"))
    else {
        return text;
    };
    let rest = &text[rest.len()..];
    match rest.strip_prefix("//") {
        Some(host) => host.find('/').map_or("/", |path| &host[path..]),
        None => rest,
    }
}

/// Replaces a variable for the home directory by `~`.
fn homely(path: &str) -> String {
    const HOMES: [&str; 4] = ["$HOME", "${HOME}", "$env:USERPROFILE", "%USERPROFILE%"];
    let home = HOMES
        .into_iter()
        .find_map(|home| path.strip_prefix(home))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match home {
        Some(rest) => format!("~{rest}"),
        None => path.to_owned(),
    }
}

/// Removes `.`, empty names, and `..` together with the name before it; the result has no `/` at its end.
pub(super) fn resolved(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if is_absolute => {}
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match is_absolute {
        true => format!("/{joined}"),
        false => joined,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("/a/b", &["/a/b"]; "plain")]
    #[test_case("/a/../etc//passwd", &["/a/../etc//passwd", "/etc/passwd"]; "steps back and empty parts")]
    #[test_case("/../../etc", &["/../../etc", "/etc"]; "above the root")]
    #[test_case("../../etc/x", &["../../etc/x", "/etc/x"]; "above wherever it starts")]
    #[test_case("a/./b/", &["a/./b/", "a/b"]; "relative")]
    #[test_case("file:///etc/passwd", &["file:///etc/passwd", "/etc/passwd"]; "file uri")]
    #[test_case("FILE://localhost/etc", &["FILE://localhost/etc", "/etc"]; "with a host")]
    #[test_case("file:/etc", &["file:/etc", "/etc"]; "with one slash")]
    #[test_case("%2Fetc%2fpasswd", &["%2Fetc%2fpasswd", "/etc/passwd"]; "percent")]
    #[test_case("~/.ssh", &["~/.ssh", "/home/~/.ssh", "/Users/~/.ssh", "/root/.ssh"]; "home")]
    #[test_case("~me/x", &["~me/x", "/home/me/x", "/Users/me/x", "/root/x"]; "somebody's home")]
    #[test_case("$HOME/x", &["$HOME/x", "/home/~/x", "/Users/~/x", "/root/x", "~/x"]; "variable")]
    #[test_case("$HOMER/x", &["$HOMER/x"]; "another variable")]
    #[test_case(r"..\etc", &[r"..\etc", "/etc", "../etc"]; "backslash")]
    #[test_case("x://../../etc/a", &["x://../../etc/a", "x://../etc/a", "/etc/a", "../etc/a"]; "a path like another uri")]
    #[test_case("https://a.example//x", &["https://a.example//x", "https://a.example/x"]; "another uri")]
    fn leads(text: &str, expected: &[&str]) {
        assert_eq!(paths(text), expected);
    }

    proptest! {
        #[test]
        fn a_resolved_path_has_nothing_to_resolve(text in "[a./]{0,30}") {
            let once = resolved(&text);
            prop_assert_eq!(resolved(&once), once.clone());
            prop_assert!(!once.contains("//") && !once.contains("/./") && (once == "/" || !once.ends_with('/')));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            prop_assert_eq!(&paths(&text)[0], &text);
        }
    }
}
