//! Configuration files to a [`Policy`]: finding and trusting them (`sources`, `home`, `trust`), parsing (`load`,
//! `raw`), compilation (`compile`), reload (`reload`), and import of other tools' files (`import`).
//!
//! This crate knows nothing of the kernel and the terminal; of the store it knows only the keys of its sinks.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "I/O")]

mod accept;
mod bundle;
mod compile;
mod force;
mod home;
mod import;
mod load;
mod lock;
mod mistake;
mod mode;
mod outline;
mod own;
mod raw;
mod reload;
mod settings;
mod sources;
mod trust;
mod unusable;
mod written;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use mcpmon_model::{Digest, Event, EventKind, Layer, Severity, Timestamp};
use mcpmon_policy::Policy;
use schemars::transform::{RecursiveTransform, Transform as _};

pub use self::{
    accept::{AcceptEdit, Acceptance, AllowedCall},
    bundle::check_bundle,
    force::{Cause, NotInForce},
    import::{ImportedPolicy, ImportedTool, Note, NoteKind, import},
    lock::{
        CommandArgument, Profile, Provenance, SeenFile, SeenServer, SessionConnections, SessionStart,
        UsedTool,
    },
    mistake::{ConfigurationProblem, InvalidConfiguration},
    mode::{ModeEdit, mode_word},
    outline::{KeyMeaning, Outline, StatedKey},
    own::on_top,
    reload::{ReloadOccasion, Reloader},
    settings::{
        ActiveSettings, BodyStorageSettings, BundleSettings, DiscoverySettings, ProviderSettings,
        ProxySettings, RecordSettings,
    },
    sources::{LocalConfig, Search, Source, SourceError, Sources},
    trust::{Distrust, Trust},
    unusable::{UnusablePolicy, load_or_built_in, load_sources_or_built_in},
    written::is_unprintable,
};

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct LoadedConfiguration {
    /// The compiled policy.
    pub policy: Arc<Policy>,
    /// The daemon's settings besides the policy.
    pub settings: ActiveSettings,
    /// Keys that are set and have no effect, by name.
    pub not_in_force: Vec<NotInForce>,
    /// The sources; never empty.
    pub sources: Vec<Source>,
    /// Digest of the sources' text.
    pub hash: Digest,
    /// The text of the sources, which wrappers receive from the daemon.
    pub text: Arc<Sources>,
    /// Rules of the previous configuration that this one lacks.
    pub lost: Vec<String>,
    /// Enforcing settings of the previous configuration that this one turns off.
    pub switched_off: Vec<String>,
    /// The configuration that cannot be used, if the built-in rules apply in its place.
    pub instead_of: Option<Arc<UnusablePolicy>>,
}

impl LoadedConfiguration {
    /// Returns the sources, as events name them.
    pub fn path(&self) -> String {
        let sources: Vec<String> = self.sources.iter().map(ToString::to_string).collect();
        sources.join(", ")
    }

    /// Builds the event `policy_loaded`; its severity is high if rules are lost or enforcement is turned off.
    pub fn event(&self, now: Timestamp) -> Event {
        let bundle = self.text.bundle();
        let lost = || self.switched_off.iter().chain(&self.lost);
        let kind = EventKind::PolicyLoaded {
            path: self.path(),
            hash: self.hash,
            lost: lost().take(MAX_LOST_RULES).cloned().collect(),
            bundle_serial: bundle.map(|bundle| bundle.serial),
            bundle_digest: bundle.map(|bundle| bundle.digest),
        };
        let mut event = Event::new(now, Layer::Agent, kind);
        if lost().next().is_some() {
            event.severity = Severity::High;
            event.reason = Some(format!(
                "{} rules and settings are no longer in force; if this was not intended, restore them in the {}",
                lost().count(),
                if bundle.is_some() { "bundle" } else { "file" }
            ));
        }
        event
    }
}

/// Most lost rules that an event names.
const MAX_LOST_RULES: usize = 50;

/// The reason why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read, or is not trusted.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The content is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidConfiguration),
    /// The files that were in force are gone.
    #[error(
        "the configuration file is gone; the last policy stays in force. Restore the file, or restart to use the embedded default"
    )]
    Vanished,
}

/// Reads what `search` finds.
///
/// # Errors
/// Returns an error if a file cannot be read or is not trusted, else every mistake in them.
pub fn load(search: &Search, trust: Trust) -> Result<LoadedConfiguration, ConfigError> {
    load_sources(&search.read(trust)?)
}

/// Compiles sources that were read.
///
/// # Errors
/// Returns every mistake in them.
pub fn load_sources(sources: &Sources) -> Result<LoadedConfiguration, ConfigError> {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    if sources.bundle().is_some() {
        return Ok(bundle::load_on_bundle(sources, today)?);
    }
    let mut document = load::read(sources.origins());
    let compiled = compile::compile(&document.config);
    document.tell(compiled.mistakes);
    let loaded = LoadedConfiguration {
        policy: Arc::new(compiled.policy),
        settings: compiled.settings,
        not_in_force: force::not_in_force(&document.tree, &document.config.mcp, today),
        sources: sources.names().cloned().collect(),
        hash: sources.digest(),
        text: Arc::new(sources.clone()),
        lost: Vec::new(),
        switched_off: Vec::new(),
        instead_of: None,
    };
    Ok(document.mistakes.unless_any(loaded)?)
}

/// Returns the default URL of a provider.
pub fn default_provider_url(name: &str) -> Option<String> {
    raw::Proxy::default().providers.remove(name)
}

/// The JSON Schema of a configuration file, for editors.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(raw::Config);
    // The default of a whole section only repeats the defaults of its keys.
    let drop_section_defaults = |schema: &mut schemars::Schema| {
        if schema.get("default").is_some_and(serde_json::Value::is_object) {
            schema.remove("default");
        }
    };
    RecursiveTransform(drop_section_defaults).transform(&mut schema);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}
