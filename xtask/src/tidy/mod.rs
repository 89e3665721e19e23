//! House rules, as tests over the repository's own files.

mod house;
mod source;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::shell::repository;

/// Directories without files of this project; `.git` is a file in a worktree.
const FOREIGN: [&str; 3] = [".git", "target", "node_modules"];

/// Returns every text file of the repository, by its path from the root.
fn texts() -> BTreeMap<PathBuf, String> {
    let mut texts = BTreeMap::new();
    let mut directories = vec![repository().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the repository can be read") {
            let entry = entry.expect("the repository can be read");
            let (path, kind) = (entry.path(), entry.file_type().expect("a file has a type"));
            if FOREIGN.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(&path)
            {
                let relative = path.strip_prefix(repository()).expect("below the root");
                texts.insert(relative.to_owned(), text);
            }
        }
    }
    texts
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// Returns whether a file belongs to the product but not to the one module of it that prints. Build scripts print for
/// Cargo.
fn must_not_print(path: &Path) -> bool {
    let is_of = |folder: &str| path.starts_with(folder);
    let is_script = path.file_name().is_some_and(|name| name == "build.rs");
    is_rust(path) && !is_script && (is_of("crates") || is_of("mcpmon/src")) && !is_of("mcpmon/src/cli")
}

/// Returns the files of the modules that a file declares for tests only.
fn test_modules(path: &Path, source: &source::Source) -> Vec<PathBuf> {
    let is_face = ["lib", "main", "mod"]
        .iter()
        .any(|name| path.file_stem().is_some_and(|stem| stem == *name));
    let folder = if is_face {
        path.with_file_name("")
    } else {
        path.with_extension("")
    };
    source.test_modules.iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{source::Source, *};

    fn assert_none(violations: &[String]) {
        assert!(violations.is_empty(), "\n{}", violations.join("\n"));
    }

    #[test]
    fn only_the_command_line_prints() {
        let texts = texts();
        let sources: Vec<(&PathBuf, Source)> = texts
            .iter()
            .filter(|(path, _)| must_not_print(path))
            .map(|(path, text)| (path, source::read(text)))
            .collect();
        assert!(sources.len() >= 100, "the sources were not found");
        let of_tests: Vec<PathBuf> = sources
            .iter()
            .flat_map(|(path, source)| test_modules(path, source))
            .collect();
        let is_of_tests = |path: &Path| {
            of_tests
                .iter()
                .any(|module| path.with_extension("").starts_with(module))
        };
        let violations: Vec<String> = sources
            .iter()
            .filter(|(path, _)| !is_of_tests(path))
            .flat_map(|(path, source)| {
                house::prints(&source.tokens)
                    .into_iter()
                    .map(move |print| format!("{}: {print}", path.display()))
            })
            .collect();
        assert_none(&violations);
    }

    #[test]
    fn modules_of_tests_are_found() {
        let source = source::read(
            "#[cfg(test)]
mod fixture;
mod x;",
        );
        for (path, expected) in [
            ("crates/a/src/lib.rs", "crates/a/src/fixture"),
            ("crates/a/src/b.rs", "crates/a/src/b/fixture"),
        ] {
            assert_eq!(test_modules(Path::new(path), &source), [PathBuf::from(expected)]);
        }
    }

    #[test]
    fn files_keep_the_house_rules() {
        let mut violations = Vec::new();
        for (path, text) in texts() {
            let of_rust = is_rust(&path).then(|| {
                let bounds = house::bounds(&source::read(&text).tokens);
                let found = house::of_rust(&path, &text).into_iter();
                found
                    .chain(house::questions(&text))
                    .chain(house::code(&text))
                    .chain(bounds)
            });
            let found = house::of_text(&text)
                .into_iter()
                .chain(of_rust.into_iter().flatten());
            violations.extend(found.map(|violation| format!("{}: {violation}", path.display())));
        }
        assert_none(&violations);
    }
}
