//! The table of OCSF classes for mcpmon's activities.

use mcpmon_model::{EventActivity, EventOutcome, EventType};

/// A class of OCSF: its number, its name, and its category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) uid: u64,
    pub(super) name: &'static str,
    pub(super) category: (u64, &'static str),
}

pub(super) const BASE: Class = Class {
    uid: 0,
    name: "Base Event",
    category: (0, "Uncategorized"),
};
pub(super) const PROCESS: Class = Class {
    uid: 1007,
    name: "Process Activity",
    category: (1, "System Activity"),
};
pub(super) const FINDING: Class = Class {
    uid: 2004,
    name: "Detection Finding",
    category: (2, "Findings"),
};
pub(super) const NETWORK: Class = Class {
    uid: 4001,
    name: "Network Activity",
    category: (4, "Network Activity"),
};
pub(super) const SETTING: Class = Class {
    uid: 5019,
    name: "Device Config State Change",
    category: (5, "Discovery"),
};
pub(super) const LIFECYCLE: Class = Class {
    uid: 6002,
    name: "Application Lifecycle",
    category: (6, "Application Activity"),
};
pub(super) const API: Class = Class {
    uid: 6003,
    name: "API Activity",
    category: (6, "Application Activity"),
};
pub(super) const ERROR: Class = Class {
    uid: 6008,
    name: "Application Error",
    category: (6, "Application Activity"),
};

/// A type of event in OCSF.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) class: Class,
    /// Number and name of the activity; 99 for one without a number in the class.
    pub(super) activity: (u64, &'static str),
    pub(super) outcome: EventOutcome,
    /// The title of an event without a reason.
    pub(super) title: &'static str,
}

/// Returns the row of a type of event.
pub(super) const fn row_of(event_type: EventType) -> Row {
    let (class, activity) = class_of(event_type.activity());
    Row {
        class,
        activity,
        outcome: event_type.outcome(),
        title: event_type.title(),
    }
}

const fn class_of(activity: EventActivity) -> (Class, (u64, &'static str)) {
    match activity {
        EventActivity::Launch => (PROCESS, (1, "Launch")),
        EventActivity::Exit => (PROCESS, (2, "Terminate")),
        EventActivity::Connection => (NETWORK, (1, "Open")),
        EventActivity::Close => (NETWORK, (2, "Close")),
        EventActivity::Cut => (NETWORK, (3, "Reset")),
        EventActivity::Read => (API, (2, "Read")),
        EventActivity::Judgement => (API, (99, "Judge")),
        EventActivity::Call => (API, (99, "Call")),
        EventActivity::Return => (API, (99, "Return")),
        EventActivity::Finding => (FINDING, (1, "Create")),
        EventActivity::Setting => (SETTING, (1, "Log")),
        EventActivity::Restart => (LIFECYCLE, (5, "Restart")),
        EventActivity::Loss => (ERROR, (1, "General Error")),
        EventActivity::Approval => (BASE, (99, "Approval")),
    }
}
