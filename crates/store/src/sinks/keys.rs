//! Keys of the sinks in the section `record` of a configuration. Each sink declares its own keys, with their
//! documentation, next to its code.

use std::path::PathBuf;

use mcpmon_policy::written::{HttpUrl, SectionKeys};

use super::{EventSink, Origin};
use crate::metrics::Metrics;

/// The keys of one sink.
pub(super) trait SinkKeys: SectionKeys {
    /// The settings that the keys make.
    type Settings;

    /// Returns the settings. Returns `None` if the sink is off; mistakes are reported nevertheless.
    fn check(&self, faults: &mut SectionFaults) -> Option<Self::Settings>;

    /// Starts the sink. Returns `None` if it cannot accept anything.
    fn start(settings: &Self::Settings, surroundings: &SinkSurroundings<'_>) -> Option<Box<dyn EventSink>>;
}

/// The parts of the process that a sink may use.
#[derive(Debug)]
pub(super) struct SinkSurroundings<'a> {
    /// The store of the process, if it has one.
    pub(super) origin: Option<Origin>,
    /// The metrics that count every event.
    pub(super) metrics: Option<&'a Metrics>,
}

/// The mistakes in a section, each with its key.
#[derive(Debug, Default)]
pub struct SectionFaults(Vec<(&'static str, String)>);

impl SectionFaults {
    /// Adds a mistake.
    pub fn push(&mut self, key: &'static str, message: impl Into<String>) {
        self.0.push((key, message.into()));
    }

    /// Returns the file at `key`. Returns `None` if it is empty.
    pub fn file(&mut self, key: &'static str, given: &str) -> Option<PathBuf> {
        let path = Some(PathBuf::from(given)).filter(|path| !path.as_os_str().is_empty());
        if path.as_ref().is_some_and(|path| path.is_relative()) {
            self.push(
                key,
                "expected an absolute path: a daemon has no working directory to speak of",
            );
        }
        path
    }

    /// Returns the URL at `key`. Returns `None` if it is invalid, and reports that.
    pub(super) fn url(&mut self, key: &'static str, given: &str) -> Option<HttpUrl> {
        let url = given.parse();
        url.map_err(|error: mcpmon_policy::written::HttpUrlError| self.push(key, error.to_string()))
            .ok()
    }
}

impl IntoIterator for SectionFaults {
    type Item = (&'static str, String);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
