//! The `record` and `metrics` sections.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Text,
    inspection::Level,
    units::{Lapse, Size},
};
use crate::settings::EventFormat;

/// The store and its exports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Record {
    /// Database file; empty for `/var/lib/mcpmon/mcpmon.db` (daemon) or the user's state directory.
    pub(crate) path: String,
    /// File that every event is appended to as a line of JSON; empty for none.
    pub(crate) jsonl: String,
    /// The form of such a line.
    pub(crate) format: EventFormat,
    /// The size limit of that file, beyond which it is put aside as `FILE.1`.
    pub(crate) jsonl_max_size: Text<Size>,
    /// The number of files that are kept so, of which the oldest goes first.
    pub(crate) jsonl_keep: u32,
    /// The time for which events are kept.
    pub(crate) retention: Text<Lapse>,
    /// The size limit of the database; the oldest events go first.
    pub(crate) max_size: Text<Size>,
    /// URL that events are posted to; empty for none.
    pub(crate) webhook_url: String,
    /// File with the key that posts are signed with, which only its owner may read; empty for none.
    pub(crate) webhook_key_file: String,
    /// Severity from which on they are.
    pub(crate) webhook_min_severity: Level,
    /// OpenTelemetry collector that events and metrics are exported to by OTLP over HTTP; empty for none.
    pub(crate) otlp_endpoint: String,
    /// File with headers to send there, a `name: value` in each line, which only its owner may read; empty for none.
    pub(crate) otlp_headers_file: String,
    /// File with the certificate authorities that the collector's certificate is to come from, in PEM; empty for the
    /// public ones.
    pub(crate) otlp_ca_file: String,
    /// True if arguments of calls and texts that matched are exported too.
    pub(crate) otlp_content: bool,
    /// The signals that are exported.
    pub(crate) otlp_signals: Vec<OtlpSignal>,
}

/// A signal of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OtlpSignal {
    /// Events.
    Logs,
    /// Calls, as spans.
    Traces,
    /// Counts and states.
    Metrics,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            path: String::new(),
            jsonl: String::new(),
            format: EventFormat::Mcpmon,
            jsonl_max_size: Text(Size(256 << 20)),
            jsonl_keep: 5,
            retention: Text(Lapse(Duration::from_secs(30 * 86_400))),
            max_size: Text(Size(1 << 30)),
            webhook_url: String::new(),
            webhook_key_file: String::new(),
            webhook_min_severity: Level::High,
            otlp_endpoint: String::new(),
            otlp_headers_file: String::new(),
            otlp_ca_file: String::new(),
            otlp_content: false,
            otlp_signals: vec![OtlpSignal::Logs, OtlpSignal::Traces, OtlpSignal::Metrics],
        }
    }
}

/// Prometheus metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Metrics {
    /// The address they are served at, such as `127.0.0.1:9484`; empty for none.
    pub(crate) listen: String,
    /// True if `listen` may be an address that other hosts reach: names of servers and rules are served to all of them.
    pub(crate) allow_remote: bool,
}
