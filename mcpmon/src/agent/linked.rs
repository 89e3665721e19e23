//! Commands of installed packages, which are links: what they lead to names the package.

use std::{
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
};

/// Words of a command that are looked at: its program, options, a script, and a wrapper with its own options before.
const MAX_WORDS: usize = 16;
/// Links followed one after another.
const MAX_LINKS: usize = 4;
/// Where packages are installed.
const MODULES: &str = "/node_modules/";

/// `argv` with links into installed packages followed; empty where there are none. Paths are those of a process that
/// sees `root` as its root and works in `directory`, which is below that. A bare program is looked up on `search_path`.
pub(super) fn linked(
    root: &Path,
    directory: &Path,
    search_path: Option<&OsStr>,
    argv: &[String],
) -> Vec<String> {
    let mut followed = Vec::new();
    for (position, word) in argv.iter().enumerate().take(MAX_WORDS) {
        let path = match (word.contains('/'), position, search_path) {
            (true, ..) => Some(directory.join(word)),
            (false, 0, Some(search_path)) => found(root, directory, search_path, word),
            (false, ..) => None,
        };
        if let Some(target) = path.and_then(|path| target(root, path)) {
            if followed.is_empty() {
                followed = argv.to_vec();
            }
            followed[position] = target;
        }
    }
    followed
}

fn found(root: &Path, directory: &Path, search_path: &OsStr, name: &str) -> Option<PathBuf> {
    let candidates = std::env::split_paths(search_path).map(|place| directory.join(place).join(name));
    candidates.into_iter().find(|path| outside(root, path).is_file())
}

/// The file in a package that the link at `path` leads to.
fn target(root: &Path, mut path: PathBuf) -> Option<String> {
    for _ in 0..MAX_LINKS {
        let target = fs::read_link(outside(root, &path)).ok()?;
        path = normal(&path.parent()?.join(target));
        let text = path.to_str()?;
        if text.contains(MODULES) && !text.contains("/node_modules/.bin/") {
            return Some(text.to_owned());
        }
    }
    None
}

fn outside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use test_case::test_case;

    use super::*;

    #[test_case("node /p/node_modules/.bin/memory --x" => "node /p/node_modules/@a/memory/index.js --x"; "a command")]
    #[test_case("/usr/bin/env node bin/memory" => "/usr/bin/env node /p/node_modules/@a/memory/index.js"; "a link to a command, in the working directory")]
    #[test_case("memory /data" => "/p/node_modules/@a/memory/index.js /data"; "by its name")]
    #[test_case("node /p/node_modules/@a/memory/index.js" => ""; "no link")]
    #[test_case("node /p/other" => ""; "a link elsewhere")]
    #[test_case("node /p/circle" => ""; "a circle")]
    fn links(line: &str) -> String {
        let root = tempfile::tempdir().expect("a directory");
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("p/node_modules/.bin")).expect("a directory");
        fs::create_dir_all(at("p/node_modules/@a/memory")).expect("a directory");
        fs::create_dir_all(at("p/bin")).expect("a directory");
        fs::write(at("p/node_modules/@a/memory/index.js"), "").expect("a file");
        symlink("../@a/memory/index.js", at("p/node_modules/.bin/memory")).expect("a link");
        symlink("../node_modules/.bin/memory", at("p/bin/memory")).expect("a link");
        symlink("/p/bin", at("p/other")).expect("a link");
        symlink("circle", at("p/circle")).expect("a link");
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        // What is above the root is not seen: the links are looked at by their own names.
        let search_path = OsStr::new("/nowhere:/p/node_modules/@a/memory:/p/node_modules/.bin");
        let search_path = search_path.to_os_string();
        linked(root.path(), Path::new("/p"), Some(&search_path), &argv).join(" ")
    }
}
