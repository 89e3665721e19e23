//! Patterns of the configuration.

use mcpmon_model::{CustomPattern, TextStance};
use regex::{Regex, RegexBuilder};

use super::finding::Hit;

/// Most bytes that one pattern may take when it is compiled.
const MAX_SIZE: usize = 1 << 20;
/// Most matches of one pattern in a text.
const MAX_MATCHES: usize = 16;

/// The reason why a pattern of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "custom pattern `{name}` is no valid regular expression; write it in RE2 syntax, without look-around or back-references"
)]
pub struct PatternError {
    /// Its name.
    pub name: String,
    /// The error.
    #[source]
    pub source: regex::Error,
}

/// A pattern of the configuration, ready to run.
#[derive(Debug)]
pub(super) struct Custom {
    pattern: CustomPattern,
    regex: Regex,
}

impl Custom {
    pub(super) fn new(pattern: &CustomPattern) -> Result<Self, PatternError> {
        let regex = RegexBuilder::new(&pattern.pattern)
            .size_limit(MAX_SIZE)
            .dfa_size_limit(MAX_SIZE)
            .build();
        let regex = regex.map_err(|source| PatternError {
            name: pattern.name.clone(),
            source,
        })?;
        Ok(Self {
            pattern: pattern.clone(),
            regex,
        })
    }

    /// Returns its matches in the text as it was sent.
    pub(super) fn hits<'a>(&'a self, text: &str) -> impl Iterator<Item = Hit<'a>> {
        let spans: Vec<_> = self
            .regex
            .find_iter(text)
            .map(|found| found.range())
            .take(MAX_MATCHES)
            .collect();
        spans.into_iter().map(|span| Hit {
            rule: &self.pattern.name,
            pattern: &self.pattern.name,
            category: self.pattern.category,
            severity: self.pattern.severity,
            standing: TextStance::Asserted,
            span,
            decoded: None,
        })
    }
}
