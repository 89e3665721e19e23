//! Panes: the lists that are shown, each a table with orders of its own.

use uuid::Uuid;

use crate::cli::table::{Row, Table};

/// The lists, in the order of their tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pane {
    Sessions,
    Servers,
    Calls,
    Connections,
    Detections,
    Approvals,
}

/// The subject of an entry: what is opened with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Event(Uuid),
    Server(String),
    Session(String),
}

/// A value by which entries are ordered; the greatest comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Number(u64),
    /// The first in the alphabet comes first.
    Name(std::cmp::Reverse<String>),
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) subject: Subject,
    pub(super) row: Row,
    /// One for each order of the pane.
    pub(super) keys: Vec<Key>,
    /// What waits for the word of a person.
    pub(super) question: Option<Question>,
}

/// Something that waits for the word of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// As `mcpmon approvals` names it.
    pub(super) subject: String,
    /// The definition that is answered for, and no later one of the same name.
    pub(super) hash: Option<String>,
}

/// A list: its columns, and its entries.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) table: Table,
    pub(super) entries: Vec<Entry>,
}

impl Pane {
    pub(super) const ALL: [Self; 6] = [
        Self::Sessions,
        Self::Servers,
        Self::Calls,
        Self::Connections,
        Self::Detections,
        Self::Approvals,
    ];

    /// The title of its tab.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Sessions => "Sessions",
            Self::Servers => "Servers",
            Self::Calls => "Calls",
            Self::Connections => "Connections",
            Self::Detections => "Detections",
            Self::Approvals => "Approvals",
        }
    }

    /// Names of its orders, the first of which is in use from the start; each is followed by the others.
    pub(super) const fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Sessions => &["newest", "calls", "name"],
            Self::Servers => &["state", "name", "memory", "processor", "calls"],
            Self::Calls | Self::Connections | Self::Detections => &["newest", "severity", "server"],
            Self::Approvals => &["waiting", "newest", "name"],
        }
    }

    /// What an empty list means.
    pub(super) const fn when_empty(self) -> &'static str {
        match self {
            Self::Sessions => "no session yet: agents that start servers through mcpmon have one",
            Self::Servers => "no server yet: start one with `mcpmon wrap -- COMMAND`",
            Self::Calls => "no tool was called yet",
            Self::Connections => "no connections: only a daemon sees them",
            Self::Detections => "nothing was found",
            Self::Approvals => "nothing waits for an answer",
        }
    }

    pub(super) fn index(self) -> usize {
        Self::ALL
            .iter()
            .position(|pane| *pane == self)
            .unwrap_or_default()
    }
}

impl Key {
    pub(super) fn name(name: &str) -> Self {
        Self::Name(std::cmp::Reverse(name.to_lowercase()))
    }

    /// Of a time: the latest is the greatest.
    pub(super) fn time(at: mcpmon_model::Timestamp) -> Self {
        Self::Number(u64::try_from(at.0).unwrap_or_default())
    }
}

impl Listed {
    /// The entries that contain `filter`, in the order of this number.
    pub(super) fn shown(&self, filter: &str, order: usize) -> Vec<&Entry> {
        let filter = filter.to_lowercase();
        let mut shown: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.row.contains(&filter))
            .collect();
        shown.sort_by(|one, other| {
            let by_order = other.keys.get(order).cmp(&one.keys.get(order));
            by_order.then_with(|| other.keys.cmp(&one.keys))
        });
        shown
    }
}
