//! A configuration that is followed while it changes.

use mcpmon_core::model::Digest;

use super::{ConfigError, Loaded, Search, Source, Trust, load_sources};

/// Tells when a configuration has changed.
///
/// The content is compared, not times or inodes: editors, package managers and ConfigMap links replace files
/// in different ways, and a file that is written again as it was is no change.
#[derive(Debug)]
pub struct Reloader {
    search: Search,
    trust: Trust,
    /// What was seen last: of a configuration or, where there was none to read, of the reason.
    seen: Digest,
    /// Whether what is in force came from a file.
    from_file: bool,
}

impl Reloader {
    /// Follows what `search` finds, `current` being what it found last.
    #[must_use]
    pub fn new(search: Search, trust: Trust, current: &Loaded) -> Self {
        Self {
            search,
            trust,
            seen: current.hash,
            from_file: current.sources.iter().any(is_file),
        }
    }

    /// What changed since the last call: a new configuration, or why there is none (once for each change; the one
    /// before stays in force). `None` where nothing did.
    ///
    /// Reads every source again, a few files of at most 1 MiB: meant to be called every few seconds.
    pub fn poll(&mut self) -> Option<Result<Loaded, ConfigError>> {
        let sources = match self.search.read(self.trust) {
            Ok(sources) => sources,
            Err(error) => {
                let state = Digest::of(error.to_string().as_bytes());
                return self.is_new(state).then(|| Err(error.into()));
            }
        };
        let vanished = self.from_file && !sources.names().any(is_file);
        if !self.is_new(sources.digest()) {
            return None;
        }
        if vanished {
            return Some(Err(ConfigError::Vanished));
        }
        let result = load_sources(&sources);
        if let Ok(loaded) = &result {
            self.from_file = loaded.sources.iter().any(is_file);
        }
        Some(result)
    }

    fn is_new(&mut self, state: Digest) -> bool {
        std::mem::replace(&mut self.seen, state) != state
    }
}

const fn is_file(source: &Source) -> bool {
    match source {
        Source::File(_) => true,
        Source::EmbeddedDefault => false,
    }
}
