//! The architecture and the house rules, as tests over the repository's own files.

mod architecture;
mod house;
mod paths;
mod source;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::shell::repository;

/// Names that hold nothing of ours; `.git` is a file in a worktree.
const FOREIGN: [&str; 3] = [".git", "target", "node_modules"];

/// Every file of the repository that is text, by its path from the root.
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

/// The module that a file of a crate in the table is: `mcpmon/src/cli/mod.rs` is `mcpmon::cli`.
fn module_of(path: &Path) -> Option<Vec<String>> {
    let (name, inside) = table::CRATES
        .iter()
        .find_map(|(name, source)| Some((*name, path.strip_prefix(source).ok()?)))?;
    let mut module = vec![name.to_owned()];
    module.extend(
        inside
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned()),
    );
    let is_ebpf_root = name == "mcpmon_ebpf" && module.ends_with(&["main".to_owned()]);
    if is_ebpf_root || module.ends_with(&["mod".to_owned()]) || module.ends_with(&["lib".to_owned()]) {
        module.pop();
    }
    Some(module)
}

/// The names under `[workspace.dependencies]`, as Rust writes them.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let table = manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1);
    let entries = table.take_while(|line| !line.starts_with('['));
    let name = |line: &str| Some(line.split_once('=')?.0.trim().replace('-', "_"));
    entries
        .filter(|line| !line.starts_with('#'))
        .filter_map(name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{source::Source, *};

    fn assert_none(violations: &[String]) {
        assert!(violations.is_empty(), "\n{}", violations.join("\n"));
    }

    #[test]
    fn modules_keep_to_the_table() {
        let texts = texts();
        let dependencies = dependencies(&texts[Path::new("Cargo.toml")]);
        assert!(dependencies.contains("serde_json"), "{dependencies:?}");
        let modules: Vec<(Vec<String>, Source)> = texts
            .iter()
            .filter(|(path, _)| is_rust(path))
            .filter_map(|(path, text)| Some((module_of(path)?, source::read(text))))
            .collect();
        let of_tests: Vec<Vec<String>> = modules
            .iter()
            .flat_map(|(module, source)| {
                source
                    .test_modules
                    .iter()
                    .map(|name| [&module[..], std::slice::from_ref(name)].concat())
            })
            .collect();
        let mut violations = Vec::new();
        for (module, source) in &modules {
            if of_tests.iter().any(|tests| module.starts_with(tests)) {
                continue;
            }
            violations.extend(architecture::violations(&source.tokens, module, &dependencies));
            if module[0] == "mcpmon" && !module.starts_with(&["mcpmon".to_owned(), "cli".to_owned()]) {
                let prints = house::prints(&source.tokens);
                violations.extend(
                    prints
                        .into_iter()
                        .map(|print| format!("{}: {print}", module.join("::"))),
                );
            }
            if module[0] == "mcpmon_core"
                && !module.starts_with(&house::UNSAFE_IN_CORE.map(str::to_owned))
                && house::is_unsafe(&source.tokens)
            {
                violations.push(format!("{}: unsafe code in the core", module.join("::")));
            }
        }
        assert!(modules.len() >= 4, "the sources were not found");
        assert_none(&violations);
    }

    #[test]
    fn files_keep_the_house_rules() {
        let mut violations = Vec::new();
        for (path, text) in texts() {
            let rust = if is_rust(&path) {
                house::of_rust(&path, &text)
            } else {
                Vec::new()
            };
            let found = house::of_text(&text).into_iter().chain(rust);
            violations.extend(found.map(|violation| format!("{}: {violation}", path.display())));
        }
        assert_none(&violations);
    }

    #[test]
    fn files_are_modules() {
        for (path, expected) in [
            ("mcpmon/src/lib.rs", Some("mcpmon")),
            ("mcpmon/src/main.rs", Some("mcpmon::main")),
            ("mcpmon/src/cli/mod.rs", Some("mcpmon::cli")),
            (
                "mcpmon-core/src/policy/network/table.rs",
                Some("mcpmon_core::policy::network::table"),
            ),
            ("mcpmon-ebpf/src/main.rs", Some("mcpmon_ebpf")),
            ("mcpmon/build.rs", None),
            ("tests/e2e/src/lib.rs", None),
        ] {
            assert_eq!(
                module_of(Path::new(path))
                    .map(|module| module.join("::"))
                    .as_deref(),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn dependencies_are_read_from_the_manifest() {
        let manifest = "[workspace]\na = 1\n[workspace.dependencies]\n# why = x\nserde-saphyr = \"2\"\naya = { x = 1 }\n[lints]\nb = 1";
        assert_eq!(
            dependencies(manifest).into_iter().collect::<Vec<_>>(),
            ["aya", "serde_saphyr"]
        );
    }
}
