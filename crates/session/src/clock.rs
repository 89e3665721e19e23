//! The clock: the only place that reads the time of day.

use mcpmon_model::Timestamp;

/// Returns the current time, in nanoseconds since the epoch.
pub fn now() -> Timestamp {
    Timestamp(
        jiff::Timestamp::now()
            .as_nanosecond()
            .try_into()
            .unwrap_or(i64::MAX),
    )
}
