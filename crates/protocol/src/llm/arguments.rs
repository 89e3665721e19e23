//! Arguments of a tool call, in APIs that carry them as text.

use std::borrow::Cow;

use mcpmon_model::{Input, RawJson};

use super::LlmFault;
use crate::decode::json::{Defect, Doubt, LoneSurrogate, MAX_DEPTH, Malformed, Scanner, canonical};

/// Arguments that an API carries as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arguments<'t> {
    /// None: what calls the tool takes them for an empty object.
    Absent,
    /// JSON.
    Exact(&'t str),
    /// JSON that readers could differ about, and what most of them make of it.
    Canonical(String),
    /// No JSON.
    Malformed(&'t str),
}

impl<'t> Arguments<'t> {
    /// Reads a text that may be empty.
    ///
    /// # Errors
    /// Returns an error if the text is nested too deeply for mcpmon, but perhaps not for other readers.
    pub(super) fn read(text: &'t str) -> Result<Self, LlmFault> {
        match text.trim().is_empty() {
            true => Ok(Self::Absent),
            false => Self::json(text),
        }
    }

    /// Reads a text that should be JSON.
    ///
    /// # Errors
    /// Returns an error as [`Self::read`] does.
    pub(super) fn json(text: &'t str) -> Result<Self, LlmFault> {
        match Scanner::new(MAX_DEPTH).scan(text.as_bytes(), LoneSurrogate::Replace) {
            Ok(scan) if scan.doubt < Doubt::Surrogate => Ok(Self::Exact(text)),
            Ok(scan) => {
                let canonical = canonical(scan.document);
                // A name that cannot be written without an escape stays in doubt.
                Ok(if canonical == text {
                    Self::Exact(text)
                } else {
                    Self::Canonical(canonical)
                })
            }
            Err(error) => match error.defect {
                Defect::Depth | Defect::Range | Defect::Length | Defect::NulInName => Err(unread(error)),
                Defect::Utf8
                | Defect::Unexpected(_)
                | Defect::End
                | Defect::Control(_)
                | Defect::Escape
                | Defect::Surrogate
                | Defect::Number
                | Defect::Trailing => Ok(Self::Malformed(text)),
            },
        }
    }

    /// Returns the text to be written instead, if any.
    pub(super) fn canonical(self) -> Option<String> {
        match self {
            Self::Canonical(text) => Some(text),
            Self::Absent | Self::Exact(_) | Self::Malformed(_) => None,
        }
    }

    pub(super) fn input(&self) -> Input<'_> {
        match self {
            Self::Absent => Input::Json(RawJson::trusted("{}")),
            Self::Exact(text) => Input::Json(RawJson::trusted(text)),
            Self::Canonical(text) => Input::Json(RawJson::trusted(text)),
            Self::Malformed(text) => Input::Malformed(Cow::Borrowed(text)),
        }
    }
}

/// Returns the text of arguments as [`canonical`] writes it.
///
/// # Errors
/// Returns an error if the text is no JSON.
pub(super) fn spelled(text: &str) -> Result<String, LlmFault> {
    let mut scanner = Scanner::new(MAX_DEPTH);
    let scan = scanner.scan(text.as_bytes(), LoneSurrogate::Replace);
    Ok(canonical(scan.map_err(unread)?.document))
}

fn unread(error: Malformed) -> LlmFault {
    LlmFault::malformed(format_args!("the arguments of a tool call: {error}"))
}
