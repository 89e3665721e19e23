//! Places of files on a host: its users' directories, mcpmon's own files, and the targets of links. The caller looks
//! them up; this crate does not.

use mcpmon_model::{PathStart, PlainPath};

/// The places of files on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    aliases: Vec<(Vec<String>, PlainPath)>,
    own: Vec<Vec<String>>,
}

/// The target of a resolved path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealPath {
    /// The path as it was requested.
    pub given: String,
    /// The file that it leads to, with links resolved.
    pub real: String,
}

/// The known places and targets for the files of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The places of files.
    pub places: Places,
    /// The paths of the call whose targets have other names.
    pub real: Vec<RealPath>,
}

/// A host of which nothing is known.
pub static NO_FILES: Files = Files {
    places: Places::new(),
    real: Vec::new(),
};

impl Places {
    const fn new() -> Self {
        Self {
            aliases: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Adds the absolute path `directory` as another name of `meaning`, below a home directory, for example the value
    /// of `HOME` or `XDG_CONFIG_HOME`. A path that is not absolute, or is the root, is ignored.
    #[must_use]
    pub fn with_alias(mut self, directory: &str, meaning: &[&str]) -> Self {
        if let Some(names) = absolute(directory) {
            let meaning = PlainPath {
                start: PathStart::Home,
                names: meaning.iter().map(|&name| name.to_owned()).collect(),
            };
            self.aliases.push((names, meaning));
        }
        self
    }

    /// Adds a file or directory of mcpmon itself at an absolute path.
    #[must_use]
    pub fn with_own(mut self, path: &str) -> Self {
        self.own.extend(absolute(path));
        self
    }

    /// Returns other names of the absolute path with these names.
    pub(super) fn aliases_of(&self, names: &[String]) -> impl Iterator<Item = PlainPath> {
        self.aliases.iter().filter_map(|(directory, meaning)| {
            let rest = names.get(directory.len()..)?;
            begins_with(names, directory).then(|| PlainPath {
                start: meaning.start,
                names: [meaning.names.as_slice(), rest].concat(),
            })
        })
    }

    /// Returns whether the path is one of mcpmon's own files, or is in one of its directories.
    pub(super) fn is_own(&self, path: &PlainPath) -> bool {
        match path.start {
            PathStart::Root => self.own.iter().any(|own| begins_with(&path.names, own)),
            PathStart::Home => self.own.iter().any(|own| {
                let mut aliases = self.aliases_of(own);
                aliases.any(|alias| begins_with(&path.names, &alias.names))
            }),
            PathStart::Unknown => false,
        }
    }

    /// Returns whether one of mcpmon's own files is below the absolute path.
    pub(super) fn holds_own(&self, path: &PlainPath) -> bool {
        path.start == PathStart::Root && self.own.iter().any(|own| begins_with(own, &path.names))
    }
}

fn absolute(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix('/')?;
    let names = rest.split('/').filter(|name| !matches!(*name, "" | "."));
    let names: Vec<String> = names.map(str::to_owned).collect();
    (!names.is_empty()).then_some(names)
}

fn begins_with(names: &[String], directory: &[String]) -> bool {
    names.len() >= directory.len()
        && directory
            .iter()
            .zip(names)
            .all(|(one, other)| one.to_lowercase() == other.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        absolute(path).expect("an absolute path")
    }

    #[test]
    fn directories_have_other_names() {
        let places = Places::default()
            .with_alias("/data/me", &[])
            .with_alias("/cfg/", &[".config"])
            .with_alias("/", &[])
            .with_alias("relative", &[]);
        let called = |path| {
            let names = names(path);
            let aliases = places.aliases_of(&names);
            aliases.map(|alias| alias.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(called("/data/me/.bashrc"), ["~/.bashrc"]);
        assert_eq!(called("/CFG/mcpmon"), ["~/.config/mcpmon"]);
        assert_eq!(called("/data/you"), [""; 0]);
    }

    #[test]
    fn own_files_are_known() {
        let places = Places::default().with_own("/opt/m/policy.yaml");
        let path = |path| PlainPath {
            start: PathStart::Root,
            names: names(path),
        };
        assert!(places.is_own(&path("/opt/M/policy.yaml")));
        assert!(!places.is_own(&path("/opt/m/policy.yaml.bak")));
        let below_home = PlainPath {
            start: PathStart::Home,
            names: names("/policy.yaml"),
        };
        assert!(!places.is_own(&below_home));
        assert!(places.with_alias("/opt/m", &[]).is_own(&below_home));
    }
}
