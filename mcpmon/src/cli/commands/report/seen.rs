//! Visibility of a session: only a daemon sees connections, and servers without a wrapper.

use mcpmon_store::{SessionSummary, Span, StoreReader, StoredEvent};

use crate::cli::CliError;

/// The part of a session that a daemon watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum WatchedPart {
    /// The whole session.
    #[default]
    Whole,
    /// The session without these times.
    Partly(Vec<Span>),
    /// No part of it.
    Not,
}

impl WatchedPart {
    pub(super) fn of(
        reader: &StoreReader,
        summary: Option<&SessionSummary>,
        events: &[StoredEvent],
    ) -> Result<Self, CliError> {
        let times = || events.iter().map(|event| event.timestamp);
        let since = times().chain(summary.map(|summary| summary.started)).min();
        let until = times().chain(summary.and_then(|summary| summary.ended)).max();
        // A session of which only the start is known has no end.
        let (Some(since), Some(until)) = (since, until.or(since)) else {
            return Ok(Self::Not);
        };
        let span = Span { since, until };
        let gaps = reader.unwatched(span)?;
        Ok(match gaps.as_slice() {
            [] => Self::Whole,
            [gap] if *gap == span => Self::Not,
            _ => Self::Partly(gaps),
        })
    }

    /// Returns the name in JSON.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Partly(_) => "partly",
            Self::Not => "no",
        }
    }

    /// Returns the times in which connections and servers without a wrapper were not seen. They are empty if nothing
    /// was watched.
    pub(super) fn gaps(&self) -> &[Span] {
        match self {
            Self::Partly(gaps) => gaps,
            Self::Whole | Self::Not => &[],
        }
    }
}
