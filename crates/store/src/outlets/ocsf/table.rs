//! The one table from types of events to classes of OCSF.

use mcpmon_model::EventType;

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

/// The outcome that a type of event tells by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Failure,
    /// The event tells that something was begun or asked for.
    Open,
}

/// A type of event as OCSF has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) class: Class,
    /// Number and name of the activity; 99 is one that the class has no number for.
    pub(super) activity: (u64, &'static str),
    pub(super) outcome: Outcome,
    /// The title, for an event that gives no reason.
    pub(super) title: &'static str,
}

const fn row(class: Class, activity: (u64, &'static str), outcome: Outcome, title: &'static str) -> Row {
    Row {
        class,
        activity,
        outcome,
        title,
    }
}

const CREATE: (u64, &str) = (1, "Create");
const LOG: (u64, &str) = (1, "Log");
const READ: (u64, &str) = (2, "Read");

/// Returns the row of a type of event.
pub(super) const fn row_of(event_type: EventType) -> Row {
    use Outcome::{Failure, Open, Success};

    match event_type {
        EventType::ServerStarted => row(PROCESS, (1, "Launch"), Success, "MCP server started"),
        EventType::ServerExited => row(PROCESS, (2, "Terminate"), Success, "MCP server exited"),

        EventType::NetworkConnection => row(NETWORK, (1, "Open"), Open, "Connection of an MCP server"),
        EventType::ConnectionClosed => row(
            NETWORK,
            (2, "Close"),
            Success,
            "Connection of an MCP server closed",
        ),
        EventType::ConnectionCut => row(NETWORK, (3, "Reset"), Open, "Open connection cut"),
        EventType::ProxyBypass => row(
            NETWORK,
            (1, "Open"),
            Open,
            "Connection to a model beside the proxy",
        ),

        EventType::ToolSeen => row(API, READ, Success, "MCP definition listed"),
        EventType::ToolCallIntercepted => row(API, (99, "Judge"), Open, "MCP tool call judged"),
        EventType::ToolCalled => row(API, (99, "Call"), Open, "MCP tool called"),
        EventType::ToolReturned => row(API, (99, "Return"), Success, "MCP tool returned"),
        EventType::ResourceRead => row(API, READ, Open, "MCP resource read"),
        EventType::RequestJudged => row(API, (99, "Judge"), Open, "MCP request judged"),
        EventType::DiscoveryFailed => row(API, READ, Failure, "MCP server gave no answer"),

        EventType::BinaryMismatch => row(FINDING, CREATE, Open, "MCP server differs from its pin"),
        EventType::ServerDenied => row(FINDING, CREATE, Open, "MCP server refused"),
        EventType::ServerUnwrapped => row(FINDING, CREATE, Open, "MCP server without a wrapper"),
        EventType::ServerOrphaned => row(FINDING, CREATE, Open, "MCP server outlives its client"),
        EventType::NameSimilarity => row(FINDING, CREATE, Open, "MCP server has a similar name"),
        EventType::ToolChanged => row(FINDING, CREATE, Open, "MCP definition differs from its pin"),
        EventType::Detection => row(FINDING, CREATE, Open, "Detection in MCP traffic"),
        EventType::OutputInspection => row(FINDING, CREATE, Open, "Detection in the result of an MCP tool"),
        EventType::CrossServerBlocked => row(FINDING, CREATE, Open, "Calls to several MCP servers"),
        EventType::DlpRedaction => row(FINDING, CREATE, Open, "Secret in a request to a model"),
        EventType::TlsMismatch => row(
            FINDING,
            CREATE,
            Open,
            "Certificate of an MCP server differs from its pin",
        ),

        EventType::ServerSandboxed => row(SETTING, LOG, Success, "Sandbox of an MCP server"),
        EventType::Kill => row(SETTING, LOG, Success, "Kill switch"),
        EventType::PolicyLoaded => row(SETTING, LOG, Success, "Policy loaded"),
        EventType::PolicyRejected => row(SETTING, LOG, Failure, "Policy rejected"),
        EventType::EnforcementDegraded => row(SETTING, LOG, Failure, "Enforcement degraded"),
        EventType::EnforcementRestored => row(SETTING, LOG, Success, "Enforcement restored"),

        EventType::DaemonGap => row(LIFECYCLE, (5, "Restart"), Success, "No daemon ran for a while"),
        EventType::EventsLost => row(ERROR, (1, "General Error"), Failure, "Events lost"),
        EventType::Approval => row(BASE, (99, "Approval"), Success, "Approval by a person"),
    }
}
