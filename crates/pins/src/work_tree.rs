//! The version-controlled work tree of the user's own sources.

use std::path::{Component, Path, PathBuf};

use super::{
    ServerLayout,
    root::{EntryKind, Root},
};

/// Directories in which package managers install: what is in them is nobody's own source.
const INSTALLED: [&str; 3] = ["node_modules", "site-packages", "dist-packages"];

impl ServerLayout<'_> {
    /// Returns the work tree that contains the canonical `directory`. A home directory is none, although some users keep it
    /// under version control: most of what is in it is not theirs.
    pub(super) fn work_tree(&self, directory: &Path) -> Option<PathBuf> {
        let is_installed = |part: Component<'_>| INSTALLED.iter().any(|name| part.as_os_str() == *name);
        if directory.components().any(is_installed) {
            return None;
        }
        let mut above = directory.ancestors().take_while(|path| !self.is_too_broad(path));
        above
            .find(|path| is_work_tree(self.root, path))
            .map(Path::to_owned)
    }
}

/// Returns whether a version control system keeps its records here. A linked work tree of Git has a file in the place of
/// the directory.
fn is_work_tree(root: &Root, path: &Path) -> bool {
    let has = |name: &str, kind| root.is(&path.join(name), kind);
    has(".git/HEAD", EntryKind::File)
        || has(".git", EntryKind::File)
        || has(".hg/requires", EntryKind::File)
        || has(".jj/repo", EntryKind::Directory)
        || has(".svn/wc.db", EntryKind::File)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;
    use crate::fixture::Fixture;

    #[test_case("/home/me/project/src" => Some(PathBuf::from("/home/me/project")); "below the work tree")]
    #[test_case("/home/me/linked" => Some(PathBuf::from("/home/me/linked")); "a linked work tree")]
    #[test_case("/home/me/other" => None; "in a home directory under version control")]
    #[test_case("/home/me/project/node_modules/a" => None; "an installed package")]
    #[test_case("/home/me/empty" => None; "a directory of that name without records")]
    fn work_trees(directory: &str) -> Option<PathBuf> {
        let fixture = Fixture::of(&[
            ("/home/me/.git/HEAD", "ref"),
            ("/home/me/project/.git/HEAD", "ref"),
            ("/home/me/project/src/x", ""),
            ("/home/me/linked/.git", "gitdir: /elsewhere"),
            ("/home/me/empty/.git/x", ""),
        ])
        .unwrap();
        let setting = fixture.setting("/usr/bin/node", "node");
        setting.work_tree(Path::new(directory))
    }
}
