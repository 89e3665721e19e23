//! Panes: the lists that are shown, each a table with its own orders.

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

/// The subject of an entry, which is opened with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PaneSubject {
    Event(Uuid),
    Server(String),
    Session(String),
}

/// A value by which entries are ordered, greatest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SortKey {
    Number(u64),
    /// The name that is first in the alphabet comes first.
    Name(std::cmp::Reverse<String>),
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PaneEntry {
    pub(super) subject: PaneSubject,
    pub(super) row: Row,
    /// A key for each order of the pane.
    pub(super) keys: Vec<SortKey>,
    /// The question that waits for a person's decision.
    pub(super) question: Option<PaneQuestion>,
}

/// A question that waits for a person's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PaneQuestion {
    /// The subject's name in `mcpmon approvals`.
    pub(super) subject: String,
    /// The hash of the definition that is answered for, so that a later version with the same name is not.
    pub(super) hash: Option<String>,
}

/// A list: its columns and its entries.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) table: Table,
    pub(super) entries: Vec<PaneEntry>,
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

    /// Returns the title of its tab.
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

    /// Returns the names of its orders. The first one is used at the start; entries that are equal in one order are
    /// ordered by the others.
    pub(super) const fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Sessions => &["newest", "calls", "name"],
            Self::Servers => &["state", "name", "memory", "processor", "calls"],
            Self::Calls | Self::Connections | Self::Detections => &["newest", "severity", "server"],
            Self::Approvals => &["waiting", "newest", "name"],
        }
    }

    /// Returns the text that explains an empty list.
    pub(super) const fn when_empty(self) -> &'static str {
        match self {
            Self::Sessions => "no session yet: agents that start servers through mcpmon have one",
            Self::Servers => "no server yet: start one with `mcpmon wrap -- COMMAND`",
            Self::Calls => "no tool was called yet",
            Self::Connections => "no connections: only the daemon sees them",
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

impl SortKey {
    pub(super) fn name(name: &str) -> Self {
        Self::Name(std::cmp::Reverse(name.to_lowercase()))
    }

    /// Makes the key for a time: the latest is the greatest.
    pub(super) fn time(at: mcpmon_model::Timestamp) -> Self {
        Self::Number(u64::try_from(at.0).unwrap_or_default())
    }
}

impl Listed {
    /// Returns the entries that contain `filter`, in the order with this number.
    pub(super) fn shown(&self, filter: &str, order: usize) -> Vec<&PaneEntry> {
        let filter = filter.to_lowercase();
        let mut shown: Vec<&PaneEntry> = self
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
