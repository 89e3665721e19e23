//! Metrics as OpenMetrics text.

use std::fmt;

use mcpmon_store::metrics::{DURATION_BOUNDS, Durations, MetricFamily, MetricKind, MetricUnit, MetricValue};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

/// Returns the text of these families.
pub(super) fn text(families: Vec<MetricFamily>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Families(Vec<MetricFamily>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut present = self.0.iter().filter(|family| !family.samples.is_empty());
        present.try_for_each(|family| encode_family(&mut encoder, family))
    }
}

fn encode_family(encoder: &mut DescriptorEncoder<'_>, family: &MetricFamily) -> fmt::Result {
    let metric = &family.metric;
    let kind = match metric.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
    };
    let unit = match metric.unit {
        MetricUnit::One => None,
        MetricUnit::Seconds => Some(Unit::Seconds),
        MetricUnit::Bytes => Some(Unit::Bytes),
    };
    let help = format!("{}.", metric.help);
    let mut encoder = encoder.encode_descriptor(metric.name, &help, unit.as_ref(), kind)?;
    for sample in &family.samples {
        let encoder = encoder.encode_family(&sample.labels)?;
        encode_value(encoder, metric.kind, &sample.value)?;
    }
    Ok(())
}

fn encode_value(mut encoder: MetricEncoder<'_>, kind: MetricKind, value: &MetricValue) -> fmt::Result {
    match value {
        MetricValue::Durations(durations) => {
            let classes: Vec<(f64, u64)> = classes(durations).collect();
            encoder.encode_histogram::<NoLabelSet>(durations.sum, durations.count(), &classes, None)
        }
        MetricValue::Number(number) if kind == MetricKind::Counter => {
            ConstCounter::new(*number).encode(encoder)
        }
        MetricValue::Number(number) => ConstGauge::new(*number).encode(encoder),
    }
}

/// Returns each class with its upper bound, which is the largest number for the last.
fn classes(durations: &Durations) -> impl Iterator<Item = (f64, u64)> {
    let bounds = DURATION_BOUNDS.into_iter().chain([f64::MAX]);
    bounds.zip(durations.classes)
}

#[cfg(test)]
mod tests {
    use mcpmon_store::metrics::{
        Sample,
        table::{BUILD, CALL_DURATION, CALLS, STORE_SIZE},
    };

    use super::*;

    #[test]
    fn metrics_are_text_that_a_name_cannot_break() {
        let mut durations = Durations::default();
        durations.add(0.004);
        durations.add(400.0);
        let labels = vec![("server", "a\"b\\\n".to_owned()), ("rule", String::new())];
        let families = vec![
            MetricFamily::labelled(CALLS, [(labels, 3)]),
            MetricFamily::single(STORE_SIZE, 4096),
            MetricFamily::labelled(BUILD, []),
            MetricFamily {
                metric: CALL_DURATION,
                samples: vec![Sample {
                    labels: vec![("server", "files".to_owned())],
                    value: MetricValue::Durations(durations),
                }],
            },
        ];
        insta::assert_snapshot!(text(families).expect("a string takes all"), @"");
    }
}
