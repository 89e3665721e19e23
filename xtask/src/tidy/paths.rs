//! Every path a file mentions, in `use` declarations and in code, as it reads from the root of a crate.

use std::collections::BTreeMap;

use super::source::Token;

/// A path from a crate's root: `["crate", "policy", "Rule"]` or `["std", "fs", "*"]`.
pub(super) type Path = Vec<String>;

const CLOSING: Token = Token::Punctuation('>');

/// All absolute paths of a file that is the module `module` (empty for a crate's root).
///
/// Paths that start at an imported name (`use std::time;` … `time::Instant`) are completed.
pub(super) fn mentioned(tokens: &[Token], module: &[String]) -> Vec<Path> {
    let mut scan = Scan {
        module: module.to_vec(),
        ..Scan::default()
    };
    scan.walk(tokens);
    let Scan {
        imports,
        mut paths,
        in_code,
        ..
    } = scan;
    for (module, path) in in_code {
        let first = path.first().expect("a path has a first name");
        match imports.get(first) {
            Some(import) => paths.push(import.iter().chain(&path[1..]).cloned().collect()),
            None => paths.extend(absolute(&path, &module)),
        }
    }
    paths
}

#[derive(Debug, Default)]
struct Scan {
    /// The module being read, and the inline modules around it with the brace depth at which each ends.
    module: Vec<String>,
    inline_modules: Vec<usize>,
    depth: usize,
    /// What each imported name stands for.
    imports: BTreeMap<String, Path>,
    paths: Vec<Path>,
    /// Paths in code, and the module they stand in.
    in_code: Vec<(Path, Path)>,
}

impl Scan {
    fn walk(&mut self, tokens: &[Token]) {
        let mut at = 0;
        while at < tokens.len() {
            at += match (&tokens[at], tokens.get(at + 1), tokens.get(at + 2)) {
                (Token::Name(word), Some(Token::Name(name)), Some(Token::Punctuation('{')))
                    if word == "mod" =>
                {
                    self.module.push(name.clone());
                    self.inline_modules.push(self.depth);
                    2
                }
                (Token::Name(word), _, _) if word == "use" => 1 + self.declaration(&tokens[at + 1..]),
                (Token::Name(_), _, _) => self.path(&tokens[at..]),
                (Token::Punctuation('{'), _, _) => {
                    self.depth += 1;
                    1
                }
                (Token::Punctuation('}'), _, _) => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.inline_modules.last() == Some(&self.depth) {
                        self.inline_modules.pop();
                        self.module.pop();
                    }
                    1
                }
                // What follows `Vec::<T>` belongs to it; any other `::` starts at the crates.
                (Token::PathSeparator, Some(Token::Name(_)), _) if at > 0 && tokens[at - 1] == CLOSING => {
                    1 + path_length(&tokens[at + 1..])
                }
                (Token::PathSeparator | Token::Punctuation(_), _, _) => 1,
            };
        }
    }

    /// A `use` declaration up to its semicolon; how many tokens it took.
    fn declaration(&mut self, tokens: &[Token]) -> usize {
        let end = tokens
            .iter()
            .position(|token| *token == Token::Punctuation(';'))
            .unwrap_or(tokens.len());
        let start = usize::from(tokens.first() == Some(&Token::PathSeparator));
        self.tree(&tokens[start.min(end)..end], &[]);
        end
    }

    /// A `use` tree below `prefix`; how many tokens it took.
    fn tree(&mut self, tokens: &[Token], prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        let mut at = 0;
        loop {
            match tokens.get(at) {
                Some(Token::Name(name)) if name == "as" => {
                    if let Some(Token::Name(alias)) = tokens.get(at + 1) {
                        self.import(alias, &path);
                    }
                    return at + 2;
                }
                Some(Token::Name(name)) => path.push(name.clone()),
                Some(Token::PathSeparator) => {}
                Some(Token::Punctuation('*')) => {
                    path.push("*".to_owned());
                    self.import("*", &path);
                    return at + 1;
                }
                Some(Token::Punctuation('{')) => return at + 1 + self.group(&tokens[at + 1..], &path),
                Some(Token::Punctuation(_)) | None => {
                    if path.len() > prefix.len() {
                        self.import_last(&path);
                    }
                    return at;
                }
            }
            at += 1;
        }
    }

    /// The trees between braces, with the closing one; how many tokens they took.
    fn group(&mut self, tokens: &[Token], prefix: &[String]) -> usize {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                Token::Punctuation('}') => return at + 1,
                Token::Punctuation(',') => at += 1,
                Token::Name(_) | Token::PathSeparator | Token::Punctuation(_) => {
                    at += self.tree(&tokens[at..], prefix).max(1);
                }
            }
        }
        at
    }

    /// `use a::b` binds `b`, and so does `use a::b::{self}`.
    fn import_last(&mut self, path: &[String]) {
        let path = if path.len() > 1 && path.ends_with(&["self".to_owned()]) {
            &path[..path.len() - 1]
        } else {
            path
        };
        let name = path.last().expect("an imported path has a last name").clone();
        self.import(&name, path);
    }

    fn import(&mut self, name: &str, path: &[String]) {
        if let Some(path) = absolute(path, &self.module) {
            self.imports.insert(name.to_owned(), path.clone());
            self.paths.push(path);
        }
    }

    /// A path in code; how many tokens it took.
    fn path(&mut self, tokens: &[Token]) -> usize {
        let taken = path_length(tokens);
        let names: Path = tokens[..taken]
            .iter()
            .filter_map(|token| match token {
                Token::Name(name) => Some(name.clone()),
                Token::PathSeparator | Token::Punctuation(_) => None,
            })
            .collect();
        if names.len() > 1 {
            self.in_code.push((self.module.clone(), names));
        }
        taken
    }
}

/// How many tokens the names and separators at the start take.
fn path_length(tokens: &[Token]) -> usize {
    let mut taken = 1;
    while let (Some(Token::PathSeparator), Some(Token::Name(_))) = (tokens.get(taken), tokens.get(taken + 1))
    {
        taken += 2;
    }
    taken
}

/// The path without `self` and `super`; none where it leads out of the crate's root.
fn absolute(path: &[String], module: &[String]) -> Option<Path> {
    let mut base: Option<Path> = None;
    let mut names = path.iter().peekable();
    while let Some(name) = names.next_if(|name| ["crate", "self", "super"].contains(&name.as_str())) {
        let inside = base.get_or_insert_with(|| [&["crate".to_owned()], module].concat());
        match name.as_str() {
            "crate" => inside.truncate(1),
            "super" if inside.len() > 1 => {
                inside.pop();
            }
            "super" => return None,
            _ => {}
        }
    }
    Some(base.into_iter().flatten().chain(names.cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::{super::source, *};

    fn paths(text: &str) -> Vec<String> {
        let module = ["policy".to_owned(), "network".to_owned()];
        mentioned(&source::read(text).tokens, &module)
            .iter()
            .map(|path| path.join("::"))
            .collect()
    }

    #[test]
    fn use_trees_are_spelt_out() {
        for (text, expected) in [
            ("use std::fs;", vec!["std::fs"]),
            (
                "use std::{fmt, fs::{self, File}, io as x};",
                vec!["std::fmt", "std::fs", "std::fs::File", "std::io"],
            ),
            ("use ::serde::*;", vec!["serde::*"]),
            (
                "pub(crate) use crate::model::{Digest as _,};",
                vec!["crate::model::Digest"],
            ),
            ("use super::server::X;", vec!["crate::policy::server::X"]),
            (
                "use self::merge::{A, B};",
                vec![
                    "crate::policy::network::merge::A",
                    "crate::policy::network::merge::B",
                ],
            ),
            ("use super::super::decide;", vec!["crate::decide"]),
            ("use super::super::super::outside;", vec![]),
        ] {
            assert_eq!(paths(text), expected, "{text}");
        }
    }

    #[test]
    fn paths_in_code_are_found() {
        for (text, expected) in [
            (
                "let x = crate::decide::pins::new();",
                vec!["crate::decide::pins::new"],
            ),
            (
                "fn f(x: &super::Server) -> std::io::Result<()> {}",
                vec!["crate::policy::Server", "std::io::Result"],
            ),
            (
                "use std::time; let x = time::Instant::now();",
                vec!["std::time", "std::time::Instant::now"],
            ),
            (
                "use std::time as t; let x = t::Instant::now();",
                vec!["std::time", "std::time::Instant::now"],
            ),
            (
                "mod inner { use super::x; } use super::y;",
                vec!["crate::policy::network::x", "crate::policy::y"],
            ),
            ("let x = Vec::<std::fs::File>::new();", vec!["std::fs::File"]),
            ("let x = ::std::fs::read(y);", vec!["std::fs::read"]),
            ("x.crate_name(a)", vec![]),
        ] {
            assert_eq!(paths(text), expected, "{text}");
        }
    }
}
