//! The user's own policy file on a host with a daemon: it can only tighten the daemon's policy, and a mistake in it
//! disables nothing.

use mcpmon_config::{ConfigError, LoadedConfiguration, Search, SourceError, Sources, Trust};
use mcpmon_detect::mask::mask_text;
use mcpmon_model::{Digest, Event, EventKind, Layer, Severity, Timestamp};

/// The content of a user's own file, none, or the error of reading it.
type Found = Result<Option<Sources>, SourceError>;

/// Follows the content of a user's own file.
#[derive(Debug)]
pub(super) struct Own {
    /// The host's policy.
    host: LoadedConfiguration,
    /// The digest of the last result: the text, none, or the error.
    seen: Option<Digest>,
    /// The text in force.
    text: Option<Sources>,
    /// An error that is not reported yet.
    untold: Option<ConfigError>,
}

impl Own {
    /// Applies `found` on top of the host's policy. Returns the resulting configuration, and a value that follows the
    /// file.
    pub(super) fn over(host: LoadedConfiguration, found: Found) -> (LoadedConfiguration, Self) {
        let mut own = Self {
            host,
            seen: None,
            text: None,
            untold: None,
        };
        let loaded = match own.take(found) {
            Some(Ok(loaded)) => loaded,
            Some(Err(error)) => {
                own.untold = Some(error);
                own.host.clone()
            }
            None => own.host.clone(),
        };
        (loaded, own)
    }

    /// Replaces the host's policy. Returns the resulting configuration.
    pub(super) fn adopt(&mut self, host: LoadedConfiguration) -> LoadedConfiguration {
        self.host = host;
        let Some(text) = &self.text else {
            return self.host.clone();
        };
        mcpmon_config::on_top(&self.host, text).unwrap_or_else(|invalid| {
            self.untold = Some(invalid.into());
            self.host.clone()
        })
    }

    /// Returns the change since the last call, given the current text `found`. If the text cannot be used, the previous
    /// one stays in force.
    pub(super) fn news(&mut self, found: Found) -> Option<Result<LoadedConfiguration, ConfigError>> {
        match self.untold.take() {
            Some(error) => Some(Err(error)),
            None => self.take(found),
        }
    }

    fn take(&mut self, found: Found) -> Option<Result<LoadedConfiguration, ConfigError>> {
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
                let loaded = mcpmon_config::on_top(&self.host, &text);
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

/// A user's own file, at the place given by the user's environment and command line.
#[derive(Debug)]
pub(super) struct FollowedFile {
    search: Search,
    trust: Trust,
    own: Own,
}

impl FollowedFile {
    /// Applies the file on top of the daemon's policy `host`. Returns the resulting configuration, and a value that
    /// follows the file.
    pub(super) fn over(
        host: LoadedConfiguration,
        search: Search,
        trust: Trust,
    ) -> (LoadedConfiguration, Self) {
        let (loaded, own) = Own::over(host, search.read_own(trust));
        (loaded, Self { search, trust, own })
    }

    /// See [`Own::adopt`].
    pub(super) fn adopt(&mut self, host: LoadedConfiguration) -> LoadedConfiguration {
        self.own.adopt(host)
    }

    /// Returns the file, as events name it; if it is gone, the one whose text is in force.
    pub(super) fn path(&self) -> String {
        if let Some(own) = self.search.own_file() {
            return own.display().to_string();
        }
        let names = self.own.text.iter().flat_map(Sources::names);
        names.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// See [`Own::news`].
    pub(super) fn poll(&mut self) -> Option<Result<LoadedConfiguration, ConfigError>> {
        self.own.news(self.search.read_own(self.trust))
    }
}

/// Builds the event about a change of the policy at `path`; `uid` is given if one process judges for many users. If the
/// new policy is invalid, the previous one stays in force.
pub(super) fn told(
    now: Timestamp,
    uid: Option<u32>,
    path: String,
    news: &Result<LoadedConfiguration, ConfigError>,
) -> Event {
    let error = match news {
        Ok(loaded) => return loaded.event(now),
        Err(error) => error,
    };
    let errors = mistakes(error);
    let mut event = Event::new(now, Layer::Agent, EventKind::PolicyRejected { path, errors });
    event.severity = Severity::High;
    let whose = uid.map_or_else(String::new, |uid| format!("of the own file of user {uid}, "));
    event.reason = Some(format!(
        "{whose}what was in force before stays so; check the file with `mcpmon policy check FILE`"
    ));
    event
}

/// Returns the mistakes in the form in which they are recorded and logged: position and key of each. A line of the file
/// may contain a secret, and so may a message that quotes a value.
pub fn mistakes(error: &ConfigError) -> Vec<String> {
    match error {
        ConfigError::Invalid(invalid) => {
            let problems = invalid.problems().iter();
            problems.map(|problem| mask_text(&problem.headline())).collect()
        }
        ConfigError::Source(source) => {
            let cause = std::error::Error::source(source);
            vec![cause.map_or_else(|| source.to_string(), |cause| format!("{source}: {cause}"))]
        }
        ConfigError::Vanished => vec![error.to_string()],
    }
}
