//! Reloading: a configuration is followed while it changes.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use mcpmon_bundle::{BundleId, VerifiedBundle};
use mcpmon_model::Digest;
use mcpmon_policy::Policy;

use super::{BundleSettings, ConfigError, LoadedConfiguration, Search, Source, Sources, Trust, load_sources};

/// The time for which a configuration that lacks rules must stay unchanged before it takes effect: a file that is still
/// being written changes within this time, and an accidentally truncated one can be repaired.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// Detects changes of a configuration.
///
/// The content is compared, not times or inodes: editors, package managers and ConfigMap links replace files in
/// different ways, and a file that is written again with the same content has not changed.
#[derive(Debug)]
pub struct Reloader {
    search: Search,
    trust: Trust,
    /// The digest of the last configuration, or of the error if there was none.
    seen: Digest,
    /// True if the configuration in force came from a file.
    from_file: bool,
    /// The last usable policy.
    policy: Arc<Policy>,
    hash: Digest,
    /// The sources of the configuration in force, as events name them.
    path: String,
    /// The host's last usable files, without those of a bundle.
    own: Arc<Sources>,
    /// The bundle in force, on top of which the host's files are read.
    bundle: Option<Arc<VerifiedBundle>>,
    /// A configuration that is held back because it lacks rules, and the time since which it is unchanged.
    held: Option<(Instant, Box<LoadedConfiguration>)>,
}

/// The occasion of a check: a person's request or the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadOccasion {
    /// A signal: the change is intended.
    ByPerson,
    /// The time for the regular check.
    ByClock,
}

impl Reloader {
    /// Follows the files that `search` finds; `current` is their configuration now.
    pub fn new(search: Search, trust: Trust, current: &LoadedConfiguration) -> Self {
        // The built-in rules in the place of an unusable configuration are no rules that a repaired one could lack.
        let policy = match current.instead_of {
            Some(_) => Arc::new(Policy {
                mode: current.policy.mode,
                ..Policy::default()
            }),
            None => Arc::clone(&current.policy),
        };
        Self {
            search,
            trust,
            seen: current.hash,
            from_file: current.sources.iter().any(is_file),
            policy,
            hash: current.hash,
            path: current.path(),
            own: Arc::clone(&current.text),
            bundle: None,
            held: None,
        }
    }

    /// Composes the configuration of `bundle` with the host's own files. It is not in force yet: see
    /// [`Self::take_bundle`].
    ///
    /// # Errors
    /// Returns an error if the bundle cannot be used.
    pub fn compose(&self, bundle: &VerifiedBundle) -> Result<LoadedConfiguration, ConfigError> {
        let mut loaded = load_sources(&self.own.on_bundle(bundle))?;
        self.compare(&mut loaded);
        Ok(loaded)
    }

    /// Records that `loaded`, which [`Self::compose`] returned for `bundle`, is in force. A signed bundle is complete
    /// and intended, so it takes effect at once, even if it lacks rules.
    pub fn take_bundle(&mut self, bundle: VerifiedBundle, loaded: &LoadedConfiguration) {
        self.bundle = Some(Arc::new(bundle));
        if self.held.take().is_some() {
            // A change of the host's files that was held back is read again, on top of this bundle.
            self.seen = self.hash;
        }
        self.adopt(loaded);
    }

    /// Returns whether the host's own files, in a version that is held back, no longer accept this bundle: they name
    /// another key, or no bundle.
    pub fn is_being_dropped(&self, bundle: &VerifiedBundle) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|(_, held)| !is_wanted(bundle, held.settings.bundle.as_ref()))
    }

    /// Returns the bundle that is in force.
    pub fn bundle(&self) -> Option<BundleId> {
        self.bundle.as_ref().map(|bundle| bundle.id())
    }

    /// Returns the change since the last call: a new configuration, or the reason why there is none (once for each
    /// change; the previous one stays in force). Returns `None` if nothing changed.
    ///
    /// A configuration that lacks rules in force is returned once it has been unchanged for a while.
    ///
    /// Every source is read again, a few files of at most 1 MiB: call it every few seconds.
    pub fn poll(
        &mut self,
        now: Instant,
        asked: ReloadOccasion,
    ) -> Option<Result<LoadedConfiguration, ConfigError>> {
        let news = self.look(now)?;
        let Ok(loaded) = news else {
            return Some(news);
        };
        let is_due = |since: Instant| {
            asked == ReloadOccasion::ByPerson || now.saturating_duration_since(since) >= SECOND_LOOK
        };
        let since = match self.held.take() {
            Some((since, held)) if held.hash == loaded.hash => since,
            Some(_) | None => now,
        };
        if !loaded.lost.is_empty() && !is_due(since) {
            self.held = Some((since, Box::new(loaded)));
            return None;
        }
        self.adopt(&loaded);
        self.from_file = loaded.sources.iter().any(is_file);
        self.own = Arc::new(loaded.text.without_bundle());
        self.bundle.take_if(|_| loaded.text.bundle().is_none());
        Some(Ok(loaded))
    }

    fn adopt(&mut self, loaded: &LoadedConfiguration) {
        self.policy = Arc::clone(&loaded.policy);
        self.hash = loaded.hash;
        self.path = loaded.path();
    }

    /// Records which rules and enforcing settings in force `loaded` lacks.
    fn compare(&self, loaded: &mut LoadedConfiguration) {
        loaded.lost = loaded.policy.losses(&self.policy);
        loaded.switched_off = loaded.policy.switched_off(&self.policy);
    }

    /// Loads the host's files, with the bundle as long as they name it and the key that signed it.
    fn load(&self, own: &Sources) -> Result<LoadedConfiguration, ConfigError> {
        let loaded = load_sources(own)?;
        match &self.bundle {
            Some(bundle) if is_wanted(bundle, loaded.settings.bundle.as_ref()) => {
                load_sources(&own.on_bundle(bundle))
            }
            Some(_) | None => Ok(loaded),
        }
    }

    /// Returns the file that is read, as events name it; if it is gone, the sources of the configuration in force.
    pub fn path(&self) -> String {
        let own = self.search.own_file();
        own.map_or_else(|| self.path.clone(), |own| own.display().to_string())
    }

    /// Returns the user's own file, if it exists or is named.
    pub fn own_file(&self) -> Option<&Path> {
        self.search.own_file()
    }

    /// Returns the rules that the configuration that is held back lacks.
    pub fn held(&self) -> &[String] {
        self.held.as_ref().map_or(&[], |(_, loaded)| &loaded.lost)
    }

    /// Returns the current configuration, if it differs from the previous one or is held back.
    fn look(&mut self, now: Instant) -> Option<Result<LoadedConfiguration, ConfigError>> {
        let sources = match self.search.read(self.trust) {
            Ok(sources) => sources,
            Err(error) => {
                let state = Digest::of(error.to_string().as_bytes());
                return self.is_new(state).then(|| {
                    self.held = None;
                    Err(error.into())
                });
            }
        };
        let vanished = self.from_file && !sources.names().any(is_file);
        if !self.is_new(sources.digest()) {
            let (_, loaded) = self.held.as_ref()?;
            return Some(Ok((**loaded).clone()));
        }
        if vanished {
            self.held = None;
            return Some(Err(ConfigError::Vanished));
        }
        let mut result = self.load(&sources);
        match &mut result {
            Ok(loaded) if self.held.take().is_some() && loaded.hash == self.hash => return None,
            Ok(loaded) => {
                self.compare(loaded);
                if !loaded.lost.is_empty() {
                    self.held = Some((now, Box::new(loaded.clone())));
                    tracing::warn!(
                        lost = loaded.lost.join(", "),
                        "the changed policy lacks rules: it takes effect if it stays so for {SECOND_LOOK:?}"
                    );
                }
            }
            Err(_) => self.held = None,
        }
        Some(result)
    }

    fn is_new(&mut self, state: Digest) -> bool {
        std::mem::replace(&mut self.seen, state) != state
    }
}

/// Returns whether a host with these settings accepts the bundle.
fn is_wanted(bundle: &VerifiedBundle, settings: Option<&BundleSettings>) -> bool {
    settings.is_some_and(|settings| {
        settings.keys.contains(&bundle.key) && bundle.check_name(settings.name.as_deref()).is_ok()
    })
}

const fn is_file(source: &Source) -> bool {
    match source {
        Source::File(_) => true,
        Source::EmbeddedDefault | Source::Bundle { .. } => false,
    }
}
