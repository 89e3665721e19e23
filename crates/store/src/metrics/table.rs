//! The table of metrics: each with its name for Prometheus, its name for OpenTelemetry, and its unit.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that never decreases.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution of durations.
    Histogram,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// A plain number.
    One,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name for Prometheus, without the suffixes of its unit and kind.
    pub name: &'static str,
    /// The name for OpenTelemetry, from its conventions if they have one.
    pub otlp_name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The unit.
    pub unit: MetricUnit,
    /// The meaning, as a sentence without its full stop.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $unit:ident $name:literal $otlp_name:literal $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric {
                name: $name,
                otlp_name: $otlp_name,
                kind: MetricKind::$kind,
                unit: MetricUnit::$unit,
                help: $help,
            };
        )*

        /// Every metric, in the order of the table.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    CALLS: Counter One "mcpmon_calls" "mcpmon.calls"
        "Tool calls by server, verdict and the rule that decided";
    CALL_DURATION: Histogram Seconds "mcpmon_call_duration" "mcp.server.operation.duration"
        "Time from the judgement of a tool call to its answer";
    EVENTS: Counter One "mcpmon_events" "mcpmon.events"
        "Recorded events by type";
    DETECTIONS: Counter One "mcpmon_detections" "mcpmon.detections"
        "Matches of the inspection by severity";
    CONNECTIONS: Counter One "mcpmon_connections" "mcpmon.connections"
        "Reported connections by direction and verdict";
    EVENTS_LOST: Counter One "mcpmon_events_lost" "mcpmon.events.lost"
        "Records that are missing, by the class of place where they were lost";
    ENFORCEMENT_EFFECTIVE: Gauge One "mcpmon_enforcement_effective" "mcpmon.enforcement.effective"
        "1 where the latest self-test proved that the component works, else 0";
    KERNEL: Counter One "mcpmon_kernel" "mcpmon.kernel"
        "Counters of the kernel programs";
    POLICY: Gauge One "mcpmon_policy_info" "mcpmon.policy.info"
        "The policy in force, by its digest";
    BUILD: Gauge One "mcpmon_build_info" "mcpmon.build.info"
        "The version that runs";
    START: Gauge Seconds "process_start_time" "mcpmon.process.start_time"
        "Start of the process, seconds since the epoch";
    SERVERS: Gauge One "mcpmon_servers" "mcpmon.servers"
        "Servers that run, or remote ones that are offered";
    SESSIONS: Gauge One "mcpmon_sessions" "mcpmon.sessions"
        "Sessions by the layer that knows them";
    SERVER_STARTS: Counter One "mcpmon_server_starts" "mcpmon.server.starts"
        "Starts of servers that were seen, by whether a wrapper carried them";
    KILL_SWITCHES: Gauge One "mcpmon_kill_switches" "mcpmon.kill_switches"
        "Kill switches in force";
    STORE_SIZE: Gauge Bytes "mcpmon_store" "mcpmon.store.size"
        "Size of the store on the disk";
    QUEUE: Gauge One "mcpmon_record_queue" "mcpmon.record.queue"
        "Records that wait to be written";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of a metric's samples in Prometheus: `mcpmon_calls_total`, `mcpmon_call_duration_seconds`.
    fn prometheus_name(metric: &Metric) -> String {
        let unit = match metric.unit {
            MetricUnit::One => "",
            MetricUnit::Seconds => "_seconds",
            MetricUnit::Bytes => "_bytes",
        };
        let total = match metric.kind {
            MetricKind::Counter => "_total",
            MetricKind::Gauge | MetricKind::Histogram => "",
        };
        format!("{}{unit}{total}", metric.name)
    }

    #[test]
    fn every_metric_is_documented_and_nothing_else_is() {
        let page = include_str!("../../../../docs/telemetry.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: Vec<(&str, &str)> = rows
            .filter_map(|row| {
                let (name, rest) = row.split_once("` | `")?;
                let (otlp_name, _) = rest.split_once('`')?;
                let is_metric = name.starts_with("mcpmon_") || name.starts_with("process_");
                is_metric.then_some((name, otlp_name))
            })
            .collect();
        let names: Vec<String> = ALL.iter().map(prometheus_name).collect();
        let table: Vec<(&str, &str)> = names
            .iter()
            .zip(ALL)
            .map(|(name, metric)| (name.as_str(), metric.otlp_name))
            .collect();
        assert_eq!(documented, table);
    }
}
