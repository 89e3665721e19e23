//! Programs whose digest the kernel compares when they are started: pinned servers that are programs themselves.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use mcpmon_model::{Digest, PinKey};

use crate::{
    gated::{file_name, is_client, is_program, last_component},
    pins::PinBook,
};

/// The user id of root.
const ROOT: u32 = 0;

/// A program with a digest that is accepted for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckedProgram {
    /// The user.
    pub uid: u32,
    /// Its path.
    pub path: PathBuf,
    /// The digest.
    pub digest: Digest,
    /// True if nothing else has to be compared before it may run.
    pub is_whole: bool,
}

/// Every checked program, once for each accepted digest. A start with another digest is refused, whoever starts it, so
/// the program must be the server and nothing else for all that is pinned at its path, bear the server's name, and be the
/// server without any argument (`is_alone`). Nothing of root's is checked: a container that runs as root may have another
/// program at the same path.
/// Servers that `may_add` to their pins are left to the comparison after the start, and those of users whose servers
/// may be refused for another reason than their digest (`may_be_refused`) have to be stopped.
pub(super) fn checked_programs(
    pins: &PinBook,
    is_alone: impl Fn(&PinKey, &str) -> bool,
    may_add: impl Fn(&PinKey) -> bool,
    may_be_refused: impl Fn(u32) -> bool,
) -> BTreeSet<CheckedProgram> {
    let (mut programs, mut others) = (BTreeSet::new(), BTreeSet::<(u32, &Path)>::new());
    for (key, sets) in pins.iter() {
        let (may_add, may_be_refused) = (may_add(key), may_be_refused(key.uid));
        for pins in sets.values() {
            let path = pins.executable.path.as_path();
            let name = file_name(path);
            let is_server = key.uid != ROOT
                && is_program(pins)
                && name == last_component(key.bare_name())
                && !is_client(key, name)
                && is_alone(key, name);
            if !is_server || may_add {
                others.insert((key.uid, path));
                continue;
            }
            programs.insert(CheckedProgram {
                uid: key.uid,
                path: path.to_owned(),
                digest: pins.executable.digest,
                is_whole: pins.launcher.is_none() && !may_be_refused,
            });
        }
    }
    programs.retain(|program| !others.contains(&(program.uid, program.path.as_path())));
    programs
}

#[cfg(test)]
mod tests {
    use mcpmon_model::ServerId;
    use test_case::test_case;

    use super::*;
    use crate::pins::{PinnedFile, Pins};

    fn key(name: &str) -> PinKey {
        PinKey {
            server: ServerId::new("x").expect("id"),
            name: name.to_owned(),
            uid: 7,
        }
    }

    fn file(path: &str, content: &str) -> PinnedFile {
        PinnedFile {
            path: PathBuf::from(path),
            digest: Digest::of(content.as_bytes()),
        }
    }

    fn pins(path: &str, content: &str) -> Pins {
        Pins {
            executable: file(path, content),
            script: None,
            package: None,
            launcher: None,
        }
    }

    fn of_script(path: &str) -> Pins {
        Pins {
            script: Some(file("/s/server.js", "")),
            ..pins(path, "1")
        }
    }

    fn by_launcher(path: &str) -> Pins {
        Pins {
            launcher: Some(file("/l", "")),
            ..pins(path, "1")
        }
    }

    fn checked(of: &[(&str, Pins)]) -> Vec<(String, bool)> {
        let mut book = PinBook::default();
        for (name, pins) in of {
            book.add(key(name), pins.clone());
        }
        let programs = checked_programs(&book, |_, _| true, |_| false, |_| false);
        let told = |program: CheckedProgram| (program.path.display().to_string(), program.is_whole);
        programs.into_iter().map(told).collect()
    }

    #[test_case(&[("mcp-git", pins("/o/mcp-git", "1"))] => vec![("/o/mcp-git".to_owned(), true)]; "a program")]
    #[test_case(&[("mcp-git", by_launcher("/o/mcp-git"))] => vec![("/o/mcp-git".to_owned(), false)]; "by a launcher")]
    #[test_case(&[("mcp-git", pins("/o/tools", "1"))] => Vec::<(String, bool)>::new(); "a program of many names")]
    #[test_case(&[("codex", pins("/o/codex", "1"))] => Vec::<(String, bool)>::new(); "an agent with a subcommand")]
    #[test_case(&[("node", pins("/o/node", "1"))] => Vec::<(String, bool)>::new(); "an interpreter")]
    #[test_case(&[("mcp-git", of_script("/o/mcp-git"))] => Vec::<(String, bool)>::new(); "a script")]
    #[test_case(&[("mcp-git", pins("/o/mcp-git", "1")), ("other", of_script("/o/mcp-git"))] => Vec::<(String, bool)>::new(); "an interpreter for another server")]
    fn only_programs_that_are_servers_and_nothing_else(of: &[(&str, Pins)]) -> Vec<(String, bool)> {
        checked(of)
    }

    #[test]
    fn every_accepted_digest_is_told() {
        let mut book = PinBook::default();
        book.add(key("mcp-git"), pins("/o/mcp-git", "1"));
        book.add(key("mcp-git"), pins("/o/mcp-git", "2"));
        assert_eq!(
            checked_programs(&book, |_, _| true, |_| false, |_| false).len(),
            2
        );
        assert!(
            checked_programs(&book, |_, _| true, |_| true, |_| false).is_empty(),
            "it may add to its pins"
        );
        let refusable = checked_programs(&book, |_, _| true, |_| false, |_| true);
        assert!(refusable.iter().all(|program| !program.is_whole), "{refusable:?}");
    }
    #[test]
    fn what_is_no_server_alone_or_is_roots_is_not_checked() {
        let mut book = PinBook::default();
        book.add(key("mcp-git"), pins("/o/mcp-git", "1"));
        assert!(checked_programs(&book, |_, _| false, |_| false, |_| false).is_empty());
        let mut of_root = PinBook::default();
        let key = PinKey {
            uid: ROOT,
            ..key("mcp-git")
        };
        of_root.add(key, pins("/o/mcp-git", "1"));
        assert!(checked_programs(&of_root, |_, _| true, |_| false, |_| false).is_empty());
    }
}
