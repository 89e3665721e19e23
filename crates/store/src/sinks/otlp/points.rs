//! Metrics as data points, cumulative since the start of the process.

use super::{
    messages::{
        AnyKind, Gauge, Histogram, HistogramPoint, KeyValue, MetricData, MetricMessage, NumberPoint, Sum,
        Temporality,
    },
    names::{self, LABELS, PREFIX},
};
use crate::metrics::{
    DURATION_BOUNDS, MetricFamily, MetricKind, MetricUnit, MetricValue, Sample, table::CALL_DURATION,
};

/// Returns the message of a family; `started` and `now` are in nanoseconds since the epoch.
pub(super) fn message(family: &MetricFamily, started: u64, now: u64) -> MetricMessage {
    let metric = &family.metric;
    let numbers = || {
        family
            .samples
            .iter()
            .filter_map(|sample| number(family, sample, started, now))
    };
    let data = match metric.kind {
        MetricKind::Counter => MetricData::Sum(Sum {
            data_points: numbers().collect(),
            aggregation_temporality: Temporality::Cumulative.into(),
            is_monotonic: true,
        }),
        MetricKind::Gauge => MetricData::Gauge(Gauge {
            data_points: numbers().collect(),
        }),
        MetricKind::Histogram => {
            let points = family
                .samples
                .iter()
                .filter_map(|sample| durations(family, sample, started, now));
            MetricData::Histogram(Histogram {
                data_points: points.collect(),
                aggregation_temporality: Temporality::Cumulative.into(),
            })
        }
    };
    let unit = match metric.unit {
        MetricUnit::One => "1",
        MetricUnit::Seconds => "s",
        MetricUnit::Bytes => "By",
    };
    MetricMessage {
        name: metric.otlp_name.to_owned(),
        description: format!("{}.", metric.help),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

fn number(family: &MetricFamily, sample: &Sample, started: u64, now: u64) -> Option<NumberPoint> {
    let MetricValue::Number(value) = sample.value else {
        return None;
    };
    Some(NumberPoint {
        attributes: attributes(family, sample),
        start_time_unix_nano: started,
        time_unix_nano: now,
        as_int: i64::try_from(value).unwrap_or(i64::MAX),
    })
}

fn durations(family: &MetricFamily, sample: &Sample, started: u64, now: u64) -> Option<HistogramPoint> {
    let MetricValue::Durations(durations) = &sample.value else {
        return None;
    };
    Some(HistogramPoint {
        attributes: attributes(family, sample),
        start_time_unix_nano: started,
        time_unix_nano: now,
        count: durations.count(),
        sum: Some(durations.sum),
        bucket_counts: durations.classes.to_vec(),
        explicit_bounds: DURATION_BOUNDS.to_vec(),
    })
}

fn attributes(family: &MetricFamily, sample: &Sample) -> Vec<KeyValue> {
    let named = |name: &str| {
        let row = LABELS.iter().find(|(label, _)| *label == name);
        row.map_or_else(|| format!("{PREFIX}{name}"), |(_, key)| (*key).to_owned())
    };
    let present = sample.labels.iter().filter(|(_, value)| !value.is_empty());
    let mut attributes: Vec<KeyValue> = present
        .map(|(name, value)| KeyValue::new(&named(name), AnyKind::Text(value.clone())))
        .collect();
    if family.metric == CALL_DURATION {
        // The conventions require it.
        attributes.push(KeyValue::text(names::METHOD, names::CALL));
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Durations, table::CALLS};

    #[test]
    fn counts_are_cumulative_and_labels_have_the_names_of_the_table() {
        let labels = vec![("server", "files".to_owned()), ("rule", String::new())];
        let message = message(&MetricFamily::labelled(CALLS, [(labels, 3)]), 1, 2);
        let Some(MetricData::Sum(sum)) = &message.data else {
            panic!("a counter is a sum: {message:?}");
        };
        let [point] = sum.data_points.as_slice() else {
            panic!("one point: {sum:?}");
        };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        assert_eq!(
            (point.as_int, point.start_time_unix_nano, point.time_unix_nano),
            (3, 1, 2)
        );
        assert_eq!(point.attributes, [KeyValue::text("mcpmon.server.id", "files")]);
    }

    #[test]
    fn durations_have_one_count_more_than_bounds() {
        let mut durations = Durations::default();
        durations.add(0.3);
        let family = MetricFamily {
            metric: CALL_DURATION,
            samples: vec![Sample {
                labels: Vec::new(),
                value: MetricValue::Durations(durations),
            }],
        };
        let message = message(&family, 1, 2);
        let Some(MetricData::Histogram(histogram)) = &message.data else {
            panic!("durations are a histogram: {message:?}");
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!((message.unit.as_str(), point.count), ("s", 1));
        assert_eq!(
            point.attributes,
            [KeyValue::text("mcp.method.name", "tools/call")]
        );
    }
}
