//! The one place that asks for the time of day.

use mcpmon_model::Timestamp;

/// Now, in nanoseconds since the epoch.
pub fn now() -> Timestamp {
    Timestamp(
        jiff::Timestamp::now()
            .as_nanosecond()
            .try_into()
            .unwrap_or(i64::MAX),
    )
}
