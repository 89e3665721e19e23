//! The first policy of a user who has none: one that sees everything and stops nothing.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::config::{Search, Source, SourceError, Trust};

/// The soft start.
const OBSERVE: &str = include_str!("../../../../policies/observe.yaml");

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// What is there cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Writes a policy in observe mode where `search` finds none but what is built in, and says where; only says where,
/// without `write`.
///
/// # Errors
/// [`PolicyError`].
pub fn first_policy(
    search: &Search,
    trust: Trust,
    effect: super::Effect,
) -> Result<Option<PathBuf>, PolicyError> {
    let sources = search.read(trust)?;
    let is_built_in = sources.names().all(|source| *source == Source::EmbeddedDefault);
    let (true, Some(path)) = (is_built_in, &search.user) else {
        return Ok(None);
    };
    if effect == super::Effect::Write {
        write(path).map_err(|source| PolicyError::Write {
            path: path.clone(),
            source,
        })?;
    }
    Ok(Some(path.clone()))
}

fn write(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(OBSERVE.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use mcpmon_core::policy::Mode;

    use super::{super::Effect, *};
    use crate::config;

    #[test]
    fn a_user_without_a_policy_gets_one_that_observes_once() {
        let directory = tempfile::tempdir().expect("directory");
        let search = Search {
            explicit: None,
            variable: None,
            local: None,
            user: Some(directory.path().join("config/mcpmon/mcpmon.yaml")),
            system: directory.path().join("etc"),
        };
        let first = |effect| first_policy(&search, Trust::Anyone, effect).expect("written");
        let path = search.user.clone().expect("a place");
        assert_eq!(first(Effect::Preview), Some(path.clone()));
        assert!(!path.exists());
        assert_eq!(first(Effect::Write), Some(path.clone()));
        let loaded = config::load(&search, Trust::Anyone).expect("a valid policy");
        assert_eq!(loaded.policy.mode, Mode::Observe);
        fs::write(&path, "version: 1\n").expect("changed");
        assert_eq!(first(Effect::Write), None, "a policy is never overwritten");
        assert_eq!(fs::read_to_string(&path).expect("there"), "version: 1\n");
    }

    #[test]
    fn a_host_with_a_policy_needs_none() {
        let directory = tempfile::tempdir().expect("directory");
        fs::write(directory.path().join("mcpmon.yaml"), "version: 1\n").expect("written");
        let search = Search {
            explicit: None,
            variable: None,
            local: None,
            user: Some(directory.path().join("user/mcpmon.yaml")),
            system: directory.path().to_owned(),
        };
        let found = first_policy(&search, Trust::Anyone, Effect::Write).expect("read");
        assert_eq!(found, None);
        assert!(!directory.path().join("user").exists());
    }
}
