//! The user's own policy file where a daemon rules: it can only tighten the daemon's policy, and a mistake in it
//! disables nothing.

use mcpmon_core::model::Digest;

use crate::config::{self, ConfigError, Loaded, Search, Sources, Trust};

/// Follows the user's own file.
#[derive(Debug)]
pub(super) struct Own {
    search: Search,
    trust: Trust,
    /// The daemon's policy.
    host: Loaded,
    /// What was found last: text, nothing, or why it cannot be read.
    seen: Option<Digest>,
    /// The text in force.
    text: Option<Sources>,
    /// What nobody was told yet.
    untold: Option<ConfigError>,
}

impl Own {
    /// On top of the daemon's policy `host`: what holds, and what follows the file from now on.
    pub(super) fn over(host: Loaded, search: Search, trust: Trust) -> (Loaded, Self) {
        let mut own = Self {
            search,
            trust,
            host,
            seen: None,
            text: None,
            untold: None,
        };
        let loaded = match own.look() {
            Some(Ok(loaded)) => loaded,
            Some(Err(error)) => {
                own.untold = Some(error);
                own.host.clone()
            }
            None => own.host.clone(),
        };
        (loaded, own)
    }

    /// The daemon has another policy: what holds now.
    pub(super) fn adopt(&mut self, host: Loaded) -> Loaded {
        self.host = host;
        let Some(text) = &self.text else {
            return self.host.clone();
        };
        config::on_top(&self.host, text).unwrap_or_else(|invalid| {
            self.untold = Some(invalid.into());
            self.host.clone()
        })
    }

    /// What changed since the last call; where it cannot be used, what was in force stays so.
    pub(super) fn poll(&mut self) -> Option<Result<Loaded, ConfigError>> {
        match self.untold.take() {
            Some(error) => Some(Err(error)),
            None => self.look(),
        }
    }

    fn look(&mut self) -> Option<Result<Loaded, ConfigError>> {
        let found = self.search.read_own(self.trust);
        let state = match &found {
            Ok(Some(text)) => text.digest(),
            Ok(None) => Digest::of(b""),
            Err(error) => Digest::of(error.to_string().as_bytes()),
        };
        if self.seen.replace(state) == Some(state) {
            return None;
        }
        match found {
            Ok(Some(text)) => {
                let loaded = config::on_top(&self.host, &text);
                if loaded.is_ok() {
                    self.text = Some(text);
                }
                Some(loaded.map_err(ConfigError::from))
            }
            Ok(None) => self.text.as_ref().map(|_| Err(ConfigError::Vanished)),
            Err(error) => Some(Err(error.into())),
        }
    }
}
