//! Times in the forms that users write and read.

use std::{str::FromStr, time::Duration};

use mcpmon_model::Timestamp;

/// A moment on the command line: a duration ago, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Ago(Duration),
    At(Timestamp),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time span such as 45s, 30m, 1h or 2d, or a time such as 2026-11-20T12:00:00Z")]
pub(super) struct MomentError;

impl Moment {
    pub(super) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(span) => {
                let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
                Timestamp(now.0.saturating_sub(span))
            }
            Self::At(timestamp) => timestamp,
        }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        if let Some(span) = parse_span(text) {
            return Ok(Self::Ago(span));
        }
        text.parse::<jiff::Timestamp>()
            .ok()
            .and_then(|instant| i64::try_from(instant.as_nanosecond()).ok())
            .map(|nanoseconds| Self::At(Timestamp(nanoseconds)))
            .ok_or(MomentError)
    }
}

fn parse_span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(seconds)
        .map(Duration::from_secs)
}

/// Formats as `11-20 12:00:00`, in UTC: tables are narrow, and most events are younger than a year.
pub(super) fn short(timestamp: Timestamp) -> String {
    let full = mcpmon_store::json::rfc3339(timestamp);
    full.get(5..19).unwrap_or(&full).replace('T', " ")
}

/// Formats a duration in its largest unit, with one decimal below ten: `1.5s`, `12s`, `3.0h`.
pub(super) fn span(milliseconds: u64) -> String {
    let tenths = |unit: u64| milliseconds * 10 / unit;
    let (unit, name) = match milliseconds {
        0..1000 => return format!("{milliseconds}ms"),
        1000..60_000 => (1000, "s"),
        60_000..3_600_000 => (60_000, "m"),
        3_600_000..86_400_000 => (3_600_000, "h"),
        _ => (86_400_000, "d"),
    };
    match milliseconds / unit {
        whole @ 0..10 => format!("{whole}.{}{name}", tenths(unit) % 10),
        whole => format!("{whole}{name}"),
    }
}

/// Returns the current time.
pub(super) fn now() -> Timestamp {
    let nanoseconds = jiff::Timestamp::now().as_nanosecond();
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// Parses the last day on which something is valid, UTC, from an argument.
///
/// # Errors
/// Returns an error if it is not a date, or if the day is over.
pub(super) fn last_day(text: &str) -> Result<jiff::civil::Date, String> {
    let day: jiff::civil::Date = text
        .parse()
        .map_err(|error| format!("not a day (YYYY-MM-DD): {error}"))?;
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    match day < today {
        true => Err(format!("that day is over: today is {today} (UTC)")),
        false => Ok(day),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test_case("45s" => Some(-45))]
    #[test_case("30m" => Some(-1800))]
    #[test_case("1h" => Some(-3600))]
    #[test_case("2d" => Some(-172_800))]
    #[test_case("1970-01-01T01:00:00+01:00" => Some(0); "with offset")]
    #[test_case("1970-01-01T00:00:07Z" => Some(7); "utc")]
    #[test_case("" => None; "nothing")]
    #[test_case("h" => None; "no number")]
    #[test_case("-1h" => None; "negative")]
    #[test_case("+1h" => None; "sign")]
    #[test_case("1.5h" => None; "fraction")]
    #[test_case("1w" => None; "unknown unit")]
    #[test_case("1é" => None; "unit of two bytes")]
    #[test_case("99999999999999999999d" => None; "too large a number")]
    #[test_case("999999999999999999d" => None; "too long a span")]
    #[test_case("2026-11-20" => None; "date alone")]
    #[test_case("1970-01-01T00:00:07" => None; "no zone")]
    #[test_case("9999-01-01T00:00:00Z" => None; "beyond the store")]
    fn moments_from_the_epoch(text: &str) -> Option<i64> {
        let moment: Moment = text.parse().ok()?;
        Some(moment.resolve(Timestamp(0)).0 / SECOND)
    }

    #[test]
    fn a_span_longer_than_time_reaches_its_beginning() {
        let moment: Moment = "9999999999d".parse().unwrap();
        assert_eq!(moment.resolve(Timestamp(-5)), Timestamp(i64::MIN));
    }

    #[test_case(7 => "7ms")]
    #[test_case(1500 => "1.5s")]
    #[test_case(59_999 => "59s")]
    #[test_case(60_000 => "1.0m")]
    #[test_case(7_200_000 => "2.0h")]
    #[test_case(864_000_000 => "10d")]
    fn spans(milliseconds: u64) -> String {
        span(milliseconds)
    }

    #[test_case("9999-12-31" => true; "a day to come")]
    #[test_case("2020-01-31" => false; "a day that is over")]
    #[test_case("2027-02-30" => false; "no day")]
    #[test_case("tomorrow" => false; "a word")]
    fn last_days(text: &str) -> bool {
        last_day(text).is_ok()
    }

    #[test]
    fn times_in_tables_are_short() {
        assert_eq!(short(Timestamp(1_795_176_000_999_999_999)), "11-20 12:00:00");
    }
}
